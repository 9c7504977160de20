//! Metrics of OneAgents, beside those that every kind has.
//!
//! Must not count anything itself.

use chrono::TimeDelta;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::kernel::Key;
use crate::telemetry::{Metrics, States};

#[derive(Debug)]
pub struct OwnMetrics {
    applied: Counter,
    rollout: States,
    without: Histogram,
}

/// Upper bounds in seconds: an installer takes minutes, a node that went away longer.
const WITHOUT: [f64; 10] = [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

impl OwnMetrics {
    /// Registered beside those of every kind.
    #[must_use]
    pub fn new(all: &Metrics) -> Self {
        let own = Self { applied: Counter::default(), rollout: States::default(), without: Histogram::new(WITHOUT) };
        all.register("daemonsets_applied", "Writes of a DaemonSet", own.applied.clone());
        let help = "Nodes of a rollout: that may be without an agent because of it (budget), that are (inFlight), and \
            whose agent is to be replaced yet (left)";
        all.register("rollout_nodes", help, own.rollout.family());
        let help = "Time for which a node was without an available agent because a rollout replaced it, in seconds";
        all.register("replacement_seconds", help, own.without.clone());
        own
    }

    /// A DaemonSet was written.
    pub fn applied(&self) {
        self.applied.inc();
    }

    /// The rollout of a OneAgent.
    pub fn rollout(&self, key: &Key, budget: usize, in_flight: usize, left: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.rollout.set(key, [("budget", number(budget)), ("inFlight", number(in_flight)), ("left", number(left))]);
    }

    /// A node has an available agent again, so long after a rollout took its agent.
    pub fn replaced_in(&self, took: TimeDelta) {
        self.without.observe(took.as_seconds_f64().max(0.0));
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        self.rollout.forget(key);
    }
}
