//! The toy's package and CRD: what is written about a kind, apart from the kind.

use kube::CustomResourceExt;
use oneagent_operator::api::package::{self as api, Package, Texts, Where, rule, shown};
use serde_json::json;

use super::kind::Refresh;

/// Its row: another name on all that is written.
pub(super) static REFRESHES: Package = Package {
    docs: "docs/refreshes.md",
    name: "refresh-operator",
    namespace: "toys",
    since: "0.1.0",
    companions: &[],
    host_port: None,
    is_proxy_aware: false,
    kinds: &[api::Kind {
        name: "Refresh",
        plural: "refreshes",
        group: "toys.example",
        crd: Refresh::crd,
        resources: &[],
    }],
    run: &["run", "--kind", "refresh"],
    rules: &[rule(Where::Watched, "toys.example", "refreshes", &["list", "watch"], "know what to refresh")],
    reads: &[],
    accounts: &[],
    image_variable: None,
    own_image_variable: None,
    samples: &[],
    extras: &[],
    alerts: &[],
    panels: &[],
    texts: Texts {
        title: "Refresh Operator",
        sentence: "Replaces the Pods of a DaemonSet.",
        description: "Replaces the Pods of a DaemonSet.",
        uninstall: "Pods run on.",
        keywords: &[],
        categories: "Other",
        capabilities: "Basic Install",
        form: &[shown("revision", "Revision", &[])],
        page: &[],
        tour: &[],
    },
};

/// Its CRD, which lets through what the type does not.
pub(super) fn crd() -> String {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "refreshes.toys.example" },
        "spec": {
            "group": "toys.example", "scope": "Namespaced",
            "names": { "kind": "Refresh", "plural": "refreshes", "singular": "refresh" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object",
                "properties": { "spec": open, "status": open } } } }],
        },
    })
    .to_string()
}
