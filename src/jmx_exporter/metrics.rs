//! Metrics of PrometheusJmxExporters, beside those that every kind has.
//!
//! Must not count anything itself.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::run::{Came, Run, Why};
use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    result: String,
}

#[derive(Debug, Default)]
pub struct OwnMetrics {
    attaches: Family<Label, Counter>,
}

impl OwnMetrics {
    /// Registered beside those of every kind.
    #[must_use]
    pub fn new(all: &Metrics) -> Self {
        let own = Self::default();
        all.register("attaches", "Runs that ended, by result: Exporting, or the reason why not", own.attaches.clone());
        own
    }

    /// A run has ended.
    pub fn ended(&self, run: &Run) {
        let result = match &run.came {
            Came::Awaited(_) => return,
            Came::Exports(_) => "Exporting".to_owned(),
            Came::Refused(_, refused) => match refused.why {
                Why::Obstacle(obstacle) => obstacle.to_string(),
                Why::NotTaken => "ConfigRejected".to_owned(),
                Why::Void => "Void".to_owned(),
                Why::Silent => "HelperFailed".to_owned(),
            },
        };
        self.attaches.get_or_create(&Label { result }).inc();
    }
}
