//! Near nodes: those whose labels the nodeSelector of an object matches, kept while nodes come, change and go. So the
//! reconcile of one object of many reads its own nodes, not all of the cluster.
//!
//! Pure. Must not read taints or affinity: each reconcile judges those.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::k8s::node::Node;
use crate::k8s::placement::has_labels;
use crate::k8s::watch::Key;

/// Nodes by name.
pub(super) type Nodes = BTreeMap<Arc<str>, Arc<Node>>;

/// What the nodeSelector of an object matches.
#[derive(Debug)]
struct Matched {
    selector: BTreeMap<String, String>,
    nodes: Nodes,
}

/// Those of every object that was reconciled.
#[derive(Debug, Default)]
pub(super) struct Near(HashMap<Key, Matched>);

impl Near {
    /// Takes a node as it is now; `before`: as it was.
    pub(super) fn see(&mut self, before: Option<&Node>, node: &Arc<Node>) {
        let is_labelled_as_before = before.is_some_and(|before| before.labels == node.labels);
        for matched in self.0.values_mut() {
            if is_labelled_as_before {
                if let Some(known) = matched.nodes.get_mut(&node.name) {
                    *known = node.clone();
                }
            } else if has_labels(node, &matched.selector) {
                matched.nodes.insert(node.name.clone(), node.clone());
            } else {
                matched.nodes.remove(&node.name);
            }
        }
    }

    /// Drops all other nodes.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.values_mut().for_each(|matched| matched.nodes.retain(|name, _| is_there(name)));
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Those of an object, of `all`.
    pub(super) fn of(&mut self, key: &Key, selector: &BTreeMap<String, String>, all: &Nodes) -> &Nodes {
        let matched = self.0.remove(key).filter(|matched| matched.selector == *selector).unwrap_or_else(|| {
            let is_near = |(_, node): &(&Arc<str>, &Arc<Node>)| has_labels(node, selector);
            let nodes = all.iter().filter(is_near).map(|(name, node)| (name.clone(), node.clone())).collect();
            Matched { selector: selector.clone(), nodes }
        });
        &self.0.entry(key.clone()).insert_entry(matched).into_mut().nodes
    }
}
