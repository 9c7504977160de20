//! DaemonSetRollout, the kind users hold: whose DaemonSet is updated, and how carefully.
//!
//! No default is written into the spec. Must not interpret anything: `daemonset_rollout::resolve` alone reads the raw
//! spec.

#![allow(clippy::duplicated_attributes, reason = "several printer columns have one type")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod condition;
pub mod package;

use super::condition::Condition;
use super::object::{ObjectStatus, keep_what_is_urgent, status_head};
use super::rollout::{NodeCounts, Pace, RolloutStatus};
use super::schedule::OnFailure;

/// Replaces the Pods of a DaemonSet that another tool deploys, when its template changes.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, kube(cel))]
#[kube(
    group = "oneagent-operator.github.io",
    version = "v1alpha1",
    kind = "DaemonSetRollout",
    plural = "daemonsetrollouts",
    singular = "daemonsetrollout",
    shortname = "dsr",
    namespaced,
    status = "DaemonSetRolloutStatus",
    doc = "Updates the Pods of a DaemonSet with updateStrategy OnDelete that another tool deploys.",
    printcolumn(name = "DaemonSet", type_ = "string", json_path = ".spec.daemonSet"),
    printcolumn(name = "Updated", type_ = "string", json_path = ".status.nodes.progress"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.daemonSet.revision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".status.daemonSet.strategy", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.daemonSet.images[0]", priority = 1),
    printcolumn(name = "Rollout", type_ = "string", json_path = ".status.rollout.state", priority = 1),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.rollout.waitingOn[0]", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetRolloutSpec {
    /// Name of a DaemonSet of this namespace. Its updateStrategy must be OnDelete. With RollingUpdate Kubernetes
    /// replaces its Pods itself, and this object only counts them.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub daemon_set: String,
    /// Serve the DaemonSet although an operator controls it. That operator must not replace its Pods itself. Default:
    /// false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_owner: Option<bool>,
    /// Labels and annotations of the Pod template whose change alone replaces no Pod, such as helm.sh/chart. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 317)))]
    pub ignore: Vec<String>,
    /// Seconds for which the template must have stayed the same before a Pod is replaced. Each further change within an
    /// hour doubles it, up to ten minutes. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 3600))]
    pub debounce_seconds: Option<u32>,
    /// How fast Pods are replaced. Here an agent is a Pod of the DaemonSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// How fast Pods are replaced.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    #[serde(flatten)]
    pub pace: Pace,
    /// Seconds within which a new Pod must be Ready. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_ready_seconds: Option<u32>,
    /// Pause: a failed revision stays in the template, and no further Pod gets it from the operator. Rollback: the
    /// operator puts the last good template back, once. For that it needs the right to patch DaemonSets, which no
    /// bundle has. Default: Pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// A revision, by its controller-revision-hash, whose canaries have soaked enough: others follow once all of them
    /// are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]{1,63}$')")
        .message("promote must be a controller-revision-hash, such as 7d9c6b5f4"))]
    #[schemars(length(max = 63))]
    pub promote: Option<String>,
    /// A revision, by its controller-revision-hash, that counts as failed for as long as it is named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]{1,63}$')")
        .message("reject must be a controller-revision-hash, such as 7d9c6b5f4"))]
    #[schemars(length(max = 63))]
    pub reject: Option<String>,
    /// A revision that failed, by its controller-revision-hash, to be tried again once. To try it another time, remove
    /// it and set it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]{1,63}$')")
        .message("retry must be a controller-revision-hash, such as 7d9c6b5f4"))]
    #[schemars(length(max = 63))]
    pub retry: Option<String>,
}

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetRolloutStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespace of the operator that wrote this. Another one leaves the object alone while this one's Lease is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// The DaemonSet that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_set: Option<DaemonSetStatus>,
    /// Counts of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// The rollout, under way or last. Its versions are revisions, by their controller-revision-hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Conditions: Ready, Progressing, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A DaemonSet as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetStatus {
    #[serde(default)]
    pub uid: String,
    /// Its generation. Counts and conditions are about its template as of then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The current revision, by its controller-revision-hash. Absent until the DaemonSet's controller has written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Nodes that its controller wants a Pod on. Where that differs from nodes.selected for a minute, the smaller of
    /// the two sizes the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_number_scheduled: Option<i32>,
    /// Images of its containers, the first five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Its update strategy: OnDelete or RollingUpdate.
    #[serde(default)]
    pub strategy: String,
    /// The object that controls it, such as DatadogAgent datadog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl ObjectStatus for DaemonSetRolloutStatus {
    type Condition = condition::ConditionType;

    status_head!();

    fn urgent(&self) -> Self {
        let mut urgent = Self { nodes: None, ..self.clone() };
        keep_what_is_urgent::<Self::Condition>(&mut urgent.conditions);
        if let Some(rollout) = &mut urgent.rollout {
            rollout.waiting_on.clear();
            rollout.expected_finish = None;
        }
        urgent
    }

    fn counts(&self) -> Option<impl Serialize> {
        self.nodes.as_ref()
    }
}
