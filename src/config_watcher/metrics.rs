//! Metrics of ConfigWatchers, beside those that every kind has.
//!
//! The states are those of `status.pods`. Must not count anything itself.

use crate::api::config_watcher::PodCounts;
use crate::kernel::Key;
use crate::telemetry::{Metrics, States};

#[derive(Debug)]
pub struct OwnMetrics {
    pub all: Metrics,
    pods: States,
}

impl Default for OwnMetrics {
    fn default() -> Self {
        let own = Self { all: Metrics::new("configwatcher", "ConfigWatcher"), pods: States::default() };
        let help = "Pods of a ConfigWatcher, by state; the states are those of status.pods";
        own.all.register("pods", help, own.pods.family());
        own
    }
}

impl OwnMetrics {
    /// The counts of a ConfigWatcher.
    pub fn pods(&self, key: &Key, counts: &PodCounts) {
        self.pods.set(key, &states(counts));
    }

    /// Forgets a ConfigWatcher that is gone.
    pub fn forget(&self, key: &Key) {
        self.all.forget(key);
        self.pods.forget(key, &states(&PodCounts::default()));
    }
}

fn states(counts: &PodCounts) -> [(&'static str, i32); 6] {
    [
        ("selected", counts.selected),
        ("updated", counts.updated),
        ("outdated", counts.outdated),
        ("blocked", counts.blocked),
        ("skipped", counts.skipped),
        ("unavailable", counts.unavailable),
    ]
}
