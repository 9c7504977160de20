//! What the kind is made of, and what a reconcile of a PrometheusJmxExporter may use.
//!
//! Data. Must not do anything.

use super::fleet::Fleet;
use super::metrics::OwnMetrics;
use crate::kernel::kind;

/// One reconcile of a PrometheusJmxExporter.
pub type Cx<'r> = kind::Cx<'r, JmxExporters>;

/// What the kind is made of.
#[derive(Debug)]
pub struct JmxExporters {
    pub fleet: Fleet,
    /// The operator's own image, which the containers run that join Pods; empty: unknown.
    pub image: String,
    pub metrics: OwnMetrics,
}

impl JmxExporters {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(image: String, metrics: OwnMetrics) -> Self {
        Self { fleet: Fleet::default(), image, metrics }
    }
}
