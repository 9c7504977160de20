//! Buckets: every selected place has an available agent, or is in exactly one bucket that says why not.
//!
//! Here because the budget, the failures and the status must come from one reading of the fleet. Must not decide
//! what to do about it.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::cause::{Bucket, Cause, Start};
use super::place::{Occupant, Place, Pod, Revision, Selection, Standing, Trouble, Workload};
use super::rule::{Rule, holds};
use super::{Desired, Inventory, Policy, Source};

/// A Pod whose deletion takes longer than its grace period by so much is said to be stuck.
const STUCK: TimeDelta = TimeDelta::seconds(60);
/// An answer of the source is a proof that it was there for so long.
const PROOF: TimeDelta = TimeDelta::seconds(120);
/// A Pod that fell into its back-off while the source was away may stay there for so long afterwards.
const EXCUSED: TimeDelta = TimeDelta::minutes(10);

/// One selected place.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent findings about one place")]
pub(super) struct Cell<'a, R> {
    pub(super) place: &'a Place<'a, R>,
    /// `None`: available.
    pub(super) cause: Option<Cause>,
    /// Whether this rollout touched it.
    pub(super) touched: bool,
    /// When it did.
    pub(super) touched_at: Option<DateTime<Utc>>,
    /// Whether it takes from the budget.
    pub(super) counts: bool,
    /// Whether it speaks against the desired revision.
    pub(super) speaks: bool,
    /// Whether it must be known soon that the source is there.
    pub(super) suspect: bool,
    /// Whether it may yet speak against it.
    pub(super) pending: bool,
    /// Born by itself from a template that is not the desired one.
    pub(super) unplanned: bool,
    /// When this may change without an event.
    pub(super) until: Option<DateTime<Utc>>,
}

impl<'a, R> Cell<'a, R> {
    pub(super) fn name(&self) -> &'a str {
        self.place.name
    }

    pub(super) fn bucket(&self) -> Option<Bucket> {
        self.cause.as_ref().map(Cause::bucket)
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        self.place.occupant.map(|occupant| occupant.standing)
    }

    pub(super) fn pod(&self) -> Option<&'a Arc<Pod<R>>> {
        self.place.occupant.map(|occupant| occupant.pod)
    }

    pub(super) fn is_available(&self) -> bool {
        self.cause.is_none()
    }

    /// Whether its agent is to be replaced and can be: one on a place that is away or busy waits for it.
    pub(super) fn is_open(&self) -> bool {
        let waits = matches!(self.cause, Some(Cause::NodeNotReady | Cause::NodeLost | Cause::NodeBusy(_)));
        let is_old = self.standing() == Some(Standing::Outdated) || !holds(Rule::UpToDate);
        is_old && (self.place.busy.is_none() || !holds(Rule::Courtesy)) && !waits
    }

    /// Whether its Pod is being deleted: then it is none of its workload's any more.
    pub(super) fn is_going(&self) -> bool {
        self.bucket() == Some(Bucket::Terminating)
    }
}

/// The fleet, sorted.
#[derive(Debug)]
pub(super) struct Sorted<'a, R> {
    /// Selected places.
    pub(super) cells: Vec<Cell<'a, R>>,
    /// Places where no new Pod may start, and why.
    pub(super) closed: Vec<(&'a Place<'a, R>, &'a Cause)>,
    /// Those of them with an agent that runs on.
    pub(super) surplus: Vec<(&'a Place<'a, R>, &'a Cause)>,
    /// Those of them whose agent we took, and that are kept from getting another.
    pub(super) outside: Vec<(&'a Place<'a, R>, &'a Cause)>,
}

/// What every cell is judged by.
struct Judge<'p, 'a, R> {
    policy: &'p Policy,
    desired: Option<&'p Desired<R>>,
    inventory: &'p Inventory<'a, R>,
    rolling: bool,
    now: DateTime<Utc>,
}

/// Reads the fleet.
pub(super) fn sort<'a, R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'a, R>,
    now: DateTime<Utc>,
) -> Sorted<'a, R> {
    let mut sorted = Sorted {
        cells: Vec::with_capacity(inventory.places.len()),
        closed: Vec::new(),
        surplus: Vec::new(),
        outside: Vec::new(),
    };
    let is_selected = |place: &&Place<'_, R>| place.selection == Selection::Selected;
    let is_outdated =
        |place: &Place<'_, R>| place.occupant.is_some_and(|occupant| occupant.standing == Standing::Outdated);
    let advanced = inventory.template.is_some() && inventory.template == desired.map(|d| &d.revision);
    let some_outdated = || inventory.places.iter().filter(is_selected).any(is_outdated);
    let rolling = inventory.memory.began().is_some() || (advanced && some_outdated());
    let judge = Judge { policy, desired, inventory, rolling, now };
    for place in inventory.places {
        match &place.selection {
            Selection::Selected => sorted.cells.push(judge.cell(place)),
            Selection::Closed(cause) => {
                // A Pod that we made and that never ran shows it; where there is none, only the ledger knows.
                let never_ran = |pod: &Pod<R>| pod.ready_since.is_none() && !pod.was_available(policy);
                let is_new = place.occupant.is_some_and(|occupant| never_ran(occupant.pod));
                let made = is_new && judge.touched_at(place).is_some() && !judge.was_broken(place);
                sorted.close(place, cause, inventory, made);
            }
            Selection::NotSelected => {}
        }
    }
    sorted
}

impl<'a, R> Sorted<'a, R> {
    /// Only a taint comes while an agent is there and while it is replaced.
    fn close(&mut self, place: &'a Place<'a, R>, cause: &'a Cause, inventory: &Inventory<'_, R>, made: bool) {
        self.closed.push((place, cause));
        if cause.bucket() != Bucket::Untolerated {
            return;
        }
        let stays = |pod: &&Arc<Pod<R>>| !pod.deleting && !inventory.deleted.contains(&pod.uid);
        let pod = place.occupant.map(|occupant| occupant.pod).filter(stays);
        let is_known = made || inventory.memory.touched.closed.contains(&**place.name);
        if (is_known || inventory.lost.contains_key(place.name)) && pod.is_none_or(|pod| pod.ready_since.is_none()) {
            self.outside.push((place, cause));
        }
        if pod.is_some() && place.busy.is_none() {
            self.surplus.push((place, cause));
        }
    }
}

/// Whether a place that is NotReady became so after a moment. Both times are whole seconds, or of two machines: at the
/// same moment it did.
fn went_since<R>(place: &Place<'_, R>, moment: DateTime<Utc>) -> bool {
    place.ready_since.is_none_or(|since| since.timestamp() >= moment.timestamp())
}

impl<'a, R: Revision> Judge<'_, 'a, R> {
    fn cell(&self, place: &'a Place<'a, R>) -> Cell<'a, R> {
        let mut cell = Cell {
            place,
            cause: None,
            touched: false,
            touched_at: None,
            counts: false,
            speaks: false,
            suspect: false,
            pending: false,
            unplanned: self.is_unplanned(place),
            until: None,
        };
        let touched_at = self.touched_at(place);
        (cell.touched, cell.touched_at) = (touched_at.is_some(), touched_at);
        cell.cause = self.cause(place, touched_at, &mut cell.until);
        let Some(bucket) = cell.bucket() else { return cell };
        // Where no agent was available before, none is missing because of us.
        let was_broken = self.was_broken(place);
        cell.counts = cell.touched && !was_broken && bucket != Bucket::NodeBusy && holds(Rule::Budget);
        if let Some(touched_at) = touched_at.filter(|_| !was_broken) {
            self.verdict(&mut cell, bucket, touched_at);
        }
        cell
    }

    /// Whether the place had no available agent before, or its workload lacked as many replicas as it does now.
    fn was_broken(&self, place: &Place<'_, R>) -> bool {
        let touched = &self.inventory.memory.touched;
        let lacked = |workload: &Workload| {
            let before = touched.lacking.get(&*workload.name).copied().unwrap_or_default();
            before > 0 && workload.unavailable() <= before
        };
        touched.broken.contains(&**place.name) || self.inventory.workloads.get(place.workload).is_some_and(lacked)
    }

    /// Whether the place speaks against the desired revision: at its deadline, or when it crashes again and again.
    fn verdict(&self, cell: &mut Cell<'a, R>, bucket: Bucket, touched_at: DateTime<Utc>) {
        let pod = cell.pod();
        // One that is to be replaced has had its say.
        let is_judged = cell.standing() != Some(Standing::Outdated);
        let made_from_desired = pod.is_none_or(|pod| self.is_from_desired(pod) && is_judged);
        let was_available = pod.is_some_and(|pod| pod.was_available(self.policy));
        let deadline = touched_at.max(self.inventory.heard_since) + self.policy.wait_ready;
        let overdue = deadline <= self.now;
        let (speaks, needs_proof) = match bucket {
            Bucket::Crash => (!self.inventory.memory.touched.flapping.contains(cell.name()), true),
            // Whom nobody made, or bound to its node, has not been tried.
            Bucket::Overdue => (pod.is_some_and(|pod| pod.trouble != Some(Trouble::Unbound)) && !was_available, true),
            // Where it is not known which came first, the node or the agent, nobody is blamed.
            Bucket::NodeLost => (overdue && !was_available && went_since(cell.place, touched_at), false),
            Bucket::Capacity => (overdue, false),
            bucket if bucket.is_the_worlds() && !holds(Rule::World) => (overdue, false),
            _ => (false, false),
        };
        let has_time = matches!(bucket, Bucket::NodeLost | Bucket::Capacity) && !overdue;
        if has_time {
            cell.until = Some(cell.until.map_or(deadline, |until| until.min(deadline)));
        }
        let proven = !needs_proof || pod.is_none_or(|pod| self.source_was_there(pod));
        cell.speaks = speaks && made_from_desired && proven;
        cell.pending = made_from_desired && (has_time || (speaks && !proven));
        // Long before its time is up it is asked whether the source is there.
        let half = touched_at + self.policy.wait_ready / 2;
        let half_way = bucket == Bucket::Starting && half <= self.now;
        cell.suspect = (speaks && needs_proof) || half_way;
        if bucket == Bucket::Starting && !half_way {
            cell.until = Some(cell.until.map_or(half, |until| until.min(half)));
        }
    }

    /// Whether the source that a Pod downloads from was there for it: what it does during an outage, or in the back-off
    /// that follows, is no fault of its revision.
    fn source_was_there(&self, pod: &Pod<R>) -> bool {
        let is_recent =
            |until: DateTime<Utc>| pod.created <= until && self.now < until + self.policy.wait_ready.max(EXCUSED);
        let excused = self.inventory.memory.outage.is_some_and(|outage| outage.until.is_none_or(is_recent));
        match self.inventory.source {
            Source::NotNeeded | Source::Unasked => true,
            Source::Away => false,
            Source::Answers(at) => !excused && at >= pod.created && at + PROOF >= self.now,
        }
    }

    fn is_from_desired(&self, pod: &Pod<R>) -> bool {
        pod.revision.is_some() && pod.revision.as_ref() == self.desired.map(|desired| &desired.revision)
    }

    fn is_unplanned(&self, place: &Place<'_, R>) -> bool {
        let template = self.inventory.template;
        let elsewhere = template.is_some() && self.desired.is_some_and(|desired| template != Some(&desired.revision));
        let Some(began) = self.inventory.memory.started().filter(|_| elsewhere) else { return false };
        place.occupant.is_some_and(|Occupant { pod, .. }| pod.revision.as_ref() == template && pod.created > began)
    }

    /// When this rollout touched a place. What this process did it knows; what was done before it is read from the
    /// cluster, and where that does not say, the place counts as touched: that only slows us.
    fn touched_at(&self, place: &Place<'_, R>) -> Option<DateTime<Utc>> {
        if let Some(at) = self.inventory.lost.get(place.name) {
            return Some(*at);
        }
        if place.occupant.is_some_and(|occupant| self.inventory.deleted.contains(&occupant.pod.uid)) {
            return Some(self.now);
        }
        let began = self.inventory.memory.began();
        // The API's times are whole seconds, so within the same second too.
        let was_there = self.inventory.memory.touched.joined_after.or(began).is_none_or(|last| place.joined <= last);
        if !self.rolling || !was_there {
            return None;
        }
        let Some(Occupant { pod, standing }) = place.occupant else {
            let known = began.is_some_and(|began| began > self.inventory.deciding_since);
            let since = self.inventory.missing.get(place.name).copied().unwrap_or(self.now);
            return (!known).then_some(since);
        };
        // Of replicas the kind says which are new, by one clock.
        let is_new = if self.inventory.workloads.is_empty() {
            // One that was made in the same second from what completed last was there before.
            let good = self.inventory.memory.last_good.as_ref().filter(|_| !self.is_from_desired(pod));
            let is_away = self.inventory.memory.touched.away.contains_key(&**place.name);
            let ran_for = pod.ready_since.map(|since| self.now - since).or(pod.was_ready);
            let has_run = ran_for.is_some_and(|ran| ran >= self.policy.min_ready);
            let is_of_before = has_run && !is_away && pod.revision.is_some() && pod.revision.as_ref() == good;
            let since = |began| pod.created > began || (pod.created == began && !is_of_before);
            began.map_or_else(|| self.is_from_desired(pod), since)
        } else {
            standing == Standing::Current
        };
        if is_new {
            return Some(pod.created);
        }
        (pod.deleting && standing == Standing::Outdated).then(|| pod.gone_by.unwrap_or(self.now))
    }

    /// Why a place has no available agent; `None`: it has.
    fn cause(
        &self,
        place: &Place<'_, R>,
        touched_at: Option<DateTime<Utc>>,
        until: &mut Option<DateTime<Utc>>,
    ) -> Option<Cause> {
        if !place.is_ready {
            return Some(self.away(place, touched_at));
        }
        let Some(Occupant { pod, .. }) = place.occupant else { return Some(self.without_pod(place, until)) };
        if pod.deleting || self.inventory.deleted.contains(&pod.uid) {
            let stuck = pod.gone_by.map(|by| by + STUCK);
            let is_stuck = stuck.is_some_and(|stuck| stuck <= self.now);
            if !is_stuck {
                *until = stuck;
            }
            return Some(Cause::Terminating(is_stuck));
        }
        if let Some(since) = pod.ready_since {
            let available = since + self.policy.min_ready;
            // Without a wait the clocks of two machines need not agree.
            if self.policy.min_ready.is_zero() || available <= self.now {
                return None;
            }
            *until = Some(available);
            return Some(Cause::Starting(Start::Settling(self.policy.min_ready.num_seconds())));
        }
        // Whoever cordons a node whose new agent crashes takes no vote away: that Pod is as bad as before.
        let crashes = matches!(pod.trouble, Some(Trouble::Crash(_))) && !place.is_left_out;
        match &place.busy {
            Some(why) if !(crashes && touched_at.is_some() && self.is_from_desired(pod)) => {
                Some(Cause::NodeBusy(why.clone()))
            }
            _ => Some(self.unready(place, pod, until)),
        }
    }

    /// A place that is NotReady.
    fn away(&self, place: &Place<'_, R>, touched_at: Option<DateTime<Utc>>) -> Cause {
        // Had somebody cordoned it while it was Ready, the ledger would have let it go.
        let is_lost = self.inventory.lost.contains_key(place.name);
        if is_lost || self.inventory.memory.touched.away.contains_key(&**place.name) {
            return Cause::NodeLost;
        }
        if let Some(why) = &place.busy {
            return Cause::NodeBusy(why.clone());
        }
        if touched_at.is_some_and(|touched| went_since(place, touched)) { Cause::NodeLost } else { Cause::NodeNotReady }
    }

    fn without_pod(&self, place: &Place<'_, R>, until: &mut Option<DateTime<Utc>>) -> Cause {
        if let Some(why) = &place.busy {
            return Cause::NodeBusy(why.clone());
        }
        if let Some(refused) = self.inventory.refused {
            return Cause::Admission(refused.to_owned());
        }
        let since = self.inventory.missing.get(place.name).copied().unwrap_or(self.now);
        let since = since.max(self.inventory.heard_since);
        let deadline = place.ready_since.map_or(since, |ready| since.max(ready)) + self.policy.wait_ready;
        if deadline <= self.now {
            return Cause::Overdue(Start::NotMade);
        }
        *until = Some(deadline);
        Cause::Starting(Start::NotMade)
    }

    fn unready(&self, place: &Place<'_, R>, pod: &Pod<R>, until: &mut Option<DateTime<Utc>>) -> Cause {
        let said = match &pod.trouble {
            Some(Trouble::Crash(why)) => return Cause::Crash(why.clone()),
            Some(Trouble::Image(why)) => return Cause::Image(why.clone()),
            Some(Trouble::Config(why)) => return Cause::Config(why.clone()),
            Some(Trouble::Capacity(why)) => return Cause::Capacity(why.clone()),
            Some(Trouble::Start(why)) => Some(why.clone()),
            Some(Trouble::Unbound) | None => None,
        };
        let start = if pod.trouble == Some(Trouble::Unbound) {
            Start::NotBound
        } else {
            Start::NotReady(self.policy.wait_ready.num_seconds(), said)
        };
        // An agent that was Ready, that was bound late, or whose node was away, gets its time anew; so do all when
        // the API server was away.
        let since = [pod.unready_since, place.ready_since, Some(self.inventory.heard_since)];
        let since = since.into_iter().flatten().fold(pod.created, DateTime::max);
        let deadline = since + self.policy.wait_ready;
        if deadline <= self.now {
            return Cause::Overdue(start);
        }
        *until = Some(deadline);
        Cause::Starting(start)
    }
}
