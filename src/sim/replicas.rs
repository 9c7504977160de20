//! Deployments: the controller of their ReplicaSets, and evictions under a PodDisruptionBudget.
//!
//! Must not know who evicts.

use serde_json::{Value, json};

use super::status::is_ready;
use super::workload::Workload;
use super::world::{Event, World};

impl World {
    /// A Deployment has so many replicas, whose Pods are labelled `app` with its name.
    pub fn scale(&mut self, name: &str, replicas: usize) {
        let new = || Workload {
            name: name.to_owned(),
            namespace: self.namespace,
            replicas,
            generation: 0,
            value: String::new(),
            failure: None,
        };
        let mut workload = self.workloads.get(name).cloned().unwrap_or_else(new);
        (workload.replicas, workload.generation) = (replicas, workload.generation + 1);
        self.put_workload(workload);
    }

    /// New Pods of all Deployments get this value of the annotation.
    pub fn set_value(&mut self, value: &str) {
        self.workloads.values_mut().for_each(|workload| value.clone_into(&mut workload.value));
    }

    fn put_workload(&mut self, workload: Workload) {
        self.show(Event::ReplicaSet(workload.object()));
        self.workloads.insert(workload.name.clone(), workload);
    }

    /// What the ReplicaSet controller does: another Pod for each that is missing; where there are too many, some go.
    pub fn control_replicas(&mut self) {
        for workload in self.workloads.clone().into_values() {
            let is_there = |pod: &&Value| workload.is_of(pod) && pod["metadata"]["deletionTimestamp"].is_null();
            let there: Vec<String> = self.pods.values().filter(is_there).map(name).collect();
            there.iter().skip(workload.replicas).for_each(|pod| self.delete(pod));
            let lacks = workload.replicas.saturating_sub(there.len());
            if self.refuses.is_none() {
                (0..lacks).for_each(|_| self.create_replica(&workload));
            }
            let failure = self.refuses.clone().filter(|_| lacks > 0);
            if failure != workload.failure {
                self.put_workload(Workload { failure, ..workload });
            }
        }
    }

    /// On the node with the fewest Pods.
    fn create_replica(&mut self, workload: &Workload) {
        let nodes = self.open_nodes();
        let Some(node) = nodes.iter().min_by_key(|node| self.pods_on(node).len()) else { return };
        let metadata =
            json!({ "labels": { "app": workload.name }, "annotations": { self.annotation: workload.value } });
        let owner = json!({ "kind": "ReplicaSet", "name": workload.set(), "uid": workload.set() });
        self.create(metadata, &owner, node);
    }

    /// An eviction; what a PodDisruptionBudget says against it, if it does.
    pub fn evict(&mut self, pod: &str) -> Result<(), String> {
        let Some(found) = self.pods.get(pod) else { return Ok(()) };
        let is_sibling = |other: &&Value| other["metadata"]["ownerReferences"] == found["metadata"]["ownerReferences"];
        let siblings = self.pods.values().filter(is_sibling);
        let healthy = siblings.filter(|pod| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()).count();
        let needed = self.min_available.map_or(0, |min| min + usize::from(is_ready(found)));
        if healthy < needed {
            return Err("Cannot evict pod as it would violate the pod's disruption budget".to_owned());
        }
        self.delete(pod);
        Ok(())
    }
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
