//! What others do in the middle: edits of the workload, the watcher and its status, nodes that go quiet, Pods that do
//! not end, policies that refuse evictions.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{allow_evictions, forbid_evictions, lab, next_second, one_is_gone};

/// Evictions that the API server took.
fn evictions(lab: &Lab<'_>) -> usize {
    lab.requests().iter().filter(|r| r.resource == "pods/eviction" && r.code < 300).count()
}

#[test]
fn a_workload_that_is_edited_or_scaled_in_the_middle_keeps_its_budget() {
    olm_tests::run(async {
        let lab = lab("cw-edited").await;
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        one_is_gone(&eyes).await;
        // Its own rollout creates all of them again.
        let annotation = json!({ "spec": { "template": { "metadata": { "annotations": { "edited": "yes" } } } } });
        let edit = annotation.to_string();
        lab.cluster.kubectl(&["-n", &lab.name, "patch", "deployment", "webapp", "--type=merge", "-p", &edit]);
        lab.all_updated("two").await;
        assert_eq!(eyes.seen().await.most_unready, 1);
        assert!(evictions(&lab) <= 2, "whom the workload replaces itself is not evicted");

        let scale = |replicas: &str| {
            lab.cluster.kubectl(&["-n", &lab.name, "scale", "deployment", "webapp", "--replicas", replicas]);
        };
        let before = evictions(&lab);
        next_second().await;
        lab.message("three");
        eventually("one is evicted", SOON, || async {
            if evictions(&lab) > before { Ok(()) } else { Err("none".to_owned()) }
        })
        .await;
        scale("7");
        eventually("another is evicted", SOON, || async {
            if evictions(&lab) > before + 1 { Ok(()) } else { Err("none".to_owned()) }
        })
        .await;
        scale("3");
        lab.all_say("webapp", "three", 3, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert!(evictions(&lab) <= before + 4, "each of those from before at most once");
        lab.end().await;
    });
}

#[test]
fn a_second_change_and_another_selector_in_the_middle_continue_from_there() {
    olm_tests::run(async {
        let lab = lab("cw-again").await;
        lab.workload("Deployment", "other", &json!({}));
        lab.all_say("other", "one", 4, SOON).await;
        next_second().await;
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        one_is_gone(&eyes).await;
        lab.message("three");
        lab.all_updated("three").await;
        assert_eq!(eyes.seen().await.most_unready, 1);
        assert!(evictions(&lab) <= 7, "four, and those that had the second message");

        next_second().await;
        let gone = evictions(&lab);
        lab.message("four");
        eventually("one more is gone", SOON, || async {
            if evictions(&lab) > gone { Ok(()) } else { Err("none".to_owned()) }
        })
        .await;
        lab.edit_watcher(json!({ "podSelector": { "app": "other" } })).await;
        lab.all_say("other", "four", 4, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        let says = |pods: &std::collections::BTreeMap<String, Pod>| pods.len();
        assert_eq!(says(&lab.labelled("app=webapp").await), 4);
        assert!(evictions(&lab) <= gone + 4 + 2, "those that are selected no more stay");
        lab.end().await;
    });
}

#[test]
fn pods_that_go_quiet_or_do_not_end_take_the_budget() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-quiet-node", 3).await;
        lab.message("one");
        lab.workload("StatefulSet", "webapp", &json!({ "podManagementPolicy": "Parallel" }));
        lab.watcher(&json!({}));
        lab.all_say("webapp", "one", 4, SOON).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        next_second().await;
        // Its node does not answer: the Pod is not Ready, and no one removes it.
        let quiet = lab.labelled("app=webapp").await["webapp-0"].clone();
        lab.cluster.kubelet.say_ready(&quiet, false).await;
        lab.watcher_is("watcher", "Ready", "False", "PodsUnavailable").await;
        // One that does not end: its successor has its name, and cannot be made.
        let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let finalizers = |list: Value| Patch::Merge(json!({ "metadata": { "finalizers": list } }));
        api.patch("webapp-3", &PatchParams::default(), &finalizers(json!(["example.com/holds"]))).await.unwrap();
        lab.message("two");
        // It takes the whole budget, and may come back.
        lab.watcher_shows("watcher", "it waits for the quiet one", |status| {
            let waiting = status.rollout.as_ref().map(|rollout| rollout.waiting_on.join("; ")).unwrap_or_default();
            status.pods.as_ref().is_some_and(|pods| pods.outdated == 4) && waiting.contains("webapp-0")
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(evictions(&lab), 0);
        lab.cluster.kubelet.say_ready(&lab.labelled("app=webapp").await["webapp-0"], true).await;
        lab.watcher_shows("watcher", "it waits for the one that does not end", |status| {
            let waiting = status.rollout.as_ref().map(|rollout| rollout.waiting_on.join("; ")).unwrap_or_default();
            waiting.contains("StatefulSet webapp")
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(evictions(&lab), 1, "nobody else goes meanwhile");
        api.patch("webapp-3", &PatchParams::default(), &finalizers(json!(null))).await.unwrap();
        lab.all_updated("two").await;
        assert_eq!(evictions(&lab), 4);
        lab.end().await;
    });
}

#[test]
fn a_foreign_status_is_corrected_and_a_lost_one_restarts_no_pod() {
    olm_tests::run(async {
        let mut lab = lab("cw-status").await;
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        let watchers = lab.watchers();
        let status = async |patch: Value| {
            let patch = Patch::Merge(json!({ "status": patch }));
            watchers.patch_status("watcher", &PatchParams::default(), &patch).await.unwrap();
        };
        lab.message("two");
        one_is_gone(&eyes).await;
        let odd = json!({ "state": "Odd", "memory": { "engine": "?" } });
        status(json!({ "appliedHash": "rubbish", "pending": null, "rollout": odd })).await;
        lab.all_updated("two").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4));

        // While no operator runs what was remembered is made unreadable: what people read there is left.
        next_second().await;
        lab.message("three");
        lab.watcher_shows("watcher", "the change is noted", |status| status.pending.is_some()).await;
        lab.operators[0].process.signal("KILL");
        lab.operators.clear();
        status(json!({ "rollout": { "memory": { "tracked": 7 } } })).await;
        lab.start_operator(&[]).await;
        lab.all_updated("three").await;
        assert_eq!(eyes.seen().await.counts(), (1, 8));

        // All of it is taken away: what Pods were created with cannot be known.
        lab.operators.clear();
        lab.message("four");
        status(Value::Null).await;
        next_second().await;
        lab.start_operator(&[]).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 8), "not knowing is no reason to evict");
        lab.end().await;
    });
}

#[test]
fn a_refused_eviction_is_quoted_and_it_continues_when_admitted() {
    olm_tests::run(async {
        let lab = lab("cw-policy").await;
        let before = lab.uids_of("webapp").await;
        let only_here = json!({ "matchLabels": { "kubernetes.io/metadata.name": lab.name } });
        let rules = json!([{ "apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": ["pods/eviction"] }]);
        // A policy that says no, and one that does not answer.
        let name = lab.labelled("app=webapp").await.into_keys().next().unwrap();
        forbid_evictions(&lab, "false", &name).await;
        lab.message("two");
        let said = lab.watcher_is("watcher", "Degraded", "True", "EvictionRefused").await;
        assert!(said.contains("no evictions at night"), "{said}");
        let webhook = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "dead.webhook.example" },
            "webhooks": [{ "name": "dead.webhook.example", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "url": "https://127.0.0.1:1/" }, "namespaceSelector": only_here, "rules": rules }] });
        lab.cluster.apply(&webhook.to_string());
        allow_evictions(&lab);
        eventually("the webhook is quoted", SOON, || async {
            let status = lab.watcher_status("watcher").await;
            let degraded = status.conditions.into_iter().find(|c| c.type_ == "Degraded").unwrap();
            let is_it = degraded.reason == "EvictionRefused" && degraded.message.contains("dead.webhook.example");
            if is_it { Ok(()) } else { Err(format!("{degraded:?}")) }
        })
        .await;
        assert_eq!(lab.uids_of("webapp").await, before);
        lab.cluster.kubectl(&["delete", "validatingwebhookconfiguration", "dead.webhook.example"]);
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn pods_of_the_workload_that_the_watcher_does_not_select_take_the_budget_too() {
    olm_tests::run(async {
        let lab = lab("cw-partly").await;
        let names: Vec<String> = lab.labelled("app=webapp").await.into_keys().collect();
        for name in &names[..2] {
            lab.cluster.kubectl(&["-n", &lab.name, "label", "pod", name, "tier=web"]);
        }
        lab.watcher(&json!({ "podSelector": { "tier": "web" } }));
        lab.watcher_shows("watcher", "two of them are selected", |status| {
            status.pods.as_ref().is_some_and(|pods| pods.progress == "2/2")
        })
        .await;
        lab.cluster.kubelet.say_ready(&lab.labelled("app=webapp").await[&names[3]], false).await;
        lab.message("two");
        lab.watcher_shows("watcher", "it waits", |status| {
            let waiting = status.rollout.as_ref().map(|rollout| rollout.waiting_on.join("; ")).unwrap_or_default();
            status.pods.as_ref().is_some_and(|pods| pods.outdated == 2) && waiting.contains("Deployment webapp")
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(evictions(&lab), 0);
        lab.cluster.kubelet.say_ready(&lab.labelled("app=webapp").await[&names[3]], true).await;
        eventually("both are evicted", SOON, || async {
            if evictions(&lab) == 2 { Ok(()) } else { Err(format!("{:?}", lab.watcher_status("watcher").await)) }
        })
        .await;
        let there = lab.labelled("app=webapp").await;
        assert!(names[2..].iter().all(|name| there.contains_key(name)), "the others stay");
        lab.end().await;
    });
}
