//! The package of kind PrometheusJmxExporter.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::PrometheusJmxExporter;
use crate::api::package::{
    Alert, Kind, Package, Panel, Rule, Sample, Shown, Step, Texts, Where, rivals_lease, rule, shown,
};

const NAME: &str = "jmx-exporter-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    docs: "docs/jmx.md",
    namespace: "jmx-exporter",
    since: "0.3.0",
    kinds: &[Kind {
        name: "PrometheusJmxExporter",
        plural: "prometheusjmxexporters",
        group: "banzaicloud.com",
        crd: PrometheusJmxExporter::crd,
        resources: &[("ConfigMap", "v1"), ("Pod", "v1")],
    }],
    run: &["run", "--kind", "jmxexporter"],
    host_port: None,
    is_proxy_aware: false,
    rules: RULES,
    reads: &[],
    accounts: &[],
    image_variable: None,
    own_image_variable: Some("OPERATOR_IMAGE"),
    samples: &[Sample { file: "jmx-exporter.yaml", title: "JVMs of an application", yaml: EXPORTER }],
    companions: &[
        Sample { file: "dummyapp.yaml", title: "The application", yaml: include_str!("dummyapp.yaml") },
        Sample { file: "podmonitor.yaml", title: "A PodMonitor", yaml: include_str!("podmonitor.yaml") },
    ],
    extras: &[
        Sample {
            file: "admission-policy.yaml",
            title: "Changes to Pods that the policy allows",
            yaml: include_str!("admission-policy.yaml"),
        },
        Sample {
            file: "prometheus-scrape.yaml",
            title: "A scrape configuration of Prometheus",
            yaml: include_str!("prometheus-scrape.yaml"),
        },
    ],
    alerts: ALERTS,
    panels: PANELS,
    texts: Texts {
        title: "JMX Exporter Operator",
        sentence: "Makes running JVMs serve Prometheus metrics, without a restart.",
        description: include_str!("description.md"),
        uninstall: "JVMs that export continue until they end, and Prometheus still finds their Pods. To have the \
            annotations removed, delete the PrometheusJmxExporters first.",
        keywords: &["prometheus", "jmx", "java", "jvm", "metrics", "monitoring"],
        categories: "Monitoring",
        capabilities: "Seamless Upgrades",
        form: FORM,
        page: PAGE,
        tour: TOUR,
    },
};

const RULES: &[Rule] = &[
    rule(
        Where::Watched,
        "banzaicloud.com",
        "prometheusjmxexporters",
        &["list", "watch"],
        "follow the PrometheusJmxExporters; their spec is never written",
    ),
    rule(
        Where::Watched,
        "banzaicloud.com",
        "prometheusjmxexporters/status",
        &["patch"],
        "write what the operator found",
    ),
    rule(
        Where::Watched,
        "",
        "configmaps",
        &["list", "watch"],
        "read the ConfigMaps that PrometheusJmxExporters name, each by its name",
    ),
    rule(
        Where::Watched,
        "",
        "pods",
        &["list", "patch", "watch"],
        "see the selected Pods; annotate those that export, so that Prometheus finds them",
    ),
    rule(
        Where::Watched,
        "",
        "pods/ephemeralcontainers",
        &["patch"],
        "add the container that makes a JVM load the exporter; it runs the operator's own image",
    ),
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
        name: "JmxAttachHarmful",
        expr: "max by (namespace, name) (prometheusjmxexporter_condition{reason=\"AttachHarmful\"}) == 1",
        lasts: "5m",
        summary: "A JVM of PrometheusJmxExporter {{ $labels.namespace }}/{{ $labels.name }} ended after it loaded the \
            exporter, and the operator attaches to no other.",
    },
    Alert {
        name: "JmxNobodyExports",
        expr: "sum by (namespace, name) (prometheusjmxexporter_jvms{state=\"selected\"}) > 0 unless \
            sum by (namespace, name) (prometheusjmxexporter_jvms{state=\"exporting\"}) > 0",
        lasts: "30m",
        summary: "No JVM of PrometheusJmxExporter {{ $labels.namespace }}/{{ $labels.name }} exports.",
    },
    Alert {
        name: "JmxNeedsAttention",
        expr: "max by (namespace, name, reason) (prometheusjmxexporter_condition{condition=\"Degraded\",\
            status=\"True\",reason!=\"AttachHarmful\"}) == 1",
        lasts: "1h",
        summary: "PrometheusJmxExporter {{ $labels.namespace }}/{{ $labels.name }} needs attention: \
            {{ $labels.reason }}.",
    },
    Alert {
        name: "JmxExporterOperatorAway",
        expr: "absent(prometheusjmxexporter_leader == 1)",
        lasts: "15m",
        summary: "No JMX Exporter Operator is active: JVMs that start serve no metrics.",
    },
];

const PANELS: &[Panel] = &[
    Panel {
        title: "JVMs by state",
        expr: "sum by (state) (prometheusjmxexporter_jvms)",
        legend: "{{state}}",
        unit: "short",
    },
    Panel {
        title: "PrometheusJmxExporters that need attention, and why",
        expr: "prometheusjmxexporter_condition{condition=\"Degraded\",status=\"True\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "Reconciles that ended in an error, per minute",
        expr: "60 * sum(rate(prometheusjmxexporter_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel { title: "Active operators", expr: "sum(prometheusjmxexporter_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **JMX Exporter Operator** and choose **Install**. Select **A specific \
            namespace on the cluster**: the one with the JVMs.",
        review: "Does **Installed Operators** say **Succeeded**?",
        help: "Read the conditions of the Subscription and of the ClusterServiceVersion.",
    },
    Step {
        title: "Create a PrometheusJmxExporter",
        how: "In that project, create a ConfigMap with key `config.yaml` and text `rules: []`. Then, in the YAML view, \
            create a **PrometheusJmxExporter** with that ConfigMap, labels of Pods in `labelSelector`, and a free \
            `port`.",
        review: "Does the page of the PrometheusJmxExporter count JVMs that export?",
        help: "The page counts the JVMs that are left alone. `status.jvms.examples` says why, and what helps.",
    },
    Step {
        title: "Look at the metrics",
        how: "Run `oc port-forward POD 9400` in a terminal, and `curl localhost:9400/metrics` in another one.",
        review: "Does it print metrics?",
        help: "Condition `Degraded` says what is wrong and how to fix it.",
    },
];

const NUMBER: &[&str] = &["com.tectonic.ui:number"];

const FORM: &[Shown] = &[
    shown("labelSelector", "Labels of the Pods", &["com.tectonic.ui:selector:core:v1:Pod"]),
    shown("config", "Configuration", &[]),
    shown("config.configMapName", "ConfigMap", &["io.kubernetes:ConfigMap"]),
    shown("config.configMapKey", "Key", &[]),
    shown("port", "Port", NUMBER),
    shown("container", "Container", &[]),
    shown(
        "minFreeMemory",
        "Memory that a container must have left",
        &["com.tectonic.ui:select:64Mi", "com.tectonic.ui:select:96Mi", "com.tectonic.ui:select:128Mi"],
    ),
    shown("rollout", "Rollout", &[]),
    shown(
        "rollout.maxConcurrent",
        "JVMs to attach to at once, at most",
        &["com.tectonic.ui:select:1", "com.tectonic.ui:select:10%", "com.tectonic.ui:select:25%"],
    ),
    shown("rollout.canary", "Canaries", &[]),
    shown(
        "rollout.canary.pods",
        "How many are first",
        &["com.tectonic.ui:select:1", "com.tectonic.ui:select:5%", "com.tectonic.ui:select:10%"],
    ),
    shown("rollout.canary.soak", "How long they must have exported", &[]),
    shown("rollout.maxFailures", "JVMs that must fail to stop it", NUMBER),
    shown("rollout.windows", "When the operator can attach to JVMs", &[]),
    shown("rollout.blackouts", "When it attaches to none", &[]),
    shown("rollout.retry", "Try again what failed, with each new text", &[]),
    shown("rollout.paused", "Paused", &["com.tectonic.ui:booleanSwitch"]),
];

const PAGE: &[Shown] = &[
    shown("jvms.progress", "JVMs that export", &[]),
    shown("jvms.selected", "Selected JVMs", &[]),
    shown("jvms.waiting", "JVMs that wait", &[]),
    shown("jvms.refused", "JVMs that are left alone", &[]),
    shown("rollout.state", "Rollout", &[]),
    shown("rollout.startedAt", "Rollout began", &[]),
    shown("rollout.finishedAt", "Rollout ended", &[]),
    shown("rollout.failure", "Why the rollout failed", &[]),
    shown("conditions", "Conditions", &["io.kubernetes.conditions"]),
];

const EXPORTER: &str = "apiVersion: banzaicloud.com/v1alpha1
kind: PrometheusJmxExporter
metadata:
  name: example-prom-jmx-exp
  namespace: jmx-exporter
spec:
  labelSelector:
    app: dummyapp
  config:
    configMapName: prometheus-jmx-exporter-config
    configMapKey: config.yaml
  port: 9400
";
