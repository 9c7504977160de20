//! The objects of a component: its workload, and what goes with it.
//!
//! Pure. Must not know a component by name, nor what of it exists.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Resource;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::resolve::{Component, Resolved};
use crate::api::manager::Manager;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::TEMPLATE;
use crate::k8s::hex::hex;
use crate::stack::files::Files;
use crate::stack::table::{Row, Table, Workload};

/// Name of the volume of what a server keeps.
pub const DATA: &str = "data";
/// Name of the volume of what its programs read.
const FILES: &str = "files";

/// What a component's workload is called.
#[must_use]
pub fn workload_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-{}", row.kind, row.workload.to_string().to_lowercase())
}

/// What what goes with it is called.
#[must_use]
pub fn companion_name(row: &Row, component: &str) -> String {
    format!("{component}-{}", row.kind)
}

/// What the ConfigMap with its files is called.
#[must_use]
pub fn files_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-configmap", row.kind)
}

/// What the Secret with those of its files is called that nobody else may read.
#[must_use]
pub fn secret_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-secret", row.kind)
}

/// What the ConfigMap is called in which somebody replaces templates.
#[must_use]
pub fn templates_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-templates", row.kind)
}

/// What a component's objects are made from.
#[derive(Debug, Clone, Copy)]
pub struct Blueprint<'b> {
    pub table: &'b Table,
    pub manager: &'b Resolved,
    pub component: &'b Component,
    /// The nodes of its servers; of one that runs on each node, none.
    pub nodes: &'b [String],
    /// What its programs read.
    pub files: &'b Files,
}

impl Blueprint<'_> {
    fn row(&self) -> &Row {
        &self.table.rows[self.component.row]
    }

    /// All its objects, what its workload needs before that.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let row = self.row();
        let mut objects = Vec::new();
        if !row.files.is_empty() {
            let mut data = self.files.data.clone();
            data.insert("revision".to_owned(), self.files.revision.clone());
            let name = files_name(row, &self.component.name);
            objects.push(self.object("v1", "ConfigMap", &name, ("data", &json!(data))));
        }
        if !self.files.secret.is_empty() {
            let revision = [("secret-revision".to_owned(), self.files.revision.clone())];
            let data = self.files.secret.clone().into_iter().chain(revision);
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

    fn workload(&self) -> Value {
        let (row, component) = (self.row(), self.component);
        let mut template = self.template();
        template["metadata"]["annotations"] = json!({ TEMPLATE: hash_of(&template) });
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
        self.object("apps/v1", &row.workload.to_string(), &name, ("spec", &spec))
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, (key, content): (&str, &Value)) -> Value {
        let Self { manager, component, .. } = self;
        let owner = json!({ "apiVersion": Manager::api_version(&()), "kind": Manager::kind(&()), "name": manager.name,
            "uid": manager.uid, "controller": true, "blockOwnerDeletion": false });
        let labels: BTreeMap<&str, &str> =
            component.labels.iter().map(|(key, value)| (&**key, &**value)).chain(self.identity()).collect();
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name,
            "namespace": manager.namespace, "labels": labels, "ownerReferences": [owner] }, key: content });
        object["metadata"]["annotations"] = json!({ APPLIED_ANNOTATION: short(&object) });
        object
    }

    /// Labels that tell a component's Pods from all others.
    fn identity(&self) -> impl Iterator<Item = (&str, &str)> {
        let row = self.row();
        [(&*self.table.labels.kind, &*row.kind), (&*row.kind, &*self.component.name)].into_iter()
    }

    fn selector(&self) -> BTreeMap<&str, &str> {
        self.identity().collect()
    }

    fn template(&self) -> Value {
        let (row, component) = (self.row(), self.component);
        let labels: BTreeMap<&str, &str> =
            component.labels.iter().map(|(key, value)| (&**key, &**value)).chain(self.identity()).collect();
        let mut volumes: Vec<Value> =
            row.host_paths.iter().map(|(name, path)| json!({ "name": name, "hostPath": { "path": path } })).collect();
        if !row.files.is_empty() {
            let name = files_name(row, &component.name);
            let mut sources = vec![json!({ "configMap": { "name": name } })];
            if !self.files.secret.is_empty() {
                sources.push(json!({ "secret": { "name": secret_name(row, &component.name) } }));
            }
            volumes.push(json!({ "name": FILES, "projected": { "sources": sources } }));
        }
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
            let mut mounts: Vec<Value> =
                row.host_paths.iter().map(|(volume, path)| json!({ "name": volume, "mountPath": path })).collect();
            let has_data = row.containers.first() == Some(name) || row.init.contains(name);
            if let Some(store) = row.store.as_ref().filter(|_| has_data) {
                mounts.push(json!({ "name": DATA, "mountPath": store.path }));
            }
            if !row.files.is_empty() {
                mounts.push(json!({ "name": FILES, "mountPath": self.table.files_path, "readOnly": true }));
            }
            let address = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
            let mut all = Map::new();
            all.insert("name".to_owned(), name.clone().into());
            all.insert("image".to_owned(), container.image.clone().into());
            let mut environment = vec![json!({ "name": "POD_IP", "valueFrom": address })];
            // The container that waits for the files is told which; when they become others, so does the template.
            if !row.files.is_empty() && row.init.first() == Some(name) {
                environment.push(json!({ "name": "REVISION", "value": self.files.revision }));
            }
            all.insert("env".to_owned(), environment.into());
            let command = Some(&container.command).filter(|command| !command.is_empty());
            if let Some(command) = command.or_else(|| row.commands.get(name)) {
                all.insert("command".to_owned(), command.clone().into());
            }
            if let Some(command) = row.serves.as_ref().filter(|_| row.containers.first() == Some(name)) {
                let probe = json!({ "exec": { "command": command }, "periodSeconds": 5, "timeoutSeconds": 5 });
                all.insert("readinessProbe".to_owned(), probe);
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

/// Hash of what Pods are made from, wherever they run.
fn hash_of(template: &Value) -> String {
    let mut template = template.clone();
    for placement in ["affinity", "nodeSelector", "tolerations"] {
        template["spec"].as_object_mut().map(|spec| spec.remove(placement));
    }
    short(&template)
}

/// The hash that Pods of a workload carry.
#[must_use]
pub fn template_of(workload: &Value) -> String {
    workload["spec"]["template"]["metadata"]["annotations"][TEMPLATE].as_str().unwrap_or_default().to_owned()
}

/// The nodes that a workload's template names: they were chosen before.
#[must_use]
pub fn recorded(affinity: &Value) -> Vec<String> {
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = |term: &Value| term["matchFields"][0]["values"][0].as_str().map(str::to_owned);
    terms.as_array().into_iter().flatten().filter_map(node).collect()
}

fn short(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes())[..8])
}
