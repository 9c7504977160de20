//! Rights as Kubernetes writes them, from the package's table.
//!
//! Here so that manifests, bundle and the installer's role cannot disagree. Must not contain a right of its own, but
//! what people may do with our kinds and what agents need on OpenShift.

use serde_json::{Value, json};

use crate::api::package::{Package, Where};

/// What people may do with our kinds: role, verbs, and the default role that gets it by aggregation.
///
/// Only reading is aggregated: a user who writes OneAgents is root on nodes, so that is granted by hand.
pub const USERS: &[(&str, &[&str], Option<&str>)] = &[
    ("view", &["get", "list", "watch"], Some("rbac.authorization.k8s.io/aggregate-to-view")),
    ("edit", &["get", "list", "watch", "create", "update", "patch", "delete"], None),
    ("admin", &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"], None),
];

/// The rules of a place as Kubernetes writes them.
#[must_use]
pub fn rules(package: &Package, scope: Where) -> Vec<Value> {
    // What an operator needs on OpenShift to run on the network of its node.
    let own = package.host_port.filter(|_| scope == Where::Cluster).map(|_| scc(HOST_NETWORK));
    let all = package
        .rules
        .iter()
        .filter(|rule| rule.scope == scope)
        .map(|rule| {
            let mut value = json!({ "apiGroups": [rule.group], "resources": [rule.resource], "verbs": rule.verbs });
            if let Some(name) = rule.name {
                value["resourceNames"] = json!([name]);
            }
            value
        })
        .chain(own);
    all.collect()
}

/// The SCC of a Pod on the network of its node that may do nothing else.
pub(super) const HOST_NETWORK: &str = "hostnetwork-v2";
/// The SCC of agents.
pub(super) const PRIVILEGED: &str = "privileged";

/// What agents need on OpenShift, and all they need.
pub(super) fn scc(name: &str) -> Value {
    json!({ "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
        "resourceNames": [name], "verbs": ["use"] })
}
