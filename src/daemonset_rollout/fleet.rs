//! What the watches show: nodes, DaemonSets with their Pods, and which DaemonSetRollout names which of them.
//!
//! Says which DaemonSetRollouts a change affects. Must not decide anything.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::revision::{Pod, Revision};
use crate::clock::Clock;
use crate::fleet::daemonsets::{DaemonSets, NodeChange, Reads};
use crate::fleet::replicas::REVISION_LABEL;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::node::Node;
use crate::k8s::watch::{Affects, Change};
use crate::kernel::Key;
use crate::rollout::Loss;

#[derive(Debug)]
pub struct Fleet {
    inner: RwLock<Inner>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Inner {
    /// By namespace and name of the DaemonSet.
    sets: DaemonSets<Pods>,
    /// The DaemonSet that each DaemonSetRollout names, with the age of that.
    named: BTreeMap<Key, Named>,
    /// When the Pods of a DaemonSet last changed.
    changed: HashMap<Key, Instant>,
}

/// What a DaemonSetRollout names, and what tells which of several is the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub daemon_set: String,
    /// Seconds since the epoch, then its UID.
    pub age: (i64, String),
    /// Generation of the spec.
    pub generation: Option<i64>,
}

/// How Pods of DaemonSets are read.
#[derive(Debug)]
struct Pods;

impl Reads for Pods {
    type Revision = Revision;
    /// UID of its controller: whose Pod it is no label says.
    type Detail = String;

    fn owner(facts: &PodFacts) -> Option<Key> {
        let controller = controller(facts)?;
        let is_set = controller.kind == "DaemonSet" && controller.api_version.starts_with("apps/");
        is_set.then(|| (facts.namespace().unwrap_or_default(), controller.name.clone()))
    }

    fn revision(facts: &PodFacts) -> Option<Revision> {
        facts.metadata.labels.as_ref()?.get(REVISION_LABEL).cloned().map(Revision)
    }

    fn detail(facts: &PodFacts) -> Option<String> {
        Some(controller(facts)?.uid.clone())
    }
}

fn controller(facts: &PodFacts) -> Option<&OwnerReference> {
    facts.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

impl Fleet {
    /// One by this clock, of which nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { inner: RwLock::default(), clock }
    }

    /// Takes note of a DaemonSetRollout, or that it is gone. Returns whether it names another DaemonSet than before.
    pub fn names(&self, key: &Key, named: Option<Named>) -> bool {
        let inner = &mut *self.inner.write();
        let set = |named: &Named| named.daemon_set.clone();
        let after = named.as_ref().map(set);
        let before = match named {
            Some(named) => inner.named.insert(key.clone(), named),
            None => inner.named.remove(key),
        };
        before.as_ref().map(set) != after
    }

    /// Whether a DaemonSetRollout is neither edited since this generation nor deleted.
    #[must_use]
    pub fn is_still(&self, key: &Key, generation: Option<i64>) -> bool {
        self.inner.read().named.get(key).is_some_and(|named| named.generation == generation)
    }

    /// The oldest other one that names the same DaemonSet and is older.
    #[must_use]
    pub fn older(&self, key: &Key) -> Option<String> {
        let inner = self.inner.read();
        let own = inner.named.get(key)?;
        let is_older = |(other, named): &(&Key, &Named)| {
            other.0 == key.0 && named.daemon_set == own.daemon_set && named.age < own.age
        };
        inner.named.iter().filter(is_older).min_by_key(|(_, named)| &named.age).map(|(other, _)| other.1.clone())
    }

    /// A DaemonSet.
    #[must_use]
    pub fn set(&self, key: &Key) -> Option<Arc<DaemonSet>> {
        self.inner.read().sets.set(key).cloned()
    }

    /// Names of the DaemonSets of a namespace.
    #[must_use]
    pub fn sets(&self, namespace: &str) -> Vec<String> {
        self.inner.read().sets.names(namespace)
    }

    /// The Pods of the DaemonSet with this UID.
    #[must_use]
    pub fn pods(&self, key: &Key, uid: &str) -> Vec<Arc<Pod>> {
        self.inner.read().sets.pods_with(key, |controller| *controller == *uid)
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.inner.read().sets.nodes()
    }

    /// The nodes that matter to a DaemonSet: see [`DaemonSets::near`].
    pub fn near<'n>(
        &self,
        key: &Key,
        selector: &BTreeMap<String, String>,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<Arc<Node>> {
        self.inner.write().sets.near(key, selector, names, std::iter::empty())
    }

    /// Nodes of these that lost their Pod; what is known of others is forgotten.
    #[must_use]
    pub fn losses(&self, key: &Key, is_selected: impl Fn(&Node) -> bool) -> Arc<HashMap<Arc<str>, Loss>> {
        self.inner.write().sets.losses(key, is_selected)
    }

    /// For how long the Pods of a DaemonSet have not changed; `None` when they never did.
    #[must_use]
    pub fn quiet(&self, key: &Key) -> Option<Duration> {
        self.inner.read().changed.get(key).map(Instant::elapsed)
    }

    /// Takes a change of the nodes.
    pub fn node(&self, change: &Change<NodeFacts>) -> Affects {
        let now = self.clock.now();
        match self.inner.write().sets.node(change, now) {
            NodeChange::Nothing => Affects::Nobody,
            NodeChange::One(_) | NodeChange::Gone => Affects::All,
        }
    }

    /// Takes a change of the Pods.
    pub fn pod(&self, change: &Change<PodFacts>) -> Affects {
        let now = self.clock.now();
        let inner = &mut *self.inner.write();
        let affects = inner.sets.pod(change, now);
        if let Affects::One(key) = &affects {
            if inner.sets.is_known(key) {
                inner.changed.insert(key.clone(), Instant::now());
            } else {
                inner.changed.remove(key);
            }
        }
        inner.who(affects)
    }

    /// Takes a change of the DaemonSets.
    pub fn daemonset(&self, change: Change<DaemonSet>) -> Affects {
        let inner = &mut *self.inner.write();
        let affects = inner.sets.daemonset(change);
        inner.who(affects)
    }
}

impl Inner {
    /// The DaemonSetRollouts that a change of a DaemonSet affects.
    fn who(&self, affects: Affects) -> Affects {
        let Affects::One((namespace, name)) = affects else { return affects };
        let names_it = |(key, named): &(&Key, &Named)| key.0 == namespace && named.daemon_set == name;
        Affects::Each(self.named.iter().filter(names_it).map(|(key, _)| key.clone()).collect())
    }
}
