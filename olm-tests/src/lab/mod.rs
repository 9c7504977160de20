//! A test's own corner of a cluster: a namespace, nodes, an environment, an operator that watches just that.
//!
//! Ends with a look at the audit log: no request of the operator's may have been forbidden.

mod config_watcher;
pub mod daemonset_rollout;
pub mod entries;
pub mod jmx_exporter;
pub mod manager;
mod oneagent;

pub use oneagent::{V1, V2, V3, version_of};

pub use crate::wait::{LONG, SOON, is_ready};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::api::package::{Package, Where};
use serde_json::{Value, json};

use crate::audit;
use crate::cluster::{Cluster, documents, repository};
use crate::eventually;
use crate::gate::Gate;
use crate::kubelet::Behaviour;
use crate::lint;
use crate::nodes::{self, Shape};
use crate::operator::{Operator, token};

/// A Lease that ends soon after its holder is killed, for tests in which a standby takes over.
pub const SHORT_LEASE: [(&str, &str); 2] = [("LEASE_DURATION", "30s"), ("LEASE_RENEW_DEADLINE", "25s")];

/// Namespaces of tests, by the folder of their cluster.
static TAKEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A test's corner.
pub struct Lab<'a> {
    pub cluster: &'a Cluster,
    /// The package whose operator runs here.
    pub package: &'static Package,
    /// Namespace, environment and node prefix.
    pub name: String,
    /// Names of its nodes.
    pub nodes: Vec<String>,
    pub operators: Vec<Operator>,
    /// What all of them printed, also those that have ended.
    logs: Vec<PathBuf>,
    /// How many Pods its operators stand for. One that starts after all others ended is the restarted container of the
    /// last Pod, and holds that Pod's Lease.
    pods: usize,
    /// When the API server itself was not ready, and forbade everything.
    pub unjudged: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Lab<'static> {
    /// A corner of the shared cluster with nodes and an operator.
    pub async fn new(name: &str, count: usize) -> Self {
        Lab::on(Cluster::shared().await, name, count).await
    }

    /// A corner of the shared cluster with nodes and the operator of another package.
    pub async fn of(package: &'static Package, name: &str, count: usize) -> Self {
        let mut lab = Lab::bare(Cluster::shared().await, package, name, count).await;
        lab.start_operator(&[]).await;
        lab
    }
}

impl<'a> Lab<'a> {
    /// A corner of a cluster, with an operator.
    pub async fn on(cluster: &'a Cluster, name: &str, count: usize) -> Self {
        let mut lab = Self::without_operator(cluster, name, count).await;
        lab.start_operator(&[]).await;
        lab
    }

    /// A corner of a cluster, without an operator.
    pub async fn without_operator(cluster: &'a Cluster, name: &str, count: usize) -> Self {
        Self::bare(cluster, &PACKAGE, name, count).await
    }

    /// A corner of a cluster for the operator of a package, without one.
    pub async fn bare(cluster: &'a Cluster, package: &'static Package, name: &str, count: usize) -> Self {
        let is_new = TAKEN.lock().expect("names").insert(cluster.path(name));
        assert!(is_new, "another test has namespace {name}: two operators in one would undo each other's work");
        cluster.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }).to_string());
        // Kubernetes does this, too, a moment later, and refuses Pods until then.
        let account = json!({ "name": "default", "namespace": name });
        cluster.apply(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": account }).to_string());
        cluster.apply(&rbac(package, name, name));
        Self::of_package(cluster, package, name, count).await
    }

    /// A corner in a namespace that is there, with whatever rights and operator others put into it.
    pub async fn in_namespace(cluster: &'a Cluster, name: &str, count: usize) -> Self {
        Self::of_package(cluster, &PACKAGE, name, count).await
    }

    async fn of_package(cluster: &'a Cluster, package: &'static Package, name: &str, count: usize) -> Self {
        let mut lab = Self {
            cluster,
            package,
            name: name.to_owned(),
            nodes: Vec::new(),
            operators: Vec::new(),
            logs: Vec::new(),
            pods: 0,
            unjudged: None,
        };
        if package.name == PACKAGE.name {
            lab.environment();
        }
        lab.add_nodes(count, &Shape::default()).await;
        lab
    }

    /// Gives its operator its rights in another namespace, too.
    pub fn grant(&self, namespace: &str) {
        let all = documents(&rbac(self.package, namespace, &self.name)).into_iter();
        let there = all.filter(|object| object["kind"] == "Role" || object["kind"] == "RoleBinding");
        there.for_each(|object| self.cluster.apply(&object.to_string()));
    }

    /// The rules of its operator's Role here.
    #[must_use]
    pub fn rights(&self) -> Value {
        let role = self.cluster.kubectl(&["-n", &self.name, "get", "role", self.package.name, "-o", "json"]);
        serde_json::from_str::<Value>(&role).expect("a Role")["rules"].clone()
    }

    /// Gives its operator just these.
    pub fn set_rights(&self, rules: &Value) {
        let patch = json!({ "rules": rules }).to_string();
        let role = ["-n", &self.name, "patch", "role", self.package.name, "--type=merge", "-p", &patch];
        self.cluster.kubectl(&role);
    }

    /// Starts one operator more, with settings fit for a test and `extra` on top.
    pub async fn start_operator(&mut self, extra: &[(&str, &str)]) {
        let number = self.logs.len();
        if self.pods == 0 || self.operators.iter_mut().any(|operator| operator.process.ended().is_none()) {
            self.pods += 1;
        }
        let pod = format!("{}-operator-{}", self.name, self.pods - 1);
        let file = self.cluster.path(&format!("{}.token", self.name));
        std::fs::write(&file, token(&self.cluster.client, &self.name, self.package.name, None).await)
            .expect("a token file");
        let kubeconfig = self.cluster.plane.lock().await.token_kubeconfig(&file);
        let process = format!("{}-operator-{number}", self.name);
        let mut env: Vec<(String, String)> = [
            ("WATCH_NAMESPACE", self.name.as_str()),
            ("POD_NAMESPACE", &self.name),
            ("POD_NAME", &pod),
            ("POD_UID", &pod),
            ("POLL_INTERVAL", "500ms"),
            ("SLOW_POLL_INTERVAL", "1s"),
            ("HOSTS_POLL_INTERVAL", "1s"),
            ("VENDOR_TIMEOUT", "2s"),
            ("DISCOVERY_INTERVAL", "1s"),
            ("LEASE_RETRY_PERIOD", "1s"),
        ]
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
        env.extend(extra.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let operator = Operator::start(&self.cluster.path(""), &process, self.package.run, &kubeconfig, &env);
        self.logs.push(operator.log.clone());
        self.operators.push(operator);
    }

    /// The same for one that sees the API server through a gate.
    pub async fn start_operator_behind_a_gate(&mut self) -> Gate {
        let admin = Kubeconfig::read_from(self.cluster.path("admin.kubeconfig")).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(admin, &KubeConfigOptions::default()).await;
        let gate = Gate::before(config.expect("a configuration")).await;
        let token = self.cluster.path(&format!("{}.token", self.name));
        let file = self.cluster.plane.lock().await.token_kubeconfig(&token);
        let server = file.lines().find_map(|line| line.trim().strip_prefix("server: ")).expect("a server").to_owned();
        let path = self.cluster.path(&format!("{}.gate", self.name));
        std::fs::write(&path, file.replace(&server, &gate.url())).expect("a kubeconfig");
        self.start_operator(&[("KUBECONFIG", &path.display().to_string())]).await;
        gate
    }

    /// Adds nodes with the label that this lab's OneAgents select.
    pub async fn add_nodes(&mut self, count: usize, shape: &Shape) -> Vec<String> {
        let shape = shape.clone().label("lab", &self.name);
        let first = self.nodes.len();
        let names: Vec<String> = (first..first + count).map(|i| format!("{}-{i:04}", self.name)).collect();
        nodes::create(&self.cluster.client, names.iter().map(|name| nodes::node(name, &shape)).collect()).await;
        self.nodes.extend(names.clone());
        names
    }

    /// Changes how its Pods behave.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        self.cluster.kubelet.behave(&self.name, change);
    }

    /// The address of a node.
    pub async fn ip(&self, node: &str) -> String {
        let node = Api::<Node>::all(self.cluster.client.clone()).get(node).await.expect("a Node");
        let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
        addresses.into_iter().find(|a| a.type_ == "InternalIP").expect("an address").address
    }

    /// Requests of its operator, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<audit::Request> {
        audit::requests(&self.cluster.path("audit.log"), &self.name, self.package.name)
    }

    /// What its operator wrote, except for its Lease: verb and resource, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        let all = self.requests().into_iter();
        let writes = all.filter(|one| ["patch", "create", "update", "delete"].contains(&&*one.verb));
        writes.filter(|one| one.resource != "leases").map(|one| format!("{} {}", one.verb, one.resource)).collect()
    }

    /// Grants the operator what a file of its package has, in this namespace.
    pub fn grant_extra(&self, file: &str) {
        self.cluster.apply(&rights(file, self.package, &self.name, &self.name));
    }

    /// Waits until nothing is written any more, and then for a minute in which nothing is. Returns all writes.
    pub async fn rests(&self) -> Vec<String> {
        let mut before = self.writes();
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let now = self.writes();
            if now == std::mem::replace(&mut before, now.clone()) {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(self.writes(), before, "nothing changed");
        before
    }

    /// Rights of the package in its namespaces that its operator has not used so far, each with group and verb.
    #[must_use]
    pub fn unused_rights(&self) -> Vec<(String, String, String)> {
        let used: BTreeSet<(String, String, String)> =
            self.requests().into_iter().map(|r| (r.group, r.resource, r.verb)).collect();
        let namespaced = self.package.rules.iter().filter(|rule| rule.scope != Where::Cluster);
        let asked = namespaced.flat_map(|rule| {
            let shown = rule.verbs.iter().filter(|verb| !rule.consulted.contains(verb));
            shown.map(|verb| (rule.group.to_owned(), rule.resource.to_owned(), (*verb).to_owned()))
        });
        asked.filter(|right| !used.contains(right)).collect()
    }

    /// Another client writes the lease, and the operator reads it.
    pub async fn touch_lease(&self) {
        self.cluster.kubectl(&["-n", &self.name, "label", "lease", self.package.name, "touched=yes"]);
        eventually("the lease is read", SOON, || async {
            let is_it = |r: &audit::Request| r.resource == "leases" && r.verb == "get";
            if self.requests().iter().any(is_it) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }

    /// Ends the operators, checks that nothing was forbidden and no token was shown, and cleans up.
    pub async fn end(mut self) {
        let logs: Vec<String> = self.operators.iter().map(Operator::printed).collect();
        // What a dead operator did not do proves nothing. Without an API server, or without rights, it may end.
        for operator in self.operators.iter_mut().filter(|_| self.unjudged.is_none()) {
            let died = operator.process.died();
            assert!(died.is_none(), "{}: {died:?} by itself:\n{}", self.name, operator.printed());
        }
        self.operators.clear();
        let judged = |r: &audit::Request| match (self.unjudged, DateTime::parse_from_rfc3339(&r.at)) {
            (Some((from, to)), Ok(at)) => at < from || at > to,
            _ => true,
        };
        let requests: Vec<_> = self.requests().into_iter().filter(judged).collect();
        let forbidden = audit::forbidden(&requests);
        assert!(forbidden.is_empty(), "{}: the operator was forbidden: {forbidden:?}", self.name);
        for log in logs {
            assert!(!log.contains("SECRETAPI") && !log.contains("SECRETPAAS"), "{}: a token is in the log", self.name);
            assert!(!log.contains("panicked"), "{}: the operator panicked:\n{log}", self.name);
            assert!(!log.contains("a defect"), "{}: the operator noticed a defect of its own:\n{log}", self.name);
        }
        if self.unjudged.is_none() {
            let faults = self.faults().await;
            assert!(faults.is_empty(), "{}: what the operator says: {faults:#?}", self.name);
        }
        self.clear().await;
        nodes::delete(&self.cluster.client, &self.nodes).await;
    }

    /// What is wrong with what was told, in Events and in the last statuses.
    async fn faults(&self) -> Vec<String> {
        let client = || self.cluster.client.clone();
        let mut found = Vec::new();
        let events: Api<Event> = Api::namespaced(client(), &self.name);
        let of_us = |event: &Event| event.reporting_component.as_deref() == Some(self.package.name);
        let events = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for event in events.into_iter().filter(of_us) {
            found.extend(lint::of_event(&event.message.unwrap_or_default()));
        }
        for kind in self.package.kinds {
            let of = ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(kind.group, "v1alpha1", kind.name),
                kind.plural,
            );
            let objects: Api<DynamicObject> = Api::namespaced_with(client(), &self.name, &of);
            let objects = objects.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            found.extend(objects.iter().flat_map(|object| lint::of_status(&object.data["status"])));
        }
        found
    }

    /// Takes away what others would be kept busy by. The namespace stays: its end would cost some seventy requests and
    /// one for each of its Events.
    async fn clear(&self) {
        let all = ListParams::default();
        let (workloads, at_once) = (DeleteParams::background(), DeleteParams::default().grace_period(0));
        let client = || self.cluster.client.clone();
        let _ = Api::<DaemonSet>::namespaced(client(), &self.name).delete_collection(&workloads, &all).await;
        let _ = Api::<Deployment>::namespaced(client(), &self.name).delete_collection(&workloads, &all).await;
        let _ = Api::<StatefulSet>::namespaced(client(), &self.name).delete_collection(&workloads, &all).await;
        let _ = Api::<Pod>::namespaced(client(), &self.name).delete_collection(&at_once, &all).await;
    }
}

impl Drop for Lab<'_> {
    /// A test that failed says what its operators said last.
    fn drop(&mut self) {
        for log in self.logs.iter().filter(|_| std::thread::panicking()) {
            eprintln!("--- the end of {}\n{}", log.display(), crate::control_plane::tail(log));
        }
    }
}

/// A package's `rbac.yaml` for another namespace, and for an operator that lives in `home`.
fn rbac(package: &Package, namespace: &str, home: &str) -> String {
    rights("rbac.yaml", package, namespace, home)
}

/// The same of another of its files.
fn rights(file: &str, package: &Package, namespace: &str, home: &str) -> String {
    let text = std::fs::read_to_string(repository(&format!("config/{}/{file}", package.name)))
        .expect("a file of rights; run `make generate`");
    let mut all = String::new();
    for mut document in documents(&text) {
        let cluster_wide = document["metadata"].get("namespace").is_none();
        if !cluster_wide {
            document["metadata"]["namespace"] = namespace.into();
        } else if document["kind"] == "ClusterRoleBinding" {
            document["metadata"]["name"] = format!("{}-{namespace}", package.name).into();
        }
        if let Some(subjects) = document.get_mut("subjects").and_then(Value::as_array_mut) {
            for subject in subjects {
                subject["namespace"] = home.into();
            }
        }
        all.push_str("---\n");
        all.push_str(&document.to_string());
        all.push('\n');
    }
    all
}
