//! When nothing changes nothing is written; when another client changes what is ours it is put back.

use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::nodes;
use serde_json::{Value, json};

use super::watcher;

fn time(text: &str) -> DateTime<Utc> {
    text.parse().expect("a time")
}

#[test]
fn a_minute_without_changes_writes_nothing_and_a_manual_edit_is_then_reverted_at_once() {
    olm_tests::run(async {
        let lab = Lab::new("steady", 5).await;
        let limits = json!({ "resources": { "limits": { "memory": "1.5Gi", "cpu": "0.3" },
            "requests": { "memory": "1.5Gi" } },
            "env": [{ "name": "KEEP", "value": "1" }, { "name": "EMPTY", "value": "" }], "waitReadySeconds": 100 });
        lab.oneagent(&limits);
        lab.all_at("agent", V1, 5, SOON).await;
        lab.is_noted("agent").await;
        let written = || lab.requests().iter().filter(|r| r.writes() && r.resource != "leases").count();
        let settled = async |what: &str| {
            eventually(what, SOON, || async {
                let before = written();
                tokio::time::sleep(Duration::from_secs(3)).await;
                let after = written();
                if after == before { Ok(()) } else { Err(format!("{} writes in 3 seconds", after - before)) }
            })
            .await;
        };
        settled("token states settle, and the last status is written").await;
        let before = lab.requests();
        let status = lab.agents().get("agent").await.unwrap();
        let polls = || lab.cluster.vendor.with(&lab.name, |e| e.calls.values().sum::<u32>());
        let polled = polls();
        eventually("the environment was asked for a minute", 4 * SOON, || async {
            for node in &lab.nodes {
                nodes::heartbeat(&lab.cluster.client, node).await;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
            let asked = polls() - polled;
            if asked > 200 { Ok(()) } else { Err(format!("{asked} times")) }
        })
        .await;
        let after = lab.requests();
        let new = &after[before.len()..];
        let writes: Vec<_> = new.iter().filter(|r| r.writes() && r.resource != "leases").collect();
        assert!(writes.is_empty(), "{writes:?}");
        let reads: Vec<_> = new.iter().filter(|r| !r.writes() && r.verb != "watch").collect();
        assert!(reads.is_empty(), "{reads:?}");
        let renewals: Vec<_> = new.iter().filter(|r| r.resource == "leases").map(|r| time(&r.at)).collect();
        let span = *renewals.last().unwrap() - renewals[0];
        assert!(renewals.len() as i64 <= span.num_seconds() + 2, "{} renewals in {span}", renewals.len());
        assert_eq!(lab.agents().get("agent").await.unwrap().resource_version(), status.resource_version());

        let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let good = daemonsets.get("agent").await.unwrap().spec.unwrap();
        let uids = lab.uids("agent").await;
        let env = |change: Value| {
            json!({ "spec": { "template": {
            "spec": { "containers": [{ "name": "dynatrace-oneagent", "env": [change] }] } } } })
        };
        let edits = [
            ("an added variable", env(json!({ "name": "ADDED", "value": "1" }))),
            ("a removed one", env(json!({ "name": "KEEP", "$patch": "delete" }))),
            ("a changed one", env(json!({ "name": "KEEP", "value": "2" }))),
            (
                "a limit",
                json!({ "spec": { "template": { "spec": { "containers": [{ "name": "dynatrace-oneagent",
                    "resources": { "limits": { "memory": "2Gi" } } }] } } } }),
            ),
            ("the update strategy", json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })),
            (
                "an annotation of ours",
                json!({ "metadata": { "annotations": { "oneagent.dynatrace.com/record": null } } }),
            ),
        ];
        for (what, edit) in edits {
            let params = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
            let edited = daemonsets.patch("agent", &params, &Patch::Strategic(edit)).await.unwrap();
            eventually(&format!("{what} is reverted"), SOON, || async {
                let now = daemonsets.get("agent").await.unwrap();
                let template = now.annotations().contains_key("oneagent.dynatrace.com/record");
                if now.spec.as_ref() == Some(&good) && template && now.resource_version() != edited.resource_version() {
                    Ok(())
                } else {
                    Err(format!("{:?}", now.spec))
                }
            })
            .await;
        }
        // The same quantities written another way: not even noticed.
        settled("all of that is done and said").await;
        let count = lab.requests().len();
        let params = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
        let same = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "dynatrace-oneagent",
            "resources": { "limits": { "memory": "1536Mi", "cpu": "300m" } } }] } } } });
        daemonsets.patch("agent", &params, &Patch::Strategic(same)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let writes: Vec<_> =
            lab.requests().split_off(count).into_iter().filter(|r| r.writes() && r.resource != "leases").collect();
        assert!(writes.is_empty(), "{writes:?}");
        assert_eq!(lab.uids("agent").await, uids, "no agent was restarted by all that");
        lab.end().await;
    });
}

#[test]
fn a_minute_without_changes_of_a_watched_config_map_writes_nothing() {
    olm_tests::run(async {
        let lab = watcher::lab("cw-quiet").await;
        watcher::next_second().await;
        let writes = || lab.requests().iter().filter(|r| r.writes() && r.resource != "leases").count();
        let before = writes();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(writes(), before);
        lab.end().await;
    });
}
