//! The guard: the last word before a Pod is deleted, with a count of its own.
//!
//! Here so that a planner that is wrong, or lies, cannot take more agents than the policy allows. Shares nothing with
//! the plan but policy and places. Must not choose a Pod.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Policy;
use super::place::{Place, Selection, Workload};

/// What deletions are measured by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    budget: usize,
    /// Nothing may go now.
    is_held: bool,
    /// Nothing that runs may go now.
    is_closed: bool,
    /// Ids of Pods whose deletion takes no running agent.
    idle: HashSet<Arc<str>>,
    /// Ids of Pods that no step may take: no other may start there, or the place is being worked on.
    barred: HashSet<Arc<str>>,
    /// Of which workload a Pod is, by its id; none where places have names.
    workloads: HashMap<Arc<str>, Arc<Bound>>,
    /// What each zone allows, where zones have a bound of their own,
    zones: HashMap<String, usize>,
    /// and which zone a place is in.
    zone_of: HashMap<Arc<str>, String>,
}

/// What one workload allows.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    name: Arc<str>,
    budget: usize,
    /// Replicas that are missing, except those that are known to be in flight.
    missing: usize,
}

impl Guard {
    /// Counts for itself.
    #[must_use]
    pub fn count<R>(policy: &Policy, places: &[Place<'_, R>], now: DateTime<Utc>) -> Self {
        let is_barred = |place: &&Place<'_, R>| place.selection != Selection::Selected || place.busy.is_some();
        let barred = places.iter().filter(is_barred).filter_map(|place| place.occupant);
        let barred = barred.map(|occupant| occupant.pod.id.clone()).collect();
        let is_closed = policy.calendar.closed(now).is_some();
        // Going back where no agent runs does not wait for a window.
        let is_held = policy.hold.is_some() || (is_closed && !policy.rolls_back);
        let selected = places.iter().filter(|place| place.selection == Selection::Selected).count();
        let pods = places.iter().filter_map(|place| place.occupant).map(|occupant| occupant.pod);
        let idle = pods.filter(|pod| pod.ready_since.is_none()).map(|pod| pod.id.clone()).collect();
        let mut guard =
            Self { budget: policy.budget.of(selected), idle, barred, is_held, is_closed, ..Self::default() };
        if let Some(share) = policy.per_zone {
            let zone = |place: &Place<'_, R>| place.zone.unwrap_or_default().to_owned();
            guard.zone_of = places.iter().map(|place| (place.name.clone(), zone(place))).collect();
            for place in places.iter().filter(|place| place.selection == Selection::Selected) {
                *guard.zones.entry(zone(place)).or_default() += 1;
            }
            guard.zones.values_mut().for_each(|places| *places = share.of(*places));
        }
        guard
    }

    /// Counts for itself where places are replicas of workloads. What was missing before the rollout began does not
    /// hinder it.
    #[must_use]
    pub fn count_replicas<R>(
        policy: &Policy,
        workloads: &[Workload],
        places: &[Place<'_, R>],
        before: &BTreeMap<String, usize>,
        in_flight: impl Fn(&str) -> usize,
        now: DateTime<Utc>,
    ) -> Self {
        let bound = |workload: &Workload| {
            let known = before.get(&*workload.name).copied().unwrap_or_default() + in_flight(&workload.name);
            let missing = workload.expected.saturating_sub(workload.available + known);
            Arc::new(Bound { name: workload.name.clone(), budget: workload.budget.of(workload.expected), missing })
        };
        let bounds: Vec<Arc<Bound>> = workloads.iter().map(bound).collect();
        let bounded =
            |place: &Place<'_, R>| Some((place.occupant?.pod.id.clone(), bounds.get(place.workload)?.clone()));
        Self { workloads: places.iter().filter_map(bounded).collect(), ..Self::count(policy, places, now) }
    }

    /// The workload that a Pod is of, where that counts.
    #[must_use]
    pub fn workload(&self, id: &str) -> Option<&Arc<str>> {
        self.workloads.get(id).map(|bound| &bound.name)
    }

    /// Whether one more running agent may be taken from the zone of a place, of which these are in flight.
    #[must_use]
    pub fn admits_in_zone<'p>(&self, place: &str, in_flight: impl Iterator<Item = &'p str>) -> bool {
        if self.zones.is_empty() {
            return true;
        }
        let Some(zone) = self.zone_of.get(place) else { return false };
        let there = in_flight.filter(|other| self.zone_of.get(*other) == Some(zone)).count();
        there < self.zones.get(zone).copied().unwrap_or_default()
    }

    /// Whether a Pod's deletion takes a running agent, whatever the plan says of it; an unknown one does.
    #[must_use]
    pub fn costs(&self, id: &str) -> bool {
        !self.idle.contains(id)
    }

    /// Whether one more of its kind may be in flight; those that cost nothing are bounded too.
    #[must_use]
    pub fn admits(&self, id: &str, in_flight: usize) -> bool {
        if self.is_held || self.barred.contains(id) || (self.is_closed && self.costs(id)) {
            return false;
        }
        match self.workloads.get(id) {
            Some(bound) if self.costs(id) => bound.missing + in_flight < bound.budget,
            Some(bound) => in_flight < bound.budget,
            None => in_flight < self.budget,
        }
    }
}
