//! Peers: every OneAgent that is watched, by what it selects, so that two never take one node; and who is still there.
//!
//! Fed by the OneAgents' own watches, before anybody looks at one. Must not decide what a conflict means.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

use super::fleet::{Fleet, Key};
use super::overlap::Other;
use super::resolve::resolve;
use crate::api::oneagent::OneAgent;
use crate::k8s::placement::Placement;

#[derive(Debug, Clone)]
struct Peer {
    uid: Option<String>,
    /// Creation time in seconds: with the name, who is older.
    created: i64,
    generation: Option<i64>,
    /// What it selects, by the last spec of it that made sense.
    placement: Option<Arc<Placement>>,
}

/// Who must be told of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Those that are gone, with their UIDs.
    pub gone: Vec<(Key, Option<String>)>,
    /// Whether all others should be looked at.
    pub concerns_all: bool,
}

#[derive(Debug, Default)]
struct Inner {
    all: BTreeMap<Key, Peer>,
    /// Keys seen since a list began, by scope.
    listed: HashMap<String, HashSet<Key>>,
    /// Scopes that are not known yet.
    unknown: HashSet<String>,
}

/// All OneAgents that are watched.
#[derive(Debug, Default)]
pub struct Peers(Mutex<Inner>);

impl Peers {
    /// Of these scopes nothing is known yet.
    pub fn expect(&self, scopes: &[String]) {
        self.inner().unknown.extend(scopes.iter().cloned());
    }

    /// Whether every scope was listed, or could not be.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.inner().unknown.is_empty()
    }

    /// A scope cannot be listed: the others do not wait for it.
    pub fn unreadable(&self, scope: &str) {
        self.inner().unknown.remove(scope);
    }

    /// Takes an event of the watch of one scope.
    pub fn take(&self, scope: &str, event: &Event<DeserializeGuard<OneAgent>>) -> News {
        let mut inner = self.inner();
        let key_of = |object: &DeserializeGuard<OneAgent>| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Init => {
                inner.listed.insert(scope.to_owned(), HashSet::new());
                News::default()
            }
            Event::InitApply(object) => {
                let key = key_of(object);
                inner.listed.entry(scope.to_owned()).or_default().insert(key.clone());
                inner.note(key, object);
                News::default()
            }
            Event::Apply(object) => {
                let concerns_all = inner.note(key_of(object), object);
                News { gone: Vec::new(), concerns_all }
            }
            Event::Delete(object) => {
                let key = key_of(object);
                inner.all.remove(&key);
                News { gone: vec![(key, object.uid())], concerns_all: true }
            }
            Event::InitDone => {
                let listed = inner.listed.remove(scope).unwrap_or_default();
                inner.unknown.remove(scope);
                let is_gone = |key: &Key| (scope.is_empty() || *scope == key.0) && !listed.contains(key);
                let gone: Vec<(Key, Option<String>)> =
                    inner.all.iter().filter(|(key, _)| is_gone(key)).map(|(key, peer)| (key.clone(), peer.uid.clone())).collect();
                inner.all.retain(|key, _| !is_gone(key));
                News { gone, concerns_all: true }
            }
        }
    }

    /// Whether an object is still there.
    #[must_use]
    pub fn is_there(&self, key: &Key) -> bool {
        self.inner().all.contains_key(key)
    }

    /// The others, and on which nodes their agents are available.
    #[must_use]
    pub fn others(&self, key: &Key, fleet: &Fleet) -> Vec<Other> {
        let inner = self.inner();
        let Some(own) = inner.all.get(key) else { return Vec::new() };
        let others = inner.all.iter().filter(|(other, _)| *other != key);
        let mut others: Vec<(i64, Key, Arc<Placement>)> =
            others.filter_map(|(other, peer)| Some((peer.created, other.clone(), peer.placement.clone()?))).collect();
        let own = (own.created, key.clone());
        drop(inner);
        others.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let serves =
            |key: &Key| fleet.pods(key).iter().filter(|pod| !pod.deleting && pod.ready_since.is_some()).map(|pod| pod.node.clone()).collect();
        let other = |(created, other, placement): (i64, Key, Arc<Placement>)| Other {
            name: format!("{}/{}", other.0, other.1),
            is_older: (created, &other) < (own.0, &own.1),
            placement,
            serves: serves(&other),
        };
        others.into_iter().map(other).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes note of an object; returns whether others should hear of it. A spec that makes no sense changes nothing: its
    /// agents go on where they are.
    fn note(&mut self, key: Key, object: &DeserializeGuard<OneAgent>) -> bool {
        let generation = object.meta().generation;
        let before = self.all.get(&key).filter(|peer| peer.uid == object.uid()).cloned();
        if before.as_ref().is_some_and(|peer| peer.generation == generation) {
            return false;
        }
        let placement = object.0.as_ref().ok().and_then(|object| resolve(object).ok()).map(|resolved| Arc::new(resolved.policy.placement));
        let kept = before.and_then(|peer| peer.placement);
        let changed = placement != kept;
        let created = object.creation_timestamp().map_or(i64::MAX, |at| at.0.as_second());
        self.all.insert(key, Peer { uid: object.uid(), created, generation, placement: placement.or(kept) });
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, generation: i64, url: &str) -> DeserializeGuard<OneAgent> {
        serde_json::from_value(json!({
            "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": name, "namespace": "n", "uid": format!("uid-{name}"), "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "apiUrl": url },
        }))
        .unwrap()
    }

    const GOOD: &str = "https://e.example/api";

    #[test]
    fn one_that_goes_in_a_gap_of_the_watch_is_missed_at_the_end_of_the_next_list() {
        let peers = Peers::default();
        peers.expect(&["n".to_owned(), "m".to_owned()]);
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        for event in [Event::Init, Event::InitApply(object("a", 1, GOOD)), Event::InitApply(object("b", 1, GOOD))] {
            assert_eq!(peers.take("n", &event), News::default());
        }
        assert!(peers.take("n", &Event::InitDone).concerns_all && !peers.are_known());
        peers.unreadable("m");
        assert!(peers.are_known(), "a namespace that cannot be read holds up nobody");
        peers.take("n", &Event::Init);
        peers.take("n", &Event::InitApply(object("b", 1, GOOD)));
        assert!(peers.is_there(&key("a")), "the list is not complete");
        assert_eq!(peers.take("n", &Event::InitDone).gone, [(key("a"), Some("uid-a".into()))]);
        assert!(!peers.is_there(&key("a")) && peers.is_there(&key("b")));
    }

    #[test]
    fn of_two_of_one_age_the_name_decides_and_a_spec_that_makes_no_sense_moves_nobody() {
        let peers = Peers::default();
        assert!(peers.take("", &Event::Apply(object("a", 1, GOOD))).concerns_all);
        peers.take("", &Event::Apply(object("b", 1, GOOD)));
        assert!(!peers.take("", &Event::Apply(object("b", 1, GOOD))).concerns_all, "a status, say");
        let fleet = Fleet::default();
        let older =
            |name: &str| peers.others(&("n".to_owned(), name.to_owned()), &fleet).into_iter().map(|o| (o.name, o.is_older)).collect::<Vec<_>>();
        assert_eq!((older("a"), older("b")), (vec![("n/b".to_owned(), false)], vec![("n/a".to_owned(), true)]));
        peers.take("", &Event::Apply(object("a", 2, "nonsense")));
        assert_eq!(older("b"), [("n/a".to_owned(), true)]);
    }
}
