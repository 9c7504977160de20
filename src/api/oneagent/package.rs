//! The package of kind OneAgent.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::OneAgent;
use super::samples::SAMPLES;
use crate::api::package::{Kind, Package, Rule, Texts, Where, rule};

const NAME: &str = "oneagent-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    namespace: "dynatrace",
    since: "0.1.0",
    kinds: &[Kind {
        name: "OneAgent",
        plural: "oneagents",
        group: "dynatrace.com",
        crd: OneAgent::crd,
        resources: &[("DaemonSet", "v1"), ("Pod", "v1"), ("Secret", "v1"), ("ConfigMap", "v1")],
    }],
    run: &["run"],
    is_proxy_aware: true,
    rules: RULES,
    accounts: &["dynatrace-oneagent", "dynatrace-oneagent-unprivileged"],
    image_variable: Some("RELATED_IMAGE_DYNATRACE_ONEAGENT"),
    samples: SAMPLES,
    companions: &[],
    texts: Texts {
        title: "OneAgent Operator",
        sentence: "Keeps a monitoring agent on the right nodes, at the right version, and can always say why.",
        description: include_str!("description.md"),
        uninstall: "Delete the OneAgents first if their agents shall go: their DaemonSets go with them. Agents of \
            OneAgents that are left keep running, but new ones cannot start once the ServiceAccounts of this operator \
            are gone. What agents installed on hosts stays there: run the vendor's uninstall script on each host.",
        keywords: &["monitoring", "observability", "agent", "oneagent", "daemonset"],
        categories: "Monitoring,Observability",
        capabilities: "Deep Insights",
        widgets: WIDGETS,
        plain: &["apiUrl", "tokens", "nodeSelector", "tolerations", "update", "rollout"],
        groups: &["proxy", "update", "rollout"],
    },
};

const ISTIO: &str = "let traffic to the environment pass in a mesh, where enableIstio asks for it; inert without Istio";

/// Every right, with the reason it is there for. None that nothing uses:
/// `every_right_is_used_and_no_other_is_asked_for` (olm-tests, `secure`) holds it by a real API server's audit log.
const RULES: &[Rule] = &[
    rule(
        Where::Watched,
        "dynatrace.com",
        "oneagents",
        &["list", "watch"],
        "follow the OneAgents; their spec is never written",
    ),
    rule(Where::Watched, "dynatrace.com", "oneagents/status", &["patch"], "say what was found"),
    Rule {
        consulted: &["create", "delete"],
        ..rule(
            Where::Watched,
            "apps",
            "daemonsets",
            &["get", "list", "watch", "create", "patch", "delete"],
            "one DaemonSet per OneAgent; delete is never used, but OwnerReferencesPermissionEnforcement asks for it \
            when a DaemonSet is adopted",
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
            "read the tokens, proxies and pull secrets that OneAgents name, by name only; write the pull secret of an \
            environment's registry",
        )
    },
    Rule {
        consulted: &["create"],
        ..rule(Where::Watched, "networking.istio.io", "serviceentries", &["list", "create", "patch", "delete"], ISTIO)
    },
    Rule {
        consulted: &["create"],
        ..rule(Where::Watched, "networking.istio.io", "virtualservices", &["list", "create", "patch", "delete"], ISTIO)
    },
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "",
            "configmaps",
            &["list", "watch", "create", "patch"],
            "read the certificates that OneAgents name, by name only; note the nodes that have an agent, to notice \
            when one is gone",
        )
    },
    rule(Where::Watched, "", "namespaces", &["get"], "say which nodes the namespace itself keeps agents off"),
    rule(
        Where::Watched,
        "",
        "events",
        &["create", "list"],
        "tell about every transition, and learn why the API server refuses Pods",
    ),
    Rule {
        name: Some(NAME),
        ..rule(Where::Own, "", "configmaps", &["list", "watch"], "see the stop for the whole cluster")
    },
    rule(
        Where::Own,
        "coordination.k8s.io",
        "leases",
        &["create", "get", "list", "update", "watch"],
        "let one operator of several act",
    ),
    rule(Where::Cluster, "", "nodes", &["list", "watch"], "know where agents belong"),
    Rule {
        name: Some("kube-system"),
        ..rule(
            Where::Cluster,
            "",
            "namespaces",
            &["get"],
            "the agents carry the cluster's identity, which is this namespace's UID",
        )
    },
];

const WIDGETS: &[(&str, &str)] = &[
    ("apiUrl", "com.tectonic.ui:text"),
    ("tokens", "io.kubernetes:Secret"),
    ("skipCertCheck", "com.tectonic.ui:booleanSwitch"),
    ("enableIstio", "com.tectonic.ui:booleanSwitch"),
    ("proxy.valueFrom", "io.kubernetes:Secret"),
    ("trustedCAs", "io.kubernetes:ConfigMap"),
    ("useImmutableImage", "com.tectonic.ui:booleanSwitch"),
    ("waitReadySeconds", "com.tectonic.ui:number"),
    ("resources", "com.tectonic.ui:resourceRequirements"),
    ("customPullSecret", "io.kubernetes:Secret"),
    ("webhookInjection", "com.tectonic.ui:booleanSwitch"),
    ("disableAgentUpdate", "com.tectonic.ui:booleanSwitch"),
    ("serviceAccountName", "io.kubernetes:ServiceAccount"),
    ("useUnprivilegedMode", "com.tectonic.ui:booleanSwitch"),
    ("update.allowDowngrade", "com.tectonic.ui:booleanSwitch"),
    ("rollout.minReadySeconds", "com.tectonic.ui:number"),
    ("rollout.paused", "com.tectonic.ui:booleanSwitch"),
    ("conditions", "io.kubernetes.conditions"),
    ("phase", "io.kubernetes.phase"),
];
