//! Resolve: what the spec means, defaults included; or which field is invalid, and the remedy.
//!
//! Pure. Must not look at a ConfigMap or a Pod.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use kube::ResourceExt;

use crate::api::config_watcher::{ConfigWatcher, Rollout};
use crate::api::rollout::written;
use crate::fleet::{policy, selector};
use crate::k8s::names::is_object_name;
use crate::rollout::{Policy, Share};

/// What the spec means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub namespace: String,
    pub name: String,
    pub config_map: String,
    pub selector: BTreeMap<String, String>,
    /// Kinds whose Pods are created again, beside those that are known, with their API group.
    pub owner_kinds: Vec<String>,
    pub debounce: TimeDelta,
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
pub fn resolve(object: &ConfigWatcher) -> Result<Resolved, String> {
    let spec = &object.spec;
    let mut wrong = Vec::new();
    if !is_object_name(&spec.config_map) {
        wrong.push(format!(
            "spec.configMap is {:?}, which is no name of a ConfigMap: use lower-case letters, digits, dashes and dots",
            spec.config_map
        ));
    }
    selector::check("spec.podSelector", &spec.pod_selector, "app: webapp", &mut wrong);
    for kind in &spec.owner_kinds {
        let (name, group) = kind.split_once('.').unwrap_or((kind, ""));
        let is_kind =
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_kind || !is_object_name(group) {
            wrong.push(format!(
                "spec.ownerKinds has {kind:?}: write kind and API group, such as CloneSet.apps.kruise.io"
            ));
        }
    }
    let none = Rollout::default();
    let rollout = spec.rollout.as_ref().unwrap_or(&none);
    let budget = rollout.max_unavailable.as_ref().map_or(Ok(Share::Count(1)), |share| written(share).parse());
    let budget = budget.unwrap_or_else(|why: String| {
        wrong.push(format!("spec.rollout.maxUnavailable: {why}"));
        Share::Count(1)
    });
    let calendar = policy::calendar(&rollout.windows, &rollout.blackouts, &mut wrong);
    let canary = rollout
        .canary
        .as_ref()
        .and_then(|canary| policy::canary(("pods", canary.pods.as_ref()), false, canary.soak.as_deref(), &mut wrong));
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let seconds = |seconds: Option<u32>, default| TimeDelta::seconds(seconds.map_or(default, i64::from));
    Ok(Resolved {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        config_map: spec.config_map.clone(),
        selector: spec.pod_selector.clone(),
        owner_kinds: spec.owner_kinds.clone(),
        debounce: seconds(spec.debounce_seconds, 5),
        policy: Policy {
            min_ready: seconds(rollout.min_ready_seconds, 0),
            calendar,
            canary,
            max_failures: rollout.max_failures.map(|count| count as usize),
            ..Policy::plain(budget, seconds(rollout.wait_ready_seconds, 300))
        },
        paused: rollout.paused == Some(true),
    })
}
