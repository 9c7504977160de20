//! PrometheusJmxExporter, the kind users hold: JVMs that run already, and that are to serve their metrics.
//!
//! The first three fields are those of the original operator, whose objects apply unchanged; all others are optional.
//! No default is written into the spec. Must not interpret anything: `jmx_exporter::resolve` alone reads the raw spec.

#![allow(clippy::duplicated_attributes, reason = "several printer columns have one type")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod condition;
pub mod obstacle;
pub mod package;

use super::condition::Condition;
use super::object::{ObjectStatus, keep_what_is_urgent, status_head};
use super::rollout::RolloutProgress;
use super::schedule::{Blackout, Window};
use super::schema::int_or_string;

/// So many endpoints are named in a status, at most.
pub const ENDPOINTS_AT_MOST: usize = 200;

/// Has the running JVMs of the selected Pods serve Prometheus metrics.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, kube(cel))]
#[kube(
    group = "banzaicloud.com",
    version = "v1alpha1",
    kind = "PrometheusJmxExporter",
    plural = "prometheusjmxexporters",
    singular = "prometheusjmxexporter",
    shortname = "pje",
    namespaced,
    status = "PrometheusJmxExporterStatus",
    doc = "Running JVMs that serve Prometheus metrics, without a restart, by an exporter that they load.",
    printcolumn(name = "Port", type_ = "integer", json_path = ".spec.port"),
    printcolumn(name = "Exporting", type_ = "string", json_path = ".status.jvms.progress"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.rollout.waitingOn[0]", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusJmxExporterSpec {
    /// Labels of the Pods, in the namespace of this object: a Pod must have all of them. At least one.
    #[schemars(extend("minProperties" = 1))]
    pub label_selector: BTreeMap<String, String>,
    /// Where the exporter's configuration is.
    pub config: ConfigReference,
    /// Port on which each JVM serves its metrics, at /metrics of its Pod's address.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
    /// Container with the JVM. Default: the first container that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// Memory that the container must have left of its limit, as a quantity. With less the JVM is left alone. 0: no
    /// minimum. Default: 96Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 0 : \
        self.matches('^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$')")
        .message("minFreeMemory must be a quantity such as 96Mi, or 0"))]
    #[schemars(schema_with = "int_or_string")]
    pub min_free_memory: Option<IntOrString>,
    /// How fast JVMs are attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// Where the exporter's configuration is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReference {
    /// Name of a ConfigMap, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Its key with the configuration, in YAML.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_key: String,
}

/// How fast JVMs are attached to.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many of the selected JVMs may be worked on at once: a number or a percentage, rounded up, at least 1.
    /// Default: 10%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("maxConcurrent must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub max_concurrent: Option<IntOrString>,
    /// JVMs that go first. Default: one, watched for 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryJvms>,
    /// How many JVMs must be harmed, or not take the configuration, until the rollout is stopped. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_failures: Option<u32>,
    /// When JVMs may be attached to: in any of these windows. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub windows: Vec<Window>,
    /// When no JVM may be attached to, whatever the windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub blackouts: Vec<Blackout>,
    /// Any text, such as the time: when it changes, what failed is tried again, as after any edit of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub retry: Option<String>,
    /// Attach to no JVM. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// JVMs that go first.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryJvms {
    /// In how many of the selected Pods: a number or a percentage, rounded up, at least 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("pods must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub pods: Option<IntOrString>,
    /// How long all of them must have exported before others follow: hours, minutes and seconds. Default: 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("soak must be hours, minutes and seconds, such as 10s or 1h30m"))]
    #[schemars(length(max = 30))]
    pub soak: Option<String>,
}

/// Observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusJmxExporterStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespace of the operator that wrote this. Another one leaves the object alone while this one's Lease is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_namespace: Option<String>,
    /// JVMs that answered, by Pod, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_endpoints: Vec<MetricsEndpoint>,
    /// Counts of JVMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jvms: Option<JvmCounts>,
    /// The rollout, under way or last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutProgress>,
    /// Conditions: Ready, Progressing, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl ObjectStatus for PrometheusJmxExporterStatus {
    type Condition = condition::ConditionType;

    status_head!();

    fn urgent(&self) -> Self {
        let mut urgent = Self { jvms: None, metrics_endpoints: Vec::new(), ..self.clone() };
        keep_what_is_urgent::<Self::Condition>(&mut urgent.conditions);
        if let Some(rollout) = &mut urgent.rollout {
            rollout.waiting_on.clear();
        }
        urgent
    }

    fn counts(&self) -> Option<impl Serialize> {
        self.jvms.as_ref()
    }
}

/// A JVM that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsEndpoint {
    /// Its Pod.
    #[serde(default)]
    pub pod: String,
    /// Its port.
    #[serde(default)]
    pub port: i32,
}

/// Counts of JVMs, one for each selected Pod. `selected` = `exporting` + `waiting` + `refused`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JvmCounts {
    /// Pods that the selector matches and that have not ended.
    #[serde(default)]
    pub selected: i32,
    /// Of them, those whose JVM exports with the configuration as it is.
    #[serde(default)]
    pub exporting: i32,
    /// Of them, those whose turn will come.
    #[serde(default)]
    pub waiting: i32,
    /// Of them, those whose JVM is left alone.
    #[serde(default)]
    pub refused: i32,
    /// Exporting of selected, for the printer column.
    #[serde(default)]
    pub progress: String,
    /// How many of them are left alone, or were harmed, for each reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, i32>,
    /// At most five Pods of each reason, with its cause and remedy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, Vec<String>>,
}
