//! What starts late, or not at all: which of it is a verdict on the data, and how a verdict is lifted again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::webhook::Webhook;
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{lab, next_second};

/// The data was not blamed so far.
async fn is_innocent(lab: &Lab<'_>) {
    assert_eq!(lab.watcher_status("watcher").await.rollout.and_then(|rollout| rollout.failure), None);
}

/// Waits until `Degraded` says that the data failed, with these words.
async fn failed(lab: &Lab<'_>, words: &str) {
    olm_tests::eventually(&format!("it failed: {words}"), SOON, || async {
        let conditions = lab.watcher_status("watcher").await.conditions;
        let degraded = conditions.into_iter().find(|c| c.type_ == "Degraded").ok_or("no condition")?;
        let is_it = degraded.reason == "RolloutFailed" && degraded.message.contains(words);
        if is_it { Ok(()) } else { Err(format!("{degraded:?}")) }
    })
    .await;
}

#[test]
fn pods_that_need_longer_than_they_are_given_are_all_replaced_once_they_are_given_more() {
    olm_tests::run(async {
        let lab = lab("cw-slow").await;
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 3 } })).await;
        lab.behave(|b| b.ready_after = Duration::from_secs(6));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        // Twice their recovery lifts the verdict.
        failed(&lab, "it continues once all Pods of Deployment webapp have been available for 3 s").await;
        failed(&lab, "recovered twice before").await;
        assert_eq!(eyes.seen().await.deletions.len(), 3);
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 60 } })).await;
        lab.all_updated("two").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4));
        lab.end().await;
    });
}

#[test]
fn a_pod_that_failed_and_is_deleted_by_hand_recovers_under_another_name() {
    olm_tests::run(async {
        let lab = lab("cw-by-hand").await;
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 3 } })).await;
        lab.behave(|b| _ = b.versions.insert("two".to_owned(), Fault::NeverReady));
        let before = lab.uids_of("webapp").await;
        lab.message("two");
        failed(&lab, "failed on 1 of 1 Pods it reached").await;
        lab.behave(|b| b.versions.clear());
        let there = lab.labelled("app=webapp").await;
        let failed = there.into_values().find(|pod| !before.contains(pod.metadata.uid.as_ref().unwrap())).unwrap();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", failed.metadata.name.as_ref().unwrap()]);
        lab.all_updated("two").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn a_slow_registry_is_no_verdict_on_the_data() {
    olm_tests::run(async {
        let lab = lab("cw-pull").await;
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 3 } })).await;
        lab.behave(|b| _ = b.versions.insert("two".to_owned(), Fault::SlowPull(Duration::from_secs(8))));
        lab.message("two");
        let said = lab.watcher_is("watcher", "Degraded", "True", "PodsRefused").await;
        assert!(said.contains("an image is being pulled"), "{said}");
        is_innocent(&lab).await;
        lab.behave(|b| b.versions.clear());
        lab.all_updated("two").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

/// A Deployment whose Pods have an init container, and a watcher of it.
async fn with_init(name: &str) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    lab.message("one");
    let mut object = lab.workload_of("Deployment", "webapp", &json!({}));
    object["spec"]["template"]["spec"]["initContainers"] = json!([{ "name": "migrate", "image": "migrate:1" }]);
    lab.cluster.apply(&object.to_string());
    lab.watcher(&json!({ "rollout": { "waitReadySeconds": 6 } }));
    lab.all_say("webapp", "one", 4, SOON).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    next_second().await;
    lab
}

#[test]
fn an_init_container_that_crashes_is_a_verdict_with_its_cause() {
    olm_tests::run(async {
        let lab = with_init("cw-init-crash").await;
        lab.behave(|b| _ = b.versions.insert("two".to_owned(), Fault::InitCrash));
        lab.message("two");
        failed(&lab, "CrashLoopBackOff: back-off 10s restarting failed container, exit code 1").await;
        lab.behave(|b| b.versions.clear());
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn an_init_container_whose_image_is_not_there_is_no_verdict() {
    olm_tests::run(async {
        let lab = with_init("cw-init-pull").await;
        lab.behave(|b| _ = b.versions.insert("two".to_owned(), Fault::InitPull));
        lab.message("two");
        let said = lab.watcher_is("watcher", "Degraded", "True", "PodsRefused").await;
        assert!(said.contains("ImagePullBackOff: Back-off pulling image: manifest unknown"), "{said}");
        // For longer than a Pod is given.
        tokio::time::sleep(Duration::from_secs(8)).await;
        is_innocent(&lab).await;
        lab.behave(|b| b.versions.clear());
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn after_the_init_containers_a_slow_registry_is_no_verdict_either() {
    olm_tests::run(async {
        let lab = with_init("cw-init-slow").await;
        lab.edit_watcher(json!({ "rollout": { "waitReadySeconds": 3 } })).await;
        lab.behave(|b| _ = b.versions.insert("two".to_owned(), Fault::SlowPull(Duration::from_secs(8))));
        lab.message("two");
        let said = lab.watcher_is("watcher", "Degraded", "True", "PodsRefused").await;
        assert!(said.contains("an image is being pulled"), "{said}");
        is_innocent(&lab).await;
        lab.behave(|b| b.versions.clear());
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn a_round_of_evictions_that_takes_long_is_continued_and_the_status_follows() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-long-round", 3).await;
        lab.message("one");
        lab.workload("Deployment", "webapp", &json!({ "replicas": 40 }));
        lab.watcher(&json!({ "rollout": { "maxUnavailable": "100%" } }));
        lab.all_say("webapp", "one", 40, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        next_second().await;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let webhook = Webhook::of_evictions(&lab.cluster.client, &lab.name, move || {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1))
        })
        .await;
        lab.message("two");
        lab.watcher_shows("watcher", "the status follows while evictions go on", |status| {
            let updated = status.pods.as_ref().map_or(0, |pods| pods.updated);
            (1..40).contains(&updated) && asked.load(Ordering::SeqCst) < 40
        })
        .await;
        lab.all_say("webapp", "two", 40, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert!(asked.load(Ordering::SeqCst) >= 40, "the webhook was asked");
        let printed = lab.operators[0].printed();
        assert!(!printed.contains("a reconcile failed"), "{printed}");
        webhook.end().await;
        lab.end().await;
    });
}

#[test]
fn a_configmap_that_comes_late_reaches_the_pods_that_ran_without_it() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-late", 3).await;
        let mut object = lab.workload_of("Deployment", "webapp", &json!({}));
        let from: &mut Value =
            &mut object["spec"]["template"]["spec"]["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"];
        from["optional"] = true.into();
        lab.cluster.apply(&object.to_string());
        lab.watcher(&json!({}));
        olm_tests::eventually("all four run without it", SOON, || async {
            let pods = lab.labelled("app=webapp").await;
            let ready = pods.values().filter(|pod| olm_tests::lab::is_ready(pod)).count();
            if ready == 4 { Ok(()) } else { Err(ready.to_string()) }
        })
        .await;
        lab.watcher_is("watcher", "Degraded", "True", "ConfigMapNotFound").await;
        next_second().await;
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("first");
        lab.all_say("webapp", "first", 4, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4));
        lab.end().await;
    });
}
