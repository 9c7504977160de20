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
        uninstall: "Pods stay as they are; from then on a changed ConfigMap reaches a Pod only when it starts again \
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
    rule(Where::Watched, "k8spatterns.io", "configwatchers/status", &["patch"], "say what was found"),
    rule(
        Where::Watched,
        "",
        "configmaps",
        &["get", "list", "watch"],
        "notice that one changed, by its metadata; read the data of those that a ConfigWatcher names",
    ),
    rule(Where::Watched, "", "pods", &["list", "watch"], "see the Pods that are selected, and how they are"),
    rule(Where::Watched, "apps", "replicasets", &["list", "watch"], "know of which workload a Pod is, and how many"),
    rule(Where::Watched, "apps", "statefulsets", &["list", "watch"], "know how many, and whether it rolls out itself"),
    rule(Where::Watched, "apps", "daemonsets", &["list", "watch"], "know how many, and whether it rolls out itself"),
    rule(Where::Watched, "", "pods/eviction", &["create"], "replace Pods, unless a PodDisruptionBudget forbids it"),
    rule(Where::Watched, "", "events", &["create"], "tell about every transition"),
    rule(
        Where::Own,
        "coordination.k8s.io",
        "leases",
        &["create", "get", "list", "update", "watch"],
        "let one operator of several act",
    ),
    rivals_lease(NAME),
    Rule {
        name: Some(NAME),
        ..rule(Where::Own, "", "configmaps", &["list", "watch"], "learn that everything shall stop")
    },
];

const ALERTS: &[Alert] = &[
    Alert {
        name: "ConfigWatcherRolloutFailed",
        expr: "max by (namespace, name) (configwatcher_condition{reason=\"RolloutFailed\"}) == 1",
        lasts: "5m",
        summary: "New Pods of ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} failed, and its rollout was \
            stopped.",
    },
    Alert {
        name: "ConfigWatcherBlocked",
        expr: "sum by (namespace, name) (configwatcher_pods{state=\"blocked\"}) > 0",
        lasts: "2h",
        summary: "{{ $value }} Pods of ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} may not be evicted for \
            two hours, and run with old configuration.",
    },
    Alert {
        name: "ConfigWatcherNeedsAttention",
        expr: "max by (namespace, name, reason) (configwatcher_condition{condition=\"Degraded\",status=\"True\",\
            reason!=\"RolloutFailed\"}) == 1",
        lasts: "1h",
        summary: "ConfigWatcher {{ $labels.namespace }}/{{ $labels.name }} needs a human: {{ $labels.reason }}.",
    },
    Alert {
        name: "ConfigWatcherOperatorAway",
        expr: "absent(configwatcher_leader == 1)",
        lasts: "15m",
        summary: "No ConfigWatcher Operator acts: a changed ConfigMap reaches no running Pod.",
    },
];

const PANELS: &[Panel] = &[
    Panel { title: "Pods by state", expr: "sum by (state) (configwatcher_pods)", legend: "{{state}}", unit: "short" },
    Panel {
        title: "ConfigWatchers that need a human, and why",
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
        title: "Looks at a ConfigWatcher that ended in an error, per minute",
        expr: "60 * sum(rate(configwatcher_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel { title: "Operators that act", expr: "sum(configwatcher_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **ConfigWatcher Operator** and choose **Install**, with **A specific namespace \
            on the cluster**: the one whose Pods shall follow their ConfigMaps.",
        review: "Does **Installed Operators** say **Succeeded**?",
        help: "Read the conditions of the Subscription, and those of the ClusterServiceVersion.",
    },
    Step {
        title: "Create a ConfigWatcher",
        how: "In that project, in the YAML view, create a **ConfigWatcher** that names a ConfigMap in `configMap` and \
            labels of Pods in `podSelector`.",
        review: "Does the ConfigWatcher's page count the selected Pods?",
        help: "Condition `Degraded` says what is wrong and what fixes it.",
    },
    Step {
        title: "Change the ConfigMap",
        how: "Edit a value of the ConfigMap. The Pods are evicted a few at a time, each once the one before is Ready.",
        review: "Are all Pods newer than the change?",
        help: "The page counts Pods that may not be evicted, and the status names the PodDisruptionBudget.",
    },
];

const NUMBER: &[&str] = &["com.tectonic.ui:number"];

const FORM: &[Shown] = &[
    shown("configMap", "ConfigMap", &["io.kubernetes:ConfigMap"]),
    shown("podSelector", "Pod selector", &["com.tectonic.ui:selector:core:v1:Pod"]),
    shown("ownerKinds", "Other kinds that make their Pods again", &[]),
    shown("debounceSeconds", "Seconds to wait for further changes", NUMBER),
    shown("rollout", "Rollout", &[]),
    shown(
        "rollout.maxUnavailable",
        "Pods of a workload that are unavailable, at most",
        &["com.tectonic.ui:select:1%", "com.tectonic.ui:select:10%", "com.tectonic.ui:select:25%"],
    ),
    shown("rollout.minReadySeconds", "Seconds that a new Pod must stay ready", NUMBER),
    shown("rollout.waitReadySeconds", "Seconds within which a new Pod must be ready", NUMBER),
    shown("rollout.windows", "When Pods may be replaced", &[]),
    shown("rollout.blackouts", "When they may not", &[]),
    shown("rollout.canary", "Canaries", &[]),
    shown(
        "rollout.canary.pods",
        "How many Pods go first",
        &["com.tectonic.ui:select:1", "com.tectonic.ui:select:5%", "com.tectonic.ui:select:10%"],
    ),
    shown("rollout.canary.soak", "How long they must have been available", &[]),
    shown("rollout.maxFailures", "New Pods that fail until it is stopped", NUMBER),
    shown("rollout.onFailure", "What is done then", &["com.tectonic.ui:select:Pause"]),
    shown("rollout.retry", "Try again what failed, with each new text", &[]),
    shown("rollout.paused", "Paused", &["com.tectonic.ui:booleanSwitch"]),
];

const PAGE: &[Shown] = &[
    shown("pods.progress", "Pods newer than the change", &[]),
    shown("pods.selected", "Selected Pods", &[]),
    shown("pods.blocked", "Pods that may not be evicted", &[]),
    shown("pods.skipped", "Pods that are left alone", &[]),
    shown("pods.unavailable", "Unavailable Pods", &[]),
    shown("changedAt", "Changed", &[]),
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
