//! What the watches show, as the engine wants it: nodes, Pods with their health, and the workloads that they are
//! replicas of; and what users ask of a rollout.
//!
//! Pure, for any kind. Must not know what a Pod was made from, nor decide anything.

pub mod nodes;
pub mod pods;
pub mod policy;
pub mod replicas;

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::k8s::facts::ConditionFacts;

fn since(condition: &ConditionFacts) -> Option<DateTime<Utc>> {
    time(condition.last_transition_time.as_deref()?)
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|t| t.to_utc())
}

/// The one place where the API's time becomes ours.
fn created(time: Option<&Time>) -> DateTime<Utc> {
    time.and_then(|time| DateTime::from_timestamp(time.0.as_second(), 0)).unwrap_or_default()
}
