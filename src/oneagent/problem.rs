//! What a human must fix: a reason, and a sentence with the remedy.
//!
//! Pure. Here because all that find one must word it alike. Must not look for any.

use super::observe::Observed;
use crate::api::oneagent::condition::Reason;
use crate::k8s::node_selector::NODE_SELECTORS;

/// Something that a human must fix, most important first in a list.
pub type Problem = (Reason, String);

/// Whose node selector it is that keeps agents off nodes, as the subject of a sentence.
pub fn whose_selector(namespace: &str, seen: &Observed) -> String {
    if seen.selector_is_default {
        format!(
            "the cluster has a default node selector (spec.defaultNodeSelector of Scheduler cluster), which namespace \
            {namespace} does not set aside"
        )
    } else {
        format!("namespace {namespace} has a node selector of its own")
    }
}

/// The command that lifts the node selectors of a namespace.
pub fn lift_selectors(namespace: &str) -> String {
    format!(
        "kubectl annotate namespace {namespace} --overwrite {}",
        NODE_SELECTORS.map(|key| format!("{key}=")).join(" ")
    )
}
