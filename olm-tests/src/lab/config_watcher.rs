//! What a test does with ConfigWatchers in its corner, and what it waits for.
//!
//! Must not judge what the operator says but by the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use oneagent_operator::api::config_watcher::{ConfigWatcher, ConfigWatcherStatus};
use serde_json::{Value, json};

use super::{LONG, Lab, SOON, is_ready};
use crate::eventually;

impl Lab<'_> {
    /// Writes ConfigMap `config` with a message.
    pub fn message(&self, message: &str) {
        self.config("config", &json!({ "message": message }));
    }

    /// Writes a ConfigMap.
    pub fn config(&self, name: &str, data: &Value) {
        let metadata = json!({ "name": name, "namespace": self.name });
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
        self.cluster.apply(&object.to_string());
    }

    /// A workload `webapp` whose Pods take MESSAGE from ConfigMap `config` when they start; `spec` is merged into it.
    pub fn workload(&self, kind: &str, name: &str, spec: &Value) {
        self.cluster.apply(&self.workload_of(kind, name, spec).to_string());
    }

    /// The same, to be applied.
    #[must_use]
    pub fn workload_of(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let labels = json!({ "app": name, "lab": self.name });
        let from = json!({ "configMapKeyRef": { "name": "config", "key": "message" } });
        let container =
            json!({ "name": "webapp", "image": "webapp:1", "env": [{ "name": "MESSAGE", "valueFrom": from }] });
        let pod = json!({ "nodeSelector": { "lab": self.name }, "containers": [container] });
        let mut object = json!({ "apiVersion": "apps/v1", "kind": kind,
            "metadata": { "name": name, "namespace": self.name },
            "spec": { "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": labels }, "spec": pod } } });
        if kind != "DaemonSet" {
            object["spec"]["replicas"] = 4.into();
        }
        if kind == "StatefulSet" {
            object["spec"]["serviceName"] = name.into();
        }
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        object
    }

    /// Applies a ConfigWatcher `watcher` of ConfigMap `config` and Pods `app: webapp`, with `spec` on top.
    pub fn watcher(&self, spec: &Value) {
        self.watcher_named("watcher", spec);
    }

    /// The same with a name.
    pub fn watcher_named(&self, name: &str, spec: &Value) {
        let mut whole = json!({ "configMap": "config", "podSelector": { "app": "webapp" }, "debounceSeconds": 3 });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let metadata = json!({ "name": name, "namespace": self.name });
        let object = json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher", "metadata": metadata,
            "spec": whole });
        self.cluster.apply(&object.to_string());
    }

    #[must_use]
    pub fn watchers(&self) -> Api<ConfigWatcher> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Merges into the spec of `watcher`.
    pub async fn edit_watcher(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.watchers().patch("watcher", &PatchParams::default(), &patch).await.expect("a ConfigWatcher is changed");
    }

    /// The status of a ConfigWatcher.
    pub async fn watcher_status(&self, name: &str) -> ConfigWatcherStatus {
        self.watchers().get(name).await.ok().and_then(|watcher| watcher.status).unwrap_or_default()
    }

    /// The same as a watch shows it: for those who wait.
    async fn watched_watcher(&self, name: &str) -> ConfigWatcherStatus {
        let (all, client) = (&self.cluster.config_watchers, &self.cluster.client);
        all.get(client, &self.name, name).await.and_then(|watcher| watcher.status).unwrap_or_default()
    }

    /// The Pods with a label that are not being deleted, by name.
    pub async fn labelled(&self, labels: &str) -> BTreeMap<String, Pod> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let list = api.list(&ListParams::default().labels(labels)).await.expect("Pods");
        let there = list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        there.map(|pod| (pod.name_any(), pod)).collect()
    }

    /// UIDs of the Pods of an app.
    pub async fn uids_of(&self, app: &str) -> BTreeSet<String> {
        self.labelled(&format!("app={app}")).await.values().filter_map(kube::ResourceExt::uid).collect()
    }

    /// Waits until so many Pods of an app are Ready with a message, and no others are there.
    pub async fn all_say(&self, app: &str, message: &str, count: usize, within: Duration) {
        eventually(&format!("{count} Pods {app} of {} say {message}", self.name), within, || async {
            let is_its = |pod: &Arc<Pod>| {
                pod.metadata.deletion_timestamp.is_none() && pod.labels().get("app").is_some_and(|of| of == app)
            };
            let pods: Vec<Arc<Pod>> = self.cluster.kubelet.pods(&self.name).into_iter().filter(is_its).collect();
            let says = |pod: &&Arc<Pod>| {
                let environment = self.cluster.kubelet.environment(pod).unwrap_or_default();
                is_ready(pod) && environment.get("MESSAGE").is_some_and(|said| said == message)
            };
            let good = pods.iter().filter(says).count();
            if good == count && pods.len() == count {
                return Ok(());
            }
            let status = self.watched_watcher("watcher").await;
            Err(format!("{good} of {}; {:?} {:?} {:#?}", pods.len(), status.pods, status.rollout, status.conditions))
        })
        .await;
    }

    /// Waits until the four Pods of `webapp` say a message, and their watcher that all are updated.
    pub async fn all_updated(&self, message: &str) {
        self.all_say("webapp", message, 4, LONG).await;
        self.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    }

    /// Waits until something holds of the status of a ConfigWatcher.
    pub async fn watcher_shows(&self, name: &str, what: &str, holds: impl Fn(&ConfigWatcherStatus) -> bool) {
        eventually(&format!("{}/{name}: {what}", self.name), SOON, || async {
            let now = self.watched_watcher(name).await;
            if holds(&now) { Ok(()) } else { Err(format!("{now:#?}")) }
        })
        .await;
    }

    /// Waits until a condition of a ConfigWatcher has a status and a reason; returns its message.
    pub async fn watcher_is(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{}/{name} has {type_}={status}/{reason}", self.name), SOON, || async {
            let now = self.watched_watcher(name).await;
            let found = now.conditions.iter().find(|c| c.type_ == type_ && c.status == status && c.reason == reason);
            found.map(|c| c.message.clone()).ok_or_else(|| format!("{now:#?}"))
        })
        .await
    }

    /// Waits until a change has reached all Pods of a ConfigWatcher, and was not there before.
    pub async fn is_applied(&self, name: &str, before: &ConfigWatcherStatus) {
        self.watcher_shows(name, "the change is with all Pods", |now| {
            now.applied_hash != before.applied_hash && now.pending.is_none()
        })
        .await;
    }

    /// A ConfigMap as it is stored.
    pub async fn config_map(&self, name: &str) -> ConfigMap {
        Api::namespaced(self.cluster.client.clone(), &self.name).get(name).await.expect("a ConfigMap")
    }
}
