//! How many nodes lack a Pod for which cause, as a person reads it in a terminal and on the page.
//!
//! Pure. Must not judge a node: it words the counts of a status.

use std::fmt;

use serde::Serialize;

use super::closed::{ARCH, NAMESPACE_SELECTOR, OVERLAP, UNTOLERATED};
use crate::api::rollout::NodeCounts;

/// Nodes that can run no Pod for one cause.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOut {
    cause: &'static str,
    nodes: i32,
    examples: Vec<String>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, nodes, examples } = self;
        let such = if i32::try_from(examples.len()) == Ok(*nodes) { ": " } else { ", such as " };
        let names = if examples.is_empty() { String::new() } else { format!("{such}{}", examples.join(", ")) };
        let more = if *nodes == 1 { "1 more node gets" } else { &format!("{nodes} more nodes get") };
        write!(f, "{more} no new Pod: {cause}{names}")
    }
}

/// How many nodes have no available Pod, for each cause that there is.
#[must_use]
pub fn without_pod(counts: &NodeCounts) -> Vec<(&'static str, i32)> {
    let all = [
        ("crashing", counts.crash),
        ("overdue", counts.overdue),
        ("image not pulled", counts.image),
        ("refused", counts.admission),
        ("Secret or ConfigMap missing", counts.config),
        ("no room", counts.capacity),
        ("lost", counts.node_lost),
        ("pulling", counts.pulling),
        ("starting", counts.starting),
        ("terminating", counts.terminating),
        ("cordoned or drained", counts.node_busy),
        ("NotReady", counts.node_not_ready),
    ];
    all.into_iter().filter(|(_, nodes)| *nodes > 0).collect()
}

/// The same in a line, if there is such a node.
#[must_use]
pub fn by_cause(causes: &[(&'static str, i32)]) -> Option<String> {
    let all: Vec<String> = causes.iter().map(|(cause, nodes)| format!("{nodes} {cause}")).collect();
    (!all.is_empty()).then(|| format!("without an available Pod: {}", all.join(", ")))
}

/// Nodes that match and can run no Pod, by cause.
#[must_use]
pub fn left_out(counts: &NodeCounts) -> Vec<LeftOut> {
    let all = [
        (UNTOLERATED, "a taint is not tolerated", counts.untolerated),
        (ARCH, "there is no agent for their architecture", counts.arch),
        (NAMESPACE_SELECTOR, "the namespace's node selector excludes them", counts.namespace_selector),
        (OVERLAP, "an older OneAgent keeps them", counts.overlap),
    ];
    let of = |(bucket, cause, nodes): (&str, &'static str, i32)| {
        let examples = counts.examples.get(bucket).cloned().unwrap_or_default();
        (nodes > 0).then_some(LeftOut { cause, nodes, examples })
    };
    all.into_iter().filter_map(of).collect()
}

/// All of it, a line each.
#[must_use]
pub fn said(counts: &NodeCounts) -> Vec<String> {
    let left_out = left_out(counts);
    by_cause(&without_pod(counts)).into_iter().chain(left_out.iter().map(ToString::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_counted_and_nodes_that_are_left_out_are_named() {
        let examples = [(UNTOLERATED.to_owned(), vec!["a-1".to_owned()])].into();
        let counts = NodeCounts { crash: 2, starting: 1, untolerated: 3, arch: 1, examples, ..NodeCounts::default() };
        assert_eq!(
            said(&counts),
            [
                "without an available Pod: 2 crashing, 1 starting",
                "3 more nodes get no new Pod: a taint is not tolerated, such as a-1",
                "1 more node gets no new Pod: there is no agent for their architecture",
            ]
        );
        assert_eq!(said(&NodeCounts::default()), [""; 0]);
    }
}
