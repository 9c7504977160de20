//! What the original operator left behind: its DaemonSet, its status, its CSV.
//!
//! Here because several tests move from it. Must not run it: it is not available as a module.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::cluster::documents;
use crate::eventually;
use crate::lab::{Lab, SOON, V1, is_ready};

/// Name of its Deployment, ServiceAccount and field manager.
pub const ORIGINAL: &str = "dynatrace-oneagent-operator";

/// Puts what the original leaves into a lab's namespace, as the original did, and waits until its agents run.
pub async fn original(lab: &Lab<'_>, nodes: usize) {
    original_as(lab, nodes, &json!({}), |_, _| {}).await;
}

/// The same for a OneAgent with this spec; `change` makes of DaemonSet and status what the original made of it.
pub async fn original_as(lab: &Lab<'_>, nodes: usize, spec: &Value, change: impl Fn(&mut Value, &mut Value)) {
    // CRDs of the original's time keep what ours does not know: its status must be stored with all it had.
    lab.oneagent(spec);
    let agent = lab.agents().get("agent").await.expect("a OneAgent");
    let text = include_str!("original.yaml")
        .replace("@NAMESPACE@", &lab.name)
        .replace("@NAME@", "agent")
        .replace("@UID@", &agent.uid().expect("a UID"))
        .replace("@URL@", &lab.cluster.vendor.url(&lab.name))
        .replace("@LAB@", &lab.name)
        .replace("@VERSION@", V1);
    let mut documents = documents(&text);
    let (mut status, mut daemonset) = (documents.remove(1), documents.remove(0));
    change(&mut daemonset, &mut status);
    let manager = PostParams { field_manager: Some(ORIGINAL.into()), ..PostParams::default() };
    let api: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    api.create(&manager, &serde_json::from_value(daemonset).expect("a DaemonSet")).await.expect("a DaemonSet");
    let gvk = ApiResource::from_gvk(&GroupVersionKind::gvk("dynatrace.com", "v1alpha1", "OneAgent"));
    let agents: Api<DynamicObject> = Api::namespaced_with(lab.cluster.client.clone(), &lab.name, &gvk);
    let params = PatchParams { field_manager: Some(ORIGINAL.into()), ..PatchParams::default() };
    agents.patch_status("agent", &params, &Patch::Merge(json!({ "status": status }))).await.expect("a status");
    // What administrators did to it by hand.
    let edit = json!({
        "metadata": { "labels": { "by-hand": "yes" }, "annotations": { "note": "by hand" } },
        "spec": { "template": { "metadata": { "labels": { "by-hand": "yes" } },
        "spec": { "containers": [{ "name": "dynatrace-oneagent", "env": [{ "name": "BY_HAND", "value": "1" }],
        "resources": { "limits": { "memory": "2Gi" } } }] } } },
    });
    let params = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    api.patch("agent", &params, &Patch::Strategic(edit)).await.expect("an edit");
    eventually("the original's agents run", SOON, || async {
        let pods = lab.pods("agent").await;
        let by_hand = pods.values().filter(|p| is_ready(p) && p.labels().contains_key("by-hand")).count();
        if by_hand == nodes { Ok(()) } else { Err(format!("{by_hand}")) }
    })
    .await;
}

/// Its CRD as its first versions had it: no schema, everything is kept.
#[must_use]
pub fn crd() -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = json!({ "name": "v1alpha1", "served": true, "storage": true, "schema": schema,
        "subresources": { "status": {} } });
    let names =
        json!({ "kind": "OneAgent", "listKind": "OneAgentList", "plural": "oneagents", "singular": "oneagent" });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "oneagents.dynatrace.com" },
        "spec": { "group": "dynatrace.com", "scope": "Namespaced", "names": names, "versions": [version] },
    })
}

/// Name of its last CSV.
pub const CSV: &str = "dynatrace-monitoring.v0.10.0";

/// Its CSV in outline: names, ServiceAccounts and install modes are the original's; its image does nothing here.
#[must_use]
pub fn csv() -> Value {
    let rule = |group: &str, resource: &str, verbs: &[&str]| {
        json!({
        "apiGroups": [group], "resources": [resource], "verbs": verbs })
    };
    let labels = json!({ "name": ORIGINAL });
    let template = json!({ "metadata": { "labels": labels },
        "spec": { "serviceAccountName": ORIGINAL, "containers": [{ "name": ORIGINAL, "image": "original" }] } });
    let scc = json!({ "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged", "host"], "verbs": ["use"] });
    let agent = |account: &str| json!({ "serviceAccountName": account, "rules": [scc] });
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": { "name": CSV },
        "spec": {
            "displayName": "Dynatrace OneAgent", "version": "0.10.0", "maturity": "alpha",
            "customresourcedefinitions": { "owned": [{ "name": "oneagents.dynatrace.com", "version": "v1alpha1",
            "kind": "OneAgent", "displayName": "Dynatrace OneAgent", "description": "-" }] },
            "installModes": [
                { "type": "OwnNamespace", "supported": true }, { "type": "SingleNamespace", "supported": false },
                { "type": "MultiNamespace", "supported": false }, { "type": "AllNamespaces", "supported": false },
            ],
            "install": { "strategy": "deployment", "spec": {
                "permissions": [{ "serviceAccountName": ORIGINAL,
                "rules": [rule("dynatrace.com", "oneagents", &["get", "list", "watch", "update"])] }],
                "clusterPermissions": [agent("dynatrace-oneagent"), agent("dynatrace-oneagent-unprivileged")],
                "deployments": [{ "name": ORIGINAL,
                "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": template } }],
            } },
        },
    })
}
