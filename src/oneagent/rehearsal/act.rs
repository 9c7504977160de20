//! What can happen to OneAgents, their environments and their world.
//!
//! Must not let it happen.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use strum::VariantNames;

use crate::api::name::Version;
use crate::api::nearest::nearest;
use crate::sim;

/// What happens.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum Act {
    Own(Own),
    World(sim::Act),
}

/// What happens to the OneAgents, their operator and their environments.
#[derive(Debug, Clone, Deserialize, JsonSchema, VariantNames)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Own {
    /// Every environment offers a version, as the newest.
    Publish(String),
    /// The environments of these OneAgents offer versions, as the newest.
    PublishTo(BTreeMap<String, String>),
    /// The environments stop answering, or answer again.
    EnvironmentAway(bool),
    /// A merge patch of every OneAgent's spec.
    Edit(Value),
    /// Merge patches of the specs of these OneAgents.
    EditOf(BTreeMap<String, Value>),
    /// A user pauses the rollouts of all OneAgents, or resumes them.
    Pause(bool),
    /// A user stops everything, or ends the stop.
    Stop(bool),
    /// The operator's process starts again.
    Restart,
    /// A user empties every status.
    WipeStatus,
}

/// Acts that mean nothing to a DaemonSet.
const OF_WORKLOADS: [&str; 2] = ["scale", "minAvailable"];

impl<'de> Deserialize<'de> for Act {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let name = match &value {
            Value::String(name) => name.clone(),
            Value::Object(all) if all.len() == 1 => all.keys().next().cloned().unwrap_or_default(),
            _ => return Err(de::Error::custom("do: name one thing that happens, such as `publish: VERSION`")),
        };
        let of_world = sim::Act::VARIANTS.iter().filter(|name| !OF_WORKLOADS.contains(name));
        let names: Vec<&str> = Own::VARIANTS.iter().chain(of_world).copied().collect();
        let wrong = |error: serde_json::Error| de::Error::custom(format!("do.{name}: {error}"));
        let act = if Own::VARIANTS.contains(&name.as_str()) {
            Self::Own(Own::deserialize(value).map_err(wrong)?)
        } else if names.contains(&name.as_str()) {
            Self::World(sim::Act::deserialize(value).map_err(wrong)?)
        } else {
            let near = nearest(&name, &names);
            return Err(de::Error::custom(format!("do: {name} is unknown{near}; known are {}", names.join(", "))));
        };
        match act.unreadable() {
            Some(version) => Err(de::Error::custom(format!(
                "do.{name}: {version:?} is not a version of the agent such as 1.301.0.20260102-000000"
            ))),
            None => Ok(act),
        }
    }
}

impl Act {
    /// What should be a version and is none.
    fn unreadable(&self) -> Option<&str> {
        let is_none = |version: &&str| version.parse::<Version>().is_err();
        match self {
            Self::Own(Own::Publish(version)) => Some(version.as_str()).filter(is_none),
            Self::Own(Own::PublishTo(all)) => all.values().map(String::as_str).find(is_none),
            Self::World(sim::Act::Fate(fates)) => fates.keys().map(String::as_str).find(is_none),
            _ => None,
        }
    }

    /// The OneAgents that it names.
    #[must_use]
    pub fn agents(&self) -> Vec<&str> {
        match self {
            Self::Own(Own::PublishTo(all)) => all.keys().map(String::as_str).collect(),
            Self::Own(Own::EditOf(all)) => all.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
