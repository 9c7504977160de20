//! What the fleet makes of events.

use super::*;
use crate::k8s::watch::{Id, list};
use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};

fn pod(change: impl FnOnce(&mut Value)) -> Change<PodFacts> {
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
    Change::Applied(serde_json::from_value(value).unwrap())
}

#[test]
fn a_pod_is_ours_by_its_controller_and_not_by_its_labels() {
    let key = ("n".to_owned(), "a".to_owned());
    let fleet = Fleet::default();
    for theirs in [
        pod(|p| p["metadata"]["ownerReferences"] = json!([])),
        pod(|p| p["metadata"]["ownerReferences"][0]["name"] = "b".into()),
    ] {
        assert_eq!(fleet.pod(&theirs), Affects::Nobody);
    }
    assert!(fleet.pods(&key).is_empty());
    assert_eq!(fleet.pod(&pod(|_| {})), Affects::One(key.clone()));
    let known = fleet.pods(&key).remove(0);
    assert_eq!(
        (&*known.node, known.revision.as_ref().unwrap().hash.as_str()),
        ("node-1", "h"),
        "a Pod that is not bound yet is on the node that it is made for"
    );
    assert_eq!(
        fleet.pod(&pod(|p| p["metadata"]["resourceVersion"] = "2".into())),
        Affects::Nobody,
        "nothing that matters changed"
    );
    assert_eq!(&*fleet.pods(&key)[0].resource_version, "2", "and yet the newest version is known, for deletions");
}

#[test]
fn a_heartbeat_concerns_no_one_and_a_relist_forgets_what_is_gone() {
    let node = |name: &str, beat: &str, ready: &str| {
        let value = json!({ "metadata": { "name": name, "labels": {} },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": beat,
            "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        serde_json::from_value::<NodeFacts>(value).unwrap()
    };
    let fleet = Fleet::default();
    assert!(matches!(fleet.node(&Change::Applied(node("a", "1", "True"))), NodeChange::One(nodes) if nodes.len() == 1));
    assert_eq!(fleet.node(&Change::Applied(node("a", "2", "True"))), NodeChange::Nothing);
    assert!(
        matches!(fleet.node(&Change::Applied(node("a", "3", "False"))), NodeChange::One(nodes) if nodes.len() == 2)
    );
    fleet.node(&Change::Applied(node("b", "1", "True")));
    list(Id::Name, [node("b", "1", "True")]).for_each(|change| drop(fleet.node(&change)));
    assert_eq!(fleet.nodes().iter().map(|n| n.name.to_string()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_pod_that_loses_its_label_or_its_owner_is_no_longer_ours() {
    let key = ("n".to_owned(), "a".to_owned());
    let fleet = Fleet::default();
    for lost in [pod(|p| p["metadata"]["labels"] = json!({})), pod(|p| p["metadata"]["ownerReferences"] = json!([]))] {
        fleet.pod(&pod(|_| {}));
        assert_eq!(fleet.pods(&key).len(), 1);
        assert_eq!(fleet.pod(&lost), Affects::One(key.clone()));
        assert!(fleet.pods(&key).is_empty());
    }
    let Change::Applied(gone) = pod(|p| p["metadata"]["labels"] = json!({})) else { unreachable!() };
    fleet.pod(&pod(|_| {}));
    assert_eq!(
        fleet.pod(&Change::Deleted(gone)),
        Affects::One(key.clone()),
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
        fleet.pod(&pod(|p| p["status"] = status(ready, since)));
        fleet.pods(&key)[0].was_ready
    };
    let new = || Fleet::new(Clock::at("2026-01-01T00:01:20Z".parse().unwrap()));
    let fleet = new();
    assert_eq!(of(&fleet, "False", "2026-01-01T00:00:01Z"), None, "it was never Ready");
    assert_eq!(of(&fleet, "True", "2026-01-01T00:01:00Z"), None);
    assert_eq!(of(&fleet, "False", "2026-01-01T00:01:10Z"), Some(TimeDelta::seconds(10)));
    assert_eq!(of(&fleet, "False", "2026-01-01T00:01:10Z"), Some(TimeDelta::seconds(10)), "and it stays known");
    assert_eq!(
        of(&new(), "False", "2026-01-01T00:01:10Z"),
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
    fleet.daemonset_change(Change::Applied(daemonset("10")));
    fleet.wrote(&key, Arc::new(daemonset("9")));
    assert_eq!(version(), "10");
    fleet.wrote(&key, Arc::new(daemonset("11")));
    assert_eq!(version(), "11");
    fleet.daemonset_change(Change::Applied(daemonset("10")));
    assert_eq!(version(), "11");
}

#[test]
fn daemonsets_of_the_vendors_operator_are_known_by_what_they_select_until_they_go() {
    let fleet = Fleet::default();
    let set = |labels: serde_json::Value| -> DaemonSet {
        let pod = json!({ "containers": [], "nodeSelector": labels });
        serde_json::from_value(json!({ "metadata": { "name": "dynakube-oneagent", "namespace": "n" },
            "spec": { "selector": {}, "template": { "spec": pod } } }))
        .unwrap()
    };
    let take = |event: Change<DaemonSet>| fleet.vendors_change(event);
    assert_eq!(take(Change::Applied(set(json!({ "a": "b" })))), Affects::All);
    assert_eq!(take(Change::Applied(set(json!({ "a": "b" })))), Affects::Nobody, "a status, say");
    assert_eq!(fleet.vendors()[0].1.selector["a"], "b");
    let relist = |sets: Vec<DaemonSet>| list(Id::Name, sets).map(take).last();
    assert_eq!((relist(vec![set(json!({ "a": "b" }))]), fleet.vendors().len()), (Some(Affects::Nobody), 1));
    assert_eq!((relist(Vec::new()), fleet.vendors().len()), (Some(Affects::All), 0));
}

#[test]
fn a_node_is_without_its_agent_since_it_lost_it_however_many_pods_come_and_go() {
    let utc = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
    let fleet = Fleet::new(Clock::at(utc(1_000)));
    let key: Key = ("n".into(), "a".into());
    let pod = |name: &str, status: serde_json::Value| {
        let value = json!({ "metadata": { "name": name, "namespace": "n", "uid": name,
            "creationTimestamp": "1970-01-01T00:10:00Z", "labels": { "dynatrace": "oneagent", "oneagent": "a" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "d",
            "controller": true }] },
            "spec": { "nodeName": "node-1" }, "status": status });
        serde_json::from_value::<PodFacts>(value).unwrap()
    };
    let ready = |status: &str, at: &str| {
        let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": at });
        json!({ "phase": "Running", "conditions": [condition] })
    };
    let node = json!({ "metadata": { "name": "node-1" } });
    fleet.node(&Change::Applied(serde_json::from_value(node).unwrap()));
    fleet.wrote(&key, Arc::default());
    let of = || fleet.losses(&key, |_| true).get("node-1").cloned();
    fleet.pod(&Change::Applied(pod("first", ready("True", "1970-01-01T00:15:00Z"))));
    assert_eq!(of(), None);
    fleet.pod(&Change::Applied(pod("first", ready("False", "1970-01-01T00:16:20Z"))));
    let mut expected = Loss { since: utc(980), is_futile: false, why: None };
    assert_eq!(of(), Some(expected.clone()));
    fleet.pod(&Change::Deleted(pod("first", json!({}))));
    assert_eq!(of(), Some(expected.clone()), "that one ran");
    let failed = json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "too little" });
    fleet.pod(&Change::Applied(pod("second", failed.clone())));
    fleet.pod(&Change::Deleted(pod("second", failed)));
    fleet.pod(&Change::Applied(pod("third", json!({ "phase": "Pending" }))));
    let why = Some("its kubelet refused or ended the Pod before: OutOfcpu: too little".to_owned());
    expected = Loss { is_futile: true, why, ..expected };
    assert_eq!(of(), Some(expected));
    fleet.pod(&Change::Applied(pod("third", ready("True", "1970-01-01T00:16:40Z"))));
    assert_eq!(of(), None, "it has one again");
    // What is not selected any more, or is gone, is not waited for.
    fleet.pod(&Change::Deleted(pod("third", json!({}))));
    assert_eq!(of().map(|loss| loss.since.timestamp()), Some(1_000));
    assert!(fleet.losses(&key, |_| false).is_empty() && of().is_none());
}

#[test]
fn near_nodes_are_those_of_the_selector_and_those_that_a_oneagent_has_to_do_with() {
    let key = ("n".to_owned(), "a".to_owned());
    let fact = |name: &str, team: &str, ip: &str| {
        let value = json!({ "metadata": { "name": name, "labels": { "team": team } },
            "status": { "addresses": [{ "type": "InternalIP", "address": ip }] } });
        serde_json::from_value::<NodeFacts>(value).unwrap()
    };
    let fleet = Fleet::default();
    let near = |team: &str, names: &[&str], known: &[(&str, &str)]| {
        let selector = [("team".to_owned(), team.to_owned())].into();
        let known = known.iter().map(|(name, ip)| (*name, ip.parse().unwrap()));
        let nodes = fleet.near(&key, &selector, names.iter().copied(), known);
        nodes.iter().map(|node| node.name.to_string()).collect::<Vec<_>>()
    };
    let apply = |name: &str, team: &str, ip: &str| fleet.node(&Change::Applied(fact(name, team, ip)));
    for (name, team, ip) in [("c", "red", "10.0.0.3"), ("b", "blue", "10.0.0.2"), ("a", "red", "10.0.0.1")] {
        apply(name, team, ip);
    }
    assert_eq!(near("red", &[], &[]), ["a", "c"], "by name");
    apply("b", "red", "10.0.0.2");
    apply("c", "blue", "10.0.0.3");
    assert_eq!(near("red", &[], &[]), ["a", "b"], "labels change");
    assert_eq!(near("red", &["c", "gone"], &[]), ["a", "b", "c"], "remembered");
    assert_eq!(near("red", &[], &[("c", "10.0.0.3")]), ["a", "b", "c"], "known, and still there");
    assert_eq!(near("red", &[], &[("gone", "10.0.0.3")]), ["a", "b", "c"], "it has the address of one that is gone");
    assert_eq!(near("red", &[], &[("gone", "10.0.0.9")]), ["a", "b"]);
    fleet.pod(&pod(|p| p["spec"]["nodeName"] = "c".into()));
    assert_eq!(near("red", &[], &[]), ["a", "b", "c"], "it has a Pod");
    assert_eq!(near("blue", &[], &[]), ["c"], "the selector is edited");
    assert_eq!(near("red", &[], &[]), ["a", "b", "c"]);
    fleet.node(&Change::Deleted(fact("a", "red", "10.0.0.1")));
    assert_eq!(near("red", &[], &[]), ["b", "c"]);
    list(Id::Name, [fact("d", "red", "10.0.0.4")]).for_each(|change| drop(fleet.node(&change)));
    assert_eq!(near("red", &[], &[]), ["d"], "a list forgets what is gone");
    // What is handed out is the node as it is now.
    apply("d", "red", "10.0.0.5");
    let now = fleet.near(&key, &[("team".to_owned(), "red".to_owned())].into(), std::iter::empty(), std::iter::empty());
    assert_eq!(now[0].ip, Some("10.0.0.5".parse().unwrap()));
}
