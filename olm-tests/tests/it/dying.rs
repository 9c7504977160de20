//! Agents that take their node with them, or crash after they were Ready: no more of them than the budget.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, version_of};
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
        // A new process goes on where that one was.
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
