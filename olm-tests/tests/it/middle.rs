//! What changes in the middle of a rollout: the budget, the status, the version itself, the nodes. It continues, and no
//! agent is replaced twice or against the budget.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3, is_ready, version_of};
use olm_tests::nodes;
use serde_json::json;

#[test]
fn an_edited_budget_and_a_wiped_status_in_the_middle_replace_none_twice() {
    olm_tests::run(async {
        let lab = Lab::new("middle-budget", 20).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 20, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 20).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 4).await;
        let wipe = [
            "-n",
            &lab.name,
            "patch",
            "oneagent",
            "agent",
            "--subresource=status",
            "--type=json",
            "-p",
            r#"[{"op":"replace","path":"/status","value":{}}]"#,
        ];
        lab.cluster.kubectl(&wipe);
        lab.reached("agent", V2, 8).await;
        let so_far = eyes.seen().await.most_unready;
        assert!(so_far <= 2, "{so_far} at once after the status was wiped");
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 5 } })).await;
        lab.all_at("agent", V2, 20, LONG).await;
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 5, "{} at once", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        lab.end().await;
    });
}

#[test]
fn a_recalled_version_stops_where_it_is_and_the_next_one_completes() {
    olm_tests::run(async {
        let lab = Lab::new("middle-recall", 12).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 }, "waitReadySeconds": 10 }));
        lab.all_at("agent", V1, 12, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 3).await;
        lab.cluster.vendor.with(&lab.name, |e| {
            e.latest = V1.into();
            e.offered = vec![V1.into()];
        });
        lab.is_polled().await;
        // What was under way ends; the agent that can no longer be downloaded gives way to one that can.
        lab.all_pods_ready("agent", 12).await;
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.is_observed("agent").await;
        let before = lab.uids("agent").await;
        lab.is_polled().await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "a recall replaces nobody");
        let at = lab.pods("agent").await.values().filter(|pod| version_of(pod).as_deref() == Some(V2)).count();
        assert!((2..12).contains(&at), "{at} of 12");
        assert!(lab.status("agent").await.rejected_versions.is_empty(), "no agent failed");
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("agent", V3, 12, LONG).await;
        lab.end().await;
    });
}

#[test]
fn nodes_recreated_under_their_names_in_the_middle_are_served_and_delay_nothing() {
    olm_tests::run(async {
        let lab = Lab::new("middle-again", 10).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 10, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 2).await;
        let again = lab.nodes[4..7].to_vec();
        nodes::delete(&lab.cluster.client, &again).await;
        let shape = nodes::Shape::default().label("lab", &lab.name);
        nodes::create(&lab.cluster.client, again.iter().map(|name| nodes::node(name, &shape)).collect()).await;
        lab.all_at("agent", V2, 10, LONG).await;
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.end().await;
    });
}

#[test]
fn a_node_that_is_tainted_while_it_has_no_agent_keeps_its_place_in_the_budget() {
    olm_tests::run(async {
        let lab = Lab::new("middle-taint", 6).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        // Until it was seen between its two agents.
        lab.behave(|b| b.gone_after = LONG);
        let eyes = Eyes::on(&lab, "agent", 6).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let node = eventually("one agent is leaving", SOON, || async {
            let there = lab.uids("agent").await;
            before.keys().find(|node| !there.contains_key(*node)).cloned().ok_or_else(|| format!("{there:?}"))
        })
        .await;
        let taints = |list: serde_json::Value| json!({ "spec": { "taints": list } });
        let taint = json!([{ "key": "maintenance", "value": "x", "effect": "NoSchedule" }]);
        nodes::patch(&lab.cluster.client, &node, &taints(taint)).await;
        lab.wants("agent", 5).await;
        lab.behave(|b| b.gone_after = Duration::from_millis(50));
        // No other agent is replaced meanwhile: it lost its agent by us.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(eyes.seen().await.counts(), (1, 1));
        nodes::patch(&lab.cluster.client, &node, &taints(serde_json::Value::Null)).await;
        lab.all_at("agent", V2, 6, LONG).await;
        assert_eq!(eyes.seen().await.most_unready, 1);
        lab.end().await;
    });
}

#[test]
fn while_a_status_cannot_be_written_no_unrecorded_agent_is_replaced() {
    olm_tests::run(async {
        let lab = Lab::new("middle-mute", 6).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.is_noted("agent").await;
        let eyes = Eyes::on(&lab, "agent", 6).await;
        let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "no-status" },
            "spec": { "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": lab.name } },
                "resourceRules": [{ "apiGroups": ["dynatrace.com"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["oneagents/status"] }] },
                "validations": [{ "expression": "false", "message": "nobody writes a status" }] } });
        let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "no-status" },
            "spec": { "policyName": "no-status", "validationActions": ["Deny"] } });
        lab.cluster.apply(&format!("{policy}\n---\n{binding}"));
        // A policy is heard of after a moment.
        eventually("statuses are refused", SOON, || async {
            let patch = r#"{"status":{"phase":"Odd"}}"#;
            let args = [
                "-n",
                &lab.name,
                "patch",
                "oneagent",
                "agent",
                "--subresource=status",
                "--type=merge",
                "--dry-run=server",
                "-p",
                patch,
            ];
            match lab.cluster.try_kubectl(&args, None) {
                Err(why) if why.contains("nobody writes a status") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        lab.cluster.vendor.publish(&lab.name, V2);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(eyes.seen().await.deletions.len(), 0, "what is begun must be remembered first");
        lab.cluster.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-status"]);
        lab.all_at("agent", V2, 6, LONG).await;
        assert_eq!(eyes.seen().await.counts(), (1, 6));
        lab.end().await;
    });
}

#[test]
fn a_daemonset_that_is_deleted_comes_back_as_it_was_good_last_and_what_is_new_has_its_rollout() {
    olm_tests::run(async {
        let lab = Lab::new("middle-deleted", 4).await;
        let rollout = json!({ "canary": { "nodes": 1, "soak": "1h" }, "maxUnavailable": "50%" });
        lab.oneagent(&json!({ "rollout": rollout }));
        lab.all_at("agent", V1, 4, SOON).await;
        let delete = || lab.cluster.kubectl(&["-n", &lab.name, "delete", "daemonset", "agent"]);
        // Held before it began.
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.shows("it is known", SOON, |status| status.desired_version.as_deref() == Some(V2)).await;
        delete();
        let at = async |version: &str| {
            let pods = lab.pods("agent").await;
            pods.values().filter(|pod| version_of(pod).as_deref() == Some(version) && is_ready(pod)).count()
        };
        let old_ones = async |least: usize| {
            eventually(&format!("{least} agents at {V1}"), SOON, || async {
                let (old, new) = (at(V1).await, at(V2).await);
                let status = lab.status("agent").await;
                if old >= least && old + new == 4 { Ok(new) } else { Err(format!("{old}, {new}; {status:#?}")) }
            })
            .await
        };
        let before = lab.uids("agent").await;
        eventually("its Pods went with it", SOON, || async {
            let now = lab.uids("agent").await;
            if now.values().any(|uid| before.values().any(|b| b == uid)) { Err("not yet".into()) } else { Ok(()) }
        })
        .await;
        old_ones(4).await;
        // With a canary.
        lab.edit("agent", json!({ "rollout": { "paused": null } })).await;
        lab.reached("agent", V2, 1).await;
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        delete();
        old_ones(3).await;
        lab.is_looked_at().await;
        let new = old_ones(3).await;
        assert!(new <= 1, "{new} have an unproven version");
        // Without any Pod that is left meanwhile.
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        let before = lab.uids("agent").await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "daemonset", "agent", "--cascade=foreground"]);
        eventually("all are new", LONG, || async {
            let now = lab.uids("agent").await;
            let are_new = now.len() == 4 && !now.values().any(|uid| before.values().any(|b| b == uid));
            if are_new { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        old_ones(3).await;
        lab.is_looked_at().await;
        let new = old_ones(3).await;
        assert!(new <= 1, "{new} have an unproven version");
        // Frozen: the version that was reached, and not the newest.
        lab.edit("agent", json!({ "disableAgentUpdate": true, "rollout": { "canary": null } })).await;
        let before = lab.uids("agent").await;
        delete();
        eventually("they are back", LONG, || async {
            let now = lab.uids("agent").await;
            let is_new = now.len() == 4 && !now.values().any(|uid| before.values().any(|b| b == uid));
            // The host that had the newer one may refuse it.
            let (old, newer) = (at(V1).await, at(V2).await);
            if is_new && old >= 4 - new && newer == 0 { Ok(()) } else { Err(format!("{old}, {newer}")) }
        })
        .await;
        lab.end().await;
    });
}
