//! What becomes unavailable in the middle of a rollout: it is held, nothing is rejected, and it continues on its own.

use std::time::Duration;

use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3, is_ready, version_of};
use olm_tests::nodes;
use olm_tests::vendor::Mood;
use serde_json::json;

#[test]
fn an_unreachable_registry_rejects_no_version_and_the_rollout_completes() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-registry", 20).await;
        lab.oneagent(&json!({ "waitReadySeconds": 4, "rollout": { "maxUnavailable": 3 } }));
        lab.all_at("agent", V1, 20, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 20).await;
        lab.behave(|b| _ = b.versions.insert(V2.into(), Fault::ImagePull));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Degraded", "ImagePullBackOff").await;
        // Beyond the deadline nodes that join get what works.
        lab.shows("the template goes back meanwhile", SOON, |status| status.version.as_deref() == Some(V1)).await;
        let joined = lab.add_nodes(1, &nodes::Shape::default()).await.remove(0);
        eventually("the node that joined has an agent", SOON, || async {
            match lab.pods("agent").await.get(&joined) {
                Some(pod) if is_ready(pod) && version_of(pod).as_deref() == Some(V1) => Ok(()),
                other => Err(format!("{:?}", other.and_then(version_of))),
            }
        })
        .await;
        // Three times the deadline.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let status = lab.status("agent").await;
        assert_eq!(
            (status.rejected_versions.len(), status.rollout.unwrap().failure),
            (0, None),
            "the registry was held against the version"
        );
        assert!(
            eyes.seen().await.most_unready <= 3,
            "{} nodes at once were without an agent",
            eyes.seen().await.most_unready
        );
        lab.behave(|b| b.versions.clear());
        lab.all_at("agent", V2, 21, LONG).await;
        assert!(
            eyes.seen().await.most_unready <= 3,
            "{} nodes at once were without an agent",
            eyes.seen().await.most_unready
        );
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn a_quota_that_refuses_new_pods_holds_a_rollout_and_no_more() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-quota", 6).await;
        lab.oneagent(&json!({ "waitReadySeconds": 4, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "none", "namespace": lab.name }, "spec": { "hard": { "pods": "0" } } });
        lab.cluster.apply(&quota.to_string());
        lab.cluster.vendor.publish(&lab.name, V2);
        let said = lab.says("agent", "Degraded", "exceeded quota").await;
        assert!(said.contains("raise the quota"), "{said}");
        lab.shows("the template goes back meanwhile", SOON, |status| status.version.as_deref() == Some(V1)).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(lab.pods("agent").await.values().filter(|p| is_ready(p)).count(), 4, "no more than the budget");
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "resourcequota", "none"]);
        // The DaemonSet controller is asked to look again, so nothing waits for its back-off.
        lab.all_at("agent", V2, 6, LONG).await;
        lab.end().await;
    });
}

#[test]
fn an_unreachable_or_refusing_vendor_holds_a_rollout_and_no_more() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-vendor", 12).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(1200));
        lab.oneagent(&json!({ "waitReadySeconds": 6, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 12, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 2).await;
        for mood in [Mood::Broken, Mood::Unauthorized] {
            lab.cluster.vendor.with(&lab.name, |e| e.mood = mood);
            lab.condition("agent", "Progressing", "True", "Held").await;
            let before = lab.uids("agent").await;
            tokio::time::sleep(Duration::from_secs(9)).await;
            // Nor does an operator that begins meanwhile know more.
            lab.operators[0].process.kill();
            lab.operators.clear();
            lab.start_operator(&[]).await;
            lab.is_looked_at().await;
            let now = lab.uids("agent").await;
            let replaced = before.iter().filter(|(node, uid)| now.get(*node) != Some(uid)).count();
            assert_eq!(replaced, 0, "{mood:?}: agents were replaced that could not be downloaded");
            lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Well);
            eventually("it goes on by itself", SOON, || async {
                let now = lab.status("agent").await;
                let held = now.conditions.iter().any(|c| c.type_ == "Progressing" && c.reason == "Held");
                if held { Err(format!("{:#?}", now.conditions)) } else { Ok(()) }
            })
            .await;
        }
        // A typo in the address, and back.
        let good = lab.cluster.vendor.url(&lab.name);
        lab.edit("agent", json!({ "apiUrl": good.replace("hostile-vendor", "nobody") })).await;
        lab.condition("agent", "Progressing", "True", "Held").await;
        lab.edit("agent", json!({ "apiUrl": good })).await;
        lab.all_at("agent", V2, 12, LONG).await;
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.end().await;
    });
}

#[test]
fn requests_that_no_node_can_hold_are_stopped_at_the_budget_and_said() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-room", 10).await;
        // As long as a busy machine may need to start a good agent.
        lab.oneagent(&json!({ "waitReadySeconds": 20, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 10, SOON).await;
        lab.edit("agent", json!({ "resources": { "requests": { "cpu": "100000" } } })).await;
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(lab.pods("agent").await.values().filter(|p| is_ready(p)).count() >= 8);
        lab.edit("agent", json!({ "resources": null })).await;
        lab.all_at("agent", V1, 10, LONG).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn an_endless_host_list_does_not_delay_news_of_versions() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "outage-hosts", 2).await;
        // Longer than this test waits.
        lab.start_operator(&[("VENDOR_TIMEOUT", "600s")]).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.cluster.vendor.with(&lab.name, |e| e.hides_hosts = true);
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.shows("a list of hosts is wanted", SOON, |status| status.desired_version.as_deref() == Some(V2)).await;
        lab.says("agent", "Progressing", "host list").await;
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.shows("the next one is heard of", SOON, |status| status.desired_version.as_deref() == Some(V3)).await;
        assert_eq!(lab.status("agent").await.nodes.unwrap_or_default().version_unknown, 2, "nobody was replaced");
        lab.cluster.vendor.with(&lab.name, |e| e.hides_hosts = false);
        // A new operator asks again.
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.all_at("agent", V3, 2, SOON).await;
        lab.end().await;
    });
}
