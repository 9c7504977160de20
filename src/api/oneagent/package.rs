//! The package of kind OneAgent.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::OneAgent;
use super::form::{FORM, PAGE};
use super::samples::SAMPLES;
use crate::api::package::{Alert, Kind, Package, Panel, Rule, Sample, Step, Texts, Where, rivals_lease, rule};

const NAME: &str = "oneagent-operator";

/// File of the role of a person who may steer rollouts and do nothing else.
pub const STEER: &str = "steer.yaml";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    docs: "docs/oneagent.md",
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
    host_port: None,
    is_proxy_aware: true,
    rules: RULES,
    reads: &[
        ("", &["nodes", "pods", "events", "namespaces"]),
        ("apps", &["daemonsets", "deployments"]),
        ("coordination.k8s.io", &["leases"]),
        ("config.openshift.io", &["clusterversions", "proxies", "schedulers"]),
    ],
    accounts: &["dynatrace-oneagent", "dynatrace-oneagent-unprivileged"],
    image_variable: Some("RELATED_IMAGE_DYNATRACE_ONEAGENT"),
    own_image_variable: None,
    samples: SAMPLES,
    companions: &[],
    extras: &[
        Sample {
            file: "scc-unprivileged.yaml",
            title: "SCC of unprivileged agents",
            yaml: include_str!("scc-unprivileged.yaml"),
        },
        Sample { file: STEER, title: "Rights to steer rollouts", yaml: include_str!("steer.yaml") },
    ],
    alerts: ALERTS,
    panels: PANELS,
    texts: Texts {
        title: "OneAgent Operator",
        sentence: "Keeps a monitoring agent on the right nodes, at the right version, and says why a node has none.",
        description: include_str!("description.md"),
        uninstall: "To remove the agents, delete the OneAgents first: this deletes their DaemonSets. Agents of \
            OneAgents that you keep continue to run, but new ones cannot start without the ServiceAccounts of this \
            operator. Software that agents installed on hosts stays there: run the vendor's uninstall script on each \
            host.",
        keywords: &["monitoring", "observability", "agent", "oneagent", "daemonset"],
        categories: "Monitoring,Logging & Tracing",
        capabilities: "Full Lifecycle",
        form: FORM,
        page: PAGE,
        tour: TOUR,
    },
};

const ISTIO: &str = "let traffic to the environment pass in a mesh, where enableIstio is true; unused without Istio";

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
    rule(Where::Watched, "dynatrace.com", "oneagents/status", &["patch"], "write what the operator found"),
    Rule {
        consulted: &["create", "delete"],
        ..rule(
            Where::Watched,
            "apps",
            "daemonsets",
            &["get", "list", "watch", "create", "patch", "delete"],
            "one DaemonSet per OneAgent; delete is never used, but OwnerReferencesPermissionEnforcement requires it \
            to adopt a DaemonSet",
        )
    },
    Rule {
        name: Some("dynatrace-oneagent-operator"),
        ..rule(Where::Watched, "apps", "deployments", &["get"], "change nothing while the original operator runs")
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
            "read the certificates that OneAgents name, by name only; record the nodes that have an agent, to notice \
            when one is removed",
        )
    },
    rule(Where::Watched, "", "namespaces", &["get"], "report the nodes that the namespace itself excludes"),
    rule(
        Where::Watched,
        "",
        "events",
        &["create", "list"],
        "report every transition, and learn why the API server refuses Pods",
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
        "let only one of several operators act",
    ),
    rivals_lease(NAME),
    rule(Where::Cluster, "", "nodes", &["list", "watch"], "know where agents belong"),
    Rule {
        name: Some("cluster"),
        ..rule(
            Where::Cluster,
            "config.openshift.io",
            "schedulers",
            &["get"],
            "know OpenShift's default node selector, which excludes nodes; unused elsewhere",
        )
    },
    Rule {
        name: Some("cluster"),
        ..rule(
            Where::Cluster,
            "config.openshift.io",
            "proxies",
            &["get"],
            "use the cluster's proxy, where spec.openshift.clusterProxy is true",
        )
    },
    Rule {
        name: Some("version"),
        ..rule(
            Where::Cluster,
            "config.openshift.io",
            "clusterversions",
            &["get"],
            "wait for the cluster's update, where spec.openshift.pauseDuringClusterUpdate is true",
        )
    },
    Rule {
        name: Some("kube-system"),
        ..rule(
            Where::Cluster,
            "",
            "namespaces",
            &["get"],
            "give agents the cluster's identity, which is the UID of this namespace",
        )
    },
];

const ALERTS: &[Alert] = &[
    Alert {
        name: "OneAgentRolloutFailed",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"RolloutFailed\"}) == 1",
        lasts: "5m",
        summary: "The rollout of OneAgent {{ $labels.namespace }}/{{ $labels.name }} failed, and the operator \
            stopped it.",
    },
    Alert {
        name: "OneAgentPromotionAwaited",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"AwaitingPromotion\"}) == 1",
        lasts: "24h",
        summary: "The canaries of OneAgent {{ $labels.namespace }}/{{ $labels.name }} soaked a day ago, and their \
            version is neither promoted nor rejected.",
    },
    Alert {
        name: "OneAgentEnvironmentUnreachable",
        expr: "max by (namespace, name) (oneagent_condition{reason=\"EnvironmentUnreachable\"}) == 1",
        lasts: "2h",
        summary: "The environment of OneAgent {{ $labels.namespace }}/{{ $labels.name }} has been unusable for two \
            hours: no agent is updated, and agents that restart may fail to start.",
    },
    Alert {
        name: "OneAgentNodesWithoutAgent",
        expr: "sum by (namespace, name) \
            (oneagent_nodes{state=~\"capacity|admission|image|config|crash|pulling|overdue\"}) > 0",
        lasts: "30m",
        summary: "{{ $value }} nodes of OneAgent {{ $labels.namespace }}/{{ $labels.name }} have no agent, \
            and will not get one without help.",
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
        summary: "OneAgent {{ $labels.namespace }}/{{ $labels.name }} needs attention: {{ $labels.reason }}.",
    },
    Alert {
        name: "OneAgentOperatorAway",
        expr: "absent(oneagent_leader == 1)",
        lasts: "15m",
        summary: "No OneAgent Operator is active: agents continue to run, but none is updated or replaced.",
    },
];

const PANELS: &[Panel] = &[
    Panel { title: "Nodes by state", expr: "sum by (state) (oneagent_nodes)", legend: "{{state}}", unit: "short" },
    Panel {
        title: "OneAgents that need attention, and why",
        expr: "oneagent_condition{condition=\"Degraded\",status=\"True\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "State of rollouts",
        expr: "oneagent_condition{condition=\"Progressing\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "Pods removed in order to be replaced, per minute",
        expr: "60 * sum(rate(oneagent_pods_replaced_total[5m]))",
        legend: "Pods",
        unit: "short",
    },
    Panel {
        title: "Nodes of the rollouts: allowed to be without an agent, without, left",
        expr: "sum by (state) (oneagent_rollout_nodes)",
        legend: "{{state}}",
        unit: "short",
    },
    Panel {
        title: "How long a node is without an agent when it is replaced, 95th percentile",
        expr: "histogram_quantile(0.95, sum by (le) (rate(oneagent_replacement_seconds_bucket[1h])))",
        legend: "without an agent",
        unit: "s",
    },
    Panel {
        title: "Reconciles that ended in an error, per minute",
        expr: "60 * sum(rate(oneagent_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel {
        title: "Duration of a reconcile, 99th percentile",
        expr: "histogram_quantile(0.99, sum by (le) (rate(oneagent_reconcile_seconds_bucket[5m])))",
        legend: "duration",
        unit: "s",
    },
    Panel { title: "Active operators", expr: "sum(oneagent_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **OneAgent Operator** and choose **Install**. Select **A specific namespace \
            on the cluster** and the suggested namespace `dynatrace`.",
        review: "Does **Installed Operators** say **Succeeded** in project `dynatrace`?",
        help: "Read the conditions of the Subscription and of the ClusterServiceVersion.",
    },
    Step {
        title: "Create the Secret with the tokens",
        how: "In project `dynatrace` create a key/value Secret `oneagent` with two keys. `apiToken` is a token of \
            your environment with scope `DataExport`. `paasToken` is one with scope `InstallerDownload`.",
        review: "Does Secret `oneagent` have both keys?",
        help: "After you create a OneAgent, its conditions `APIToken` and `PaaSToken` say what a token lacks.",
    },
    Step {
        title: "Create a OneAgent",
        how: "Under **Installed Operators** open **OneAgent Operator** and create a **OneAgent** named `oneagent`. \
            **API URL** is `https://ENVIRONMENTID.live.dynatrace.com/api`. For nodes with a taint, choose the \
            sample **On every node of OpenShift** in the YAML view, and change its name to `oneagent`.",
        review: "Does the OneAgent's page count nodes with the desired agent?",
        help: "Condition `Degraded` says what is wrong and how to fix it. `Progressing` says what \
            the operator waits for.",
    },
    Step {
        title: "See why a node has none",
        how: "The page counts the selected nodes, those with an agent, and those whose taint is not tolerated. \
            Conditions `Progressing` and `Degraded` name nodes, and the reason why they have no agent.",
        review: "Is condition `Ready` True?",
        help: "The documentation has the remedy for each reason.",
    },
];
