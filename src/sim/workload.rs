//! A Deployment as the API shows it.
//!
//! Must not do what its controller does.

use serde_json::{Value, json};

/// A Deployment with its ReplicaSet.
#[derive(Debug, Clone)]
pub struct Workload {
    pub(super) name: String,
    pub(super) namespace: &'static str,
    pub(super) replicas: usize,
    pub(super) generation: u64,
    /// Value of the annotation that its new Pods get.
    pub(super) value: String,
    /// Why the API server refuses its Pods, where it lacks some.
    pub(super) failure: Option<String>,
}

impl Workload {
    pub(super) fn set(&self) -> String {
        format!("{}-set", self.name)
    }

    /// Its ReplicaSet.
    pub(super) fn object(&self) -> Value {
        let failure =
            self.failure.as_ref().map(|why| json!({ "type": "ReplicaFailure", "status": "True", "message": why }));
        json!({
            "metadata": { "name": self.set(), "namespace": self.namespace, "uid": self.set(),
                "generation": self.generation, "resourceVersion": "1", "ownerReferences": [{ "apiVersion": "apps/v1",
                    "controller": true, "kind": "Deployment", "name": self.name, "uid": self.name }] },
            "spec": { "replicas": self.replicas, "template": { "metadata": { "labels": { "app": self.name } } } },
            "status": { "observedGeneration": self.generation, "conditions": failure.into_iter().collect::<Vec<_>>() },
        })
    }

    pub(super) fn is_of(&self, pod: &Value) -> bool {
        pod["metadata"]["ownerReferences"][0]["uid"] == self.set()
    }
}
