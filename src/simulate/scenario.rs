//! Scenarios: a script for OneAgents, with a seed and with what is expected of it.
//!
//! Must not let anything happen.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::expect::Expect;
use super::names::check;
use crate::oneagent::rehearsal::Act;
use crate::sim::{Script, Times};

/// A scenario, as a file has it.
#[derive(Debug, Clone, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    #[schemars(flatten)]
    pub script: Script<Act>,
    /// Decides everything that is left to chance. Default: 1.
    #[schemars(default)]
    pub seed: u64,
    /// What must come of it. If it does not, the exit code is 1.
    #[schemars(default)]
    pub expect: Expect,
}

/// The JSON schema of a scenario's file.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Scenario).to_value()
}

/// A fleet and a timeline in a few words.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    pub nodes: usize,
    pub zones: usize,
    /// How long a new Pod takes to become Ready.
    pub ready: Times,
    /// Whether the new version crashes.
    pub crashes: bool,
    pub begins: Option<DateTime<Utc>>,
}

/// The version that runs at first.
const BEFORE: &str = "1.300.0.20260101-000000";
/// The version that is published then.
const AFTER: &str = "1.301.0.20260201-000000";

impl Scenario {
    /// Reads one; the error names the field.
    pub fn read(mut value: Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err("a scenario is a mapping with pools and a timeline".to_owned());
        }
        let mut taken = |field: &str| value.as_object_mut().and_then(|all| all.remove(field));
        let (seed, expect) = (taken("seed"), taken("expect"));
        let seed = seed.map(|seed| u64::deserialize(seed).map_err(|error| format!("seed: {error}"))).transpose()?;
        let expect =
            expect.map(|all| Expect::deserialize(all).map_err(|error| format!("expect: {error}"))).transpose()?;
        let scenario =
            Self { script: Script::read(value)?, seed: seed.unwrap_or(1), expect: expect.unwrap_or_default() };
        check(&scenario.script)?;
        Ok(scenario)
    }

    /// One in which a fleet has an agent everywhere, and an hour later a new version is published.
    pub fn of(flags: Flags) -> Result<Self, String> {
        let Flags { nodes, zones, ready, crashes, begins } = flags;
        if zones == 0 || zones > 26 {
            return Err(format!("--zones {zones}: from 1 to 26 zones are possible"));
        }
        if nodes < zones {
            return Err(format!("--nodes {nodes}: each of the {zones} zones needs a node"));
        }
        let pool = |zone: usize| {
            let count = nodes / zones + usize::from(zone < nodes % zones);
            let name = char::from(b'a' + zone as u8).to_string();
            json!({ "name": name, "count": count, "timeToReady": ready })
        };
        let mut timeline = vec![json!({ "at": "0s", "do": { "publish": BEFORE } })];
        if crashes {
            timeline.push(json!({ "at": "1h", "do": { "fate": { AFTER: "crashes" } } }));
        }
        timeline.push(json!({ "at": "1h", "do": { "publish": AFTER } }));
        let mut scenario = json!({ "pools": (0..zones).map(pool).collect::<Vec<_>>(), "timeline": timeline });
        if let Some(begins) = begins {
            scenario["begins"] = json!(begins);
        }
        Self::read(scenario)
    }

    /// How many nodes it has at the beginning.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.script.pools.iter().map(|pool| pool.count).sum()
    }
}
