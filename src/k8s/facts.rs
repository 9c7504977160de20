//! What we read of Pods and Nodes: our own partial types, which skip everything else while decoding.
//!
//! Here because a fleet of full objects costs 40 times the memory. Every field may be missing: an unexpected shape
//! must not break a watch. Must not interpret: kinds turn facts into what their decisions need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

/// Annotations worth keeping; all others are skipped.
pub const ANNOTATIONS: &[&str] = &[
    VERSION_ANNOTATION,
    HASH_ANNOTATION,
    DESIRED_REPLICAS,
    TEMPLATE_GENERATION,
    SCC,
    LIMITED,
    CONFIG_STATE,
    DESIRED_DRAIN,
    APPLIED_DRAIN,
    EXPORTS,
    SCRAPE,
    SCRAPE_PORT,
    SCRAPE_PATH,
    TEMPLATE,
    TRUSTS,
];
/// Annotation of a Pod of a stack: hash of the template it was made from, wherever it runs.
pub const TEMPLATE: &str = "oneagent-operator.github.io/template";
/// Annotation of a Pod of a stack: by which entry it saw the newest authority that it trusts.
pub const TRUSTS: &str = "oneagent-operator.github.io/trusts";
/// Annotation of a StatefulSet of a stack: nodes and their addresses, as in `node-a=10.0.0.1,node-b=10.0.0.2`.
pub const ADDRESSES: &str = "oneagent-operator.github.io/addresses";
/// Annotation of a Pod: whether its JVM exports.
pub const EXPORTS: &str = "jmx-prometheus-exporter";
/// Annotation of a Pod: whether Prometheus should scrape it.
pub const SCRAPE: &str = "prometheus.io/scrape";
/// Annotation of a Pod: where.
pub const SCRAPE_PORT: &str = "prometheus.io/port";
/// Annotation of a Pod: which path.
pub const SCRAPE_PATH: &str = "prometheus.io/path";
/// Annotation of a Pod: the SecurityContextConstraints under which OpenShift admitted it.
pub const SCC: &str = "openshift.io/scc";
/// Annotation of a Pod: what a LimitRange of its namespace added to it.
pub const LIMITED: &str = "kubernetes.io/limit-ranger";
/// Annotation of a Node: what OpenShift's machine-config daemon is doing there.
pub const CONFIG_STATE: &str = "machineconfiguration.openshift.io/state";
/// Annotation of a Node: which drain, or its end, the machine-config daemon asked for last.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// Annotation of a Node: which one was carried out.
pub const APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Annotation of a ReplicaSet: how many Pods its Deployment should have in all.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a DaemonSet: how often its template was changed. Its Pods carry the number that they were made from.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// Annotation of a Pod: the agent version it was made from.
pub const VERSION_ANNOTATION: &str = "oneagent.dynatrace.com/agent-version";
/// Annotation of a Pod: hash of the template it was made from.
pub const HASH_ANNOTATION: &str = "oneagent.dynatrace.com/template-hash";

#[derive(Debug, Clone, Default, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct PodFacts {
    /// Name, namespace, UID, resourceVersion, labels, owners, our annotations, times.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Where it is.
    #[serde(default)]
    pub spec: PodSpecFacts,
    /// How it is.
    #[serde(default)]
    pub status: PodStatusFacts,
}

/// Where a Pod is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpecFacts {
    /// Its node, once bound.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Whether it runs for good: Always, OnFailure or Never.
    #[serde(default)]
    pub restart_policy: Option<String>,
    /// The node it is made for.
    #[serde(default)]
    pub affinity: Option<AffinityFacts>,
    #[serde(default)]
    pub init_containers: Vec<ImageFacts>,
    #[serde(default)]
    pub containers: Vec<ImageFacts>,
}

/// What a container runs.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ImageFacts {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub image: Option<String>,
}

/// The node a DaemonSet's Pod is made for is in its affinity until it is bound.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffinityFacts {
    #[serde(default)]
    pub node_affinity: Option<NodeAffinityFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAffinityFacts {
    /// Its required part.
    #[serde(default)]
    pub required_during_scheduling_ignored_during_execution: Option<TermsFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TermsFacts {
    #[serde(default)]
    pub node_selector_terms: Vec<TermFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TermFacts {
    #[serde(default)]
    pub match_fields: Vec<MatchFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct MatchFacts {
    /// Field.
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub values: Vec<String>,
}

impl PodFacts {
    /// Whether its node's kubelet has fallen silent.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let PodStatusFacts { conditions, container_statuses, .. } = &self.status;
        is_silent(conditions, container_statuses.iter().map(|container| container.ready))
    }

    /// The node it runs on or is made for.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty()).or_else(|| {
            let terms = &self
                .spec
                .affinity
                .as_ref()?
                .node_affinity
                .as_ref()?
                .required_during_scheduling_ignored_during_execution
                .as_ref()?
                .node_selector_terms;
            let field = terms.iter().flat_map(|term| &term.match_fields).find(|field| field.key == "metadata.name")?;
            field.values.first().map(String::as_str)
        })
    }
}

/// Whether the kubelet of a Pod's node has fallen silent: the node controller says that the Pod is not Ready, gives no
/// reason, and leaves what the kubelet said of the containers. `are_ready`: whether each container is.
#[must_use]
pub fn is_silent(conditions: &[ConditionFacts], are_ready: impl ExactSizeIterator<Item = bool>) -> bool {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_said_unready = ready.is_some_and(|ready| ready.status == "False" && ready.reason.is_none());
    is_said_unready && are_ready.len() > 0 && are_ready.into_iter().all(|is_ready| is_ready)
}

/// How a Pod is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatusFacts {
    #[serde(default)]
    pub phase: Option<String>,
    /// Why it is in that phase, where its kubelet ended it.
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
    /// When its kubelet took it on.
    #[serde(default)]
    pub start_time: Option<String>,
    #[serde(default)]
    pub conditions: Vec<ConditionFacts>,
    /// Init containers, native sidecars among them.
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerFacts>,
    #[serde(default)]
    pub container_statuses: Vec<ContainerFacts>,
}

/// A condition of a Pod or a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionFacts {
    /// Type.
    #[serde(rename = "type", default)]
    pub type_: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
    /// Last change of status.
    #[serde(default)]
    pub last_transition_time: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFacts {
    /// Of an init container that runs: it is a native sidecar, and holds nothing back.
    #[serde(default)]
    pub ready: bool,
    /// Restarts so far.
    #[serde(default)]
    pub restart_count: i32,
    #[serde(default)]
    pub state: StateFacts,
    /// The state before.
    #[serde(default)]
    pub last_state: StateFacts,
}

/// A container's state.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StateFacts {
    #[serde(default)]
    pub running: Option<RunningFacts>,
    #[serde(default)]
    pub waiting: Option<WhyFacts>,
    /// Ended.
    #[serde(default)]
    pub terminated: Option<WhyFacts>,
}

/// A container that runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningFacts {
    /// Since when.
    #[serde(default)]
    pub started_at: Option<String>,
}

/// Why a container waits or ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyFacts {
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// When one that ended had begun.
    #[serde(default)]
    pub started_at: Option<String>,
    #[serde(default)]
    pub finished_at: Option<String>,
    /// Of one that ended: which it was.
    #[serde(rename = "containerID", default)]
    pub container_id: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct NodeFacts {
    /// Name, labels, times.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Taints and cordon.
    #[serde(default)]
    pub spec: NodeSpecFacts,
    /// Readiness and addresses.
    #[serde(default)]
    pub status: NodeStatusFacts,
}

/// Taints and cordon.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeSpecFacts {
    #[serde(default)]
    pub taints: Vec<TaintFacts>,
    /// Cordoned.
    #[serde(default)]
    pub unschedulable: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct TaintFacts {
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub effect: String,
}

/// Readiness and addresses.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeStatusFacts {
    #[serde(default)]
    pub conditions: Vec<ConditionFacts>,
    #[serde(default)]
    pub addresses: Vec<AddressFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct AddressFacts {
    /// Type.
    #[serde(rename = "type", default)]
    pub type_: String,
    #[serde(default)]
    pub address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    deletion_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
    #[serde(default, deserialize_with = "our_annotations")]
    annotations: Option<BTreeMap<String, String>>,
}

pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        owner_references: slim.owner_references,
        annotations: slim.annotations,
        ..ObjectMeta::default()
    })
}

/// Keeps our annotations and lets the others pass by undecoded where the format allows.
fn our_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Ours;
    impl<'de> serde::de::Visitor<'de> for Ours {
        type Value = Option<BTreeMap<String, String>>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of annotations")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut ours = BTreeMap::new();
            while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                if ANNOTATIONS.contains(&&*key) {
                    ours.insert(key.into_owned(), map.next_value()?);
                } else {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
            Ok((!ours.is_empty()).then_some(ours))
        }
    }
    deserializer.deserialize_any(Ours)
}
