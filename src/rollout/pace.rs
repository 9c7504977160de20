//! Pace: how many may go now, in all and of each workload, and which of them.
//!
//! Must not decide whether anything may go at all (that is `rules`), nor read the fleet itself (that is `bucket`).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Step;
use super::canary::Canaries;
use super::cell::Cell;
use super::memory::{Memory, REMEMBERED, StallPhase};
use super::place::{Standing, Workload};
use super::reading::Reading;
use super::remember::removed;
use super::report::WaitingOn;
use super::zones::{age, next_ones};

/// What may be in flight at once.
#[derive(Clone)]
pub(super) struct Bounds<'i> {
    /// Of each workload; of all places together, where there are none.
    each: Vec<Bound<'i>>,
    /// The budget of the largest.
    pub(super) budget: usize,
    /// How many may be in flight in all. Of many workloads not all begin at once: a change that makes Pods crash is
    /// noticed after the first budget's worth, and each successor that is available admits one more.
    whole: usize,
    /// How many are.
    pub(super) used: usize,
    /// How many more places without an agent can be remembered as such.
    memorable: usize,
    /// Places that were removed and count still, and until when the first of them does.
    pub(super) removed: (Vec<String>, Option<DateTime<Utc>>),
    /// Those that go first, while they have not proven themselves.
    pub(super) canaries: Option<Canaries>,
}

#[derive(Clone)]
struct Bound<'i> {
    of: Option<&'i Workload>,
    budget: usize,
    used: usize,
    /// Replicas without a Pod, or with one that is being deleted.
    missing: usize,
    /// Those of them that may be missing because of us.
    absent: usize,
}

/// What those that go are bounded by.
pub(super) struct Turn<'b, 'i> {
    bounds: &'b Bounds<'i>,
    /// How many of each workload cost nothing, went and are not back.
    freed: Vec<usize>,
    mass_outage: bool,
}

/// Those that go now.
pub(super) struct Chosen<'c, 'a, R> {
    /// Broken ones, which cost nothing.
    free: Vec<&'c Cell<'a, R>>,
    /// Available ones: of each workload as many as it allows, and those first whose turn it is.
    healthy: Vec<&'c Cell<'a, R>>,
}

/// Those that cost nothing, too, are at most the budget at a time: a whole fleet may look broken for a moment.
pub(super) fn broken_within_the_budget<R>(turn: &Turn<'_, '_>, chosen: &mut Chosen<'_, '_, R>) {
    let Turn { bounds, freed, .. } = turn;
    let left = bounds.each.iter().zip(freed).map(|(bound, freed)| bound.budget.saturating_sub(*freed));
    let mut left: Vec<usize> = left.collect();
    chosen.free.retain(|cell| {
        let left = &mut left[bounds.index(cell)];
        let may_go = *left > 0;
        *left -= usize::from(may_go);
        may_go
    });
    chosen.free.truncate(bounds.whole.saturating_sub(freed.iter().sum()).min(bounds.memorable));
}

/// Canaries go first, and alone.
pub(super) fn canaries_alone<R>(turn: &Turn<'_, '_>, chosen: &mut Chosen<'_, '_, R>) {
    if let Some(canaries) = &turn.bounds.canaries {
        chosen.free.truncate(canaries.left);
        chosen.healthy.truncate(canaries.left);
    }
}

/// No running agent is replaced in a mass outage.
pub(super) fn none_in_a_mass_outage<R>(turn: &Turn<'_, '_>, chosen: &mut Chosen<'_, '_, R>) {
    if turn.mass_outage {
        chosen.healthy.clear();
    }
}

/// Of many workloads no more than are allowed in all, the oldest first.
pub(super) fn within_the_budget<R>(turn: &Turn<'_, '_>, chosen: &mut Chosen<'_, '_, R>) {
    let bounds = turn.bounds;
    if bounds.each.len() > 1 {
        chosen.healthy.sort_unstable_by(|a, b| age(a).cmp(&age(b)));
    }
    chosen.healthy.truncate(bounds.whole.saturating_sub(bounds.used));
}

impl<'i> Bounds<'i> {
    pub(super) fn of<R>(reading: &Reading<'_, 'i, R>, memory: &Memory<R>) -> Self {
        let Reading { policy, inventory, .. } = *reading;
        if reading.is_named() {
            let memorable = REMEMBERED.saturating_sub(memory.touched.broken.len());
            let removed = removed(memory);
            let used = reading.in_flight().count() + reading.outside.len() + removed.0.len();
            let budget = policy.budget.of(reading.cells.len());
            let each = vec![Bound { of: None, budget, used, missing: 0, absent: 0 }];
            return Self { each, budget, whole: budget, used, memorable, removed, canaries: None };
        }
        let mut unready = vec![0; inventory.workloads.len()];
        for cell in reading.cells.iter().filter(|cell| !cell.is_available() && !cell.is_going()) {
            unready[cell.place.workload] += 1;
        }
        let bound = |(workload, unready): (&'i Workload, usize)| {
            let before = memory.touched.lacking.get(&*workload.name).copied().unwrap_or_default();
            let missing = workload.unavailable().saturating_sub(unready);
            Bound {
                of: Some(workload),
                budget: workload.budget.of(workload.expected),
                used: workload.unavailable().saturating_sub(before),
                absent: if workload.is_busy { 0 } else { missing.saturating_sub(before) },
                missing,
            }
        };
        let each: Vec<Bound<'_>> = inventory.workloads.iter().zip(unready).map(bound).collect();
        let budget = each.iter().map(|bound| bound.budget).max().unwrap_or(1);
        // In all only that counts which this rollout has done: what others do to a workload is that one's alone.
        let counts = reading.in_flight().filter(|cell| !cell.is_going()).count();
        let used = counts + each.iter().map(|bound| bound.absent).sum::<usize>();
        let is_done =
            |cell: &&Cell<'_, R>| cell.touched && cell.is_available() && cell.standing() == Some(Standing::Current);
        Self {
            whole: budget + reading.cells.iter().filter(is_done).count(),
            each,
            budget,
            used,
            // Replicas are excused by their workload, under no name.
            memorable: usize::MAX,
            removed: (Vec::new(), None),
            canaries: None,
        }
    }

    /// Replicas that may be missing because of us, and whose successors are not created yet; `None`: places have names.
    /// Those whose Pods are refused lack them for another cause.
    pub(super) fn absent(&self) -> Option<usize> {
        let of_ours = |bound: &&Bound<'_>| bound.of.is_some_and(|workload| workload.refused.is_none());
        let has_any = self.each.iter().all(|bound| bound.of.is_some());
        has_any.then(|| self.each.iter().filter(of_ours).map(|bound| bound.absent).sum())
    }

    /// While one place is tried: one that may still come counts as that one; what is lost otherwise, or has been in
    /// trouble since before, does not.
    pub(super) fn for_a_trial<R>(mut self, reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> Self {
        let Some(stall) = memory.stall().filter(|stall| stall.phase == StallPhase::Trial) else { return self };
        let is_tried = |cell: &Cell<'_, R>| {
            let is_new = || cell.touched_at.is_none_or(|touched| touched >= stall.since);
            cell.is_on_its_way() || (cell.is_external && is_new())
        };
        let tried = reading.in_flight().filter(|cell| is_tried(cell)).count();
        self.whole = self.whole.min((self.used + 1).saturating_sub(tried));
        for bound in &mut self.each {
            bound.budget = bound.budget.min(self.whole);
        }
        self
    }

    /// Whether any may be replaced now.
    pub(super) fn has_room<R>(&self, reading: &Reading<'_, '_, R>, mass_outage: bool) -> bool {
        !self.clone().steps(reading, mass_outage).0.is_empty()
    }

    /// What to replace now: broken ones first, for they cost nothing; then the oldest. And what is left then.
    pub(super) fn steps<R>(mut self, reading: &Reading<'_, '_, R>, mass_outage: bool) -> (Vec<Step<R>>, Self) {
        let mut chosen = Chosen { free: Vec::new(), healthy: Vec::new() };
        let on_its_way = |cell: &Cell<'_, R>| cell.is_on_its_way();
        let is_freed = |cell: &Cell<'_, R>| cell.freed || (cell.touched && !cell.is_in_flight && on_its_way(cell));
        let mut of_each: Vec<Vec<&Cell<'_, R>>> = self.each.iter().map(|_| Vec::new()).collect();
        let canaries = self.canaries.clone();
        let canaries = canaries.as_ref();
        let may_go = |cell: &Cell<'_, R>| cell.is_open && canaries.is_none_or(|canaries| canaries.admits(cell));
        for cell in reading.cells.iter().filter(|cell| may_go(cell) || is_freed(cell)) {
            of_each[self.index(cell)].push(cell);
        }
        let mut freed = Vec::with_capacity(self.each.len());
        for (bound, cells) in self.each.iter().zip(&of_each) {
            freed.push(cells.iter().filter(|cell| is_freed(cell)).count() + bound.absent);
            let open = || cells.iter().copied().filter(|cell| cell.is_open);
            let available = open().filter(|cell| cell.is_available()).collect();
            let next = next_ones(reading, available, bound.budget.saturating_sub(bound.used));
            // As a canary one that was broken before proves little, but it may hold what the others wait for.
            let may_prove = |cell: &&Cell<'_, R>| {
                canaries.is_none_or(|canaries| {
                    !canaries.has_healthy || (next.is_empty() && (cell.is_in_flight || bound.of.is_some()))
                })
            };
            chosen.free.extend(open().filter(|cell| cell.is_broken).filter(may_prove));
            chosen.healthy.extend(next);
        }
        let turn = Turn { bounds: &self, freed, mass_outage };
        reading.rules.pace.iter().for_each(|(_, rule)| rule(&turn, &mut chosen));
        let Chosen { free, healthy } = chosen;
        for cell in &healthy {
            let index = self.index(cell);
            self.each[index].used += 1;
        }
        self.used += healthy.len();
        let step = |cell: &Cell<'_, R>, costs| {
            cell.pod().map(|pod| Step { place: cell.place.name.clone(), pod: pod.clone(), costs })
        };
        let free = free.into_iter().filter_map(|cell| step(cell, false));
        let steps = free.chain(healthy.into_iter().filter_map(|cell| step(cell, true))).collect();
        (steps, self)
    }

    fn index<R>(&self, cell: &Cell<'_, R>) -> usize {
        if self.each[0].of.is_none() { 0 } else { cell.place.workload }
    }

    /// The budget that those who are left wait for, if they do.
    pub(super) fn exhausted<R>(&self, reading: &Reading<'_, '_, R>) -> Option<WaitingOn> {
        let is_left = |index: usize| reading.open().any(|cell| self.index(cell) == index);
        let used_up = |(index, bound): &(usize, &Bound<'_>)| bound.used >= bound.budget && is_left(*index);
        let of_one = |(_, bound): (usize, &Bound<'_>)| WaitingOn::Budget {
            of: bound.of.map(|workload| workload.name.clone()),
            used: bound.used,
            whole: bound.budget,
        };
        let in_all = || {
            let left = self.used >= self.whole && reading.open().next().is_some();
            left.then_some(WaitingOn::Budget { of: None, used: self.used, whole: self.whole })
        };
        self.each.iter().enumerate().find(used_up).map(of_one).or_else(in_all)
    }

    /// Replicas that are not there and may come yet; and when the first of them is overdue.
    pub(super) fn coming<R>(&self, reading: &Reading<'_, '_, R>) -> (usize, Option<DateTime<Utc>>) {
        let Reading { policy, inventory, now, .. } = *reading;
        let (mut coming, mut until) = (0, None);
        for (bound, workload) in self.missing() {
            let due = inventory.missing.get(&workload.name).copied().unwrap_or(now) + policy.wait_ready;
            if due > now {
                coming += bound.missing;
                until = Some(until.map_or(due, |until: DateTime<Utc>| until.min(due)));
            }
        }
        (coming, until)
    }

    /// Replicas that should have been there for long, by workload.
    pub(super) fn overdue<R>(&self, reading: &Reading<'_, '_, R>) -> BTreeMap<String, usize> {
        let Reading { policy, inventory, now, .. } = *reading;
        let is_overdue = |workload: &Workload| {
            inventory.missing.get(&workload.name).is_some_and(|since| *since + policy.wait_ready <= now)
        };
        let overdue = self.missing().filter(|(_, workload)| is_overdue(workload)).take(REMEMBERED);
        overdue.map(|(bound, workload)| (workload.name.to_string(), bound.missing)).collect()
    }

    /// How many agents that were broken before were replaced and still are, where that keeps others from their turn.
    pub(super) fn unmended<R>(&self, reading: &Reading<'_, '_, R>) -> Option<WaitingOn> {
        let is_full = self.memorable == 0;
        (is_full && reading.open().any(|cell| cell.is_broken)).then_some(WaitingOn::Broken(REMEMBERED))
    }

    /// The workloads that lack Pods.
    pub(super) fn replicas(&self) -> impl Iterator<Item = WaitingOn> + '_ {
        self.missing().map(|(bound, workload)| WaitingOn::Replicas {
            of: workload.name.clone(),
            missing: bound.missing,
            expected: workload.expected,
            refused: workload.refused.clone(),
        })
    }

    fn missing(&self) -> impl Iterator<Item = (&Bound<'i>, &'i Workload)> + '_ {
        let is_missing = |bound: &&Bound<'_>| bound.missing > 0;
        self.each.iter().filter(is_missing).filter_map(|bound| Some((bound, bound.of?)))
    }
}
