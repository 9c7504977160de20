//! The package of kind DaemonSetRollout.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::DaemonSetRollout;
use crate::api::package::{
    Alert, Kind, Package, Panel, Rule, Sample, Shown, Step, Texts, Where, rivals_lease, rule, shown,
};

const NAME: &str = "daemonset-rollout-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    docs: "docs/daemonsetrollout.md",
    namespace: "daemonset-rollout",
    since: "0.3.0",
    kinds: &[Kind {
        name: "DaemonSetRollout",
        plural: "daemonsetrollouts",
        group: "oneagent-operator.github.io",
        crd: DaemonSetRollout::crd,
        resources: &[("DaemonSet", "apps/v1"), ("ControllerRevision", "apps/v1"), ("Pod", "v1")],
    }],
    run: &["run", "--kind", "daemonsetrollout"],
    host_port: None,
    is_proxy_aware: false,
    rules: RULES,
    reads: &[
        ("", &["nodes", "pods", "events"]),
        ("apps", &["daemonsets", "controllerrevisions", "deployments"]),
        ("coordination.k8s.io", &["leases"]),
    ],
    accounts: &[],
    image_variable: None,
    own_image_variable: None,
    samples: &[
        Sample { file: "fluent-bit.yaml", title: "Fluent Bit", yaml: include_str!("fluent-bit.yaml") },
        Sample { file: "datadog.yaml", title: "Datadog Agent, from its chart", yaml: include_str!("datadog.yaml") },
        Sample {
            file: "datadog-operator.yaml",
            title: "Datadog Agent, from its operator",
            yaml: include_str!("datadog-operator.yaml"),
        },
        Sample {
            file: "falcon-sensor.yaml",
            title: "CrowdStrike Falcon, from its chart",
            yaml: include_str!("falcon-sensor.yaml"),
        },
        Sample { file: "node-exporter.yaml", title: "node-exporter", yaml: include_str!("node-exporter.yaml") },
        Sample {
            file: "dynatrace-csi.yaml",
            title: "Dynatrace's CSI driver",
            yaml: include_str!("dynatrace-csi.yaml"),
        },
    ],
    companions: &[],
    extras: &[Sample {
        file: "rollback-role.yaml",
        title: "The right that a rollback needs",
        yaml: include_str!("rollback-role.yaml"),
    }],
    alerts: ALERTS,
    panels: PANELS,
    texts: Texts {
        title: "DaemonSet Rollout Operator",
        sentence: "Updates any vendor's DaemonSet with canaries, windows and a budget, and stops a version that fails.",
        description: include_str!("description.md"),
        uninstall: "Pods stay as they are. After that a changed template reaches a Pod of an OnDelete DaemonSet only \
            when you delete that Pod.",
        keywords: &["daemonset", "rollout", "canary", "ondelete", "agent"],
        categories: "Developer Tools,Monitoring",
        capabilities: "Seamless Upgrades",
        form: FORM,
        page: PAGE,
        tour: TOUR,
    },
};

const RULES: &[Rule] = &[
    rule(
        Where::Watched,
        "oneagent-operator.github.io",
        "daemonsetrollouts",
        &["list", "watch"],
        "follow the DaemonSetRollouts; their spec is never written",
    ),
    rule(
        Where::Watched,
        "oneagent-operator.github.io",
        "daemonsetrollouts/status",
        &["patch"],
        "write what the operator found",
    ),
    rule(Where::Watched, "apps", "daemonsets", &["list", "watch"], "follow the DaemonSets, which are never written"),
    rule(
        Where::Watched,
        "apps",
        "controllerrevisions",
        &["list"],
        "know the revision of a DaemonSet's template, and so which Pods are outdated",
    ),
    rule(Where::Watched, "", "pods", &["delete", "list", "watch"], "see the Pods of DaemonSets, and replace them"),
    rule(
        Where::Watched,
        "",
        "events",
        &["create", "list"],
        "report every transition, and learn why the API server refuses Pods",
    ),
    rule(Where::Cluster, "", "nodes", &["list", "watch"], "know where Pods belong, and in which zone"),
    rule(
        Where::Own,
        "coordination.k8s.io",
        "leases",
        &["create", "get", "list", "update", "watch"],
        "let only one of several operators act",
    ),
    rivals_lease(NAME),
    Rule {
        name: Some(NAME),
        ..rule(Where::Own, "", "configmaps", &["list", "watch"], "see when everything must stop")
    },
];

const ALERTS: &[Alert] = &[
    Alert {
        name: "DaemonSetRolloutFailed",
        expr: "max by (namespace, name) (daemonsetrollout_condition{\
            reason=~\"RolloutFailed|RollbackRefused\"}) == 1",
        lasts: "5m",
        summary: "The rollout of DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} failed, and the operator \
            stopped it.",
    },
    Alert {
        name: "DaemonSetRollbackUndone",
        expr: "max by (namespace, name) (daemonsetrollout_condition{reason=\"RollbackUndone\"}) == 1",
        lasts: "5m",
        summary: "A failed template of DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} was written again \
            after the operator had put the last good one back.",
    },
    Alert {
        name: "DaemonSetRolloutNotOnDelete",
        expr: "max by (namespace, name) (daemonsetrollout_condition{reason=\"NotOnDelete\"}) == 1",
        lasts: "1h",
        summary: "Kubernetes itself replaces the Pods of DaemonSetRollout {{ $labels.namespace }}/\
            {{ $labels.name }}: the DaemonSet's strategy is not OnDelete.",
    },
    Alert {
        name: "DaemonSetTemplateUnstable",
        expr: "max by (namespace, name) (daemonsetrollout_condition{reason=\"TemplateUnstable\"}) == 1",
        lasts: "30m",
        summary: "The template of DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} changes again and again.",
    },
    Alert {
        name: "DaemonSetPromotionAwaited",
        expr: "max by (namespace, name) (daemonsetrollout_condition{reason=\"AwaitingPromotion\"}) == 1",
        lasts: "24h",
        summary: "The canaries of DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} soaked a day ago, and \
            their revision is neither promoted nor rejected.",
    },
    Alert {
        name: "DaemonSetPodsOutdated",
        expr: "sum by (namespace, name) (daemonsetrollout_nodes{state=\"outdated\"}) > 0 and sum by (namespace, name) \
            (changes(daemonsetrollout_nodes{state=\"outdated\"}[1h])) == 0 unless on (namespace, name) \
            daemonsetrollout_condition{condition=\"Progressing\",reason=~\"Paused|Stopped\"} == 1",
        lasts: "24h",
        summary: "{{ $value }} nodes of DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} have run an \
            earlier revision for a day, and their number does not change.",
    },
    Alert {
        name: "DaemonSetRolloutNeedsAttention",
        expr: "max by (namespace, name, reason) (daemonsetrollout_condition{condition=\"Degraded\",status=\"True\",\
            reason!~\"RolloutFailed|RollbackRefused|RollbackUndone|NotOnDelete|TemplateUnstable\"}) == 1",
        lasts: "1h",
        summary: "DaemonSetRollout {{ $labels.namespace }}/{{ $labels.name }} needs attention: {{ $labels.reason }}.",
    },
    Alert {
        name: "DaemonSetRolloutOperatorAway",
        expr: "absent(daemonsetrollout_leader == 1)",
        lasts: "15m",
        summary: "No DaemonSet Rollout Operator is active: a changed template reaches no Pod of an OnDelete DaemonSet.",
    },
];

const PANELS: &[Panel] = &[
    Panel {
        title: "Nodes by state",
        expr: "sum by (state) (daemonsetrollout_nodes)",
        legend: "{{state}}",
        unit: "short",
    },
    Panel {
        title: "DaemonSetRollouts that need attention, and why",
        expr: "daemonsetrollout_condition{condition=\"Degraded\",status=\"True\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "State of rollouts",
        expr: "daemonsetrollout_condition{condition=\"Progressing\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "Nodes of the rollouts: allowed to be without a Pod, without, left",
        expr: "sum by (state) (daemonsetrollout_rollout_nodes)",
        legend: "{{state}}",
        unit: "short",
    },
    Panel {
        title: "How long a node is without a Pod when it is replaced, 95th percentile",
        expr: "histogram_quantile(0.95, sum by (le) (rate(daemonsetrollout_replacement_seconds_bucket[1h])))",
        legend: "without a Pod",
        unit: "s",
    },
    Panel {
        title: "Pods removed in order to be replaced, per minute",
        expr: "60 * sum(rate(daemonsetrollout_pods_replaced_total[5m]))",
        legend: "Pods",
        unit: "short",
    },
    Panel {
        title: "Reconciles that ended in an error, per minute",
        expr: "60 * sum(rate(daemonsetrollout_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel { title: "Active operators", expr: "sum(daemonsetrollout_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **DaemonSet Rollout Operator** and choose **Install**. Select **A \
            specific namespace on the cluster**: the namespace of the DaemonSet.",
        review: "Does **Installed Operators** say **Succeeded**?",
        help: "Read the conditions of the Subscription and of the ClusterServiceVersion.",
    },
    Step {
        title: "Set the strategy of the DaemonSet",
        how: "Set `updateStrategy.type` to `OnDelete` where the DaemonSet is deployed: in its chart, in Git, or by \
            its operator. This restarts no Pod.",
        review: "Does the DaemonSet's YAML say `OnDelete`?",
        help: "`docs/daemonsetrollout.md` has the setting of several agents.",
    },
    Step {
        title: "Create a DaemonSetRollout",
        how: "In that project, in the YAML view, create a **DaemonSetRollout** that names the DaemonSet in \
            `daemonSet`, with a canary.",
        review: "Does its page count the nodes that run the current revision?",
        help: "Condition `Degraded` says what is wrong and how to fix it.",
    },
];

const NUMBER: &[&str] = &["com.tectonic.ui:number"];
const SHARES: &[&str] = &["com.tectonic.ui:select:1", "com.tectonic.ui:select:5%", "com.tectonic.ui:select:10%"];

const FORM: &[Shown] = &[
    shown("daemonSet", "DaemonSet", &["io.kubernetes:DaemonSet"]),
    shown("acceptOwner", "Serve it even if an operator controls it", &["com.tectonic.ui:booleanSwitch"]),
    shown("ignore", "Labels and annotations whose change replaces no Pod", &[]),
    shown("debounceSeconds", "Seconds for which the template must stay the same", NUMBER),
    shown("rollout", "Rollout", &[]),
    shown("rollout.maxUnavailable", "Nodes without an available Pod, at most", SHARES),
    shown("rollout.maxUnavailablePerZone", "The same in each zone", SHARES),
    shown(
        "rollout.order",
        "Order of zones",
        &["com.tectonic.ui:select:SpreadAcrossZones", "com.tectonic.ui:select:ZoneByZone"],
    ),
    shown("rollout.minReadySeconds", "Seconds that a new Pod must stay ready", NUMBER),
    shown("rollout.waitReadySeconds", "Seconds within which a new Pod must be ready", NUMBER),
    shown("rollout.canary", "Canaries", &[]),
    shown("rollout.canary.nodes", "How many nodes are first", SHARES),
    shown("rollout.canary.selector", "Or nodes with these labels", &[]),
    shown("rollout.canary.soak", "How long they must have been available", &[]),
    shown(
        "rollout.canary.promotion",
        "When others follow",
        &["com.tectonic.ui:select:Automatic", "com.tectonic.ui:select:Manual"],
    ),
    shown("rollout.promote", "Let others follow the canaries of this revision", &["com.tectonic.ui:text"]),
    shown("rollout.reject", "This revision has failed", &["com.tectonic.ui:text"]),
    shown("rollout.windows", "When Pods can be replaced", &[]),
    shown("rollout.blackouts", "When no Pod is replaced", &[]),
    shown("rollout.maxFailures", "Nodes that must fail to stop it", NUMBER),
    shown(
        "rollout.onFailure",
        "When a revision fails",
        &["com.tectonic.ui:select:Pause", "com.tectonic.ui:select:Rollback"],
    ),
    shown("rollout.retry", "Try this revision again", &["com.tectonic.ui:text"]),
    shown("rollout.paused", "Paused", &["com.tectonic.ui:booleanSwitch"]),
];

const PAGE: &[Shown] = &[
    shown("nodes.progress", "Nodes at the current revision", &[]),
    shown("nodes.selected", "Selected nodes", &[]),
    shown("nodes.running", "Nodes with an available Pod", &[]),
    shown("nodes.outdated", "Nodes with an outdated Pod", &[]),
    shown("daemonSet.revision", "Current revision", &[]),
    shown("daemonSet.strategy", "Update strategy", &[]),
    shown("daemonSet.owner", "Controlled by", &[]),
    shown("rollout.state", "Rollout", &[]),
    shown("rollout.startedAt", "Rollout began", &[]),
    shown("rollout.finishedAt", "Rollout ended", &[]),
    shown("rollout.expectedFinish", "Expected end", &[]),
    shown("rollout.lastGoodHash", "Last good revision", &[]),
    shown("conditions", "Conditions", &["io.kubernetes.conditions"]),
];
