//! A rollout, as every kind that has one embeds it: what may be asked for, the counts, and how far it is.
//!
//! Nothing in a status is required and nothing is refused. Must not know a kind, nor interpret anything.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::{Blackout, Canary, OnFailure, Order, Window};
use super::schema::{any_object, int_or_string};

/// How many nodes are named as an example of a bucket.
pub const EXAMPLES_AT_MOST: usize = 5;
/// How many failed versions are remembered.
pub const REJECTED_AT_MOST: usize = 10;

/// How fast agents are replaced, whatever it is that they are made from.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// How many of the selected nodes may be without a Ready agent because of a rollout: a number or a percentage,
    /// rounded up, at least 1. Default: 10%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("maxUnavailable must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// In addition, the same for the nodes of each zone (label topology.kubernetes.io/zone). Default: no bound of its
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("maxUnavailablePerZone must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable_per_zone: Option<IntOrString>,
    /// SpreadAcrossZones: zones are updated evenly. ZoneByZone: one after the other, by name. Default:
    /// SpreadAcrossZones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Seconds for which a replaced agent must stay Ready before it counts. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub min_ready_seconds: Option<u32>,
    /// Nodes that get a new agent first. The others follow as soak and promotion say. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// On how many nodes a version must fail before the rollout is stopped. Default: 1 while there is a canary,
    /// then as many as may be without an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_failures: Option<u32>,
    /// When agents may be replaced: in any of these windows. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub windows: Vec<Window>,
    /// When no agent may be replaced, whatever the windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub blackouts: Vec<Blackout>,
    /// Replace no agent. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// How fast agents are replaced.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    #[serde(flatten)]
    pub pace: Pace,
    /// Pause: agents of a version that failed are left as they are. Rollback: one of them is replaced with the last
    /// good version, and the others once that one is available. Vendors do not promise that an older agent runs where
    /// a newer one was. Default: Pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// A version whose canaries have soaked enough: others follow once all of them are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9]{8}-[0-9]{6}$')")
        .message("promote must be major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"))]
    #[schemars(length(max = 60))]
    pub promote: Option<String>,
    /// A version that counts as failed for as long as it is named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9]{8}-[0-9]{6}$')")
        .message("reject must be major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"))]
    #[schemars(length(max = 60))]
    pub reject: Option<String>,
    /// A version that failed, to be tried again once. To try it another time, remove it and set it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9]{8}-[0-9]{6}$')")
        .message("retry must be major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"))]
    #[schemars(length(max = 60))]
    pub retry: Option<String>,
}

/// `maxUnavailable` as people write it.
#[must_use]
pub fn written(max_unavailable: &IntOrString) -> String {
    match max_unavailable {
        IntOrString::Int(count) => count.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

/// Counts of nodes. `selected` = `running` + the buckets from `nodeNotReady` on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// Nodes that must run an agent.
    #[serde(default)]
    pub selected: i32,
    /// Nodes with an available agent of any version.
    #[serde(default)]
    pub running: i32,
    /// Nodes with an available agent at the desired revision.
    #[serde(default)]
    pub updated: i32,
    /// Nodes whose agent is to be replaced.
    #[serde(default)]
    pub outdated: i32,
    /// Nodes whose agent's version is unknown. They are left alone.
    #[serde(default)]
    pub version_unknown: i32,
    /// Nodes whose agent is newer than desired and keeps running: a change of the template does not reach it, or its
    /// version was rejected.
    #[serde(default)]
    pub held_back: i32,
    /// Nodes whose Pod was created from a template that is no longer desired. Where the template is another owner's:
    /// nodes that joined during the rollout and got the new template.
    #[serde(default)]
    pub unplanned: i32,
    /// Agents that keep running on nodes where no new one may start, because of a taint that they do not tolerate.
    #[serde(default)]
    pub surplus: i32,
    /// Updated of selected, for the printer column.
    #[serde(default)]
    pub progress: String,
    /// Nodes with an available agent, of all nodes that match, also of those whose taint, architecture or namespace
    /// keeps agents off. For the printer column.
    #[serde(default)]
    pub agents: String,
    /// Nodes that match but carry a taint that is not tolerated.
    #[serde(default)]
    pub untolerated: i32,
    /// Nodes of an architecture that the installer does not serve.
    #[serde(default)]
    pub arch: i32,
    /// Nodes that match and that the namespace's own node selector excludes.
    #[serde(default)]
    pub namespace_selector: i32,
    /// Nodes that match and that an older OneAgent keeps.
    #[serde(default)]
    pub overlap: i32,
    /// NotReady before their Pod was touched.
    #[serde(default)]
    pub node_not_ready: i32,
    /// NotReady after their Pod was replaced.
    #[serde(default)]
    pub node_lost: i32,
    /// Cordoned, draining or being deleted.
    #[serde(default)]
    pub node_busy: i32,
    /// No room for the Pod.
    #[serde(default)]
    pub capacity: i32,
    /// The Pod is refused.
    #[serde(default)]
    pub admission: i32,
    /// The image cannot be pulled.
    #[serde(default)]
    pub image: i32,
    /// A Secret or ConfigMap that the Pod names is missing.
    #[serde(default)]
    pub config: i32,
    /// The agent crashes.
    #[serde(default)]
    pub crash: i32,
    /// Beyond `waitReadySeconds`, and never started: an image, a volume or the network is slow.
    #[serde(default)]
    pub pulling: i32,
    /// Within `waitReadySeconds`.
    #[serde(default)]
    pub starting: i32,
    /// Beyond `waitReadySeconds`, though its container was started; or its Pod was not created.
    #[serde(default)]
    pub overdue: i32,
    /// The Pod is being deleted.
    #[serde(default)]
    pub terminating: i32,
    /// The first 20 nodes that can run an agent and have none that is Ready. Nodes that joined and start their first
    /// agent are not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_agent: Vec<WithoutAgent>,
    /// At most five nodes of each bucket that is not empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, Vec<String>>,
}

/// A node without a Ready agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WithoutAgent {
    pub node: String,
    /// Since when (RFC 3339), however many Pods came and went since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why, in a sentence. If the kubelet refused a Pod, its message stays until the node has an agent again.
    #[serde(default)]
    pub reason: String,
}

/// A rollout that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastRollout {
    /// Complete, Failed, RolledBack, or Superseded by another one before it ended.
    #[serde(default)]
    pub result: String,
    /// Version the rollout started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Version that the rollout led to. It is the previous one where only other fields of the Pods changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When it started (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended (RFC 3339).
    #[serde(default)]
    pub ended_at: String,
    /// The outcome, in a sentence.
    #[serde(default)]
    pub message: String,
}

/// The rollout, under way or last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Complete, Rolling, Waiting, Paused, Stopped, Failed or RolledBack.
    #[serde(default)]
    pub state: String,
    /// Version the rollout started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Version that the rollout leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When the template advanced (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the last agent was done (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// When it will be done at its present speed (RFC 3339, to the minute). Absent where that cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_finish: Option<String>,
    /// Reasons why the rollout waits, at most five, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_on: Vec<String>,
    /// The last ten rollouts that ended, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastRollout>,
    /// Nodes that may be without an agent at a time because of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<i32>,
    /// Template hash of the last good revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_hash: Option<String>,
    /// The failure that stopped the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureStatus>,
    /// Notes of the operator for its own use. Their form may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub memory: Option<serde_json::Value>,
}

/// The failure of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// Version that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Template hash that failed.
    #[serde(default)]
    pub hash: String,
    /// Whether the version was pinned by `update.version`.
    #[serde(default)]
    pub pinned: bool,
    /// How it failed, and where.
    #[serde(default)]
    pub message: String,
    /// The nodes on which it failed, at most 200. When their agents recover, the failure is withdrawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}
/// A rollout, under way or last, of a kind without versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgress {
    /// Complete, Rolling, Waiting, Paused, Stopped or Failed.
    #[serde(default)]
    pub state: String,
    /// When it began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the last Pod was done (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Reasons why the rollout waits, at most five, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_on: Vec<String>,
    /// The failure that stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Notes of the operator for its own use. Their form may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub memory: Option<serde_json::Value>,
}
