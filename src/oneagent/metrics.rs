//! Metrics of OneAgents, beside those that every kind has.
//!
//! The states are those of `status.nodes`. Must not count anything itself.

use chrono::TimeDelta;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::api::rollout::NodeCounts;
use crate::kernel::Key;
use crate::telemetry::{Metrics, States};

#[derive(Debug)]
pub struct OwnMetrics {
    pub all: Metrics,
    applied: Counter,
    nodes: States,
    rollout: States,
    without: Histogram,
}

/// Upper bounds in seconds: an installer takes minutes, a node that went away longer.
const WITHOUT: [f64; 10] = [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

impl Default for OwnMetrics {
    fn default() -> Self {
        let own = Self {
            all: Metrics::new("oneagent", "OneAgent"),
            applied: Counter::default(),
            nodes: States::default(),
            rollout: States::default(),
            without: Histogram::new(WITHOUT),
        };
        own.all.register("daemonsets_applied", "Writes of a DaemonSet", own.applied.clone());
        let help = "Nodes of a OneAgent, by state; the states are those of status.nodes";
        own.all.register("nodes", help, own.nodes.family());
        let help = "Nodes of a rollout: that may be without an agent because of it (budget), that are (inFlight), and \
            whose agent is to be replaced yet (left)";
        own.all.register("rollout_nodes", help, own.rollout.family());
        let help = "Time for which a node was without an available agent because a rollout replaced it, in seconds";
        own.all.register("replacement_seconds", help, own.without.clone());
        own
    }
}

impl OwnMetrics {
    /// A DaemonSet was written.
    pub fn applied(&self) {
        self.applied.inc();
    }

    /// The counts of a OneAgent.
    pub fn nodes(&self, key: &Key, counts: &NodeCounts) {
        self.nodes.set(key, &states(counts));
    }

    /// The rollout of a OneAgent.
    pub fn rollout(&self, key: &Key, counts: (usize, usize, usize)) {
        self.rollout.set(key, &rollout(counts));
    }

    /// A node has an available agent again, so long after a rollout took its agent.
    pub fn replaced_in(&self, took: TimeDelta) {
        self.without.observe(took.as_seconds_f64().max(0.0));
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        self.all.forget(key);
        self.nodes.forget(key, &states(&NodeCounts::default()));
        self.rollout.forget(key, &rollout((0, 0, 0)));
    }
}

/// The states of a rollout that are counted.
fn rollout((budget, in_flight, left): (usize, usize, usize)) -> [(&'static str, i32); 3] {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    [("budget", number(budget)), ("inFlight", number(in_flight)), ("left", number(left))]
}

/// The states of a fleet that are counted, by the names of `status.nodes`.
fn states(counts: &NodeCounts) -> [(&'static str, i32); 23] {
    [
        ("selected", counts.selected),
        ("running", counts.running),
        ("updated", counts.updated),
        ("outdated", counts.outdated),
        ("versionUnknown", counts.version_unknown),
        ("heldBack", counts.held_back),
        ("surplus", counts.surplus),
        ("untolerated", counts.untolerated),
        ("arch", counts.arch),
        ("namespaceSelector", counts.namespace_selector),
        ("overlap", counts.overlap),
        ("nodeNotReady", counts.node_not_ready),
        ("nodeLost", counts.node_lost),
        ("nodeBusy", counts.node_busy),
        ("capacity", counts.capacity),
        ("admission", counts.admission),
        ("image", counts.image),
        ("config", counts.config),
        ("crash", counts.crash),
        ("pulling", counts.pulling),
        ("starting", counts.starting),
        ("overdue", counts.overdue),
        ("terminating", counts.terminating),
    ]
}
