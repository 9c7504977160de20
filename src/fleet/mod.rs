//! What the watches show, as the engine wants it: nodes, Pods with their health, and the workloads that they are
//! replicas of; and what users ask of a rollout.
//!
//! Pure, for any kind. Must not know what a Pod was made from, nor decide anything.

pub mod causes;
pub mod cells;
pub mod closed;
pub mod counts;
pub mod daemonsets;
pub mod edited;
pub mod finding;
pub mod gaps;
pub mod kept_out;
mod losses;
pub mod milestones;
pub mod missing;
mod near;
pub mod nodes;
pub mod pods;
pub mod policy;
pub mod preview;
pub mod refusal;
pub mod replicas;
pub mod selector;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::k8s::facts::ConditionFacts;

fn since(condition: &ConditionFacts) -> Option<DateTime<Utc>> {
    time(condition.last_transition_time.as_deref()?)
}

/// A time as the API has it.
#[must_use]
pub fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|t| t.to_utc())
}

/// A kubelet's clock is trusted that far.
const SKEW: TimeDelta = TimeDelta::seconds(60);

/// Since when something is so, by a time that another machine wrote and by what this process saw: `same` is since when
/// it was so before, `is_change` whether it was otherwise before. A clock that is ahead ends no wait, and one that is
/// behind skips none.
fn as_seen(written: DateTime<Utc>, same: Option<DateTime<Utc>>, is_change: bool, now: DateTime<Utc>) -> DateTime<Utc> {
    match same {
        Some(known) if written > now || written <= known => known,
        Some(_) => written,
        None if is_change && (written > now || written + SKEW < now) => now,
        None => written.min(now),
    }
}

/// The one place where the API's time becomes ours.
#[must_use]
pub fn created(time: Option<&Time>) -> DateTime<Utc> {
    time.and_then(|time| DateTime::from_timestamp(time.0.as_second(), 0)).unwrap_or_default()
}

/// Whether a Pod was there before a time. The API server says in whole seconds when it was created: of one that was
/// created in that second this is unknown, and it counts as newer.
#[must_use]
pub fn was_there_before(created: DateTime<Utc>, at: DateTime<Utc>) -> bool {
    created.timestamp() < at.timestamp()
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn one_that_was_created_in_the_same_second_is_not_older() {
        let second = DateTime::UNIX_EPOCH;
        assert!(!was_there_before(second, second + TimeDelta::milliseconds(999)));
        assert!(was_there_before(second, second + TimeDelta::seconds(1)));
    }
}
