//! DaemonSets as the watches show them: nodes, the DaemonSets' Pods and which nodes lost theirs, for any kind that owns
//! or serves DaemonSets.
//!
//! Pure: changes go in, and which objects they affect comes out; a node's heartbeat affects none. A new list updates
//! entries in place instead of building a second set. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use super::losses::Losses;
use super::near::{Near, Nodes};
use super::{nodes, pods};
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::node::Node;
use crate::k8s::watch::{Affects, Change, Key, key_of};
use crate::rollout::{Loss, Occupant, Place, Pod};

/// What a kind reads from the Pods of its DaemonSets.
pub trait Reads {
    /// What a Pod was made from.
    type Revision: Clone + PartialEq + Debug;
    /// What else is kept of a Pod. Most say the same, and share it.
    type Detail: PartialEq + Debug;

    /// The object that a Pod belongs to. Labels alone do not make a Pod ours: its DaemonSet must be its controller, for
    /// what is ours may be deleted.
    fn owner(facts: &PodFacts) -> Option<Key>;
    fn revision(facts: &PodFacts) -> Option<Self::Revision>;
    fn detail(facts: &PodFacts) -> Option<Self::Detail>;
}

/// What an event of a node changes.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// A heartbeat, say.
    Nothing,
    /// One node: as it was, if it was there, and as it is.
    One(Vec<Arc<Node>>),
    /// Nodes may be gone, of which an object may remember something that no longer selects them.
    Gone,
}

/// Nodes, DaemonSets and their Pods.
#[derive(Debug)]
pub struct DaemonSets<T: Reads> {
    nodes: Nodes,
    near: Near,
    pods: HashMap<Key, BTreeMap<Arc<str>, Seen<T>>>,
    sets: HashMap<Key, Arc<DaemonSet>>,
    losses: Losses,
}

#[derive(Debug)]
struct Seen<T: Reads> {
    pod: Arc<Pod<T::Revision>>,
    detail: Option<Arc<T::Detail>>,
}

impl<T: Reads> Default for DaemonSets<T> {
    fn default() -> Self {
        Self {
            nodes: Nodes::new(),
            near: Near::default(),
            pods: HashMap::new(),
            sets: HashMap::new(),
            losses: Losses::default(),
        }
    }
}

impl<T: Reads> DaemonSets<T> {
    /// Every node.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.values().cloned().collect()
    }

    /// The Pods of an object.
    #[must_use]
    pub fn pods(&self, key: &Key) -> Vec<Arc<Pod<T::Revision>>> {
        self.seen(key).map(|seen| seen.pod.clone()).collect()
    }

    /// Those of them of which this holds.
    #[must_use]
    pub fn pods_with(&self, key: &Key, is_meant: impl Fn(&T::Detail) -> bool) -> Vec<Arc<Pod<T::Revision>>> {
        let meant = self.seen(key).filter(|seen| seen.detail.as_deref().is_some_and(&is_meant));
        meant.map(|seen| seen.pod.clone()).collect()
    }

    /// What else is kept of them.
    pub fn details(&self, key: &Key) -> impl Iterator<Item = &Arc<T::Detail>> {
        self.seen(key).filter_map(|seen| seen.detail.as_ref())
    }

    fn seen(&self, key: &Key) -> impl Iterator<Item = &Seen<T>> {
        self.pods.get(key).into_iter().flat_map(BTreeMap::values)
    }

    /// The objects that have Pods.
    #[must_use]
    pub fn with_pods(&self) -> Vec<Key> {
        self.pods.keys().cloned().collect()
    }

    /// Whether an object has a DaemonSet or Pods.
    #[must_use]
    pub fn is_known(&self, key: &Key) -> bool {
        self.sets.contains_key(key) || self.pods.contains_key(key)
    }

    /// A DaemonSet.
    #[must_use]
    pub fn set(&self, key: &Key) -> Option<&Arc<DaemonSet>> {
        self.sets.get(key)
    }

    /// Names of the DaemonSets of a namespace.
    #[must_use]
    pub fn names(&self, namespace: &str) -> Vec<String> {
        let mut names: Vec<String> =
            self.sets.keys().filter(|key| key.0 == namespace).map(|key| key.1.clone()).collect();
        names.sort();
        names
    }

    /// The nodes that matter to an object, by name: those that its `selector` matches, those with one of its Pods,
    /// those that it remembers by name and those that have the address of a node which it knew and which is gone.
    pub fn near<'n>(
        &mut self,
        key: &Key,
        selector: &BTreeMap<String, String>,
        names: impl Iterator<Item = &'n str>,
        known: impl Iterator<Item = (&'n str, IpAddr)>,
    ) -> Vec<Arc<Node>> {
        let Self { near, nodes: all, pods, .. } = self;
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

    /// Nodes of these that lost their Pod; what is known of others is forgotten.
    #[must_use]
    pub fn losses(&mut self, key: &Key, is_selected: impl Fn(&Node) -> bool) -> Arc<HashMap<Arc<str>, Loss>> {
        self.losses.retain(key, |name| self.nodes.get(name).is_some_and(|node| is_selected(node)));
        self.losses.of(key)
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, key: &Key) {
        self.near.forget(key);
        self.losses.forget(key);
    }

    /// Takes a change of the nodes.
    pub fn node(&mut self, change: &Change<NodeFacts>, now: DateTime<Utc>) -> NodeChange {
        match change {
            Change::Listed(facts) | Change::Applied(facts) => {
                let mut node = nodes::node(facts);
                nodes::see(self.nodes.get(&node.name).map(AsRef::as_ref), &mut node, now);
                let node = Arc::new(node);
                let before = self.nodes.insert(node.name.clone(), node.clone());
                self.near.see(before.as_deref(), &node);
                match before {
                    Some(before) if before == node => NodeChange::Nothing,
                    before => NodeChange::One(before.into_iter().chain([node]).collect()),
                }
            }
            Change::Deleted(facts) => {
                let name = facts.name_any();
                self.nodes.remove(name.as_str());
                self.near.keep(|other| other != name);
                self.losses.forget_node(&name);
                NodeChange::Gone
            }
            Change::Complete(listed) => {
                self.nodes.retain(|name, _| !listed.lacks("", name));
                self.near.keep(|name| self.nodes.contains_key(name));
                NodeChange::Gone
            }
        }
    }

    /// Takes a change of the Pods.
    pub fn pod(&mut self, change: &Change<PodFacts>, now: DateTime<Utc>) -> Affects {
        match change {
            Change::Listed(facts) | Change::Applied(facts) => self.see_pod(facts, now),
            Change::Deleted(facts) => self.drop_pod(facts, now),
            Change::Complete(listed) => {
                let mut lost: Vec<(Key, Arc<Pod<T::Revision>>)> = Vec::new();
                for (key, pods) in &mut self.pods {
                    pods.retain(|name, seen| {
                        let is_gone = listed.lacks(&key.0, name);
                        lost.extend(is_gone.then(|| (key.clone(), seen.pod.clone())));
                        !is_gone
                    });
                }
                for (key, pod) in lost {
                    self.lost(&key, &pod, now);
                }
                self.pods.retain(|_, pods| !pods.is_empty());
                Affects::All
            }
        }
    }

    fn see_pod(&mut self, facts: &PodFacts, now: DateTime<Utc>) -> Affects {
        let pod = pods::pod(facts, T::revision(facts)).filter(|pod| !pod.node.is_empty());
        let (Some(key), Some(mut pod)) = (T::owner(facts), pod) else {
            // It may have been ours: a label or an owner that was taken away makes it another owner's.
            return self.drop_pod(facts, now);
        };
        let pods = self.pods.entry(key.clone()).or_default();
        let before = pods.get(&pod.name).map(|seen| &seen.pod);
        pods::see(before.map(AsRef::as_ref), &mut pod, now);
        self.losses.see(&key, before.map(AsRef::as_ref), &pod, now);
        let is_same = before
            .is_some_and(|before| Pod { resource_version: pod.resource_version.clone(), ..(**before).clone() } == pod);
        let shared = |detail: T::Detail| {
            let of_another = pods.values().next().and_then(|seen| seen.detail.clone());
            of_another.filter(|other| **other == detail).unwrap_or_else(|| Arc::new(detail))
        };
        let detail = T::detail(facts).map(shared);
        pods.insert(pod.name.clone(), Seen { pod: Arc::new(pod), detail });
        if is_same { Affects::Nobody } else { Affects::One(key) }
    }

    /// Takes a Pod out, whichever object it belongs to.
    fn drop_pod(&mut self, facts: &PodFacts, now: DateTime<Utc>) -> Affects {
        let (namespace, name) = (facts.namespace().unwrap_or_default(), facts.name_any());
        let of = |(key, pods): (&Key, &BTreeMap<Arc<str>, Seen<T>>)| {
            (key.0 == namespace && pods.contains_key(name.as_str())).then(|| key.clone())
        };
        let Some(key) = self.pods.iter().find_map(of) else { return Affects::Nobody };
        if let Some(seen) = self.pods.get_mut(&key).and_then(|pods| pods.remove(name.as_str())) {
            self.lost(&key, &seen.pod, now);
        }
        if self.pods.get(&key).is_some_and(BTreeMap::is_empty) {
            self.pods.remove(&key);
            // The last Pods of an object that is gone go after it.
            if !self.sets.contains_key(&key) {
                self.forget(&key);
            }
        }
        Affects::One(key)
    }

    /// Takes note of a Pod that is gone.
    fn lost(&mut self, key: &Key, pod: &Pod<T::Revision>, now: DateTime<Utc>) {
        let is_served = self.seen(key).any(|seen| seen.pod.node == pod.node && seen.pod.ready_since.is_some());
        if !is_served {
            self.losses.gone(key, pod, now);
        }
    }

    /// Takes a change of the DaemonSets.
    pub fn daemonset(&mut self, change: Change<DaemonSet>) -> Affects {
        match change {
            Change::Listed(set) | Change::Applied(set) => {
                let key = key_of(&set);
                let known = self.sets.get(&key);
                if known.is_some_and(|known| is_newer(known, &set)) {
                    return Affects::Nobody;
                }
                if known.is_some_and(|known| known.metadata.uid != set.metadata.uid) {
                    // What the Pods of another one of its name did is not its own.
                    self.losses.forget(&key);
                }
                self.sets.insert(key.clone(), Arc::new(set));
                Affects::One(key)
            }
            Change::Deleted(set) => {
                let key = key_of(&set);
                self.sets.remove(&key);
                Affects::One(key)
            }
            Change::Complete(listed) => {
                self.sets.retain(|key, _| !listed.lacks(&key.0, &key.1));
                Affects::All
            }
        }
    }

    /// Takes what we have just written, ahead of the watch; an older state that the watch still brings is passed over.
    pub fn wrote(&mut self, key: &Key, set: Arc<DaemonSet>) {
        // The watch may have been faster than the answer: what it brought since must not be lost.
        if !self.sets.get(key).is_some_and(|known| is_newer(known, &set)) {
            self.sets.insert(key.clone(), set);
        }
    }
}

/// Whether what we know of the same object is newer than what the watch brings: our own write came first.
fn is_newer(known: &DaemonSet, brought: &DaemonSet) -> bool {
    let version = |set: &DaemonSet| set.resource_version().and_then(|version| version.parse::<u64>().ok());
    known.metadata.uid == brought.metadata.uid
        && version(known).zip(version(brought)).is_some_and(|(known, brought)| known > brought)
}

/// Label of a node: its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// A selected node as a place. It is one also while it has no Pod: what is missing there takes from the budget.
#[must_use]
pub fn place<'a, R>(node: &'a Node, occupant: Option<Occupant<'a, R>>) -> Place<'a, R> {
    Place {
        zone: node.labels.get(ZONE).map(String::as_str),
        is_ready: node.ready,
        ready_since: node.ready_since,
        joined: node.created,
        ..Place::plain(&node.name, occupant)
    }
}

/// The Pod of each node. A terminating Pod and its replacement can share a node for a moment: the replacement
/// counts.
#[must_use]
pub fn by_node<R>(pods: &[Arc<Pod<R>>]) -> HashMap<&str, &Arc<Pod<R>>> {
    let mut by_node: HashMap<&str, &Arc<Pod<R>>> = HashMap::with_capacity(pods.len());
    for pod in pods {
        let slot = by_node.entry(&pod.node).or_insert(pod);
        let is_replacement = slot.deleting && !pod.deleting;
        let is_newer = slot.deleting == pod.deleting && pod.created > slot.created;
        if is_replacement || is_newer {
            *slot = pod;
        }
    }
    by_node
}
