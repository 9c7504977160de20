//! Peers: every OneAgent that is watched, by what it selects, so that two never take one node.
//!
//! Fed by the OneAgents' own watches, before one is reconciled. Must not decide what a conflict means.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};

use super::fleet::Fleet;
use super::overlap::{Agents, Other, are_disjoint};
use super::resolve::resolve;
use crate::api::oneagent::OneAgent;
use crate::k8s::node::Node;
use crate::k8s::placement::{Placement, Verdict};
use crate::kernel::Key;

#[derive(Debug, Clone)]
struct Peer {
    uid: Option<String>,
    /// Creation time in seconds: with the name, which is older.
    created: i64,
    generation: Option<i64>,
    /// What it selects, by the last spec of it that made sense.
    placement: Option<Arc<Placement>>,
}

#[derive(Debug, Default)]
struct Inner {
    all: BTreeMap<Key, Peer>,
    /// Those that remember nodes which they may not select any more.
    remember: HashSet<Key>,
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
        self.inner().is_unread(namespace)
    }

    /// Takes note of an object; returns whether others should hear of it. A spec that is invalid changes nothing:
    /// its agents go on where they are.
    pub fn note(&self, object: &DeserializeGuard<OneAgent>) -> bool {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        self.inner().note(key, object)
    }

    pub fn gone(&self, key: &Key) {
        let mut inner = self.inner();
        inner.all.remove(key);
        inner.remember.remove(key);
    }

    /// Takes note whether one remembers nodes which it may not select any more.
    pub fn remembers(&self, key: &Key, does: bool) {
        let mut inner = self.inner();
        if does {
            inner.remember.insert(key.clone());
        } else {
            inner.remember.remove(key);
        }
    }

    /// The OneAgents to which these nodes matter: their selector matches, or they remember nodes. Of one whose spec
    /// never made sense that is unknown.
    #[must_use]
    pub fn near(&self, nodes: &[Arc<Node>]) -> Vec<Key> {
        let inner = self.inner();
        let is_near = |(key, peer): &(&Key, &Peer)| {
            if inner.remember.contains(*key) {
                return true;
            }
            let Some(placement) = &peer.placement else { return true };
            nodes.iter().any(|node| placement.verdict(node) != Verdict::NotMatching)
        };
        inner.all.iter().filter(is_near).map(|(key, _)| key.clone()).collect()
    }

    /// Whether an object has not been edited, deleted or created again since.
    #[must_use]
    pub fn is_still(&self, key: &Key, object: &OneAgent) -> bool {
        let is_it = |peer: &Peer| (&peer.uid, peer.generation) == (&object.uid(), object.metadata.generation);
        self.inner().all.get(key).is_some_and(is_it)
    }

    /// The others of one that selects `own`, the oldest first, and on which nodes their agents are available.
    #[must_use]
    pub fn others(&self, key: &Key, own: &Placement, fleet: &Fleet) -> Vec<Other> {
        let inner = self.inner();
        let order = inner.order(fleet);
        let Some(here) = order.iter().position(|(other, _)| *other == key) else { return Vec::new() };
        let of =
            |(at, (other, peer)): (usize, (&Key, &Peer))| Some((at < here, other.clone(), peer.placement.clone()?));
        let others = order.into_iter().enumerate().filter(|(at, _)| *at != here);
        let others: Vec<(bool, Key, Arc<Placement>)> = others.filter_map(of).collect();
        drop(inner);
        let serves = |key: &Key| {
            fleet
                .pods(key)
                .iter()
                .filter(|pod| !pod.deleting && pod.ready_since.is_some())
                .map(|pod| pod.node.clone())
                .collect()
        };
        let other = |(is_older, other, placement): (bool, Key, Arc<Placement>)| Other {
            name: written(&other),
            is_older,
            serves: if are_disjoint(own, &placement) { HashSet::new() } else { serves(&other) },
            placement,
        };
        others.into_iter().map(other).collect()
    }

    /// The agents of all others: of those that were deleted, too, and of those to which nodes were left, also if there
    /// are none.
    #[must_use]
    pub fn agents<'f>(&self, key: &Key, yielded: &BTreeSet<String>, fleet: &'f Fleet) -> Vec<Agents<'f>> {
        let inner = self.inner();
        let order = inner.order(fleet);
        let before = order.iter().take_while(|(other, _)| *other != key).filter(|_| inner.all.contains_key(key));
        let invalid: HashSet<&Key> =
            before.filter(|(_, peer)| peer.placement.is_none()).map(|(other, _)| *other).collect();
        let names = yielded.iter().filter_map(|older| older.split_once('/'));
        let mut keys: BTreeSet<Key> = names.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).collect();
        keys.extend(fleet.with_pods());
        keys.remove(key);
        let us = written(key);
        let agents = |other: Key| Agents {
            name: written(&other),
            is_gone: !inner.all.contains_key(&other) && !inner.is_unread(&other.0),
            is_invalid: invalid.contains(&other),
            yields: fleet.yields_to(&other).contains(&us),
            pods: Box::new(move || fleet.pods(&other)),
        };
        keys.into_iter().map(agents).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

/// As people write it.
fn written((namespace, name): &Key) -> String {
    format!("{namespace}/{name}")
}

impl Inner {
    fn is_unread(&self, namespace: &str) -> bool {
        self.unread.iter().any(|scope| scope.is_empty() || scope == namespace)
    }

    /// All, the oldest first. One to which another left its nodes stays the older of the two: deleted and created again
    /// it is the same to its user. The records on DaemonSets say so, and all read the same.
    fn order(&self, fleet: &Fleet) -> Vec<(&Key, &Peer)> {
        let mut order: Vec<(&Key, &Peer)> = self.all.iter().collect();
        order.sort_by_key(|(key, peer)| (peer.created, *key));
        // Most leave no nodes to others.
        let of = |key: &Key| Some(fleet.yields_to(key)).filter(|record| !record.is_empty());
        let records: HashMap<String, Arc<BTreeSet<String>>> =
            order.iter().filter_map(|(key, _)| Some((written(key), of(key)?))).collect();
        if records.is_empty() {
            return order;
        }
        // Records may contradict one another: none is put before others more often than there are others.
        for _ in 0..order.len() {
            let places: HashMap<String, usize> =
                order.iter().enumerate().map(|(at, (key, _))| (written(key), at)).collect();
            let moved = order.iter().enumerate().find_map(|(at, (key, _))| {
                let name = written(key);
                let is_mutual = |older: &String| records.get(older).is_some_and(|record| record.contains(&name));
                let is_later =
                    |older: &&String| places.get(*older).is_some_and(|place| *place > at) && !is_mutual(older);
                Some((*places.get(records.get(&name)?.iter().find(is_later)?)?, at))
            });
            let Some((from, to)) = moved else { break };
            order[to..=from].rotate_right(1);
        }
        order
    }

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
    use crate::k8s::watch::Change;
    use crate::oneagent::build::record::RECORD_ANNOTATION;
    use k8s_openapi::api::apps::v1::DaemonSet;
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
    fn nothing_waits_for_a_namespace_that_cannot_be_read() {
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
    fn of_two_of_one_age_the_name_decides_and_an_invalid_spec_moves_no_agent() {
        let peers = Peers::default();
        assert!(peers.note(&object("a", 1, GOOD)));
        peers.note(&object("b", 1, GOOD));
        assert!(!peers.note(&object("b", 1, GOOD)), "a status, say");
        let fleet = Fleet::default();
        let older = |name: &str| {
            peers
                .others(&("n".to_owned(), name.to_owned()), &Placement::default(), &fleet)
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

    #[test]
    fn a_node_reaches_those_that_its_labels_concern_and_those_that_remember_nodes() {
        let peers = Peers::default();
        let of = |name: &str, selector: serde_json::Value| {
            let spec = json!({ "apiUrl": GOOD, "nodeSelector": selector });
            let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": name, "namespace": "n", "uid": name, "generation": 1 }, "spec": spec });
            peers.note(&serde_json::from_value(object).unwrap());
        };
        for pool in 0..50 {
            of(&format!("pool-{pool:02}"), json!({ "pool": format!("{pool:02}") }));
        }
        let node = |pool: &str| {
            let labels = [("pool", pool), ("kubernetes.io/arch", "amd64"), ("kubernetes.io/os", "linux")];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            Arc::new(Node { labels, ..Node::named("node") })
        };
        let near = |nodes: &[Arc<Node>]| -> Vec<String> { peers.near(nodes).into_iter().map(|key| key.1).collect() };
        assert_eq!(near(&[node("07"), node("07")]), ["pool-07"]);
        assert_eq!(near(&[node("07"), node("31")]), ["pool-07", "pool-31"], "it leaves one and comes to the other");
        let key = ("n".to_owned(), "pool-49".to_owned());
        peers.remembers(&key, true);
        assert_eq!(near(&[node("07")]), ["pool-07", "pool-49"]);
        peers.remembers(&key, false);
        assert_eq!(near(&[node("07")]), ["pool-07"]);
    }

    fn set(name: &str, yields_to: &[&str]) -> Change<DaemonSet> {
        let record = json!({ "yieldsTo": yields_to }).to_string();
        let metadata = json!({ "name": name, "namespace": "n", "annotations": { RECORD_ANNOTATION: record } });
        Change::Applied(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn one_to_which_another_left_its_nodes_stays_the_older_one_and_all_see_one_order() {
        let (peers, fleet) = (Peers::default(), Fleet::default());
        for name in ["all", "gpu", "mid", "new"] {
            peers.note(&object(name, 1, GOOD));
        }
        let order = || {
            let key = |name: &str| ("n".to_owned(), name.to_owned());
            let others = |name: &str| peers.others(&key(name), &Placement::default(), &fleet);
            let older = |name: &str| others(name).iter().filter(|other| other.is_older).count();
            let mut names = ["all", "gpu", "mid", "new"];
            names.sort_by_key(|name| older(name));
            assert!(names.iter().enumerate().all(|(at, name)| older(name) == at), "one order for all");
            names
        };
        let tell = |name: &str, yields_to: &[&str]| fleet.daemonset_change(set(name, yields_to));
        assert_eq!(order(), ["all", "gpu", "mid", "new"], "of one age");
        tell("all", &["n/gone", "n/new"]);
        assert_eq!(order(), ["new", "all", "gpu", "mid"]);
        tell("new", &["n/mid"]);
        assert_eq!(order(), ["mid", "new", "all", "gpu"]);
        tell("mid", &["n/all"]);
        order();
        tell("mid", &[]);
        tell("new", &["n/all"]);
        assert_eq!(order(), ["all", "gpu", "mid", "new"], "each says that the other is older");
        fleet.daemonset_change(Change::Deleted(
            serde_json::from_value(json!({ "metadata": { "name": "new",
            "namespace": "n" } }))
            .unwrap(),
        ));
        assert_eq!(order(), ["new", "all", "gpu", "mid"], "created again");
    }

    #[test]
    fn agents_of_others_are_met_whether_those_are_there_or_not() {
        let (peers, fleet) = (Peers::default(), Fleet::default());
        peers.note(&object("a", 1, GOOD));
        peers.note(&object("b", 1, GOOD));
        peers.note(&object("bad", 1, "nonsense"));
        fleet.daemonset_change(set("b", &["n/a"]));
        let seen = |peers: &Peers, own: &str| -> Vec<(String, bool, bool, bool)> {
            let yielded = ["n/b".to_owned(), "n/bad".to_owned(), "n/gone".to_owned()].into();
            let agents = peers.agents(&("n".to_owned(), own.to_owned()), &yielded, &fleet);
            agents.into_iter().map(|one| (one.name, one.is_gone, one.is_invalid, one.yields)).collect()
        };
        let of = |name: &str, flags: (bool, bool, bool)| (format!("n/{name}"), flags.0, flags.1, flags.2);
        let others =
            [of("b", (false, false, true)), of("bad", (false, false, false)), of("gone", (true, false, false))];
        assert_eq!(seen(&peers, "a"), others, "a younger one keeps nobody from anything");
        peers.note(&object("z", 1, GOOD));
        assert_eq!(seen(&peers, "z")[1], of("bad", (false, true, false)));
        peers.listed("n", false);
        peers.expect(&["n".to_owned()]);
        peers.listed("n", false);
        assert!(!seen(&peers, "a")[2].1, "of a namespace that cannot be read nobody is known to be gone");
    }
}
