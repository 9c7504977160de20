//! What the watches show: the Pods with their containers, and who selects them.
//!
//! Fed in place. Says which objects a change affects. Must not decide anything.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use super::marks::is_marked;
use super::resolve::Resolved;
use super::run::{Came, Identity, Run, Why};
use super::target::{Pools, Target};
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::k8s::containers::PodContainers;
use crate::k8s::watch::{Change, Listed, key_of};
use crate::kernel::Key;

/// Images come for as long as the operator lives: with more than these they are learned again.
const IDENTITIES: usize = 2000;

#[derive(Debug, Default)]
pub struct Fleet {
    inner: RwLock<Inner>,
    /// A Pod may carry annotations of ours that it should not have.
    pub changed: Notify,
}

#[derive(Debug, Default)]
pub struct Inner {
    /// Pods, by namespace.
    targets: HashMap<String, BTreeSet<Named>>,
    objects: BTreeMap<Key, Object>,
    /// Namespaces whose objects are all known; the empty one means all.
    known: HashSet<String>,
    pools: Pools,
    /// The user of the JVMs of an image, where only the image says so.
    identities: HashMap<Arc<str>, Identity>,
}

/// An object.
#[derive(Debug)]
struct Object {
    /// As it was last valid; `None`: what it selects is unknown.
    resolved: Option<Arc<Resolved>>,
    /// Whether it is valid now.
    is_valid: bool,
}

/// A Pod, found by its name.
#[derive(Debug, Clone)]
struct Named(Arc<Target>);

impl Borrow<str> for Named {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Ord for Named {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Named {}

impl Fleet {
    pub fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    /// Takes note of an object. `resolved`: `None` while what it selects is unknown. Returns whether it is another than
    /// before.
    pub fn selects(&self, key: &Key, resolved: Option<Resolved>) -> bool {
        let mut inner = self.inner.write();
        let Some(resolved) = resolved else {
            // A spec that became invalid gives its Pods to no other object.
            let known = inner.objects.entry(key.clone()).or_insert(Object { resolved: None, is_valid: false });
            known.is_valid = false;
            self.changed.notify_one();
            return false;
        };
        let is_known = |known: &Object| known.resolved.as_deref() == Some(&resolved);
        if let Some(known) = inner.objects.get_mut(key).filter(|known| is_known(known)) {
            known.is_valid = true;
            return false;
        }
        inner.objects.insert(key.clone(), Object { resolved: Some(Arc::new(resolved)), is_valid: true });
        self.changed.notify_one();
        true
    }

    /// An object is gone.
    pub fn gone(&self, key: &Key) {
        self.inner.write().objects.remove(key);
        self.changed.notify_one();
    }

    /// The objects of a namespace are known, or cannot be read.
    pub fn listed(&self, namespace: &str, is_readable: bool) {
        let mut inner = self.inner.write();
        if is_readable {
            inner.known.insert(namespace.to_owned());
        } else {
            inner.known.remove(namespace);
        }
        self.changed.notify_one();
    }

    /// Takes a change of the Pods; returns the objects that it affects. `ended` gets each run that has ended with it.
    pub fn pod(&self, change: &Change<PodContainers>, ended: impl Fn(&Run)) -> Vec<Key> {
        let mut inner = self.inner.write();
        match change {
            Change::Listed(pod) | Change::Applied(pod) => {
                let Some(target) = Target::of(pod, &mut inner.pools) else { return Vec::new() };
                if is_marked(&target.annotations) {
                    self.changed.notify_one();
                }
                inner.see(&key_of(pod).0, target, ended)
            }
            Change::Deleted(pod) => {
                let (namespace, name) = key_of(pod);
                let gone = inner.targets.get_mut(&namespace).and_then(|all| all.take(name.as_str()));
                inner.drop_empty();
                gone.map(|Named(gone)| inner.selecting(&namespace, &[&gone.labels])).unwrap_or_default()
            }
            Change::Complete(listed) => {
                for (namespace, all) in &mut inner.targets {
                    all.retain(|Named(target)| !listed.lacks(namespace, &target.name));
                }
                inner.drop_empty();
                inner.all(listed)
            }
        }
    }
}

impl Inner {
    fn see(&mut self, namespace: &str, mut target: Target, ended: impl Fn(&Run)) -> Vec<Key> {
        self.learn(&target);
        let before = self.target(namespace, &target.name);
        // It ceased to be Ready for a moment, while a run was at work: that is harm all the same.
        if let Some(before) = before.filter(|before| before.uid == target.uid && target.unready_since.is_none()) {
            let last = target.runs.last().map(Run::asked_at);
            target.unready_since = before.unready_since.filter(|at| last.is_some_and(|last| last <= *at));
        }
        let target = Arc::new(target);
        let all = self.targets.entry(namespace.to_owned()).or_default();
        let before = all.replace(Named(target.clone())).map(|Named(before)| before);
        if before.as_ref().is_some_and(|before| before.is_like(&target)) {
            return Vec::new();
        }
        if let Some(before) = before.as_ref().filter(|before| before.uid == target.uid) {
            let had_ended = |run: &Run| before.runs.iter().any(|one| one.name == run.name && one.has_ended());
            target.runs.iter().filter(|run| run.has_ended() && !had_ended(run)).for_each(ended);
        }
        let before = before.as_ref().map_or(&target.labels, |before| &before.labels);
        self.selecting(namespace, &[before, &target.labels])
    }

    /// Records the user of the JVMs of its images.
    fn learn(&mut self, target: &Target) {
        for run in &target.runs {
            let Came::Refused(_, refused) = &run.came else { continue };
            if let (Some(identity), Some(instance)) = (&refused.identity, target.instance(&run.asked.target)) {
                if self.identities.len() >= IDENTITIES {
                    self.identities.clear();
                }
                let known = self.identities.entry(instance.shape.image.clone()).or_insert_with(|| identity.clone());
                // That of a process that may be none replaces no JVM's.
                if refused.why != Why::Obstacle(Obstacle::NoJvm) {
                    known.clone_from(identity);
                }
            }
        }
    }

    /// The user of the JVMs of an image, as far as one of them said.
    #[must_use]
    pub fn identity(&self, image: &str) -> Option<&Identity> {
        self.identities.get(image)
    }

    /// The Pods of a namespace that a selector matches and that have not ended, by name.
    pub fn selected<'i>(&'i self, resolved: &'i Resolved) -> impl Iterator<Item = &'i Arc<Target>> {
        let all = self.targets.get(&resolved.namespace).into_iter().flatten().map(|Named(target)| target);
        all.filter(|target| !target.is_ending && resolved.selects(&target.labels))
    }

    /// Those of them that have ended and are not deleted: what was done to them may still be news.
    pub fn ended<'i>(&'i self, resolved: &'i Resolved) -> impl Iterator<Item = &'i Arc<Target>> {
        let all = self.targets.get(&resolved.namespace).into_iter().flatten().map(|Named(target)| target);
        all.filter(|target| target.is_over && !target.runs.is_empty() && resolved.selects(&target.labels))
    }

    /// A Pod.
    #[must_use]
    pub fn target(&self, namespace: &str, name: &str) -> Option<&Arc<Target>> {
        self.targets.get(namespace)?.get(name).map(|Named(target)| target)
    }

    /// The object that keeps a Pod: of several that select it the oldest.
    #[must_use]
    pub fn keeper<'i>(&'i self, namespace: &str, target: &Target) -> Option<&'i Arc<Resolved>> {
        let selecting = self.within(namespace).filter_map(|(_, object)| object.resolved.as_ref());
        let selecting = selecting.filter(|resolved| resolved.selects(&target.labels));
        selecting.min_by_key(|resolved| (resolved.created, &resolved.name))
    }

    /// Whether an object is still what it was.
    #[must_use]
    pub fn is_still(&self, key: &Key, resolved: &Resolved) -> bool {
        let known = self.objects.get(key).filter(|known| known.is_valid);
        known.is_some_and(|known| known.resolved.as_deref() == Some(resolved))
    }

    /// Pods with annotations of ours that no object selects; none where what an object selects is unknown.
    #[must_use]
    pub fn orphans(&self) -> Vec<(String, Arc<Target>)> {
        let mut orphans = Vec::new();
        for (namespace, all) in &self.targets {
            let is_known = self.known.contains("") || self.known.contains(namespace);
            if !is_known || self.within(namespace).any(|(_, object)| object.resolved.is_none()) {
                continue;
            }
            let is_orphan = |target: &&Arc<Target>| {
                is_marked(&target.annotations) && !target.is_ending && self.keeper(namespace, target).is_none()
            };
            let all = all.iter().map(|Named(target)| target);
            orphans.extend(all.filter(is_orphan).map(|target| (namespace.clone(), target.clone())));
        }
        orphans
    }

    fn within<'i>(&'i self, namespace: &str) -> impl Iterator<Item = (&'i Key, &'i Object)> + use<'i> {
        let first = (namespace.to_owned(), String::new());
        let namespace = first.0.clone();
        self.objects.range(first..).take_while(move |(key, _)| key.0 == namespace)
    }

    fn selecting(&self, namespace: &str, all: &[&BTreeMap<String, String>]) -> Vec<Key> {
        let selects = |resolved: &Resolved| all.iter().any(|labels| resolved.selects(labels));
        let of = |object: &Object| object.resolved.as_ref().is_some_and(|resolved| selects(resolved));
        self.within(namespace).filter(|(_, object)| of(object)).map(|(key, _)| key.clone()).collect()
    }

    /// The objects of the namespaces of a list.
    fn all(&self, listed: &Listed) -> Vec<Key> {
        self.objects.keys().filter(|key| listed.covers(&key.0)).cloned().collect()
    }

    /// A namespace without Pods takes no room.
    fn drop_empty(&mut self) {
        self.targets.retain(|_, all| !all.is_empty());
    }
}
