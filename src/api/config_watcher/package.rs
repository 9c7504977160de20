//! The package of kind ConfigWatcher.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::ConfigWatcher;
use crate::api::package::{Kind, Package, Rule, Sample, Texts, Where, rule};

const NAME: &str = "configwatcher-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
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
    accounts: &[],
    image_variable: None,
    samples: &[Sample { file: "configwatcher.yaml", yaml: WATCHER }],
    companions: &[Sample { file: "webapp.yaml", yaml: include_str!("webapp.yaml") }],
    texts: Texts {
        title: "ConfigWatcher Operator",
        sentence: "Replaces Pods, safely, when a ConfigMap that they read has changed.",
        description: include_str!("description.md"),
        uninstall: "Pods stay as they are; from then on a changed ConfigMap reaches a Pod only when it starts anew for \
            another reason.",
        keywords: &["configmap", "configuration", "restart", "rollout", "eviction"],
        categories: "Developer Tools",
        capabilities: "Seamless Upgrades",
        widgets: WIDGETS,
        plain: &["configMap", "podSelector", "rollout"],
        groups: &["rollout"],
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
    rule(Where::Watched, "", "pods/eviction", &["create"], "have Pods made anew, unless a PodDisruptionBudget forbids"),
    rule(Where::Watched, "", "events", &["create"], "tell about every transition"),
    rule(
        Where::Own,
        "coordination.k8s.io",
        "leases",
        &["create", "get", "list", "update", "watch"],
        "let one operator of several act",
    ),
    Rule {
        name: Some(NAME),
        ..rule(Where::Own, "", "configmaps", &["list", "watch"], "learn that everything shall stop")
    },
];

const WIDGETS: &[(&str, &str)] = &[
    ("configMap", "io.kubernetes:ConfigMap"),
    ("debounceSeconds", "com.tectonic.ui:number"),
    ("rollout.minReadySeconds", "com.tectonic.ui:number"),
    ("rollout.waitReadySeconds", "com.tectonic.ui:number"),
    ("rollout.paused", "com.tectonic.ui:booleanSwitch"),
    ("conditions", "io.kubernetes.conditions"),
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
