//! Nodes of a DaemonSet that have no Pod: since when, and when its controller is asked to look again.
//!
//! Must not ask it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::k8s::node::Node;
use crate::rollout::Pod;

/// The DaemonSet controller has so much time to create Pods before it is nudged.
const NUDGE_AFTER: TimeDelta = TimeDelta::seconds(5);
const NUDGE_INTERVAL: TimeDelta = TimeDelta::seconds(40);
/// While several Pods are missing: the DaemonSet controller begins with one of them, and where that is refused it
/// creates no other. Which it begins with is a matter of chance.
const NUDGE_INTERVAL_OF_SEVERAL: TimeDelta = TimeDelta::seconds(10);
/// Only for so long: a quota may refuse Pods for days.
const NUDGE_SEVERAL_FOR: TimeDelta = TimeDelta::minutes(5);

/// Since when nodes have no Pod at all.
pub type Missing = HashMap<Arc<str>, DateTime<Utc>>;

/// Since when these nodes, which should have one, have no Pod at all, as this process saw it: the cluster does not say.
#[must_use]
pub fn missing<R>(before: &Missing, able: &[&Arc<Node>], pods: &[Arc<Pod<R>>], now: DateTime<Utc>) -> Missing {
    let has_pod: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    let without = able.iter().filter(|node| !has_pod.contains(&*node.name));
    without.map(|node| (node.name.clone(), before.get(&node.name).copied().unwrap_or(now))).collect()
}

/// When a DaemonSet's controller was asked to look again.
#[derive(Debug, Default)]
pub struct Nudges {
    last: Option<DateTime<Utc>>,
}

impl Nudges {
    /// How long to wait before it is asked again, and whether it is now, which is noted as done.
    pub fn due(&mut self, missing: &Missing, now: DateTime<Utc>) -> (Duration, bool) {
        let (first, last) = (missing.values().min().copied(), missing.values().max().copied());
        let is_new = last.is_some_and(|last| now - last < NUDGE_SEVERAL_FOR) && missing.len() > 1;
        let again = if is_new { NUDGE_INTERVAL_OF_SEVERAL } else { NUDGE_INTERVAL };
        let due = match self.last {
            None => first.unwrap_or(now) + NUDGE_AFTER,
            Some(before) => before + again,
        };
        let is_due = due <= now;
        if is_due {
            self.last = Some(now);
        }
        // No wait is longer, whatever a clock does.
        let left = if is_due { again } else { (due - now).min(again) };
        (left.to_std().unwrap_or_default(), is_due)
    }

    /// No Pod is missing any more.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemonset_is_touched_soon_and_often_while_several_pods_begin_to_be_missing_and_seldom_afterwards() {
        let mut nudges = Nudges::default();
        let at = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        let touched = |nudges: &mut Nudges, missing: &Missing, seconds: std::ops::Range<i64>| {
            seconds.filter(|second| nudges.due(missing, at(*second)).1).collect::<Vec<_>>()
        };
        let mut missing = Missing::from([("a".into(), at(0))]);
        assert_eq!(touched(&mut nudges, &missing, 0..100), [5, 45, 85], "one alone keeps no other from being made");
        missing.insert("b".into(), at(100));
        assert_eq!(touched(&mut nudges, &missing, 100..130), [100, 110, 120]);
        assert_eq!(nudges.due(&missing, at(125)), (Duration::from_secs(5), false));
        assert_eq!(touched(&mut nudges, &missing, 400..500), [400, 440, 480], "a quota that refuses all of them lasts");
        nudges.forget();
        assert_eq!(touched(&mut nudges, &missing, 500..520), [500]);
    }
}
