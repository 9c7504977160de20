//! What the original operator left is taken over, without one agent restarting.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use olm_tests::cluster::Cluster;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::original::{ORIGINAL, original};
use serde_json::{Value, json};

#[test]
fn a_daemonset_of_the_original_becomes_exactly_ours_and_no_agent_restarts_until_there_is_a_newer_version() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt", 12).await;
        original(&lab, 12).await;
        let before = lab.uids("agent").await;
        lab.start_operator(&[]).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(lab.uids("agent").await, before, "an agent was restarted by the adoption");

        let daemonset = lab.daemonset("agent").await.unwrap();
        let spec = daemonset.spec.clone().unwrap();
        assert_eq!(spec.update_strategy.unwrap().type_.as_deref(), Some("OnDelete"));
        assert!(!daemonset.labels().contains_key("by-hand"), "{:?}", daemonset.labels());
        assert!(!daemonset.annotations().keys().any(|k| k == "note" || k.starts_with("internal.")), "{:?}", daemonset.annotations().keys());
        let template = spec.template;
        assert!(!template.metadata.unwrap().labels.unwrap().contains_key("by-hand"));
        let container = template.spec.unwrap().containers.remove(0);
        assert!(!container.env.unwrap().iter().any(|e| e.name == "BY_HAND"));
        assert_eq!(container.resources.unwrap().limits, None);
        assert_eq!(container.args, None, "the operator's version is not in the template");
        assert_eq!(daemonset.owner_references()[0].block_owner_deletion, None);
        let managers: Vec<String> = daemonset.managed_fields().iter().filter(|f| f.subresource.is_none()).filter_map(|f| f.manager.clone()).collect();
        assert_eq!(managers, ["oneagent-operator"]);

        let gvk = ApiResource::from_gvk(&GroupVersionKind::gvk("dynatrace.com", "v1alpha1", "OneAgent"));
        let raw: DynamicObject = Api::namespaced_with(lab.cluster.client.clone(), &lab.name, &gvk).get("agent").await.unwrap();
        let status: &Value = &raw.data["status"];
        assert!(status["instances"].get("gone-node").is_none(), "{status:#}");
        assert!(status.get("imageHash").is_none() && status.get("lastAPITokenProbeTimestamp").is_none(), "{status:#}");
        assert_eq!(status["instances"].as_object().unwrap().len(), 12);

        // An operator that starts anew finds nothing to do.
        lab.operators.clear();
        let writes = |lab: &Lab<'_>| lab.requests().into_iter().filter(|r| r.writes() && r.resource != "leases").count();
        let written = writes(&lab);
        lab.start_operator(&[]).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(writes(&lab), written, "{:?}", lab.requests().iter().rev().take(5).collect::<Vec<_>>());

        // A newer version reaches every Pod, the original's too.
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 12, SOON).await;
        let after = lab.uids("agent").await;
        assert!(before.iter().all(|(node, uid)| after[node] != *uid));
        lab.end().await;
    });
}

#[test]
fn agents_whose_version_nobody_reports_are_left_alone_and_named() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-unknown", 2).await;
        original(&lab, 2).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.with(&lab.name, |e| e.hosts.clear());
        lab.start_operator(&[]).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let message = lab.condition("agent", "Ready", "False", "Outdated").await;
        assert!(message.contains("not known") && message.contains(&lab.nodes[0]), "{message}");
        assert_eq!(lab.uids("agent").await, before);
        // The next edit of the template reaches them.
        lab.edit("agent", json!({ "args": ["--set-host-group=x"] })).await;
        lab.all_at("agent", V2, 2, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_daemonset_of_somebody_else_is_left_alone() {
    olm_tests::run(async {
        let lab = Lab::new("adopt-foreign", 1).await;
        let foreign = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": lab.name },
            "spec": { "selector": { "matchLabels": { "app": "mine" } }, "template": { "metadata": { "labels": { "app": "mine" } }, "spec": { "nodeSelector": { "none": "such" }, "containers": [{ "name": "c", "image": "i" }] } } },
        });
        lab.cluster.apply(&foreign.to_string());
        let before = lab.daemonset("agent").await.unwrap();
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "Degraded", "True", "NameTaken").await;
        assert!(message.contains("left alone") && message.contains("rename"), "{message}");
        assert_eq!(lab.status("agent").await.phase.as_deref(), Some("Error"));
        let after = lab.daemonset("agent").await.unwrap();
        assert_eq!(
            (before.spec, before.metadata.labels, before.metadata.annotations),
            (after.spec, after.metadata.labels, after.metadata.annotations)
        );
        assert!(after.metadata.managed_fields.unwrap().iter().all(|f| f.manager.as_deref() != Some("oneagent-operator")));
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "daemonset", "agent"]);
        lab.edit("agent", json!({ "args": ["--go"] })).await;
        lab.all_at("agent", V1, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn while_the_original_operator_runs_nothing_is_touched() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-both", 1).await;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": ORIGINAL, "namespace": lab.name },
            "spec": { "selector": { "matchLabels": { "name": ORIGINAL } }, "template": { "metadata": { "labels": { "name": ORIGINAL } }, "spec": { "nodeSelector": { "none": "such" }, "containers": [{ "name": "c", "image": "i" }] } } },
        });
        lab.cluster.apply(&deployment.to_string());
        lab.start_operator(&[]).await;
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "Degraded", "True", "OtherOperatorRunning").await;
        assert!(message.contains("kubectl"), "{message}");
        assert!(lab.daemonset("agent").await.is_none());
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "deployment", ORIGINAL]);
        lab.all_at("agent", V1, 1, Duration::from_secs(60)).await;
        lab.end().await;
    });
}
