//! Near nodes: those whose labels the nodeSelector of a OneAgent matches, kept while nodes come, change and go. So a
//! look at one OneAgent of many reads its own nodes, not all of the cluster.
//!
//! Must not read taints or affinity: each look judges those.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::Fleet;
use crate::k8s::node::Node;
use crate::k8s::placement::has_labels;
use crate::kernel::Key;

type Nodes = BTreeMap<Arc<str>, Arc<Node>>;

/// What a OneAgent's nodeSelector matches.
#[derive(Debug)]
struct Matched {
    selector: BTreeMap<String, String>,
    nodes: Nodes,
}

/// Those of every OneAgent that was looked at.
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

    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.values_mut().for_each(|matched| matched.nodes.retain(|name, _| is_there(name)));
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    fn of(&mut self, key: &Key, selector: &BTreeMap<String, String>, all: &Nodes) -> &Nodes {
        let matched = self.0.remove(key).filter(|matched| matched.selector == *selector).unwrap_or_else(|| {
            let is_near = |(_, node): &(&Arc<str>, &Arc<Node>)| has_labels(node, selector);
            let nodes = all.iter().filter(is_near).map(|(name, node)| (name.clone(), node.clone())).collect();
            Matched { selector: selector.clone(), nodes }
        });
        &self.0.entry(key.clone()).insert_entry(matched).into_mut().nodes
    }
}

impl Fleet {
    /// The nodes that matter to a OneAgent, by name: those that its `selector` matches, those with one of its Pods,
    /// those that it remembers by name and those that have the address of a node which it knew and which is gone.
    pub fn near<'n>(
        &self,
        key: &Key,
        selector: &BTreeMap<String, String>,
        names: impl Iterator<Item = &'n str>,
        known: impl Iterator<Item = (&'n str, IpAddr)>,
    ) -> Vec<Arc<Node>> {
        let mut inner = self.write();
        let super::Inner { near, nodes: all, pods, .. } = &mut *inner;
        let matched = near.of(key, selector, all);
        if matched.len() == all.len() {
            return matched.values().cloned().collect();
        }
        let mut others = Nodes::new();
        let mut add = |name: &str| match all.get_key_value(name) {
            Some((name, _)) if matched.contains_key(name) => true,
            Some((name, node)) => {
                others.insert(name.clone(), node.clone());
                true
            }
            None => false,
        };
        for seen in pods.get(key).into_iter().flat_map(BTreeMap::values) {
            add(&seen.pod.node);
        }
        for name in names {
            add(name);
        }
        let gone: BTreeSet<IpAddr> = known.filter(|(name, _)| !add(name)).map(|(_, ip)| ip).collect();
        if !gone.is_empty() {
            let has_one = |node: &&Arc<Node>| node.ip.is_some_and(|ip| gone.contains(&ip));
            others.extend(all.values().filter(has_one).map(|node| (node.name.clone(), node.clone())));
        }
        if others.is_empty() {
            return matched.values().cloned().collect();
        }
        others.extend(matched.iter().map(|(name, node)| (name.clone(), node.clone())));
        others.into_values().collect()
    }
}
