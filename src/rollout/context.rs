//! What the rules decide on: the fleet as it was read, and what is remembered once that was taken note of.
//!
//! Here is the one place where what is read changes what is remembered, step by step. Must not choose a step.

use chrono::{DateTime, Utc};

use super::back::is_of;
use super::canary::{self, is_unproven};
use super::failure::{is_about, judge, stand_still, withdraw, withdrawal_due};
use super::memory::{Failure, Memory, StallPhase};
use super::pace::Bounds;
use super::place::Revision;
use super::reading::Reading;
use super::remember::remember;
use super::report::Report;
use super::stall::{note_stall, stall_until};
use super::{Desired, LOOK_AGAIN, Template};

/// What the rules decide on.
pub(super) struct Context<'s, 'r, 'a, R: 'static> {
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
        let is_free = !is_mass_outage && !is_held && !is_unproven(reading, desired, &memory);
        note_stall(reading, desired, || is_free && bounds.has_room(reading, false), &mut memory);
        let mut bounds = bounds.for_a_trial(reading, &memory);
        // What canaries go through counts while the rollout is held, too.
        bounds.canaries = canary::evaluate(reading, desired, bounds.absent(), &mut memory);
        let still = stand_still(reading, desired, &bounds, &mut memory);

        let failure = memory.failure.clone().filter(|failure| is_about(failure, desired));
        let keeps_template = bounds.canaries.as_ref().is_some_and(|canaries| canaries.hold_template)
            && may_keep_template(reading, desired, &memory)
            && !bounds.has_room(reading, is_mass_outage);
        // Whatever is decided, a stalled template reverts in time, and a verdict is withdrawn.
        let changes = policy.calendar.changes(now).map(|at| at.min(now + LOOK_AGAIN));
        let removed = bounds.removed.1;
        let believed = [stall_until(reading, &memory), withdrawal_due(reading, &memory), still, changes, removed];
        let next =
            believed.into_iter().chain([reading.mass_outage.and_then(|mass_outage| mass_outage.until)]).flatten().min();
        let template = Template::Advance;
        let context =
            Self { reading, desired, report, memory, bounds, failure, template, keeps_template, is_free, next };
        // The template is part of the plan.
        let said = reading.rules.template.iter().find_map(|(_, rule)| rule(&context));
        Self { template: said.unwrap_or(template), ..context }
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
    reading.inventory.writes_template && !(is_edit && waits())
}

/// When a rollout stops for failure the template is put back.
pub(super) fn failed_is_put_back<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    context.failure.as_ref().and_then(|_| put_back(context))
}

/// So it is while external trouble lasts.
pub(super) fn stalled_is_put_back<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    let is_back = context.memory.stall_phase() == Some(StallPhase::Back);
    if is_back { put_back(context) } else { None }
}

/// While canaries prove themselves the template is the last good one.
pub(super) fn canaries_alone_have_it<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    let are_alone = context.keeps_template && context.reading.held.is_none();
    if are_alone { put_back(context) } else { None }
}

/// What is desired stays.
pub(super) fn is_right<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    let is_right = context.reading.inventory.template == Some(&context.desired.revision);
    is_right.then_some(Template::Keep)
}

/// A hold keeps the template. A first install replaces nothing, so nothing holds it.
pub(super) fn held_stays<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    let Reading { inventory, held, .. } = context.reading;
    (held.is_some() && inventory.template.is_some()).then_some(Template::Keep)
}

/// The last good template, where there is another one.
fn put_back<R: Revision>(context: &Context<'_, '_, '_, R>) -> Option<Template> {
    let running = context.reading.inventory.template?;
    let good = context.memory.last_good.as_ref().filter(|good| *good != running && **good != context.desired.revision);
    Some(good.map_or(Template::Keep, |_| Template::GoBack))
}
