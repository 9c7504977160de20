//! What the watches show: Pods, their owners, which ConfigMap has which version, and who watches what.
//!
//! Fed in place. Says which watchers a change affects. Must not decide anything, nor keep a ConfigMap's data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use parking_lot::{RwLock, RwLockReadGuard};

use super::resolve::Resolved;
use super::revision::Config;
use crate::clock::Clock;
use crate::fleet::pods::{pod, see};
use crate::fleet::replicas::{NamespaceView, Owner, Replica};
use crate::k8s::facts::PodFacts;
use crate::k8s::watch::{Change, Listed, key_of};
use crate::kernel::Key;
use crate::rollout::Share;

#[derive(Debug, Default)]
pub struct Fleet(RwLock<Inner>, Clock);

#[derive(Debug, Default)]
pub struct Inner {
    namespaces: HashMap<String, NamespaceView<Config>>,
    watchers: BTreeMap<Key, Arc<Resolved>>,
    config_maps: HashMap<Key, Version>,
    /// How many changes of ConfigMaps there were: no two have one number.
    changes: u64,
}

/// Which version of a ConfigMap the watch shows, and the number of its last change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Version {
    version: Option<String>,
    change: u64,
}

fn uid_of(object: &impl ResourceExt) -> String {
    object.uid().unwrap_or_default()
}

impl Fleet {
    /// One by this clock, of which nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(RwLock::default(), clock)
    }

    /// Takes note of a watcher. Returns whether it is another than before.
    pub fn watches(&self, key: &Key, resolved: Option<Resolved>) -> bool {
        if self.0.read().watchers.get(key).map(|known| &**known) == resolved.as_ref() {
            return false;
        }
        let mut inner = self.0.write();
        match resolved {
            Some(resolved) => drop(inner.watchers.insert(key.clone(), Arc::new(resolved))),
            None => drop(inner.watchers.remove(key)),
        }
        let named: HashSet<Key> =
            inner.watchers.iter().map(|(key, watcher)| (key.0.clone(), watcher.config_map.clone())).collect();
        inner.config_maps.retain(|key, _| named.contains(key));
        let inner = &mut *inner;
        for key in named {
            inner.config_maps.entry(key).or_insert_with(|| {
                inner.changes += 1;
                Version { version: None, change: inner.changes }
            });
        }
        true
    }

    /// The number of a ConfigMap's last change. One that is named again gets another.
    pub fn last_change(&self, namespace: &str, name: &str) -> Option<u64> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.read().config_maps.get(&key).map(|version| version.change)
    }

    /// Whether a watcher is still what it was.
    pub fn is_still(&self, key: &Key, resolved: &Resolved) -> bool {
        self.0.read().watchers.get(key).is_some_and(|known| **known == *resolved)
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read()
    }

    /// Takes a change of the ConfigMaps; returns the watchers that it affects.
    pub fn config_map(&self, change: &Change<PartialObjectMeta<ConfigMap>>) -> Vec<Key> {
        let mut inner = self.0.write();
        let changed = match change {
            Change::Listed(object) | Change::Applied(object) => inner.see_config_map(object),
            Change::Deleted(object) => inner.lose(&[key_of(object)]),
            Change::Complete(listed) => {
                let named = inner.config_maps.keys();
                let gone: Vec<Key> = named.filter(|key| listed.lacks(&key.0, &key.1)).cloned().collect();
                inner.lose(&gone)
            }
        };
        let is_changed = |(key, watcher): &(&Key, &Arc<Resolved>)| {
            changed.iter().any(|(namespace, name)| *namespace == key.0 && *name == watcher.config_map)
        };
        inner.watchers.iter().filter(is_changed).map(|(key, _)| key.clone()).collect()
    }

    /// Takes a change of the Pods; returns the watchers that it affects.
    pub fn pod(&self, change: &Change<PodFacts>) -> Vec<Key> {
        let mut inner = self.0.write();
        match change {
            Change::Listed(facts) | Change::Applied(facts) => inner.see_pod(facts, self.1.now()),
            Change::Deleted(facts) => {
                let (namespace, name) = key_of(facts);
                let gone = inner.namespaces.get_mut(&namespace).and_then(|view| view.pods.remove(name.as_str()));
                inner.drop_empty();
                gone.map(|gone| inner.selecting(&namespace, &[&gone.labels])).unwrap_or_default()
            }
            Change::Complete(listed) => {
                for (namespace, view) in &mut inner.namespaces {
                    view.pods.retain(|name, _| !listed.lacks(namespace, name));
                    view.forget_nodes();
                }
                inner.drop_empty();
                inner.all(listed)
            }
        }
    }

    /// Takes a change of owners of one kind, listed by UID; returns the watchers that it affects.
    pub fn owner<K>(&self, kind: &str, change: &Change<K>) -> Vec<Key>
    where
        K: Resource,
        for<'k> Owner: From<&'k K>,
    {
        let mut inner = self.0.write();
        match change {
            // The end of the list affects all.
            Change::Listed(object) => {
                inner.see_owner(object);
                Vec::new()
            }
            Change::Applied(object) => {
                let (before, owner) = inner.see_owner(object);
                if before.as_ref() == Some(&owner) {
                    return Vec::new();
                }
                inner.of_workload(&key_of(object).0, &uid_of(object), before.iter().chain([&owner]))
            }
            Change::Deleted(object) => {
                let (namespace, uid) = (key_of(object).0, uid_of(object));
                let view = inner.namespaces.get_mut(&namespace);
                let Some(gone) = view.and_then(|view| view.owners.remove(uid.as_str())) else {
                    return Vec::new();
                };
                let affected = inner.of_workload(&namespace, &uid, [&gone]);
                inner.drop_empty();
                affected
            }
            Change::Complete(listed) => {
                for (namespace, view) in &mut inner.namespaces {
                    view.owners.retain(|uid, owner| owner.kind != kind || !listed.lacks(namespace, uid));
                }
                inner.drop_empty();
                inner.all(listed)
            }
        }
    }
}

impl Inner {
    /// A namespace's Pods and owners.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Option<&NamespaceView<Config>> {
        self.namespaces.get(namespace)
    }

    /// The smallest budget that any watcher of the namespace gives to a workload with Pods of these labels.
    #[must_use]
    pub fn budget(&self, namespace: &str, labels: &BTreeMap<String, String>, expected: usize, own: Share) -> Share {
        let others = self.within(namespace).filter(|(_, watcher)| watcher.selects(labels));
        let budgets = others.map(|(_, watcher)| watcher.policy.budget);
        budgets.chain([own]).min_by_key(|share| share.of(expected)).unwrap_or(own)
    }

    fn within<'i>(&'i self, namespace: &'i str) -> impl Iterator<Item = (&'i Key, &'i Arc<Resolved>)> {
        let first = (namespace.to_owned(), String::new());
        self.watchers.range(first..).take_while(move |(key, _)| key.0 == namespace)
    }

    /// The watchers of the namespaces of a list.
    fn all(&self, listed: &Listed) -> Vec<Key> {
        self.watchers.keys().filter(|key| listed.covers(&key.0)).cloned().collect()
    }

    /// Takes a ConfigMap that an object watches; returns its key if it is another version.
    fn see_config_map(&mut self, object: &PartialObjectMeta<ConfigMap>) -> Vec<Key> {
        let key = key_of(object);
        let Some(known) = self.config_maps.get_mut(&key) else { return Vec::new() };
        if known.version == object.metadata.resource_version {
            return Vec::new();
        }
        self.changes += 1;
        *known = Version { version: object.metadata.resource_version.clone(), change: self.changes };
        vec![key]
    }

    fn see_pod(&mut self, facts: &PodFacts, now: DateTime<Utc>) -> Vec<Key> {
        let Some(mut new) = pod::<Config>(facts, None) else { return Vec::new() };
        let key = key_of(facts);
        let view = self.namespaces.entry(key.0.clone()).or_default();
        let before = view.pods.get(key.1.as_str()).filter(|known| known.pod.id == new.id).cloned();
        see(before.as_ref().map(|before| &*before.pod), &mut new, now);
        let replica = Arc::new(Replica::of(facts, new));
        view.see(&replica, now);
        if before.as_ref().is_some_and(|before| before.is_like(&replica)) {
            return Vec::new();
        }
        let before = before.as_ref().map_or(&replica.labels, |before| &before.labels);
        self.selecting(&key.0, &[before, &replica.labels])
    }

    /// Takes an owner; returns it as it was, and as it is.
    fn see_owner<K>(&mut self, object: &K) -> (Option<Owner>, Owner)
    where
        K: Resource,
        for<'k> Owner: From<&'k K>,
    {
        let owner = Owner::from(object);
        let view = self.namespaces.entry(key_of(object).0).or_default();
        (view.owners.insert(uid_of(object).into(), owner.clone()), owner)
    }

    /// The watchers whose facts an owner of Pods is part of: they select what it makes, or a Pod of its workload.
    fn of_workload<'o>(&self, namespace: &str, uid: &str, forms: impl IntoIterator<Item = &'o Owner>) -> Vec<Key> {
        let forms: Vec<&Owner> = forms.into_iter().collect();
        let above: HashSet<&str> = forms.iter().filter_map(|owner| Some(&*owner.controller.as_ref()?.uid)).collect();
        let view = self.namespaces.get(namespace);
        let is_sibling = |owner: &Owner| owner.controller.as_ref().is_some_and(|one| above.contains(&*one.uid));
        let siblings: Vec<(&Arc<str>, &Owner)> =
            view.iter().flat_map(|view| &view.owners).filter(|(_, owner)| is_sibling(owner)).collect();
        let sets: HashSet<&str> = siblings.iter().map(|(uid, _)| &***uid).chain([uid]).collect();
        let is_its =
            |replica: &&Arc<Replica<Config>>| replica.controller.as_ref().is_some_and(|one| sets.contains(&*one.uid));
        let pods = view.iter().flat_map(|view| view.pods.values()).filter(is_its);
        let owners = siblings.iter().map(|(_, owner)| *owner).chain(forms);
        // All their labels together: no watcher selects a Pod with others.
        let labels = owners.map(|owner| &owner.labels).chain(pods.map(|replica| &replica.labels));
        let labels: HashSet<(&String, &String)> = labels.flatten().collect();
        let selects = |watcher: &Resolved| watcher.selector.iter().all(|label| labels.contains(&label));
        self.within(namespace).filter(|(_, watcher)| selects(watcher)).map(|(key, _)| key.clone()).collect()
    }

    /// A namespace without Pods and owners takes no room.
    fn drop_empty(&mut self) {
        self.namespaces.retain(|_, view| !view.pods.is_empty() || !view.owners.is_empty());
    }

    fn selecting(&self, namespace: &str, all: &[&BTreeMap<String, String>]) -> Vec<Key> {
        let selects = |watcher: &Resolved| all.iter().any(|labels| watcher.selects(labels));
        self.within(namespace).filter(|(_, watcher)| selects(watcher)).map(|(key, _)| key.clone()).collect()
    }

    fn lose(&mut self, gone: &[Key]) -> Vec<Key> {
        let mut changed = Vec::new();
        for key in gone {
            if let Some(known) = self.config_maps.get_mut(key) {
                self.changes += 1;
                *known = Version { version: None, change: self.changes };
                changed.push(key.clone());
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests;
