//! Canaries: a few places that get a new revision first, and that must be available for a while before others follow.
//!
//! Must not take a Pod (that is `pace`), nor speak a verdict (that is `failure`).

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::cause::Bucket;
use super::cell::Cell;
use super::memory::{Memory, Proof, REMEMBERED};
use super::place::{Revision, Standing};
use super::reading::Reading;
use super::report::WaitingOn;
use super::rule::{Rule, holds};
use super::share::Share;
use super::{Desired, Policy};

/// So long a Pod that others deleted may be away.
const A_MOMENT: TimeDelta = TimeDelta::seconds(10);

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

impl Canary {
    /// How many of so many places are canaries, at most.
    fn most(&self, places: usize) -> usize {
        match self.who {
            Who::Some(share) => share.of(places),
            Who::Marked => places,
        }
    }
}

/// How far the canaries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Canaries {
    /// How many more may be taken.
    pub left: usize,
    /// Only places that are marked.
    marked: bool,
    /// Those that were one, and that others gave the revision of before: their hosts may refuse it.
    former: BTreeSet<String>,
    /// Whether an agent that runs can be taken: a place that was broken before proves little.
    pub has_healthy: bool,
    /// Those that are at the desired revision and available.
    available: usize,
    wanted: usize,
    /// How many of them have a Pod of the desired revision.
    pub made: usize,
    /// Whether the template may be the one of before: the desired revision has reached no others, and no canary waits
    /// for its new Pod.
    pub hold_template: bool,
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
        if self.former.is_empty() { !self.marked || cell.place.is_canary } else { self.former.contains(cell.name()) }
    }
}

/// Whether the desired revision must prove itself first.
pub(super) fn is_unproven<R: Revision>(policy: &Policy, desired: &Desired<R>, memory: &Memory<R>) -> bool {
    let is_proven = memory.proof.as_ref().is_some_and(|proof| proof.passed && proof.revision == desired.revision);
    holds(Rule::Canary) && policy.canary.is_some() && !is_proven && memory.last_good.as_ref() != Some(&desired.revision)
}

/// Whether a canary restarts the soak: one that crashes or takes its node down does, one whose node is removed not.
fn fails<R>(cell: &Cell<'_, R>) -> bool {
    match cell.bucket() {
        Some(Bucket::Crash | Bucket::Overdue | Bucket::NodeLost) => true,
        Some(Bucket::Starting) => cell.pod().is_some_and(|pod| pod.restarts > 0),
        _ => false,
    }
}

/// For how long all canaries have been available so far.
fn served<R>(proof: &Proof<R>, now: DateTime<Utc>) -> TimeDelta {
    TimeDelta::seconds(proof.served) + proof.since.map_or(TimeDelta::zero(), |since| now - since)
}

/// How far they are, and notes it; `None`: there are none, or they have proven themselves. `absent`: of replicas, those
/// that went and whose successors are not created yet.
pub(super) fn evaluate<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    absent: Option<usize>,
    memory: &mut Memory<R>,
) -> Option<Canaries> {
    let Reading { policy, inventory, now, .. } = *reading;
    let canary = policy.canary.filter(|_| is_unproven(policy, desired, memory))?;
    let known = memory.proof.take().filter(|proof| proof.revision == desired.revision);
    let mut places = known.as_ref().map(|proof| proof.places.clone()).unwrap_or_default();
    // One that is closed for a while has had it all the same.
    let is_there = |name: &str| reading.cells.iter().any(|cell| cell.name() == name);
    places.retain(|name| is_there(name) || reading.closed.iter().any(|(place, _)| &**place.name == name.as_str()));
    let is_made = |cell: &Cell<'_, R>| cell.pod().is_some() && !cell.is_going();
    let is_current = |cell: &Cell<'_, R>| cell.standing() == Some(Standing::Current);
    let has_it = |cell: &&Cell<'_, R>| {
        let is_from_it = cell.pod().is_some_and(|pod| pod.revision.as_ref() == Some(&desired.revision));
        absent.is_none() && is_from_it && is_made(cell)
    };
    if known.is_none() {
        // What was known of them was lost, or they failed and are tried again.
        let few = reading.cells.iter().filter(has_it).take(canary.most(reading.cells.len()) + 1);
        let few: Vec<&str> = few.map(Cell::name).collect();
        if few.len() <= canary.most(reading.cells.len()).min(REMEMBERED) {
            places.extend(few.into_iter().map(str::to_owned));
        }
    }
    let mut had = known.as_ref().map(|proof| proof.made.clone()).unwrap_or_default();
    had.retain(|name| places.contains(name));
    let of_them = reading.cells.iter().filter(has_it).map(Cell::name).filter(|name| places.contains(*name));
    had.extend(of_them.map(str::to_owned));
    // More may be in flight than are remembered by name.
    let started = memory.started();
    let is_in_flight = |cell: &Cell<'_, R>| {
        let lost = inventory.lost.get(cell.place.name).zip(started);
        lost.is_some_and(|(lost, started)| *lost >= started) || cell.freed
    };
    let was_deleted = |cell: &Cell<'_, R>| absent.is_none() && (places.contains(cell.name()) || is_in_flight(cell));
    // One whose Pod others delete, or the kubelet refuses, has another in a moment: the template is not written for it.
    let stays_away = |cell: &Cell<'_, R>| {
        let known = inventory.missing.get(cell.place.name).is_some_and(|since| *since + A_MOMENT <= now);
        let is_new = inventory.deciding_since + A_MOMENT > now;
        known || is_new || !had.contains(cell.name()) || inventory.lost.contains_key(cell.place.name)
    };
    let flapped = |cell: &Cell<'_, R>| memory.touched.flapping.contains(cell.name());
    // What can prove nothing is no canary.
    let is_void =
        |cell: &Cell<'_, R>| cell.place.is_left_out || (flapped(cell) && cell.bucket().is_some_and(Bucket::is_broken));
    // One that gave way to another before its new Pod was made never had it, and needs it no more.
    let counts = |cell: &&Cell<'_, R>| places.contains(cell.name()) && is_current(cell) && !is_void(cell);
    let have = reading.cells.iter().filter(has_it).filter(counts).count();
    let are_enough = matches!(canary.who, Who::Some(_)) && have >= canary.most(reading.cells.len());
    let needs_it = |cell: &Cell<'_, R>| !are_enough || had.contains(cell.name());
    // A node that went away may take its Pod along for good.
    let is_missing = |cell: &Cell<'_, R>| {
        was_deleted(cell) && cell.place.is_ready && !is_made(cell) && stays_away(cell) && needs_it(cell)
    };
    // Of more than are remembered an operator that has just started does not know who took the others.
    let is_unknown = places.len() >= REMEMBERED && started.is_some_and(|started| inventory.deciding_since > started);
    // Those that run it, and those whose Pod went for it.
    let is_taken = |cell: &Cell<'_, R>| {
        if is_void(cell) || (is_unknown && cell.touched && !is_made(cell)) {
            return !is_void(cell);
        }
        let runs = is_current(cell) && (cell.touched || was_deleted(cell));
        runs || is_missing(cell) || (was_deleted(cell) && !cell.place.is_ready)
    };
    // Where nobody is left to follow there is nothing to prove.
    let follows = |cell: &Cell<'_, R>| matches!(cell.standing(), Some(Standing::Outdated | Standing::Unheard));
    if !reading.cells.iter().any(|cell| follows(cell) || is_missing(cell)) {
        memory.proof = known;
        return None;
    }
    let marked = canary.who == Who::Marked;
    let is_one = |cell: &&Cell<'_, R>| !marked || cell.place.is_canary;
    let candidates = || reading.cells.iter().filter(is_one);
    let taken = candidates().filter(|cell| is_taken(cell)).count() + absent.unwrap_or_default();
    let is_open = |cell: &&Cell<'_, R>| !is_taken(cell) && cell.is_open();
    let open = candidates().filter(is_open).count();
    let former = candidates().filter(is_open).filter(|cell| was_deleted(cell));
    let former: BTreeSet<String> = former.map(|cell| cell.name().to_owned()).collect();
    let is_broken = |cell: &&Cell<'_, R>| {
        former.contains(cell.name()) && needs_it(cell) && cell.bucket().is_some_and(Bucket::is_broken)
    };
    let again = candidates().filter(is_broken).count();
    let may_be = |cell: &&Cell<'_, R>| is_open(cell) && (former.is_empty() || former.contains(cell.name()));
    let has_healthy = candidates().filter(may_be).any(Cell::is_available);
    let wanted = match canary.who {
        Who::Some(_) => canary.most(reading.cells.len()).min(taken + open),
        Who::Marked => taken + open,
    };
    let available = candidates().filter(|cell| is_taken(cell) && cell.is_available() && is_current(cell)).count();
    let excused = |cell: &Cell<'_, R>| flapped(cell) || memory.touched.broken.contains(cell.name());
    let is_failing = candidates().filter(|cell| is_taken(cell) && !excused(cell)).any(fails);
    let all = wanted > 0 && available >= wanted && !is_failing;
    let served = known.filter(|_| !is_failing).map_or(TimeDelta::zero(), |proof| served(&proof, now));
    let (since, served) = if all { (Some(now - served), TimeDelta::zero()) } else { (None, served) };
    let passed = all && since.is_some_and(|since| since + canary.soak <= now);
    let until = since.filter(|_| all).map(|since| since + canary.soak);
    let made = candidates().filter(|cell| is_current(cell) && is_made(cell) && is_taken(cell)).count();
    let canaries = Canaries {
        left: wanted.saturating_sub(taken).max(again),
        marked,
        former,
        has_healthy,
        available,
        wanted,
        made,
        hold_template: !reading.cells.iter().any(is_missing)
            && (made <= wanted || reading.cells.iter().filter(has_it).all(was_deleted)),
        until,
    };
    let (revision, served) = (desired.revision.clone(), served.num_seconds());
    memory.proof = Some(Proof { revision, since, served, passed, places, made: had });
    (!passed).then_some(canaries)
}
