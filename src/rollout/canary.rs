//! Canaries: a few places that get a new revision first, and that must be available for a while before others follow.
//!
//! Must not take a Pod (that is `pace`), nor speak a verdict (that is `failure`).

use chrono::{DateTime, TimeDelta, Utc};

use super::bucket::{Cell, Sorted};
use super::cause::Bucket;
use super::memory::{Memory, Proof};
use super::place::{Revision, Standing};
use super::report::WaitingOn;
use super::rule::{Rule, holds};
use super::share::Share;
use super::{Desired, Policy};

/// Who goes first, and how long they are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    pub who: Who,
    /// How long all of them must have been available.
    pub soak: TimeDelta,
}

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// So many.
    Some(Share),
    /// The places that the kind marked.
    Marked,
}

/// How far the canaries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Canaries {
    /// How many more may be taken.
    pub left: usize,
    /// Only places that are marked.
    marked: bool,
    /// Whether an agent that runs can be taken: a place that was broken before proves little.
    pub has_healthy: bool,
    /// Those that are at the desired revision and available.
    available: usize,
    wanted: usize,
    /// Whether the new Pod of one that was taken is not made yet.
    pub is_awaited: bool,
    /// When they will have proven themselves.
    pub until: Option<DateTime<Utc>>,
}

impl Canaries {
    /// Whether there are any: nothing is complete before they have proven themselves.
    pub(super) fn are_watched(&self) -> bool {
        self.wanted > 0
    }

    pub(super) fn waiting_on(&self) -> WaitingOn {
        WaitingOn::Canary { available: self.available, wanted: self.wanted, until: self.until }
    }

    /// Whether a place may be one.
    pub(super) fn admits<R>(&self, cell: &Cell<'_, R>) -> bool {
        !self.marked || cell.place.is_canary
    }
}

/// Whether the desired revision must prove itself first.
pub(super) fn is_unproven<R: Revision>(policy: &Policy, desired: &Desired<R>, memory: &Memory<R>) -> bool {
    let is_proven = memory.proof.as_ref().is_some_and(|proof| proof.passed && proof.revision == desired.revision);
    holds(Rule::Canary) && policy.canary.is_some() && !is_proven && memory.last_good.as_ref() != Some(&desired.revision)
}

/// How far they are, and notes it; `None`: there are none, or they have proven themselves. `absent`: replicas that went
/// and whose successors are not made yet.
pub(super) fn look<R: Revision>(
    policy: &Policy,
    (sorted, absent): (&Sorted<'_, R>, usize),
    desired: &Desired<R>,
    memory: &mut Memory<R>,
    now: DateTime<Utc>,
) -> Option<Canaries> {
    let canary = policy.canary.filter(|_| is_unproven(policy, desired, memory))?;
    // Where nobody is left to follow there is nothing to prove.
    if !sorted.cells.iter().any(|cell| cell.standing() == Some(Standing::Outdated)) {
        return None;
    }
    let marked = canary.who == Who::Marked;
    let is_one = |cell: &&Cell<'_, R>| !marked || cell.place.is_canary;
    // Those that run it, and those whose Pod went for it.
    let is_going = |cell: &Cell<'_, R>| matches!(cell.bucket(), Some(Bucket::Terminating | Bucket::NodeLost));
    let is_taken = |cell: &Cell<'_, R>| {
        let went = cell.counts && (cell.pod().is_none() || is_going(cell));
        cell.touched && (went || cell.standing() == Some(Standing::Current))
    };
    let candidates = || sorted.cells.iter().filter(is_one);
    let taken = candidates().filter(|cell| is_taken(cell)).count() + absent;
    let is_open = |cell: &&Cell<'_, R>| !is_taken(cell) && cell.is_open();
    let open = candidates().filter(is_open).count();
    let has_healthy = candidates().filter(is_open).any(Cell::is_available);
    let wanted = match canary.who {
        Who::Some(share) => share.of(sorted.cells.len()).min(taken + open),
        Who::Marked => taken + open,
    };
    let is_well = |cell: &&Cell<'_, R>| cell.is_available() && cell.standing() == Some(Standing::Current);
    let available = candidates().filter(|cell| is_taken(cell)).filter(is_well).count();
    // One that crashes begins it anew; one whose node goes away does not.
    let fails = |cell: &Cell<'_, R>| match cell.bucket() {
        Some(Bucket::Crash | Bucket::Overdue) => true,
        Some(Bucket::Starting) => cell.pod().is_some_and(|pod| pod.restarts > 0),
        _ => false,
    };
    let known = memory.proof.take().filter(|proof| proof.revision == desired.revision).and_then(|proof| proof.since);
    let known = known.filter(|_| !candidates().filter(|cell| is_taken(cell)).any(fails));
    let all = wanted > 0 && available >= wanted;
    // A node that went away may take its Pod along for good; and of more than are wanted somebody else took some.
    let is_made = |cell: &Cell<'_, R>| cell.pod().is_some() && !cell.is_going();
    let made = candidates().filter(|cell| is_taken(cell) && is_made(cell)).count();
    let lacks = |cell: &Cell<'_, R>| is_taken(cell) && cell.place.is_ready && !is_made(cell);
    let is_awaited = made < wanted && candidates().any(lacks);
    let since = known.or(all.then_some(now));
    let passed = all && since.is_some_and(|since| since + canary.soak <= now);
    memory.proof = Some(Proof { revision: desired.revision.clone(), since, passed });
    let until = since.filter(|_| all).map(|since| since + canary.soak);
    let left = wanted.saturating_sub(taken);
    (!passed).then_some(Canaries { left, marked, has_healthy, available, wanted, is_awaited, until })
}
