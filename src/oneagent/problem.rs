//! What a human must mend: a reason, and a sentence with the remedy.
//!
//! Here because whoever finds one must word it as all others do. Must not look for any.

use crate::api::oneagent::condition::Reason;
use crate::k8s::node_selector::NODE_SELECTORS;

/// Something that a human must mend, most important first in a list.
pub type Problem = (Reason, String);

/// The command that lifts the node selectors of a namespace.
pub fn lift_selectors(namespace: &str) -> String {
    format!(
        "kubectl annotate namespace {namespace} --overwrite {}",
        NODE_SELECTORS.map(|key| format!("{key}=")).join(" ")
    )
}
