//! Metrics of OneAgents, beside those that every kind has.
//!
//! The states are those of `status.nodes`. Must not count anything itself.

use prometheus_client::metrics::counter::Counter;

use crate::api::rollout::NodeCounts;
use crate::kernel::Key;
use crate::telemetry::{Metrics, States};

#[derive(Debug)]
pub struct OwnMetrics {
    pub all: Metrics,
    applied: Counter,
    nodes: States,
}

impl Default for OwnMetrics {
    fn default() -> Self {
        let own =
            Self { all: Metrics::new("oneagent", "OneAgent"), applied: Counter::default(), nodes: States::default() };
        own.all.register("daemonsets_applied", "Writes of a DaemonSet", own.applied.clone());
        let help = "Nodes of a OneAgent, by state; the states are those of status.nodes";
        own.all.register("nodes", help, own.nodes.family());
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

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        self.all.forget(key);
        self.nodes.forget(key, &states(&NodeCounts::default()));
    }
}

/// The states of a fleet that are counted, by the names of `status.nodes`.
fn states(counts: &NodeCounts) -> [(&'static str, i32); 22] {
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
        ("starting", counts.starting),
        ("overdue", counts.overdue),
        ("terminating", counts.terminating),
    ]
}
