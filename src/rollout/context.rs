//! What the rules decide on: the fleet as it was read, and what is remembered once that was taken note of.
//!
//! Here is the one place where what is read changes what is remembered, step by step. Must not choose a step.

use chrono::{DateTime, Utc};

use super::back::is_of;
use super::canary::{self, is_unproven};
use super::failure::{is_about, judge, note_stall, stall_until, stand_still, withdraw, withdrawal_due};
use super::memory::{Failure, Memory, StallPhase};
use super::pace::Bounds;
use super::place::Revision;
use super::reading::Reading;
use super::remember::remember;
use super::report::Report;
use super::rule::{Rule, holds};
use super::{Desired, LOOK_AGAIN, Template};

/// What the rules decide on.
pub(super) struct Context<'s, 'r, 'a, R> {
    pub(super) reading: &'s Reading<'r, 'a, R>,
    pub(super) desired: &'r Desired<R>,
    /// The counts.
    pub(super) report: Report,
    pub(super) memory: Memory<R>,
    pub(super) bounds: Bounds<'a>,
    /// The failure that stops the rollout to what is desired.
    pub(super) failure: Option<Failure<R>>,
    /// Which template the workload should have.
    pub(super) template: Template,
    /// Those that join get the last good revision while canaries are watched.
    pub(super) keeps_template: bool,
    /// No mass outage, hold or canary keeps others from going.
    pub(super) is_free: bool,
    /// When what is remembered changes without an event.
    pub(super) next: Option<DateTime<Utc>>,
}

/// What is remembered once the fleet was read, whatever is desired.
pub(super) fn remembered<R: Revision>(reading: &Reading<'_, '_, R>) -> Memory<R> {
    let mut memory = reading.inventory.memory.clone();
    remember(reading, &mut memory);
    withdraw(reading, &mut memory);
    memory
}

impl<'s, 'r, 'a, R: Revision> Context<'s, 'r, 'a, R> {
    /// What the rules decide on, of what is remembered.
    pub(super) fn of(
        reading: &'s Reading<'r, 'a, R>,
        desired: &'r Desired<R>,
        bounds: Bounds<'a>,
        mut memory: Memory<R>,
        report: Report,
    ) -> Self {
        let Reading { policy, now, .. } = *reading;
        judge(reading, desired, bounds.budget, &mut memory);
        let (is_mass_outage, is_held) = (reading.mass_outage.is_some(), reading.held.is_some());
        let is_free = !is_mass_outage && !is_held && !is_unproven(policy, desired, &memory);
        note_stall(reading, desired, || is_free && bounds.has_room(reading, false), &mut memory);
        let mut bounds = bounds.for_a_trial(reading, &memory);
        // Rule 6. What canaries go through counts while the rollout is held, too.
        bounds.canaries = canary::evaluate(reading, desired, bounds.absent(), &mut memory);
        let still = stand_still(reading, desired, &bounds, &mut memory);

        let failure = memory.failure.clone().filter(|failure| is_about(failure, desired));
        let keeps_template = bounds.canaries.as_ref().is_some_and(|canaries| canaries.hold_template)
            && may_keep_template(reading, desired, &memory)
            && !bounds.has_room(reading, is_mass_outage);
        let template = template(reading, desired, &memory, failure.is_some(), keeps_template, is_held);
        // Whatever is decided, a stalled template reverts in time, and a verdict is withdrawn.
        let changes = policy.calendar.changes(now).map(|at| at.min(now + LOOK_AGAIN));
        let removed = bounds.removed.1;
        let believed = [stall_until(reading, &memory), withdrawal_due(reading, &memory), still, changes, removed];
        let next =
            believed.into_iter().chain([reading.mass_outage.and_then(|mass_outage| mass_outage.until)]).flatten().min();
        Self { reading, desired, report, memory, bounds, failure, template, keeps_template, is_free, next }
    }

    /// Whether what is desired is out: in the template, or with the canaries alone.
    pub(super) fn is_out(&self) -> bool {
        self.keeps_template || self.reading.inventory.template == Some(&self.desired.revision)
    }
}

/// Whether those that join may get the last good revision while canaries are watched. Replicas have no template of
/// ours; and where agents of a revision that failed wait for an edit of the last good one, it must come.
fn may_keep_template<R: Revision>(reading: &Reading<'_, '_, R>, desired: &Desired<R>, memory: &Memory<R>) -> bool {
    let failure = memory.failure.as_ref().filter(|failure| !is_about(failure, desired));
    let is_edit = memory.last_good.as_ref().is_some_and(|good| !desired.revision.is_another_release(good));
    let waits = || failure.is_some_and(|failure| reading.cells.iter().any(|cell| is_of(failure, cell)));
    holds(Rule::Apart) && reading.inventory.writes_template && !(is_edit && waits())
}

/// Rule 0: the template is part of the plan.
fn template<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    memory: &Memory<R>,
    has_failed: bool,
    keeps_template: bool,
    is_held: bool,
) -> Template {
    let is_back = memory.stall_phase() == Some(StallPhase::Back);
    match reading.inventory.template {
        Some(running) if (has_failed && holds(Rule::GoesBack)) || is_back || (keeps_template && !is_held) => {
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
