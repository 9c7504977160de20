//! The package of kind ConfigWatcher.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::ConfigWatcher;
use crate::api::package::{
    Alert, Kind, Package, Panel, Rule, Sample, Shown, Step, Texts, Where, rivals_lease, rule, shown,
};

const NAME: &str = "configwatcher-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    docs: "docs/configwatcher.md",
    namespace: "configwatcher",
    since: "0.3.0",
    kinds: &[Kind {
        name: "ConfigWatcher",
        plural: "configwatchers",
        group: "k8spatterns.io",
        crd: ConfigWatcher::crd,
        resources: &[("ConfigMap", "v1"), ("Pod", "v1")],
    }],
    run: &["run", "--kind", "configwatcher"],
    host_port: None,
    is_proxy_aware: false,
    rules: RULES,
    reads: &[],
    accounts: &[],
    image_variable: None,
    own_image_variable: None,
    samples: &[Sample { file: "configwatcher.yaml", title: "Pods of an application", yaml: WATCHER }],
    companions: &[Sample { file: "webapp.yaml", title: "The application", yaml: include_str!("webapp.yaml") }],
    extras: &[],
    alerts: ALERTS,
    panels: PANELS,
    texts: Texts {
        title: "ConfigWatcher Operator",
        sentence: "Replaces Pods, safely, when a ConfigMap that they read has changed.",
        description: include_str!("description.md"),
        uninstall: "Pods stay as they are. After that a changed ConfigMap reaches a Pod only when the Pod starts again \
            for another reason.",
        keywords: &["configmap", "configuration", "restart", "rollout", "eviction"],
        categories: "Developer Tools",
        capabilities: "Seamless Upgrades",
        form: FORM,
        page: PAGE,
        tour: TOUR,
    },
};

const RULES: &[Rule] = &[
    rule(
        Where::Watched,
        "k8spatterns.io",
        "configwatchers",
        &["list", "watch"],
        "follow the ConfigWatchers; their spec is never written",
    ),
    rule(Where::Watched, "k8spatterns.io", "configwatchers/status", &["patch"], "write what the operator found"),
    rule(
        Where::Watched,
        "",
        "configmaps",
        &["get", "list", "watch"],
        "notice a change by its metadata; read the data of those that a ConfigWatcher names",
    ),
    rule(Where::Watched, "", "pods", &["list", "watch"], "see the selected Pods and their state"),
    rule(
        Where::Watched,
        "apps",
        "replicasets",
        &["list", "watch"],
        "know the workload of a Pod, and how many Pods it has",
    ),
    rule(
        Where::Watched,
        "apps",
        "statefulsets",
        &["list", "watch"],
        "know how many Pods it has, and whether it is rolling out",
    ),
    rule(
        Where::Watched,
        "apps",
        "daemonsets",
        &["list", "watch"],
        "know how many Pods it has, and whether it is rolling out",
    ),
    rule(Where::Watched, "", "pods/eviction", &["create"], "replace Pods, unless a PodDisruptionBudget forbids it"),
    rule(Where::Watched, "", "events", &["create"], "report every transition"),
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
        name: "ConfigWatcherRolloutFailed",
        expr: "max by (namespace, name) (configwatcher_condition{reason=\"RolloutFailed\"}) == 1",
        lasts: "5m",
        summary: "New Pods of ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} failed, and its rollout \
            stopped.",
    },
    Alert {
        name: "ConfigWatcherBlocked",
        expr: "sum by (namespace, name) (configwatcher_pods{state=\"blocked\"}) > 0",
        lasts: "2h",
        summary: "{{ $value }} Pods of ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} could not be evicted \
            for two hours, and run with old configuration.",
    },
    Alert {
        name: "ConfigWatcherNeedsAttention",
        expr: "max by (namespace, name, reason) (configwatcher_condition{condition=\"Degraded\",status=\"True\",\
            reason!=\"RolloutFailed\"}) == 1",
        lasts: "1h",
        summary: "ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} needs attention: {{ $labels.reason }}.",
    },
    Alert {
        name: "ConfigWatcherOperatorAway",
        expr: "absent(configwatcher_leader == 1)",
        lasts: "15m",
        summary: "No ConfigWatcher Operator is active: a changed ConfigMap reaches no running Pod.",
    },
];

const PANELS: &[Panel] = &[
    Panel { title: "Pods by state", expr: "sum by (state) (configwatcher_pods)", legend: "{{state}}", unit: "short" },
    Panel {
        title: "ConfigWatchers that need attention, and why",
        expr: "configwatcher_condition{condition=\"Degraded\",status=\"True\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "Pods evicted, per minute",
        expr: "60 * sum(rate(configwatcher_pods_replaced_total[5m]))",
        legend: "Pods",
        unit: "short",
    },
    Panel {
        title: "Reconciles that ended in an error, per minute",
        expr: "60 * sum(rate(configwatcher_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel { title: "Active operators", expr: "sum(configwatcher_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **ConfigWatcher Operator** and choose **Install**. Select **A specific \
            namespace on the cluster**: the one with the Pods that read the ConfigMaps.",
        review: "Does **Installed Operators** say **Succeeded**?",
        help: "Read the conditions of the Subscription and of the ClusterServiceVersion.",
    },
    Step {
        title: "Create a ConfigWatcher",
        how: "In that project, in the YAML view, create a **ConfigWatcher** that names a ConfigMap in `configMap` and \
            labels of Pods in `podSelector`.",
        review: "Does the ConfigWatcher's page count the selected Pods?",
        help: "Condition `Degraded` says what is wrong and how to fix it.",
    },
    Step {
        title: "Change the ConfigMap",
        how: "Edit a value of the ConfigMap. The operator evicts a few Pods at a time, and waits until \
            the new ones are Ready.",
        review: "Are all Pods newer than the change?",
        help: "The page counts Pods that cannot be evicted, and the status names the PodDisruptionBudget.",
    },
];

const NUMBER: &[&str] = &["com.tectonic.ui:number"];

const FORM: &[Shown] = &[
    shown("configMap", "ConfigMap", &["io.kubernetes:ConfigMap"]),
    shown("podSelector", "Pod selector", &["com.tectonic.ui:selector:core:v1:Pod"]),
    shown("ownerKinds", "Other kinds that create their Pods again", &[]),
    shown("debounceSeconds", "Seconds to wait for further changes", NUMBER),
    shown("rollout", "Rollout", &[]),
    shown(
        "rollout.maxUnavailable",
        "Unavailable Pods of a workload, at most",
        &["com.tectonic.ui:select:1%", "com.tectonic.ui:select:10%", "com.tectonic.ui:select:25%"],
    ),
    shown("rollout.minReadySeconds", "Seconds that a new Pod must stay ready", NUMBER),
    shown("rollout.waitReadySeconds", "Seconds within which a new Pod must be ready", NUMBER),
    shown("rollout.windows", "When Pods can be replaced", &[]),
    shown("rollout.blackouts", "When no Pod is replaced", &[]),
    shown("rollout.canary", "Canaries", &[]),
    shown(
        "rollout.canary.pods",
        "How many Pods are first",
        &["com.tectonic.ui:select:1", "com.tectonic.ui:select:5%", "com.tectonic.ui:select:10%"],
    ),
    shown("rollout.canary.soak", "How long they must have been available", &[]),
    shown("rollout.maxFailures", "New Pods that must fail to stop it", NUMBER),
    shown("rollout.onFailure", "When it fails", &["com.tectonic.ui:select:Pause"]),
    shown("rollout.retry", "Try again what failed, with each new text", &[]),
    shown("rollout.paused", "Paused", &["com.tectonic.ui:booleanSwitch"]),
];

const PAGE: &[Shown] = &[
    shown("pods.progress", "Pods newer than the change", &[]),
    shown("pods.selected", "Selected Pods", &[]),
    shown("pods.blocked", "Pods that cannot be evicted", &[]),
    shown("pods.skipped", "Pods that are left alone", &[]),
    shown("pods.unavailable", "Unavailable Pods", &[]),
    shown("changedAt", "Data changed", &[]),
    shown("rollout.state", "Rollout", &[]),
    shown("rollout.startedAt", "Rollout began", &[]),
    shown("rollout.finishedAt", "Rollout ended", &[]),
    shown("rollout.failure", "Why the rollout failed", &[]),
    shown("conditions", "Conditions", &["io.kubernetes.conditions"]),
];

const WATCHER: &str = "apiVersion: k8spatterns.io/v1
kind: ConfigWatcher
metadata:
  name: webapp-config-watcher
  namespace: configwatcher
spec:
  configMap: webapp-config
  podSelector:
    app: webapp
";
