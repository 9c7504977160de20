//! Workloads of every kind, each in its own way; and Pods that no controller would create again.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{lab, next_second};

async fn bare(name: &str) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    lab.message("one");
    lab
}

#[test]
fn statefulsets_from_the_highest_ordinal_down_and_daemonsets_of_either_strategy() {
    olm_tests::run(async {
        let lab = bare("cw-kinds").await;
        lab.workload("StatefulSet", "db", &json!({ "podManagementPolicy": "Parallel", "replicas": 3 }));
        lab.workload("DaemonSet", "ds", &json!({}));
        lab.workload("DaemonSet", "own", &json!({ "updateStrategy": { "type": "OnDelete" } }));
        for app in ["db", "ds", "own"] {
            lab.all_say(app, "one", 3, SOON).await;
            lab.watcher_named(app, &json!({ "podSelector": { "app": app } }));
            lab.watcher_is(app, "Ready", "True", "AllUpdated").await;
        }
        next_second().await;
        let before: BTreeSet<String> = lab.uids_of("db").await;
        let eyes = [
            Eyes::on_replicas(&lab, "app=db", 3).await,
            Eyes::on_replicas(&lab, "app=ds", 3).await,
            Eyes::on_replicas(&lab, "app=own", 3).await,
        ];
        lab.message("two");
        for app in ["db", "ds", "own"] {
            lab.all_say(app, "two", 3, LONG).await;
            lab.watcher_is(app, "Ready", "True", "AllUpdated").await;
        }
        for eyes in &eyes {
            assert_eq!(eyes.seen().await.counts(), (1, 3));
        }
        let mut pods: Vec<Pod> = lab.labelled("app=db").await.into_values().collect();
        assert!(pods.iter().all(|pod| !before.contains(&pod.uid().unwrap())));
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
        // Each waits for the one before it, so that the highest is the oldest now; within a second the order is
        // unknown.
        let ages: Vec<_> =
            lab.labelled("app=db").await.into_values().map(|pod| pod.metadata.creation_timestamp).collect();
        assert!(ages[2] <= ages[1] && ages[1] <= ages[0], "{ages:?}");
        lab.end().await;
    });
}

/// A ReplicaSet whose controller is of an unknown kind.
fn foreign(lab: &Lab<'_>, owner: &str) {
    lab.workload("ReplicaSet", "foreign", &json!({ "replicas": 3 }));
    let reference = json!([{ "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "r", "uid": owner,
        "controller": true }]);
    let patch = json!({ "metadata": { "ownerReferences": reference } }).to_string();
    lab.cluster.kubectl(&["-n", &lab.name, "patch", "replicaset", "foreign", "--type=merge", "-p", &patch]);
}

#[test]
fn a_replicaset_of_a_foreign_kind_restarts_and_unowned_pods_stay() {
    olm_tests::run(async {
        let lab = lab("cw-foreign").await;
        // The garbage collector removes what an owner that is not there owns: the test plays one.
        let owner = lab.watchers().get("watcher").await.unwrap().uid().unwrap();
        foreign(&lab, &owner);
        let lone = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "lone", "namespace": lab.name, "labels": { "app": "webapp" } },
            "spec": { "nodeSelector": { "lab": lab.name }, "containers": [{ "name": "c", "image": "webapp:1" }] } });
        lab.cluster.apply(&lone.to_string());
        lab.watcher_named("foreign", &json!({ "podSelector": { "app": "foreign" } }));
        lab.watcher_shows("watcher", "the lone Pod is skipped, and named", |status| {
            let pods = status.pods.clone().unwrap_or_default();
            pods.skipped == 1 && pods.examples["skipped"][0].contains("lone (it has no controller")
        })
        .await;
        next_second().await;
        let uid = lab.labelled("app=webapp").await["lone"].uid();
        let eyes = Eyes::on_replicas(&lab, "app=foreign", 3).await;
        lab.message("two");
        lab.all_say("foreign", "two", 3, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 3));
        assert_eq!(lab.labelled("app=webapp").await["lone"].uid(), uid);
        lab.end().await;
    });
}

#[test]
fn who_rolls_out_itself_is_waited_for_and_a_paused_deployment_is_named() {
    olm_tests::run(async {
        let lab = lab("cw-rolling").await;
        // Paused with Pods of two templates, as a user leaves one to look at the first few.
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
            Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let edit = async |patch: Value| {
            deployments.patch("webapp", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        };
        lab.behave(|b| b.ready_after = std::time::Duration::from_secs(2));
        edit(json!({ "spec": { "template": { "metadata": { "annotations": { "v": "2" } } } } })).await;
        olm_tests::eventually("Pods of two templates", SOON, || async {
            let pods = lab.labelled("app=webapp").await;
            let hashes: BTreeSet<_> = pods.values().map(|pod| pod.labels()["pod-template-hash"].clone()).collect();
            if hashes.len() == 2 { Ok(()) } else { Err("one".to_owned()) }
        })
        .await;
        edit(json!({ "spec": { "paused": true } })).await;
        next_second().await;
        lab.message("two");
        let said = lab.watcher_is("watcher", "Ready", "False", "Blocked").await;
        assert!(said.contains("Deployment webapp: it is rolling out") && said.contains("resume"), "{said}");
        edit(json!({ "spec": { "paused": false } })).await;
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn two_watchers_that_share_a_pod_replace_it_once_and_hold_the_smaller_budget() {
    olm_tests::run(async {
        let lab = lab("cw-two").await;
        lab.config("second", &json!({ "a": "1" }));
        lab.watcher_named("second", &json!({ "configMap": "second", "rollout": { "maxUnavailable": "100%" } }));
        lab.watcher_is("second", "Ready", "True", "AllUpdated").await;
        next_second().await;
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        lab.config("second", &json!({ "a": "2" }));
        lab.all_say("webapp", "two", 4, LONG).await;
        for name in ["watcher", "second"] {
            lab.watcher_shows(name, "nothing is pending", |status| {
                status.pending.is_none() && status.rollout.as_ref().is_some_and(|r| r.finished_at.is_some())
            })
            .await;
        }
        assert_eq!(eyes.seen().await.counts(), (1, 4));
        assert!(lab.labelled("app=webapp").await.values().all(is_ready));
        lab.watchers().delete("second", &DeleteParams::default()).await.unwrap();
        lab.end().await;
    });
}
