//! Canaries: a few places that get a new revision first, and that must be available for a while before others follow.
//!
//! Must not take a Pod (that is `pace`), nor give a verdict (that is `failure`).

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::cause::Bucket;
use super::cell::Cell;
use super::memory::{Memory, Proof, REMEMBERED};
use super::place::{Revision, Standing};
use super::reading::Reading;
use super::report::WaitingOn;
use super::share::Share;
use super::{Desired, Word};

/// How long a Pod that others deleted may be absent.
const A_MOMENT: TimeDelta = TimeDelta::seconds(10);

/// Which places go first, and how long they are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    pub who: Who,
    /// How long all of them must have been available.
    pub soak: TimeDelta,
    /// Whether a person says when others follow, and not the end of the soak.
    pub by_hand: bool,
}

/// Which places go first.
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
    /// Former canaries that others reverted: their hosts may refuse the old revision.
    former: BTreeSet<String>,
    /// Whether an agent that runs can be taken: a place that was broken before proves little.
    pub has_healthy: bool,
    /// Those that are at the desired revision and available.
    available: usize,
    wanted: usize,
    /// How many of them have a Pod of the desired revision.
    pub made: usize,
    /// Whether the template may be the previous one: the desired revision has reached no others, and no canary waits
    /// for its new Pod.
    pub hold_template: bool,
    /// When they will have soaked, or did where a person must say that others may follow.
    soaked_at: Option<DateTime<Utc>>,
}

impl Canaries {
    /// Whether there are any: nothing is complete before they have proven themselves.
    pub(super) fn are_watched(&self) -> bool {
        self.wanted > 0
    }

    /// When they will have soaked, if no trouble comes.
    pub(super) fn until(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.soaked_at.filter(|at| *at > now)
    }

    pub(super) fn waiting_on(&self, now: DateTime<Utc>) -> WaitingOn {
        let until = self.until(now);
        if self.soaked_at.is_some() && until.is_none() {
            return WaitingOn::Promotion(self.wanted);
        }
        WaitingOn::Canary { available: self.available, wanted: self.wanted, until }
    }

    /// Whether a place may be one.
    pub(super) fn admits<R>(&self, cell: &Cell<'_, R>) -> bool {
        if self.former.is_empty() { !self.marked || cell.place.is_canary } else { self.former.contains(cell.name()) }
    }
}

/// Whether the desired revision must prove itself first.
pub(super) fn is_unproven<R: Revision>(reading: &Reading<'_, '_, R>, desired: &Desired<R>, memory: &Memory<R>) -> bool {
    reading.rules.unproven.iter().any(|(_, rule)| rule(reading, desired, memory))
}

/// A new revision is seen by canaries first.
pub(super) fn needs_canaries<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    memory: &Memory<R>,
) -> bool {
    let is_proven = memory.proof.as_ref().is_some_and(|proof| proof.passed && proof.revision == desired.revision);
    reading.policy.canary.is_some() && !is_proven && memory.last_good.as_ref() != Some(&desired.revision)
}

/// They must have been available for as long as asked, unless a person said that they have soaked enough.
pub(super) fn has_soaked<R>(reading: &Reading<'_, '_, R>, since: DateTime<Utc>) -> bool {
    let soaked = |canary: Canary| since + canary.soak <= reading.now;
    reading.policy.word == Some(Word::Promoted) || reading.policy.canary.is_some_and(soaked)
}

/// Where a person promotes, the others wait for that.
pub(super) fn is_promoted<R>(reading: &Reading<'_, '_, R>, _: DateTime<Utc>) -> bool {
    reading.policy.word == Some(Word::Promoted) || reading.policy.canary.is_some_and(|canary| !canary.by_hand)
}

/// Whether a canary restarts the soak: one that crashes or takes its node down does; a removed node does not.
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
    let canary = reading.policy.canary.filter(|_| is_unproven(reading, desired, memory))?;
    let known = memory.proof.take().filter(|proof| proof.revision == desired.revision);
    let watch = Watch::of(reading, desired, memory, canary, absent, known.as_ref());
    if !watch.has_followers() {
        memory.proof = known;
        return None;
    }
    let canaries = watch.canaries();
    let proof = watch.proof(&canaries, known);
    let soaked_at = proof.since.map(|since| since + canary.soak);
    let is_proven = proof.passed;
    memory.proof = Some(proof);
    (!is_proven).then_some(Canaries { soaked_at, ..canaries })
}

/// The places that the desired revision has gone to while it proves itself.
struct Watch<'w, 'r, 'a, R: 'static> {
    reading: &'w Reading<'r, 'a, R>,
    desired: &'w Desired<R>,
    memory: &'w Memory<R>,
    canary: Canary,
    /// Of replicas, those that went and whose successors are not created yet.
    absent: Option<usize>,
    /// Places whose Pod was deleted for it.
    places: BTreeSet<String>,
    /// Those of them that have had a Pod of it.
    had: BTreeSet<String>,
    /// As many places run it as are wanted.
    are_enough: bool,
}

impl<'w, 'r, 'a, R: Revision> Watch<'w, 'r, 'a, R> {
    fn of(
        reading: &'w Reading<'r, 'a, R>,
        desired: &'w Desired<R>,
        memory: &'w Memory<R>,
        canary: Canary,
        absent: Option<usize>,
        known: Option<&Proof<R>>,
    ) -> Self {
        let places = known.map(|proof| proof.places.clone()).unwrap_or_default();
        let had = known.map(|proof| proof.made.clone()).unwrap_or_default();
        let mut watch = Self { reading, desired, memory, canary, absent, places, had, are_enough: false };
        // One that is closed for a while has had it all the same.
        let is_there = |name: &str| reading.cells.iter().any(|cell| cell.name() == name);
        let is_closed = |name: &str| reading.closed.iter().any(|(place, _)| &**place.name == name);
        watch.places.retain(|name| is_there(name) || is_closed(name));
        if known.is_none() {
            // What was known of them was lost, or they failed and are tried again.
            let most = canary.most(reading.cells.len());
            let few: Vec<&Cell<'_, R>> =
                reading.cells.iter().filter(|cell| watch.has_it(cell)).take(most + 1).collect();
            if few.len() <= most.min(REMEMBERED) {
                watch.places.extend(few.into_iter().map(|cell| cell.name().to_owned()));
            }
        }
        watch.had.retain(|name| watch.places.contains(name));
        let have_it = reading.cells.iter().filter(|cell| watch.has_it(cell) && watch.places.contains(cell.name()));
        let have_it: Vec<&Cell<'_, R>> = have_it.collect();
        watch.had.extend(have_it.iter().map(|cell| cell.name().to_owned()));
        // One that gave way to another before its new Pod was created never had it, and needs it no more.
        let count = have_it.iter().filter(|cell| is_current(cell) && !watch.is_void(cell)).count();
        watch.are_enough = matches!(canary.who, Who::Some(_)) && count >= canary.most(reading.cells.len());
        watch
    }

    /// Whether its Pod is of the desired revision.
    fn has_it(&self, cell: &Cell<'_, R>) -> bool {
        let is_from_it = cell.pod().is_some_and(|pod| pod.revision.as_ref() == Some(&self.desired.revision));
        self.absent.is_none() && is_from_it && is_made(cell)
    }

    /// Whether its Pod was deleted for it. More may be in flight than are remembered by name.
    fn was_deleted(&self, cell: &Cell<'_, R>) -> bool {
        let lost = self.reading.inventory.lost.get(cell.place.name).zip(self.memory.started());
        let is_in_flight = cell.freed || lost.is_some_and(|(lost, started)| *lost >= started);
        self.absent.is_none() && (self.places.contains(cell.name()) || is_in_flight)
    }

    /// Whether its new Pod does not come on its own. One whose Pod others delete, or the kubelet refuses, has another
    /// in a moment: the template is not written for it.
    fn stays_missing(&self, cell: &Cell<'_, R>) -> bool {
        let Reading { inventory, now, .. } = *self.reading;
        let known = inventory.missing.get(cell.place.name).is_some_and(|since| *since + A_MOMENT <= now);
        let is_new = inventory.deciding_since + A_MOMENT > now;
        // A template that is not ours has the new revision anyway.
        let is_written = inventory.writes_template;
        !is_written
            || known
            || is_new
            || !self.had.contains(cell.name())
            || inventory.lost.contains_key(cell.place.name)
    }

    fn flapped(&self, cell: &Cell<'_, R>) -> bool {
        self.memory.touched.flapping.contains(cell.name())
    }

    /// Whether it can prove nothing, and so is no canary.
    fn is_void(&self, cell: &Cell<'_, R>) -> bool {
        cell.place.is_left_out || (self.flapped(cell) && cell.is_broken)
    }

    fn needs_it(&self, cell: &Cell<'_, R>) -> bool {
        !self.are_enough || self.had.contains(cell.name())
    }

    /// Whether it waits for its new Pod. A node that went away may take its Pod along for good.
    fn is_missing(&self, cell: &Cell<'_, R>) -> bool {
        let has_none = cell.place.is_ready && !is_made(cell);
        has_none && self.was_deleted(cell) && self.stays_missing(cell) && self.needs_it(cell)
    }

    /// Whether it runs the desired revision, or its Pod went for it.
    fn is_taken(&self, cell: &Cell<'_, R>) -> bool {
        if self.is_void(cell) {
            return false;
        }
        // Beyond what is remembered, an operator that has just started cannot name the others.
        let is_new = self.memory.started().is_some_and(|started| self.reading.inventory.deciding_since > started);
        if is_new && self.places.len() >= REMEMBERED && cell.touched && !is_made(cell) {
            return true;
        }
        let was_deleted = self.was_deleted(cell);
        let runs = is_current(cell) && (cell.touched || was_deleted);
        runs || self.is_missing(cell) || (was_deleted && !cell.place.is_ready)
    }

    /// Whether it was one, and others gave it the previous revision.
    fn is_former(&self, cell: &Cell<'_, R>) -> bool {
        self.is_open(cell) && self.was_deleted(cell)
    }

    fn is_open(&self, cell: &Cell<'_, R>) -> bool {
        cell.is_open && !self.is_taken(cell)
    }

    /// Whether any place is left to follow: where none is there is nothing to prove.
    fn has_followers(&self) -> bool {
        let follows = |cell: &Cell<'_, R>| matches!(cell.standing(), Some(Standing::Outdated | Standing::Unheard));
        self.reading.cells.iter().any(|cell| follows(cell) || self.is_missing(cell))
    }

    /// Places that may be canaries.
    fn candidates(&self) -> impl Iterator<Item = &'w Cell<'a, R>> {
        let marked = self.canary.who == Who::Marked;
        self.reading.cells.iter().filter(move |cell| !marked || cell.place.is_canary)
    }

    /// How far they are, except when they will have proven themselves.
    fn canaries(&self) -> Canaries {
        let cells = &self.reading.cells;
        let taken: Vec<&Cell<'_, R>> = self.candidates().filter(|cell| self.is_taken(cell)).collect();
        let count = taken.len() + self.absent.unwrap_or_default();
        let open = self.candidates().filter(|cell| self.is_open(cell)).count();
        let former: Vec<&Cell<'_, R>> = self.candidates().filter(|cell| self.is_former(cell)).collect();
        let is_broken = |cell: &&&Cell<'_, R>| self.needs_it(cell) && cell.is_broken;
        let again = former.iter().filter(is_broken).count();
        let former: BTreeSet<String> = former.into_iter().map(|cell| cell.name().to_owned()).collect();
        let may_be = |cell: &&Cell<'_, R>| self.is_open(cell) && (former.is_empty() || former.contains(cell.name()));
        let has_healthy = self.candidates().filter(may_be).any(Cell::is_available);
        let wanted = match self.canary.who {
            Who::Some(_) => self.canary.most(cells.len()).min(count + open),
            Who::Marked => count + open,
        };
        let made = taken.iter().filter(|cell| is_current(cell) && is_made(cell)).count();
        // The desired revision has reached no others, and no canary waits for its new Pod.
        let is_anothers = |cell: &Cell<'_, R>| self.has_it(cell) && !self.was_deleted(cell);
        let has_reached_others = made > wanted && cells.iter().any(is_anothers);
        let hold_template = !has_reached_others && !cells.iter().any(|cell| self.is_missing(cell));
        Canaries {
            left: wanted.saturating_sub(count).max(again),
            marked: self.canary.who == Who::Marked,
            former,
            has_healthy,
            available: taken.iter().filter(|cell| cell.is_available() && is_current(cell)).count(),
            wanted,
            made,
            hold_template,
            soaked_at: None,
        }
    }

    /// What they have proven so far.
    fn proof(self, canaries: &Canaries, known: Option<Proof<R>>) -> Proof<R> {
        let now = self.reading.now;
        let excused = |cell: &Cell<'_, R>| self.flapped(cell) || self.memory.touched.broken.contains(cell.name());
        let is_taken_and_fails = self.candidates().filter(|cell| self.is_taken(cell) && !excused(cell)).any(fails);
        // What one that joined does with it is news, too.
        let is_failing = is_taken_and_fails || self.reading.failing_joined() > 0;
        let all = canaries.wanted > 0 && canaries.available >= canaries.wanted && !is_failing;
        let served = known.filter(|_| !is_failing).map_or(TimeDelta::zero(), |proof| served(&proof, now));
        let (since, served) = if all { (Some(now - served), TimeDelta::zero()) } else { (None, served) };
        let is_proof = |since| self.reading.rules.proof.iter().all(|(_, rule)| rule(self.reading, since));
        Proof {
            revision: self.desired.revision.clone(),
            since,
            served: served.num_seconds(),
            passed: since.is_some_and(is_proof),
            places: self.places,
            made: self.had,
        }
    }
}

/// Whether it has a Pod that stays.
fn is_made<R>(cell: &Cell<'_, R>) -> bool {
    cell.pod().is_some() && !cell.is_going()
}

fn is_current<R>(cell: &Cell<'_, R>) -> bool {
    cell.standing() == Some(Standing::Current)
}
