//! Scripts: what is there at the beginning, and what happens when.
//!
//! Must not let anything happen.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pool::Pool;
use super::span::Span;

/// More nodes than this are refused.
const NODES_AT_MOST: usize = 20_000;

/// A script; `A` is what can happen in it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "A: DeserializeOwned")]
pub struct Script<A> {
    /// What it shows, in a sentence.
    #[serde(default)]
    pub about: String,
    /// The spec of the one object, in addition to what all have.
    #[serde(default)]
    pub spec: Value,
    /// Whole objects, instead of spec.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Zones, and how many nodes each has. Short for pools with these names, on which a Pod takes 5 seconds.
    #[serde(default)]
    pub nodes: BTreeMap<String, usize>,
    /// Nodes that are alike.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// Nodes as they are elsewhere; they join the first pool.
    #[serde(skip)]
    pub members: Vec<Value>,
    /// Deployments, and how many replicas each has.
    #[serde(default)]
    #[schemars(skip)]
    pub workloads: BTreeMap<String, usize>,
    /// Whether the log includes how all began.
    #[serde(default)]
    #[schemars(skip)]
    pub all: bool,
    /// When it begins. Default: 2026-01-05T00:00:00Z, a Monday.
    #[serde(default = "monday")]
    #[schemars(with = "String")]
    pub begins: DateTime<Utc>,
    /// What happens, in the order of its time.
    pub timeline: Vec<At<A>>,
    /// When it is over, after the beginning. It ends before that when nothing is left to happen.
    #[serde(default = "year")]
    pub until: Span,
}

fn monday() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_571_200, 0).unwrap_or_default()
}

fn year() -> Span {
    Span::seconds(366 * 86_400)
}

/// Something that happens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct At<A> {
    /// How long after the beginning, such as 90s, 5m, 2h or 3d.
    pub at: Span,
    /// What happens.
    #[serde(rename = "do")]
    pub act: A,
}

impl<A: DeserializeOwned> Script<A> {
    /// Reads one; the error names the field.
    pub fn read(mut value: Value) -> Result<Self, String> {
        let timeline = match value.get_mut("timeline").map(Value::take) {
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("timeline: must be a list of entries with `at` and `do`".to_owned()),
            None => return Err("timeline: is missing; name at least one entry with `at` and `do`".to_owned()),
        };
        value["timeline"] = Value::Array(Vec::new());
        let mut pools = Vec::new();
        if let Some(Value::Array(all)) = value.get_mut("pools").map(Value::take) {
            for (number, pool) in all.into_iter().enumerate() {
                let pool: Result<Pool, _> = serde_json::from_value(pool);
                pools.push(pool.map_err(|error| format!("pools[{number}]: {error}"))?);
            }
            value["pools"] = Value::Array(Vec::new());
        }
        let mut script: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        for (number, entry) in timeline.into_iter().enumerate() {
            let entry: Result<At<A>, _> = serde_json::from_value(entry);
            script.timeline.push(entry.map_err(|error| format!("timeline[{number}]: {error}"))?);
        }
        script.pools = script.nodes.iter().map(|(zone, count)| Pool::of_zone(zone, *count)).chain(pools).collect();
        script.checked()
    }

    /// The same, if it makes sense.
    fn checked(self) -> Result<Self, String> {
        let mut names: Vec<&str> = self.pools.iter().map(|pool| pool.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]).and_then(<[&str]>::first);
        if let Some(name) = twice {
            return Err(format!("pools: two are called {name}"));
        }
        let nodes = self.pools.iter().fold(0_usize, |sum, pool| sum.saturating_add(pool.count));
        if nodes > NODES_AT_MOST {
            return Err(format!("pools: {nodes} nodes; a simulation has at most {NODES_AT_MOST}"));
        }
        for (number, pair) in self.timeline.windows(2).enumerate() {
            if pair[1].at < pair[0].at {
                let (before, at) = (pair[0].at, pair[1].at);
                return Err(format!("timeline[{}].at: {at} is before the entry above it, {before}", number + 1));
            }
        }
        if let Some(last) = self.timeline.last().filter(|last| last.at > self.until) {
            return Err(format!("until: {} is before the last entry of timeline, {}", self.until, last.at));
        }
        Ok(self)
    }
}
