//! OneAgent, the kind users hold: what they may ask for.
//!
//! Field names, types and meanings are those of the original operator up to v0.10, so that its objects apply
//! unchanged; whatever is newer is optional and stands under `update` and `rollout`. No default is written into
//! the spec. Must not interpret anything: `oneagent::resolve` alone reads the raw spec.

#![allow(clippy::duplicated_attributes, reason = "several printer columns have one type")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, NodeAffinity, ResourceRequirements, Toleration};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod condition;
mod form;
pub mod package;
mod samples;
pub mod status;

use super::rollout::Rollout;
pub use status::OneAgentStatus;

/// Installer image where neither the spec nor the installation names one; the vendor gives no digest for it.
pub const DEFAULT_IMAGE: &str = "docker.io/dynatrace/oneagent:latest";

/// Rolls the OneAgent out to the selected nodes and keeps it at the right version.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, kube(cel))]
#[kube(
    group = "dynatrace.com",
    version = "v1alpha1",
    kind = "OneAgent",
    plural = "oneagents",
    singular = "oneagent",
    shortname = "oa",
    category = "dynatrace",
    namespaced,
    status = "OneAgentStatus",
    doc = "A monitoring agent on the selected nodes of the cluster, kept at the right version.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.rollout.state"),
    printcolumn(name = "Updated", type_ = "string", json_path = ".status.nodes.progress"),
    printcolumn(name = "Agents", type_ = "string", json_path = ".status.nodes.agents"),
    printcolumn(name = "Finish", type_ = "string", json_path = ".status.rollout.expectedFinish"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version", priority = 1),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", priority = 1),
    printcolumn(name = "ApiUrl", type_ = "string", json_path = ".spec.apiUrl", priority = 1),
    printcolumn(name = "Tokens", type_ = "string", json_path = ".status.tokens", priority = 1),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.rollout.waitingOn[0]", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct OneAgentSpec {
    /// Address of the environment's REST API, ending in /api, such as https://ENVIRONMENTID.live.dynatrace.com/api
    /// or, for Managed, https://DOMAIN/e/ENVIRONMENTID/api.
    pub api_url: String,
    /// Name of the Secret with keys apiToken and paasToken, in the namespace of this object. Default: the name of this
    /// object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Do not verify the API's certificate, in the operator and in the agent's download. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_cert_check: Option<bool>,
    /// Let traffic to the environment pass in an Istio mesh: a ServiceEntry for the API's host and each communication
    /// endpoint, and a VirtualService for those that are names. Does nothing without Istio. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_istio: Option<bool>,
    /// Proxy for the operator's calls and for the agents. Default: agents use none, the operator follows HTTPS_PROXY
    /// and NO_PROXY of its own Pod (with OLM on OpenShift those of the cluster's proxy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Name of the ConfigMap whose key certs holds PEM certificates to trust beside the system's. Default: none.
    #[serde(default, rename = "trustedCAs", skip_serializing_if = "Option::is_none")]
    pub trusted_cas: Option<String>,
    /// Network zone of the agents: letters, digits, dots, dashes and underscores. Default: none, which the environment
    /// calls default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_zone: Option<String>,
    /// Run the agent from an image of its own, image or else the one of the environment's registry, instead of the
    /// installer image that downloads it. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_immutable_image: Option<bool>,
    /// Labels that a node must have. Default: none, so every Linux node of architecture amd64 (with useImmutableImage
    /// arm64, too) whose taints are tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the agents tolerate. Default: none beyond those of every DaemonSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Further rules for the nodes that agents run on. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Seconds within which a replaced agent must be Ready. Default (and meaning of 0): 300. Below 90 is too short
    /// for most nodes, for the agent's readiness is looked at after 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ready_seconds: Option<u16>,
    /// Image of the agent. Default: the installer image that this release names; with useImmutableImage that of the
    /// environment's registry at the desired version. With useImmutableImage and an image the version is its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Version of the agent: major.minor.revision (the newest that begins so) or all four parts. Never moves an agent
    /// backwards; for that, see update. With useImmutableImage the tag of the environment's image, as it stands.
    /// Default: the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Name of the Secret (type kubernetes.io/dockerconfigjson) that the agent's image is pulled with, with
    /// useImmutableImage only. Default: one for the environment's registry that the operator makes; none with an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_pull_secret: Option<String>,
    /// Resources of the agent's container. Default: requests 100m CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Leave the injection into containers to others. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_injection: Option<bool>,
    /// Arguments of the agent's installer, before those that the operator adds. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment of the agent's container. An entry with the name of one that the operator sets takes its place.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Priority class of the Pods. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Stay at the version reached. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_agent_update: Option<bool>,
    /// DNS policy of the Pods. Default: ClusterFirst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<String>,
    /// ServiceAccount of the Pods. Default: dynatrace-oneagent, or dynatrace-oneagent-unprivileged in unprivileged
    /// mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Labels of the DaemonSet and its Pods. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the Pods. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Run with named capabilities instead of privileged, under ServiceAccount dynatrace-oneagent-unprivileged. For
    /// useImmutableImage: newer installers refuse to start so. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_unprivileged_mode: Option<bool>,
    /// Which version the agents shall have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// How fast agents are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// What agents take from an OpenShift cluster. A change of it restarts no agent, and reaches those that are made
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openshift: Option<OpenShift>,
}

/// What agents take from an OpenShift cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenShift {
    /// Use the proxy of the cluster (Proxy cluster, config.openshift.io), for the operator's calls too; proxy goes
    /// before it, and proxy.noProxy is added to its exceptions. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_proxy: Option<bool>,
    /// Trust the certificates that the cluster trusts; trustedCAs goes before it. Default: false.
    #[serde(default, rename = "clusterCAs", skip_serializing_if = "Option::is_none")]
    pub cluster_cas: Option<bool>,
    /// Replace no agent while the cluster itself is being updated. Default: false. (An agent on a node that the
    /// machine-config operator works on is never replaced.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_during_cluster_update: Option<bool>,
}

/// Further rules for the nodes that agents run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// As in a Pod. What the operator requires of every node (Linux, an architecture that there is an agent for, no
    /// virtual node) is required in each term besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
}

/// A proxy: a literal URL or a Secret that holds one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    /// URL of the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Name of the Secret whose key proxy holds the URL; goes before value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<String>,
    /// Hosts, domains and networks that are reached without the proxy, separated by commas. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

/// Who says which versions there are. Api: the environment. ConfigMap: configMap. Default: Api.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VersionSource {
    /// The environment.
    #[default]
    Api,
    /// A ConfigMap.
    ConfigMap,
}

/// Where versions are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionList {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key that holds the list. Default: versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// Which version the agents shall have.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.source) || self.source != 'ConfigMap' || has(self.configMap)")
    .message("source ConfigMap needs configMap.name"))]
pub struct Update {
    /// Who says which versions there are. Api: the environment. ConfigMap: configMap, where the operator cannot reach
    /// the environment; it is asked for nothing then, and agents are judged by what their Pods were made from.
    /// Default: Api.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<VersionSource>,
    /// The ConfigMap with the versions, in the OneAgent's namespace: one per line, of which the newest is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<VersionList>,
    /// Exactly this version, all four parts, such as 1.301.72.20250601-101010. Default: the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9]{8}-[0-9]{6}$')")
        .message("version must be major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"))]
    #[schemars(length(max = 60))]
    pub version: Option<String>,
    /// Take a version by itself only so long after it was built, as its number says, such as 48h: of several OneAgents
    /// those with a longer one follow later. Where no agent runs yet and none is old enough the oldest on offer is
    /// taken. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("minimumAge must be hours, minutes and seconds, such as 48h or 1h30m"))]
    #[schemars(length(max = 30))]
    pub minimum_age: Option<String>,
    /// Let version, or that of the tag of image, be older than what runs. The vendor does not support downgrades:
    /// agents may refuse. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
}
