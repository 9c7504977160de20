//! What the runbooks and the page of the status have a person on call type, as printed, while a rollout has failed.
//!
//! `kubectl run … check` is not run: no kubelet here runs an image. Must not try what the operator decides.

use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready};
use olm_tests::pages::{Shell, all_blocks, blocks, command};
use serde_json::json;

use crate::watcher;

const RUNBOOKS: &str = "docs/runbooks.md";

#[test]
fn the_runbooks_of_a_failed_rollout_help_as_printed() {
    olm_tests::run(async {
        let lab = Lab::new("runbooks", 4).await;
        let shell = Shell::new(lab.cluster);
        let here = ("NAMESPACE", lab.name.as_str());
        let agent = [here, ("NAME", "agent")];
        // Agents that recover are not believed within this test: what helps is what was typed.
        lab.oneagent(&json!({ "waitReadySeconds": 3600, "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 4, SOON).await;
        lab.behave(|b| _ = b.versions.insert(V2.into(), Fault::CrashLoop));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        let failure = lab.status("agent").await.rollout.unwrap().failure.unwrap();
        let node = failure.nodes.first().unwrap().to_owned();

        let describe = all_blocks(RUNBOOKS, "sh").into_iter().find(|block| block.contains(" describe ")).unwrap();
        let said = shell.told(&describe, &agent, "");
        assert!(said.contains("RolloutFailed") && said.contains(&node), "{said}");
        let lacks = blocks(RUNBOOKS, "OneAgentNodesWithoutAgent", "sh").remove(0);
        // It exits with 1: a person must act.
        let explain = format!("explain node {node} -n {} || test $? = 1", lab.name);
        let said = shell.told(&lacks, &[&agent[..], &[("explain node NODE", explain.as_str())]].concat(), "");
        assert!(said.contains(&format!(r#""crash":["{node}"#)) && said.contains("CrashLoopBackOff"), "{said}");
        let away = command(RUNBOOKS, "OneAgentOperatorAway", "kubectl");
        let said = shell.told(&away, &[("-n dynatrace", &format!("-n {}", lab.name))], "");
        assert!(said.contains("lease.coordination.k8s.io/oneagent-operator"), "{said}");

        // Named again it is tried again, and once more after the field was removed.
        let retry = blocks(RUNBOOKS, "OneAgentRolloutFailed", "sh").remove(0);
        let removal = command(RUNBOOKS, "OneAgentRolloutFailed", "-p");
        let remove = format!("{} {removal}", retry.split(" -p ").next().unwrap());
        let named = [&agent[..], &[("VERSION", V2)]].concat();
        for _ in 0..2 {
            let before = lab.uids("agent").await;
            shell.run(&retry, &named);
            eventually("the agent that failed is replaced", SOON, || async {
                let now = lab.uids("agent").await;
                let is_replaced = now.get(&node).is_some_and(|uid| *uid != before[&node]);
                if is_replaced { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
            lab.shows("it is rejected again", LONG, |status| status.rejected_versions == [V2]).await;
            shell.run(&remove, &agent);
            lab.is_observed("agent").await;
        }
        lab.behave(|b| b.versions.clear());
        shell.run(&retry, &named);
        lab.all_at("agent", V2, 4, LONG).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn a_group_on_call_gets_what_the_page_of_the_status_says() {
    olm_tests::run(async {
        let lab = Lab::new("runbooks-group", 1).await;
        let shell = Shell::new(lab.cluster);
        let binding = lab.name.as_str();
        let block = blocks("docs/status.md", "Why has this node no agent?", "sh").remove(1);
        shell.run(
            &block,
            &[("clusterrolebinding on-call", &format!("clusterrolebinding {binding}")), ("GROUP", binding)],
        );
        let may = |verb: &str, what: &str| {
            let group = format!("--as-group={binding}");
            let asked = ["auth", "can-i", verb, what, "-n", &lab.name, "--as=somebody", &group];
            lab.cluster.try_kubectl(&asked, None).is_ok()
        };
        eventually("they may read OneAgents", SOON, || async {
            if may("list", "oneagents.dynatrace.com") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        assert!(may("list", "nodes") && may("list", "pods"));
        for (verb, what) in [("create", "pods/exec"), ("get", "secrets"), ("patch", "oneagents.dynatrace.com")] {
            assert!(!may(verb, what), "{verb} {what}");
        }
        lab.cluster.kubectl(&["delete", "clusterrolebinding", binding]);
        lab.end().await;
    });
}

#[test]
fn the_runbook_of_a_configwatcher_that_failed_helps_as_printed() {
    olm_tests::run(async {
        let lab = watcher::lab("cw-runbook").await;
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 3600 } })).await;
        lab.behave(|b| _ = b.versions.insert("bad".into(), Fault::CrashLoop));
        lab.message("bad");
        let said = lab.watcher_is("watcher", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 1 of 1 Pods it reached"), "{said}");
        // The cause is corrected first: a Pod that still crashes when the data is tried again stops it once more.
        lab.behave(|b| b.versions.clear());
        eventually("no Pod crashes any more", SOON, || async {
            let ready = lab.labelled("app=webapp").await.values().filter(|pod| is_ready(pod)).count();
            if ready == 4 { Ok(()) } else { Err(ready.to_string()) }
        })
        .await;
        let retry = blocks(RUNBOOKS, "ConfigWatcherRolloutFailed", "sh").remove(0);
        Shell::new(lab.cluster).run(&retry, &[("NAMESPACE", &lab.name), ("NAME", "watcher")]);
        lab.all_updated("bad").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
