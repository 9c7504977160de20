//! OneAgent, the kind users hold: what they may ask for.
//!
//! Field names, types and meanings are those of the original operator up to v0.10, so that its objects apply unchanged;
//! all newer fields are optional and are under `update` and `rollout`. No default is written into the spec. Must not
//! interpret anything: `oneagent::resolve` alone reads the raw spec.

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
    /// Proxy for the operator's calls and for the agents. Default: agents use none. The operator uses HTTPS_PROXY and
    /// NO_PROXY of its own Pod, which OLM on OpenShift sets to the cluster's proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Name of the ConfigMap whose key certs holds PEM certificates to trust in addition to the system's. Default:
    /// none.
    #[serde(default, rename = "trustedCAs", skip_serializing_if = "Option::is_none")]
    pub trusted_cas: Option<String>,
    /// Network zone of the agents: letters, digits, dots, dashes and underscores. Default: none, which the environment
    /// calls default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_zone: Option<String>,
    /// Run the agent from an image that contains it, instead of the installer image that downloads it. The image is
    /// that of field image, or the one of the environment's registry. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_immutable_image: Option<bool>,
    /// Labels that a node must have. Default: none. Then all Linux nodes of architecture amd64 whose taints are
    /// tolerated are selected, with useImmutableImage also those of arm64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the agents tolerate. Default: none beyond those of every DaemonSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Further rules for the nodes that agents run on. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Seconds within which a replaced agent must be Ready. Default: 300, also for 0. Less than 90 is too short for
    /// most nodes, because the first readiness probe starts after 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ready_seconds: Option<u16>,
    /// Image of the agent. Default: the installer image that this release names. With useImmutableImage: the image of
    /// the environment's registry at the desired version. With useImmutableImage and an image the version is its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Version of the agent: major.minor.revision (the newest that begins so) or all four parts. It never causes a
    /// downgrade. For that, see update. With useImmutableImage: the tag of the environment's image, unchanged. Default:
    /// the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Name of the Secret (type kubernetes.io/dockerconfigjson) that the agent's image is pulled with. Only for
    /// useImmutableImage. Default: one for the environment's registry that the operator creates. With an image: none.
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
    /// Run with named capabilities instead of privileged, under ServiceAccount dynatrace-oneagent-unprivileged. Use it
    /// with useImmutableImage only: newer installers refuse to start this way. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_unprivileged_mode: Option<bool>,
    /// The version of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// How fast agents are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Settings that agents take from an OpenShift cluster. A change of these values restarts no agent. Agents get it
    /// when they are created again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openshift: Option<OpenShift>,
}

/// Settings that agents take from an OpenShift cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenShift {
    /// Use the proxy of the cluster (Proxy cluster, config.openshift.io), also for the operator's calls. Field proxy
    /// takes precedence, and proxy.noProxy is added to the exceptions. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_proxy: Option<bool>,
    /// Trust the certificates that the cluster trusts. Field trustedCAs takes precedence. Default: false.
    #[serde(default, rename = "clusterCAs", skip_serializing_if = "Option::is_none")]
    pub cluster_cas: Option<bool>,
    /// Replace no agent while the cluster itself is being updated. An agent on a node that the machine-config operator
    /// works on is never replaced. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_during_cluster_update: Option<bool>,
}

/// Further rules for the nodes that agents run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// As in a Pod. The operator adds its own requirements to each term: Linux, an architecture that has an agent, no
    /// virtual node.
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
    /// Name of the Secret whose key proxy holds the URL. It takes precedence over value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<String>,
    /// Hosts, domains and networks that are reached without the proxy, separated by commas. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

/// Where the list of versions comes from. Api: the environment. ConfigMap: configMap. Default: Api.
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

/// The version of the agents.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.source) || self.source != 'ConfigMap' || has(self.configMap)")
    .message("source ConfigMap needs configMap.name"))]
pub struct Update {
    /// Where the list of versions comes from. Api: the environment. ConfigMap: configMap, for an operator that cannot
    /// reach the environment. It then sends the environment no request, and takes an agent's version from its Pod.
    /// Default: Api.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<VersionSource>,
    /// The ConfigMap with the versions, in the OneAgent's namespace, one per line. The operator takes the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<VersionList>,
    /// Exactly this version, all four parts, such as 1.301.72.20250601-101010. Default: the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9]{8}-[0-9]{6}$')")
        .message("version must be major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"))]
    #[schemars(length(max = 60))]
    pub version: Option<String>,
    /// How old a version must be before the operator takes it automatically, such as 48h. The age counts from the build
    /// time in the version. OneAgents with a longer minimum age get a version later. If no agent runs yet and no
    /// version is old enough, the operator takes the oldest on offer. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("minimumAge must be hours, minutes and seconds, such as 48h or 1h30m"))]
    #[schemars(length(max = 30))]
    pub minimum_age: Option<String>,
    /// Allow version, or the tag of image, to be older than the running version. Dynatrace does not support downgrades:
    /// agents may refuse. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
}
