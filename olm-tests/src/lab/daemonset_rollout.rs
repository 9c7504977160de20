//! What a test does with a DaemonSetRollout in its namespace, beside a DaemonSet that another client deploys, and what
//! it waits for.
//!
//! Must not judge what the operator says but by the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use oneagent_operator::api::daemonset_rollout::{DaemonSetRollout, DaemonSetRolloutStatus};
use serde_json::{Value, json};

use super::{LONG, Lab, SOON, is_ready};
use crate::eventually;
use crate::kubelet::Fault;

/// Labels of the Pods.
pub const AGENTS: &str = "app=agent";

impl Lab<'static> {
    /// A corner of the shared cluster with nodes, DaemonSet `agent` whose Pods say `one`, and DaemonSetRollout `agent`
    /// with this policy.
    pub async fn of_daemonset(name: &str, nodes: usize, rollout: &Value) -> Self {
        let lab = Lab::of(&PACKAGE, name, nodes).await;
        lab.with_daemonset(nodes, rollout).await;
        lab
    }
}

impl Lab<'_> {
    /// Deploys both on nodes that are there, so many.
    pub async fn with_daemonset(&self, nodes: usize, rollout: &Value) {
        self.deploy(&self.daemonset_saying("one"));
        self.agents_say("one", nodes).await;
        self.rollout(&json!({ "rollout": rollout }));
        self.rollout_is("Ready", "True", "AllUpdated").await;
    }

    /// DaemonSet `agent`, whose Pods say this.
    #[must_use]
    pub fn daemonset_saying(&self, message: &str) -> Value {
        self.daemonset_named("agent", message)
    }

    /// Another one, whose Pods have its name as label `app`.
    #[must_use]
    pub fn daemonset_named(&self, name: &str, message: &str) -> Value {
        let container =
            json!({ "name": "agent", "image": "agent:1", "env": [{ "name": "MESSAGE", "value": message }] });
        let labels = json!({ "app": name, "lab": self.name });
        json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name, "namespace": self.name },
            "spec": { "selector": { "matchLabels": { "app": name } }, "updateStrategy": { "type": "OnDelete" },
                "template": { "metadata": { "labels": labels },
                    "spec": { "nodeSelector": { "lab": self.name }, "containers": [container],
                        "terminationGracePeriodSeconds": 1 } } } })
    }

    /// Pods that say this fail so.
    pub fn fails(&self, message: &str, fault: Fault) {
        self.behave(|behaviour| {
            behaviour.versions.insert(message.to_owned(), fault);
        });
    }

    /// Deploys it, as a user who has all rights.
    pub fn deploy(&self, daemonset: &Value) {
        self.cluster.apply(&daemonset.to_string());
    }

    /// Applies DaemonSetRollout `agent`.
    pub fn rollout(&self, spec: &Value) {
        self.rollout_named("agent", spec);
    }

    /// The same with a name.
    pub fn rollout_named(&self, name: &str, spec: &Value) {
        self.cluster.apply(&self.rollout_object(name, spec).to_string());
    }

    /// A DaemonSetRollout, of DaemonSet `agent` if nothing else is said.
    #[must_use]
    pub fn rollout_object(&self, name: &str, spec: &Value) -> Value {
        let mut whole = json!({ "daemonSet": "agent", "debounceSeconds": 3 });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        json!({ "apiVersion": "oneagent-operator.github.io/v1alpha1", "kind": "DaemonSetRollout",
            "metadata": { "name": name, "namespace": self.name }, "spec": whole })
    }

    #[must_use]
    pub fn rollouts(&self) -> Api<DaemonSetRollout> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Merges into the spec of DaemonSetRollout `agent`.
    pub async fn edit_rollout(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.rollouts().patch("agent", &PatchParams::default(), &patch).await.expect("a DaemonSetRollout is changed");
    }

    pub async fn rollout_status(&self) -> DaemonSetRolloutStatus {
        self.rollouts().get("agent").await.ok().and_then(|rollout| rollout.status).unwrap_or_default()
    }

    /// Waits until a condition of DaemonSetRollout `agent` has a status and a reason; returns its message.
    pub async fn rollout_is(&self, type_: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{} has {type_}={status}/{reason}", self.name), LONG, || async {
            let now = self.rollout_status().await;
            let found = now.conditions.iter().find(|c| c.type_ == type_ && c.status == status && c.reason == reason);
            found.map(|c| c.message.clone()).ok_or_else(|| format!("{now:#?}"))
        })
        .await
    }

    /// Waits until a condition of DaemonSetRollout `agent` says something; returns its message.
    pub async fn rollout_says(&self, type_: &str, words: &str) -> String {
        eventually(&format!("{} says in {type_}: {words}", self.name), LONG, || async {
            let now = self.rollout_status().await;
            let said = now.conditions.iter().find(|c| c.type_ == type_ && c.message.contains(words));
            said.map(|c| c.message.clone()).ok_or_else(|| format!("{now:#?}"))
        })
        .await
    }

    /// Waits until the operator has looked at DaemonSetRollout `agent` as it is now.
    pub async fn rollout_is_observed(&self) {
        let wanted = self.rollouts().get("agent").await.expect("a DaemonSetRollout").metadata.generation;
        eventually("the last edit is observed", SOON, || async {
            let now = self.rollout_status().await.observed_generation;
            if now == wanted { Ok(()) } else { Err(format!("{now:?} of {wanted:?}")) }
        })
        .await;
    }

    /// What the Ready Pods of DaemonSet `agent` say that are not being deleted, by node.
    #[must_use]
    pub fn said(&self) -> BTreeMap<String, String> {
        let is_its = |pod: &Arc<Pod>| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.labels().get("app").is_some_and(|app| app == "agent")
                && is_ready(pod)
        };
        let said = |pod: Arc<Pod>| {
            let node = pod.spec.as_ref()?.node_name.clone()?;
            Some((node, self.cluster.kubelet.environment(&pod)?.get("MESSAGE")?.clone()))
        };
        self.cluster.kubelet.pods(&self.name).into_iter().filter(is_its).filter_map(said).collect()
    }

    /// UIDs of the Pods of DaemonSet `agent`, by node.
    pub async fn agent_uids(&self) -> BTreeMap<String, String> {
        let there = |pod: Pod| Some((pod.spec.as_ref()?.node_name.clone()?, pod.uid()?));
        self.labelled(AGENTS).await.into_values().filter_map(there).collect()
    }

    /// Nodes of the Pods of DaemonSet `agent`, by the Pod's name.
    pub async fn agent_nodes(&self) -> BTreeMap<String, String> {
        let there = |(name, pod): (String, Pod)| Some((name, pod.spec?.node_name?));
        self.labelled(AGENTS).await.into_iter().filter_map(there).collect()
    }

    /// Waits until so many Pods of DaemonSet `agent` are Ready and say this.
    pub async fn agents_say(&self, message: &str, count: usize) {
        eventually(&format!("{count} agents of {} say {message}", self.name), LONG, || async {
            let said = self.said();
            let good = said.values().filter(|one| *one == message).count();
            let status = self.rollout_status().await;
            if good == count { Ok(()) } else { Err(format!("{good}: {said:?} {status:#?}")) }
        })
        .await;
    }

    /// Waits until the current revision of DaemonSet `agent` is another one than this; returns its hash.
    pub async fn another_revision(&self, than: &str) -> String {
        eventually("another revision is current", SOON, || async {
            let hash = self.rollout_status().await.daemon_set.and_then(|set| set.revision).unwrap_or_default();
            if !hash.is_empty() && hash != than { Ok(hash) } else { Err(hash) }
        })
        .await
    }

    /// The current revision's hash, as the status has it.
    pub async fn revision(&self) -> String {
        self.another_revision("").await
    }

    /// DaemonSet `agent` as it is stored.
    pub async fn deployed(&self) -> DaemonSet {
        Api::namespaced(self.cluster.client.clone(), &self.name).get("agent").await.expect("a DaemonSet")
    }

    /// Numbers of its revisions by hash.
    pub async fn numbers(&self) -> BTreeMap<String, i64> {
        let api: Api<ControllerRevision> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let all = api.list(&ListParams::default()).await.expect("ControllerRevisions");
        let number =
            |one: ControllerRevision| Some((one.labels().get("controller-revision-hash")?.clone(), one.revision));
        all.items.into_iter().filter_map(number).collect()
    }
}
