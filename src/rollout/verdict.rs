//! Verdicts of single places: whether one has failed, may yet fail, or must be asked about.
//!
//! An outage is not a verdict. Must not say what follows from it (that is `failure`).

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Source;
use super::cause::Bucket;
use super::cell::{Cell, Judge};
use super::place::{Place, Pod, Revision, Standing, Trouble};

/// An answer of the source is a proof that it was there for so long.
const PROOF: TimeDelta = TimeDelta::seconds(120);
/// A Pod that fell into its back-off while the source was unreachable may stay there for so long afterwards.
const EXCUSED: TimeDelta = TimeDelta::minutes(10);

/// Whether a place that is NotReady became so after a moment. Both times are whole seconds, or of two machines: at the
/// same moment it did.
pub(super) fn went_since<R>(place: &Place<'_, R>, moment: DateTime<Utc>) -> bool {
    place.ready_since.is_none_or(|since| since.timestamp() >= moment.timestamp())
}

/// What a place says of the desired revision.
pub(super) struct Says {
    /// It says that this one has failed.
    speaks: bool,
    /// It is believed only where the source that its Pod downloads from was there.
    needs_proof: bool,
}

/// How late a place is.
pub(super) struct Late {
    touched_at: DateTime<Utc>,
    /// Its time is over.
    overdue: bool,
    /// Its agent was available before.
    was_available: bool,
}

/// One that crashes has failed, unless it did so before this rollout touched it.
pub(super) fn crash_speaks<R: Revision>(
    judge: &Judge<'_, '_, R>,
    cell: &Cell<'_, R>,
    bucket: Bucket,
    _: &Late,
) -> Option<Says> {
    let flapped = || judge.inventory.memory.touched.flapping.contains(cell.name());
    (bucket == Bucket::Crash).then(|| Says { speaks: !flapped(), needs_proof: true })
}

/// One that is not Ready in time has failed. A Pod that was not created, or not bound to its node, has not been tried.
pub(super) fn overdue_speaks<R: Revision>(
    _: &Judge<'_, '_, R>,
    cell: &Cell<'_, R>,
    bucket: Bucket,
    late: &Late,
) -> Option<Says> {
    let is_bound = cell.pod().is_some_and(|pod| pod.trouble != Some(Trouble::Unbound));
    (bucket == Bucket::Overdue).then_some(Says { speaks: is_bound && !late.was_available, needs_proof: true })
}

/// One whose node is unreachable has failed in time. Where it is not known which came first, the node or the agent,
/// neither is blamed.
pub(super) fn lost_node_speaks<R: Revision>(
    judge: &Judge<'_, '_, R>,
    cell: &Cell<'_, R>,
    bucket: Bucket,
    late: &Late,
) -> Option<Says> {
    let is_news = || !late.was_available || judge.is_watched(cell.place);
    let speaks = || late.overdue && is_news() && went_since(cell.place, late.touched_at);
    (bucket == Bucket::NodeLost).then(|| Says { speaks: speaks(), needs_proof: false })
}

/// External trouble rejects nothing.
pub(super) fn external_trouble_is_silent<R: Revision>(
    _: &Judge<'_, '_, R>,
    cell: &Cell<'_, R>,
    _: Bucket,
    _: &Late,
) -> Option<Says> {
    cell.is_external.then_some(Says { speaks: false, needs_proof: false })
}

/// One that cannot start in time has failed. Only the rule before this one excepts external trouble.
pub(super) fn no_room_speaks<R: Revision>(
    _: &Judge<'_, '_, R>,
    cell: &Cell<'_, R>,
    bucket: Bucket,
    late: &Late,
) -> Option<Says> {
    let cannot_start = bucket == Bucket::Capacity || cell.is_external;
    cannot_start.then_some(Says { speaks: late.overdue, needs_proof: false })
}

/// Whether the place counts as a failure of the desired revision: at its deadline, or when it crashes.
pub(super) fn fails_in_time<R: Revision>(judge: &Judge<'_, '_, R>, cell: &mut Cell<'_, R>) {
    let Some(bucket) = cell.bucket() else { return };
    if let Some(heard_at) = cell.heard_at.filter(|_| !judge.was_broken(cell.place)) {
        judge.verdict(cell, bucket, heard_at);
    }
}

/// A Pod that crashed again and again counts as failed until it has been available for `wait_ready`.
pub(super) fn crashes_again_and_again<R: Revision>(judge: &Judge<'_, '_, R>, cell: &mut Cell<'_, R>) {
    let crashes = |pod: &&Arc<Pod<R>>| matches!(pod.trouble, Some(Trouble::Crash(_))) && judge.is_from_desired(pod);
    let Some(pod) = cell.pod().filter(crashes) else { return };
    // What it did before this rollout began, or while the source was unreachable, is history once it is Ready.
    let memory = &judge.inventory.memory;
    let is_history = memory.outage.is_some_and(|outage| outage.until.is_none_or(|until| pod.created <= until))
        || memory.started().is_some_and(|started| pod.ready_since < Some(started));
    let until = pod.ready_since.map(|since| since + judge.policy.wait_ready).filter(|until| *until > judge.now);
    let flapped = memory.touched.flapping.contains(cell.name());
    let is_heard = cell.heard_at.is_some() && !flapped && !judge.was_broken(cell.place);
    if !is_heard || is_history || until.is_none() {
        return;
    }
    cell.until = cell.until.into_iter().chain(until).min();
    (cell.suspect, cell.counts_as_failure) = (true, judge.source_was_there(pod));
}

impl<R: Revision> Judge<'_, '_, R> {
    fn verdict(&self, cell: &mut Cell<'_, R>, bucket: Bucket, touched_at: DateTime<Utc>) {
        let pod = cell.pod();
        // One that is to be replaced has had its say.
        let is_judged = cell.standing() != Some(Standing::Outdated);
        let made_from_desired = pod.is_none_or(|pod| self.is_from_desired(pod) && is_judged);
        let was_available = pod.is_some_and(|pod| pod.was_available(self.policy));
        let is_of_node = matches!(bucket, Bucket::NodeLost | Bucket::Capacity);
        // A node may come back, and an outage takes time to reach the others, from when the node went. No scheduler
        // binds a Pod to an unreachable node, so that Pod has its time from when the node is back.
        let turned_at = cell.place.ready_since.filter(|_| is_of_node).unwrap_or(touched_at);
        let deadline = touched_at.max(turned_at).max(self.inventory.in_contact_since) + self.policy.wait_ready;
        let overdue = deadline <= self.now;
        let late = Late { touched_at, overdue, was_available };
        let says = self.rules.says.iter().find_map(|(_, rule)| rule(self, cell, bucket, &late));
        let (speaks, needs_proof) = says.map_or((false, false), |says| (says.speaks, says.needs_proof));
        let has_time = is_of_node && !cell.is_external && !overdue;
        if has_time {
            cell.until = Some(cell.until.map_or(deadline, |until| until.min(deadline)));
        }
        let proven = !needs_proof || pod.is_none_or(|pod| self.source_was_there(pod));
        cell.counts_as_failure = speaks && made_from_desired && proven;
        cell.pending = made_from_desired && (has_time || (speaks && !proven));
        // Long before its time is up it is asked whether the source is there.
        let half = touched_at + self.policy.wait_ready / 2;
        let half_way = bucket == Bucket::Starting && half <= self.now;
        cell.suspect = (speaks && needs_proof) || half_way;
        if bucket == Bucket::Starting && !half_way {
            cell.until = Some(cell.until.map_or(half, |until| until.min(half)));
        }
    }

    /// Whether a place is a canary that has not proven itself: it is watched for this.
    fn is_watched(&self, place: &Place<'_, R>) -> bool {
        let proof = self.inventory.memory.proof.as_ref().filter(|proof| !proof.passed);
        let is_about = |revision: &R| self.desired.is_some_and(|desired| desired.revision == *revision);
        self.policy.canary.is_some()
            && proof.is_some_and(|proof| {
                is_about(&proof.revision) && proof.places.iter().any(|name| **name == **place.name)
            })
    }

    /// Whether the source that a Pod downloads from was there for it: what it does during an outage, or in the back-off
    /// that follows, is no fault of its revision.
    fn source_was_there(&self, pod: &Pod<R>) -> bool {
        let is_recent =
            |until: DateTime<Utc>| pod.created <= until && self.now < until + self.policy.wait_ready.max(EXCUSED);
        let excused = self.inventory.memory.outage.is_some_and(|outage| outage.until.is_none_or(is_recent));
        match self.inventory.source {
            Source::NotNeeded | Source::Unasked => true,
            Source::Awaited | Source::Away => false,
            Source::Answers(at) => !excused && at >= pod.created && at + PROOF >= self.now,
        }
    }
}
