//! Peers: every OneAgent that is watched, by what it selects, so that two never take one node.
//!
//! Fed by the OneAgents' own watches, before anybody looks at one. Must not decide what a conflict means.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};

use super::fleet::Fleet;
use super::overlap::{Other, Stranger};
use super::resolve::resolve;
use crate::api::oneagent::OneAgent;
use crate::k8s::placement::Placement;
use crate::kernel::Key;

#[derive(Debug, Clone)]
struct Peer {
    uid: Option<String>,
    /// Creation time in seconds: with the name, who is older.
    created: i64,
    generation: Option<i64>,
    /// What it selects, by the last spec of it that made sense.
    placement: Option<Arc<Placement>>,
}

#[derive(Debug, Default)]
struct Inner {
    all: BTreeMap<Key, Peer>,
    /// Scopes that are not known yet.
    unknown: HashSet<String>,
    /// Scopes of which nothing was ever known, because they cannot be read.
    unread: HashSet<String>,
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

    /// A scope was listed; or it cannot be, and the others do not wait for it.
    pub fn listed(&self, scope: &str, is_readable: bool) {
        let mut inner = self.inner();
        let is_first = inner.unknown.remove(scope);
        if is_readable {
            inner.unread.remove(scope);
        } else if is_first {
            inner.unread.insert(scope.to_owned());
        }
    }

    /// Whether nothing was ever known of a namespace.
    #[must_use]
    pub fn is_unread(&self, namespace: &str) -> bool {
        self.inner().unread.iter().any(|scope| scope.is_empty() || scope == namespace)
    }

    /// Takes note of an object; returns whether others should hear of it. A spec that makes no sense changes nothing:
    /// its agents go on where they are.
    pub fn note(&self, object: &DeserializeGuard<OneAgent>) -> bool {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        self.inner().note(key, object)
    }

    pub fn gone(&self, key: &Key) {
        self.inner().all.remove(key);
    }

    /// Whether an object has not been edited, deleted or created again since.
    #[must_use]
    pub fn is_still(&self, key: &Key, object: &OneAgent) -> bool {
        let is_it = |peer: &Peer| (&peer.uid, peer.generation) == (&object.uid(), object.metadata.generation);
        self.inner().all.get(key).is_some_and(is_it)
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
        let serves = |key: &Key| {
            fleet
                .pods(key)
                .iter()
                .filter(|pod| !pod.deleting && pod.ready_since.is_some())
                .map(|pod| pod.node.clone())
                .collect()
        };
        let other = |(created, other, placement): (i64, Key, Arc<Placement>)| Other {
            name: format!("{}/{}", other.0, other.1),
            is_older: (created, &other) < (own.0, &own.1),
            placement,
            serves: serves(&other),
        };
        others.into_iter().map(other).collect()
    }

    /// Older ones of which nobody knows what they select; of those that were deleted, the ones to whom nodes were left.
    #[must_use]
    pub fn strangers(&self, key: &Key, yielded: &BTreeSet<String>, fleet: &Fleet) -> Vec<Stranger> {
        let inner = self.inner();
        let Some(own) = inner.all.get(key) else { return Vec::new() };
        let is_older = |other: &Key, peer: &Peer| (peer.created, other) < (own.created, key);
        let senseless = inner.all.iter().filter(|(other, peer)| is_older(other, peer) && peer.placement.is_none());
        let mut found: Vec<(Key, bool)> = senseless.map(|(other, _)| (other.clone(), false)).collect();
        let names = yielded.iter().filter_map(|older| older.split_once('/'));
        let keys = names.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        found.extend(keys.filter(|older| !inner.all.contains_key(older)).map(|older| (older, true)));
        drop(inner);
        let has = |key: &Key| fleet.pods(key).iter().filter(|pod| !pod.deleting).map(|pod| pod.node.clone()).collect();
        let stranger =
            |(key, is_gone): (Key, bool)| Stranger { name: format!("{}/{}", key.0, key.1), is_gone, has: has(&key) };
        found.into_iter().map(stranger).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Inner {
    fn note(&mut self, key: Key, object: &DeserializeGuard<OneAgent>) -> bool {
        let generation = object.meta().generation;
        let before = self.all.get(&key).filter(|peer| peer.uid == object.uid()).cloned();
        if before.as_ref().is_some_and(|peer| peer.generation == generation) {
            return false;
        }
        let placement =
            object.0.as_ref().ok().and_then(|object| resolve(object).ok()).map(|resolved| Arc::new(resolved.placement));
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
            "metadata": { "name": name, "namespace": "n", "uid": format!("uid-{name}"), "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "apiUrl": url },
        }))
        .unwrap()
    }

    const GOOD: &str = "https://e.example/api";

    #[test]
    fn nobody_waits_for_a_namespace_that_cannot_be_read() {
        let peers = Peers::default();
        peers.expect(&["n".to_owned(), "m".to_owned()]);
        peers.listed("n", true);
        assert!(!peers.are_known());
        peers.listed("m", false);
        assert!(peers.are_known() && peers.is_unread("m") && !peers.is_unread("n"));
        peers.listed("n", false);
        assert!(!peers.is_unread("n"), "what was known stays known");
        peers.listed("m", true);
        assert!(!peers.is_unread("m"));
    }

    #[test]
    fn of_two_of_one_age_the_name_decides_and_a_spec_that_makes_no_sense_moves_nobody() {
        let peers = Peers::default();
        assert!(peers.note(&object("a", 1, GOOD)));
        peers.note(&object("b", 1, GOOD));
        assert!(!peers.note(&object("b", 1, GOOD)), "a status, say");
        let fleet = Fleet::default();
        let older = |name: &str| {
            peers
                .others(&("n".to_owned(), name.to_owned()), &fleet)
                .into_iter()
                .map(|o| (o.name, o.is_older))
                .collect::<Vec<_>>()
        };
        assert_eq!((older("a"), older("b")), (vec![("n/b".to_owned(), false)], vec![("n/a".to_owned(), true)]));
        peers.note(&object("a", 2, "nonsense"));
        assert_eq!(older("b"), [("n/a".to_owned(), true)]);
        peers.gone(&("n".to_owned(), "a".to_owned()));
        assert_eq!(older("b"), []);
    }
}
