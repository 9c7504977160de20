//! Changes: what of a ConfigMap has reached the Pods, what is on its way to them, and when a change counts.
//!
//! Pure. Must not look at a Pod, nor know how fast any is replaced.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::revision::{Config, Pod};

/// Changes that do not end are acted on after so long, or after the debounce if that is longer.
const LONGEST: TimeDelta = TimeDelta::seconds(300);

/// What must outlive us of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tracked {
    /// Its name: another one is another baseline.
    pub config_map: String,
    /// What the Pods were made with.
    pub applied: Config,
    /// What is being brought to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Since when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_since: Option<DateTime<Utc>>,
    /// There was none for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
}

/// A time without a ConfigMap. A Pod that ran in it has nothing; one that waited for it started with what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub from: DateTime<Utc>,
    /// When the ConfigMap was made, by the API server's clock.
    pub to: DateTime<Utc>,
}

impl Gap {
    fn has(&self, pod: &Pod) -> bool {
        self.from <= pod.created && pod.created <= self.to
    }

    /// Whether a Pod ran before it ended.
    fn ran_in_it(&self, pod: &Pod) -> bool {
        pod.was_ready.is_some() || pod.ready_since.is_some_and(|since| since <= self.to)
    }
}

/// A change that is being brought to the Pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub config: Config,
    /// When what was applied was left: Pods that are older have that still.
    pub left_at: DateTime<Utc>,
}

impl Tracked {
    /// What Pods have as long as nothing changes.
    #[must_use]
    pub fn baseline(config_map: &str, applied: Config) -> Self {
        Self { config_map: config_map.to_owned(), applied, pending: None, absent_since: None, gap: None }
    }

    /// What the Pods are to be created with.
    #[must_use]
    pub fn desired(&self) -> &Config {
        self.pending.as_ref().map_or(&self.applied, |pending| &pending.config)
    }

    /// Whether a Pod has something else. The API's times are whole seconds: one that was created within the same second
    /// may.
    #[must_use]
    pub fn is_outdated(&self, pod: &Pod) -> bool {
        let gap = self.gap.filter(|gap| gap.has(pod));
        if gap.is_some_and(|gap| gap.ran_in_it(pod)) {
            return true;
        }
        let Some(Pending { config, left_at }) = &self.pending else { return false };
        // One that waited for the ConfigMap is as old as that.
        let (created, waited) = gap.map_or((pod.created, false), |gap| (gap.to, true));
        let is_old = created < config.changed_at || (created == config.changed_at && !waited);
        // Who undoes a change wants what was there: Pods from before it have that.
        let is_undone = config.hash == self.applied.hash;
        is_old && !(is_undone && created < *left_at)
    }

    /// The change is with all of them.
    pub fn settle(&mut self) {
        self.gap = None;
        if let Some(pending) = self.pending.take() {
            self.applied = pending.config;
        }
    }
}

/// A change that may not be the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debounce {
    config: Config,
    /// When the first of the changes was made, by the API server's clock.
    left_at: DateTime<Utc>,
    /// When we saw the first of them, and the last.
    first: DateTime<Utc>,
    last: DateTime<Utc>,
}

/// What is to be made of a ConfigMap as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub tracked: Tracked,
    /// A change is waited out.
    pub debouncing: Option<Debounce>,
    /// Until then, unless another comes.
    pub until: Option<DateTime<Utc>>,
}

/// Takes note that there is no ConfigMap: what comes is a change.
#[must_use]
pub fn miss(before: Option<&Tracked>, name: &str, now: DateTime<Utc>) -> Tracked {
    let known = before.filter(|tracked| tracked.config_map == name).cloned();
    // Of existing Pods there is no better knowledge.
    let first = || Tracked { absent_since: Some(DateTime::UNIX_EPOCH), ..Tracked::baseline(name, Config::absent()) };
    let tracked = known.unwrap_or_else(first);
    Tracked { absent_since: tracked.absent_since.or(Some(now)), ..tracked }
}

/// Follows a ConfigMap.
#[must_use]
pub fn follow(
    before: Option<&Tracked>,
    debouncing: Option<&Debounce>,
    name: &str,
    found: &Config,
    debounce: TimeDelta,
    now: DateTime<Utc>,
) -> Change {
    let Some(tracked) = before.filter(|tracked| tracked.config_map == name) else {
        // First sight restarts no Pod: what earlier Pods were created with is unknown.
        let tracked = Tracked::baseline(name, found.clone());
        return Change { tracked, debouncing: None, until: None };
    };
    let tracked = &returned(tracked, found);
    let wanted = tracked.desired();
    let debouncing = match debouncing {
        Some(known) if known.config.hash == found.hash => Some(known.clone()),
        Some(known) => Some(Debounce { config: found.clone(), last: now, ..known.clone() }),
        None if wanted.hash == found.hash => None,
        None => Some(Debounce { config: found.clone(), left_at: found.changed_at, first: now, last: now }),
    };
    let Some(debouncing) = debouncing else {
        return Change { tracked: tracked.clone(), debouncing: None, until: None };
    };
    let due = (debouncing.last + debounce).min(debouncing.first + LONGEST.max(debounce));
    if due > now {
        return Change { tracked: tracked.clone(), debouncing: Some(debouncing), until: Some(due) };
    }
    let left_at = tracked.pending.as_ref().map_or(debouncing.left_at, |pending| pending.left_at);
    let mut tracked = tracked.clone();
    tracked.pending = Some(Pending { config: debouncing.config, left_at });
    Change { tracked, debouncing: None, until: None }
}

/// The ConfigMap is there, again or at last.
fn returned(tracked: &Tracked, found: &Config) -> Tracked {
    let Some(since) = tracked.absent_since else { return tracked.clone() };
    let from = tracked.gap.map_or(since, |gap| gap.from.min(since));
    Tracked { absent_since: None, gap: Some(Gap { from, to: found.changed_at }), ..tracked.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn pod(created: i64, ready_since: Option<i64>) -> Pod {
        Pod { created: at(created), ready_since: ready_since.map(at), ..Pod::named("p", "") }
    }

    /// Whether one that was Ready at once has something else.
    fn is_outdated(tracked: &Tracked, second: i64) -> bool {
        tracked.is_outdated(&pod(second, Some(second)))
    }

    fn config(hash: &str, second: i64) -> Config {
        Config { hash: hash.to_owned(), changed_at: at(second) }
    }

    /// What becomes of a ConfigMap that is found so, at these seconds.
    fn after(tracked: &Tracked, found: &[(&str, i64, i64)]) -> Change {
        let mut change = Change { tracked: tracked.clone(), debouncing: None, until: None };
        for (hash, changed, seen) in found {
            let debouncing = change.debouncing.take();
            change = follow(
                Some(&change.tracked),
                debouncing.as_ref(),
                "c",
                &config(hash, *changed),
                TimeDelta::seconds(5),
                at(*seen),
            );
        }
        change
    }

    fn baseline() -> Tracked {
        follow(None, None, "c", &config("a", 10), TimeDelta::seconds(5), at(100)).tracked
    }

    #[test]
    fn first_sight_and_another_name_are_a_baseline() {
        assert_eq!((baseline().desired().hash.as_str(), baseline().pending), ("a", None));
        let other = follow(Some(&baseline()), None, "d", &config("x", 20), TimeDelta::seconds(5), at(200)).tracked;
        assert_eq!((other.desired().hash.as_str(), other.pending.is_none()), ("x", true));
        assert!(!is_outdated(&other, 1), "nobody is restarted for it");
    }

    #[test]
    fn a_change_counts_once_it_stays_and_changes_without_end_after_five_minutes() {
        let change = after(&baseline(), &[("b", 200, 200)]);
        assert_eq!((change.until, change.tracked.pending), (Some(at(205)), None));
        assert_eq!(after(&baseline(), &[("b", 200, 200), ("c", 204, 204)]).until, Some(at(209)), "it begins again");
        let change = after(&baseline(), &[("b", 200, 200), ("b", 200, 205)]);
        assert_eq!(change.tracked.desired(), &config("b", 200));
        let endless: Vec<(&str, i64, i64)> =
            (200..=500).map(|second| (if second % 2 == 0 { "b" } else { "c" }, second, second)).collect();
        assert!(after(&baseline(), &endless[..300]).tracked.pending.is_none());
        assert!(after(&baseline(), &endless).tracked.pending.is_some());
    }

    #[test]
    fn a_change_concerns_those_that_are_no_newer_and_its_undoing_those_born_in_between() {
        let changed = after(&baseline(), &[("b", 200, 200), ("b", 200, 205)]).tracked;
        assert!(is_outdated(&changed, 200) && !is_outdated(&changed, 201), "within the same second it may be old");
        let undone = after(&baseline(), &[("b", 200, 200), ("a", 203, 203), ("a", 203, 208)]).tracked;
        let outdated: Vec<i64> = (198..206).filter(|second| is_outdated(&undone, *second)).collect();
        assert_eq!(outdated, [200, 201, 202, 203]);
        // Undone after it had begun to reach Pods: those from before it still have what is wanted.
        let undone = after(&changed, &[("a", 300, 300), ("a", 300, 305)]).tracked;
        assert!(!is_outdated(&undone, 199) && is_outdated(&undone, 201) && !is_outdated(&undone, 301));
        // And changed to something new: all of them.
        let other = after(&changed, &[("c", 300, 300), ("c", 300, 305)]).tracked;
        assert!(is_outdated(&other, 1) && is_outdated(&other, 300));
    }

    #[test]
    fn what_is_with_all_pods_is_applied() {
        let mut changed = after(&baseline(), &[("b", 200, 200), ("b", 200, 205)]).tracked;
        changed.settle();
        assert_eq!((changed.applied.hash.as_str(), changed.pending.is_none()), ("b", true));
        assert!(!is_outdated(&changed, 1));
    }

    /// What becomes of a baseline when the ConfigMap is missing from then on, and then this one appears.
    fn missed(before: Option<&Tracked>, since: i64, found: (&str, i64)) -> Tracked {
        let missed = miss(before, "c", at(since));
        assert_eq!(miss(Some(&missed), "c", at(since + 9)), missed, "it is absent since the first time");
        let (hash, changed) = found;
        after(&missed, &[(hash, changed, changed), (hash, changed, changed + 5)]).tracked
    }

    #[test]
    fn one_that_was_seen_to_be_absent_and_comes_is_a_change_for_pods_that_ran_without_it() {
        let mut late = missed(None, 100, ("a", 200));
        assert_eq!(late.desired(), &config("a", 200));
        assert!(is_outdated(&late, 50) && is_outdated(&late, 200) && !is_outdated(&late, 201));
        assert!(!late.is_outdated(&pod(50, None)), "it waits for it");
        assert!(!late.is_outdated(&pod(50, Some(207))), "it waited for it");
        let flapped = Pod { was_ready: Some(TimeDelta::seconds(9)), ..pod(50, Some(207)) };
        assert!(late.is_outdated(&flapped), "it had been Ready before");
        // Who waited has what came, and not what comes next.
        let next = after(&late, &[("b", 300, 300), ("b", 300, 305)]).tracked;
        assert!(next.is_outdated(&pod(50, Some(207))) && !is_outdated(&next, 301));
        late.settle();
        assert!(!is_outdated(&late, 50));
        // Another name that is absent, too.
        assert_eq!(miss(Some(&baseline()), "d", at(100)).applied, Config::absent());
    }

    #[test]
    fn one_that_comes_back_alike_concerns_those_that_ran_without_it_alone() {
        let back = missed(Some(&baseline()), 100, ("a", 200));
        assert_eq!(back.pending, None);
        let outdated = [99, 100, 150, 200, 201].map(|second| is_outdated(&back, second));
        assert_eq!(outdated, [false, true, true, true, false]);
        assert!(!back.is_outdated(&pod(150, Some(203))), "it waited for it");
        let other = missed(Some(&baseline()), 100, ("b", 200));
        assert!(is_outdated(&other, 99) && is_outdated(&other, 150) && !other.is_outdated(&pod(150, Some(203))));
    }
}
