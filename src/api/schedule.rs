//! When, and where first: the parts of a rollout's policy that are lists and objects, as every kind embeds them.
//!
//! Data only. Must not interpret anything.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::int_or_string;

/// A time that comes again.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Local days on which it starts. Default: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7))]
    pub days: Vec<Day>,
    /// Local time at which it starts, such as 02:00. Where clocks jump over that time, it starts right after the jump.
    /// Where they show it twice, it starts the first time.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,
    /// How long it lasts, also across a change of the clocks: hours and minutes, such as 4h or 1h30m, at most 168h.
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,5}(h|m))+$') && duration(self) > duration('0s') && \
        duration(self) <= duration('168h')")
        .message("duration must be hours and minutes, such as 4h or 1h30m, from 1m to 168h"))]
    #[schemars(length(max = 20))]
    pub duration: String,
    /// Its time zone by its IANA name, such as Europe/Vienna. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub time_zone: Option<String>,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::EnumString, strum::Display)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// The action when agents of a version failed. Pause: they stay as they are. Rollback: they go back to the last good
/// version, one of them first. Default: Pause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display)]
pub enum OnFailure {
    /// They are left as they are. Nodes that join get the last good version.
    #[default]
    Pause,
    /// They are replaced with the last good version: one of them first, and the others once that one is available.
    Rollback,
}

/// A time in which nothing is replaced.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("timestamp(self.from) < timestamp(self.to)").message("from must be before to"))]
pub struct Blackout {
    /// When it begins (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    pub from: String,
    /// When it ends (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    pub to: String,
    /// Why, to be shown in the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub reason: Option<String>,
}

/// The nodes that get a new agent first.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.nodes) && has(self.selector))")
    .message("name either a number of nodes or a selector"))]
pub struct Canary {
    /// How many nodes: a number or a percentage, rounded up, at least 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')")
        .message("nodes must be a number from 1 or a percentage from 1% to 100%"))]
    #[schemars(schema_with = "int_or_string")]
    pub nodes: Option<IntOrString>,
    /// Or the nodes with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// How long all of them must have been available before others follow: hours, minutes and seconds. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,6}(h|m|s))+$')")
        .message("soak must be hours, minutes and seconds, such as 10m or 1h30m"))]
    #[schemars(length(max = 30))]
    pub soak: Option<String>,
    /// Automatic: others follow when the soak is over. Manual: they follow when rollout.promote names what the canaries
    /// run. Default: Automatic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
}

/// When others follow the canaries. Automatic: when the soak is over. Manual: when rollout.promote names what the
/// canaries run. Default: Automatic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Promotion {
    /// When the soak is over.
    #[default]
    Automatic,
    /// When rollout.promote says so.
    Manual,
}

/// In which order zones are updated. SpreadAcrossZones: evenly. ZoneByZone: one after the other, by name. Default:
/// SpreadAcrossZones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// All zones evenly.
    #[default]
    SpreadAcrossZones,
    /// One after the other, by name.
    ZoneByZone,
}
