//! The cluster's own controllers are stopped in the middle of a rollout: no Pod is made, or none is bound. That is no
//! fault of a version: at most the budget is missing, no version is rejected, and it continues on its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::cluster::Cluster;
use olm_tests::control_plane::{CONTROLLER_MANAGER, SCHEDULER};
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3, is_ready};
use olm_tests::nodes;
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

/// Newer than all others.
const V4: &str = "1.303.40.20250401-100000";

/// The real node controller misses a kubelet: its Pods may well run, and stay, while those of other nodes are replaced;
/// and nothing that does not start there fails the data.
async fn a_kubelet_falls_silent(cluster: &Cluster, web: &Lab<'_>, others: &[String]) {
    web.edit_watcher(json!({ "rollout": { "maxUnavailable": "100%", "waitReadySeconds": 4 } })).await;
    let pods = web.labelled("app=webapp").await;
    let silent = pods.values().find_map(|pod| pod.spec.as_ref()?.node_name.clone()).expect("a Pod has a node");
    let on_it = async || -> BTreeMap<String, Pod> {
        let is_there = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&silent);
        web.labelled("app=webapp").await.into_iter().filter(|(_, pod)| is_there(pod)).collect()
    };
    let uids = |pods: &BTreeMap<String, Pod>| pods.values().filter_map(ResourceExt::uid).collect::<BTreeSet<_>>();
    let reporting: Vec<String> = web.nodes.iter().chain(others).filter(|node| **node != silent).cloned().collect();
    let client = cluster.client.clone();
    let heartbeats = tokio::spawn(async move {
        loop {
            for node in &reporting {
                nodes::heartbeat(&client, node).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let before = on_it().await;
    cluster.plane.lock().await.expect_heartbeats("10s");
    eventually("the node controller misses the kubelet", SOON, || async {
        let ready: Vec<String> =
            on_it().await.into_iter().filter(|(_, pod)| is_ready(pod)).map(|(name, _)| name).collect();
        if ready.is_empty() { Ok(()) } else { Err(format!("{ready:?}")) }
    })
    .await;
    web.message("five");
    web.watcher_shows("watcher", "the others are updated", |status| {
        let waits = status.rollout.as_ref().is_some_and(|rollout| {
            rollout.waiting_on.iter().any(|waiting| waiting.contains("the kubelet of its node does not report"))
        });
        let outdated = i32::try_from(before.len()).expect("few");
        waits && status.pods.as_ref().is_some_and(|pods| pods.outdated == outdated && pods.updated + outdated == 4)
    })
    .await;
    assert_eq!(uids(&on_it().await), uids(&before), "they may well run");
    assert_eq!(web.watcher_status("watcher").await.rollout.and_then(|rollout| rollout.failure), None);
    heartbeats.abort();
}

/// Waits until an agent was replaced, beyond so many.
async fn more_than(eyes: &Eyes, count: usize) {
    eventually("one more is gone", SOON, || async {
        let gone = eyes.seen().await.deletions.len();
        if gone > count { Ok(()) } else { Err(gone.to_string()) }
    })
    .await;
}

#[test]
fn without_controller_manager_or_scheduler_a_rollout_waits_and_rejects_nothing() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut agents = Lab::without_operator(&cluster, "controllers", 8).await;
        agents.start_operator(&[]).await;
        let mut web = Lab::bare(&cluster, &PACKAGE, "controllers-web", 3).await;
        web.start_operator(&[]).await;
        agents.oneagent(&json!({ "waitReadySeconds": 4, "rollout": { "maxUnavailable": 2 } }));
        web.message("one");
        web.workload("Deployment", "webapp", &json!({}));
        web.watcher(&json!({ "rollout": { "waitReadySeconds": 4 } }));
        agents.all_at("agent", V1, 8, SOON).await;
        web.all_updated("one").await;
        for lab in [&agents, &web] {
            lab.behave(|b| b.ready_after = Duration::from_secs(1));
        }
        let eyes = (Eyes::on(&agents, "agent", 8).await, Eyes::on_replicas(&web, "app=webapp", 4).await);
        for (controller, version, message) in [(CONTROLLER_MANAGER, V2, "two"), (SCHEDULER, V3, "three")] {
            let before = (eyes.0.seen().await.deletions.len(), eyes.1.seen().await.deletions.len());
            agents.cluster.vendor.publish(&agents.name, version);
            web.message(message);
            more_than(&eyes.0, before.0).await;
            more_than(&eyes.1, before.1).await;
            cluster.plane.lock().await.kill_controller(controller);
            // Four times the deadline.
            tokio::time::sleep(Duration::from_secs(16)).await;
            let (status, watcher) = (agents.status("agent").await, web.watcher_status("watcher").await);
            assert_eq!(status.rejected_versions.len(), 0, "{controller}: {status:#?}");
            assert_eq!(status.rollout.and_then(|rollout| rollout.failure), None, "{controller}");
            assert_eq!(watcher.rollout.and_then(|rollout| rollout.failure), None, "{controller}");
            cluster.plane.lock().await.start_controller(controller);
            agents.all_at("agent", version, 8, LONG).await;
            web.all_updated(message).await;
            assert!(eyes.0.seen().await.most_unready <= 2, "{controller}: {}", eyes.0.seen().await.most_unready);
            assert_eq!(eyes.1.seen().await.most_unready, 1, "{controller}");
        }
        // And the store of all: every writer waits.
        let began = chrono::Utc::now();
        let before = (eyes.0.seen().await.deletions.len(), eyes.1.seen().await.deletions.len());
        agents.cluster.vendor.publish(&agents.name, V4);
        web.message("four");
        more_than(&eyes.0, before.0).await;
        more_than(&eyes.1, before.1).await;
        cluster.plane.lock().await.signal_etcd("STOP");
        tokio::time::sleep(Duration::from_secs(7)).await;
        cluster.plane.lock().await.signal_etcd("CONT");
        for lab in [&mut agents, &mut web] {
            lab.unjudged = Some((began, chrono::Utc::now()));
        }
        agents.all_at("agent", V4, 8, LONG).await;
        web.all_updated("four").await;
        assert!(eyes.0.seen().await.most_unready <= 2, "{}", eyes.0.seen().await.most_unready);
        assert_eq!(eyes.1.seen().await.counts(), (1, 12), "nobody was replaced twice");
        assert_eq!(eyes.0.seen().await.deletions.len(), 24, "nobody was replaced twice");
        a_kubelet_falls_silent(&cluster, &web, &agents.nodes).await;
        agents.end().await;
        web.end().await;
    });
}
