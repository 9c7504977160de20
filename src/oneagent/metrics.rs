//! Metrics of OneAgents, beside those that every kind has.
//!
//! Must not count anything itself.

use prometheus_client::metrics::counter::Counter;

use crate::telemetry::{Metrics, Rollouts};

#[derive(Debug)]
pub struct OwnMetrics {
    applied: Counter,
    pub rollouts: Rollouts,
}

impl OwnMetrics {
    /// Registered beside those of every kind.
    #[must_use]
    pub fn new(all: &Metrics) -> Self {
        let own = Self { applied: Counter::default(), rollouts: Rollouts::registered(all) };
        all.register("daemonsets_applied", "Writes of a DaemonSet", own.applied.clone());
        own
    }

    /// A DaemonSet was written.
    pub fn applied(&self) {
        self.applied.inc();
    }
}
