//! Agents that take their node with them, or crash after they were Ready: no more of them than the budget.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready, version_of};
use olm_tests::nodes;
use serde_json::json;

#[test]
fn an_agent_whose_stop_kills_its_node_takes_no_more_nodes_than_the_budget() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-stop", 20).await;
        lab.behave(|b| _ = b.deadly_stops.insert(V1.into()));
        lab.oneagent(&json!({ "waitReadySeconds": 6, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 20, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Degraded", "became NotReady after its agent was replaced").await;
        // A new process continues where that one was.
        lab.operators[0].process.kill();
        lab.start_operator(&[]).await;
        lab.is_looked_at().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(ready_nodes(&lab).await, 18, "the rollout walks through the fleet");
        // Machines that are repaired by removal count on: the next two would go the same way.
        let gone = lab.nodes.clone();
        let dead = {
            let api: Api<Node> = Api::all(lab.cluster.client.clone());
            let mut dead = Vec::new();
            for name in gone {
                let node = api.get(&name).await.unwrap();
                let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
                if conditions.iter().any(|c| c.type_ == "Ready" && c.status == "False") {
                    dead.push(name);
                }
            }
            dead
        };
        nodes::delete(&lab.cluster.client, &dead).await;
        lab.nodes.retain(|name| !dead.contains(name));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(
            ready_nodes(&lab).await,
            18,
            "a dead node that was removed freed its budget: {:#?}",
            lab.status("agent").await
        );
        lab.end().await;
    });
}

/// Rolls out a version that harms the nodes which it reaches, and counts them.
async fn reached_by(name: &str, fault: Fault) -> usize {
    let lab = Lab::new(name, 60).await;
    // The second batch must not be available before the first one fails.
    lab.behave(|b| b.ready_after = Duration::from_millis(2500));
    lab.oneagent(&json!({ "waitReadySeconds": 20, "rollout": { "maxUnavailable": 6, "minReadySeconds": 5 } }));
    lab.all_at("agent", V1, 60, LONG).await;
    lab.behave(|b| _ = b.versions.insert(V2.into(), fault));
    lab.cluster.vendor.publish(&lab.name, V2);
    eventually("it is said", LONG, || async {
        let now = lab.status("agent").await;
        let said = now.conditions.iter().any(|c| c.type_ == "Degraded" && c.status == "True");
        if said { Ok(()) } else { Err(format!("{:?}", now.nodes)) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let reached = lab.pods("agent").await.values().filter(|p| version_of(p).as_deref() == Some(V2)).count();
    lab.end().await;
    reached
}

#[test]
fn an_agent_whose_start_kills_its_node_is_stopped_at_the_budget() {
    olm_tests::run(async { assert!(reached_by("hostile-start", Fault::KillsNodeAfter(Duration::ZERO)).await <= 6) });
}

#[test]
fn an_agent_that_kills_its_node_after_it_was_ready_is_stopped_once_the_budget_was_lost() {
    olm_tests::run(async {
        assert!(reached_by("hostile-late", Fault::KillsNodeAfter(Duration::from_secs(10))).await <= 12);
    });
}

#[test]
fn an_agent_that_crashes_after_it_was_ready_is_stopped_once_the_budget_was_lost() {
    olm_tests::run(async {
        assert!(reached_by("hostile-crash", Fault::CrashesAfter(Duration::from_secs(10))).await <= 12);
    });
}

async fn ready_nodes(lab: &Lab<'_>) -> usize {
    let api: Api<Node> = Api::all(lab.cluster.client.clone());
    let mut ready = 0;
    for name in &lab.nodes {
        let node = api.get(name).await.unwrap();
        let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
        ready += usize::from(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    }
    ready
}

/// A canary whose node dies of it, at once or while it is watched, then a node that is fixed.
async fn canary_dies(name: &str, on_failure: &str, after: Duration) {
    let lab = Lab::new(name, 5).await;
    lab.behave(|b| b.refuse_downgrade = false);
    let rollout = json!({ "canary": { "nodes": 1, "soak": "1h" }, "maxUnavailable": 2, "onFailure": on_failure });
    lab.oneagent(&json!({ "waitReadySeconds": 6, "rollout": rollout }));
    lab.all_at("agent", V1, 5, SOON).await;
    let before = lab.uids("agent").await;
    lab.behave(|b| _ = b.versions.insert(V2.into(), Fault::KillsNodeAfter(after)));
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.says("agent", "Degraded", "became NotReady after its agent was replaced").await;
    lab.shows("it is rejected", SOON, |status| status.rejected_versions == [V2]).await;
    lab.is_looked_at().await;
    let spared = |now: &std::collections::BTreeMap<String, String>| {
        now.iter().filter(|(node, uid)| before.get(*node) == Some(*uid)).count()
    };
    let now = lab.uids("agent").await;
    assert_eq!((ready_nodes(&lab).await, spared(&now)), (4, 4), "a canary alone saw it");
    let canary = before.keys().find(|node| before.get(*node) != now.get(*node)).unwrap().clone();
    // An administrator fixes the machine; the version does not kill it any more, and stays rejected.
    lab.behave(|b| b.versions.clear());
    nodes::set_ready(&lab.cluster.client, &canary, true).await;
    if on_failure == "Rollback" {
        eventually("the canary runs what was good", LONG, || async {
            let pods = lab.pods("agent").await;
            let pod = pods.get(&canary);
            let is_back = pod.is_some_and(|pod| version_of(pod).as_deref() == Some(V1) && is_ready(pod));
            if is_back { Ok(()) } else { Err(format!("{:#?}", lab.status("agent").await)) }
        })
        .await;
    } else {
        lab.shows("its node is back", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.node_lost == 0))
            .await;
        assert_eq!(lab.uids("agent").await, now, "nothing is touched before somebody says so");
    }
    lab.is_looked_at().await;
    assert_eq!(spared(&lab.uids("agent").await), 4, "nobody else was touched");
    lab.end().await;
}

#[test]
fn a_version_that_kills_its_node_while_it_is_watched_stops_at_the_canary() {
    olm_tests::run(canary_dies("dies-watched", "Pause", Duration::from_secs(3)));
}

#[test]
fn a_canary_whose_node_died_is_rolled_back_once_that_is_repaired() {
    olm_tests::run(canary_dies("dies-back", "Rollback", Duration::from_secs(3)));
}
