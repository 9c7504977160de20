//! Going back: where the policy wants it, agents of a revision that failed are replaced with the last good one. As that
//! may fail, too (not every agent can be made older), one place is tried first.
//!
//! Must not judge a revision (that is `failure`). Agents that never had the revision that failed are left alone.

use chrono::{DateTime, TimeDelta, Utc};

use super::bucket::{Cell, Sorted};
use super::cause::Bucket;
use super::failure::is_about;
use super::memory::{Back, BackPhase, Failure, Memory};
use super::pace::{Bounds, storm};
use super::place::Revision;
use super::report::WaitingOn;
use super::zones::next_ones;
use super::{Desired, Inventory, Policy, Step};

/// A way back.
pub(super) struct WayBack<R> {
    pub(super) failure: Failure<R>,
    good: R,
}

impl<R: Revision> WayBack<R> {
    /// The way back that is to be gone now, if there is one: the template is the last good one already, and some agent
    /// is not.
    pub(super) fn of(
        policy: &Policy,
        desired: &Desired<R>,
        inventory: &Inventory<'_, R>,
        sorted: &Sorted<'_, R>,
        memory: &Memory<R>,
    ) -> Option<Self> {
        if !policy.rolls_back || policy.hold.is_some() || !inventory.settled {
            return None;
        }
        let good = memory.last_good.clone().filter(|good| inventory.template == Some(good))?;
        let failure = memory.failure.clone().filter(|failure| failure.revision != good)?;
        let is_wanted = is_about(&failure, desired) || desired.revision == good;
        let way = Self { failure, good };
        let is_open = sorted.cells.iter().any(|cell| way.is_bad(cell)) || way.tried(sorted, memory).is_some();
        (is_wanted && is_open).then_some(way)
    }

    /// Whether its agent is of the revision that failed.
    fn is_bad(&self, cell: &Cell<'_, R>) -> bool {
        cell.pod().is_some_and(|pod| pod.revision.as_ref() == Some(&self.failure.revision))
    }

    /// Whether it can be replaced.
    fn is_open(&self, cell: &Cell<'_, R>) -> bool {
        self.is_bad(cell) && cell.place.is_ready && cell.place.busy.is_none() && !cell.is_going()
    }

    /// The place that is tried and has not shown yet what comes of it.
    fn tried<'s, 'a>(&self, sorted: &'s Sorted<'a, R>, memory: &Memory<R>) -> Option<&'s Cell<'a, R>> {
        let back = memory.back.as_ref().filter(|back| back.from == self.failure.revision)?;
        let name = back.place.as_ref().filter(|_| back.phase != BackPhase::Going)?;
        sorted.cells.iter().find(|cell| cell.name() == name.as_str())
    }

    /// The next steps; what they wait for; and when that may have changed by itself.
    pub(super) fn go(
        &self,
        policy: &Policy,
        sorted: &Sorted<'_, R>,
        bounds: &Bounds<'_>,
        memory: &mut Memory<R>,
        now: DateTime<Utc>,
    ) -> (Vec<Step<R>>, WaitingOn, Option<DateTime<Utc>>) {
        let known = memory.back.take().filter(|back| back.from == self.failure.revision);
        let mut back =
            known.unwrap_or(Back { from: self.failure.revision.clone(), place: None, phase: BackPhase::Trial });
        memory.back = Some(back.clone());
        let tried = self.tried(sorted, memory);
        if let Some(cell) = tried.filter(|cell| !self.is_bad(cell)) {
            back.phase = match cell.bucket() {
                None if cell.pod().is_some() => BackPhase::Going,
                Some(Bucket::Crash | Bucket::Overdue) if cell.pod().is_some() => BackPhase::Refused,
                _ => back.phase,
            };
        } else if tried.is_none() && back.phase != BackPhase::Going {
            (back.place, back.phase) = (None, BackPhase::Trial);
        }
        // Where no agent runs nobody waits for a window.
        let only_broken = policy.calendar.closed(now).is_some() || storm(sorted).is_some();
        let open = || sorted.cells.iter().filter(|cell| self.is_open(cell));
        let mut broken: Vec<&Cell<'_, R>> =
            open().filter(|cell| cell.bucket().is_some_and(Bucket::is_broken)).collect();
        broken.sort_unstable_by_key(|cell| cell.pod().map(|pod| (pod.created, pod.name.clone())));
        let healthy: Vec<&Cell<'_, R>> = open().filter(|cell| cell.is_available() && !only_broken).collect();
        let left = broken.len() + healthy.len();
        let coming = |cell: &&Cell<'_, R>| matches!(cell.bucket(), Some(Bucket::Starting | Bucket::Terminating));
        let chosen: Vec<&Cell<'_, R>> = match back.phase {
            BackPhase::Refused => Vec::new(),
            BackPhase::Trial if tried.is_some_and(|cell| !self.is_open(cell)) => Vec::new(),
            BackPhase::Trial => {
                let first = tried.or(broken.first().copied()).or_else(|| next_ones(policy, sorted, healthy, 1).pop());
                back.place = first.map(|cell| cell.name().to_owned());
                first.into_iter().collect()
            }
            BackPhase::Going => {
                let freed = sorted.cells.iter().filter(coming).count();
                let next = next_ones(policy, sorted, healthy, bounds.budget.saturating_sub(bounds.used));
                broken.into_iter().take(bounds.budget.saturating_sub(freed)).chain(next).collect()
            }
        };
        let waiting = WaitingOn::Back {
            to: self.good.to_string(),
            tried: back.place.clone().filter(|_| back.phase != BackPhase::Going),
            left,
            refused: (back.phase == BackPhase::Refused).then(|| tried.and_then(|cell| cell.cause.clone())).flatten(),
        };
        let until = tried.and_then(|cell| cell.until);
        let opens = policy.calendar.changes(now).map(|at| at.min(now + TimeDelta::minutes(10)));
        memory.back = Some(back);
        let step = |cell: &Cell<'_, R>| {
            let costs = cell.pod()?.ready_since.is_some();
            cell.pod().map(|pod| Step { place: cell.place.name.clone(), pod: pod.clone(), costs })
        };
        (chosen.into_iter().filter_map(step).collect(), waiting, until.into_iter().chain(opens).min())
    }
}
