//! What a OneAgent's status tells: the original's fields first, then ours.
//!
//! Nothing is required and nothing is refused here: OLM validates stored objects whole, those of the oldest
//! releases included. Must not hold a token, nor grow with the fleet beyond the bounds written below.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;

/// How many nodes `instances` names before `instancesTruncated` is set.
pub const INSTANCES_AT_MOST: usize = 200;
/// How many nodes are named as an example of a bucket.
pub const EXAMPLES_AT_MOST: usize = 5;
/// How many failed versions are remembered.
pub const REJECTED_AT_MOST: usize = 10;

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OneAgentStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Version that new Pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version that the agents shall have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_version: Option<String>,
    /// Where the desired version comes from: Image, Pin, AgentVersion, Api, Frozen or UserURL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_source: Option<String>,
    /// Last version with which a rollout was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_version: Option<String>,
    /// Versions that failed here; automatic update does not offer them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_versions: Vec<String>,
    /// Running, Deploying or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions: Ready, Available, Progressing, Degraded, APIToken, PaaSToken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Counts of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// The rollout, under way or last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The agents by node, at most 200 of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, Instance>,
    /// Whether there are more agents than `instances` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances_truncated: Option<bool>,
    /// Secret in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// The environment's identity.
    #[serde(default, rename = "environmentID", skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// Whether agents run from an image of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_immutable_image: Option<bool>,
    /// When this status last changed (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_timestamp: Option<String>,
    /// Time of the poll that last changed the newest version (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_probe_timestamp: Option<String>,
    /// Template hash that Pods of the original operator count as having.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_template_hash: Option<String>,
    /// Version that Pods of the original operator count as having where the environment refuses to report their hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_version: Option<String>,
}

/// An agent on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The node's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

/// Counts of nodes. `selected` = `running` + the buckets from `nodeNotReady` on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// Nodes that shall run an agent.
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
    /// Nodes whose agent's version nobody knows; left alone.
    #[serde(default)]
    pub version_unknown: i32,
    /// Nodes whose agent is newer than desired, so that a change of the template does not reach it.
    #[serde(default)]
    pub held_back: i32,
    /// Nodes whose agent was born from a template that is no longer wanted.
    #[serde(default)]
    pub unplanned: i32,
    /// Agents that go on running on nodes where no new one may start: a taint that they do not tolerate.
    #[serde(default)]
    pub surplus: i32,
    /// Updated of selected, for the printer column.
    #[serde(default)]
    pub progress: String,
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
    /// Within `waitReadySeconds`.
    #[serde(default)]
    pub starting: i32,
    /// Beyond `waitReadySeconds`.
    #[serde(default)]
    pub overdue: i32,
    /// The Pod is being deleted.
    #[serde(default)]
    pub terminating: i32,
    /// At most five nodes of each bucket that is not empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, Vec<String>>,
}

/// The rollout, under way or last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Complete, Rolling, Waiting, Paused, Stopped or Failed.
    #[serde(default)]
    pub state: String,
    /// Version the rollout started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Version the rollout goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When the template advanced (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the last agent was done (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// What is waited for, most important first; at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_on: Vec<String>,
    /// Nodes that may be without an agent at a time because of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<i32>,
    /// Template hash of the last good revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_hash: Option<String>,
    /// The failure that stopped the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureStatus>,
    /// What the operator must remember of a rollout under way; for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<RolloutMemory>,
}

/// What the operator must remember of a rollout under way; for itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutMemory {
    /// Since when nodes may lack an agent because of a rollout (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched_since: Option<String>,
    /// Nodes that are younger joined since the last rollout began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_after: Option<String>,
    /// Nodes that became NotReady after their agent was replaced, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<AwayNode>,
    /// Nodes that had no available agent before it was replaced, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_before: Vec<String>,
    /// Nodes whose agent restarted again and again before it was replaced, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flapping_before: Vec<String>,
    /// Pods that do not start for a cause outside of the revision: Waiting, Back (the template went back) or Trial (one is tried).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckStatus>,
    /// When the environment was away the last time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage_since: Option<String>,
    /// Until when (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage_until: Option<String>,
    /// A verdict that was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<WithdrawnStatus>,
}

/// A node that became NotReady after its agent was replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwayNode {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Since when it is gone from the cluster (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<String>,
}

/// Pods that do not start for a cause outside of the revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckStatus {
    /// Version that does not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Template hash that does not start.
    #[serde(default)]
    pub hash: String,
    /// Waiting, Back or Trial.
    #[serde(default)]
    pub phase: String,
    /// Since when (RFC 3339).
    #[serde(default)]
    pub since: String,
    /// How often a single node was tried in vain.
    #[serde(default)]
    pub tries: u32,
}

/// A verdict that was withdrawn, because the agents recovered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawnStatus {
    /// Version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Template hash.
    #[serde(default)]
    pub hash: String,
    /// How often.
    #[serde(default)]
    pub times: u32,
}

/// What failed.
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
    /// The nodes that spoke against it, at most 200; when their agents recover, the verdict is withdrawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}
