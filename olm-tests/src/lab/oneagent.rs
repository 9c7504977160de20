//! What a test does with OneAgents in its corner, and what it waits for.
//!
//! Must not judge what the operator says but by the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use oneagent_operator::api::oneagent::{OneAgent, OneAgentStatus};
use serde_json::{Value, json};

use super::{LONG, Lab, SOON, is_ready};
use crate::eventually;
use crate::vendor::{api_token, paas_token};

/// How often a DaemonSet controller was asked to look again.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Versions in their order.
pub const V1: &str = "1.300.10.20250101-100000";
/// Newer.
pub const V2: &str = "1.301.20.20250201-100000";
/// Newer still.
pub const V3: &str = "1.302.30.20250301-100000";

impl Lab<'_> {
    /// An environment of its own, with the Secret of its tokens.
    pub(super) fn environment(&self) {
        self.cluster.vendor.add(&self.name, V1);
        self.secret(&api_token(&self.name), &paas_token(&self.name));
    }

    /// Writes the Secret with the tokens.
    pub fn secret(&self, api: &str, paas: &str) {
        self.cluster.apply(
            &json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "tokens", "namespace": self.name },
            "stringData": { "apiToken": api, "paasToken": paas } })
            .to_string(),
        );
    }

    /// Applies a OneAgent named `agent` on this lab's nodes, with `spec` on top.
    pub fn oneagent(&self, spec: &Value) {
        self.oneagent_named("agent", spec);
    }

    /// The same with a name.
    pub fn oneagent_named(&self, name: &str, spec: &Value) {
        let mut whole = json!({ "apiUrl": self.cluster.vendor.url(&self.name), "tokens": "tokens",
            "nodeSelector": { "lab": self.name } });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        self.cluster.apply(
            &json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": name, "namespace": self.name }, "spec": whole })
            .to_string(),
        );
    }

    /// The OneAgents.
    #[must_use]
    pub fn agents(&self) -> Api<OneAgent> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Merges into a OneAgent's spec.
    pub async fn edit(&self, name: &str, spec: Value) {
        self.agents()
            .patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec })))
            .await
            .expect("a OneAgent is changed");
    }

    /// The status of a OneAgent.
    pub async fn status(&self, name: &str) -> OneAgentStatus {
        self.agents().get(name).await.ok().and_then(|a| a.status).unwrap_or_default()
    }

    /// The same as a watch shows it: for those who wait.
    async fn watched_status(&self, name: &str) -> OneAgentStatus {
        let (all, client) = (&self.cluster.oneagents, &self.cluster.client);
        all.get(client, &self.name, name).await.and_then(|agent| agent.status).unwrap_or_default()
    }

    pub async fn daemonset(&self, name: &str) -> Option<DaemonSet> {
        Api::<DaemonSet>::namespaced(self.cluster.client.clone(), &self.name).get_opt(name).await.expect("an answer")
    }

    /// Waits until the DaemonSet is as described, and its controller has seen it so: one that has not makes Pods from
    /// the template before.
    pub async fn daemonset_is(&self, name: &str, what: &str, is: impl Fn(&DaemonSet) -> bool) {
        eventually(&format!("DaemonSet {}/{name}: {what}", self.name), SOON, || async {
            let now = self.daemonset(name).await;
            let is_seen =
                |d: &DaemonSet| d.status.as_ref().and_then(|s| s.observed_generation) == d.metadata.generation;
            if now.as_ref().is_some_and(|d| is(d) && is_seen(d)) {
                Ok(())
            } else {
                Err(format!("{:#?}", now.and_then(|d| d.status)))
            }
        })
        .await;
    }

    /// Has the DaemonSet controller look again, as any change of the DaemonSet or of one of its Pods does.
    pub async fn looks_again(&self, name: &str) -> DaemonSet {
        let api = Api::<DaemonSet>::namespaced(self.cluster.client.clone(), &self.name);
        let times = ASKED.fetch_add(1, Ordering::Relaxed).to_string();
        let asked = json!({ "metadata": { "annotations": { "asked": times } } });
        api.patch(name, &PatchParams::default(), &Patch::Merge(asked)).await.expect("a DaemonSet is patched")
    }

    /// Waits until it has made so many Pods, after refusals that would have it wait.
    pub async fn makes(&self, name: &str, count: usize) {
        eventually(&format!("{count} Pods of {}/{name} are made", self.name), LONG, || async {
            self.looks_again(name).await;
            let made = self.pods(name).await.len();
            if made == count { Ok(()) } else { Err(made.to_string()) }
        })
        .await;
    }

    /// Waits until the DaemonSet controller wants so many Pods: until it has seen a taint or a label.
    pub async fn wants(&self, name: &str, count: i32) {
        eventually(&format!("{count} Pods of {}/{name} are wanted", self.name), SOON, || async {
            // A taint that takes no Pod makes it look at nothing.
            let wanted = self.looks_again(name).await.status.map(|s| s.desired_number_scheduled);
            if wanted == Some(count) { Ok(()) } else { Err(format!("{wanted:?}")) }
        })
        .await;
    }

    /// The agents' Pods that are not being deleted, by node.
    pub async fn pods(&self, name: &str) -> BTreeMap<String, Pod> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let list = api.list(&ListParams::default().labels(&format!("oneagent={name}"))).await.expect("Pods");
        list.items
            .into_iter()
            .filter(|p| p.metadata.deletion_timestamp.is_none())
            .filter_map(|p| Some((p.spec.as_ref()?.node_name.clone()?, p)))
            .collect()
    }

    /// The same as the rig's watch shows it: for those who wait.
    fn watched(&self, name: &str) -> BTreeMap<String, Arc<Pod>> {
        let is_agent = |pod: &Arc<Pod>| {
            pod.metadata.deletion_timestamp.is_none() && pod.labels().get("oneagent").is_some_and(|of| of == name)
        };
        let pods = self.cluster.kubelet.pods(&self.name).into_iter().filter(is_agent);
        pods.filter_map(|pod| Some((pod.spec.as_ref()?.node_name.clone()?, pod))).collect()
    }

    /// UIDs of the Pods by node.
    pub async fn uids(&self, name: &str) -> BTreeMap<String, String> {
        self.pods(name).await.into_iter().map(|(node, pod)| (node, pod.uid().unwrap_or_default())).collect()
    }

    /// Waits until a condition of a OneAgent has a status and a reason; returns its message.
    pub async fn condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.condition_within(SOON, name, type_, status, reason).await
    }

    /// The same with a time.
    pub async fn condition_within(
        &self,
        within: Duration,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> String {
        eventually(&format!("{}/{name} has {type_}={status}/{reason}", self.name), within, || async {
            let now = self.watched_status(name).await;
            match now.conditions.iter().find(|c| c.type_ == type_) {
                Some(c) if c.status == status && c.reason == reason => Ok(c.message.clone()),
                _ => Err(format!("{:#?}", now.conditions)),
            }
        })
        .await
    }

    /// Waits until a condition of a OneAgent says something.
    pub async fn says(&self, name: &str, type_: &str, words: &str) -> String {
        eventually(&format!("{}/{name} says in {type_}: {words}", self.name), SOON, || async {
            let now = self.watched_status(name).await;
            let said = now.conditions.iter().find(|c| c.type_ == type_ && c.message.contains(words));
            said.map(|c| c.message.clone()).ok_or_else(|| format!("{:#?}", now.conditions))
        })
        .await
    }

    /// Waits until every selected node runs `version`, as a watch of the API server shows it, and the status agrees.
    pub async fn all_at(&self, name: &str, version: &str, count: usize, within: Duration) {
        eventually(&format!("{count} agents of {}/{name} at {version}", self.name), within, || async {
            let pods = self.watched(name);
            let good = pods.values().filter(|p| version_of(p).as_deref() == Some(version) && is_ready(p)).count();
            let status = self.watched_status(name).await;
            let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            if good == count && pods.len() == count && ready && status.desired_version.as_deref() == Some(version) {
                return Ok(());
            }
            Err(format!("{good} of {} Pods; {:?}; {:#?}", pods.len(), status.nodes, status.conditions))
        })
        .await;
    }

    /// Waits until the operator has looked at a OneAgent as it is now.
    pub async fn is_observed(&self, name: &str) {
        let wanted = self.agents().get(name).await.expect("a OneAgent").metadata.generation;
        eventually("the last edit is observed", SOON, || async {
            let now = self.watched_status(name).await.observed_generation;
            if now == wanted { Ok(()) } else { Err(format!("{now:?} of {wanted:?}")) }
        })
        .await;
    }

    /// Waits until something holds of the status of `agent`.
    pub async fn shows(&self, what: &str, within: Duration, holds: impl Fn(&OneAgentStatus) -> bool) {
        eventually(what, within, || async {
            let now = self.watched_status("agent").await;
            if holds(&now) { Ok(()) } else { Err(format!("{:?} {:?} {:#?}", now.nodes, now.rollout, now.conditions)) }
        })
        .await;
    }

    /// Waits until the operator has looked at `agent`: an edit that means nothing is observed, and is none twice.
    pub async fn is_looked_at(&self) {
        let rollout = self.agents().get("agent").await.expect("a OneAgent").spec.rollout.unwrap_or_default();
        let paused = if rollout.pace.paused == Some(false) { Value::Null } else { json!(false) };
        self.edit("agent", json!({ "rollout": { "paused": paused } })).await;
        self.is_observed("agent").await;
    }

    /// Events about the object of the package's kind with this name: type, reason and message.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let about = format!("involvedObject.kind={},involvedObject.name={name}", self.package.kinds[0].name);
        let list = api.list(&ListParams::default().fields(&about)).await.expect("Events");
        list.items
            .into_iter()
            .map(|e| {
                format!(
                    "{} {}: {}",
                    e.type_.unwrap_or_default(),
                    e.reason.unwrap_or_default(),
                    e.message.unwrap_or_default()
                )
            })
            .collect()
    }

    /// Waits until the environment was asked for its newest version twice more: what it says now is known.
    pub async fn is_polled(&self) {
        let path = "/v1/deployment/installer/agent/unix/default/latest/metainfo";
        let asked = || self.cluster.vendor.with(&self.name, |e| e.calls.get(path).copied().unwrap_or_default());
        let before = asked();
        eventually("the environment is asked", SOON, || async {
            if asked() >= before + 2 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }

    /// Names of the nodes that the note of a OneAgent has.
    pub async fn noted(&self, name: &str) -> Vec<String> {
        let api: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let note = api.get_opt(&format!("{name}-known-nodes")).await.unwrap().and_then(|map| map.data);
        let note = note.unwrap_or_default();
        let lines = note.values().flat_map(|text| text.lines());
        let mut names: Vec<_> = lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Waits until all nodes are noted.
    pub async fn is_noted(&self, name: &str) {
        eventually("all nodes are noted", SOON, || async {
            let noted = self.noted(name).await;
            let missing: Vec<_> = self.nodes.iter().filter(|node| !noted.contains(node)).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
        })
        .await;
    }

    /// Waits until at least so many agents are at a version.
    pub async fn reached(&self, name: &str, version: &str, at_least: usize) {
        eventually(&format!("{at_least} agents at {version}"), SOON, || async {
            let count = self.watched(name).values().filter(|p| version_of(p).as_deref() == Some(version)).count();
            if count >= at_least { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
    }

    /// Waits until so many Pods are Ready, whatever the status says.
    pub async fn all_pods_ready(&self, name: &str, count: usize) {
        eventually(&format!("{count} Ready agents of {}/{name}", self.name), SOON, || async {
            let ready = self.watched(name).values().filter(|p| is_ready(p)).count();
            if ready == count { Ok(()) } else { Err(ready.to_string()) }
        })
        .await;
    }

    /// Waits until there are agents on just these nodes.
    pub async fn pods_are(&self, name: &str, nodes: &[String]) {
        let wanted: Vec<&String> = nodes.iter().collect();
        eventually(&format!("agents of {}/{name} on {nodes:?}", self.name), SOON, || async {
            let pods = self.watched(name);
            let mut have: Vec<&String> = pods.keys().collect();
            have.sort();
            let mut wanted = wanted.clone();
            wanted.sort();
            if have == wanted { Ok(()) } else { Err(format!("on {have:?}")) }
        })
        .await;
    }
}

/// The version that a Pod was made from.
#[must_use]
pub fn version_of(pod: &Pod) -> Option<String> {
    pod.annotations().get("oneagent.dynatrace.com/agent-version").cloned()
}
