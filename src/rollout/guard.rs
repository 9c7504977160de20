//! The guard: the last word before a Pod is deleted, with a count of its own.
//!
//! Here so that a planner that is wrong, or lies, cannot take more agents than the policy allows. Shares nothing with
//! the plan but policy, nodes and Pods. Must not choose a Pod.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Pod, Policy};
use crate::k8s::node::Node;
use crate::k8s::placement::Verdict;

/// What deletions are measured by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    budget: usize,
    /// UIDs of Pods whose deletion may take a running agent.
    running: HashSet<Arc<str>>,
}

impl Guard {
    /// Counts for itself.
    #[must_use]
    pub fn count(policy: &Policy, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Self {
        let selected = nodes.iter().filter(|node| policy.placement.verdict(node) == Verdict::Selected).count();
        let running = pods.iter().filter(|pod| pod.ready_since.is_some()).map(|pod| pod.uid.clone()).collect();
        Self { budget: policy.budget.of(selected), running }
    }

    /// Whether a Pod's deletion takes a running agent, whatever the plan says of it.
    #[must_use]
    pub fn costs(&self, uid: &str) -> bool {
        self.running.contains(uid)
    }

    /// Whether one more of its kind may be in flight; those that cost nothing are bounded too.
    #[must_use]
    pub fn admits(&self, in_flight: usize) -> bool {
        in_flight < self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::name::Share;
    use crate::k8s::placement::Placement;
    use chrono::{DateTime, TimeDelta};

    #[test]
    fn it_counts_nodes_and_running_agents_itself() {
        let placement = Placement { selector: [("a".to_owned(), "b".to_owned())].into(), ..Placement::default() };
        let policy = Policy { budget: Share::Percent(50), min_ready: TimeDelta::zero(), wait_ready: TimeDelta::zero(), hold: None, placement };
        let node = |name: &str, label: &str| Arc::new(Node { labels: [("a".to_owned(), label.to_owned())].into(), ..Node::named(name) });
        let pod = |uid: &str, ready: bool| Arc::new(Pod { ready_since: ready.then_some(DateTime::UNIX_EPOCH), ..Pod::named(uid, "n") });
        let guard = Guard::count(
            &policy,
            &[node("1", "b"), node("2", "b"), node("3", "b"), node("4", "b"), node("5", "c")],
            &[pod("u", true), pod("v", false)],
        );
        assert!(guard.admits(1) && !guard.admits(2), "half of four, for the fifth is not selected");
        assert!(guard.costs("u") && !guard.costs("v"));
    }
}
