//! Manager, the kind users hold: a stack of services that starts in order.
//!
//! The fields are those of the operator that came with Tungsten Fabric, typed down to `containers`; what is unknown
//! below `services` is kept, for the components read it. Must not interpret anything: `manager::resolve` alone reads
//! the raw spec.

#![allow(clippy::duplicated_attributes, reason = "several printer columns have one type")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub mod condition;
pub mod package;

use super::condition::Condition;
use super::object::{ObjectStatus, keep_what_is_urgent, status_head};
use super::schedule::{Blackout, Window};
use super::schema::int_or_string;

/// The services of a stack, and whether each is a list.
const SERVICES: &[(&str, bool)] = &[
    ("cassandras", true),
    ("zookeepers", true),
    ("rabbitmq", false),
    ("config", false),
    ("controls", true),
    ("kubemanagers", true),
    ("webui", false),
    ("provisionManager", false),
    ("vrouters", true),
];

/// A stack that starts in order.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, kube(cel))]
#[kube(
    group = "contrail.juniper.net",
    version = "v1alpha1",
    kind = "Manager",
    plural = "managers",
    singular = "manager",
    namespaced,
    status = "ManagerStatus",
    doc = "Creates a whole stack, such as an OpenSDN control plane, each component after those that it needs.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Components", type_ = "string", json_path = ".status.summary.progress"),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.summary.waitingFor"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ManagerSpec {
    /// Defaults of all services. A service's own field replaces the whole field here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_configuration: Option<CommonConfiguration>,
    /// The components. `cassandras`, `zookeepers`, `controls`, `kubemanagers` and `vrouters` are lists. `rabbitmq`,
    /// `config`, `webui` and `provisionManager` are one each.
    pub services: Services,
    /// How Pods of an earlier template are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// How long certificates are valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
}

/// How long certificates are valid. Each is renewed when two thirds of that time are over, which replaces the Pods one
/// at a time.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// How long certificates of servers are valid: hours, minutes and seconds. Default: 8760h, a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("lifetime must be hours, minutes and seconds, such as 8760h"))]
    #[schemars(length(max = 30))]
    pub lifetime: Option<String>,
    /// How long the certificate of the authority that issues them is valid: hours, minutes and seconds. Default:
    /// 87600h, ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("authorityLifetime must be hours, minutes and seconds, such as 87600h"))]
    #[schemars(length(max = 30))]
    pub authority_lifetime: Option<String>,
}

/// How Pods of an earlier template are replaced. Those of a store are always replaced one at a time.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many Pods of a component that runs on every node may be unavailable at once because of a change: a number or
    /// a percentage, rounded up, at least 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("maxUnavailable must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// When Pods that run on every node may be replaced: in any of these windows. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub windows: Vec<Window>,
    /// When none of them may be replaced, even within a window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub blackouts: Vec<Blackout>,
    /// Replace no Pod of any component. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Fields that services have in common.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CommonConfiguration {
    /// Components run in the network of their nodes, because node addresses are known before a Pod is created. Only
    /// true is allowed. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true]))]
    pub host_network: Option<bool>,
    /// Labels of the nodes. Default: the label of control-plane nodes named master, except for components that run on
    /// each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Names of Secrets with which images are pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub image_pull_secrets: Option<Vec<String>>,
    /// Name of a Secret with the administrator's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub keystone_secret_instance: Option<String>,
    /// How many servers there are. Default: one on each node that matches, an odd number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub replicas: Option<u32>,
    /// Taints that its Pods tolerate. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
}

/// The services by their keys, each as its owner wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Services(pub BTreeMap<String, Value>);

/// An entry of a service.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Service {
    pub metadata: ServiceMetadata,
    pub spec: ServiceSpec,
}

/// Name and labels of a component.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServiceMetadata {
    /// Its name. The names of its objects begin with it.
    #[schemars(length(min = 1, max = 30), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Labels of its objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The desired state of a component.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServiceSpec {
    /// Its own values, which replace those of the common configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_configuration: Option<CommonConfiguration>,
    /// The configuration of its programs.
    pub service_configuration: ServiceConfiguration,
}

/// The configuration of a component's programs.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServiceConfiguration {
    /// Its containers, init containers among them, with their images.
    #[serde(default)]
    #[schemars(length(max = 30))]
    pub containers: Vec<ContainerImage>,
    /// All other fields.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Map<String, Value>,
}

/// A container.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ContainerImage {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Its command, in place of the one of its image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub command: Vec<String>,
    /// Its resources, in place of the requests that the table has for a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Resources of a container, as in a Pod.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// What its node keeps for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10))]
    pub requests: BTreeMap<String, IntOrString>,
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10))]
    pub limits: BTreeMap<String, IntOrString>,
}

impl JsonSchema for Services {
    fn schema_name() -> Cow<'static, str> {
        "Services".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Service>();
        let of = |many: bool| if many { json!({ "type": "array", "maxItems": 20, "items": one }) } else { json!(one) };
        by_key(of)
    }
}

/// An object with a property for each service.
fn by_key(of: impl Fn(bool) -> Value) -> Schema {
    let properties: Map<String, Value> = SERVICES.iter().map(|(key, many)| ((*key).to_owned(), of(*many))).collect();
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties })
}

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ManagerStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespace of the operator that wrote this. Another one leaves the object alone while this one's Lease is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// The state of each component, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentStatus>,
    /// Counts of components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Conditions: Ready, Progressing, Degraded, NotCarriedOut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Each service as in the spec: the names of its components, and whether each serves.
    #[serde(flatten)]
    pub services: Activity,
}

impl ObjectStatus for ManagerStatus {
    type Condition = condition::ConditionType;

    status_head!();

    fn urgent(&self) -> Self {
        let mut urgent = Self { summary: None, ..self.clone() };
        keep_what_is_urgent::<Self::Condition>(&mut urgent.conditions);
        for component in &mut urgent.components {
            component.ready.clear();
        }
        urgent
    }

    fn counts(&self) -> Option<impl Serialize> {
        self.summary.as_ref()
    }
}

/// Services by their keys, each with the names of its components and whether they serve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Activity(pub BTreeMap<String, Value>);

impl JsonSchema for Activity {
    fn schema_name() -> Cow<'static, str> {
        "Activity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json!({ "type": "object", "properties": {
            "name": { "type": "string", "description": "The component." },
            "active": { "type": "boolean", "description": "Whether all its servers serve." } } });
        by_key(|many| if many { json!({ "type": "array", "items": one }) } else { one.clone() })
    }
}

/// The state of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its service, as in the spec.
    #[serde(default)]
    pub service: String,
    /// Serving, Starting, Updating, Held, Growing, Waiting, Outdated, Unplaced, Refused or Invalid.
    #[serde(default)]
    pub state: String,
    /// How many of its servers serve, of how many.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ready: String,
    /// The reason why it waits or does not serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// The tag of its first container's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Counts of components. `components` = `serving` + `starting` + `waiting` + `failing`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All that the spec has.
    #[serde(default)]
    pub components: i32,
    /// Of them, those whose servers all serve.
    #[serde(default)]
    pub serving: i32,
    /// Of them, those that exist and do not serve yet, or no longer.
    #[serde(default)]
    pub starting: i32,
    /// Of them, those that wait for others.
    #[serde(default)]
    pub waiting: i32,
    /// Of them, those for which someone must act.
    #[serde(default)]
    pub failing: i32,
    /// Serving of all, for the printer column.
    #[serde(default)]
    pub progress: String,
    /// The first reason to wait, for the printer column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
}
