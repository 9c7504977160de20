//! What keeps a Pod from being replaced: PodDisruptionBudgets, failures, a pause, a stop, a spec that is invalid.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DeleteParams;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{lab, next_second};

fn budget(lab: &Lab<'_>, name: &str, spec: &Value) {
    let mut whole = json!({ "selector": { "matchLabels": { "app": "webapp" } } });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let metadata = json!({ "name": name, "namespace": lab.name });
    let object =
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": whole });
    lab.cluster.apply(&object.to_string());
}

#[test]
fn nothing_is_evicted_against_a_disruption_budget_and_then_it_continues() {
    olm_tests::run(async {
        let lab = lab("cw-pdb").await;
        let before = lab.uids_of("webapp").await;
        budget(&lab, "none", &json!({ "maxUnavailable": 0 }));
        next_second().await;
        lab.message("two");
        let said = lab.watcher_is("watcher", "Ready", "False", "Blocked").await;
        assert!(said.contains("disruption budget none") && said.contains("PodDisruptionBudget"), "{said}");
        lab.watcher_shows("watcher", "all four are blocked", |status| status.pods.as_ref().unwrap().blocked == 4).await;
        // A second one on the same Pods: the API server evicts none of them.
        budget(&lab, "more", &json!({ "maxUnavailable": 2 }));
        lab.watcher_shows("watcher", "two budgets are named", |status| {
            status
                .rollout
                .as_ref()
                .unwrap()
                .waiting_on
                .iter()
                .any(|line| line.contains("more than one PodDisruptionBudget"))
        })
        .await;
        assert_eq!(lab.uids_of("webapp").await, before);
        // It asks again and again, and writes nothing for it.
        let rollout = lab.watcher_status("watcher").await.rollout.unwrap();
        assert_eq!((rollout.state.as_str(), rollout.finished_at), ("Waiting", None));
        let writes = || lab.requests().iter().filter(|r| r.resource == "configwatchers/status").count();
        let asked = || lab.requests().iter().filter(|r| r.resource == "pods/eviction").count();
        let (written, refused) = (writes(), asked());
        olm_tests::eventually("it was asked again", SOON, || async {
            if asked() >= refused + 2 { Ok(()) } else { Err(asked().to_string()) }
        })
        .await;
        assert!(writes() <= written + 1, "{} after {written}", writes());
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pdb", "none"]);
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn successors_that_crash_stop_it_after_the_budget_and_the_next_edit_tries_again() {
    olm_tests::run(async {
        let lab = lab("cw-crash").await;
        lab.behave(|b| {
            b.versions.insert("bad".to_owned(), Fault::CrashLoop);
        });
        let before = lab.uids_of("webapp").await;
        lab.message("bad");
        let said = lab.watcher_is("watcher", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 1 of 1 Pods it reached") && said.contains("ConfigMap"), "{said}");
        assert_eq!(lab.uids_of("webapp").await.intersection(&before).count(), 3, "the others still run");
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 3).await;
        next_second().await;
        lab.message("three");
        lab.all_updated("three").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        assert_eq!(eyes.seen().await.deletions.len(), 4);
        lab.end().await;
    });
}

#[test]
fn an_undone_failure_restarts_only_the_pods_it_reached() {
    olm_tests::run(async {
        let lab = lab("cw-undone").await;
        lab.behave(|b| {
            b.versions.insert("bad".to_owned(), Fault::CrashLoop);
        });
        let before = lab.uids_of("webapp").await;
        lab.message("bad");
        lab.watcher_is("watcher", "Degraded", "True", "RolloutFailed").await;
        next_second().await;
        lab.message("one");
        lab.all_updated("one").await;
        assert_eq!(lab.uids_of("webapp").await.intersection(&before).count(), 3, "who has the old data keeps running");
        lab.end().await;
    });
}

#[test]
fn of_many_workloads_only_the_first_budgets_worth_meets_a_change_that_crashes() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-many", 3).await;
        lab.message("one");
        let deployment = |number| {
            let mut object = lab.workload_of("Deployment", &format!("app-{number}"), &json!({ "replicas": 1 }));
            object["spec"]["template"]["metadata"]["labels"]["group"] = "all".into();
            object.to_string()
        };
        let all: Vec<String> = (0..100).map(deployment).collect();
        lab.cluster.apply(&all.join("\n---\n"));
        lab.watcher(&json!({ "podSelector": { "group": "all" } }));
        eventually("all hundred are selected", LONG, || async {
            let progress = lab.watcher_status("watcher").await.pods.map(|pods| pods.progress);
            if progress.as_deref() == Some("100/100") { Ok(()) } else { Err(format!("{progress:?}")) }
        })
        .await;
        next_second().await;
        lab.behave(|b| {
            b.versions.insert("bad".to_owned(), Fault::CrashLoop);
        });
        let eyes = Eyes::on_replicas(&lab, "group=all", 100).await;
        lab.message("bad");
        lab.watcher_is("watcher", "Degraded", "True", "RolloutFailed").await;
        assert_eq!(eyes.seen().await.deletions.len(), 1, "not one of each workload");
        lab.end().await;
    });
}

#[test]
fn paused_stopped_and_gone_take_no_further_step() {
    olm_tests::run(async {
        let mut lab = lab("cw-paused").await;
        let before = lab.uids_of("webapp").await;
        lab.edit_watcher(json!({ "rollout": { "paused": true } })).await;
        lab.message("two");
        lab.watcher_is("watcher", "Ready", "False", "Paused").await;
        lab.config("configwatcher-operator", &json!({ "stop": "true" }));
        lab.edit_watcher(json!({ "rollout": { "paused": false } })).await;
        lab.watcher_is("watcher", "Ready", "False", "Stopped").await;
        // A restart forgets none of it.
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.watcher_shows("watcher", "it is stopped still", |status| {
            status.rollout.as_ref().is_some_and(|rollout| rollout.state == "Stopped")
        })
        .await;
        assert_eq!(lab.uids_of("webapp").await, before);
        lab.behave(|b| b.ready_after = Duration::from_secs(30));
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "configwatcher-operator"]);
        olm_tests::eventually("the first goes", SOON, || async {
            let now = lab.uids_of("webapp").await;
            if now == before { Err("none".to_owned()) } else { Ok(()) }
        })
        .await;
        lab.watchers().delete("watcher", &DeleteParams::default()).await.unwrap();
        lab.watcher_named("other", &json!({ "podSelector": { "app": "nobody" } }));
        lab.watcher_is("other", "Ready", "False", "NoPodsSelected").await;
        assert!(lab.uids_of("webapp").await.intersection(&before).count() >= 3);
        lab.end().await;
    });
}

#[test]
fn what_makes_no_sense_is_said_and_others_go_on() {
    olm_tests::run(async {
        let lab = lab("cw-bad").await;
        for (wrong, words) in [
            (json!({ "podSelector": {} }), "podSelector"),
            (json!({ "configMap": "" }), "configMap"),
            (json!({ "debounceSeconds": 1 }), "debounceSeconds"),
            (json!({ "rollout": { "maxUnavailable": 0 } }), "maxUnavailable must be a number from 1"),
        ] {
            let mut spec = json!({ "configMap": "config", "podSelector": { "app": "x" } });
            spec.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            let object = json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
                "metadata": { "name": "wrong", "namespace": lab.name }, "spec": spec });
            let said = lab.cluster.try_kubectl(&["apply", "-f", "-"], Some(&object.to_string())).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        lab.watcher_named("labels", &json!({ "podSelector": { "a b": "-" } }));
        let said = lab.watcher_is("labels", "Degraded", "True", "InvalidSpec").await;
        assert!(said.contains("spec.podSelector has \"a b\""), "{said}");
        lab.watcher_named("nowhere", &json!({ "configMap": "nowhere" }));
        let said = lab.watcher_is("nowhere", "Ready", "False", "ConfigMapNotFound").await;
        assert!(said.contains("cw-bad/nowhere") && said.contains("create it"), "{said}");
        lab.message("two");
        lab.all_say("webapp", "two", 4, LONG).await;
        let events = lab.cluster.kubectl(&["-n", &lab.name, "get", "events", "-o", "name"]);
        assert!(events.contains("watcher."), "{events}");
        let uid = lab.watchers().get("watcher").await.unwrap().uid();
        assert!(uid.is_some());
        lab.end().await;
    });
}

#[test]
fn a_canary_meets_a_change_before_the_others() {
    olm_tests::run(async {
        let lab = lab("cw-canary").await;
        let rollout = |soak: &str| {
            json!({ "rollout": { "maxUnavailable": "50%", "onFailure": "Pause", "maxFailures": 1,
                "canary": { "pods": 1, "soak": soak } } })
        };
        lab.edit_watcher(rollout("1h")).await;
        lab.behave(|b| {
            b.versions.insert("bad".to_owned(), Fault::CrashLoop);
        });
        let before = lab.uids_of("webapp").await;
        lab.message("bad");
        let said = lab.watcher_is("watcher", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 1 of 1 Pods it reached"), "{said}");
        assert_eq!(lab.uids_of("webapp").await.intersection(&before).count(), 3, "two might have gone");
        next_second().await;
        // What is good is watched.
        lab.message("two");
        lab.watcher_shows("watcher", "the canary is watched", |status| {
            let rollout = status.rollout.clone().unwrap_or_default();
            rollout.waiting_on.iter().any(|waits| waits.starts_with("the canaries: 1 Pod must stay available until"))
        })
        .await;
        // One that crashes proves little.
        assert_eq!(lab.uids_of("webapp").await.intersection(&before).count(), 2, "the canary, and the one that failed");
        lab.edit_watcher(rollout("1s")).await;
        lab.all_updated("two").await;
        // Refused by the API server.
        let patch = json!({ "spec": { "rollout": { "canary": { "pods": "0%" } } } }).to_string();
        let args = ["-n", &lab.name, "patch", "configwatcher", "watcher", "--type=merge", "-p", &patch];
        let refused = lab.cluster.try_kubectl(&args, None).unwrap_err();
        assert!(refused.contains("pods must be a number from 1"), "{refused}");
        lab.end().await;
    });
}

#[test]
fn of_several_workloads_one_pod_is_the_canary_and_a_budget_that_allows_none_holds_its_own_alone() {
    olm_tests::run(async {
        let lab = lab("cw-canaries").await;
        lab.workload("Deployment", "other", &json!({ "replicas": 3 }));
        lab.all_say("other", "one", 3, SOON).await;
        let none = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "none", "namespace": lab.name },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "other" } } } });
        lab.cluster.apply(&none.to_string());
        let soak = |soak: &str| {
            json!({ "podSelector": { "app": null, "lab": lab.name },
            "rollout": { "canary": { "pods": 1, "soak": soak } } })
        };
        lab.edit_watcher(soak("1h")).await;
        let before = (lab.uids_of("webapp").await, lab.uids_of("other").await);
        let kept = async || {
            let kept = |before: &BTreeSet<String>, now: &BTreeSet<String>| before.intersection(now).count();
            (kept(&before.0, &lab.uids_of("webapp").await), kept(&before.1, &lab.uids_of("other").await))
        };
        next_second().await;
        lab.message("two");
        lab.watcher_shows("watcher", "the canary is watched", |status| {
            let rollout = status.rollout.clone().unwrap_or_default();
            rollout.waiting_on.iter().any(|waits| waits.starts_with("the canaries: 1 Pod must stay available until"))
        })
        .await;
        assert_eq!(kept().await, (3, 3));
        // A second operator's eyes on the same Pods change nothing of that.
        lab.watcher_named("second", &json!({ "podSelector": { "app": "other" } }));
        lab.edit_watcher(soak("1s")).await;
        lab.all_say("webapp", "two", 4, LONG).await;
        assert_eq!(kept().await, (0, 3), "its budget allows none");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pdb", "none"]);
        lab.all_say("other", "two", 3, LONG).await;
        lab.end().await;
    });
}

#[test]
fn a_change_outside_of_every_window_waits_for_one() {
    olm_tests::run(async {
        let lab = lab("cw-windows").await;
        let before = lab.uids_of("webapp").await;
        let start = (chrono::Utc::now() + chrono::TimeDelta::hours(12)).format("%H:00").to_string();
        lab.edit_watcher(json!({ "rollout": { "windows": [{ "start": start, "duration": "1h" }] } })).await;
        lab.message("two");
        lab.watcher_shows("watcher", "it waits for a window", |status| {
            let rollout = status.rollout.clone().unwrap_or_default();
            rollout
                .waiting_on
                .iter()
                .any(|waits| waits.starts_with("none is replaced outside of every window until 20"))
        })
        .await;
        assert_eq!(lab.uids_of("webapp").await, before);
        lab.edit_watcher(json!({ "rollout": { "windows": [{ "start": "00:00", "duration": "168h" }] } })).await;
        lab.all_updated("two").await;
        lab.end().await;
    });
}
