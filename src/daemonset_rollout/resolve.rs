//! Resolve: what the spec means, defaults included; or which field is invalid, and the remedy.
//!
//! Pure. Must not look at a node.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use crate::api::daemonset_rollout::{DaemonSetRollout, Rollout};
use crate::api::schedule::OnFailure;
use crate::fleet::policy;
use crate::k8s::names::is_object_name;
use crate::rollout::Policy;

/// What the spec means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub namespace: String,
    pub name: String,
    pub daemon_set: String,
    /// Whether a DaemonSet that an operator controls may be served.
    pub accepts_owner: bool,
    /// Labels and annotations whose change alone replaces no Pod.
    pub ignore: Vec<String>,
    pub debounce: TimeDelta,
    pub policy: Policy,
    /// Labels of the nodes that go first, where they are named so.
    pub canary: BTreeMap<String, String>,
    /// Whether the last good template is put back where a revision failed.
    pub rolls_back: bool,
    /// A revision that failed and is to be tried again.
    pub retry: Option<String>,
    /// A revision whose canaries have soaked enough.
    pub promote: Option<String>,
    /// A revision that counts as failed.
    pub reject: Option<String>,
}

impl Resolved {
    /// With what the DaemonSet itself says of its Pods: the longer time counts.
    #[must_use]
    pub fn beside(mut self, set: Option<&DaemonSet>) -> Self {
        let own = set.and_then(|set| set.spec.as_ref()?.min_ready_seconds).unwrap_or_default();
        self.policy.min_ready = self.policy.min_ready.max(TimeDelta::seconds(own.into()));
        self
    }
}

/// The meaning of a spec, or what to fix.
pub fn resolve(object: &DaemonSetRollout) -> Result<Resolved, String> {
    let spec = &object.spec;
    let mut wrong = Vec::new();
    if !is_object_name(&spec.daemon_set) {
        wrong.push(format!(
            "spec.daemonSet is {:?}, which is no name of a DaemonSet: use lower-case letters, digits, dashes and dots",
            spec.daemon_set
        ));
    }
    let none = Rollout::default();
    let rollout = spec.rollout.as_ref().unwrap_or(&none);
    let wait_ready = TimeDelta::seconds(rollout.wait_ready_seconds.map_or(300, i64::from));
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let paused = || policy::paused((&namespace, &name), Some("daemonsetrollout"));
    let policy = policy::of_nodes(&rollout.pace, wait_ready, paused, &mut wrong);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    Ok(Resolved {
        namespace,
        name,
        daemon_set: spec.daemon_set.clone(),
        accepts_owner: spec.accept_owner == Some(true),
        ignore: spec.ignore.clone(),
        debounce: TimeDelta::seconds(spec.debounce_seconds.map_or(10, i64::from)),
        policy,
        canary: rollout.pace.canary.as_ref().map(|canary| canary.selector.clone()).unwrap_or_default(),
        rolls_back: rollout.on_failure == Some(OnFailure::Rollback),
        retry: rollout.retry.clone().filter(|retry| !retry.is_empty()),
        promote: rollout.promote.clone(),
        reject: rollout.reject.clone(),
    })
}
