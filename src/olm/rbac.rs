//! The rights of the operator, in one table: every rule with the reason it is there for.
//!
//! Here so that manifests, bundle and the installer's role cannot disagree. Must not contain a right that nothing uses:
//! `every_right_is_used_and_no_other_is_asked_for` (olm-tests, `secure`) holds it by a real API server's audit log, and
//! `own_namespace_a_user_with_few_rights_subscribes_and_has_agents` (`install`) asks for the agents' `use` of the SCC.

use serde_json::{Value, json};

/// Where a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In every namespace that is watched.
    Watched,
    /// In the operator's own namespace.
    Own,
    /// In the whole cluster.
    Cluster,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Where.
    pub scope: Where,
    /// API group.
    pub group: &'static str,
    /// Resource, with its subresource.
    pub resource: &'static str,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Only this object.
    pub name: Option<&'static str>,
    /// What it is for.
    pub why: &'static str,
    /// Verbs that the API server asks about while it serves another (an apply that creates is a patch that needs create;
    /// admission asks for delete when owner references change): no request of ours shows them.
    pub consulted: &'static [&'static str],
}

const fn rule(scope: Where, group: &'static str, resource: &'static str, verbs: &'static [&'static str], why: &'static str) -> Rule {
    Rule { scope, group, resource, verbs, name: None, why, consulted: &[] }
}

const ISTIO: &str = "let traffic to the environment pass in a mesh, where enableIstio asks for it; inert without Istio";

/// All of them.
pub const RULES: &[Rule] = &[
    rule(Where::Watched, "dynatrace.com", "oneagents", &["list", "watch"], "follow the OneAgents; their spec is never written"),
    rule(Where::Watched, "dynatrace.com", "oneagents/status", &["patch"], "say what was found"),
    Rule {
        consulted: &["create", "delete"],
        ..rule(
            Where::Watched,
            "apps",
            "daemonsets",
            &["get", "list", "watch", "create", "patch", "delete"],
            "one DaemonSet per OneAgent; delete is never used, but OwnerReferencesPermissionEnforcement asks for it when a DaemonSet is adopted",
        )
    },
    Rule {
        name: Some("dynatrace-oneagent-operator"),
        ..rule(Where::Watched, "apps", "deployments", &["get"], "touch nothing while the original operator runs")
    },
    rule(Where::Watched, "", "pods", &["list", "watch", "delete"], "see the agents, and replace them"),
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "",
            "secrets",
            &["list", "watch", "create", "patch"],
            "read the tokens, proxies and pull secrets that OneAgents name, by name only; write the pull secret of an environment's registry",
        )
    },
    Rule { consulted: &["create"], ..rule(Where::Watched, "networking.istio.io", "serviceentries", &["list", "create", "patch", "delete"], ISTIO) },
    Rule { consulted: &["create"], ..rule(Where::Watched, "networking.istio.io", "virtualservices", &["list", "create", "patch", "delete"], ISTIO) },
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "",
            "configmaps",
            &["list", "watch", "create", "patch"],
            "read the certificates that OneAgents name, by name only; note the nodes that have an agent, to notice when one is gone",
        )
    },
    rule(Where::Watched, "", "namespaces", &["get"], "say which nodes the namespace itself keeps agents off"),
    rule(Where::Watched, "", "events", &["create", "list"], "tell about every transition, and learn why the API server refuses Pods"),
    Rule { name: Some("oneagent-operator"), ..rule(Where::Own, "", "configmaps", &["list", "watch"], "see the stop for the whole cluster") },
    rule(Where::Own, "coordination.k8s.io", "leases", &["create", "get", "list", "update", "watch"], "let one operator of several act"),
    rule(Where::Cluster, "", "nodes", &["list", "watch"], "know where agents belong"),
    Rule {
        name: Some("kube-system"),
        ..rule(Where::Cluster, "", "namespaces", &["get"], "the agents carry the cluster's identity, which is this namespace's UID")
    },
];

/// What people may do with our kinds: role, verbs, and the default role that gets it by aggregation.
///
/// Only reading is aggregated: who writes OneAgents is root on nodes, so that is granted by hand.
pub const USERS: &[(&str, &[&str], Option<&str>)] = &[
    ("view", &["get", "list", "watch"], Some("rbac.authorization.k8s.io/aggregate-to-view")),
    ("edit", &["get", "list", "watch", "create", "update", "patch", "delete"], None),
    ("admin", &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"], None),
];

/// The rules of a place as Kubernetes writes them.
#[must_use]
pub fn rules(scope: Where) -> Vec<Value> {
    RULES
        .iter()
        .filter(|rule| rule.scope == scope)
        .map(|rule| {
            let mut value = json!({ "apiGroups": [rule.group], "resources": [rule.resource], "verbs": rule.verbs });
            if let Some(name) = rule.name {
                value["resourceNames"] = json!([name]);
            }
            value
        })
        .collect()
}

/// What agents need on OpenShift, and all they need.
pub(super) fn scc() -> Value {
    json!({ "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"], "resourceNames": ["privileged"], "verbs": ["use"] })
}
