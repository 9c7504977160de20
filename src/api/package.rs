//! Packages: everything that a generator, and the program itself, must know of an OLM package, as one row.
//!
//! Each kind is a package of its own, with just its rights, from one source, binary and image. Data only: must not make
//! anything of it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// A package.
#[derive(Debug)]
pub struct Package {
    /// Its name, and that of its Deployment, ServiceAccount, roles, Lease, field manager, Event source and stop
    /// ConfigMap.
    pub name: &'static str,
    /// Its page of the documentation, below the repository.
    pub docs: &'static str,
    /// Namespace that every recipe names.
    pub namespace: &'static str,
    /// The release in which it came.
    pub since: &'static str,
    /// The kinds that it serves; the first is the one that `run --kind` names.
    pub kinds: &'static [Kind],
    /// The operator's arguments.
    pub run: &'static [&'static str],
    /// Where its operator listens on the network of its node, if it runs there: it starts before Pods have a network.
    /// Secure metrics have the next port.
    pub host_port: Option<u16>,
    /// Whether its calls to others than the API server go through the proxy that OLM names.
    pub is_proxy_aware: bool,
    /// Its rights.
    pub rules: &'static [Rule],
    /// What the program's commands read beside the kinds, with the rights of the person who types them: group and
    /// resources. No Secrets, and nothing that runs a command in a Pod.
    pub reads: &'static [(&'static str, &'static [&'static str])],
    /// ServiceAccounts of the Pods that it makes, which may use the SCC `privileged`.
    pub accounts: &'static [&'static str],
    /// Variable in which the release names the image of these Pods.
    pub image_variable: Option<&'static str>,
    /// Variable in which the operator is told its own image: containers that it adds to Pods run it.
    pub own_image_variable: Option<&'static str>,
    /// Objects that work once their placeholders are filled in, the smallest first.
    pub samples: &'static [Sample],
    /// What samples want to be tried with; objects that are not of its kinds.
    pub companions: &'static [Sample],
    /// What an administrator may also apply, in special cases.
    pub extras: &'static [Sample],
    /// What an administrator should be told by the cluster's monitoring.
    pub alerts: &'static [Alert],
    /// What its dashboards draw.
    pub panels: &'static [Panel],
    /// What people read.
    pub texts: Texts,
}

/// An alert: only for what a person must do.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// Its name, and that of its section in the runbooks.
    pub name: &'static str,
    /// When it is one, in PromQL.
    pub expr: &'static str,
    /// For how long that must last.
    pub lasts: &'static str,
    /// The sentence, as a template of Prometheus.
    pub summary: &'static str,
}

/// A graph of a dashboard.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    /// The text above it.
    pub title: &'static str,
    /// What is drawn, in PromQL.
    pub expr: &'static str,
    /// What a line is called, with the labels as a template of Grafana.
    pub legend: &'static str,
    /// Grafana's name of the unit.
    pub unit: &'static str,
}

/// What people read of a package.
#[derive(Debug)]
pub struct Texts {
    /// Its name for people.
    pub title: &'static str,
    /// Its sentence.
    pub sentence: &'static str,
    /// Its page on OperatorHub, in Markdown.
    pub description: &'static str,
    /// What to know before it is removed.
    pub uninstall: &'static str,
    /// Words to find it by.
    pub keywords: &'static [&'static str],
    /// OperatorHub's categories.
    pub categories: &'static str,
    /// OperatorHub's level of maturity.
    pub capabilities: &'static str,
    /// The OpenShift console's form for the first kind: every field of its spec, in the order of the form.
    pub form: &'static [Shown],
    /// What the console's page of such an object shows of its status.
    pub page: &'static [Shown],
    /// The OpenShift console's tour through the first minutes.
    pub tour: &'static [Step],
}

/// A step of the tour; every text is Markdown.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What is done.
    pub title: &'static str,
    /// How.
    pub how: &'static str,
    /// How one sees that it is done.
    pub review: &'static str,
    /// What to look at if it is not.
    pub help: &'static str,
}

/// A field as the OpenShift console shows it.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Its path below `spec` or `status`.
    pub path: &'static str,
    /// The text before it.
    pub title: &'static str,
    /// The console's widgets for it; without one it is drawn as its schema says.
    pub widgets: &'static [&'static str],
    /// Whether the form hides it behind "advanced".
    pub advanced: bool,
}

/// A field that the form shows at once, or the page.
#[must_use]
pub const fn shown(path: &'static str, title: &'static str, widgets: &'static [&'static str]) -> Shown {
    Shown { path, title, widgets, advanced: false }
}

/// A field behind "advanced".
#[must_use]
pub const fn advanced(path: &'static str, title: &'static str, widgets: &'static [&'static str]) -> Shown {
    Shown { advanced: true, ..shown(path, title, widgets) }
}

/// A kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its plural, as in RBAC rules.
    pub plural: &'static str,
    /// Its group.
    pub group: &'static str,
    /// Its CRD, as derived.
    pub crd: fn() -> CustomResourceDefinition,
    /// Kinds of the objects that belong to one, with their API version.
    pub resources: &'static [(&'static str, &'static str)],
}

/// A sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Name of its file.
    pub file: &'static str,
    /// What the console calls it; its comment says the rest.
    pub title: &'static str,
    /// Its content.
    pub yaml: &'static str,
}

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
    /// Verbs that the API server asks about while it serves another (an apply that creates is a patch that needs
    /// create; admission asks for delete when owner references change): no request of ours shows them.
    pub consulted: &'static [&'static str],
}

/// A rule about all objects, whose verbs all show in requests.
#[must_use]
pub const fn rule(
    scope: Where,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { scope, group, resource, verbs, name: None, why, consulted: &[] }
}

/// The right by which every package sees another installation of itself; `name`: the package's.
#[must_use]
pub const fn rivals_lease(name: &'static str) -> Rule {
    Rule {
        name: Some(name),
        ..rule(
            Where::Cluster,
            "coordination.k8s.io",
            "leases",
            &["get"],
            "see whether another installation, which operated an object of a watched namespace, has ended",
        )
    }
}
