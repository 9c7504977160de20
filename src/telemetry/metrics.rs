//! Metrics: few, with bounded labels. Names are Prometheus' own style; each help text gives the unit.
//!
//! Labels are namespaces, names and buckets only: no error text, no node.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kube::ResourceExt;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::api::rollout::NodeCounts;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nodes {
    namespace: String,
    name: String,
    state: &'static str,
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    reconciles: Family<Outcome, Counter>,
    seconds: Histogram,
    replaced: Counter,
    applied: Counter,
    statuses: Counter,
    nodes: Family<Nodes, Gauge>,
    leader: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("oneagent")),
            reconciles: Family::default(),
            seconds: Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            replaced: Counter::default(),
            applied: Counter::default(),
            statuses: Counter::default(),
            nodes: Family::default(),
            leader: Gauge::default(),
        };
        let mut registry = metrics.registry.lock();
        registry.register("reconciles", "Looks at a OneAgent, by result", metrics.reconciles.clone());
        registry.register("reconcile_seconds", "Duration of a look at a OneAgent, in seconds", metrics.seconds.clone());
        registry.register("pods_replaced", "Pods deleted in order to be replaced", metrics.replaced.clone());
        registry.register("daemonsets_applied", "Writes of a DaemonSet", metrics.applied.clone());
        registry.register("statuses_written", "Writes of a status", metrics.statuses.clone());
        registry.register(
            "nodes",
            "Nodes of a OneAgent, by state; the states are those of status.nodes",
            metrics.nodes.clone(),
        );
        registry.register("leader", "1 where this process acts, 0 where it stands by", metrics.leader.clone());
        drop(registry);
        metrics
    }
}

impl Metrics {
    /// A look at a OneAgent.
    pub fn reconciled(&self, good: bool, took: Duration) {
        self.reconciles.get_or_create(&Outcome { result: if good { "success" } else { "error" } }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A Pod was deleted in order to be replaced.
    pub fn replaced(&self) {
        self.replaced.inc();
    }

    /// A DaemonSet was written.
    pub fn applied(&self) {
        self.applied.inc();
    }

    /// A status was written.
    pub fn status_written(&self) {
        self.statuses.inc();
    }

    /// Whether this process acts.
    pub fn leads(&self, leads: bool) {
        self.leader.set(f64::from(u8::from(leads)));
    }

    /// The counts of a OneAgent.
    pub fn nodes(&self, object: &OneAgent, status: &OneAgentStatus) {
        let Some(counts) = &status.nodes else { return };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        for (state, count) in states(counts) {
            self.nodes
                .get_or_create(&Nodes { namespace: namespace.clone(), name: name.clone(), state })
                .set(i64::from(count));
        }
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, (namespace, name): &(String, String)) {
        for (state, _) in states(&NodeCounts::default()) {
            self.nodes.remove(&Nodes { namespace: namespace.clone(), name: name.clone(), state });
        }
    }

    /// The text that a scrape gets.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
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
