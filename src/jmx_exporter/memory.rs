//! What must outlive us of a PrometheusJmxExporter, as its status keeps it.
//!
//! Pure. What does not read is as if it were not there: the Pods themselves say what was done to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::export::Export;
use crate::api::jmx_exporter::PrometheusJmxExporterStatus;
use crate::rollout;

/// What must outlive us.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the engine remembers.
    #[serde(default)]
    pub engine: rollout::Memory<Export>,
    /// How JVMs came to harm: only an edit of the spec is a reason to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harmed: Option<String>,
    /// How each of them did, by UID of its Pod, while more are allowed: a Pod that is deleted is not forgotten.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub harms: BTreeMap<String, String>,
    /// Runs that failed before the last edit of the spec: they no longer count against anything.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forgiven: BTreeSet<String>,
}

/// What a status remembers.
#[must_use]
pub fn read(status: &PrometheusJmxExporterStatus) -> Memory {
    let stored = status.rollout.as_ref().and_then(|rollout| rollout.memory.clone());
    stored.and_then(|stored| serde_json::from_value(stored).ok()).unwrap_or_default()
}
