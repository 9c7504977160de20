//! What is kept of one OneAgent between two reconciles.
//!
//! Must not decide anything.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::observe::Missing;
use crate::kernel::aside::Aside;

/// The DaemonSet controller has so much time to create Pods before it is nudged.
const NUDGE_AFTER: TimeDelta = TimeDelta::seconds(5);
const NUDGE_INTERVAL: TimeDelta = TimeDelta::seconds(40);
/// While several Pods are missing: the DaemonSet controller begins with one of them, and where that is refused it
/// creates no other. Which it begins with is a matter of chance.
const NUDGE_INTERVAL_OF_SEVERAL: TimeDelta = TimeDelta::seconds(10);
/// Only for so long: a quota may refuse Pods for days.
const NUDGE_SEVERAL_FOR: TimeDelta = TimeDelta::minutes(5);

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// What a webhook made of the DaemonSet: what was applied, and the generation that came of it.
    believed: Mutex<Option<(String, Option<i64>)>>,
    /// When the DaemonSet was touched for its controller's sake.
    nudged: Mutex<Option<DateTime<Utc>>>,
    /// Since when selected nodes have no Pod.
    missing: Mutex<Missing>,
    /// Why the API server refused new Pods at the last look.
    refused: Mutex<Option<String>>,
    /// When that was asked.
    asked_why: Mutex<Option<Instant>>,
    /// Pods that the API server refused to delete, by UID, with its words.
    pub aside: Aside<String>,
}

impl Kept {
    /// What a webhook made of the DaemonSet, if that is believed.
    pub fn believed(&self) -> MutexGuard<'_, Option<(String, Option<i64>)>> {
        self.believed.lock()
    }

    /// Since when selected nodes have no Pod, as of the last look.
    pub fn missing(&self) -> Missing {
        self.missing.lock().clone()
    }

    /// Why the API server refused new Pods, as of the last look.
    pub fn refused(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    /// Whether it is time to ask why new Pods are refused, noted as done: looks follow one another quickly.
    pub fn asks_why(&self) -> bool {
        let (mut asked, now) = (self.asked_why.lock(), Instant::now());
        let is_time = asked.is_none_or(|asked| now - asked >= Duration::from_secs(1));
        if is_time {
            *asked = Some(now);
        }
        is_time
    }

    /// Since when selected nodes have no Pod, and why new ones are refused, as of this look.
    pub fn record(&self, missing: Missing, refused: Option<String>) {
        *self.missing.lock() = missing;
        *self.refused.lock() = refused;
    }

    /// How long to wait before the DaemonSet is touched again, and whether it is now, which is noted as done.
    pub fn nudge(&self, missing: &Missing, now: DateTime<Utc>) -> (Duration, bool) {
        let mut nudged = self.nudged.lock();
        let (first, last) = (missing.values().min().copied(), missing.values().max().copied());
        let is_new = last.is_some_and(|last| now - last < NUDGE_SEVERAL_FOR) && missing.len() > 1;
        let again = if is_new { NUDGE_INTERVAL_OF_SEVERAL } else { NUDGE_INTERVAL };
        let due = match *nudged {
            None => first.unwrap_or(now) + NUDGE_AFTER,
            Some(before) => before + again,
        };
        let is_due = due <= now;
        if is_due {
            *nudged = Some(now);
        }
        // No wait is longer, whatever a clock does.
        let left = if is_due { again } else { (due - now).min(again) };
        (left.to_std().unwrap_or_default(), is_due)
    }

    /// No Pod is missing any more.
    pub fn forget_nudge(&self) {
        *self.nudged.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemonset_is_touched_soon_and_often_while_several_pods_begin_to_be_missing_and_seldom_afterwards() {
        let kept = Kept::default();
        let at = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        let touched = |missing: &Missing, seconds: std::ops::Range<i64>| {
            seconds.filter(|second| kept.nudge(missing, at(*second)).1).collect::<Vec<_>>()
        };
        let mut missing = Missing::from([("a".into(), at(0))]);
        assert_eq!(touched(&missing, 0..100), [5, 45, 85], "one alone keeps no other from being made");
        missing.insert("b".into(), at(100));
        assert_eq!(touched(&missing, 100..130), [100, 110, 120]);
        assert_eq!(kept.nudge(&missing, at(125)), (Duration::from_secs(5), false));
        assert_eq!(touched(&missing, 400..500), [400, 440, 480], "a quota that refuses all of them lasts");
        kept.forget_nudge();
        assert_eq!(touched(&missing, 500..520), [500]);
    }
}
