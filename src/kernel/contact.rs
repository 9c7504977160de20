//! ApiContact: since when this process leads, and since when the API server has answered it without a break.
//!
//! Here because nothing that does not happen without an API server is a failure: no deadline runs out in such a time.
//! Renewals of the lease tell, for they go on for ever. Must not judge anything.

use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;

/// So much later than its period a renewal may be answered: at least, and at most.
const SLACK: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

/// What the lease's renewals tell.
#[derive(Debug)]
pub struct ApiContact {
    clock: Clock,
    /// The longest time between two answers that is no break.
    longest: Duration,
    leads: OnceLock<DateTime<Utc>>,
    last: Mutex<Option<Answer>>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Instant,
    /// When the last break ended.
    since: DateTime<Utc>,
}

impl ApiContact {
    /// Nothing yet. `period`: how often the lease is renewed.
    #[must_use]
    pub fn new(clock: Clock, period: Duration) -> Self {
        let longest = period + period.clamp(SLACK.0, SLACK.1);
        Self { clock, longest, leads: OnceLock::new(), last: Mutex::default() }
    }

    /// This process leads from now on. `silent_for`: how long the lease had not been renewed, as far as it says.
    pub fn leads(&self, silent_for: Option<TimeDelta>) {
        let now = self.clock.now();
        let _ = self.leads.set(now);
        let was_silent = silent_for.and_then(|time| time.to_std().ok()).is_some_and(|time| time > self.longest);
        let since = if was_silent { now } else { DateTime::UNIX_EPOCH };
        *self.last.lock() = Some(Answer { at: Instant::now(), since });
    }

    /// A renewal was answered.
    pub fn answered(&self) {
        let since = self.in_contact_since();
        *self.last.lock() = Some(Answer { at: Instant::now(), since });
    }

    /// Since when this process decides: what was done before it does not know.
    #[must_use]
    pub fn deciding_since(&self) -> DateTime<Utc> {
        self.leads.get().copied().unwrap_or_else(|| self.clock.now())
    }

    /// Since when there was no break; while there is one: now.
    #[must_use]
    pub fn in_contact_since(&self) -> DateTime<Utc> {
        let last = *self.last.lock();
        let fresh = last.filter(|last| last.at.elapsed() <= self.longest);
        fresh.map_or_else(|| self.clock.now(), |last| last.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_break_begins_with_a_renewal_that_is_late_and_ends_with_the_next_answer() {
        let contact = ApiContact::new(Clock::default(), Duration::from_secs(26));
        contact.leads(Some(TimeDelta::seconds(3)));
        let never = DateTime::UNIX_EPOCH;
        assert_eq!(contact.in_contact_since(), never, "a leader that takes over at once has missed nothing");
        tokio::time::advance(Duration::from_secs(30)).await;
        contact.answered();
        assert_eq!(contact.in_contact_since(), never);
        tokio::time::advance(Duration::from_secs(32)).await;
        assert!(contact.in_contact_since() > never, "nobody answers");
        contact.answered();
        let ended = contact.in_contact_since();
        tokio::time::advance(Duration::from_secs(26)).await;
        contact.answered();
        assert_eq!((contact.in_contact_since(), ended > never), (ended, true), "it stays the end of that break");
        let late = ApiContact::new(Clock::default(), Duration::from_secs(26));
        late.leads(Some(TimeDelta::seconds(60)));
        assert!(late.in_contact_since() > never, "the one before it ended in a break, or long ago");
    }
}
