//! A fleet of which one node in twenty flaps: a good version reaches everybody, a bad one is stopped.

use std::time::Duration;

use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3, version_of};
use olm_tests::nodes::set_ready;
use serde_json::json;

#[test]
fn while_nodes_flap_a_good_version_reaches_everybody_and_a_bad_one_is_stopped_at_the_budget() {
    olm_tests::run(async {
        let lab = Lab::new("flapping", 40).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(500));
        lab.oneagent(&json!({ "waitReadySeconds": 30, "rollout": { "maxUnavailable": 4 } }));
        lab.all_at("agent", V1, 40, SOON).await;
        let (client, nodes) = (lab.cluster.client.clone(), lab.nodes[..2].to_vec());
        let flaps = tokio::spawn(async move {
            for turn in 0.. {
                for (number, node) in nodes.iter().enumerate() {
                    set_ready(&client, node, (turn + number) % 3 != 0).await;
                }
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
        });
        let eyes = Eyes::on(&lab, "agent", 40).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 40).await;
        {
            let seen = eyes.seen().await;
            // Those that flap become unready on their own.
            assert!(seen.most_unready <= 4 + 2, "{} at once", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.behave(|b| {
            b.versions.insert(V3.into(), Fault::CrashLoop);
        });
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.condition_within(LONG, "agent", "Degraded", "True", "RolloutFailed").await;
        let reached =
            async || lab.pods("agent").await.values().filter(|p| version_of(p).as_deref() == Some(V3)).count();
        let now = reached().await;
        assert!(now <= 4, "{now} nodes");
        lab.is_looked_at().await;
        assert_eq!(reached().await, now, "and no more later");
        flaps.abort();
        for node in &lab.nodes[..2] {
            set_ready(&lab.cluster.client, node, true).await;
        }
        lab.end().await;
    });
}
