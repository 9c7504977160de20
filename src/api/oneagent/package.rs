//! The package of kind OneAgent.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::OneAgent;
use super::samples::SAMPLES;
use crate::api::package::{Alert, Kind, Package, Rule, Shown, Texts, Where, advanced, rule, shown};

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
    alerts: ALERTS,
    texts: Texts {
        title: "OneAgent Operator",
        sentence: "Keeps a monitoring agent on the right nodes, at the right version, and can always say why.",
        description: include_str!("description.md"),
        uninstall: "Delete the OneAgents first if their agents shall go: their DaemonSets go with them. Agents of \
            OneAgents that are left keep running, but new ones cannot start once the ServiceAccounts of this operator \
            are gone. What agents installed on hosts stays there: run the vendor's uninstall script on each host.",
        keywords: &["monitoring", "observability", "agent", "oneagent", "daemonset"],
        categories: "Monitoring,Logging & Tracing",
        capabilities: "Full Lifecycle",
        form: FORM,
        page: PAGE,
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

const ALERTS: &[Alert] = &[
    Alert {
        name: "OneAgentRolloutFailed",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"RolloutFailed\"}) == 1",
        lasts: "5m",
        summary: "The rollout of OneAgent {{ $labels.namespace }}/{{ $labels.name }} failed and was stopped.",
    },
    Alert {
        name: "OneAgentEnvironmentUnreachable",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"EnvironmentUnreachable\"}) == 1",
        lasts: "2h",
        summary: "The environment of OneAgent {{ $labels.namespace }}/{{ $labels.name }} cannot be used for two hours: \
            nothing is updated, and agents that restart may not start.",
    },
    Alert {
        name: "OneAgentNodesWithoutAgent",
        expr: "sum by (namespace, name) \
            (oneagent_nodes{state=~\"capacity|admission|image|config|crash|overdue\"}) > 0",
        lasts: "30m",
        summary: "{{ $value }} nodes of OneAgent {{ $labels.namespace }}/{{ $labels.name }} have no agent, and it will \
            not come by itself.",
    },
    Alert {
        name: "OneAgentPodsRefused",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"PodsRefused\"}) == 1",
        lasts: "15m",
        summary: "The API server refuses the Pods of OneAgent {{ $labels.namespace }}/{{ $labels.name }}.",
    },
    Alert {
        name: "OneAgentNeedsAttention",
        expr: "max by (namespace, name, reason) (oneagent_condition{condition=\"Degraded\",status=\"True\",\
            reason!~\"RolloutFailed|EnvironmentUnreachable|PodsRefused\"}) == 1",
        lasts: "1h",
        summary: "OneAgent {{ $labels.namespace }}/{{ $labels.name }} needs a human: {{ $labels.reason }}.",
    },
    Alert {
        name: "OneAgentOperatorAway",
        expr: "absent(oneagent_leader == 1)",
        lasts: "15m",
        summary: "No OneAgent Operator acts: agents run on, but none is updated or replaced.",
    },
];

const SWITCH: &[&str] = &["com.tectonic.ui:booleanSwitch"];
const NUMBER: &[&str] = &["com.tectonic.ui:number"];
const SECRET: &[&str] = &["io.kubernetes:Secret"];

const FORM: &[Shown] = &[
    shown("apiUrl", "API URL", &["com.tectonic.ui:text"]),
    shown("tokens", "Secret with the tokens", SECRET),
    shown("nodeSelector", "Node selector", &["com.tectonic.ui:selector:core:v1:Node"]),
    shown("tolerations", "Tolerations", &[]),
    shown("rollout", "Rollout", &[]),
    shown(
        "rollout.maxUnavailable",
        "Nodes without an available agent, at most",
        &[
            "com.tectonic.ui:select:1%",
            "com.tectonic.ui:select:5%",
            "com.tectonic.ui:select:10%",
            "com.tectonic.ui:select:20%",
        ],
    ),
    shown("rollout.minReadySeconds", "Seconds that a new agent must stay ready", NUMBER),
    shown("rollout.paused", "Paused", SWITCH),
    shown("waitReadySeconds", "Seconds within which a new agent must be ready", NUMBER),
    shown("update", "Update", &[]),
    shown("update.version", "Exactly this version", &[]),
    shown("update.allowDowngrade", "Allow a downgrade", SWITCH),
    advanced("disableAgentUpdate", "Keep running agents at their version", SWITCH),
    advanced("networkZone", "Network zone", &[]),
    advanced("proxy", "Proxy", &[]),
    shown("proxy.valueFrom", "Secret with the proxy's URL", SECRET),
    shown("proxy.value", "Proxy URL", &[]),
    shown("proxy.noProxy", "No proxy for", &[]),
    advanced("trustedCAs", "ConfigMap with trusted CAs", &["io.kubernetes:ConfigMap"]),
    advanced("skipCertCheck", "Skip the check of certificates", SWITCH),
    advanced("enableIstio", "Let traffic through Istio", SWITCH),
    advanced("useImmutableImage", "Run the agent from its image", SWITCH),
    advanced("image", "Image", &[]),
    advanced("customPullSecret", "Pull secret", SECRET),
    advanced("agentVersion", "Agent version", &[]),
    advanced("resources", "Resources", &["com.tectonic.ui:resourceRequirements"]),
    advanced("env", "Environment variables", &[]),
    advanced("args", "Arguments", &[]),
    advanced("affinity", "Affinity", &[]),
    shown("affinity.nodeAffinity", "Node affinity", &["com.tectonic.ui:nodeAffinity"]),
    advanced("priorityClassName", "Priority class", &[]),
    advanced("dnsPolicy", "DNS policy", &[]),
    advanced("labels", "Labels of the Pods", &[]),
    advanced("annotations", "Annotations of the Pods", &[]),
    advanced("serviceAccountName", "ServiceAccount", &["io.kubernetes:ServiceAccount"]),
    advanced("useUnprivilegedMode", "Unprivileged mode", SWITCH),
    advanced("webhookInjection", "Injection by a webhook", SWITCH),
];

const PAGE: &[Shown] = &[
    shown("phase", "Phase", &["io.kubernetes.phase"]),
    shown("version", "Version", &[]),
    shown("desiredVersion", "Desired version", &[]),
    shown("nodes.progress", "Nodes with the desired agent", &[]),
    shown("nodes.selected", "Selected nodes", &[]),
    shown("nodes.running", "Nodes with an agent", &[]),
    shown("nodes.untolerated", "Nodes with a taint that is not tolerated", &[]),
    shown("rollout.state", "Rollout", &[]),
    shown("rollout.startedAt", "Rollout began", &[]),
    shown("rollout.finishedAt", "Rollout ended", &[]),
    shown("rollout.failure.message", "Why the rollout failed", &[]),
    shown("lastGoodVersion", "Last good version", &[]),
    shown("versionSource", "Source of the version", &[]),
    shown("environmentID", "Environment", &[]),
    shown("conditions", "Conditions", &["io.kubernetes.conditions"]),
];
