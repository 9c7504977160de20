//! The fleet as the watches show it: nodes, the agents' Pods, DaemonSets; trimmed to what decisions need.
//!
//! Fed by one watch per kind, in place: a relist updates entries instead of building a second set. Tells which
//! OneAgents a change concerns; a node's heartbeat concerns none. Must not decide anything.

mod losses;
mod near;
#[cfg(test)]
mod tests;
mod vendors;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::admitted::{Admissions, Admitted};
use super::build::record::{self, RECORD_ANNOTATION};
use super::revision::{Pod, Revision};
use crate::clock::Clock;
use crate::fleet::nodes::{self, node};
use crate::fleet::pods;
use crate::k8s::facts::{HASH_ANNOTATION, NodeFacts, PodFacts, VERSION_ANNOTATION};
use crate::k8s::node::Node;
use crate::k8s::placement::Placement;
use crate::kernel::Key;
use crate::kernel::triggers::Concerns;
use crate::rollout::Loss;
use losses::Losses;
use near::Near;

/// What an event of a node brings.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeNews {
    /// A heartbeat, say.
    Nothing,
    /// One node: as it was, if it was there, and as it is.
    Changed(Vec<Arc<Node>>),
    /// Nodes may be gone, of which a OneAgent may remember something that no longer selects them.
    Everything,
}

#[derive(Debug, Default)]
pub struct Fleet {
    inner: RwLock<Inner>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Inner {
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    near: Near,
    pods: HashMap<Key, BTreeMap<Arc<str>, Seen>>,
    daemonsets: HashMap<Key, Arc<DaemonSet>>,
    /// The older OneAgents to whom those leave their nodes, as their records say.
    yields_to: HashMap<Key, Arc<BTreeSet<String>>>,
    /// What the DaemonSets of the vendor's present operator select.
    vendors: BTreeMap<Key, Arc<Placement>>,
    /// Nodes that lost their agent.
    losses: Losses,
    /// When the Pods of a OneAgent last changed.
    changed: HashMap<Key, Instant>,
    /// Names seen since a relist began, by watch; what is not among them at its end is gone.
    relisted: HashMap<String, HashSet<(String, Arc<str>)>>,
}

/// A Pod, and what admission made of it.
#[derive(Debug)]
struct Seen {
    pod: Arc<Pod>,
    admitted: Option<Arc<Admitted>>,
}

impl Inner {
    /// Takes a DaemonSet in.
    fn take(&mut self, key: Key, daemonset: Arc<DaemonSet>) {
        // Its status changes more often than its record.
        fn text(daemonset: &DaemonSet) -> Option<&String> {
            daemonset.annotations().get(RECORD_ANNOTATION)
        }
        if self.daemonsets.get(&key).is_none_or(|before| text(before) != text(&daemonset)) {
            self.yields_to.insert(key.clone(), Arc::new(record::yields_to(&daemonset)));
        }
        self.daemonsets.insert(key, daemonset);
    }

    /// Takes a Pod out, whosever it is.
    fn drop_pod(&mut self, facts: &PodFacts, now: DateTime<Utc>) -> Concerns {
        let (namespace, name) = (facts.namespace().unwrap_or_default(), facts.name_any());
        let of = |(key, pods): (&Key, &BTreeMap<Arc<str>, Seen>)| {
            (key.0 == namespace && pods.contains_key(name.as_str())).then(|| key.clone())
        };
        let Some(key) = self.pods.iter().find_map(of) else { return Concerns::Nobody };
        if let Some(seen) = self.pods.get_mut(&key).and_then(|pods| pods.remove(name.as_str())) {
            self.lost(&key, &seen.pod, now);
        }
        // The last Pods of a OneAgent that is gone go after it.
        if self.pods.get(&key).is_some_and(|pods| !pods.is_empty()) || self.daemonsets.contains_key(&key) {
            self.changed.insert(key.clone(), Instant::now());
        } else {
            self.forget(&key);
        }
        self.pods.retain(|_, pods| !pods.is_empty());
        Concerns::One(key)
    }

    /// Takes note of a Pod that is gone.
    fn lost(&mut self, key: &Key, pod: &Pod, now: DateTime<Utc>) {
        let another = |seen: &Seen| seen.pod.node == pod.node && seen.pod.ready_since.is_some();
        if !self.pods.get(key).is_some_and(|pods| pods.values().any(another)) {
            self.losses.gone(key, pod, now);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.changed.remove(key);
        self.near.forget(key);
        self.losses.forget(key);
    }
}

impl Fleet {
    /// One by this clock, of which nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write()
    }

    /// Every node.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.read().nodes.values().cloned().collect()
    }

    /// The Pods of a OneAgent.
    #[must_use]
    pub fn pods(&self, key: &Key) -> Vec<Arc<Pod>> {
        let inner = self.read();
        inner.pods.get(key).map(|pods| pods.values().map(|seen| seen.pod.clone()).collect()).unwrap_or_default()
    }

    /// What admission made of them.
    #[must_use]
    pub fn admissions(&self, key: &Key) -> Admissions {
        let inner = self.read();
        let pods = inner.pods.get(key).into_iter().flat_map(BTreeMap::values);
        Admissions::count(pods.filter_map(|seen| seen.admitted.as_ref()))
    }

    /// Nodes of these that lost their agent; what is known of others is forgotten.
    #[must_use]
    pub fn losses(&self, key: &Key, is_selected: impl Fn(&Node) -> bool) -> Arc<HashMap<Arc<str>, Loss>> {
        let inner = &mut *self.write();
        inner.losses.retain(key, |name| inner.nodes.get(name).is_some_and(|node| is_selected(node)));
        inner.losses.of(key)
    }

    /// For how long the Pods of a OneAgent have not changed; `None` when they never did.
    #[must_use]
    pub fn quiet(&self, key: &Key) -> Option<Duration> {
        self.read().changed.get(key).map(Instant::elapsed)
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        self.write().forget(key);
    }

    /// The DaemonSet of a OneAgent's name, if it has the label of ours.
    #[must_use]
    pub fn daemonset(&self, key: &Key) -> Option<Arc<DaemonSet>> {
        self.read().daemonsets.get(key).cloned()
    }

    /// Who has Pods.
    #[must_use]
    pub fn with_pods(&self) -> Vec<Key> {
        self.read().pods.keys().cloned().collect()
    }

    /// The older OneAgents to whom the DaemonSet of one leaves their nodes.
    #[must_use]
    pub fn yields_to(&self, key: &Key) -> Arc<BTreeSet<String>> {
        self.read().yields_to.get(key).cloned().unwrap_or_default()
    }

    /// Takes what we have just written, ahead of the watch; an older state that the watch still brings is passed over
    /// by `newer`.
    pub fn wrote(&self, key: &Key, daemonset: Arc<DaemonSet>) {
        let mut inner = self.write();
        // The watch may have been faster than the answer: what it brought since must not be lost.
        if !inner.daemonsets.get(key).is_some_and(|known| newer(known, &daemonset)) {
            inner.take(key.clone(), daemonset);
        }
    }

    /// Takes an event of the nodes' watch; what of it is news is in the answer.
    pub fn node(&self, event: &Event<NodeFacts>) -> NodeNews {
        let mut inner = self.write();
        match event {
            Event::Init => {
                inner.relisted.insert("nodes".to_owned(), HashSet::new());
                NodeNews::Nothing
            }
            Event::InitApply(facts) | Event::Apply(facts) => {
                let mut node = node(facts);
                nodes::see(inner.nodes.get(&node.name).map(AsRef::as_ref), &mut node, self.clock.now());
                let node = Arc::new(node);
                if matches!(event, Event::InitApply(_)) {
                    inner.relisted.entry("nodes".to_owned()).or_default().insert((String::new(), node.name.clone()));
                }
                let before = inner.nodes.insert(node.name.clone(), node.clone());
                inner.near.see(before.as_deref(), &node);
                match before {
                    Some(before) if before == node => NodeNews::Nothing,
                    before => NodeNews::Changed(before.into_iter().chain([node]).collect()),
                }
            }
            Event::Delete(facts) => {
                let name = facts.name_any();
                inner.nodes.remove(name.as_str());
                inner.near.keep(|other| other != name);
                inner.losses.forget_node(&name);
                NodeNews::Everything
            }
            Event::InitDone => {
                let seen = inner.relisted.remove("nodes").unwrap_or_default();
                let Inner { nodes, near, .. } = &mut *inner;
                nodes.retain(|name, _| seen.contains(&(String::new(), name.clone())));
                near.keep(|name| nodes.contains_key(name));
                NodeNews::Everything
            }
        }
    }

    /// Takes an event of the Pods' watch of one scope (a namespace, or all).
    pub fn pod(&self, scope: &str, event: &Event<PodFacts>) -> Concerns {
        let (mut inner, now) = (self.write(), self.clock.now());
        let watch = format!("pods/{scope}");
        match event {
            Event::Init => {
                inner.relisted.insert(watch, HashSet::new());
                Concerns::Nobody
            }
            Event::InitApply(facts) | Event::Apply(facts) => {
                let (Some(key), Some(mut pod)) = (owner(facts), pods::pod(facts, revision(facts)).filter(is_bound))
                else {
                    // It may have been ours: a label or an owner that was taken away makes it somebody else's.
                    return inner.drop_pod(facts, now);
                };
                if matches!(event, Event::InitApply(_)) {
                    inner.relisted.entry(watch).or_default().insert((key.0.clone(), pod.name.clone()));
                }
                let Inner { pods, losses, .. } = &mut *inner;
                let pods = pods.entry(key.clone()).or_default();
                let before = pods.get(&pod.name).map(|seen| &seen.pod);
                pods::see(before.map(AsRef::as_ref), &mut pod, now);
                losses.see(&key, before.map(AsRef::as_ref), &pod, now);
                let unchanged = before.is_some_and(|before| {
                    Pod { resource_version: pod.resource_version.clone(), ..(**before).clone() } == pod
                });
                // Most say the same.
                let same = |admitted: Admitted| {
                    let of_another = pods.values().next().and_then(|seen| seen.admitted.clone());
                    of_another.filter(|other| **other == admitted).unwrap_or_else(|| Arc::new(admitted))
                };
                let admitted = Admitted::of(facts).map(same);
                pods.insert(pod.name.clone(), Seen { pod: Arc::new(pod), admitted });
                if unchanged {
                    return Concerns::Nobody;
                }
                inner.changed.insert(key.clone(), Instant::now());
                Concerns::One(key)
            }
            Event::Delete(facts) => inner.drop_pod(facts, now),
            Event::InitDone => {
                let seen = inner.relisted.remove(&watch).unwrap_or_default();
                let mut lost: Vec<(Key, Arc<Pod>)> = Vec::new();
                for (key, pods) in &mut inner.pods {
                    if scope.is_empty() || *scope == key.0 {
                        pods.retain(|name, pod| {
                            let is_there = seen.contains(&(key.0.clone(), name.clone()));
                            lost.extend((!is_there).then(|| (key.clone(), pod.pod.clone())));
                            is_there
                        });
                    }
                }
                for (key, pod) in lost {
                    inner.lost(&key, &pod, now);
                }
                inner.pods.retain(|_, pods| !pods.is_empty());
                Concerns::All
            }
        }
    }

    /// Takes an event of the DaemonSets' watch of one scope.
    pub fn daemonset_event(&self, scope: &str, event: Event<DaemonSet>) -> Concerns {
        let mut inner = self.write();
        let watch = format!("daemonsets/{scope}");
        let key_of = |object: &DaemonSet| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Init => {
                inner.relisted.insert(watch, HashSet::new());
                Concerns::Nobody
            }
            Event::InitApply(object) => {
                let key = key_of(&object);
                inner.relisted.entry(watch).or_default().insert((key.0.clone(), key.1.as_str().into()));
                inner.take(key.clone(), Arc::new(object));
                Concerns::One(key)
            }
            Event::Apply(object) => {
                let key = key_of(&object);
                if inner.daemonsets.get(&key).is_some_and(|known| newer(known, &object)) {
                    return Concerns::Nobody;
                }
                inner.take(key.clone(), Arc::new(object));
                Concerns::One(key)
            }
            Event::Delete(object) => {
                let key = key_of(&object);
                inner.daemonsets.remove(&key);
                inner.yields_to.remove(&key);
                Concerns::One(key)
            }
            Event::InitDone => {
                let seen = inner.relisted.remove(&watch).unwrap_or_default();
                let is_there = |key: &Key| {
                    (!scope.is_empty() && scope != key.0) || seen.contains(&(key.0.clone(), key.1.as_str().into()))
                };
                inner.daemonsets.retain(|key, _| is_there(key));
                inner.yields_to.retain(|key, _| is_there(key));
                Concerns::All
            }
        }
    }
}

/// Whether what we know of the same object is newer than what the watch brings: our own write came first.
fn newer(known: &DaemonSet, brought: &DaemonSet) -> bool {
    let version = |object: &DaemonSet| object.resource_version().and_then(|v| v.parse::<u64>().ok());
    known.metadata.uid == brought.metadata.uid
        && version(known).zip(version(brought)).is_some_and(|(known, brought)| known > brought)
}

/// What a Pod was made from, as its annotations say.
fn revision(facts: &PodFacts) -> Option<Revision> {
    let annotation = |key: &str| facts.metadata.annotations.as_ref()?.get(key);
    let version = annotation(VERSION_ANNOTATION).and_then(|version| version.parse().ok());
    annotation(HASH_ANNOTATION).map(|hash| Revision { version, hash: hash.clone() })
}

/// Whether it is known of which node it is.
fn is_bound(pod: &Pod) -> bool {
    !pod.node.is_empty()
}

/// The OneAgent that a Pod belongs to. Labels alone do not make a Pod ours: its DaemonSet must be its controller, for
/// what is ours may be deleted.
fn owner(facts: &PodFacts) -> Option<Key> {
    let name = facts.metadata.labels.as_ref()?.get("oneagent")?;
    let controller = facts.metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))?;
    (controller.kind == "DaemonSet" && controller.name == *name)
        .then(|| (facts.namespace().unwrap_or_default(), name.clone()))
}
