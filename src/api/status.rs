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
    /// Nodes whose agent was born from a template that is no longer wanted.
    #[serde(default)]
    pub unplanned: i32,
    /// Agents on nodes that they no longer tolerate.
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
}
