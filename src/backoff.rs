//! Back-off: how long an object that failed waits before it is tried again, doubled each time, with jitter.
//!
//! Per object, so that one broken object never delays another. Must not sleep itself.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(120);

/// How long to wait after so many failures in a row: up to a quarter more, other for each object, process and try.
pub fn wait(count: u32, object: impl Hash) -> Duration {
    static RANDOM: OnceLock<RandomState> = OnceLock::new();
    let wait = FIRST.saturating_mul(1 << count.saturating_sub(1).min(10)).min(LONGEST);
    let spread = RANDOM.get_or_init(RandomState::new).hash_one((object, count)) % 1000;
    wait + wait.mul_f64(spread as f64 / 4000.0)
}

/// Failures in a row, by object.
#[derive(Debug, Default)]
pub struct Backoff<K>(Mutex<HashMap<K, u32>>);

impl<K: Hash + Eq + Clone> Backoff<K> {
    /// Counts a failure and says how long to wait.
    pub fn failed(&self, key: &K) -> Duration {
        let mut failures = self.0.lock();
        let count = failures.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        wait(*count, key)
    }

    /// Forgets the failures of an object.
    pub fn succeeded(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_restart_after_a_success() {
        let backoff = Backoff::default();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.failed(&"a")).collect();
        assert!(waits[0] >= FIRST && waits[0] < FIRST * 2);
        assert!(waits.iter().all(|w| *w <= LONGEST.mul_f64(1.25)));
        assert!(waits[19] >= LONGEST);
        assert!(backoff.failed(&"b") < FIRST * 2, "another object has its own");
        backoff.succeeded(&"a");
        assert!(backoff.failed(&"a") < FIRST * 2);
    }
}
