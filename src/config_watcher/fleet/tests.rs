//! What the fleet keeps over gaps in its watches, and which watchers a change affects.
//!
//! Events alone go in; must not plan anything.

use super::*;
use crate::config_watcher::resolve::resolve;
use crate::k8s::watch::{Id, list};
use crate::k8s::workload::{ReplicaSetFacts, StatefulSetFacts};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Watcher `n/w` of ConfigMap `c` and Pods `app: a`.
fn fleet() -> (Fleet, Key) {
    let (fleet, key) = (Fleet::default(), ("n".to_owned(), "w".to_owned()));
    let spec = json!({ "configMap": "c", "podSelector": { "app": "a" } });
    let object: Value = json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
        "metadata": { "name": "w", "namespace": "n" }, "spec": spec });
    fleet.watches(&key, Some(resolve(&read(object)).unwrap()));
    (fleet, key)
}

fn config_map(name: &str, version: &str) -> PartialObjectMeta<ConfigMap> {
    read(json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "n", "resourceVersion": version } }))
}

fn pod_of(name: &str, app: &str) -> PodFacts {
    read(json!({ "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "app": app } },
        "spec": { "nodeName": "node" }, "status": { "phase": "Running" } }))
}

#[test]
fn a_list_after_a_gap_tells_of_a_configmap_that_changed_or_went_in_it_and_of_no_other() {
    let (fleet, key) = fleet();
    let relist = |objects: &[PartialObjectMeta<ConfigMap>]| -> Vec<Key> {
        list(Id::Name, objects.to_vec()).flat_map(|change| fleet.config_map(&change)).collect()
    };
    let number = || fleet.last_change("n", "c");
    let named = number();
    assert_eq!(relist(&[config_map("c", "1"), config_map("x", "1")]), std::slice::from_ref(&key));
    let first = number();
    assert!(first > named);
    assert_eq!((relist(&[config_map("c", "1")]), number()), (Vec::new(), first), "the same is no news");
    assert_eq!(relist(&[config_map("c", "2")]), std::slice::from_ref(&key));
    let second = number();
    assert!(second > first);
    assert_eq!(relist(&[config_map("x", "3")]), [key], "it went while nobody looked");
    assert!(number() > second);
}

#[test]
fn a_list_after_a_gap_forgets_the_pods_and_owners_that_went_in_it() {
    let (fleet, key) = fleet();
    let names = || {
        let inner = fleet.read();
        let mut names: Vec<String> = inner.namespace("n").unwrap().pods.keys().map(ToString::to_string).collect();
        names.sort();
        (names, inner.namespace("n").unwrap().owners.len())
    };
    let set = |uid: &str| -> ReplicaSetFacts {
        read(json!({ "metadata": { "name": uid, "namespace": "n", "uid": uid }, "spec": { "replicas": 1 },
            "status": {} }))
    };
    assert_eq!(fleet.pod(&Change::Applied(pod_of("one", "a"))), std::slice::from_ref(&key));
    assert!(fleet.pod(&Change::Applied(pod_of("two", "b"))).is_empty(), "nobody selects it");
    fleet.owner("ReplicaSet", &Change::Applied(set("r1")));
    fleet.owner("ReplicaSet", &Change::Applied(set("r2")));
    let mut pods = list(Id::Name, [pod_of("two", "b")]);
    assert_eq!(fleet.pod(&pods.next().unwrap()), [], "the same is no news");
    assert_eq!(names(), (vec!["one".to_owned(), "two".to_owned()], 2), "not before the list is whole");
    assert_eq!(fleet.pod(&pods.next().unwrap()), std::slice::from_ref(&key));
    list(Id::Uid, [set("r2")]).for_each(|change| drop(fleet.owner("ReplicaSet", &change)));
    assert_eq!(names(), (vec!["two".to_owned()], 1));
}

/// 500 watchers `w…` of Pods `app: a…`.
fn crowd() -> Fleet {
    let fleet = Fleet::default();
    for number in 0..500 {
        let object = json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
            "metadata": { "name": format!("w{number}"), "namespace": "n" },
            "spec": { "configMap": "c", "podSelector": { "app": format!("a{number}") } } });
        fleet.watches(&("n".to_owned(), format!("w{number}")), resolve(&read(object)).ok());
    }
    fleet
}

fn names(told: Vec<Key>) -> Vec<String> {
    told.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn an_event_of_an_owner_reaches_those_whose_picture_it_changes_and_no_other() {
    let fleet = crowd();
    let set = |uid: &str, app: &str, replicas: usize| -> ReplicaSetFacts {
        let above = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d",
            "controller": true }]);
        read(json!({ "metadata": { "name": uid, "namespace": "n", "uid": uid, "ownerReferences": above },
            "spec": { "replicas": replicas, "template": { "metadata": { "labels": { "app": app } } } },
            "status": {} }))
    };
    let apply = |uid: &str, app: &str, replicas: usize| {
        names(fleet.owner("ReplicaSet", &Change::Applied(set(uid, app, replicas))))
    };
    assert_eq!(apply("r1", "a1", 1), ["w1"]);
    assert_eq!(apply("r1", "a1", 1), [""; 0], "the same is no news");
    // A Pod that was made when the template had other labels belongs to the same workload, as another ReplicaSet does.
    let mut pod = pod_of("p", "a2");
    pod.metadata.owner_references = set("x", "x", 1).metadata.owner_references;
    pod.metadata.owner_references.as_mut().unwrap()[0].uid = "r1".to_owned();
    fleet.pod(&Change::Applied(pod));
    assert_eq!(apply("r1", "a1", 2), ["w1", "w2"]);
    assert_eq!(apply("r2", "a3", 1), ["w1", "w2", "w3"]);
    assert_eq!(apply("r2", "a4", 1), ["w1", "w2", "w3", "w4"], "as it was and as it is");
    let gone = fleet.owner("ReplicaSet", &Change::Deleted(set("r2", "a4", 1)));
    assert_eq!(gone.len(), 3);
    let stateful: StatefulSetFacts = read(json!({ "metadata": { "name": "s", "namespace": "n", "uid": "s" },
        "spec": { "template": { "metadata": { "labels": { "app": "a7" } } } }, "status": {} }));
    assert_eq!(names(fleet.owner("StatefulSet", &Change::Applied(stateful))), ["w7"]);
    // A list is one piece of news, however long it is.
    let mut sets = list(Id::Uid, [set("r3", "a5", 1)]);
    assert_eq!(fleet.owner("ReplicaSet", &sets.next().unwrap()), []);
    assert_eq!(fleet.owner("ReplicaSet", &sets.next().unwrap()).len(), 500);
}

#[test]
fn an_event_of_a_pod_reaches_those_that_select_it_or_did() {
    let fleet = crowd();
    let apply = |pod: PodFacts| names(fleet.pod(&Change::Applied(pod)));
    assert_eq!(apply(pod_of("p", "a1")), ["w1"]);
    assert_eq!(apply(pod_of("p", "a1")), [""; 0], "the same is no news");
    let mut touched = pod_of("p", "a1");
    touched.metadata.resource_version = Some("2".to_owned());
    assert_eq!(apply(touched), [""; 0], "nor is another resourceVersion alone");
    assert_eq!(apply(pod_of("p", "a2")), ["w1", "w2"], "as it was and as it is");
    assert_eq!(names(fleet.pod(&Change::Deleted(pod_of("p", "a2")))), ["w2"]);
}

#[test]
fn a_namespace_that_is_empty_again_takes_no_room() {
    let (fleet, _) = fleet();
    fleet.pod(&Change::Applied(pod_of("one", "a")));
    fleet.pod(&Change::Deleted(pod_of("one", "a")));
    assert!(fleet.read().namespace("n").is_none());
}
