//! The guard: the last word before a Pod is deleted, with a count of its own.
//!
//! Here so that a planner that is wrong, or lies, cannot take more agents than the policy allows. Shares nothing with
//! the plan but policy and places. Must not choose a Pod.

use std::collections::HashSet;
use std::sync::Arc;

use super::Policy;
use super::place::{Place, Selection};

/// What deletions are measured by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    budget: usize,
    /// UIDs of Pods whose deletion takes no running agent.
    idle: HashSet<Arc<str>>,
}

impl Guard {
    /// Counts for itself.
    #[must_use]
    pub fn count<R>(policy: &Policy, places: &[Place<'_, R>]) -> Self {
        let selected = places.iter().filter(|place| place.selection == Selection::Selected).count();
        let pods = places.iter().filter_map(|place| place.occupant).map(|occupant| occupant.pod);
        let idle = pods.filter(|pod| pod.ready_since.is_none()).map(|pod| pod.uid.clone()).collect();
        Self { budget: policy.budget.of(selected), idle }
    }

    /// Whether a Pod's deletion takes a running agent, whatever the plan says of it; of one that nobody knows it does.
    #[must_use]
    pub fn costs(&self, uid: &str) -> bool {
        !self.idle.contains(uid)
    }

    /// Whether one more of its kind may be in flight; those that cost nothing are bounded too.
    #[must_use]
    pub fn admits(&self, in_flight: usize) -> bool {
        in_flight < self.budget
    }
}
