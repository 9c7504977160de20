//! What must outlive us of a ConfigWatcher, as its status keeps it.
//!
//! Pure. What does not read is as if it were not there; what people read in the status takes its place.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::change::{Pending, Tracked};
use super::revision::Config;
use crate::api::config_watcher::ConfigWatcherStatus;
use crate::rollout;

/// What must outlive us.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What has reached the Pods; `None` before the first sight.
    pub tracked: Option<Tracked>,
    /// What the engine remembers.
    #[serde(default)]
    pub engine: rollout::Memory<Config>,
    /// When an edit of the spec lifted a verdict: a Pod that is not Ready has its time again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted_at: Option<DateTime<Utc>>,
}

/// What a status remembers. `config_map`: what the spec names.
#[must_use]
pub fn read(status: &ConfigWatcherStatus, config_map: &str) -> Memory {
    let stored = status.rollout.as_ref().and_then(|rollout| rollout.memory.clone());
    let stored = stored.and_then(|stored| serde_json::from_value::<Memory>(stored).ok());
    stored.unwrap_or_else(|| Memory { tracked: told(status, config_map), ..Memory::default() })
}

/// What people read there: of a memory that was removed, the baseline is left.
fn told(status: &ConfigWatcherStatus, config_map: &str) -> Option<Tracked> {
    let time = |text: &str| DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).ok();
    let changed_at = status.changed_at.as_deref().and_then(time).unwrap_or_default();
    let applied = Config { hash: status.applied_hash.clone()?, changed_at };
    let pending = status.pending.as_ref().and_then(|pending| {
        let config = Config { hash: pending.hash.clone(), changed_at: time(&pending.changed_at)? };
        Some(Pending { left_at: config.changed_at, config })
    });
    Some(Tracked { pending, ..Tracked::baseline(config_map, applied) })
}
