//! ConfigWatcher: a changed ConfigMap reaches its Pods, safely.
//!
//! The test's own watch sees deletions and creations; what the operator says of it is tried apart from that.

mod basics;
mod blocked;
mod everywhere;
mod held;
mod hostile;
mod restarts;
mod slow;
mod web;
mod workloads;
mod world;

use std::time::Duration;

use olm_tests::eyes::Eyes;
use olm_tests::lab::{Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

/// A corner with a Deployment of four Pods that say `one`, and a watcher that has seen them.
pub async fn lab(name: &str) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    webapp(&lab).await;
    lab
}

/// The same in a corner that is there.
pub(super) async fn webapp(lab: &Lab<'_>) {
    lab.message("one");
    lab.workload("Deployment", "webapp", &json!({}));
    lab.watcher(&json!({}));
    lab.all_say("webapp", "one", 4, SOON).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    next_second().await;
}

/// Waits until one Pod of `webapp` was replaced.
pub(super) async fn one_is_gone(eyes: &Eyes) {
    olm_tests::eventually("the first is gone", SOON, || async {
        if eyes.so_far().deletions.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
}

/// Has the API server refuse evictions here for which a CEL expression does not hold, among them the one of `pod`.
pub(super) async fn forbid_evictions(lab: &Lab<'_>, expression: &str, pod: &str) {
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"],
        "resources": ["pods/eviction"] }]);
    let only_here = json!({ "matchLabels": { "kubernetes.io/metadata.name": lab.name } });
    let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": lab.name },
        "spec": { "matchConstraints": { "namespaceSelector": only_here, "resourceRules": rules },
            "validations": [{ "expression": expression, "message": "no evictions at night" }] } });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": lab.name },
        "spec": { "policyName": lab.name, "validationActions": ["Deny"] } });
    lab.cluster.apply(&format!("{policy}\n---\n{binding}"));
    // The API server takes a moment to enforce a policy.
    let dry = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": { "dryRun": ["All"] },
        "metadata": { "name": pod, "namespace": lab.name } })
    .to_string();
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction?dryRun=All", lab.name);
    olm_tests::eventually("evictions are refused", SOON, || async {
        match lab.cluster.try_kubectl(&["create", "--raw", &path, "-f", "-"], Some(&dry)) {
            Err(why) if why.contains("no evictions at night") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Ends that.
pub(super) fn allow_evictions(lab: &Lab<'_>) {
    let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    lab.cluster.kubectl(&["delete", kinds, &lab.name]);
}

/// The API's times are whole seconds: what comes after this is later than what was before.
pub async fn next_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}
