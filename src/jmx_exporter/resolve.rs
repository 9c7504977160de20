//! Resolve: what the spec means, defaults included; or which field is invalid, and the remedy.
//!
//! Pure. Must not look at a ConfigMap or a Pod.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use kube::ResourceExt;

use crate::api::jmx_exporter::{CanaryJvms, PrometheusJmxExporter, Rollout};
use crate::api::rollout::written;
use crate::fleet::{created, policy, selector};
use crate::k8s::names::is_object_name;
use crate::k8s::quantity::quantity;
use crate::rollout::{Policy, Share};

/// Within this time a container that joins a Pod is started.
const WAIT: TimeDelta = TimeDelta::minutes(5);
/// Memory that a container must have left where nothing is said.
const MEMORY: &str = "96Mi";
/// For how long canaries are watched where nothing is said.
const SOAK: &str = "10s";

/// What the spec means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub namespace: String,
    pub name: String,
    /// When the object was created: of two that select a Pod the older keeps it.
    pub created: DateTime<Utc>,
    pub selector: BTreeMap<String, String>,
    pub config_map: String,
    pub key: String,
    pub port: u16,
    /// The container that is meant; `None`: the one that has a JVM.
    pub container: Option<String>,
    /// A quantity.
    pub min_free_memory: String,
    pub policy: Policy,
    pub paused: bool,
}

impl Resolved {
    /// Whether a Pod of the namespace is meant.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        selector::selects(&self.selector, labels)
    }
}

/// The meaning of a spec, or what to fix.
pub fn resolve(object: &PrometheusJmxExporter) -> Result<Resolved, String> {
    let spec = &object.spec;
    let mut wrong = Vec::new();
    selector::check("spec.labelSelector", &spec.label_selector, "app: dummyapp", &mut wrong);
    if !is_object_name(&spec.config.config_map_name) {
        wrong.push(format!(
            "spec.config.configMapName is {:?}, which is no name of a ConfigMap: use lower-case letters, digits, \
            dashes and dots",
            spec.config.config_map_name
        ));
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if spec.config.config_map_key.is_empty() || !spec.config.config_map_key.chars().all(is_key) {
        wrong.push(format!(
            "spec.config.configMapKey is {:?}, which no key of a ConfigMap can be: use letters, digits, dashes, \
            underscores and dots, such as config.yaml",
            spec.config.config_map_key
        ));
    }
    let port = u16::try_from(spec.port).ok().filter(|port| *port > 0);
    let port = port.unwrap_or_else(|| {
        wrong.push(format!("spec.port is {}: use a number from 1 to 65535", spec.port));
        1
    });
    let min_free_memory = spec.min_free_memory.as_ref().map_or_else(|| MEMORY.to_owned(), written);
    if quantity(&min_free_memory).is_none_or(|bytes| bytes < 0.0) {
        wrong.push(format!("spec.minFreeMemory is {min_free_memory:?}: use a quantity such as 96Mi, or 0"));
    }
    let (none, canaries) = (Rollout::default(), CanaryJvms::default());
    let rollout = spec.rollout.as_ref().unwrap_or(&none);
    let budget = rollout.max_concurrent.as_ref().map_or(Ok(Share::Percent(10)), |share| written(share).parse());
    let budget = budget.unwrap_or_else(|why: String| {
        wrong.push(format!("spec.rollout.maxConcurrent: {why}"));
        Share::Count(1)
    });
    let calendar = policy::calendar(&rollout.windows, &rollout.blackouts, &mut wrong);
    let canary = rollout.canary.as_ref().unwrap_or(&canaries);
    let soak = canary.soak.as_deref().filter(|soak| !soak.is_empty()).unwrap_or(SOAK);
    let canary = policy::canary(("pods", canary.pods.as_ref()), false, Some(soak), &mut wrong);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    Ok(Resolved {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        created: created(object.metadata.creation_timestamp.as_ref()),
        selector: spec.label_selector.clone(),
        config_map: spec.config.config_map_name.clone(),
        key: spec.config.config_map_key.clone(),
        port,
        container: spec.container.clone(),
        min_free_memory,
        policy: Policy {
            calendar,
            canary,
            max_failures: Some(rollout.max_failures.map_or(1, |count| count as usize)),
            ..Policy::plain(budget, WAIT)
        },
        paused: rollout.paused == Some(true),
    })
}
