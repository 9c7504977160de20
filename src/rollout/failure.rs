//! Verdicts: when a revision has failed, and when that is withdrawn.
//!
//! An outage is not a verdict. Must not choose a Pod or a template.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::canary::is_unproven;
use super::cause::{Bucket, Cause};
use super::cell::Cell;
use super::memory::{Failure, Memory, REMEMBERED, Withdrawn};
use super::pace::Bounds;
use super::place::Revision;
use super::reading::{JOINED, Reading};
use super::{Desired, Policy, Source, Word};

/// How many places of a failure are named.
const NAMES: usize = 5;
/// So many revisions that failed before are remembered.
const EARLIER: usize = 3;
/// Why less than `maxFailures` stopped it.
const STANDSTILL: &str = "; fewer than maxFailures, but nothing more can be replaced until they recover";
/// A verdict on one revision is withdrawn at most so often.
const WITHDRAWALS: u32 = 2;

/// Whether a failure is what stops a rollout to what is desired now.
pub fn is_about<R: Revision>(failure: &Failure<R>, desired: &Desired<R>) -> bool {
    failure.revision == desired.revision && failure.insisted == desired.insists
}

/// Notes a failure that stops the rollout.
pub(super) fn judge<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    budget: usize,
    memory: &mut Memory<R>,
) {
    let rules = reading.rules;
    if rules.rejected.iter().any(|(_, rule)| rule(reading.policy)) {
        return reject_by_hand(reading, desired, memory);
    }
    memory.failure = memory.failure.take().filter(|failure| !(failure.by_hand && is_about(failure, desired)));
    let failures = reading.failing().len();
    let limit = limit(reading, desired, budget, memory);
    if rules.fails.iter().any(|(_, rule)| rule(reading, failures, limit)) {
        reject(reading, desired, "", memory);
    }
}

/// So many failing places stop the rollout.
pub(super) fn limit<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    budget: usize,
    memory: &Memory<R>,
) -> usize {
    reading.policy.max_failures.unwrap_or(if is_unproven(reading, desired, memory) { 1 } else { budget })
}

/// What a person rejects has failed.
pub(super) fn is_rejected_by_hand(policy: &Policy) -> bool {
    policy.word == Some(Word::Rejected)
}

/// As many failures as are allowed stop a rollout.
pub(super) fn as_many_as_allowed<R>(_: &Reading<'_, '_, R>, failures: usize, limit: usize) -> bool {
    failures >= limit
}

/// So do those of places that joined, of a template that is not ours.
pub(super) fn as_many_that_joined<R: Revision>(reading: &Reading<'_, '_, R>, _: usize, _: usize) -> bool {
    reading.failing_joined() >= JOINED
}

/// A budget larger than what can be reached must not let everything fail without a word.
pub(super) fn all_that_are_reached<R>(reading: &Reading<'_, '_, R>, failures: usize, _: usize) -> bool {
    let excused = |cell: &Cell<'_, R>| matches!(cell.cause, Some(Cause::NodeNotReady | Cause::NodeBusy(_)));
    failures > 0 && reading.cells.iter().all(|cell| cell.counts_as_failure || excused(cell))
}

/// Of replicas behind a PodDisruptionBudget not so many may go as the budget wants.
pub(super) fn all_where_no_other_may_go<R>(reading: &Reading<'_, '_, R>, failures: usize, _: usize) -> bool {
    let is_stuck = failures > 0 && reading.open().next().is_none();
    is_stuck && !reading.is_named() && reading.in_flight().all(|cell| cell.counts_as_failure)
}

/// A stalled rollout has failed, though `maxFailures` allows more. Returns when it will have, if it has not yet.
pub(super) fn stand_still<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    bounds: &Bounds<'_>,
    memory: &mut Memory<R>,
) -> Option<DateTime<Utc>> {
    if memory.failure.as_ref().is_some_and(|failure| is_about(failure, desired)) {
        return None;
    }
    let due = reading.rules.standstill.iter().find_map(|(_, rule)| rule(reading, bounds))?;
    if due > reading.now {
        return Some(due);
    }
    reject(reading, desired, STANDSTILL, memory);
    None
}

/// All that is in flight has failed with the revision, and nothing else may be replaced. Each has as long as one that
/// is not Ready.
pub(super) fn moves_nothing_but_failures<R: Revision>(
    reading: &Reading<'_, '_, R>,
    bounds: &Bounds<'_>,
) -> Option<DateTime<Utc>> {
    let Reading { policy, inventory, now, .. } = *reading;
    // What belongs to no place any more is not a failure, and ends on its own.
    let is_all = bounds.used > 0 && reading.in_flight().count() == bounds.used;
    let all_speak = is_all && reading.in_flight().all(|cell| cell.counts_as_failure);
    if !all_speak || reading.failing().is_empty() {
        return None;
    }
    // Windows, mass outages, holds and soaks end on their own; what starts is replaced later.
    let soaks = bounds.canaries.as_ref().is_some_and(|canaries| canaries.until(now).is_some());
    let is_last = reading.open().next().is_none() || reading.open().any(Cell::is_on_its_way);
    if is_last || soaks || bounds.has_room(reading, false) {
        return None;
    }
    let due = reading.in_flight().filter_map(|cell| failing_since(cell, policy)).max()?;
    Some(due.max(inventory.in_contact_since) + policy.wait_ready)
}

/// Since when an agent fails: one that ran well for long enough since it ceased to, any other since its place was
/// touched.
fn failing_since<R>(cell: &Cell<'_, R>, policy: &Policy) -> Option<DateTime<Utc>> {
    let ran_well = cell.pod().filter(|pod| pod.was_ready.is_some_and(|ready| ready >= policy.wait_ready));
    cell.touched_at.max(ran_well.and_then(|pod| pod.unready_since))
}

/// A person says that the desired revision has failed, wherever it is by then.
fn reject_by_hand<R: Revision>(reading: &Reading<'_, '_, R>, desired: &Desired<R>, memory: &mut Memory<R>) {
    if memory.failure.as_ref().is_some_and(|failure| is_about(failure, desired)) {
        return;
    }
    fall_back(desired, memory);
    let is_another = memory.last_good.as_ref().is_none_or(|good| desired.revision.is_another_release(good));
    let message = format!(
        "{} was rejected by hand (spec.rollout.reject), on {} of {} {}",
        desired.revision,
        reading.reached(),
        reading.cells.len(),
        reading.inventory.words.places
    );
    (memory.back, memory.proof) = (None, None);
    let earlier = earlier(reading, desired, memory);
    memory.failure = Some(Failure {
        rejects: is_another,
        earlier,
        at: Some(reading.now),
        by_hand: true,
        ..Failure::of(desired.revision.clone(), desired.insists, message)
    });
}

/// Where what fails had only proven itself with its canaries, what was completed before it is the good one again.
fn fall_back<R: Revision>(desired: &Desired<R>, memory: &mut Memory<R>) {
    if memory.last_good.as_ref() == Some(&desired.revision) && memory.completed.is_some() {
        memory.last_good = memory.completed.take();
    }
}

/// What failed before, and has Pods still.
fn earlier<R: Revision>(reading: &Reading<'_, '_, R>, desired: &Desired<R>, memory: &mut Memory<R>) -> Vec<R> {
    let before = memory.failure.take().into_iter().flat_map(|before| [vec![before.revision], before.earlier].concat());
    let has_pods = |revision: &R| {
        reading.cells.iter().any(|cell| cell.pod().is_some_and(|pod| pod.revision.as_ref() == Some(revision)))
    };
    before.filter(|before| *before != desired.revision && has_pods(before)).take(EARLIER).collect()
}

impl<R> Failure<R> {
    /// One of which nothing else is known.
    pub fn of(revision: R, insisted: bool, message: String) -> Self {
        Self {
            revision,
            rejects: false,
            insisted,
            message,
            places: Vec::new(),
            workloads: Vec::new(),
            whole_since: None,
            at: None,
            only_lost: false,
            by_hand: false,
            earlier: Vec::new(),
        }
    }
}

/// What stops the rollout and is remembered. `note` ends the sentence.
fn reject<R: Revision>(reading: &Reading<'_, '_, R>, desired: &Desired<R>, note: &str, memory: &mut Memory<R>) {
    let Reading { inventory, now, .. } = *reading;
    let known = memory.failure.as_ref().is_some_and(|failure| is_about(failure, desired));
    // Outside of a rollout an agent that fails says nothing about a revision.
    let is_out = is_unproven(reading, desired, memory) || inventory.template == Some(&desired.revision);
    let in_rollout = inventory.memory.started().is_some() && is_out;
    if known || !in_rollout {
        // A failure is over when something else is wanted and that is done; the one that finishes forgets it.
        return;
    }
    let failures = reading.failing();
    let names: Vec<&str> = failures.iter().take(NAMES).map(|cell| cell.name()).collect();
    let more = failures.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = failures.iter().filter_map(|cell| cell.why()).map(|why| why.to_string()).find(|why| !why.is_empty());
    // Where the release runs in another template, it is the template that fails.
    let runs_otherwise = |cell: &Cell<'_, R>| {
        let revision = cell.pod().filter(|_| cell.is_available()).and_then(|pod| pod.revision.as_ref());
        revision.is_some_and(|r| *r != desired.revision && !r.is_another_release(&desired.revision))
    };
    fall_back(desired, memory);
    let is_another = memory.last_good.as_ref().is_none_or(|good| desired.revision.is_another_release(good));
    let is_release = is_another && !reading.cells.iter().any(runs_otherwise);
    let what = if is_release { desired.revision.to_string() } else { inventory.words.template.to_owned() };
    let message = format!(
        "{what} failed on {} of {} {} it reached ({}{more}): {}{note}",
        failures.len(),
        reading.reached(),
        inventory.words.places,
        names.join(", "),
        why.as_deref().unwrap_or("not Ready")
    );
    let earlier = earlier(reading, desired, memory);
    (memory.back, memory.proof) = (None, None);
    memory.failure = Some(Failure {
        // An unseen outage is no verdict on a release; it stops the rollout all the same.
        rejects: is_release && inventory.source != Source::Unasked,
        earlier,
        places: failures.iter().take(REMEMBERED).map(|cell| cell.name().to_owned()).collect(),
        at: Some(now),
        only_lost: failures.iter().all(|cell| matches!(cell.bucket(), Some(Bucket::NodeLost | Bucket::Overdue))),
        workloads: workloads_of(reading, &failures),
        ..Failure::of(desired.revision.clone(), desired.insists, message)
    });
}

/// The workloads of these replicas.
fn workloads_of<R>(reading: &Reading<'_, '_, R>, cells: &[&Cell<'_, R>]) -> Vec<String> {
    let workload = |cell: &&Cell<'_, R>| Some(reading.inventory.workloads.get(cell.place.workload)?.name.to_string());
    let names: BTreeSet<String> = cells.iter().filter_map(workload).collect();
    names.into_iter().take(REMEMBERED).collect()
}

/// When all places that failed will have been available for `wait_ready`; `None`: one of them is not available. A
/// place has its Pod of that revision again; a workload lacks no more replicas than before, whatever their names.
fn recovered_at<R: Revision>(reading: &Reading<'_, '_, R>, failure: &Failure<R>) -> Option<DateTime<Utc>> {
    let wait_ready = reading.policy.wait_ready;
    if !failure.workloads.is_empty() {
        return failure.whole_since.map(|since| since + wait_ready);
    }
    let mut at = None;
    for name in &failure.places {
        let cell = reading.cells.iter().find(|cell| cell.name() == name.as_str())?;
        let pod = cell.pod().filter(|pod| cell.is_available() && pod.revision.as_ref() == Some(&failure.revision))?;
        at = at.max(pod.ready_since.map(|since| since + wait_ready));
    }
    at
}

/// Whether none of the workloads that failed lacks more replicas than it did before. One that is gone lacks nothing.
fn is_whole<R>(reading: &Reading<'_, '_, R>, failure: &Failure<R>) -> bool {
    let inventory = reading.inventory;
    let before = |name: &str| inventory.memory.touched.lacking.get(name).copied().unwrap_or_default();
    failure.workloads.iter().all(|name| {
        let workload = inventory.workloads.iter().find(|workload| *workload.name == **name);
        workload.is_none_or(|workload| workload.unavailable() <= before(name))
    })
}

/// Withdraws the verdict on what recovered on its own.
pub(super) fn withdraw<R: Revision>(reading: &Reading<'_, '_, R>, memory: &mut Memory<R>) {
    let now = reading.now;
    let Some(failure) = &mut memory.failure else { return };
    // A person's word holds for as long as the field has it.
    if failure.by_hand {
        return;
    }
    let is_whole = !failure.workloads.is_empty() && is_whole(reading, failure);
    failure.whole_since = is_whole.then(|| failure.whole_since.unwrap_or(now));
    if !reading.rules.lifted.iter().any(|(_, rule)| rule(reading, memory)) {
        return;
    }
    let Some(Failure { revision, .. }) = memory.failure.take() else { return };
    let before = memory.withdrawn.take().filter(|withdrawn| withdrawn.revision == revision);
    memory.withdrawn = Some(Withdrawn { revision, times: before.map_or(0, |withdrawn| withdrawn.times) + 1 });
}

/// A verdict is withdrawn when all that had failed are well again, unless that happened too often.
pub(super) fn have_recovered<R: Revision>(reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> bool {
    let recovered_at = memory.failure.as_ref().and_then(|failure| recovered_at(reading, failure));
    recovered_at.is_some_and(|at| at <= reading.now) && !memory.is_final()
}

/// No running agent is rolled back while the verdict may yet be withdrawn: those that were only away or late have their
/// time to show that the revision is good.
pub(super) fn may_recover<R: Revision>(reading: &Reading<'_, '_, R>, failure: &Failure<R>) -> Option<DateTime<Utc>> {
    if !failure.only_lost {
        return None;
    }
    let given = failure.at.map(|at| at + reading.policy.wait_ready);
    given.max(recovered_at(reading, failure)).filter(|until| *until > reading.now)
}

/// When the verdict is withdrawn, if nothing happens before.
pub(super) fn withdrawal_due<R: Revision>(reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> Option<DateTime<Utc>> {
    recovered_at(reading, memory.failure.as_ref()?).filter(|at| *at > reading.now && !memory.is_final())
}

impl<R: PartialEq> Memory<R> {
    /// Whether the verdict stays though its Pods recover, because that has happened too often.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let is_about = |withdrawn: &&Withdrawn<R>| {
            self.failure.as_ref().is_some_and(|failure| failure.revision == withdrawn.revision)
        };
        self.withdrawn.as_ref().filter(is_about).is_some_and(|withdrawn| withdrawn.times >= WITHDRAWALS)
    }

    /// Forgets the verdicts on some revisions: they are tried again.
    pub fn forgive(&mut self, is_tried_again: impl Fn(&R) -> bool) {
        self.failure.take_if(|failure| is_tried_again(&failure.revision));
        self.withdrawn.take_if(|withdrawn| is_tried_again(&withdrawn.revision));
    }

    /// Lifts a verdict, and forgets how often one was withdrawn. Returns whether there was one.
    pub fn lift(&mut self) -> bool {
        self.withdrawn = None;
        self.failure.take().is_some()
    }
}
