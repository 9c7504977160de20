//! What it is for: an edit reaches every Pod once, one at a time; and which Pods it does not concern.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::LONG;
use serde_json::json;

use super::lab;

#[test]
fn an_edit_reaches_every_pod_once_and_one_at_a_time() {
    olm_tests::run(async {
        let lab = lab("cw-edit").await;
        // One label of two is not enough.
        lab.workload("Deployment", "other", &json!({}));
        lab.all_say("other", "one", 4, LONG).await;
        let (before, others) = (lab.uids_of("webapp").await, lab.uids_of("other").await);
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        let status = lab.watcher_status("watcher").await;
        lab.message("two");
        lab.all_say("webapp", "two", 4, LONG).await;
        lab.is_applied("watcher", &status).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4), "one at a time, each once");
        assert!(lab.uids_of("webapp").await.is_disjoint(&before));
        assert_eq!(lab.uids_of("other").await, others);
        lab.end().await;
    });
}

#[test]
fn what_changes_no_data_or_is_undone_restarts_no_pod() {
    olm_tests::run(async {
        let lab = lab("cw-same").await;
        let before = lab.uids_of("webapp").await;
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        let api: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } } }));
        api.patch("config", &PatchParams::default(), &label).await.unwrap();
        // Long enough for a machine that has other work too.
        lab.edit_watcher(json!({ "debounceSeconds": 20 })).await;
        lab.message("two");
        lab.watcher_is("watcher", "Ready", "False", "Debouncing").await;
        lab.message("one");
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        // Gone and created again alike.
        api.delete("config", &DeleteParams::default()).await.unwrap();
        lab.watcher_is("watcher", "Degraded", "True", "ConfigMapNotFound").await;
        lab.message("one");
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.deletions.len(), 0);
        assert_eq!(lab.uids_of("webapp").await, before);
        // Gone and created again otherwise; ten edits in a row are one.
        lab.edit_watcher(json!({ "debounceSeconds": 5 })).await;
        api.delete("config", &DeleteParams::default()).await.unwrap();
        for number in 0..10 {
            lab.message(&number.to_string());
        }
        lab.all_say("webapp", "9", 4, LONG).await;
        assert_eq!(eyes.seen().await.deletions.len(), 4);
        lab.end().await;
    });
}

#[test]
fn another_configmap_is_a_baseline_and_one_that_is_not_there_is_said() {
    olm_tests::run(async {
        let mut lab = lab("cw-renamed").await;
        lab.config("other", &json!({ "message": "other" }));
        // After a start nothing has changed yet.
        lab.operators.clear();
        lab.start_operator(&[]).await;
        let before = lab.uids_of("webapp").await;
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        let first = lab.watcher_status("watcher").await;
        lab.edit_watcher(json!({ "configMap": "other" })).await;
        lab.is_applied("watcher", &first).await;
        lab.cluster.kubectl(&["-n", &lab.name, "label", "configmap", "other", "touched=yes"]);
        lab.edit_watcher(json!({ "configMap": "nowhere" })).await;
        lab.watcher_is("watcher", "Degraded", "True", "ConfigMapNotFound").await;
        lab.edit_watcher(json!({ "configMap": "other" })).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.deletions.len(), 0);
        assert_eq!(lab.uids_of("webapp").await, before);
        // What is deleted was never edited since the start.
        let api: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        api.delete("other", &DeleteParams::default()).await.unwrap();
        lab.watcher_is("watcher", "Degraded", "True", "ConfigMapNotFound").await;
        lab.end().await;
    });
}
