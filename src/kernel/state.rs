//! All that is kept of one object between two reconciles, in one place, dropped whole when the object is gone.
//!
//! Here because state that lies about in maps of its own outlives its object in one of them. It is gone with the
//! process, so nothing that must outlive one is in it. Must not know what a kind keeps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::status::LastStatus;
use super::{Error, Key};

/// An error is said after so many failures in a row.
const PERSISTENT: u32 = 3;

/// So long after its begin a reconcile asks for nothing that the next one can ask for: it must say what it did before
/// the runtime ends it.
const ROUND: Duration = Duration::from_secs(8);

/// What is kept of an object whose status is an `S`; `O` is the kind's own.
#[derive(Debug)]
pub struct ObjectState<S, O> {
    /// Which object this is about: one that is created again under the same name has another.
    pub uid: String,
    failures: Mutex<u32>,
    began: Mutex<Option<Instant>>,
    planned: Mutex<Option<(Instant, Duration)>>,
    /// The last status written.
    pub(super) status: LastStatus<S>,
    /// What is the kind's.
    pub own: O,
}

impl<S, O: Default> ObjectState<S, O> {
    /// Of an object that was not reconciled yet.
    #[must_use]
    pub fn new(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            failures: Mutex::default(),
            began: Mutex::default(),
            planned: Mutex::default(),
            status: LastStatus::default(),
            own: O::default(),
        }
    }
}

impl<S, O> ObjectState<S, O> {
    /// What of an error is to be said to the user: what the API server objects to, and what keeps failing, whatever it
    /// is.
    pub fn complaint(&self, error: &Error) -> Option<String> {
        let goes_on = || (*self.failures.lock() >= PERSISTENT && !error.is_conflict()).then(|| error.chain());
        error.objection().or_else(goes_on)
    }

    pub(super) fn failed(&self) -> u32 {
        let mut failures = self.failures.lock();
        *failures = failures.saturating_add(1);
        *failures
    }

    pub(super) fn succeeded(&self) {
        *self.failures.lock() = 0;
    }

    /// A reconcile begins.
    pub(super) fn begins(&self) {
        *self.began.lock() = Some(Instant::now());
    }

    /// Whether the reconcile has time for one more of many requests. What is left the next one does.
    pub fn has_time(&self) -> bool {
        self.began.lock().is_none_or(|began| began.elapsed() < ROUND)
    }

    /// When it was planned last, and how long that took.
    pub(super) fn last_plan(&self) -> Option<(Instant, Duration)> {
        *self.planned.lock()
    }

    /// Notes how long a plan took, and that it was made now.
    pub(super) fn planned(&self, took: Duration) {
        *self.planned.lock() = Some((Instant::now(), took));
    }
}

/// The states of all objects of a kind.
#[derive(Debug)]
pub(super) struct States<S, O>(Mutex<HashMap<Key, Arc<ObjectState<S, O>>>>);

impl<S, O> Default for States<S, O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What is known of an object.
pub(super) struct Known<S, O> {
    pub state: Arc<ObjectState<S, O>>,
    /// That of another object of its name, which is gone.
    pub replaced: Option<Arc<ObjectState<S, O>>>,
}

impl<S, O: Default> States<S, O> {
    /// The state of an object.
    pub fn of(&self, key: &Key, uid: &str) -> Known<S, O> {
        let mut all = self.0.lock();
        let replaced = all.get(key).filter(|state| state.uid != uid).cloned();
        if replaced.is_some() {
            all.remove(key);
        }
        let state = all.entry(key.clone()).or_insert_with(|| Arc::new(ObjectState::new(uid))).clone();
        Known { state, replaced }
    }

    /// The state of an object, if it was ever reconciled.
    pub fn there(&self, key: &Key) -> Option<Arc<ObjectState<S, O>>> {
        self.0.lock().get(key).cloned()
    }

    /// An object is gone.
    pub fn clear(&self, key: &Key) -> Option<Arc<ObjectState<S, O>>> {
        self.0.lock().remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_has_time_until_its_round_is_over_and_the_next_one_again() {
        let state: ObjectState<(), ()> = ObjectState::new("1");
        state.begins();
        tokio::time::advance(ROUND / 2).await;
        assert!(state.has_time());
        tokio::time::advance(ROUND / 2).await;
        assert!(!state.has_time());
        state.begins();
        assert!(state.has_time());
    }

    #[test]
    fn an_object_that_is_created_again_under_its_name_has_a_state_of_its_own() {
        let states: States<(), Mutex<u32>> = States::default();
        let key = ("n".to_owned(), "a".to_owned());
        let first = states.of(&key, "1");
        assert!(first.replaced.is_none());
        *first.state.own.lock() = 7;
        assert_eq!(*states.of(&key, "1").state.own.lock(), 7);
        let second = states.of(&key, "2");
        assert_eq!(*second.state.own.lock(), 0);
        assert_eq!(second.replaced.map(|state| state.uid.clone()), Some("1".to_owned()));
        assert!(states.clear(&key).is_some() && states.there(&key).is_none());
    }
}
