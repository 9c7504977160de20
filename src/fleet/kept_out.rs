//! Nodes that a namespace's own node selector keeps a DaemonSet's Pods off.
//!
//! Must not decide what follows.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::k8s::node::Node;
use crate::k8s::node_selector::Selector;
use crate::k8s::placement::has_labels;
use crate::rollout::Pod;

/// The nodes outside of a node selector on which a Pod runs.
#[must_use]
pub fn outside<'a, R>(labels: &BTreeMap<String, String>, nodes: &[Arc<Node>], pods: &'a [Arc<Pod<R>>]) -> Vec<&'a str> {
    let outside: HashSet<&str> =
        nodes.iter().filter(|node| !has_labels(node, labels)).map(|node| &*node.name).collect();
    let runs = |pod: &&Arc<Pod<R>>| !pod.deleting && pod.ready_since.is_some() && outside.contains(&*pod.node);
    pods.iter().filter(runs).map(|pod| &*pod.node).collect()
}

/// Whether a Pod came to a node outside of a node selector since that was written.
#[must_use]
pub fn is_ignored<R>(selector: &Selector, nodes: &[Arc<Node>], pods: &[Arc<Pod<R>>]) -> bool {
    let outside: HashSet<&str> =
        nodes.iter().filter(|node| !has_labels(node, &selector.labels)).map(|node| &*node.name).collect();
    let came_since =
        |pod: &Arc<Pod<R>>| selector.since.is_some_and(|since| pod.created > since) && pod.ready_since.is_some();
    pods.iter().any(|pod| outside.contains(&*pod.node) && came_since(pod))
}
