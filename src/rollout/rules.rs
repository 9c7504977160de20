//! The engine's rules: a table for each question, in the order in which a plan asks them. What is done now is said by
//! the first rule that has something to say.
//!
//! Here so that all of them are seen in one place. Must not read the fleet itself (that is `bucket`) nor word what it
//! found (that is `cause` and `report`).

use chrono::{DateTime, TimeDelta, Utc};

use super::back::{self, Rollback, RollbackPlan, is_back, is_of};
use super::begin::begun;
use super::canary::{self, Canaries};
use super::cell::{self, Cell};
use super::context::{self, Context};
use super::failure;
use super::forecast::finish;
use super::memory::{Memory, Phase, StallPhase, Touched};
use super::pace::{self, Bounds};
use super::place::Revision;
use super::reading::{self, MassOutage, Reading};
use super::remember::note_all;
use super::report::{State, WAITING, WaitingOn};
use super::stall::{self, stall_until};
use super::waiting::places;
use super::{Rules, Step, Template, bucket, cause, outage, verdict, zones};

/// A table of rules. Each is named as its function is.
macro_rules! rows {
    ($($rule:path),* $(,)?) => { &[$((stringify!($rule), $rule)),*] };
}

impl<R: Revision> Rules<R> {
    /// All of them. A test that asks who notices a rule leaves one row out.
    pub(super) const ALL: &'static Self = &Self {
        heard: rows![bucket::is_touched, bucket::has_joined],
        open: rows![cell::is_outdated, cell::is_not_busy, cell::is_reachable],
        broken: rows![cause::is_without_agent, cause::has_had_its_time],
        counts: rows![bucket::is_ours],
        judged: rows![bucket::blinks, verdict::fails_in_time, verdict::crashes_again_and_again],
        says: rows![
            verdict::crash_speaks,
            verdict::overdue_speaks,
            verdict::lost_node_speaks,
            verdict::external_trouble_is_silent,
            verdict::no_room_speaks
        ],
        excused: rows![outage::excuse],
        mass_outage: rows![reading::mass_outage],
        holds: rows![reading::is_paused, reading::is_closed],
        lifted: rows![failure::have_recovered],
        unproven: rows![canary::needs_canaries],
        rejected: rows![failure::is_rejected_by_hand],
        fails: rows![
            failure::as_many_as_allowed,
            failure::as_many_that_joined,
            failure::all_that_are_reached,
            failure::all_where_no_other_may_go
        ],
        tries: rows![stall::nothing_else_retries, stall::others_may_go],
        proof: rows![canary::has_soaked, canary::is_promoted],
        standstill: rows![failure::moves_nothing_but_failures],
        template: rows![
            context::failed_is_put_back,
            context::stalled_is_put_back,
            context::canaries_alone_have_it,
            context::is_right,
            context::held_stays
        ],
        verdict: rows![goes_back, has_failed, is_held, waits_for_template, waits_for_controller],
        patience: rows![failure::may_recover],
        way_back: rows![back::one_is_first],
        zones: rows![zones::per_zone, zones::zone_by_zone],
        pace: rows![
            pace::broken_within_the_budget,
            pace::canaries_alone,
            pace::none_in_a_mass_outage,
            pace::within_the_budget
        ],
    };
}

/// What a rule says.
pub(super) struct Verdict<R> {
    pub(super) state: State,
    pub(super) waiting_on: Vec<WaitingOn>,
    pub(super) steps: Vec<Step<R>>,
    /// What is remembered afterwards.
    pub(super) memory: Memory<R>,
    /// When the rollout will have finished, where that can be known.
    pub(super) finish: Option<DateTime<Utc>>,
    /// When to plan again if no event arrives.
    pub(super) next: Option<DateTime<Utc>>,
}

impl<R> Verdict<R> {
    /// Without a step.
    fn new(memory: Memory<R>, state: State, waiting_on: Vec<WaitingOn>) -> Self {
        Self { state, waiting_on, steps: Vec::new(), memory, finish: None, next: None }
    }
}

/// What the rules say; where they say nothing, agents are replaced.
pub(super) fn verdict<R: Revision>(context: &Context<'_, '_, '_, R>) -> Verdict<R> {
    let said = context.reading.rules.verdict.iter().find_map(|(_, rule)| rule(context));
    said.unwrap_or_else(|| replaces(context))
}

/// An unresolved failure, and agents that go back from it.
fn goes_back<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Verdict<R>> {
    let Context { reading, desired, .. } = context;
    if context.template != Template::Keep {
        return None;
    }
    let way = Rollback::of(reading, desired, &context.memory)?;
    let RollbackPlan { steps, back, waiting_on, next } = way.next_steps(reading, &context.bounds, &context.memory);
    let mut memory = ended(context.memory.clone());
    memory.back = Some(back);
    if !steps.is_empty() && memory.touched.since.is_none() {
        // The API's times are whole seconds: what is created in this one is created because of us.
        memory.touched.since = Some(reading.now - TimeDelta::seconds(1));
        memory.touched.joined_after = Some(reading.now);
    }
    note_all(&steps, reading, false, &mut memory);
    let waiting_on = vec![WaitingOn::Failure(way.failure.message), waiting_on];
    Some(Verdict { steps, next, ..Verdict::new(memory, State::Failed, waiting_on) })
}

/// An unresolved failure.
fn has_failed<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Verdict<R>> {
    let failure = context.failure.as_ref()?;
    let memory = ended(context.memory.clone());
    let waiting_on = vec![WaitingOn::Failure(failure.message.clone())];
    Some(rolled_back(context.reading, Verdict::new(memory, State::Failed, waiting_on)))
}

/// A pause, a stop, a window that is not open. Replacements already in flight are still awaited, so that a rollout that
/// completes meanwhile is known to be complete.
fn is_held<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Verdict<R>> {
    let Context { reading, desired, report, .. } = context;
    let template = reading.inventory.template;
    let is_left = report.outdated > 0 || template != Some(&desired.revision);
    let (state, waiting_on) = reading.held.clone().filter(|_| is_left)?;
    let memory = context.memory.clone();
    let ends_by_itself = reading.policy.hold.is_none() && reading.is_named();
    let finish = if ends_by_itself { finish(reading, &context.bounds, &memory) } else { None };
    let held = if report.outdated > 0 || template.is_some() {
        Verdict::new(memory, state, vec![waiting_on])
    } else {
        Verdict::new(memory, State::Complete, Vec::new())
    };
    Some(Verdict { finish, ..held })
}

/// A template that is not what is desired yet.
fn waits_for_template<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Verdict<R>> {
    let is_right = context.template == Template::Keep && context.is_out();
    (!is_right).then(|| waits(context))
}

/// A template that its controller has not seen.
fn waits_for_controller<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Verdict<R>> {
    (!context.reading.inventory.settled).then(|| waits(context))
}

fn waits<R: Revision>(context: &Context<'_, '_, '_, R>) -> Verdict<R> {
    let Context { reading, bounds, report, .. } = context;
    let memory = begun(context);
    let is_idle = report.outdated == 0 && bounds.used == 0 && context.is_out();
    let state = if is_idle { State::Complete } else { State::Rolling };
    let soaked = bounds.canaries.as_ref().and_then(|canaries| canaries.until(reading.now));
    if memory.stall_phase() != Some(StallPhase::Back) {
        let waiting_on = if is_idle { Vec::new() } else { vec![WaitingOn::Template] };
        let is_begun = memory.started().is_some();
        let verdict = Verdict { next: soaked, ..Verdict::new(memory, state, waiting_on) };
        // The way back from a failure begins no rollout.
        return if is_begun { verdict } else { rolled_back(reading, still_failed(verdict)) };
    }
    let tried = stall_until(reading, &memory);
    let may_go = context.is_free && bounds.has_room(reading, false);
    let mut waiting_on = places(reading, bounds);
    waiting_on.extend(tried.filter(|_| may_go).map(WaitingOn::Trial));
    Verdict { next: soaked.into_iter().chain(tried).min(), ..Verdict::new(memory, state, waiting_on) }
}

/// What is in flight occupies the budget; broken agents go first, then the oldest.
fn replaces<R: Revision>(context: &Context<'_, '_, '_, R>) -> Verdict<R> {
    let Context { reading, report, .. } = context;
    let (mut memory, canaries, mass_outage) = (begun(context), context.bounds.canaries.as_ref(), reading.mass_outage);
    let (steps, bounds) = context.bounds.clone().steps(reading, mass_outage.is_some());
    note_all(&steps, reading, canaries.is_some(), &mut memory);
    let mut waiting_on = Vec::new();
    // Before it is known what the agents are none can be a canary yet.
    let has_canaries = |canaries: &&Canaries| canaries.are_watched() || (report.outdated > 0 && report.unheard == 0);
    waiting_on.extend(canaries.filter(has_canaries).map(|canaries| canaries.waiting_on(reading.now)));
    if report.outdated > 0 {
        waiting_on.extend(mass_outage.map(MassOutage::waiting_on));
        waiting_on.extend(bounds.unmended(reading));
    }
    let soaked = canaries.and_then(|canaries| canaries.until(reading.now));
    let next = soaked.into_iter().chain(stall_until(reading, &memory)).min();
    let verdict = Verdict { steps, next, ..Verdict::new(memory, State::Rolling, waiting_on) };
    finish_or_wait(context, &bounds, verdict)
}

fn finish_or_wait<R: Revision>(
    context: &Context<'_, '_, '_, R>,
    bounds: &Bounds<'_>,
    mut verdict: Verdict<R>,
) -> Verdict<R> {
    let Context { reading, report, .. } = context;
    let left = reading.open().count();
    // A place that may yet fail keeps the rollout open: afterwards its failure would not be heard.
    let moves = |cell: &&Cell<'_, R>| cell.pending || cell.is_external || cell.is_on_its_way();
    // A node that is drained gets its agent from the template current at that time; a replica that may not go now stays
    // as it is.
    let held = if reading.is_named() { 0 } else { report.waiting };
    let watched = usize::from(bounds.canaries.as_ref().is_some_and(Canaries::are_watched));
    let (coming, _) = bounds.coming(reading);
    let is_over = left == 0 && reading.in_flight().filter(moves).count() + coming + held + watched == 0;
    let unheard = WaitingOn::Unheard(report.unheard, reading.inventory.words.authority);
    if is_over && report.unheard > 0 {
        // After an operator start nothing is under way until the memory says otherwise.
        let is_started = verdict.memory.started().is_some();
        verdict.state = if is_started { State::Rolling } else { State::Complete };
        verdict.waiting_on.push(unheard);
        return verdict;
    }
    if is_over {
        verdict.waiting_on = places(reading, bounds);
        return complete(context, verdict);
    }
    if reading.is_named() && reading.mass_outage.is_none() {
        verdict.finish = finish(reading, bounds, &verdict.memory);
    }
    verdict.waiting_on.extend(bounds.exhausted(reading));
    if report.unheard > 0 {
        verdict.waiting_on.push(unheard);
    }
    verdict.waiting_on.extend(places(reading, bounds));
    // An agent that comes back on a place that failed is no rollout.
    if left == 0 && verdict.memory.started().is_none() {
        return still_failed(verdict);
    }
    verdict.waiting_on.truncate(WAITING);
    verdict
}

/// A failure is reported, whatever else is said.
fn still_failed<R: Revision>(mut verdict: Verdict<R>) -> Verdict<R> {
    if let Some(failure) = &verdict.memory.failure {
        verdict.state = State::Failed;
        verdict.waiting_on.insert(0, WaitingOn::Failure(failure.message.clone()));
    }
    verdict.waiting_on.truncate(WAITING);
    verdict
}

/// Nothing is left to do.
fn complete<R: Revision>(context: &Context<'_, '_, '_, R>, mut verdict: Verdict<R>) -> Verdict<R> {
    let Context { reading, desired, report, .. } = context;
    let memory = &mut verdict.memory;
    if let Some(started) = memory.started() {
        memory.phase = Phase::Complete { since: Some(started), at: reading.now };
    }
    // Unfinished proof of canaries is discarded.
    memory.proof = memory.proof.take().filter(|proof| proof.passed);
    // What is wanted runs: whatever failed before it is history.
    if report.updated > 0 && report.joining == 0 {
        memory.last_good = Some(desired.revision.clone());
        (memory.completed, memory.proof) = (None, None);
        let failure = memory.failure.take();
        memory.failure = failure.filter(|failure| !(desired.insists || desired.revision.supersedes(&failure.revision)));
    }
    if is_settled(reading, memory) {
        memory.touched = Touched::default();
    }
    verdict.state = State::Complete;
    rolled_back(reading, still_failed(verdict))
}

/// Whether no place lacks an agent because of this rollout, now or once a cordon or taint ends. Those that are to go
/// back yet are counted beside those that went.
fn is_settled<R: Revision>(reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> bool {
    let failure = memory.failure.as_ref().filter(|_| reading.policy.rolls_back);
    let goes_back = failure.is_some_and(|failure| reading.cells.iter().any(|cell| is_of(failure, cell)));
    let is_back = reading.cells.iter().all(|cell| !cell.touched || cell.is_available());
    !goes_back && is_back && reading.outside.is_empty() && memory.touched.away.is_empty()
}

/// What a failure leaves: no rollout is under way.
fn ended<R>(mut memory: Memory<R>) -> Memory<R> {
    if memory.started().is_some() {
        memory.phase = Phase::Idle;
    }
    memory
}

/// Once agents went back, the rollout no longer waits on the failure.
fn rolled_back<R: Revision>(reading: &Reading<'_, '_, R>, mut verdict: Verdict<R>) -> Verdict<R> {
    if verdict.state == State::Failed && is_back(reading, &verdict.memory) {
        verdict.state = State::RolledBack;
        verdict.waiting_on.retain(|waiting| !matches!(waiting, WaitingOn::Failure(_)));
    }
    verdict
}
