//! Each field of `spec.rollout` on another owner's DaemonSet, as far as no other file here has it: the engine's own
//! tests do not show that the field of this kind reaches the engine.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::Lab;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::nodes::{Shape, patch};
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

use super::enemies::reached;
use super::hostile::{goes, pods};
use crate::planned::deleted;
use crate::policies::later;

/// How many seconds each new Pod was made after the one before it became Ready, by the cluster's own times: a busy
/// machine only makes them more.
async fn seconds_between(lab: &Lab<'_>) -> Vec<i64> {
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
        Some(ready.last_transition_time.as_ref()?.0.as_second())
    };
    let times = |pod: &Pod| Some((pod.creation_timestamp()?.0.as_second(), ready(pod)?));
    let mut all: Vec<(i64, i64)> = pods(lab).await.iter().filter_map(times).collect();
    all.sort_unstable();
    all.windows(2).map(|two| two[1].0 - two[0].1).collect()
}

#[test]
fn zones_take_turns_or_come_by_name_each_within_its_bound() {
    olm_tests::run(async {
        let mut lab = Lab::of(&PACKAGE, "ds-zones", 0).await;
        // The zones are not in the order of the Pods' age.
        for zone in ["c", "a", "b"] {
            lab.add_nodes(2, &Shape::default().zone(zone)).await;
        }
        lab.with_daemonset(6, &json!({ "maxUnavailable": "100%", "maxUnavailablePerZone": 1 })).await;
        let at = |node: &String| lab.nodes.iter().position(|one| one == node).unwrap();
        let zone = |node: &String| ["c", "c", "a", "a", "b", "b"][at(node)];
        let rolls = async |message: &str| {
            let (nodes, done) = (lab.agent_nodes().await, deleted(&lab).len());
            let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
            lab.deploy(&lab.daemonset_saying(message));
            lab.agents_say(message, 6).await;
            lab.rollout_is("Ready", "True", "AllUpdated").await;
            let zones: Vec<&str> = deleted(&lab)[done..].iter().filter_map(|pod| nodes.get(pod)).map(zone).collect();
            (eyes.seen().await.most_unready, zones)
        };
        let (most, zones) = rolls("two").await;
        let mut first = zones[..3].to_vec();
        first.sort_unstable();
        assert_eq!((first, zones.len()), (vec!["a", "b", "c"], 6), "{zones:?}");
        assert!(most <= 3, "one of each zone, and not {most}");
        lab.edit_rollout(json!({ "rollout": { "order": "ZoneByZone" } })).await;
        lab.rollout_is_observed().await;
        let (most, zones) = rolls("three").await;
        assert_eq!((most, zones), (1, vec!["a", "a", "b", "b", "c", "c"]));
        lab.end().await;
    });
}

#[test]
fn windows_and_blackouts_hold_and_say_until_when() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-windows", 3, &json!({ "windows": later() })).await;
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Progressing", "True", "Held").await;
        assert!(said.contains("none is replaced outside of every window until 20"), "{said}");
        lab.rollout_is("Ready", "False", "Held").await;
        assert!(deleted(&lab).is_empty(), "{:?}", deleted(&lab));
        let open = json!([{ "start": "00:00", "duration": "168h" }]);
        lab.edit_rollout(json!({ "rollout": { "windows": open } })).await;
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let freeze = json!([{ "from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z", "reason": "freeze" }]);
        lab.edit_rollout(json!({ "rollout": { "windows": null, "blackouts": freeze } })).await;
        lab.rollout_is_observed().await;
        lab.deploy(&lab.daemonset_saying("three"));
        lab.rollout_says("Progressing", "in a blackout (freeze) until 2099-01-01T00:00:00Z").await;
        assert_eq!(deleted(&lab).len(), 3);
        lab.edit_rollout(json!({ "rollout": { "blackouts": null } })).await;
        lab.agents_say("three", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab).len(), 6);
        lab.end().await;
    });
}

#[test]
fn a_pause_keeps_every_pod_and_nodes_that_join_get_the_new_one() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-paused", 3, &json!({ "paused": true })).await;
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Progressing", "False", "Paused").await;
        assert!(said.contains("rollout.paused is true"), "{said}");
        lab.rollout_is("Ready", "False", "Paused").await;
        lab.add_nodes(1, &Shape::default()).await;
        reached(&lab, "two", 1).await;
        assert!(deleted(&lab).is_empty(), "{:?}", deleted(&lab));
        lab.edit_rollout(json!({ "rollout": { "paused": false } })).await;
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab).len(), 3, "the node that joined had it");
        lab.end().await;
    });
}

#[test]
fn the_next_pod_goes_once_the_one_before_has_proven_itself() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-proven", 3, &json!({ "maxUnavailable": 1, "minReadySeconds": 4 })).await;
        let rolls = async |message: &str, own: Value| {
            let mut set = lab.daemonset_saying(message);
            set["spec"]["minReadySeconds"] = own;
            lab.deploy(&set);
            lab.agents_say(message, 3).await;
            lab.rollout_is("Ready", "True", "AllUpdated").await;
            seconds_between(&lab).await
        };
        let waits = rolls("two", json!(0)).await;
        assert!(waits.len() == 2 && waits.iter().all(|wait| *wait >= 4), "{waits:?}");
        // The DaemonSet may say so itself.
        lab.edit_rollout(json!({ "rollout": { "minReadySeconds": null } })).await;
        lab.rollout_is_observed().await;
        let waits = rolls("three", json!(4)).await;
        assert!(waits.len() == 2 && waits.iter().all(|wait| *wait >= 4), "{waits:?}");
        // Of canaries the soak says it; the others wait for no other one.
        let soak = json!({ "maxUnavailable": "100%", "canary": { "nodes": 1, "soak": "6s" } });
        lab.edit_rollout(json!({ "rollout": soak })).await;
        lab.rollout_is_observed().await;
        let waits = rolls("four", json!(0)).await;
        assert!(waits.len() == 2 && waits[0] >= 6, "{waits:?}");
        lab.end().await;
    });
}

#[test]
fn late_pods_stop_it_and_their_recovery_withdraws_that() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-late", 4, &json!({ "maxUnavailable": 1, "waitReadySeconds": 5 })).await;
        lab.fails("two", Fault::Held);
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("not Ready within 5 s"), "{said}");
        assert_eq!(deleted(&lab).len(), 1);
        lab.behave(|behaviour| behaviour.versions.clear());
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        assert_eq!(deleted(&lab).len(), 4, "the late one stayed");
        lab.end().await;
    });
}

#[test]
fn as_many_failures_as_are_said_stop_it_and_fewer_do_not() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-failures", 6, &json!({ "maxUnavailable": 3, "maxFailures": 2 })).await;
        let hopeless = |count: usize| {
            let nodes = lab.nodes[..count].iter().map(|node| (node.clone(), Fault::CrashLoop)).collect();
            lab.behave(|behaviour| behaviour.nodes = nodes);
        };
        hopeless(1);
        lab.deploy(&lab.daemonset_saying("two"));
        reached(&lab, "two", 5).await;
        hopeless(0);
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        // Three of them would exhaust the budget, and be a verdict without the field.
        hopeless(2);
        lab.deploy(&lab.daemonset_saying("three"));
        let said = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 2 of"), "{said}");
        lab.end().await;
    });
}

#[test]
fn marked_nodes_go_first_and_without_one_none_does() {
    olm_tests::run(async {
        let canary = json!({ "selector": { "ring": "first" }, "soak": "1h" });
        let lab = Lab::of_daemonset("ds-marked", 4, &json!({ "maxUnavailable": "100%", "canary": canary })).await;
        let nodes = lab.agent_nodes().await;
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_says("Progressing", "no node can be a canary: rollout.canary matches none").await;
        assert!(deleted(&lab).is_empty(), "{:?}", deleted(&lab));
        let marked = &lab.nodes[2];
        patch(&lab.cluster.client, marked, &json!({ "metadata": { "labels": { "ring": "first" } } })).await;
        lab.rollout_says("Progressing", "1 node must stay available until").await;
        assert_eq!(deleted(&lab).iter().map(|pod| &nodes[pod]).collect::<Vec<_>>(), [marked]);
        // A person's word ends the soak.
        let current = lab.revision().await;
        lab.edit_rollout(json!({ "rollout": { "promote": current } })).await;
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab).len(), 4);
        lab.end().await;
    });
}

#[test]
fn a_failed_revision_is_tried_again_once_each_time_it_is_named() {
    olm_tests::run(async {
        // What recovers by itself is believed after an hour: it is the field that continues.
        let lab = Lab::of_daemonset("ds-again", 4, &json!({ "maxUnavailable": 1, "waitReadySeconds": 3600 })).await;
        let good = lab.revision().await;
        lab.fails("two", Fault::CrashLoop);
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        let bad = lab.another_revision(&good).await;
        assert!(said.contains(&format!("spec.rollout.retry: {bad}")), "{said}");
        lab.edit_rollout(json!({ "rollout": { "retry": bad } })).await;
        goes(&lab, 2).await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        // It failed again: that is final, although the field still names it.
        lab.edit_rollout(json!({ "rollout": { "maxFailures": 1 } })).await;
        lab.rollout_is_observed().await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert_eq!(deleted(&lab).len(), 2);
        // What made it fail is corrected.
        lab.behave(|behaviour| behaviour.versions.clear());
        lab.edit_rollout(json!({ "rollout": { "retry": null } })).await;
        lab.rollout_is_observed().await;
        lab.edit_rollout(json!({ "rollout": { "retry": bad } })).await;
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
