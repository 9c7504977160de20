//! What comes late or from others: Pods that crash after they were Ready, nodes that die or join meanwhile, writers in
//! turn, deletions that are refused, an operator that takes over with a torn status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{LONG, Lab, SHORT_LEASE, SOON};
use olm_tests::nodes::{Shape, set_ready};
use olm_tests::webhook::Webhook;
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

use super::enemies::reached;
use super::hostile::pods;
use crate::planned::deleted;

/// A canary that soaks for as long as a test takes.
fn soaking() -> Value {
    json!({ "maxUnavailable": "100%", "canary": { "nodes": 1, "soak": "1h" }, "waitReadySeconds": 5 })
}

/// Puts the template back, and waits until so many nodes have it again. Returns on how many of the nodes in `before`
/// another Pod runs now.
async fn goes_back(lab: &Lab<'_>, nodes: usize, before: &BTreeMap<String, String>) -> usize {
    lab.deploy(&lab.daemonset_saying("one"));
    lab.agents_say("one", nodes).await;
    lab.rollout_is("Ready", "True", "AllUpdated").await;
    lab.rollout_is("Degraded", "False", "AsExpected").await;
    let now = lab.agent_uids().await;
    before.iter().filter(|(node, uid)| now.get(*node) != Some(*uid)).count()
}

#[test]
fn a_version_that_crashes_while_it_soaks_reaches_one_node() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-soak", 5, &soaking()).await;
        let before = lab.agent_uids().await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 5).await;
        lab.fails("two", Fault::CrashesAfter(Duration::from_secs(4)));
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 1 of 1 nodes it reached"), "{said}");
        let seen = eyes.seen().await;
        assert_eq!((seen.readies.len(), seen.deletions.len()), (1, 1), "it was Ready at first");
        assert_eq!((goes_back(&lab, 5, &before).await, deleted(&lab).len()), (1, 2));
        lab.end().await;
    });
}

#[test]
fn one_that_crashes_after_its_soak_stops_where_it_is_by_then() {
    olm_tests::run(async {
        let policy = json!({ "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "1s" } });
        let lab = Lab::of_daemonset("ds-soaked", 12, &policy).await;
        let before = lab.agent_uids().await;
        // One after the other the twelve need three times as long as the first one runs.
        lab.behave(|behaviour| behaviour.ready_after = Duration::from_secs(2));
        lab.fails("two", Fault::CrashesAfter(Duration::from_secs(8)));
        lab.deploy(&lab.daemonset_saying("two"));
        reached(&lab, "two", 2).await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        let count = deleted(&lab).len();
        assert!((2..12).contains(&count), "{count}");
        lab.behave(|behaviour| behaviour.ready_after = Duration::from_millis(300));
        let replaced = goes_back(&lab, 12, &before).await;
        assert_eq!((replaced, deleted(&lab).len()), (count, 2 * count), "those that it had not reached stayed");
        lab.end().await;
    });
}

/// A bad version reaches a canary, whose node becomes NotReady, and the template is put back: nothing is done there
/// before the node is Ready again, and nothing elsewhere.
async fn a_node_dies(name: &str, fault: Fault, words: &str) {
    let lab = Lab::of_daemonset(name, 5, &soaking()).await;
    let before = lab.agent_uids().await;
    let good = lab.revision().await;
    lab.fails("two", fault);
    lab.deploy(&lab.daemonset_saying("two"));
    let said = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
    assert!(said.contains(words), "{said}");
    let canary = lab.rollout_status().await.rollout.unwrap().failure.unwrap().nodes.remove(0);
    set_ready(&lab.cluster.client, &canary, false).await;
    lab.deploy(&lab.daemonset_saying("one"));
    eventually("the good one is desired, and has settled", LONG, || async {
        let status = lab.rollout_status().await;
        let is_good = status.daemon_set.as_ref().is_some_and(|set| set.revision.as_ref() == Some(&good));
        let is_lost = status.nodes.as_ref().is_some_and(|nodes| nodes.node_lost + nodes.node_not_ready == 1);
        let settles = status.conditions.iter().any(|condition| condition.reason == "TemplateSettling");
        if is_good && is_lost && !settles { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    assert_eq!(deleted(&lab).len(), 1, "no Pod is deleted on a node that is NotReady");
    set_ready(&lab.cluster.client, &canary, true).await;
    assert_eq!((goes_back(&lab, 5, &before).await, deleted(&lab).len()), (1, 2), "the others never left it");
    lab.end().await;
}

#[test]
fn a_version_that_kills_its_node_goes_back_when_that_is_back() {
    let words = "became NotReady after its agent was replaced";
    olm_tests::run(a_node_dies("ds-kills", Fault::KillsNodeAfter(Duration::from_secs(1)), words));
}

#[test]
fn a_bad_version_whose_node_dies_meanwhile_goes_back_later() {
    olm_tests::run(a_node_dies("ds-dies", Fault::CrashLoop, "failed on 1 of 1 nodes it reached"));
}

#[test]
fn ten_nodes_that_join_a_failed_rollout_go_back_with_it() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-joined", 4, &soaking()).await;
        let before = lab.agent_uids().await;
        lab.fails("two", Fault::CrashLoop);
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        lab.add_nodes(10, &Shape::default()).await;
        eventually("all ten crash, too", LONG, || async {
            let nodes = lab.rollout_status().await.nodes.unwrap_or_default();
            if nodes.crash == 11 { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert_eq!(deleted(&lab).len(), 1, "they are not ours to replace, and no other is deleted");
        assert_eq!((goes_back(&lab, 14, &before).await, deleted(&lab).len()), (1, 12));
        lab.end().await;
    });
}

#[test]
fn ten_that_join_a_soak_and_crash_are_a_verdict() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-joins", 4, &soaking()).await;
        let before = lab.agent_uids().await;
        // They join in another second than that in which the rollout began: the API has whole ones.
        lab.behave(|behaviour| {
            behaviour.ready_after = Duration::from_secs(2);
            behaviour.nodes = (4..14).map(|number| (format!("ds-joins-{number:04}"), Fault::CrashLoop)).collect();
        });
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_says("Progressing", "1 node must stay available until").await;
        lab.add_nodes(10, &Shape::default()).await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        eventually("they are counted as nobody's plan", LONG, || async {
            let nodes = lab.rollout_status().await.nodes.unwrap_or_default();
            if (nodes.unplanned, nodes.crash) == (10, 10) { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
        assert_eq!(deleted(&lab).len(), 1, "the canary, which is well");
        assert_eq!(lab.said().values().filter(|said| *said == "one").count(), 3);
        lab.behave(|behaviour| behaviour.nodes.clear());
        assert_eq!((goes_back(&lab, 14, &before).await, deleted(&lab).len()), (1, 12));
        lab.end().await;
    });
}

#[test]
fn two_writers_in_turn_are_named_and_reach_canaries_alone() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-turns", 6, &soaking()).await;
        let mut current = lab.revision().await;
        let writers = [("argocd-controller", "two"), ("agent-operator", "three")];
        for (manager, message) in [writers, writers].concat() {
            let manager = format!("--field-manager={manager}");
            let args = ["apply", "--server-side", "--force-conflicts", &manager, "-f", "-"];
            lab.cluster.try_kubectl(&args, Some(&lab.daemonset_saying(message).to_string())).unwrap();
            current = lab.another_revision(&current).await;
        }
        let said = lab.rollout_is("Degraded", "True", "TemplateUnstable").await;
        assert!(writers.iter().all(|(manager, _)| said.contains(manager)), "{said}");
        // Quiet for long enough, the last one has its canary. Without canaries each would reach the whole fleet.
        lab.rollout_says("Progressing", "1 node must stay available until").await;
        reached(&lab, "three", 1).await;
        let said = lab.said();
        let count = |message: &str| said.values().filter(|said| *said == message).count();
        assert!(count("one") >= 2, "{said:?}");
        assert!(deleted(&lab).len() <= 4, "one for each template: {:?}", deleted(&lab));
        lab.rollout_is("Degraded", "True", "TemplateUnstable").await;
        lab.end().await;
    });
}

#[test]
fn a_refused_deletion_is_quoted_until_it_is_allowed() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-refused", 4, &json!({ "maxUnavailable": 1 })).await;
        let kept: Vec<String> = pods(&lab).await.iter().take(2).map(ResourceExt::name_any).collect();
        let holds = Arc::new(AtomicBool::new(true));
        let (still, protected) = (holds.clone(), kept.clone());
        let webhook = Webhook::of_deletions(&lab.cluster.client, &lab.name, move |_, pod| {
            let refused = still.load(Ordering::SeqCst) && protected.contains(&pod);
            async move { if refused { Err(format!("{pod} is under protection")) } else { Ok(()) } }
        })
        .await;
        lab.deploy(&lab.daemonset_saying("two"));
        // The others have their turn.
        reached(&lab, "two", 2).await;
        let said = lab.rollout_is("Degraded", "True", "DeletionRefused").await;
        assert!(said.starts_with("the API server refuses to delete Pod "), "{said}");
        assert!(kept.iter().any(|pod| said.contains(&format!("{pod} is under protection"))), "{said}");
        let left = lab.agent_nodes().await;
        assert!(kept.iter().all(|pod| left.contains_key(pod)), "{left:?}");
        holds.store(false, Ordering::SeqCst);
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        webhook.end().await;
        lab.end().await;
    });
}

#[test]
fn a_missing_right_to_delete_is_named_until_it_is_granted() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-forbidden", 3, &json!({ "maxUnavailable": 1 })).await;
        let all = lab.rights();
        let mut fewer = all.clone();
        for rule in fewer.as_array_mut().unwrap().iter_mut().filter(|rule| rule["resources"] == json!(["pods"])) {
            rule["verbs"].as_array_mut().unwrap().retain(|verb| verb != "delete");
        }
        assert_ne!(fewer, all);
        let before = lab.agent_uids().await;
        let began = chrono::Utc::now();
        lab.set_rights(&fewer);
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_says("Degraded", "cannot delete resource").await;
        assert!(said.contains("grant the operator"), "{said}");
        assert_eq!(lab.agent_uids().await, before);
        lab.set_rights(&all);
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}

#[test]
fn a_second_operator_with_a_torn_status_does_nothing_twice() {
    olm_tests::run(async {
        let mut lab = Lab::bare(Cluster::shared().await, &PACKAGE, "ds-second", 6).await;
        lab.start_operator(&SHORT_LEASE).await;
        lab.with_daemonset(6, &json!({ "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "1h" } })).await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_says("Progressing", "1 node must stay available until").await;
        let memory = json!({ "engine": { "phase": 7, "proof": "none", "lastGood": [] }, "template": [], "retried": 1 });
        let mangled = json!({ "rollout": { "state": "Complete", "lastGoodHash": "none", "memory": memory } });
        for (failures, torn) in [(1, Value::Null), (2, mangled)] {
            lab.start_operator(&SHORT_LEASE).await;
            eventually("the standby is ready", SOON, || async {
                let answer = lab.operators[1].get("/readyz").await;
                if answer.as_ref().is_some_and(|(code, _)| *code == 200) { Ok(()) } else { Err(format!("{answer:?}")) }
            })
            .await;
            lab.operators[0].process.kill();
            lab.operators.remove(0);
            let torn = Patch::Merge(json!({ "status": torn }));
            lab.rollouts().patch_status("agent", &PatchParams::default(), &torn).await.expect("a torn status");
            // That it has looked shows an edit that means nothing else.
            lab.edit_rollout(json!({ "rollout": { "maxFailures": failures } })).await;
            lab.rollout_is_observed().await;
            lab.rollout_says("Progressing", "1 node must stay available until").await;
            assert_eq!(eyes.seen().await.deletions.len(), 1, "another canary was taken");
        }
        lab.edit_rollout(json!({ "rollout": { "canary": null } })).await;
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 6), "one at a time, each once");
        lab.end().await;
    });
}
