//! What closes a node to new Pods of a DaemonSet, and under which name a status counts it.
//!
//! Pure. Must not find out whether one is closed.

use crate::rollout::Closed;

pub const UNTOLERATED: &str = "untolerated";
pub const ARCH: &str = "arch";
pub const NAMESPACE_SELECTOR: &str = "namespaceSelector";
pub const OVERLAP: &str = "overlap";

/// A taint that is not tolerated: it concerns no Pod that runs.
#[must_use]
pub fn untolerated(taint: String) -> Closed {
    Closed { name: UNTOLERATED, by: Some(taint), keeps_pods: true, may_open: true }
}

/// An architecture that there is no agent for.
#[must_use]
pub fn arch(architecture: String) -> Closed {
    Closed { name: ARCH, by: Some(architecture), keeps_pods: false, may_open: false }
}

/// The namespace's own node selector.
#[must_use]
pub fn namespace_selector() -> Closed {
    Closed { name: NAMESPACE_SELECTOR, by: None, keeps_pods: false, may_open: true }
}

/// Another object of the kind, which keeps it.
#[must_use]
pub fn overlap(other: String) -> Closed {
    Closed { name: OVERLAP, by: Some(other), keeps_pods: false, may_open: false }
}
