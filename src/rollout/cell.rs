//! A place as it was read: why it has no available agent, whether it counts, whether it failed.
//!
//! Here because reading it and judging it are two things. Must not do either (that is `bucket` and `verdict`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::cause::{Bucket, Cause};
use super::place::{Place, Pod, Revision, Standing, Trouble, Workload};
use super::{Desired, Inventory, Policy, Rules};

/// How a selected place is, for those who look on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub name: Arc<str>,
    pub zone: Option<String>,
    /// How its Pod relates to what is desired, if there is one.
    pub standing: Option<Standing>,
    /// Why it has no available Pod; `None`: it has one.
    pub cause: Option<Cause>,
}

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
    /// Since when it is heard: it was touched, or joined.
    pub(super) heard_at: Option<DateTime<Utc>>,
    /// Whether it joined since the rollout began and got the desired revision from a template that is not ours: it
    /// takes from no budget, and is heard.
    pub(super) has_joined: bool,
    /// Whether it lost a broken agent by us and has no Pod yet, whatever keeps that away.
    pub(super) freed: bool,
    /// Whether its agent is to be replaced and can be.
    pub(super) is_open: bool,
    /// Whether its agent may be replaced without a cost: none runs there.
    pub(super) is_broken: bool,
    /// Whether it takes from the budget.
    pub(super) is_in_flight: bool,
    /// Whether its cause lies outside of any revision and ends once that is fixed.
    pub(super) is_external: bool,
    /// Whether it counts as a failure of the desired revision.
    pub(super) counts_as_failure: bool,
    /// Whether it must be known soon that the source is there.
    pub(super) suspect: bool,
    /// Whether it may yet fail.
    pub(super) pending: bool,
    /// Its agent ran until a moment ago: whether that is more than one probe that failed the next moment tells.
    pub(super) blinks: bool,
    /// Created without a step of ours, from a template that is not the desired one.
    pub(super) unplanned: bool,
    /// When this may change without an event.
    pub(super) until: Option<DateTime<Utc>>,
    /// When the time is over that its cause gives it.
    pub(super) deadline: Option<DateTime<Utc>>,
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

    /// What is wrong with its agent, though it may be Ready for a moment.
    pub(super) fn why(&self) -> Option<Cause> {
        let crash = || match &self.pod()?.trouble {
            Some(Trouble::Crash(why)) => Some(Cause::Crash(why.clone())),
            _ => None,
        };
        self.cause.clone().or_else(crash)
    }

    /// Whether it had an agent that is not Ready any more, may be again in time, and was not replaced by us.
    pub(super) fn has_lost(&self) -> bool {
        let may_start = matches!(self.cause, Some(Cause::Starting(_)));
        may_start
            && !self.is_in_flight
            && (self.place.loss.is_some() || self.cause.as_ref().is_some_and(Cause::has_ceased))
    }

    /// Whether its Pod is starting, or is going so that another one comes.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self.bucket(), Some(Bucket::Starting | Bucket::Terminating))
    }

    /// Since when it has no Ready agent, as far as that is known.
    pub(super) fn without_since(&self) -> Option<DateTime<Utc>> {
        let of_pod = || self.pod().map(|pod| pod.unready_since.unwrap_or(pod.created));
        self.place.loss.map(|loss| loss.since).or_else(of_pod)
    }

    /// Whether its Pod is being deleted: then it is none of its workload's any more.
    pub(super) fn is_going(&self) -> bool {
        self.bucket() == Some(Bucket::Terminating)
    }
}

/// An up-to-date Pod is never replaced.
pub(super) fn is_outdated<R>(cell: &Cell<'_, R>) -> bool {
    cell.standing() == Some(Standing::Outdated)
}

/// A place that is being worked on is left alone.
pub(super) fn is_not_busy<R>(cell: &Cell<'_, R>) -> bool {
    cell.place.busy.is_none()
}

/// No new Pod would start on a place that is unreachable.
pub(super) fn is_reachable<R>(cell: &Cell<'_, R>) -> bool {
    !matches!(cell.cause, Some(Cause::NodeNotReady | Cause::NodeLost))
}

/// Why a place is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// This rollout touched it.
    Touched,
    /// It joined since, with the desired revision.
    Joined,
}

/// What every cell is judged by.
pub(super) struct Judge<'p, 'a, R: 'static> {
    pub(super) rules: &'p Rules<R>,
    pub(super) policy: &'p Policy,
    pub(super) desired: Option<&'p Desired<R>>,
    pub(super) inventory: &'p Inventory<'a, R>,
    pub(super) rolling: bool,
    pub(super) now: DateTime<Utc>,
}

impl<R: Revision> Judge<'_, '_, R> {
    /// Whether the place had no available agent before, or its workload lacked as many replicas as it does now.
    pub(super) fn was_broken(&self, place: &Place<'_, R>) -> bool {
        let touched = &self.inventory.memory.touched;
        let lacked = |workload: &Workload| {
            let before = touched.lacking.get(&*workload.name).copied().unwrap_or_default();
            before > 0 && workload.unavailable() <= before
        };
        touched.broken.contains(&**place.name) || self.inventory.workloads.get(place.workload).is_some_and(lacked)
    }

    /// Whether a cause lies outside of any revision. Replicas find room when the cluster grows, wherever that is; an
    /// agent has only its own node.
    pub(super) fn is_external(&self, bucket: Bucket) -> bool {
        bucket.is_external() || (bucket == Bucket::Capacity && !self.inventory.workloads.is_empty())
    }

    pub(super) fn is_from_desired(&self, pod: &Pod<R>) -> bool {
        pod.revision.is_some() && pod.revision.as_ref() == self.desired.map(|desired| &desired.revision)
    }
}
