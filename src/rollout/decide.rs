//! The decision: template, steps, memory. The rules stand in the order of their precedence.
//!
//! Must not read the fleet itself (that is `bucket`) nor word what it found (that is `cause` and `report`).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::back::{WayBack, is_back, is_of};
use super::bucket::sort;
use super::canary::{self, Canaries, is_unproven};
use super::cause::Cause;
use super::cell::{Cell, Sorted};
use super::failure::{is_about, judge, stand_still, stick, stuck_until, withdraw, withdrawal_due};
use super::forecast::finish;
use super::memory::{Failure, Memory, Phase, REMEMBERED, StuckPhase, Touched};
use super::pace::{Bounds, storm};
use super::place::{Revision, Standing};
use super::remember::{lacking, missing, note_all, remember};
use super::report::{Report, State, WAITING, WaitingOn};
use super::rule::{Rule, holds};
use super::{Desired, Inventory, LOOK_AGAIN, Plan, Policy, Template};

/// How many places are named of each cause.
const NAMES: usize = 3;

/// Says what to do now. `desired` is `None` while nobody knows what is wanted.
#[must_use]
pub fn plan<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Plan<R> {
    let mut memory = inventory.memory.clone();
    let sorted = sort(policy, desired, inventory, now);
    let mut report = Report::count(&sorted);
    remember(&sorted, inventory, &mut memory, now);
    withdraw(&sorted, policy, inventory, &mut memory, now);
    let bounds = Bounds::of(policy, &sorted, inventory, &memory);
    let (coming, overdue) = bounds.coming(policy, inventory, now);
    let mut plan = Plan {
        template: Template::Keep,
        steps: Vec::new(),
        missing: missing(&sorted, inventory),
        budget: bounds.budget,
        next: sorted.cells.iter().filter_map(|cell| cell.until).chain(overdue).min(),
        needs_proof: sorted.cells.iter().any(|cell| cell.suspect),
        report: Report::default(),
        memory: Memory::default(),
    };

    let Some(desired) = desired else {
        report.state = State::Waiting;
        report.waiting_on = vec![WaitingOn::Decision(inventory.words.undecided)];
        return Plan { report, memory, ..plan };
    };

    // Rule 2: an unresolved failure, then a hold.
    judge(&sorted, desired, inventory, (policy, bounds.budget), &mut memory, now);
    let (storm, storm_until) = storm(&sorted, now).unzip();
    let held = held(policy, now);
    let is_free = storm.is_none() && held.is_none() && !is_unproven(policy, desired, &memory);
    let others_may_go = || is_free && !bounds.clone().steps(policy, &sorted, false).is_empty();
    stick(&sorted, desired, (policy, others_may_go), &mut memory, now);
    let mut bounds = bounds.for_a_trial(&sorted, &memory);
    // Rule 6. What canaries go through counts while the rollout is held, too.
    bounds.canaries = canary::look((policy, desired), (&sorted, bounds.absent()), inventory, &mut memory, now);
    let still = stand_still((&sorted, &bounds), (policy, desired), inventory, &mut memory, now);
    let failure = memory.failure.clone().filter(|failure| is_about(failure, desired));
    let is_apart = bounds.canaries.as_ref().is_some_and(|canaries| {
        let may_be = canaries.are_alone && is_apart(desired, inventory, &sorted, &memory);
        may_be && bounds.clone().steps(policy, &sorted, storm.is_some()).is_empty()
    });
    plan.template = template(desired, inventory, &memory, (failure.is_some(), is_apart), held.is_some());
    let changes = policy.calendar.changes(now).map(|at| at.min(now + LOOK_AGAIN));
    // Whatever comes of it below: what is stuck goes back in its time, and a verdict is withdrawn.
    let believed = [stuck_until(&memory, policy, now), withdrawal_due(&sorted, policy, &memory, now)];
    let believed = believed.into_iter().flatten().chain(still).chain(changes).chain(storm_until.flatten());
    plan.next = plan.next.into_iter().chain(believed).min();

    let way = WayBack::of(policy, desired, inventory, &sorted, &memory);
    if let Some(way) = way.filter(|_| plan.template == Template::Keep) {
        let (steps, waiting, next) = way.go(policy, &sorted, &bounds, &mut memory, now);
        note_all(&steps, &sorted, false, &mut memory, now);
        report.state = State::Failed;
        report.waiting_on = vec![WaitingOn::Failure(way.failure.message), waiting];
        if memory.started().is_some() {
            memory.phase = Phase::Idle;
        }
        plan.next = plan.next.into_iter().chain(next).min();
        return Plan { steps, report, memory, ..plan };
    }

    // What is in flight when a hold comes is waited for as always, so that what was completed is known to be.
    let is_left = report.outdated > 0 || inventory.template != Some(&desired.revision);
    if failure.is_some() || (held.is_some() && is_left) {
        if failure.is_none() && policy.hold.is_none() && inventory.workloads.is_empty() {
            report.finish = finish(policy, &sorted, &bounds, &memory, now);
        }
        let something = report.outdated > 0 || inventory.template.is_some();
        stand(failure, held.filter(|_| something), &mut report, &mut memory);
        rolled_back(policy, &sorted, &mut report, &memory);
        return Plan { report, memory, ..plan };
    }

    let overdue = bounds.overdue(policy, inventory, now);
    let is_out = is_apart && bounds.canaries.as_ref().is_some_and(|canaries| canaries.made > 0);
    begin(&sorted, desired, inventory, (plan.template, is_out), &mut memory, &overdue, now);
    let template_is_there = is_apart || inventory.template == Some(&desired.revision);
    if plan.template != Template::Keep || !template_is_there || (!inventory.settled && holds(Rule::Settled)) {
        let is_back = memory.stuck_phase() == Some(StuckPhase::Back);
        let idle = report.outdated == 0 && bounds.used == 0 && template_is_there;
        plan.next = plan.next.into_iter().chain(bounds.canaries.as_ref().and_then(|canaries| canaries.until)).min();
        report.state = if idle { State::Complete } else { State::Rolling };
        if is_back {
            let next = stuck_until(&memory, policy, now);
            let may_go = is_free && !bounds.steps(policy, &sorted, false).is_empty();
            report.waiting_on = places(&sorted, &bounds);
            report.waiting_on.extend(next.filter(|_| may_go).map(WaitingOn::Trial));
            plan.next = plan.next.into_iter().chain(next).min();
        } else if !idle {
            report.waiting_on = vec![WaitingOn::Template];
        }
        return Plan { report, memory, ..plan };
    }

    // Rules 4, 5, 7: what is in flight occupies the budget; broken ones go first, then the oldest.
    if let Some(canaries) = &bounds.canaries {
        // Before it is known what the agents are none can be one yet.
        if canaries.are_watched() || (report.outdated > 0 && report.unheard == 0) {
            report.waiting_on.push(canaries.waiting_on());
        }
        plan.next = plan.next.into_iter().chain(canaries.until).min();
    }
    plan.steps = bounds.steps(policy, &sorted, storm.is_some());
    note_all(&plan.steps, &sorted, bounds.canaries.is_some(), &mut memory, now);
    if report.outdated > 0 {
        report.waiting_on.extend(storm);
        report.waiting_on.extend(bounds.unmended(&sorted));
    }
    plan.next = plan.next.into_iter().chain(stuck_until(&memory, policy, now)).min();
    let fleet = Fleet { sorted: &sorted, bounds: &bounds, coming };
    finish_or_wait(&fleet, (policy, desired), inventory, &mut report, &mut memory, now);
    Plan { report, memory, ..plan }
}

/// Why the first of the inventory's places has no available agent, if it has none.
#[must_use]
pub fn cause<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Option<Cause> {
    sort(policy, desired, inventory, now).cells.into_iter().next()?.cause
}

/// What the rollout is meanwhile, and waits for, while nothing may be replaced.
fn held(policy: &Policy, now: DateTime<Utc>) -> Option<(State, WaitingOn)> {
    let hold = policy.hold.filter(|_| holds(Rule::Hold)).map(|hold| (hold.state, WaitingOn::Hold(hold)));
    hold.or_else(|| {
        policy
            .calendar
            .closed(now)
            .filter(|_| holds(Rule::Calendar))
            .map(|closed| (State::Held, WaitingOn::Calendar(closed)))
    })
}

/// What is said while nothing may go: of a failure, or else of what holds it.
fn stand<R>(
    failure: Option<Failure<R>>,
    held: Option<(State, WaitingOn)>,
    report: &mut Report,
    memory: &mut Memory<R>,
) {
    let Some(failure) = failure else {
        let (state, waiting_on) = held.unzip();
        (report.state, report.waiting_on) = (state.unwrap_or(State::Complete), waiting_on.into_iter().collect());
        return;
    };
    (report.state, report.waiting_on) = (State::Failed, vec![WaitingOn::Failure(failure.message)]);
    if memory.started().is_some() {
        memory.phase = Phase::Idle;
    }
}

/// A rollout begins when the template advances, or with Pods that do not have it.
fn begin<R: Revision>(
    sorted: &Sorted<'_, R>,
    desired: &Desired<R>,
    inventory: &Inventory<'_, R>,
    (template, is_out): (Template, bool),
    memory: &mut Memory<R>,
    overdue: &BTreeMap<String, usize>,
    now: DateTime<Utc>,
) {
    let advances = template == Template::Advance && inventory.template.is_some();
    if advances && memory.touched.since.is_some() {
        // Those that joined since have the revision of before, and their agents are taken like the others'.
        memory.touched.joined_after = Some(now);
        // A canary whose Pod is not there is none that was broken before.
        let is_canary = |cell: &Cell<'_, R>| memory.proof.as_ref().is_some_and(|p| p.places.contains(cell.name()));
        let is_broken =
            |cell: &&Cell<'_, R>| !cell.is_available() && !cell.counts && cell.place.busy.is_none() && !is_canary(cell);
        let room = REMEMBERED.saturating_sub(memory.touched.broken.len());
        let broken = sorted.cells.iter().filter(is_broken).take(room).map(|cell| cell.name().to_owned());
        let broken: Vec<String> = broken.collect();
        memory.touched.broken.extend(broken);
    }
    // It goes back and forth while there are canaries.
    let known = inventory.memory.proof.as_ref().is_some_and(|proof| proof.revision == desired.revision);
    // One that external trouble stopped goes on, also where that trouble has just ended.
    let was_stuck = [&*memory, inventory.memory].into_iter().any(|memory| memory.stuck().is_some());
    let resumes = was_stuck || (known && memory.started().is_some());
    let work = sorted.cells.iter().any(Cell::is_open);
    let is_out = is_out || inventory.template == Some(&desired.revision);
    let late = memory.started().is_none() && is_out && work;
    if !(advances && !resumes || late) {
        return;
    }
    memory.phase = Phase::Rolling { since: now, stuck: None };
    // What has proven itself and was on its way is what agents go back to.
    let proven = inventory.memory.proof.clone().filter(|proof| proof.passed && advances && !known);
    let proven = proven.map(|proof| proof.revision).filter(|proven| inventory.template == Some(proven));
    memory.last_good = proven.or(memory.last_good.take());
    if memory.touched.since.is_none() {
        memory.touched =
            Touched { since: Some(now), lacking: lacking(sorted, inventory, overdue), ..Touched::default() };
    }
    memory.touched.joined_after = Some(now);
    if memory.last_good.is_none() {
        // Never completed by us, or forgotten, yet it is what agents run: better than nothing to go back to.
        memory.last_good = inventory.template.filter(|template| **template != desired.revision).cloned();
    }
    if let Some(from) = inventory.template.filter(|template| template.is_another_release(&desired.revision)) {
        memory.from = Some(from.clone());
    }
}

/// Whether those that join may get the last good revision while canaries are watched. Replicas have no template of
/// ours; and where agents of a revision that failed wait for an edit of the last good one, it must come.
fn is_apart<R: Revision>(
    desired: &Desired<R>,
    inventory: &Inventory<'_, R>,
    sorted: &Sorted<'_, R>,
    memory: &Memory<R>,
) -> bool {
    let failure = memory.failure.as_ref().filter(|failure| !is_about(failure, desired));
    let is_edit = memory.last_good.as_ref().is_some_and(|good| !desired.revision.is_another_release(good));
    let waits = || failure.is_some_and(|failure| sorted.cells.iter().any(|cell| is_of(failure, cell)));
    holds(Rule::Apart) && inventory.workloads.is_empty() && !(is_edit && waits())
}

/// Rule 0: the template is part of the plan.
fn template<R: Revision>(
    desired: &Desired<R>,
    inventory: &Inventory<'_, R>,
    memory: &Memory<R>,
    (failed, is_apart): (bool, bool),
    is_held: bool,
) -> Template {
    let is_back = memory.stuck_phase() == Some(StuckPhase::Back);
    match inventory.template {
        Some(running) if (failed && holds(Rule::GoesBack)) || is_back || (is_apart && !is_held) => {
            match &memory.last_good {
                Some(good) if good != running && *good != desired.revision => Template::GoBack,
                _ => Template::Keep,
            }
        }
        Some(running) if *running == desired.revision => Template::Keep,
        Some(_) if is_held => Template::Keep,
        // A first install replaces nothing, so nothing holds it.
        None | Some(_) => Template::Advance,
    }
}

/// The places that the rollout waits for, each cause once.
fn places<R>(sorted: &Sorted<'_, R>, bounds: &Bounds<'_>) -> Vec<WaitingOn> {
    let mut causes: Vec<(&Cause, Vec<&Cell<'_, R>>)> = Vec::new();
    for cell in &sorted.cells {
        let is_waited_for = cell.counts || (cell.standing() == Some(Standing::Outdated) && !cell.blinks);
        let Some(cause) = cell.cause.as_ref().filter(|_| is_waited_for) else { continue };
        match causes.iter().position(|(known, _)| *known == cause) {
            Some(known) => causes[known].1.push(cell),
            None if causes.len() < WAITING => causes.push((cause, vec![cell])),
            None => {}
        }
    }
    let place = |(cause, cells): (&Cause, Vec<&Cell<'_, R>>)| WaitingOn::Places {
        names: cells.iter().take(NAMES).map(|cell| cell.name().to_owned()).collect(),
        count: cells.len(),
        cause: cause.clone(),
        until: cells.iter().filter_map(|cell| cell.deadline).min(),
    };
    let mut places: Vec<WaitingOn> = causes.into_iter().map(place).collect();
    places.extend(sorted.outside.first().map(|(_, cause)| WaitingOn::Closed {
        names: sorted.outside.iter().take(NAMES).map(|(place, _)| place.name.to_string()).collect(),
        count: sorted.outside.len(),
        cause: (*cause).clone(),
    }));
    places.extend(bounds.replicas().take(WAITING));
    places
}

/// What the end of a look is judged by.
struct Fleet<'f, 'a, R> {
    sorted: &'f Sorted<'a, R>,
    bounds: &'f Bounds<'f>,
    /// Replicas that are not there and may come yet.
    coming: usize,
}

fn finish_or_wait<R: Revision>(
    fleet: &Fleet<'_, '_, R>,
    (policy, desired): (&Policy, &Desired<R>),
    inventory: &Inventory<'_, R>,
    report: &mut Report,
    memory: &mut Memory<R>,
    now: DateTime<Utc>,
) {
    let Fleet { sorted, bounds, coming } = *fleet;
    let left = sorted.cells.iter().filter(|cell| cell.is_open()).count();
    // A place that may yet speak keeps the rollout open: afterwards nobody would hear it.
    let starts = |cell: &Cell<'_, R>| cell.is_on_its_way();
    let moves = |cell: &&Cell<'_, R>| cell.counts && (cell.pending || cell.is_the_worlds || starts(cell));
    // A node that is drained gets its agent from the template of then; a replica that may not go now stays as it is.
    let held = if inventory.workloads.is_empty() { 0 } else { report.waiting };
    let watched = usize::from(bounds.canaries.as_ref().is_some_and(Canaries::are_watched));
    let moving = sorted.cells.iter().filter(moves).count() + coming + held + watched;
    let unheard = WaitingOn::Unheard(report.unheard, inventory.words.authority);
    if left == 0 && moving == 0 && report.unheard > 0 {
        // After a start nothing is under way until somebody says otherwise.
        report.state = if memory.started().is_some() { State::Rolling } else { State::Complete };
        report.waiting_on.push(unheard);
        return;
    }
    if left == 0 && moving == 0 {
        report.waiting_on = places(sorted, bounds);
        complete(sorted, (policy, desired), report, memory, now);
        return;
    }
    report.state = State::Rolling;
    if inventory.workloads.is_empty() && storm(sorted, now).is_none() {
        report.finish = finish(policy, sorted, bounds, memory, now);
    }
    report.waiting_on.extend(bounds.exhausted(sorted));
    if report.unheard > 0 {
        report.waiting_on.push(unheard);
    }
    report.waiting_on.extend(places(sorted, bounds));
    report.waiting_on.truncate(WAITING);
}

/// Nothing is left to do.
fn complete<R: Revision>(
    sorted: &Sorted<'_, R>,
    (policy, desired): (&Policy, &Desired<R>),
    report: &mut Report,
    memory: &mut Memory<R>,
    now: DateTime<Utc>,
) {
    report.state = State::Complete;
    if let Some(started) = memory.started() {
        memory.phase = Phase::Complete { since: Some(started), at: now };
    }
    // What canaries began to prove is another time's.
    memory.proof = memory.proof.take().filter(|proof| proof.passed);
    // What is wanted runs: whatever failed before it is history.
    if report.updated > 0 && report.joining == 0 {
        memory.last_good = Some(desired.revision.clone());
        memory.failure = memory
            .failure
            .take()
            .filter(|failure| !(desired.insists || desired.revision.supersedes(&failure.revision)));
    }
    // A node that was cordoned or tainted since: once that ends its agent is missing because of us.
    let is_back = |cell: &Cell<'_, R>| !cell.touched || cell.is_available();
    // Those that are to go back yet are counted beside those that went.
    let failure = memory.failure.as_ref().filter(|_| policy.rolls_back);
    let goes_back = failure.is_some_and(|failure| sorted.cells.iter().any(|cell| is_of(failure, cell)));
    if !goes_back && sorted.cells.iter().all(is_back) && sorted.outside.is_empty() && memory.touched.away.is_empty() {
        memory.touched = Touched::default();
    }
    if let Some(failure) = &memory.failure {
        report.state = State::Failed;
        report.waiting_on.insert(0, WaitingOn::Failure(failure.message.clone()));
        report.waiting_on.truncate(WAITING);
    }
    rolled_back(policy, sorted, report, memory);
}

/// A failure whose way back has been gone is waited for no more.
fn rolled_back<R: Revision>(policy: &Policy, sorted: &Sorted<'_, R>, report: &mut Report, memory: &Memory<R>) {
    if report.state == State::Failed && is_back(policy, sorted, memory) {
        report.state = State::RolledBack;
        report.waiting_on.retain(|waiting| !matches!(waiting, WaitingOn::Failure(_)));
    }
}
