//! The fleet as the watches show it: nodes, the agents' Pods, DaemonSets; trimmed to what decisions need.
//!
//! Fed by one watch per kind, in place: a relist updates entries instead of building a second set. Tells which
//! OneAgents a change concerns; a node's heartbeat concerns none. Must not decide anything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::revision::{Pod, Revision};
use crate::fleet::nodes::node;
use crate::fleet::pods::{self, was_ready};
use crate::k8s::facts::{HASH_ANNOTATION, NodeFacts, PodFacts, VERSION_ANNOTATION};
use crate::k8s::node::Node;
use crate::kernel::Key;
use crate::kernel::runtime::Concerns;

#[derive(Debug, Default)]
pub struct Fleet {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    pods: HashMap<Key, BTreeMap<Arc<str>, Arc<Pod>>>,
    daemonsets: HashMap<Key, Arc<DaemonSet>>,
    /// When the Pods of a OneAgent last changed.
    changed: HashMap<Key, Instant>,
    /// Names seen since a relist began, by watch; what is not among them at its end is gone.
    relisted: HashMap<String, HashSet<(String, Arc<str>)>>,
}

impl Inner {
    /// Takes a Pod out, whosever it is.
    fn drop_pod(&mut self, facts: &PodFacts) -> Concerns {
        let (namespace, name) = (facts.namespace().unwrap_or_default(), facts.name_any());
        let of = |(key, pods): (&Key, &BTreeMap<Arc<str>, Arc<Pod>>)| {
            (key.0 == namespace && pods.contains_key(name.as_str())).then(|| key.clone())
        };
        let Some(key) = self.pods.iter().find_map(of) else { return Concerns::Nobody };
        if let Some(pods) = self.pods.get_mut(&key) {
            pods.remove(name.as_str());
            if pods.is_empty() {
                self.pods.remove(&key);
            }
        }
        self.changed.insert(key.clone(), Instant::now());
        Concerns::One(key)
    }
}

impl Fleet {
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
        self.read().pods.get(key).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }

    /// For how long the Pods of a OneAgent have not changed; `None` when they never did.
    #[must_use]
    pub fn quiet(&self, key: &Key) -> Option<Duration> {
        self.read().changed.get(key).map(Instant::elapsed)
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        self.write().changed.remove(key);
    }

    /// The DaemonSet of a OneAgent's name, if it has the label of ours.
    #[must_use]
    pub fn daemonset(&self, key: &Key) -> Option<Arc<DaemonSet>> {
        self.read().daemonsets.get(key).cloned()
    }

    /// Takes what we have just written, ahead of the watch; an older state that the watch still brings is passed over
    /// by `newer`.
    pub fn wrote(&self, key: &Key, daemonset: Arc<DaemonSet>) {
        let mut inner = self.write();
        // The watch may have been faster than the answer: what it brought since must not be lost.
        if !inner.daemonsets.get(key).is_some_and(|known| newer(known, &daemonset)) {
            inner.daemonsets.insert(key.clone(), daemonset);
        }
    }

    /// Takes an event of the nodes' watch.
    pub fn node(&self, event: &Event<NodeFacts>) -> Concerns {
        let mut inner = self.write();
        match event {
            Event::Init => {
                inner.relisted.insert("nodes".to_owned(), HashSet::new());
                Concerns::Nobody
            }
            Event::InitApply(facts) | Event::Apply(facts) => {
                let node = Arc::new(node(facts));
                if matches!(event, Event::InitApply(_)) {
                    inner.relisted.entry("nodes".to_owned()).or_default().insert((String::new(), node.name.clone()));
                }
                let before = inner.nodes.insert(node.name.clone(), node.clone());
                if before.as_ref() == Some(&node) { Concerns::Nobody } else { Concerns::All }
            }
            Event::Delete(facts) => {
                inner.nodes.remove(facts.name_any().as_str());
                Concerns::All
            }
            Event::InitDone => {
                let seen = inner.relisted.remove("nodes").unwrap_or_default();
                inner.nodes.retain(|name, _| seen.contains(&(String::new(), name.clone())));
                Concerns::All
            }
        }
    }

    /// Takes an event of the Pods' watch of one scope (a namespace, or all).
    pub fn pod(&self, scope: &str, event: &Event<PodFacts>) -> Concerns {
        let mut inner = self.write();
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
                    return inner.drop_pod(facts);
                };
                if matches!(event, Event::InitApply(_)) {
                    inner.relisted.entry(watch).or_default().insert((key.0.clone(), pod.name.clone()));
                }
                let pods = inner.pods.entry(key.clone()).or_default();
                if let Some(before) = pods.get(&pod.name).filter(|before| before.uid == pod.uid) {
                    pod.was_ready = was_ready(before, &pod);
                }
                let unchanged = pods.get(&pod.name).is_some_and(|before| {
                    Pod { resource_version: pod.resource_version.clone(), ..(**before).clone() } == pod
                });
                pods.insert(pod.name.clone(), Arc::new(pod));
                if unchanged {
                    return Concerns::Nobody;
                }
                inner.changed.insert(key.clone(), Instant::now());
                Concerns::One(key)
            }
            Event::Delete(facts) => inner.drop_pod(facts),
            Event::InitDone => {
                let seen = inner.relisted.remove(&watch).unwrap_or_default();
                for (key, pods) in &mut inner.pods {
                    if scope.is_empty() || *scope == key.0 {
                        pods.retain(|name, _| seen.contains(&(key.0.clone(), name.clone())));
                    }
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
                inner.daemonsets.insert(key.clone(), Arc::new(object));
                Concerns::One(key)
            }
            Event::Apply(object) => {
                let key = key_of(&object);
                if inner.daemonsets.get(&key).is_some_and(|known| newer(known, &object)) {
                    return Concerns::Nobody;
                }
                inner.daemonsets.insert(key.clone(), Arc::new(object));
                Concerns::One(key)
            }
            Event::Delete(object) => {
                let key = key_of(&object);
                inner.daemonsets.remove(&key);
                Concerns::One(key)
            }
            Event::InitDone => {
                let seen = inner.relisted.remove(&watch).unwrap_or_default();
                inner.daemonsets.retain(|key, _| {
                    (!scope.is_empty() && scope != key.0) || seen.contains(&(key.0.clone(), key.1.as_str().into()))
                });
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

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use serde_json::{Value, json};

    fn pod(change: impl FnOnce(&mut Value)) -> Event<PodFacts> {
        let mut value = json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "dynatrace": "oneagent", "oneagent": "a" },
                "annotations": { "other": "x", HASH_ANNOTATION: "h" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "d",
                "controller": true }],
                "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
            },
            "spec": { "nodeName": "node-1", "containers": [] },
            "status": { "phase": "Pending" },
        });
        change(&mut value);
        Event::Apply(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_pod_is_ours_by_its_controller_and_not_by_its_labels() {
        let key = ("n".to_owned(), "a".to_owned());
        let fleet = Fleet::default();
        for theirs in [
            pod(|p| p["metadata"]["ownerReferences"] = json!([])),
            pod(|p| p["metadata"]["ownerReferences"][0]["name"] = "b".into()),
        ] {
            assert_eq!(fleet.pod("", &theirs), Concerns::Nobody);
        }
        assert!(fleet.pods(&key).is_empty());
        assert_eq!(fleet.pod("", &pod(|_| {})), Concerns::One(key.clone()));
        let known = fleet.pods(&key).remove(0);
        assert_eq!(
            (&*known.node, known.revision.as_ref().unwrap().hash.as_str()),
            ("node-1", "h"),
            "a Pod that is not bound yet is on the node that it is made for"
        );
        assert_eq!(
            fleet.pod("", &pod(|p| p["metadata"]["resourceVersion"] = "2".into())),
            Concerns::Nobody,
            "nothing that matters changed"
        );
        assert_eq!(&*fleet.pods(&key)[0].resource_version, "2", "and yet the newest version is known, for deletions");
    }

    #[test]
    fn a_heartbeat_concerns_nobody_and_a_relist_forgets_what_is_gone() {
        let node = |name: &str, beat: &str, ready: &str| {
            let value = json!({ "metadata": { "name": name, "labels": {} },
                "status": { "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": beat,
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
            serde_json::from_value::<NodeFacts>(value).unwrap()
        };
        let fleet = Fleet::default();
        assert_eq!(fleet.node(&Event::Apply(node("a", "1", "True"))), Concerns::All);
        assert_eq!(fleet.node(&Event::Apply(node("a", "2", "True"))), Concerns::Nobody);
        assert_eq!(fleet.node(&Event::Apply(node("a", "3", "False"))), Concerns::All);
        fleet.node(&Event::Apply(node("b", "1", "True")));
        fleet.node(&Event::Init);
        fleet.node(&Event::InitApply(node("b", "1", "True")));
        fleet.node(&Event::InitDone);
        assert_eq!(fleet.nodes().iter().map(|n| n.name.to_string()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_pod_that_loses_its_label_or_its_owner_is_no_longer_ours() {
        let key = ("n".to_owned(), "a".to_owned());
        let fleet = Fleet::default();
        for lost in
            [pod(|p| p["metadata"]["labels"] = json!({})), pod(|p| p["metadata"]["ownerReferences"] = json!([]))]
        {
            fleet.pod("", &pod(|_| {}));
            assert_eq!(fleet.pods(&key).len(), 1);
            assert_eq!(fleet.pod("", &lost), Concerns::One(key.clone()));
            assert!(fleet.pods(&key).is_empty());
        }
        let Event::Apply(gone) = pod(|p| p["metadata"]["labels"] = json!({})) else { unreachable!() };
        fleet.pod("", &pod(|_| {}));
        assert_eq!(
            fleet.pod("", &Event::Delete(gone)),
            Concerns::One(key.clone()),
            "also when that is all that is heard of it"
        );
        assert!(fleet.pods(&key).is_empty());
    }

    #[test]
    fn for_how_long_a_pod_was_ready_is_known_after_it_ceased_to_be() {
        let key = ("n".to_owned(), "a".to_owned());
        let status = |ready: &str, since: &str| {
            json!({ "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": since }] })
        };
        let of = |fleet: &Fleet, ready: &str, since: &str| {
            fleet.pod("", &pod(|p| p["status"] = status(ready, since)));
            fleet.pods(&key)[0].was_ready
        };
        let fleet = Fleet::default();
        assert_eq!(of(&fleet, "False", "2026-01-01T00:00:01Z"), None, "it was never Ready");
        assert_eq!(of(&fleet, "True", "2026-01-01T00:01:00Z"), None);
        assert_eq!(of(&fleet, "False", "2026-01-01T00:01:10Z"), Some(TimeDelta::seconds(10)));
        assert_eq!(of(&fleet, "False", "2026-01-01T00:01:10Z"), Some(TimeDelta::seconds(10)), "and it stays known");
        assert_eq!(
            of(&Fleet::default(), "False", "2026-01-01T00:01:10Z"),
            Some(TimeDelta::seconds(70)),
            "after a start: at most so long"
        );
    }

    #[test]
    fn an_answer_older_than_what_the_watch_brought_is_passed_over_and_so_is_the_other_way() {
        let fleet = Fleet::default();
        let key = ("n".to_owned(), "a".to_owned());
        let daemonset = |version: &str| -> DaemonSet {
            serde_json::from_value(
                json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": version } }),
            )
            .unwrap()
        };
        let version = || fleet.daemonset(&key).unwrap().resource_version().unwrap();
        fleet.daemonset_event("", Event::Apply(daemonset("10")));
        fleet.wrote(&key, Arc::new(daemonset("9")));
        assert_eq!(version(), "10");
        fleet.wrote(&key, Arc::new(daemonset("11")));
        assert_eq!(version(), "11");
        fleet.daemonset_event("", Event::Apply(daemonset("10")));
        assert_eq!(version(), "11");
    }
}
