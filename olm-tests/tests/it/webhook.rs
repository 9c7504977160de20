//! Admission webhooks of others, and what comes in between when ours is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::webhook::Webhook;
use serde_json::{Value, json};

const RECORD: &str = "oneagent.dynatrace.com/record";

/// What no writer of ours ever sends: another strategy, whose parameters stay behind when only the type is put back.
fn rolling() -> Value {
    json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })
}

#[test]
fn an_edit_that_comes_in_while_ours_is_written_is_put_back() {
    olm_tests::run(async {
        let lab = Lab::new("between", 3).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        // The API server does our apply again over what was written while the webhook was asked.
        let came = Arc::new(AtomicBool::new(false));
        let (other, mark) = (daemonsets.clone(), came.clone());
        let webhook = Webhook::of_daemonsets(&lab.cluster.client, &lab.name, move |request| {
            let first = request["options"]["fieldManager"] == "oneagent-operator" && !mark.swap(true, Ordering::SeqCst);
            let other = other.clone();
            async move {
                if first {
                    let params = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
                    other.patch("agent", &params, &Patch::Strategic(rolling())).await.expect("an edit");
                }
                Vec::new()
            }
        })
        .await;
        // One write of ours, and no other after it: an annotation that is put back.
        let gone = json!({ "metadata": { "annotations": { RECORD: null } } });
        daemonsets.patch("agent", &PatchParams::default(), &Patch::Merge(gone)).await.unwrap();
        eventually("the edit is put back", SOON, || async {
            let now = daemonsets.get("agent").await.unwrap();
            let strategy = now.spec.clone().unwrap().update_strategy.unwrap_or_default();
            let ours = strategy.type_.as_deref() == Some("OnDelete") && strategy.rolling_update.is_none();
            if ours && now.annotations().contains_key(RECORD) && came.load(Ordering::SeqCst) {
                Ok(())
            } else {
                let owners = serde_json::to_string(&now.metadata.managed_fields).unwrap();
                Err(format!("{strategy:?}, owned by {owners}"))
            }
        })
        .await;
        lab.all_at("agent", V1, 3, SOON).await;
        webhook.end().await;
        lab.end().await;
    });
}

/// A hand-over and the apply after it are two requests: what a crash or a conflict between them leaves is ours by name,
/// and not desired.
#[test]
fn what_was_taken_over_and_never_removed_is_removed() {
    olm_tests::run(async {
        let mut lab = Lab::new("halfway", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        lab.is_noted("agent").await;
        lab.operators.clear();
        let theirs = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
        daemonsets.patch("agent", &theirs, &Patch::Strategic(rolling())).await.unwrap();
        // Put back by our apply, except its parameters; those were handed over.
        let ours = json!([{ "op": "replace", "path": "/spec/updateStrategy/type", "value": "OnDelete" }]);
        let ours: Patch<()> = Patch::Json(serde_json::from_value(ours).unwrap());
        let live = daemonsets.patch("agent", &theirs, &ours).await.unwrap();
        let mut fields = serde_json::to_value(live.metadata.managed_fields).unwrap();
        let entries = fields.as_array_mut().unwrap();
        let edit = entries.iter().position(|entry| entry["manager"] == "kubectl-edit").expect("an edit");
        let edit = entries.remove(edit)["fieldsV1"]["f:spec"]["f:updateStrategy"]["f:rollingUpdate"].clone();
        let apply = entries.iter_mut().find(|entry| entry["operation"] == "Apply").unwrap();
        apply["fieldsV1"]["f:spec"]["f:updateStrategy"] = json!({ "f:type": {}, "f:rollingUpdate": edit });
        let handed = json!([{ "op": "replace", "path": "/metadata/managedFields", "value": fields }]);
        let handed: Patch<()> = Patch::Json(serde_json::from_value(handed).unwrap());
        let halfway = daemonsets.patch("agent", &theirs, &handed).await.unwrap();
        assert!(halfway.spec.unwrap().update_strategy.unwrap().rolling_update.is_some(), "the test does nothing");
        lab.start_operator(&[]).await;
        eventually("what is left is removed", SOON, || async {
            let strategy = daemonsets.get("agent").await.unwrap().spec.unwrap().update_strategy.unwrap_or_default();
            if strategy.rolling_update.is_none() { Ok(()) } else { Err(format!("{strategy:?}")) }
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn what_a_webhook_makes_of_the_daemonset_is_left_and_replaces_no_agent() {
    olm_tests::run(async {
        let mut lab = Lab::new("mutated", 3).await;
        let webhook = Webhook::of_daemonsets(&lab.cluster.client, &lab.name, |request| {
            let image = "/spec/template/spec/containers/0/image";
            let now = request["object"].pointer(image).and_then(Value::as_str).unwrap_or_default().to_owned();
            let patch = (!now.starts_with("mirror.example/"))
                .then(|| json!({ "op": "replace", "path": image, "value": format!("mirror.example/{now}") }));
            async move { patch.into_iter().collect() }
        })
        .await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let image = async || {
            lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap().containers[0]
                .image
                .clone()
                .unwrap()
        };
        assert!(image().await.starts_with("mirror.example/"));
        is_quiet(&lab).await;

        // Another client owns a part of the template too, without changing it.
        let agents = lab.uids("agent").await;
        let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let same = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
            "spec": { "template": { "spec": { "containers": [{ "name": "dynatrace-oneagent",
            "image": image().await }] } } } });
        daemonsets.patch("agent", &PatchParams::apply("tool"), &Patch::Apply(same)).await.unwrap();
        is_quiet(&lab).await;
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.is_polled().await;
        is_quiet(&lab).await;
        assert_eq!(lab.uids("agent").await, agents, "no agent was replaced for what nobody changed");
        let events = lab.events("agent").await;
        assert!(!events.iter().any(|e| e.contains("DaemonSetEdited")), "{events:?}");

        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 3, SOON).await;
        webhook.end().await;
        lab.end().await;
    });
}

/// Waits until the DaemonSet is not written for a while.
async fn is_quiet(lab: &Lab<'_>) {
    let writes = || lab.requests().iter().filter(|r| r.writes() && r.resource == "daemonsets").count();
    eventually("the DaemonSet is left alone", SOON, || async {
        let before = writes();
        tokio::time::sleep(Duration::from_secs(4)).await;
        if writes() == before { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}
