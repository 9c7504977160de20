//! Going back: where the policy wants it, agents of a revision that failed are replaced with the last good one. As that
//! may fail, too (not every agent can be made older), one place is tried first.
//!
//! Must not judge a revision (that is `failure`). Agents that never had the revision that failed are left alone.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::cause::Bucket;
use super::cell::Cell;
use super::failure::is_about;
use super::memory::{Back, BackPhase, Failure, Memory};
use super::pace::Bounds;
use super::place::{Pod, Revision, Trouble};
use super::reading::Reading;
use super::report::WaitingOn;
use super::zones::{age, next_ones};
use super::{Desired, LOOK_AGAIN, Source, Step};

/// A way back.
pub(super) struct Rollback<R> {
    pub(super) failure: Failure<R>,
    to: R,
    /// Whether an agent that does not run could have been downloaded is unknown.
    is_unproven: bool,
}

/// How far a way is, and the place that is tried.
pub(super) type Tried<'s, 'a, R> = (BackPhase, Option<&'s Cell<'a, R>>);

/// A rule that says so; it is handed how many failing places stop the way.
pub(super) type HowFar<R> =
    for<'s, 'a> fn(&Rollback<R>, &'s Reading<'_, 'a, R>, &Memory<R>, usize) -> Option<Tried<'s, 'a, R>>;

/// What is done now on a way back.
pub(super) struct RollbackPlan<R> {
    pub(super) steps: Vec<Step<R>>,
    /// How far the way is then.
    pub(super) back: Back<R>,
    pub(super) waiting_on: WaitingOn,
    /// When that may change without an event.
    pub(super) next: Option<DateTime<Utc>>,
}

impl<R: Revision> Rollback<R> {
    /// The way back that is to be gone now, if there is one: the template is the last good one already, and some agent
    /// is not.
    pub(super) fn of(reading: &Reading<'_, '_, R>, desired: &Desired<R>, memory: &Memory<R>) -> Option<Self> {
        let Reading { policy, inventory, .. } = *reading;
        if !policy.rolls_back || policy.hold.is_some() || !inventory.settled {
            return None;
        }
        let (to, good) = (inventory.template?.clone(), memory.last_good.as_ref()?);
        let failure = memory.failure.clone().filter(|failure| failure.revision != to)?;
        // A user edited the spec meanwhile: the release is the last good one, in another template.
        let is_edited =
            to == desired.revision && !to.is_another_release(good) && failure.revision.is_another_release(&to);
        // A user who insists on the good one has it everywhere, like any other that is insisted on.
        let is_wanted = is_about(&failure, desired) || (desired.revision == to && !desired.insists);
        if !is_wanted || !(to == *good || is_edited) {
            return None;
        }
        let way = Self { failure, to, is_unproven: inventory.source == Source::Unasked };
        let is_open = reading.cells.iter().any(|cell| way.is_bad(cell)) || way.tried(reading, memory).is_some();
        is_open.then_some(way)
    }

    /// Whether its agent is of a revision that failed.
    fn is_bad(&self, cell: &Cell<'_, R>) -> bool {
        is_of(&self.failure, cell) && cell.pod().is_none_or(|pod| pod.revision.as_ref() != Some(&self.to))
    }

    /// Whether it can be replaced.
    fn is_open(&self, cell: &Cell<'_, R>) -> bool {
        self.is_bad(cell) && cell.place.is_ready && cell.place.busy.is_none() && !cell.is_going()
    }

    /// Whether a way that is remembered is this one.
    fn is_this(&self, back: &Back<R>) -> bool {
        back.from == self.failure.revision && back.to == self.to
    }

    /// The place that is tried, once its Pod went: until the others follow, what comes of it is waited for.
    fn tried<'s, 'a>(&self, reading: &'s Reading<'_, 'a, R>, memory: &Memory<R>) -> Option<&'s Cell<'a, R>> {
        let back = memory.back.as_ref().filter(|back| self.is_this(back) && back.phase != BackPhase::Going)?;
        let name = back.place.as_ref()?;
        let mut went = reading.cells.iter().filter(|cell| !self.is_bad(cell) || cell.is_going());
        went.find(|cell| cell.name() == name.as_str())
    }

    /// Whether an agent that went back crashes, and that counts.
    fn crashes(&self, reading: &Reading<'_, '_, R>, memory: &Memory<R>, cell: &Cell<'_, R>) -> bool {
        let Reading { policy, now, .. } = *reading;
        let crashes = |pod: &Arc<Pod<R>>| {
            let stays = pod.ready_since.is_some_and(|since| since + policy.wait_ready <= now);
            matches!(pod.trouble, Some(Trouble::Crash(_))) && !stays
        };
        let went = cell.pod().filter(|pod| pod.revision.as_ref() == Some(&self.to) && crashes(pod));
        went.is_some_and(|pod| memory.touched.since.is_some_and(|since| pod.created > since))
            && cell.touched
            && !is_excused(cell, memory)
            && !self.is_unproven
    }

    /// What is done now.
    pub(super) fn next_steps(
        &self,
        reading: &Reading<'_, '_, R>,
        bounds: &Bounds<'_>,
        memory: &Memory<R>,
    ) -> RollbackPlan<R> {
        let Reading { policy, now, .. } = *reading;
        let limit = policy.max_failures.unwrap_or(bounds.budget);
        let said = reading.rules.way_back.iter().find_map(|(_, rule)| rule(self, reading, memory, limit));
        let (phase, tried) = said.unwrap_or((BackPhase::Going, None));
        let before = self.tried(reading, memory);
        let patience = reading.rules.patience.iter().find_map(|(_, rule)| rule(reading, &self.failure));
        let (mut broken, mut healthy) = self.open(reading);
        // Those that say something first.
        broken.sort_by_key(|cell| is_excused(cell, memory));
        let left = broken.len() + healthy.len();
        if patience.is_some() {
            healthy.clear();
        }
        // Those that cost nothing, too, are at most the budget at a time.
        let coming = |cell: &&Cell<'_, R>| cell.is_on_its_way();
        let free = bounds.budget.saturating_sub(reading.cells.iter().filter(coming).count());
        let room = bounds.budget.saturating_sub(bounds.used);
        let chosen: Vec<&Cell<'_, R>> = match phase {
            BackPhase::Refused => Vec::new(),
            BackPhase::Trial if tried.is_some() => Vec::new(),
            BackPhase::Trial => {
                let first = broken.first().filter(|_| free > 0).copied();
                // What keeps one from starting everywhere, such as a registry, must cost no agent that runs.
                let room = if before.is_some_and(|cell| cell.is_external) { 0 } else { room.min(1) };
                first.or_else(|| next_ones(reading, healthy, room).pop()).into_iter().collect()
            }
            BackPhase::Going => broken.into_iter().take(free).chain(next_ones(reading, healthy, room)).collect(),
        };
        let is_trial = phase != BackPhase::Going;
        let place =
            tried.or(chosen.first().copied()).or(before).filter(|_| is_trial).map(|cell| cell.name().to_owned());
        let waiting = WaitingOn::Back {
            to: self.to.to_string(),
            tried: place.clone(),
            left: left - chosen.len(),
            patience,
            refused: tried.filter(|_| phase == BackPhase::Refused).and_then(Cell::why),
        };
        let back = Back { from: self.failure.revision.clone(), to: self.to.clone(), place, phase };
        let stays = tried.and_then(|cell| cell.pod()?.ready_since).map(|since| since + policy.wait_ready);
        let hindered = tried.filter(|cell| is_hindered(cell)).and_then(|cell| cell.touched_at);
        let due = stays.into_iter().chain(hindered.map(|at| at + policy.wait_ready)).filter(|at| *at > now);
        let until = tried.and_then(|cell| cell.until).into_iter().chain(due).min();
        let opens = policy.calendar.changes(now).map(|at| at.min(now + LOOK_AGAIN));
        let step = |cell: &Cell<'_, R>| {
            let costs = cell.pod()?.ready_since.is_some();
            cell.pod().map(|pod| Step { place: cell.place.name.clone(), pod: pod.clone(), costs })
        };
        RollbackPlan {
            steps: chosen.into_iter().filter_map(step).collect(),
            back,
            waiting_on: waiting,
            next: until.into_iter().chain(opens).chain(patience).min(),
        }
    }

    /// Those that can go back now: without an available agent, the oldest first; and with one.
    fn open<'s, 'a>(&self, reading: &'s Reading<'_, 'a, R>) -> (Vec<&'s Cell<'a, R>>, Vec<&'s Cell<'a, R>>) {
        // Where no agent runs, none waits for a window; where one runs, it is not replaced for a mistaken failure.
        let is_closed = reading.policy.calendar.closed(reading.now).is_some();
        let only_broken = is_closed || reading.mass_outage.is_some() || self.is_unproven;
        let open = || reading.cells.iter().filter(|cell| self.is_open(cell));
        let mut broken: Vec<&Cell<'_, R>> = open().filter(|cell| cell.is_broken).collect();
        broken.sort_unstable_by(|a, b| age(a).cmp(&age(b)));
        (broken, open().filter(|cell| cell.is_available() && !only_broken).collect())
    }
}

/// One place is tried first: how far the way is follows from what became of that one. The others are judged, too.
pub(super) fn one_is_first<'s, 'a, R: Revision>(
    way: &Rollback<R>,
    reading: &'s Reading<'_, 'a, R>,
    memory: &Memory<R>,
    limit: usize,
) -> Option<Tried<'s, 'a, R>> {
    let Reading { policy, now, .. } = *reading;
    if memory.back.as_ref().is_some_and(|back| way.is_this(back) && back.phase == BackPhase::Going) {
        let crashes = |cell: &&Cell<'_, R>| way.crashes(reading, memory, cell);
        let first = reading.cells.iter().find(crashes);
        let is_over = reading.cells.iter().filter(crashes).count() >= limit;
        return first.filter(|_| is_over).map(|cell| (BackPhase::Refused, Some(cell)));
    }
    let known = memory.back.as_ref().map_or(BackPhase::Trial, |back| back.phase);
    let tried = way.tried(reading, memory);
    let phase = match tried {
        Some(cell) if way.is_bad(cell) || cell.pod().is_none() => known,
        Some(cell) if way.crashes(reading, memory, cell) => BackPhase::Refused,
        Some(cell) if cell.is_available() => BackPhase::Going,
        Some(cell) if matches!(cell.bucket(), Some(Bucket::Crash | Bucket::Overdue)) && !way.is_unproven => {
            if is_excused(cell, memory) {
                // It says nothing: another one is tried.
                return Some((BackPhase::Trial, None));
            }
            BackPhase::Refused
        }
        // Its node, its image or its room is the cause: another one is tried once it had its time.
        Some(cell) if known != BackPhase::Refused && is_hindered(cell) => {
            let is_over = cell.touched_at.is_none_or(|at| at + policy.wait_ready <= now);
            return Some((BackPhase::Trial, tried.filter(|_| !is_over)));
        }
        Some(_) => known,
        // It is gone, or never went: another one is tried.
        None => BackPhase::Trial,
    };
    Some((phase, tried))
}

/// Whether a place had no agent that ran well before, so that what one does there now says nothing.
fn is_excused<R>(cell: &Cell<'_, R>, memory: &Memory<R>) -> bool {
    let touched = &memory.touched;
    touched.broken.contains(cell.name()) || touched.flapping.contains(cell.name())
}

/// Whether a new agent does not run for a cause that lies outside of it.
fn is_hindered<R>(cell: &Cell<'_, R>) -> bool {
    cell.is_external || matches!(cell.bucket(), Some(Bucket::NodeLost | Bucket::Capacity | Bucket::Pulling))
}

/// Whether all that had a revision that failed are back, where the policy wants that.
pub(super) fn is_back<R: Revision>(reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> bool {
    let Some(failure) = memory.failure.as_ref().filter(|_| reading.policy.rolls_back) else { return false };
    let is_refused = memory.back.as_ref().is_some_and(|back| back.phase == BackPhase::Refused);
    let went = memory.back.as_ref().is_some_and(|back| back.from == failure.revision);
    went && !is_refused && !reading.cells.iter().any(|cell| is_of(failure, cell) || cell.is_in_flight)
}

/// Whether the agent of a place is of a revision that failed.
pub(super) fn is_of<R: Revision>(failure: &Failure<R>, cell: &Cell<'_, R>) -> bool {
    let revision = cell.pod().and_then(|pod| pod.revision.as_ref());
    revision.is_some_and(|revision| *revision == failure.revision || failure.earlier.contains(revision))
}
