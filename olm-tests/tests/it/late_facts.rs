//! Facts that come late while all others are new: watches of several resources keep no order among each other. Whatever
//! is late, each agent is replaced once, and never more at a time than the budget allows.

use std::time::Duration;

use olm_tests::cluster::Cluster;
use olm_tests::eyes::Eyes;
use olm_tests::gate::Way;
use olm_tests::lab::{LONG, Lab, SOON, V1};
use serde_json::json;

#[test]
fn what_is_seen_late_in_the_middle_of_a_rollout_costs_no_agent_twice() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "late-facts", 8).await;
        let gate = lab.start_operator_behind_a_gate().await;
        lab.behave(|b| b.ready_after = Duration::from_millis(500));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 8, SOON).await;
        for (minor, held) in ["pods", "daemonsets", "nodes"].into_iter().enumerate() {
            let version = format!("1.{}.0.20260101-000000", 310 + minor);
            let eyes = Eyes::on(&lab, "agent", 8).await;
            lab.cluster.vendor.publish(&lab.name, &version);
            lab.reached("agent", &version, 1).await;
            gate.put(held, Way::Held);
            // Long enough for several replacements: the operator has its chance to err.
            tokio::time::sleep(Duration::from_secs(4)).await;
            gate.put(held, Way::Open);
            lab.all_at("agent", &version, 8, LONG).await;
            lab.condition("agent", "Ready", "True", "AllUpdated").await;
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 2, "{held}: {} at once", seen.most_unready);
            assert!(seen.without(2).is_empty(), "{held}: not replaced exactly once: {:?}", seen.without(2));
        }
        lab.end().await;
    });
}
