//! The objects of a component: its workload, and what belongs to it.
//!
//! Pure. Must not know a component by name, nor what of it exists.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Resource;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::blueprint::{Blueprint, DATA, companion_name, files_name, labels_of, secret_name, workload_name};
use super::reads::{awaits, mounts as mounts_of, revision, secret_revision, volumes as volumes_of};
use super::resolve::Resolved;
use crate::api::manager::Manager;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::{ADDRESSES, TEMPLATE, TRUSTS};
use crate::k8s::hex::hex;
use crate::stack::table::Workload;

/// The content of an entry whose name says all. One without content could be removed, and would not be missed.
const MARK: &str = "there";

impl Blueprint<'_> {
    /// All its objects, what its workload needs before that.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let row = self.row();
        let mut objects = Vec::new();
        if !row.files.is_empty() {
            let mut data = self.files.data.clone();
            data.extend(self.earlier.iter().map(|of| (revision(of), MARK.to_owned())));
            data.insert(revision(&self.files.revision), MARK.to_owned());
            let name = files_name(row, &self.component.name);
            objects.push(self.object("v1", "ConfigMap", &name, ("data", &json!(data))));
        }
        if !self.files.secret.is_empty() {
            let revisions = self.earlier.iter().chain([&self.files.revision]);
            let marks = revisions.map(|of| (secret_revision(of), MARK.to_owned()));
            let data = self.files.secret.clone().into_iter().chain(marks);
            let data: BTreeMap<String, String> = data.map(|(key, text)| (key, STANDARD.encode(text))).collect();
            objects.push(self.object("v1", "Secret", &secret_name(row, &self.component.name), ("data", &json!(data))));
        }
        if !row.ports.is_empty() {
            let ports: Vec<Value> =
                row.ports.iter().map(|(name, port)| json!({ "name": name, "port": port, "protocol": "TCP" })).collect();
            let spec = json!({ "selector": self.selector(), "ports": ports });
            objects.push(self.object("v1", "Service", &companion_name(row, &self.component.name), ("spec", &spec)));
        }
        if row.store.is_some() {
            let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": self.selector() } });
            let name = companion_name(row, &self.component.name);
            objects.push(self.object("policy/v1", "PodDisruptionBudget", &name, ("spec", &spec)));
        }
        objects.push(self.workload());
        objects
    }

    /// The hash that its Pods carry.
    #[must_use]
    pub fn hash(&self) -> String {
        hash_of(&self.template())
    }

    fn workload(&self) -> Value {
        let (row, component) = (self.row(), self.component);
        let mut template = self.template();
        let mut annotations = json!({ TEMPLATE: hash_of(&template) });
        if let Some(marks) = self.marks {
            annotations[TRUSTS] = marks.trusts.clone().into();
        }
        template["metadata"]["annotations"] = annotations;
        let mut spec = json!({ "selector": { "matchLabels": self.selector() }, "template": template,
            "updateStrategy": { "type": "OnDelete" } });
        let name = workload_name(row, &component.name);
        if row.workload == Workload::StatefulSet {
            spec["replicas"] = self.nodes.len().into();
            spec["podManagementPolicy"] = "Parallel".into();
            spec["serviceName"] = name.clone().into();
            if let Some(store) = &row.store {
                let claim = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": self.table.storage_class,
                    "resources": { "requests": { "storage": store.size } } });
                spec["volumeClaimTemplates"] = json!([{ "metadata": { "name": DATA }, "spec": claim }]);
            }
        }
        let mut workload = self.object("apps/v1", &row.workload.to_string(), &name, ("spec", &spec));
        if row.workload == Workload::StatefulSet {
            let all = self.nodes.iter().zip(self.peers).map(|(node, peer)| format!("{node}={}", peer.address));
            let all = all.collect::<Vec<String>>().join(",");
            let annotations = &mut workload["metadata"]["annotations"];
            let own = annotations[APPLIED_ANNOTATION].as_str().unwrap_or_default();
            annotations[APPLIED_ANNOTATION] = format!("{own}{}", sealed(&all)).into();
            annotations[ADDRESSES] = all.into();
        }
        workload
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, (key, content): (&str, &Value)) -> Value {
        let (manager, labels) = (self.manager, self.labels());
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name,
            "namespace": manager.namespace, "labels": labels, "ownerReferences": [owner(manager)] }, key: content });
        object["metadata"]["annotations"] = json!({ APPLIED_ANNOTATION: short(&object) });
        object
    }

    /// Labels that tell a component's Pods from all others.
    fn selector(&self) -> BTreeMap<String, String> {
        labels_of(self.table, self.row(), &self.component.name)
    }

    /// All its labels: an entry's own take none of those away.
    fn labels(&self) -> BTreeMap<String, String> {
        self.component.labels.clone().into_iter().chain(self.selector()).collect()
    }

    fn template(&self) -> Value {
        let (row, component) = (self.row(), self.component);
        let labels = self.labels();
        let mut volumes: Vec<Value> =
            row.host_paths.iter().map(|(name, path)| json!({ "name": name, "hostPath": { "path": path } })).collect();
        volumes.extend(row.scratch.keys().map(|name| json!({ "name": name, "emptyDir": {} })));
        volumes.extend(volumes_of(self));
        let mut spec = json!({
            "hostNetwork": true,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "serviceAccountName": self.table.service_account,
            "tolerations": component.tolerations,
            "initContainers": self.containers(&row.init),
            "containers": self.containers(&row.containers),
        });
        let secrets: Vec<Value> = component.pull_secrets.iter().map(|name| json!({ "name": name })).collect();
        let selector = Value::Object(
            component.node_selector.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect(),
        );
        for (key, value, is_there) in [
            ("volumes", Value::from(volumes.clone()), !volumes.is_empty()),
            ("imagePullSecrets", Value::from(secrets.clone()), !secrets.is_empty()),
            ("nodeSelector", selector, !component.node_selector.is_empty()),
            ("affinity", self.affinity(), row.workload == Workload::StatefulSet),
        ] {
            if is_there {
                spec[key] = value;
            }
        }
        json!({ "metadata": { "labels": labels }, "spec": spec })
    }

    fn containers(&self, names: &[String]) -> Vec<Value> {
        let row = self.row();
        let own = |name: &String| {
            let container = self.component.containers.get(name)?;
            let folders = row.host_paths.iter().chain(&row.scratch);
            let mut mounts: Vec<Value> =
                folders.map(|(volume, path)| json!({ "name": volume, "mountPath": path })).collect();
            let has_data = row.containers.first() == Some(name) || row.init.contains(name);
            if let Some(store) = row.store.as_ref().filter(|_| has_data) {
                mounts.push(json!({ "name": DATA, "mountPath": store.path }));
            }
            mounts.extend(mounts_of(self));
            let address = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
            let mut all = Map::new();
            all.insert("name".to_owned(), name.clone().into());
            all.insert("image".to_owned(), container.image.clone().into());
            let mut environment = vec![json!({ "name": "POD_IP", "valueFrom": address })];
            let is_first = row.reads() && row.init.first() == Some(name);
            if is_first {
                environment.push(json!({ "name": "AWAITS", "value": awaits(self) }));
            }
            all.insert("env".to_owned(), environment.into());
            let command = Some(&container.command).filter(|command| !command.is_empty());
            let waits = Some(&self.table.waits).filter(|_| is_first);
            if let Some(command) = command.or_else(|| row.commands.get(name)).or(waits) {
                all.insert("command".to_owned(), command.clone().into());
            }
            if let Some(serves) = row.serves.get(name) {
                let mut probe = json!({ "periodSeconds": 5, "timeoutSeconds": 15 });
                match serves.port {
                    Some(port) => probe["tcpSocket"] = json!({ "port": port }),
                    None => probe["exec"] = json!({ "command": serves.command }),
                }
                all.insert("readinessProbe".to_owned(), probe);
            }
            let requests = row.requests.get(name).map(|requests| json!({ "requests": requests }));
            let own = container.resources.as_ref().map(|resources| json!(resources));
            if let Some(resources) = own.or(requests) {
                all.insert("resources".to_owned(), resources);
            }
            if !mounts.is_empty() {
                all.insert("volumeMounts".to_owned(), mounts.into());
            }
            if row.privileged {
                all.insert("securityContext".to_owned(), json!({ "privileged": true }));
            }
            Some(Value::Object(all))
        };
        names.iter().filter_map(own).collect()
    }

    /// Each server on a node of its own, and only on those that were chosen.
    fn affinity(&self) -> Value {
        let term =
            |node: &String| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let terms: Vec<Value> = self.nodes.iter().map(term).collect();
        let apart = json!({ "labelSelector": { "matchLabels": self.selector() },
            "topologyKey": "kubernetes.io/hostname" });
        let mut affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [apart] } });
        if !terms.is_empty() {
            affinity["nodeAffinity"] =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
        }
        affinity
    }
}

/// Whose a Manager's objects are.
#[must_use]
pub fn owner(manager: &Resolved) -> Value {
    json!({ "apiVersion": Manager::api_version(&()), "kind": Manager::kind(&()), "name": manager.name,
        "uid": manager.uid, "controller": true, "blockOwnerDeletion": false })
}

/// Hash of what Pods are made from, wherever they run.
fn hash_of(template: &Value) -> String {
    let mut template = template.clone();
    for placement in ["affinity", "nodeSelector", "tolerations"] {
        template["spec"].as_object_mut().map(|spec| spec.remove(placement));
    }
    short(&template)
}

/// The nodes that a workload's template names: they were chosen before.
#[must_use]
pub fn recorded(affinity: &Value) -> Vec<String> {
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = |term: &Value| term["matchFields"][0]["values"][0].as_str().map(str::to_owned);
    terms.as_array().into_iter().flatten().filter_map(node).collect()
}

/// How the hash of what was applied ends where its annotation of nodes is this one.
#[must_use]
pub fn sealed(addresses: &str) -> String {
    format!("-{}", short(&json!(addresses)))
}

fn short(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes())[..8])
}
