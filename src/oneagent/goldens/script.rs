//! A script: what a user wants, on which nodes, and what happens when.
//!
//! Must not run anything.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::Value;

use crate::sim::Fate;

/// A script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Script {
    /// What it shows, in a sentence.
    pub(super) about: String,
    /// The OneAgent's spec, beside the address of its environment.
    #[serde(default)]
    pub(super) oneagent: Value,
    /// Zones, and how many nodes each has; they are called `a-0`, `a-1`, and so on.
    pub(super) nodes: BTreeMap<String, usize>,
    /// Whether the log tells how the fleet was installed, too.
    #[serde(default)]
    pub(super) all: bool,
    /// When it begins.
    #[serde(default = "monday")]
    pub(super) begins: DateTime<Utc>,
    pub(super) events: Vec<At>,
    /// When it is over, after the beginning.
    pub(super) until: String,
}

fn monday() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_571_200, 0).unwrap_or_default()
}

/// Something that happens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    /// How long after the beginning, such as `90s`, `5m` or `2h`.
    pub(super) at: String,
    #[serde(rename = "do")]
    pub(super) act: Act,
}

/// What happens.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Act {
    /// The environment offers a version, as the newest.
    Publish(String),
    /// The environment stops answering, or answers again.
    EnvironmentAway(bool),
    /// What becomes of agents of a version.
    Fate(BTreeMap<String, Fate>),
    /// What becomes of agents on a node; nothing: what their version makes of them.
    FateOn(BTreeMap<String, Option<Fate>>),
    /// Kubelets fall silent.
    NotReady(Vec<String>),
    /// Kubelets are heard again.
    Ready(Vec<String>),
    Cordon(Vec<String>),
    Uncordon(Vec<String>),
    /// Taints of nodes, as `key:effect`; none: they go.
    Taint(BTreeMap<String, Vec<String>>),
    /// Nodes are deleted.
    Leave(Vec<String>),
    /// So many nodes join a zone.
    Join(BTreeMap<String, usize>),
    /// Somebody deletes the agents of nodes.
    Delete(Vec<String>),
    /// A merge patch of the spec.
    Edit(Value),
    /// The API server refuses new Pods with these words; none: no longer.
    Refuse(Option<String>),
    /// The operator's process starts again.
    Restart,
    /// Somebody empties the status.
    WipeStatus,
}

/// A time as a script has it.
pub(super) fn time(text: &str) -> TimeDelta {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: i64 = number.parse().unwrap_or_else(|_| panic!("{text:?} is no time such as 90s, 5m, 2h or 3d"));
    match unit {
        "s" => TimeDelta::seconds(number),
        "m" => TimeDelta::minutes(number),
        "h" => TimeDelta::hours(number),
        "d" => TimeDelta::days(number),
        _ => panic!("{text:?} is no time such as 90s, 5m, 2h or 3d"),
    }
}
