//! Conditions: the sentences of a status. Which there are, and for which reasons, is the kind's.
//!
//! Here because status, Events and metrics must use the same words. Must not decide anything: kinds hand in findings,
//! this file only gives them their shape.

use std::collections::HashSet;
use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoEnumIterator;

/// One condition in a status. Old objects may lack any field but `type`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type of the condition, such as Ready.
    #[serde(rename = "type", default)]
    #[schemars(required)]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
    pub status: String,
    /// One word for the cause.
    #[serde(default)]
    pub reason: String,
    /// The cause in a sentence, and what to do about it.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed (RFC 3339).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    /// The generation of the object that this condition was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether one of these has this type and this reason.
#[must_use]
pub fn has(conditions: &[Condition], type_: impl Display, reason: impl Display) -> bool {
    let (type_, reason) = (type_.to_string(), reason.to_string());
    conditions.iter().any(|condition| condition.type_ == type_ && condition.reason == reason)
}

impl Condition {
    /// What it says, without the sentence: its type, status and reason.
    #[must_use]
    pub fn says(&self) -> [&str; 3] {
        [&self.type_, &self.status, &self.reason]
    }
}

/// The conditions of a kind: every object of it has all of them from the first visit on, in this order.
pub trait Type: Copy + PartialEq + Display + IntoEnumIterator {
    /// Why one is as it is.
    type Reason: Copy + PartialEq + Display + IntoEnumIterator + Send + Sync;
    /// The reason before the first reconcile.
    const NOT_YET: Self::Reason;
    /// The reason while the spec is invalid.
    const INVALID_SPEC: Self::Reason;
    /// The reason while the operator lacks a right.
    const RIGHTS_MISSING: Self::Reason;
    /// The reason while requests to the API server keep failing.
    const WRITE_REFUSED: Self::Reason;
    const READY: Self;
    const PROGRESSING: Self;
    const DEGRADED: Self;
    /// What Progressing says while nothing can be done.
    const HALTED: &'static str;
    /// What an Event is worth that says so.
    fn weight(self, holds: Option<bool>, reason: Self::Reason) -> Weight;
}

/// In `impl Type`: the conditions and reasons that every kind has, under their own names.
#[macro_export]
macro_rules! common_conditions {
    ($reason:ident) => {
        type Reason = $reason;
        const NOT_YET: $reason = $reason::NotYetReported;
        const INVALID_SPEC: $reason = $reason::InvalidSpec;
        const RIGHTS_MISSING: $reason = $reason::RightsMissing;
        const WRITE_REFUSED: $reason = $reason::WriteRefused;
        const READY: Self = Self::Ready;
        const PROGRESSING: Self = Self::Progressing;
        const DEGRADED: Self = Self::Degraded;
    };
}
pub(crate) use common_conditions;

/// What an Event is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// None: all is well, or another condition says so.
    Quiet,
    Normal,
    Warning,
}

/// A condition before it is merged into a status: what was found, without times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding<T, R> {
    /// Which condition.
    pub type_: T,
    /// Its status; `None` is Unknown.
    pub holds: Option<bool>,
    /// Its reason.
    pub reason: R,
    /// Its message.
    pub message: String,
}

impl<T, R> Finding<T, R> {
    /// A finding.
    pub fn new(type_: T, holds: impl Into<Option<bool>>, reason: R, message: impl Into<String>) -> Self {
        Self { type_, holds: holds.into(), reason, message: message.into() }
    }

    fn status(&self) -> &'static str {
        match self.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// One condition that changed, for an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Which condition.
    pub type_: String,
    /// Its reason now.
    pub reason: String,
    /// Its message now.
    pub message: String,
    /// Whether it is worth a Warning.
    pub warning: bool,
}

/// Merges findings into what the status had: a transition time changes only with the condition's status.
/// Entries of types that we do not know are dropped: the status is ours alone.
#[must_use]
pub fn merge<T: Type>(
    old: &[Condition],
    findings: &[Finding<T, T::Reason>],
    generation: Option<i64>,
    now: DateTime<Utc>,
) -> (Vec<Condition>, Vec<Transition>) {
    let mut transitions = Vec::new();
    let merged = T::iter()
        .map(|type_| {
            let name = type_.to_string();
            let before = old.iter().find(|c| c.type_ == name);
            let unknown = || Finding::new(type_, None, T::NOT_YET, "not looked at yet");
            let finding = findings
                .iter()
                .find(|f| f.type_ == type_)
                .map_or_else(unknown, |f| Finding { message: f.message.clone(), ..*f });
            let same_status = before.is_some_and(|b| b.status == finding.status());
            let since = before
                .filter(|b| same_status && !b.last_transition_time.is_empty())
                .map(|b| b.last_transition_time.clone());
            transitions.extend(transition(type_, before, &finding));
            Condition {
                type_: name,
                status: finding.status().to_owned(),
                reason: finding.reason.to_string(),
                message: finding.message,
                last_transition_time: since.unwrap_or_else(|| timestamp(now)),
                observed_generation: generation,
            }
        })
        .collect();
    // Several conditions may change for one reason: that is one Event.
    let mut said = HashSet::new();
    transitions.sort_by_key(|transition: &Transition| !transition.warning);
    transitions.retain(|transition| said.insert(transition.reason.clone()));
    (merged, transitions)
}

/// What is to be told of a condition, if it changed and that is worth an Event.
fn transition<T: Type>(type_: T, before: Option<&Condition>, finding: &Finding<T, T::Reason>) -> Option<Transition> {
    let reason = finding.reason.to_string();
    if before.is_some_and(|before| (&*before.status, &before.reason) == (finding.status(), &reason)) {
        return None;
    }
    // What is not so yet at the first look has not ceased to be.
    if before.is_none() && finding.holds != Some(true) {
        return None;
    }
    let tell = |reason, message, warning| Some(Transition { type_: type_.to_string(), reason, message, warning });
    match type_.weight(finding.holds, finding.reason) {
        Weight::Normal => tell(reason, finding.message.clone(), false),
        Weight::Warning => tell(reason, finding.message.clone(), true),
        // The end of what was a Warning is news; another reason for the same is no end.
        Weight::Quiet => {
            let has_ended = |before: &&Condition| before.status != finding.status() && was_warned_of(type_, before);
            let before = before.filter(has_ended)?;
            tell(
                "Recovered".to_owned(),
                format!("Condition {type_} is {} again, after {}.", finding.status(), before.reason),
                false,
            )
        }
    }
}

fn was_warned_of<T: Type>(type_: T, before: &Condition) -> bool {
    let holds = match &*before.status {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    };
    let reason = T::Reason::iter().find(|reason| reason.to_string() == before.reason);
    reason.is_some_and(|reason| type_.weight(holds, reason) == Weight::Warning)
}

/// A text of fewer bytes than `limit`: whole sentences, or the beginning of the first one.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() < limit {
        return text.to_owned();
    }
    let most = limit.saturating_sub(5);
    let room = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let end = ["; ", ". "].into_iter().filter_map(|end| text[..room].rfind(end)).max();
    let end = end.or_else(|| text[..room].rfind(' ')).unwrap_or(room);
    format!("{} …", text[..end].trim_end_matches([':', ',', ';', ' ']))
}

/// A time as the API server writes it.
#[must_use]
pub fn timestamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::oneagent::condition::{ConditionType, Finding, Reason};

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn every_condition_exists_from_the_first_visit_on() {
        let (conditions, _) = merge::<ConditionType>(&[], &[], Some(1), at(0));
        assert_eq!(conditions.len(), ConditionType::iter().count());
        assert!(
            conditions.iter().all(|c| c.status == "Unknown" && c.reason == "NotYetReported" && !c.message.is_empty())
        );
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let ready = |holds, reason| vec![Finding::new(ConditionType::Ready, holds, reason, "m")];
        let told = |events: Vec<Transition>| -> Vec<(String, bool)> {
            events.into_iter().map(|event| (event.reason, event.warning)).collect()
        };
        let (first, events) = merge(&[], &ready(false, Reason::Starting), None, at(0));
        assert_eq!(told(events), [], "what was never so has not ceased to be");
        let (second, events) = merge(&first, &ready(false, Reason::AgentsUnavailable), None, at(10));
        assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
        assert_eq!(told(events), [("AgentsUnavailable".to_owned(), true)], "a new reason is an Event");
        let (third, events) = merge(&second, &ready(true, Reason::AllUpdated), None, at(20));
        assert_ne!(third[0].last_transition_time, second[0].last_transition_time);
        assert_eq!(told(events), [("Recovered".to_owned(), false)]);
        let (_, events) = merge(&third, &ready(true, Reason::AllUpdated), None, at(30));
        assert!(events.is_empty(), "nothing changed, nothing to say");
    }

    #[test]
    fn what_is_too_long_ends_with_a_sentence() {
        assert_eq!(shortened("short", 100), "short");
        assert_eq!(shortened("the first one; the second one, which is too long", 30), "the first one …");
        assert_eq!(shortened("one that goes on and on without any end", 20), "one that goes …");
        assert!(shortened(&"é".repeat(600), 1_000).len() < 1_000);
    }

    #[test]
    fn several_conditions_that_change_for_one_reason_make_one_event() {
        let all = |holds, reason| {
            let of = |type_| Finding::new(type_, holds, reason, "m");
            [ConditionType::Ready, ConditionType::Available].map(of).to_vec()
        };
        let (before, _) = merge(&[], &all(true, Reason::AsExpected), None, at(0));
        let (_, events) = merge(&before, &all(false, Reason::AgentsUnavailable), None, at(1));
        assert_eq!(events.len(), 1, "{events:?}");
    }

    #[test]
    fn a_condition_of_the_original_without_a_time_gets_one() {
        let old = Condition {
            type_: "APIToken".into(),
            status: "True".into(),
            reason: "TokenReady".into(),
            ..Condition::default()
        };
        let (merged, _) =
            merge(&[old], &[Finding::new(ConditionType::ApiToken, true, Reason::TokenReady, "m")], None, at(5));
        let api = merged.iter().find(|c| c.type_ == "APIToken").unwrap();
        assert_eq!(api.last_transition_time, "1970-01-01T00:00:05Z");
    }
}
