//! The clock: the only place that asks what time it is. Everything else is handed the time, or measures with tokio's
//! `Instant`, which a test can move.
//!
//! It follows the API server's, for the times in Pods and Nodes are compared with it: were this machine's ahead by
//! minutes, each new agent would be overdue the moment it is made, and a good version condemned. Whoever sets this
//! machine's clock ends no soak and opens no window. A lint forbids the other ways. Must not sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// Answers name whole seconds, and API servers of one cluster may differ by a moment.
const SLACK: TimeDelta = TimeDelta::seconds(1);

/// What time it is: this machine's until an API server was heard, then that one's.
#[derive(Debug, Clone)]
pub struct Clock {
    /// What time this machine said that it was when this was made,
    began: DateTime<Utc>,
    /// and what has passed since.
    since: Instant,
    /// By how many milliseconds the API server's clock is ahead of that.
    ahead: Arc<AtomicI64>,
}

impl Default for Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn default() -> Self {
        Self { began: Utc::now(), since: Instant::now(), ahead: Arc::default() }
    }
}

impl Clock {
    /// The time now.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.own() + TimeDelta::milliseconds(self.ahead.load(Ordering::Relaxed))
    }

    /// What time it were without the API server: to tell `hear` when something was asked.
    #[must_use]
    pub fn own(&self) -> DateTime<Utc> {
        self.began + self.since.elapsed()
    }

    /// Takes note of what time an answer says that it is; both other times are our own. An answer that was long
    /// on its way, or read late, says little, and moves nothing that it does not contradict. Returns by how much the
    /// clocks differ, if that is new.
    #[must_use]
    pub fn hear(&self, asked: DateTime<Utc>, said: DateTime<Utc>, heard: DateTime<Utc>) -> Option<TimeDelta> {
        let (least, most) = (said - heard, said + TimeDelta::seconds(1) - asked);
        let known = TimeDelta::milliseconds(self.ahead.load(Ordering::Relaxed));
        if least - SLACK <= known && known <= most + SLACK {
            return None;
        }
        let ahead = if known < least { least } else { most };
        self.ahead.store(ahead.num_milliseconds(), Ordering::Relaxed);
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_000_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn it_follows_what_answers_say_and_no_further_than_they_prove() {
        let clock = Clock::default();
        let differs = |asked, said, heard| clock.hear(at(asked), at(said), at(heard)).map(|by| by.num_milliseconds());
        assert_eq!(differs(100, 0, 110), None, "an answer names whole seconds");
        assert_eq!(differs(0, 1_000, 10), None, "or another API server's clock is a moment ahead");
        // The machine's clock is ten minutes behind, then right, then ten minutes ahead.
        assert_eq!(differs(0, 600_000, 10), Some(599_990));
        assert_eq!(differs(1_000, 601_000, 1_010), None, "known");
        assert!((599_980..=599_990).contains(&(clock.now() - clock.own()).num_milliseconds()));
        assert_eq!(differs(700_000, 700_000, 700_010), Some(1_000));
        assert_eq!(differs(1_400_000, 800_000, 1_400_010), Some(-599_000));
        // Asked before a pause of the process, and read after it.
        assert_eq!(differs(1_500_000, 900_000, 1_800_000), None);
        assert_eq!(differs(1_500_000, 1_199_000, 1_800_000), None, "as good as answered at the end of the pause");
        assert_eq!(differs(1_500_000, 1_300_000, 1_800_000), Some(-500_000), "no further than that proves");
    }
}
