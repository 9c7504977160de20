//! What is slow, or unavailable for a while, is no verdict on a version, and is said as what it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use olm_tests::nodes::{self, Shape};
use olm_tests::webhook::Webhook;
use serde_json::{Value, json};
use tokio::sync::watch;

/// No version was blamed.
async fn is_innocent(lab: &Lab<'_>) {
    let status = lab.status("agent").await;
    let failure = status.rollout.and_then(|rollout| rollout.failure);
    assert_eq!((status.rejected_versions, failure), (Vec::<String>::new(), None));
}

/// All kubelets lose the API server in the middle of a rollout, for longer than an agent may take.
/// In two zones, with `reached` nodes done before.
async fn partition(name: &str, rollout: Value, reached: usize) {
    let mut lab = Lab::new(name, 0).await;
    for zone in ["a", "b"] {
        lab.add_nodes(6, &Shape::default().zone(zone)).await;
    }
    lab.behave(|b| b.ready_after = Duration::from_secs(2));
    lab.oneagent(&json!({ "waitReadySeconds": 15, "rollout": rollout }));
    lab.all_at("agent", V1, 12, LONG).await;
    let eyes = Eyes::on(&lab, "agent", 12).await;
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.reached("agent", V2, reached).await;
    let all = async |ready: bool| {
        join_all(lab.nodes.iter().map(|node| nodes::set_ready(&lab.cluster.client, node, ready))).await;
    };
    all(false).await;
    lab.says("agent", "Progressing", "12 of 12 nodes are NotReady").await;
    // Longer than an agent may take; a maintainer may want to see it longer.
    let seconds = std::env::var("OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(17);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    is_innocent(&lab).await;
    all(true).await;
    lab.all_at("agent", V2, 12, LONG).await;
    is_innocent(&lab).await;
    assert!(eyes.seen().await.without(2).is_empty(), "not replaced exactly once: {:?}", eyes.seen().await.without(2));
    lab.end().await;
}

#[test]
fn an_outage_of_all_nodes_during_a_soak_rejects_no_version() {
    let rollout = json!({ "maxUnavailable": 1, "maxFailures": 1, "order": "ZoneByZone", "onFailure": "Rollback",
        "canary": { "nodes": 1, "soak": "20s" } });
    olm_tests::run(partition("slow-partition-canary", rollout, 1));
}

/// A registry that takes several times as long as an agent may.
async fn slow_registry(name: &str, on_failure: &str) {
    let lab = Lab::new(name, 4).await;
    lab.oneagent(&json!({ "waitReadySeconds": 4,
        "rollout": { "maxUnavailable": 1, "onFailure": on_failure, "canary": { "nodes": 1, "soak": "1s" } } }));
    lab.all_at("agent", V1, 4, SOON).await;
    lab.behave(|b| _ = b.versions.insert(V2.into(), Fault::SlowPull(Duration::from_secs(10))));
    lab.cluster.vendor.publish(&lab.name, V2);
    let said = lab.says("agent", "Degraded", "never started within 4 s").await;
    assert!(said.contains("an image is being pulled"), "{said}");
    assert_eq!(lab.status("agent").await.nodes.unwrap().pulling, 1);
    is_innocent(&lab).await;
    lab.reached("agent", V2, 2).await;
    lab.behave(|b| b.versions.clear());
    lab.all_at("agent", V2, 4, LONG).await;
    is_innocent(&lab).await;
    lab.end().await;
}

#[test]
fn a_slow_registry_rolls_no_agent_back() {
    olm_tests::run(slow_registry("slow-registry-back", "Rollback"));
}

#[test]
fn agents_that_cease_to_be_ready_are_missed_within_seconds() {
    olm_tests::run(async {
        let lab = Lab::new("slow-probes", 20).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 20, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let pods: Vec<_> = lab.pods("agent").await.into_values().collect();
        let say = async |count: usize, ready: bool| {
            for pod in &pods[..count] {
                lab.cluster.kubelet.say_ready(pod, ready).await;
            }
        };
        say(19, false).await;
        let said = lab.says("agent", "Ready", "19 of 20 nodes have no Ready agent: ").await;
        assert!(said.contains("not Ready any more"), "{said}");
        lab.says("agent", "Available", "agents run on 1 of 20 selected nodes").await;
        say(19, true).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.condition("agent", "Available", "True", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn a_kubelets_refusal_is_shown_until_the_node_has_an_agent() {
    olm_tests::run(async {
        let lab = Lab::new("slow-refused", 3).await;
        lab.oneagent(&json!({ "waitReadySeconds": 5 }));
        lab.all_at("agent", V1, 3, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let (node, pod) = lab.pods("agent").await.pop_first().unwrap();
        lab.behave(|b| _ = b.nodes.insert(node.clone(), Fault::Refused));
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pod.name_any()]);
        let said = lab.says("agent", "Ready", "OutOfcpu").await;
        assert!(said.starts_with(&format!("1 of 3 nodes have no Ready agent: {node} ")), "{said}");
        // Its Pod is created again and again; the node's time continues all the same.
        lab.shows("its time is up", SOON, |status| status.nodes.as_ref().is_some_and(|n| n.pulling == 1)).await;
        let nodes = lab.status("agent").await.nodes.unwrap();
        let [without] = &nodes.without_agent[..] else { panic!("{nodes:?}") };
        assert_eq!(without.node, node);
        assert!(without.reason.contains("OutOfcpu") && without.reason.contains("within 5 s"), "{}", without.reason);
        lab.says("agent", "Degraded", "OutOfcpu").await;
        lab.behave(|b| b.nodes.clear());
        lab.condition_within(LONG, "agent", "Ready", "True", "AllUpdated").await;
        lab.shows("nothing is left of it", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| nodes.without_agent.is_empty())
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn a_stop_in_the_middle_of_many_deletions_lets_none_more_go() {
    olm_tests::run(async {
        let lab = Lab::new("slow-stop", 100).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 90 } }));
        lab.oneagent_named("witness", &json!({ "nodeSelector": { "no": "node" } }));
        lab.all_at("agent", V1, 100, LONG).await;
        let (release, released) = watch::channel(false);
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let webhook = Webhook::of_deletions(&lab.cluster.client, &lab.name, move |user, _| {
            // Kubelets only finish what is deleted already.
            let is_ours = user.ends_with(":oneagent-operator");
            count.fetch_add(usize::from(is_ours), Ordering::SeqCst);
            let mut released = released.clone();
            async move {
                if is_ours {
                    released.wait_for(|released| *released).await.expect("it is released");
                }
                Ok(())
            }
        })
        .await;
        lab.cluster.vendor.publish(&lab.name, V2);
        eventually("deletions are under way", SOON, || async {
            let now = sent.load(Ordering::SeqCst);
            if now >= 20 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "stop": "true" },
            "metadata": { "name": "oneagent-operator", "namespace": lab.name } });
        lab.cluster.apply(&stop.to_string());
        lab.condition("witness", "Progressing", "False", "Stopped").await;
        let seen = sent.load(Ordering::SeqCst);
        release.send(true).unwrap();
        lab.condition_within(LONG, "agent", "Progressing", "False", "Stopped").await;
        lab.is_looked_at().await;
        let by_us = lab.requests().iter().filter(|r| r.resource == "pods" && r.verb == "delete").count();
        assert!(by_us <= seen.max(32), "{by_us} deletions, {seen} when the stop was seen");
        webhook.end().await;
        lab.end().await;
    });
}
