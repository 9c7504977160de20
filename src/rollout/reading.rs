//! The fleet, read once: all that a decision asks of it. Nothing of it changes while the decision is made.
//!
//! Must not judge a place (that is `bucket` and `verdict`), nor decide anything.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::cell::Cell;
use super::outage::is_mass_outage;
use super::place::{Closed, Place, Pod, Revision, Standing};
use super::report::{State, WaitingOn};
use super::{Inventory, Policy, Rules};

/// One place that joined may have a fault of its own; so many that fail are a verdict.
pub(super) const JOINED: usize = 2;

/// A place that is NotReady for so long is switched off.
const OFF: TimeDelta = TimeDelta::hours(6);

/// The fleet, and what it is read with.
pub(super) struct Reading<'r, 'a, R: 'static> {
    pub(super) rules: &'r Rules<R>,
    pub(super) policy: &'r Policy,
    pub(super) inventory: &'r Inventory<'a, R>,
    pub(super) now: DateTime<Utc>,
    /// Selected places.
    pub(super) cells: Vec<Cell<'a, R>>,
    /// Places where no new Pod may start, and why.
    pub(super) closed: Vec<(&'a Place<'a, R>, &'a Closed)>,
    /// Those of them with an agent that runs on.
    pub(super) surplus: Vec<(&'a Place<'a, R>, &'a Closed)>,
    /// Those of them whose agent we took, and that are kept from getting another.
    pub(super) outside: Vec<(&'a Place<'a, R>, &'a Closed)>,
    /// So many places are unreachable that no agent is taken from any.
    pub(super) mass_outage: Option<MassOutage>,
    /// What the rollout is meanwhile, and waits for, while nothing may be replaced.
    pub(super) held: Option<(State, WaitingOn)>,
}

/// So many places are unreachable that no running agent is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct MassOutage {
    down: usize,
    all: usize,
    /// When the next of them has been away for so long that it is switched off.
    pub(super) until: Option<DateTime<Utc>>,
}

impl MassOutage {
    pub(super) fn waiting_on(self) -> WaitingOn {
        WaitingOn::MassOutage(self.down, self.all)
    }
}

impl<'r, 'a, R> Reading<'r, 'a, R> {
    /// One without places yet.
    pub(super) fn new(
        rules: &'r Rules<R>,
        policy: &'r Policy,
        inventory: &'r Inventory<'a, R>,
        now: DateTime<Utc>,
    ) -> Self {
        let cells = Vec::with_capacity(inventory.places.len());
        let (closed, surplus, outside) = (Vec::new(), Vec::new(), Vec::new());
        let held = rules.holds.iter().find_map(|(_, rule)| rule(policy, now));
        Self { rules, policy, inventory, now, cells, closed, surplus, outside, mass_outage: None, held }
    }

    /// Takes note of a place where no new Pod may start.
    pub(super) fn close(&mut self, place: &'a Place<'a, R>, closed: &'a Closed, made: bool) {
        self.closed.push((place, closed));
        if !closed.keeps_pods {
            return;
        }
        let Inventory { deleted, lost, memory, .. } = self.inventory;
        let stays = |pod: &&Arc<Pod<R>>| !pod.deleting && !deleted.contains(&pod.id);
        let pod = place.occupant.map(|occupant| occupant.pod).filter(stays);
        let is_known = made || memory.touched.closed.contains(&**place.name);
        let is_ours = (is_known || lost.contains_key(place.name)) && !place.is_left_out;
        if is_ours && pod.is_none_or(|pod| pod.ready_since.is_none()) {
            self.outside.push((place, closed));
        }
        if pod.is_some() && place.busy.is_none() {
            self.surplus.push((place, closed));
        }
    }

    /// Places that take from the budget.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Cell<'a, R>> {
        self.cells.iter().filter(|cell| cell.is_in_flight)
    }

    /// Places whose agent is to be replaced and can be.
    pub(super) fn open(&self) -> impl Iterator<Item = &Cell<'a, R>> {
        self.cells.iter().filter(|cell| cell.is_open)
    }

    /// Whether places have names of their own.
    pub(super) fn is_named(&self) -> bool {
        self.inventory.workloads.is_empty()
    }

    /// When a place changes by the clock alone.
    pub(super) fn until(&self) -> Option<DateTime<Utc>> {
        self.cells.iter().filter_map(|cell| cell.until).min()
    }
}

impl<'a, R: Revision> Reading<'_, 'a, R> {
    /// The places that count as failures of the desired revision. Of a workload that had broken replicas before, as
    /// many are not heard: which of them those are is unknown.
    pub(super) fn failing(&self) -> Vec<&Cell<'a, R>> {
        let lacking = &self.inventory.memory.touched.lacking;
        let before = |name: &str| lacking.get(name).copied().unwrap_or_default();
        let mut excused: Vec<usize> = self.inventory.workloads.iter().map(|workload| before(&workload.name)).collect();
        let is_heard = |cell: &&Cell<'_, R>| match excused.get_mut(cell.place.workload) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        };
        let joined = self.failing_joined();
        let counts = |cell: &&Cell<'_, R>| cell.counts_as_failure && (!cell.has_joined || joined >= JOINED);
        self.cells.iter().filter(counts).filter(is_heard).collect()
    }

    /// How many places that joined meanwhile fail with the desired revision: whether they should have it was not asked.
    pub(super) fn failing_joined(&self) -> usize {
        self.cells.iter().filter(|cell| cell.has_joined && cell.counts_as_failure).count()
    }

    /// How many places the desired revision has reached.
    pub(super) fn reached(&self) -> usize {
        self.cells.iter().filter(|cell| cell.standing() == Some(Standing::Current) || cell.counts_as_failure).count()
    }
}

/// A third of the places is unreachable, NotReady or with an agent that ran and has its time to run again. Places that
/// are NotReady for hours are switched off, not in a mass outage.
pub(super) fn mass_outage<R>(reading: &Reading<'_, '_, R>) -> Option<MassOutage> {
    let Reading { cells, now, .. } = reading;
    let off_at = |cell: &Cell<'_, R>| cell.place.ready_since.map(|since| since + OFF);
    let is_off = |cell: &&Cell<'_, R>| !cell.place.is_ready && off_at(cell).is_some_and(|at| at <= *now);
    let all = cells.len() - cells.iter().filter(is_off).count();
    let is_down = |cell: &&Cell<'_, R>| !cell.place.is_ready && !is_off(cell);
    let has_ceased = |cell: &&Cell<'_, R>| cell.has_lost() && reading.is_named();
    let down = cells.iter().filter(|cell| is_down(cell) || has_ceased(cell)).count();
    let until = cells.iter().filter(is_down).filter_map(off_at).min();
    is_mass_outage(down, all).then_some(MassOutage { down, all, until })
}

/// A pause, or a stop of everything.
pub(super) fn is_paused(policy: &Policy, _: DateTime<Utc>) -> Option<(State, WaitingOn)> {
    policy.hold.clone().map(|hold| (hold.state, WaitingOn::Hold(hold)))
}

/// Outside of windows, or in a blackout.
pub(super) fn is_closed(policy: &Policy, now: DateTime<Utc>) -> Option<(State, WaitingOn)> {
    policy.calendar.closed(now).map(|closed| (State::Held, WaitingOn::Calendar(closed)))
}
