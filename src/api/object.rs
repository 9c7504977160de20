//! What the status of every kind has, so that the kernel writes all of them in one way.
//!
//! Must not know a kind, nor word anything.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::condition::{Condition, Finding, Transition, Type, merge};

/// The status of a kind.
pub trait ObjectStatus: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its conditions.
    type Condition: Type;

    /// What is the same in every kind's, to be changed.
    fn head(&mut self) -> Head<'_>;

    /// What its conditions say.
    fn conditions(&self) -> &[Condition];

    /// The namespace of the operator that wrote it.
    fn operator(&self) -> Option<&str>;

    /// All but what may wait: counts, names, and sentences that only follow them.
    #[must_use]
    fn urgent(&self) -> Self {
        self.clone()
    }

    /// Its counts by state, for the metrics: the integers of what this returns.
    fn counts(&self) -> Option<impl Serialize> {
        None::<()>
    }

    /// What else a status says while nothing can be done.
    fn refuse(&mut self) {}

    /// Notes the time of a change.
    fn stamp(&mut self, _now: DateTime<Utc>) {}
}

/// In `impl ObjectStatus`: what is the same in the status of every kind is in fields of the same names.
#[macro_export]
macro_rules! status_head {
    () => {
        fn head(&mut self) -> $crate::api::object::Head<'_> {
            let Self { observed_generation, operator_namespace, conditions, .. } = self;
            $crate::api::object::Head { observed_generation, operator_namespace, conditions }
        }

        fn conditions(&self) -> &[$crate::api::condition::Condition] {
            &self.conditions
        }

        fn operator(&self) -> Option<&str> {
            self.operator_namespace.as_deref()
        }
    };
}
pub(crate) use status_head;

/// What is the same in the status of every kind.
#[derive(Debug)]
pub struct Head<'s> {
    pub observed_generation: &'s mut Option<i64>,
    pub operator_namespace: &'s mut Option<String>,
    pub conditions: &'s mut Vec<Condition>,
}

/// The status of an object for which nothing can be done: what was known stays. `is_considered`: the reason is what
/// the spec asks for; else an edit of it is still to be reconciled.
#[must_use]
pub fn refused<S: ObjectStatus>(
    before: &S,
    (generation, is_considered): (Option<i64>, bool),
    (reason, message): (<S::Condition as Type>::Reason, &str),
    now: DateTime<Utc>,
) -> (S, Vec<Transition>) {
    type C<S> = <S as ObjectStatus>::Condition;
    let findings = [
        Finding::new(C::<S>::READY, false, reason, message),
        Finding::new(C::<S>::PROGRESSING, false, reason, C::<S>::HALTED),
        Finding::new(C::<S>::DEGRADED, true, reason, message),
    ];
    let (mut conditions, transitions) = merge(before.conditions(), &findings, generation, now);
    for condition in &mut conditions {
        let is_found = findings.iter().any(|finding| finding.type_.to_string() == condition.type_);
        let known = before.conditions().iter().find(|known| known.type_ == condition.type_);
        if let Some(known) = known.filter(|_| !is_found) {
            *condition = known.clone();
        }
    }
    let mut status = before.clone();
    let head = status.head();
    *head.conditions = conditions;
    if is_considered {
        *head.observed_generation = generation;
    }
    status.refuse();
    (status, transitions)
}

/// Clears the sentences that may wait, for most only follow counts; what needs a human is said at once.
pub fn keep_what_is_urgent<T: Type>(conditions: &mut [Condition]) {
    let degraded = T::DEGRADED.to_string();
    for condition in conditions.iter_mut().filter(|condition| condition.type_ != degraded) {
        condition.message.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::config_watcher::ConfigWatcherStatus;
    use crate::api::config_watcher::condition::{ConditionType, Reason};

    #[test]
    fn an_edit_that_could_not_be_reconciled_is_not_observed_and_what_was_known_stays() {
        let before = ConfigWatcherStatus {
            observed_generation: Some(1),
            applied_hash: Some("hash".to_owned()),
            ..ConfigWatcherStatus::default()
        };
        for (reason, is_considered, observed) in [(Reason::InvalidSpec, true, 2), (Reason::WriteRefused, false, 1)] {
            let (status, _) = refused(&before, (Some(2), is_considered), (reason, "why"), DateTime::UNIX_EPOCH);
            assert_eq!((status.observed_generation, status.applied_hash.as_deref()), (Some(observed), Some("hash")));
            let said = status.conditions.iter().map(|condition| (&*condition.type_, &*condition.reason));
            let reason = reason.to_string();
            let all = [ConditionType::READY, ConditionType::PROGRESSING, ConditionType::DEGRADED];
            let expected: Vec<(String, &str)> = all.iter().map(|type_| (type_.to_string(), &*reason)).collect();
            assert!(said.eq(expected.iter().map(|(type_, reason)| (&**type_, *reason))), "{:?}", status.conditions);
        }
    }
}
