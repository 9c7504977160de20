//! Containers that join JVMs in the small world: what becomes of each.
//!
//! Must not judge what comes of it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sim::Turn;

/// A helper finds its JVM, loads the exporter into it and then watches it: so long after it was asked for.
const LOADS: i64 = 6;
const ENDS: i64 = 17;

/// What becomes of a helper.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// Its JVM exports.
    Exports,
    /// The exporter does not take the configuration.
    NotTaken,
    /// It ends at once, for this reason.
    Says(String),
    /// The JVM ends while it loads, and takes the helper with it.
    Kills,
    /// The Pod ceases to be Ready while it loads, for five seconds.
    Unready,
    /// It is killed, and says nothing.
    Dies,
    /// It never ends.
    Hangs,
    /// Its image cannot be pulled.
    NoImage,
}

impl Fate {
    /// What happens then, after so many seconds each, to a container with this name that was asked for now.
    pub(super) fn turns(&self, name: &str, now: DateTime<Utc>) -> Vec<(i64, Turn)> {
        let text = |seconds: i64| (now + TimeDelta::seconds(seconds)).format("%FT%TZ").to_string();
        let becomes = |seconds: i64, state: Value| (seconds, Turn::Joined(name.to_owned(), state));
        let runs = becomes(1, json!({ "running": { "startedAt": text(1) } }));
        let ends = |seconds: i64, code: i32, said: &Value| {
            let said = if said.is_null() { String::new() } else { said.to_string() };
            let end = json!({ "exitCode": code, "message": said, "startedAt": text(1), "finishedAt": text(seconds) });
            becomes(seconds, json!({ "terminated": end }))
        };
        let exports = json!({ "result": "Exporting", "loadedAt": text(LOADS) });
        match self {
            Self::Exports => vec![runs, ends(ENDS, 0, &exports)],
            Self::NotTaken => {
                let why = "the exporter keeps what it had";
                let said = json!({ "reason": "ConfigNotTaken", "message": why, "loadedAt": text(LOADS) });
                vec![runs, ends(ENDS, 1, &said)]
            }
            Self::Says(reason) => {
                vec![runs, ends(LOADS, 1, &json!({ "reason": reason, "message": "what helps" }))]
            }
            Self::Kills => vec![runs, (LOADS + 1, Turn::Restart), ends(LOADS + 1, 137, &Value::Null)],
            Self::Unready => {
                let (no, yes) = ((LOADS + 1, Turn::Ready(false)), (LOADS + 6, Turn::Ready(true)));
                vec![runs, no, yes, ends(ENDS, 0, &exports)]
            }
            Self::Dies => vec![runs, ends(LOADS, 137, &Value::Null)],
            Self::Hangs => vec![runs],
            Self::NoImage => {
                let waiting = json!({ "reason": "ImagePullBackOff", "message": "not found" });
                vec![becomes(1, json!({ "waiting": waiting }))]
            }
        }
    }
}
