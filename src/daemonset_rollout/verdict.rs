//! Whether a DaemonSet may be served, and if not, why: what must be so before any of its Pods is replaced.
//!
//! Pure. Must not look at a Pod.

use k8s_openapi::api::apps::v1::DaemonSet;

use super::resolve::Resolved;
use super::source::other_controller;
use crate::api::daemonset_rollout::condition::Reason;
use crate::api::nearest::nearest;
use crate::k8s::source::{owner, source};

/// What a human must fix: a reason, and a sentence with the remedy.
pub type Problem = (Reason, String);

/// What is known of the surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The DaemonSets of the namespace.
    pub names: &'a [String],
    /// An older object that names the same DaemonSet.
    pub older: Option<&'a str>,
}

/// Its update strategy.
#[must_use]
pub fn strategy(set: &DaemonSet) -> &str {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
    // The API server's default.
    strategy.unwrap_or("RollingUpdate")
}

/// Why no Pod may be replaced, if that is so.
#[must_use]
pub fn hands_off(resolved: &Resolved, set: Option<&DaemonSet>, around: Around<'_>) -> Option<Problem> {
    let Resolved { namespace, daemon_set, .. } = resolved;
    let name = format!("DaemonSet {namespace}/{daemon_set}");
    let Some(set) = set else {
        let near = nearest(daemon_set, around.names);
        let message = format!("{name} does not exist: create it, or correct spec.daemonSet{near}");
        return Some((Reason::DaemonSetNotFound, message));
    };
    if set.metadata.deletion_timestamp.is_some() {
        let message = format!("{name} is being deleted, and its Pods would not be created again");
        return Some((Reason::DaemonSetNotFound, message));
    }
    if let Some(older) = around.older {
        let message =
            format!("{name} is served by DaemonSetRollout {older}, which is older: delete one of the two objects");
        return Some((Reason::Duplicate, message));
    }
    if let Some(other) = other_controller(set) {
        let message = format!("the Pods of {name} are replaced by {other}: remove one of the two");
        return Some((Reason::OtherController, message));
    }
    if let Some(owner) = owner(&set.metadata).filter(|_| !resolved.accepts_owner) {
        let message = format!(
            "{name} is controlled by {owner}: if that leaves the Pods of an OnDelete DaemonSet alone, set \
            spec.acceptOwner to true; docs/daemonsetrollout.md has what is known of operators"
        );
        return Some((Reason::OwnerNotAccepted, message));
    }
    let strategy = strategy(set);
    if strategy != "OnDelete" {
        let remedy = match source(&set.metadata) {
            Some(source) => format!("set updateStrategy.type to OnDelete where it comes from, which is {source}"),
            None => format!(
                "kubectl -n {namespace} patch daemonset {daemon_set} --type merge -p \
                '{{\"spec\":{{\"updateStrategy\":{{\"type\":\"OnDelete\",\"rollingUpdate\":null}}}}}}'"
            ),
        };
        let message = format!(
            "{name} has update strategy {strategy}, so Kubernetes replaces its Pods itself: {remedy}; or delete this \
            object"
        );
        return Some((Reason::NotOnDelete, message));
    }
    None
}
