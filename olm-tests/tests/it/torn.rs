//! What is kept from run to run is torn while no operator runs: a status that is wiped, a record that is mangled.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use serde_json::json;

/// The annotations of the DaemonSet that outlive the operator.
const RECORD: &str = "oneagent.dynatrace.com/record";

/// Mangles the record, and with `wipes` the whole status too.
async fn tear(lab: &Lab<'_>, wipes: bool) {
    let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let mangled = json!({ "metadata": { "annotations": { RECORD: "{\"templates\":[7" } } });
    daemonsets.patch("agent", &PatchParams::default(), &Patch::Merge(mangled)).await.expect("a DaemonSet");
    if wipes {
        let nothing = Patch::Merge(json!({ "status": null }));
        lab.agents().patch_status("agent", &PatchParams::default(), &nothing).await.expect("a OneAgent");
    }
}

#[test]
fn a_rollout_with_a_torn_memory_and_record_continues_within_the_budget() {
    olm_tests::run(async {
        let mut lab = Lab::new("torn-middle", 12).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(900));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 12, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 12).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 3).await;
        // Killed: what it was about to write is lost, too.
        lab.operators[0].process.kill();
        lab.operators.clear();
        tear(&lab, true).await;
        lab.start_operator(&[]).await;
        lab.all_at("agent", V2, 12, LONG).await;
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 2, "{} at once", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        let status = lab.status("agent").await;
        assert!(status.rejected_versions.is_empty(), "{:?}", status.rejected_versions);
        lab.end().await;
    });
}

#[test]
fn a_record_that_is_mangled_while_an_edit_is_paused_restarts_no_agent() {
    olm_tests::run(async {
        let mut lab = Lab::new("torn-pause", 6).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        lab.edit("agent", json!({ "env": [{ "name": "EDITED", "value": "yes" }] })).await;
        lab.condition("agent", "Ready", "False", "Paused").await;
        let eyes = Eyes::on(&lab, "agent", 6).await;
        let before = lab.uids("agent").await;
        // While the operator runs, and while it does not.
        tear(&lab, false).await;
        lab.is_polled().await;
        lab.operators.clear();
        tear(&lab, false).await;
        lab.start_operator(&[]).await;
        lab.condition("agent", "Ready", "False", "Paused").await;
        lab.is_polled().await;
        assert_eq!(lab.uids("agent").await, before, "a pause keeps agents as they are");
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.condition_within(LONG, "agent", "Ready", "True", "AllUpdated").await;
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 1, "{} at once", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        lab.end().await;
    });
}
