//! What we read of Pods whose containers matter one by one, and those that joined them.
//!
//! Every field may be missing: an unexpected shape must not break a watch. Must not interpret.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use serde::Deserialize;

use super::facts::{ConditionFacts, StateFacts, slim};

#[derive(Debug, Clone, Default, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct PodContainers {
    /// Name, namespace, UID, resourceVersion, labels, our annotations, times.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Its node, once bound.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Whether its containers are started again when they end.
    #[serde(default)]
    pub restart_policy: Option<String>,
    #[serde(default)]
    pub security_context: Option<Security>,
    #[serde(default)]
    pub containers: Vec<ContainerSpec>,
    #[serde(default)]
    pub ephemeral_containers: Vec<ContainerSpec>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub image: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    /// Of one that joined: which container's processes it sees.
    #[serde(default)]
    pub target_container_name: Option<String>,
    #[serde(default)]
    pub security_context: Option<Security>,
}

/// The user of a container, or of a whole Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    #[serde(default)]
    pub run_as_user: Option<i64>,
    #[serde(default)]
    pub run_as_group: Option<i64>,
    #[serde(default)]
    pub capabilities: Option<Capabilities>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
pub struct Capabilities {
    #[serde(default)]
    pub add: Vec<String>,
    #[serde(default)]
    pub drop: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    #[serde(default)]
    pub phase: Option<String>,
    /// Why its node ended it, such as `Evicted`.
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub conditions: Vec<ConditionFacts>,
    #[serde(default)]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    #[serde(default)]
    pub name: String,
    /// Such as `containerd://` and 64 hexadecimal digits: another one with each restart.
    #[serde(rename = "containerID", default)]
    pub container_id: Option<String>,
    #[serde(default)]
    pub ready: bool,
    #[serde(default)]
    pub restart_count: i32,
    #[serde(default)]
    pub state: StateFacts,
    /// Of the one before.
    #[serde(default)]
    pub last_state: StateFacts,
}
