//! The clock: the only place that asks what time it is. Everything else is handed the time, or measures with tokio's
//! `Instant`, which a test can move.
//!
//! It follows the API server's, for the times in Pods and Nodes are compared with it: were this machine's ahead by
//! minutes, each new agent would be overdue the moment it is created, and a good version rejected. A change of this
//! machine's clock ends no soak and opens no window. A lint forbids the other ways. Must not sleep.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;

/// API servers of one cluster may differ by a moment.
const SLACK: TimeDelta = TimeDelta::seconds(1);
/// Of several API servers the one whose clock is behind counts, if it answered within so long, or twice so long.
const PERIOD: TimeDelta = TimeDelta::minutes(5);

/// What time it is: this machine's until an API server was heard, then that one's.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
    offset: Arc<Mutex<Offset>>,
}

/// Where the time comes from.
#[derive(Debug, Clone)]
enum Source {
    /// What time this machine said that it was when this was made, and what has passed since.
    Machine(DateTime<Utc>, Instant),
    /// A simulated world, which sets it.
    World(Arc<Mutex<DateTime<Utc>>>),
}

/// What is known of the API server's clock; all by how much it is ahead of our own.
#[derive(Debug)]
struct Offset {
    ahead: TimeDelta,
    /// What answers proved it to be at most, in this period and in the one before.
    most: [TimeDelta; 2],
    /// When this period began.
    since: DateTime<Utc>,
}

impl Default for Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn default() -> Self {
        let began = Utc::now();
        let offset = Offset { ahead: TimeDelta::zero(), most: [TimeDelta::MAX; 2], since: began };
        Self { source: Source::Machine(began, Instant::now()), offset: Arc::new(Mutex::new(offset)) }
    }
}

impl Clock {
    /// The time now.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.own() + self.offset.lock().ahead
    }

    /// The clock of a simulated world; it says this time until `set` moves it.
    #[must_use]
    pub fn at(began: DateTime<Utc>) -> Self {
        Self { source: Source::World(Arc::new(Mutex::new(began))), ..Self::default() }
    }

    /// Moves the clock of a simulated world, and each copy of it.
    pub fn set(&self, now: DateTime<Utc>) {
        if let Source::World(time) = &self.source {
            *time.lock() = now;
        }
    }

    /// What time it were without the API server: to tell `hear` when something was asked.
    #[must_use]
    pub fn own(&self) -> DateTime<Utc> {
        match &self.source {
            Source::Machine(began, since) => *began + since.elapsed(),
            Source::World(time) => *time.lock(),
        }
    }

    /// Takes note of what time an answer says that it is, in whole seconds; both other times are our own. An answer
    /// that was long on its way, or read late, moves nothing that it does not contradict. What is decided too late does
    /// less harm than what is decided too early: of API servers that differ the one that is behind counts. Returns by
    /// how much the clocks differ, if that is new.
    #[must_use]
    pub fn hear(&self, asked: DateTime<Utc>, said: DateTime<Utc>, heard: DateTime<Utc>) -> Option<TimeDelta> {
        let (least, most) = (said - heard, said + TimeDelta::seconds(1) - asked);
        let mut known = self.offset.lock();
        if heard - known.since >= PERIOD {
            (known.most, known.since) = ([TimeDelta::MAX, known.most[0]], heard);
        }
        known.most[0] = known.most[0].min(most);
        let most = known.most[0].min(known.most[1]);
        let ahead = if known.ahead > most + SLACK { most } else { least.min(most) };
        if ahead <= known.ahead + SLACK && known.ahead <= most + SLACK {
            return None;
        }
        known.ahead = ahead;
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_000_000_000_000 + milliseconds).unwrap()
    }

    /// One that began at zero.
    fn clock() -> Clock {
        let offset = Offset { ahead: TimeDelta::zero(), most: [TimeDelta::MAX; 2], since: at(0) };
        Clock { offset: Arc::new(Mutex::new(offset)), ..Clock::default() }
    }

    #[test]
    fn it_follows_what_answers_say_and_no_further_than_they_prove() {
        let clock = clock();
        let differs = |asked, said, heard| clock.hear(at(asked), at(said), at(heard)).map(|by| by.num_milliseconds());
        assert_eq!(differs(100, 0, 110), None, "an answer names whole seconds");
        assert_eq!(differs(0, 1_000, 10), None, "or another API server's clock is a moment ahead");
        // The API server's clock is set back, and forward, which is believed once nothing says otherwise any more.
        assert_eq!(differs(60_000, 0, 60_010), Some(-59_000));
        assert!((-59_010..=-59_000).contains(&(clock.now() - clock.own()).num_milliseconds()));
        assert_eq!(differs(70_000, 670_000, 70_010), None);
        assert_eq!(differs(310_000, 910_000, 310_010), None);
        assert_eq!(differs(620_000, 1_220_000, 620_010), Some(599_990));
        assert_eq!(differs(630_000, 1_230_000, 630_010), None, "known");
    }

    #[test]
    fn an_answer_that_is_read_late_moves_nothing_that_it_does_not_contradict() {
        let clock = clock();
        let differs = |asked, said, heard| clock.hear(at(asked), at(said), at(heard)).map(|by| by.num_milliseconds());
        assert_eq!(differs(0, 600_000, 10), Some(599_990), "this machine's clock is ten minutes behind");
        // Asked before a pause of the process, and read after it.
        assert_eq!(differs(10_000, 610_000, 250_000), None);
        assert_eq!(differs(10_000, 850_000, 250_000), None, "as good as answered at the end of the pause");
    }

    #[test]
    fn of_api_servers_that_differ_the_one_that_is_behind_counts() {
        let clock = clock();
        let mut changes = 0;
        for second in 0..2_000 {
            let ahead = if second % 3 == 0 { 600_000 } else { 0 };
            let (asked, said) = (second * 1_000, second * 1_000 + ahead);
            changes += usize::from(clock.hear(at(asked), at(said), at(asked + 10)).is_some());
            let differs = (clock.now() - clock.own()).num_milliseconds();
            assert!(second == 0 || (-10..=2_000).contains(&differs), "{second}: {differs}");
        }
        assert!(changes <= 2, "{changes}");
    }
}
