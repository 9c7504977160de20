//! When a question to the vendor is due: after its period, sooner after a failure, later when the vendor asks for it.
//!
//! Apart from `poller` so that the rules of waiting stand in one place. Must not ask anything itself.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::Error;
use crate::backoff;

/// Longest wait after a failure, unless the environment asks for more.
const BACKOFF_AT_MOST: Duration = Duration::from_secs(25);
/// Longest wait that an environment may ask for.
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(3600);

/// When a question is due, and how often it failed in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Instant,
    failures: u32,
}

impl Default for Due {
    fn default() -> Self {
        Self { at: Instant::now(), failures: 0 }
    }
}

impl Due {
    /// Whether it is time to ask.
    pub(super) fn is_now(&self) -> bool {
        self.at <= Instant::now()
    }

    /// Has it asked now, unless it failed a moment ago: then the wait after a failure applies.
    pub(super) fn hurry(&mut self) {
        if self.failures == 0 {
            self.at = Instant::now();
        }
    }

    /// Sets when to ask next: after a period, or sooner after a failure.
    pub(super) fn settle<T>(&mut self, outcome: &Result<T, Error>, period: Duration) {
        let wait = match outcome {
            Ok(_) => {
                self.failures = 0;
                period
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let longest = BACKOFF_AT_MOST.min(period.max(Duration::from_millis(200)));
                let wait = backoff::wait(self.failures, period).min(longest);
                error.retry_after().map_or(wait, |after| after.clamp(wait, RETRY_AFTER_AT_MOST))
            }
        };
        self.at = Instant::now() + jitter(wait);
    }
}

/// Up to a tenth more, so that the pollers of many clusters do not ask at once.
fn jitter(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(wait) % 1000;
    wait + wait.mul_f64(random as f64 / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(due: &Due) -> Duration {
        due.at - Instant::now()
    }

    #[test]
    fn failures_are_retried_soon_and_retry_after_is_obeyed() {
        let mut due = Due::default();
        let period = Duration::from_secs(900);
        due.settle(&Ok(()), period);
        assert!(wait(&due) > Duration::from_secs(890) && wait(&due) < Duration::from_secs(1000));
        for _ in 0..20 {
            due.settle::<()>(&Err(Error::Timeout(1)), period);
            assert!(wait(&due) < Duration::from_secs(30), "good again within 30 s of the vendor's recovery");
        }
        due.settle::<()>(&Err(Error::Throttled { code: 429, after: Some(Duration::from_secs(120)) }), period);
        assert!(wait(&due) > Duration::from_secs(119));
        due.settle::<()>(&Err(Error::Throttled { code: 429, after: Some(Duration::from_secs(999_999)) }), period);
        assert!(wait(&due) < Duration::from_secs(4000), "no vendor can silence us for ever");
    }
}
