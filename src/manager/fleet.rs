//! What the watches show: nodes, the objects of all Managers, and their Pods.
//!
//! Fed in place. Says which Managers a change affects. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use parking_lot::{RwLock, RwLockReadGuard};

use super::pods::Server;
use crate::fleet::nodes::node;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::node::Node;
use crate::k8s::watch::{Affects, Change, key_of};
use crate::kernel::Key;
use crate::stack::table::Table;

#[derive(Debug, Default)]
pub struct Fleet(RwLock<Inner>);

/// All of it. Objects are whole: there are few, and a change to them is put back.
#[derive(Debug, Default)]
pub struct Inner {
    pub nodes: BTreeMap<String, Node>,
    pub stateful_sets: Objects<StatefulSet>,
    pub daemon_sets: Objects<DaemonSet>,
    pub config_maps: Objects<ConfigMap>,
    pub secrets: Objects<Secret>,
    pub services: Objects<Service>,
    pub budgets: Objects<PodDisruptionBudget>,
    pods: BTreeMap<Key, Server>,
    managers: BTreeSet<Key>,
}

/// Objects of a kind, by namespace and name.
#[derive(Debug)]
pub struct Objects<K>(pub BTreeMap<Key, K>);

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: ResourceExt + Clone> Objects<K> {
    /// Takes a change; returns the Managers that own what it is about.
    pub fn take(&mut self, change: Change<K>) -> Affects {
        match change {
            Change::Listed(object) | Change::Applied(object) => {
                let owner = owner(&object);
                self.keep(object);
                owner
            }
            Change::Deleted(object) => {
                let key = key_of(&object);
                if self.0.get(&key).is_some_and(|known| known.uid() == object.uid()) {
                    self.0.remove(&key);
                }
                owner(&object)
            }
            Change::Complete(listed) => {
                self.0.retain(|(namespace, name), _| !listed.lacks(namespace, name));
                Affects::All
            }
        }
    }

    /// Notes an object as it was stored, unless a newer one is known.
    pub fn keep(&mut self, object: K) {
        let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
        let known = self.0.get(&key_of(&object));
        if known.is_none_or(|known| known.uid() != object.uid() || version(known) <= version(&object)) {
            self.0.insert(key_of(&object), object);
        }
    }

    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&K> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }
}

fn owner(object: &impl ResourceExt) -> Affects {
    let owner =
        object.owner_references().iter().find(|owner| owner.controller == Some(true) && owner.kind == "Manager");
    let namespace = object.namespace().unwrap_or_default();
    // Removing its owner is a change of one of them, too.
    owner.map_or(Affects::All, |owner| Affects::One((namespace, owner.name.clone())))
}

impl Fleet {
    pub fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read()
    }

    /// Changes what is known.
    pub fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.write())
    }

    /// A Manager is there, or gone.
    pub fn note(&self, key: &Key, is_there: bool) {
        let mut inner = self.0.write();
        if is_there {
            inner.managers.insert(key.clone());
        } else {
            inner.managers.remove(key);
        }
    }

    /// Takes a change of the nodes.
    pub fn node(&self, change: &Change<NodeFacts>) -> Affects {
        let mut inner = self.0.write();
        match change {
            Change::Listed(facts) | Change::Applied(facts) => {
                // Heartbeats change nothing here.
                let node = node(facts);
                let name = node.name.to_string();
                if inner.nodes.get(&name) == Some(&node) {
                    return Affects::Nobody;
                }
                inner.nodes.insert(name, node);
                Affects::All
            }
            Change::Deleted(facts) => {
                inner.nodes.remove(&facts.name_any());
                Affects::All
            }
            Change::Complete(listed) => {
                inner.nodes.retain(|name, _| !listed.lacks("", name));
                Affects::All
            }
        }
    }

    /// Takes a change of the Pods.
    pub fn pod(&self, change: &Change<PodFacts>) -> Affects {
        let mut inner = self.0.write();
        let namespace = match change {
            Change::Listed(facts) | Change::Applied(facts) => {
                let key = key_of(facts);
                let Some(server) = Server::of(facts, &Table::own().labels.kind) else { return Affects::Nobody };
                if inner.pods.get(&key) == Some(&server) {
                    return Affects::Nobody;
                }
                inner.pods.insert(key.clone(), server);
                key.0
            }
            Change::Deleted(facts) => {
                let key = key_of(facts);
                inner.pods.remove(&key);
                key.0
            }
            Change::Complete(listed) => {
                inner.pods.retain(|(namespace, name), _| !listed.lacks(namespace, name));
                return Affects::All;
            }
        };
        Affects::Each(inner.managers.iter().filter(|key| key.0 == namespace).cloned().collect())
    }
}

impl Inner {
    /// Whether the watch shows a Pod, and not its deletion.
    #[must_use]
    pub fn is_staying(&self, uid: &str) -> bool {
        self.pods.values().any(|server| server.uid == uid && !server.is_ending)
    }

    /// All Pods of a namespace.
    pub fn servers_in<'i>(&'i self, namespace: &'i str) -> impl Iterator<Item = &'i Server> {
        let of = self.pods.range((namespace.to_owned(), String::new())..);
        of.take_while(move |((within, _), _)| within == namespace).map(|(_, server)| server)
    }

    /// The Pods of a component.
    pub fn servers<'i>(&'i self, namespace: &'i str, kind: &'i str, name: &'i str) -> impl Iterator<Item = &'i Server> {
        self.servers_in(namespace).filter(move |server| server.of.0 == kind && server.of.1 == name)
    }
}
