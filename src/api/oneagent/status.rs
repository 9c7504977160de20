//! What a OneAgent's status tells: the original's fields first, then ours.
//!
//! Nothing is required and nothing is refused here: OLM validates stored objects whole, those of the oldest
//! releases included. Must not hold a token, nor grow with the fleet beyond the bounds written below.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::ConditionType;
use crate::api::condition::{Condition, timestamp};
use crate::api::object::{ObjectStatus, keep_what_is_urgent, status_head};
use crate::api::rollout::{NodeCounts, RolloutStatus};

/// How many nodes `instances` names before `instancesTruncated` is set.
pub const INSTANCES_AT_MOST: usize = 200;

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OneAgentStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespace of the operator that wrote this. Another one leaves the object alone while this one's Lease is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// Version that new Pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The desired version of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_version: Option<String>,
    /// Where the desired version comes from: Image, Pin, AgentVersion, Api, ConfigMap, Frozen or UserURL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_source: Option<String>,
    /// Last version with which a rollout was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_version: Option<String>,
    /// Versions that failed here. Automatic update does not offer them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_versions: Vec<String>,
    /// Running, Deploying or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions: Ready, Available, Progressing, Degraded, APIToken, PaaSToken, NodesConflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
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

impl ObjectStatus for OneAgentStatus {
    type Condition = ConditionType;

    status_head!();

    fn urgent(&self) -> Self {
        let mut urgent = Self {
            nodes: None,
            instances: BTreeMap::new(),
            instances_truncated: None,
            updated_timestamp: None,
            ..self.clone()
        };
        keep_what_is_urgent::<ConditionType>(&mut urgent.conditions);
        if let Some(rollout) = &mut urgent.rollout {
            rollout.waiting_on.clear();
            rollout.expected_finish = None;
        }
        urgent
    }

    fn counts(&self) -> Option<impl Serialize> {
        self.nodes.as_ref()
    }

    fn refuse(&mut self) {
        self.phase = Some("Error".to_owned());
    }

    fn stamp(&mut self, now: DateTime<Utc>) {
        self.updated_timestamp = Some(timestamp(now));
    }
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
