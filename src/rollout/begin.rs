//! The beginning of a rollout, and what is remembered from then on.
//!
//! Must not decide what the first step is.

use chrono::{DateTime, Utc};

use super::Template;
use super::cell::Cell;
use super::context::Context;
use super::memory::{Memory, Phase, REMEMBERED, Touched};
use super::place::Revision;
use super::reading::Reading;
use super::remember::lacking;

/// A rollout begins when the template advances, or with Pods that do not have it.
pub(super) fn begun<R: Revision>(context: &Context<'_, '_, '_, R>) -> Memory<R> {
    let Context { reading, desired, bounds, .. } = context;
    let Reading { inventory, now, .. } = **reading;
    let mut memory = context.memory.clone();
    let advances = context.template == Template::Advance && inventory.template.is_some();
    if advances && memory.touched.since.is_some() {
        // Those that joined since have the previous revision, and their agents are taken like the others'.
        memory.touched.joined_after = Some(now);
        // A canary without a Pod was not broken before.
        let is_canary = |cell: &Cell<'_, R>| memory.proof.as_ref().is_some_and(|p| p.places.contains(cell.name()));
        let is_broken = |cell: &&Cell<'_, R>| {
            !cell.is_available() && !cell.is_in_flight && cell.place.busy.is_none() && !is_canary(cell)
        };
        let room = REMEMBERED.saturating_sub(memory.touched.broken.len());
        let broken = reading.cells.iter().filter(is_broken).take(room).map(|cell| cell.name().to_owned());
        let broken: Vec<String> = broken.collect();
        memory.touched.broken.extend(broken);
    }
    // The template alternates while canaries are watched.
    let known = inventory.memory.proof.as_ref().is_some_and(|proof| proof.revision == desired.revision);
    // One that external trouble stopped continues, also where that trouble has just ended.
    let had_stalled = [&memory, inventory.memory].into_iter().any(|memory| memory.stall().is_some());
    let resumes = had_stalled || (known && memory.started().is_some());
    let is_with_canaries = context.keeps_template && bounds.canaries.as_ref().is_some_and(|canaries| canaries.made > 0);
    let is_out = is_with_canaries || inventory.template == Some(&desired.revision);
    let is_late = memory.started().is_none() && is_out && reading.open().next().is_some();
    if !(advances && !resumes || is_late) {
        return memory;
    }
    memory.phase = Phase::Rolling { since: now, stall: None };
    // What has proven itself and was on its way is what agents go back to.
    let proven = inventory.memory.proof.clone().filter(|proof| proof.passed && advances && !known);
    let proven = proven.map(|proof| proof.revision).filter(|proven| inventory.template == Some(proven));
    if let Some(proven) = proven.filter(|proven| memory.last_good.as_ref() != Some(proven)) {
        let good = memory.last_good.replace(proven);
        memory.completed = memory.completed.take().or(good);
    }
    if memory.touched.since.is_none() {
        memory.touched =
            Touched { since: Some(now), lacking: lacking(reading, bounds.overdue(reading)), ..Touched::default() };
    }
    memory.touched.joined_after = Some(now);
    if memory.last_good.is_none() {
        // Never completed by us, or forgotten, yet it is what agents run: better than nothing to go back to.
        memory.last_good = inventory.template.filter(|template| **template != desired.revision).cloned();
    }
    // What it replaces may never have been available; an edit of the last good release comes from no other one.
    memory.from = memory.last_good.as_ref().filter(|good| good.is_another_release(&desired.revision)).cloned();
    memory
}

impl<R> Phase<R> {
    /// When the rollout began, and when it was completed.
    #[must_use]
    pub fn span(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        match self {
            Self::Idle => (None, None),
            Self::Rolling { since, .. } => (Some(*since), None),
            Self::Complete { since, at } => (*since, Some(*at)),
        }
    }
}
