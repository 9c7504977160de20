//! ConfigWatcher, the kind users hold: Pods that are replaced when a ConfigMap that they read has changed.
//!
//! The first two fields are those of the original watcher, whose objects apply unchanged; all others are optional. No
//! default is written into the spec. Must not interpret anything: `config_watcher::resolve` alone reads the raw spec.

#![allow(clippy::duplicated_attributes, reason = "several printer columns have one type")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod condition;
pub mod package;

use super::condition::Condition;
use super::object::{ObjectStatus, keep_what_is_urgent, status_head};
use super::rollout::RolloutProgress;
use super::schedule::{Blackout, Window};
use super::schema::int_or_string;

/// Replaces the selected Pods when the data of the ConfigMap has changed.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, kube(cel))]
#[kube(
    group = "k8spatterns.io",
    version = "v1",
    kind = "ConfigWatcher",
    plural = "configwatchers",
    singular = "configwatcher",
    shortname = "cw",
    namespaced,
    status = "ConfigWatcherStatus",
    doc = "Replaces Pods, a few at a time, when the data of a ConfigMap that they read changes.",
    printcolumn(name = "ConfigMap", type_ = "string", json_path = ".spec.configMap"),
    printcolumn(name = "Updated", type_ = "string", json_path = ".status.pods.progress"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Changed", type_ = "date", json_path = ".status.changedAt"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.rollout.waitingOn[0]", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigWatcherSpec {
    /// Name of the ConfigMap, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Labels of the Pods, in the namespace of this object: a Pod must have all of them. At least one.
    #[schemars(extend("minProperties" = 1))]
    pub pod_selector: BTreeMap<String, String>,
    /// Kinds of owners that create a Pod again when it is evicted, with their API group, such as
    /// CloneSet.apps.kruise.io. Pods of ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers are always
    /// replaced. Those of any other owner, and all whose restartPolicy is not Always, are left alone. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub owner_kinds: Vec<String>,
    /// Seconds for which the data must stay the same before Pods are replaced. If it keeps changing, Pods are replaced
    /// after five minutes, or after this time if that is longer. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 3600))]
    pub debounce_seconds: Option<u32>,
    /// How fast Pods are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// How fast Pods are replaced.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many Pods of each workload may be unavailable: a number or a percentage of its replicas, rounded up, at
    /// least 1. Where several ConfigWatchers select Pods of one workload the smallest counts. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("maxUnavailable must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// Seconds for which a new Pod must stay Ready before it counts as available. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub min_ready_seconds: Option<u32>,
    /// Seconds within which a new Pod must be Ready. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_ready_seconds: Option<u32>,
    /// When Pods may be replaced: in any of these windows. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub windows: Vec<Window>,
    /// When no Pod may be replaced, whatever the windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub blackouts: Vec<Blackout>,
    /// Pods that get new data first. Others follow when these have been available for as long as soak says. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryPods>,
    /// How many new Pods must fail until the rollout is stopped. Default: 1 while there are canaries, then as many as
    /// the largest maxUnavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_failures: Option<u32>,
    /// The action when new Pods failed. Default: Pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Any text, such as the time: when it changes, data that failed is tried again, as after any edit of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub retry: Option<String>,
    /// Replace no Pod. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Pods that get new data first.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryPods {
    /// How many of the selected Pods: a number or a percentage, rounded up, at least 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("pods must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub pods: Option<IntOrString>,
    /// How long all of them must have been available before others follow: hours, minutes and seconds. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("soak must be hours, minutes and seconds, such as 10m or 1h30m"))]
    #[schemars(length(max = 30))]
    pub soak: Option<String>,
}

/// The action when new Pods failed. Pause: no other Pod is replaced until the data or the spec changes, or all Pods of
/// the workload have been available for waitReadySeconds. Default: Pause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// No other Pod is replaced. The operator does not change the ConfigMap.
    #[default]
    Pause,
}

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigWatcherStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespace of the operator that wrote this. Another one leaves the object alone while this one's Lease is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// SHA-256 of the data that all Pods count as having: as it was first read, or as it was rolled out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_hash: Option<String>,
    /// When the data changed last, by the API server's clock (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// The change that not all Pods have yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingStatus>,
    /// Counts of Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// The rollout, under way or last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutProgress>,
    /// Conditions: Ready, Progressing, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl ObjectStatus for ConfigWatcherStatus {
    type Condition = condition::ConditionType;

    status_head!();

    fn urgent(&self) -> Self {
        let mut urgent = Self { pods: None, ..self.clone() };
        keep_what_is_urgent::<Self::Condition>(&mut urgent.conditions);
        if let Some(rollout) = &mut urgent.rollout {
            rollout.waiting_on.clear();
        }
        urgent
    }

    fn counts(&self) -> Option<impl Serialize> {
        self.pods.as_ref()
    }
}

/// A change that not all Pods have yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingStatus {
    /// SHA-256 of the new data.
    #[serde(default)]
    pub hash: String,
    /// When it changed, by the API server's clock (RFC 3339): Pods that were created no later are replaced.
    #[serde(default)]
    pub changed_at: String,
}

/// Counts of Pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Pods that the selector matches and that can be replaced.
    #[serde(default)]
    pub selected: i32,
    /// Of them, newer than the change and available.
    #[serde(default)]
    pub updated: i32,
    /// Of them, to be replaced.
    #[serde(default)]
    pub outdated: i32,
    /// Of the outdated, those that may not be replaced now because of a PodDisruptionBudget or their workload's own
    /// rollout.
    #[serde(default)]
    pub blocked: i32,
    /// Pods that the selector matches and that are left alone: no controller would create them again, or they have
    /// ended.
    #[serde(default)]
    pub skipped: i32,
    /// Of the selected, those that are not available.
    #[serde(default)]
    pub unavailable: i32,
    /// Updated of selected, for the printer column.
    #[serde(default)]
    pub progress: String,
    /// At most five Pods of each count, with the cause: blocked, skipped, unavailable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, Vec<String>>,
}
