//! Desks: all that is kept of one object between two looks at it, in one place, dropped whole when the object is gone.
//!
//! Here because state that lies about in maps of its own outlives its object in one of them. Must not know what is
//! kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Error, Key};

/// What failed so often in a row is said.
const PERSISTENT: u32 = 3;

/// So long after its begin a look asks for nothing that the next one can ask for: it must say what it did before the
/// runtime ends it.
const ROUND: Duration = Duration::from_secs(8);

/// What every kind keeps of an object, beside its own.
#[derive(Debug, Default)]
pub struct Desk<D> {
    /// Which object this is about: one that is created again under the same name has another.
    pub uid: String,
    failures: Mutex<u32>,
    began: Mutex<Option<Instant>>,
    planned: Mutex<Option<(Instant, Duration)>>,
    /// What is the kind's.
    pub own: D,
}

impl<D> Desk<D> {
    /// What of an error is to be said to the user: what the API server objects to, and what goes on failing, whatever
    /// it is.
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

    /// A look begins.
    pub(super) fn begins(&self) {
        *self.began.lock() = Some(Instant::now());
    }

    /// Whether the look has time for one more of many requests. What is left the next look does.
    pub fn has_time(&self) -> bool {
        self.began.lock().is_none_or(|began| began.elapsed() < ROUND)
    }

    /// When it was planned last, and how long that took.
    pub(super) fn last_plan(&self) -> Option<(Instant, Duration)> {
        *self.planned.lock()
    }

    /// Notes how long a plan took, and that it was made now.
    pub fn planned(&self, took: Duration) {
        *self.planned.lock() = Some((Instant::now(), took));
    }
}

/// The desks of all objects of a kind.
#[derive(Debug)]
pub struct Desks<D>(Mutex<HashMap<Key, Arc<Desk<D>>>>);

impl<D> Default for Desks<D> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<D: Default> Desks<D> {
    /// The desk of an object; and that of one of its name that is gone, if there was one.
    pub fn of(&self, key: &Key, uid: &str) -> (Arc<Desk<D>>, Option<Arc<Desk<D>>>) {
        let mut desks = self.0.lock();
        let before = desks.get(key).filter(|desk| desk.uid != uid).cloned();
        if before.is_some() {
            desks.remove(key);
        }
        let new = || {
            Arc::new(Desk {
                uid: uid.to_owned(),
                failures: Mutex::default(),
                began: Mutex::default(),
                planned: Mutex::default(),
                own: D::default(),
            })
        };
        (desks.entry(key.clone()).or_insert_with(new).clone(), before)
    }

    /// The desk of an object, if it was ever looked at.
    pub fn there(&self, key: &Key) -> Option<Arc<Desk<D>>> {
        self.0.lock().get(key).cloned()
    }

    /// An object is gone.
    pub fn clear(&self, key: &Key) -> Option<Arc<Desk<D>>> {
        self.0.lock().remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_has_time_until_its_round_is_over_and_the_next_one_again() {
        let desk: Desk<()> = Desk::default();
        desk.begins();
        tokio::time::advance(ROUND / 2).await;
        assert!(desk.has_time());
        tokio::time::advance(ROUND / 2).await;
        assert!(!desk.has_time());
        desk.begins();
        assert!(desk.has_time());
    }

    #[test]
    fn an_object_that_is_made_anew_under_its_name_has_a_desk_of_its_own() {
        let desks: Desks<Mutex<u32>> = Desks::default();
        let key = ("n".to_owned(), "a".to_owned());
        let (first, before) = desks.of(&key, "1");
        assert!(before.is_none());
        *first.own.lock() = 7;
        assert_eq!(*desks.of(&key, "1").0.own.lock(), 7);
        let (second, before) = desks.of(&key, "2");
        assert_eq!((*second.own.lock(), before.map(|desk| desk.uid.clone())), (0, Some("1".to_owned())));
        assert!(desks.clear(&key).is_some() && desks.there(&key).is_none());
    }
}
