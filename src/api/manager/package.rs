//! The package of kind Manager.
//!
//! Data only. Must not contain a right that nothing uses.

use kube::CustomResourceExt;

use super::Manager;
use crate::api::package::{
    Alert, Kind, Package, Panel, Rule, Sample, Shown, Step, Texts, Where, rivals_lease, rule, shown,
};

const NAME: &str = "tf-operator";

/// The row.
pub const PACKAGE: Package = Package {
    name: NAME,
    docs: "docs/manager.md",
    namespace: "contrail",
    since: "0.3.0",
    kinds: &[Kind {
        name: "Manager",
        plural: "managers",
        group: "contrail.juniper.net",
        crd: Manager::crd,
        resources: &[
            ("StatefulSet", "apps/v1"),
            ("DaemonSet", "apps/v1"),
            ("ConfigMap", "v1"),
            ("Secret", "v1"),
            ("Service", "v1"),
            ("PodDisruptionBudget", "policy/v1"),
            ("Pod", "v1"),
        ],
    }],
    run: &["run", "--kind", "manager"],
    // The programs of the stack have those from 8080 to 8089.
    host_port: Some(8484),
    is_proxy_aware: false,
    rules: RULES,
    reads: &[],
    accounts: &["tf-operator-components"],
    image_variable: None,
    own_image_variable: None,
    samples: &[Sample { file: "manager.yaml", title: "An OpenSDN control plane", yaml: include_str!("sample.yaml") }],
    companions: &[],
    extras: &[],
    alerts: ALERTS,
    panels: PANELS,
    texts: Texts {
        title: "Stack Operator",
        sentence: "Creates a whole stack, each component after those that it needs.",
        description: include_str!("description.md"),
        uninstall: "The stack continues without the operator. To have the objects of the Managers removed, delete the \
            Managers first. The volumes of stores stay.",
        keywords: &["stack", "order", "opensdn", "tungsten fabric", "network"],
        categories: "Networking",
        capabilities: "Basic Install",
        form: FORM,
        page: PAGE,
        tour: TOUR,
    },
};

const OWNED: &[&str] = &["create", "delete", "list", "patch", "watch"];

const RULES: &[Rule] = &[
    rule(
        Where::Watched,
        "contrail.juniper.net",
        "managers",
        &["list", "watch"],
        "follow the Managers; their spec is never written",
    ),
    rule(Where::Watched, "contrail.juniper.net", "managers/status", &["patch"], "write what the operator found"),
    Rule {
        consulted: &["create"],
        ..rule(Where::Watched, "apps", "statefulsets", OWNED, "create, keep and remove the servers of components")
    },
    Rule {
        consulted: &["create"],
        ..rule(Where::Watched, "apps", "daemonsets", OWNED, "create, keep and remove what runs on every node")
    },
    Rule {
        consulted: &["create"],
        ..rule(Where::Watched, "", "services", OWNED, "let others reach the servers of a component")
    },
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "policy",
            "poddisruptionbudgets",
            OWNED,
            "keep drains from taking two servers of a store",
        )
    },
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "",
            "configmaps",
            OWNED,
            "write the files of programs; read the templates that users replace",
        )
    },
    Rule {
        consulted: &["create"],
        ..rule(
            Where::Watched,
            "",
            "secrets",
            OWNED,
            "create the passwords of programs, and write the files that hold one",
        )
    },
    rule(
        Where::Watched,
        "",
        "pods",
        &["delete", "list", "watch"],
        "see which servers serve, and why others do not; replace those of an earlier template",
    ),
    rule(Where::Watched, "", "events", &["create"], "report every transition"),
    rule(Where::Cluster, "", "nodes", &["list", "watch"], "choose the nodes of servers"),
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
        name: "StackNotReady",
        expr: "max by (namespace, name) \
            (manager_condition{condition=\"Ready\",reason!=\"Held\",status=\"False\"}) == 1",
        lasts: "1h",
        summary: "Manager {{ $labels.namespace }}/{{ $labels.name }} has not been Ready for an hour.",
    },
    Alert {
        name: "StackNeedsAttention",
        expr: "max by (namespace, name, reason) (manager_condition{condition=\"Degraded\",status=\"True\"}) == 1",
        lasts: "15m",
        summary: "Manager {{ $labels.namespace }}/{{ $labels.name }} needs attention: {{ $labels.reason }}.",
    },
    Alert {
        name: "StackOperatorAway",
        expr: "absent(manager_leader == 1)",
        lasts: "15m",
        summary: "No Stack Operator is active: no component is created, and no changed object is restored.",
    },
];

const PANELS: &[Panel] = &[
    Panel {
        title: "Components by state",
        expr: "sum by (state) (manager_components)",
        legend: "{{state}}",
        unit: "short",
    },
    Panel {
        title: "Managers that need attention, and why",
        expr: "manager_condition{condition=\"Degraded\",status=\"True\"}",
        legend: "{{namespace}}/{{name}} {{reason}}",
        unit: "short",
    },
    Panel {
        title: "Reconciles that ended in an error, per minute",
        expr: "60 * sum(rate(manager_reconciles_total{result=\"error\"}[5m]))",
        legend: "errors",
        unit: "short",
    },
    Panel { title: "Active operators", expr: "sum(manager_leader)", legend: "operators", unit: "short" },
];

const TOUR: &[Step] = &[
    Step {
        title: "Install the operator",
        how: "Under **Operators**, find **Stack Operator** and choose **Install**. Select **A specific namespace \
            on the cluster**.",
        review: "Does **Installed Operators** say **Succeeded**?",
        help: "Read the conditions of the Subscription and of the ClusterServiceVersion.",
    },
    Step {
        title: "Provide volumes",
        how: "Create StorageClass `local-storage`, and a PersistentVolume of that class for each store on each node.",
        review: "Does **PersistentVolumes** list them as Available?",
        help: "See *Local volumes* in the Kubernetes documentation.",
    },
    Step {
        title: "Create a Manager",
        how: "In that project, create a **Manager** from the sample, with your images.",
        review: "Does its page count components that serve?",
        help: "`status.components` says what each component waits for.",
    },
];

const FORM: &[Shown] = &[
    shown("commonConfiguration", "Common configuration", &[]),
    shown("commonConfiguration.nodeSelector", "Labels of nodes", &["com.tectonic.ui:selector:core:v1:Node"]),
    shown("commonConfiguration.hostNetwork", "Use the network of the nodes", &["com.tectonic.ui:booleanSwitch"]),
    shown("commonConfiguration.replicas", "Servers", &["com.tectonic.ui:number"]),
    shown("commonConfiguration.imagePullSecrets", "Pull secrets", &[]),
    shown("commonConfiguration.keystoneSecretInstance", "Secret of the administrator", &["io.kubernetes:Secret"]),
    shown("commonConfiguration.tolerations", "Tolerations", &[]),
    shown("services", "Services", &[]),
    shown("certificates", "Certificates", &[]),
    shown("certificates.lifetime", "Lifetime of server certificates", &["com.tectonic.ui:text"]),
    shown("certificates.authorityLifetime", "Lifetime of their authority", &["com.tectonic.ui:text"]),
    shown("rollout", "Replacement of Pods", &[]),
    shown(
        "rollout.maxUnavailable",
        "Unavailable Pods of a component on every node, at most",
        &["com.tectonic.ui:select:1", "com.tectonic.ui:select:5%", "com.tectonic.ui:select:10%"],
    ),
    shown("rollout.windows", "When these Pods can be replaced", &[]),
    shown("rollout.blackouts", "When none of them is replaced", &[]),
    shown("rollout.paused", "Paused", &["com.tectonic.ui:booleanSwitch"]),
];

const PAGE: &[Shown] = &[
    shown("summary.progress", "Components that serve", &[]),
    shown("summary.waitingFor", "Waits for", &[]),
    shown("summary.components", "Components", &[]),
    shown("summary.starting", "Components that start", &[]),
    shown("summary.waiting", "Components that wait", &[]),
    shown("summary.failing", "Components that need attention", &[]),
    shown("conditions", "Conditions", &["io.kubernetes.conditions"]),
];
