//! A test's own corner of a cluster: a namespace, nodes, an environment, an operator that watches just that.
//!
//! Ends with a look at the audit log: no request of the operator's may have been forbidden.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use oneagent_operator::api::oneagent::{OneAgent, OneAgentStatus};
use serde_json::{Value, json};

use crate::cluster::{Cluster, documents, repository};
use crate::kubelet::Behaviour;
use crate::nodes::{self, Shape};
use crate::operator::{Operator, token};
use crate::vendor::{api_token, paas_token};
use crate::{audit, eventually};

/// Versions in their order.
pub const V1: &str = "1.300.10.20250101-100000";
/// Newer.
pub const V2: &str = "1.301.20.20250201-100000";
/// Newer still.
pub const V3: &str = "1.302.30.20250301-100000";

/// How long a test waits for what should take a moment.
pub const SOON: Duration = Duration::from_secs(30);

/// A test's corner.
pub struct Lab<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Namespace, environment and node prefix.
    pub name: String,
    /// Names of its nodes.
    pub nodes: Vec<String>,
    /// Its operators.
    pub operators: Vec<Operator>,
    /// When the API server itself was not ready, and forbade everything.
    pub unjudged: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Lab<'static> {
    /// A corner of the shared cluster with nodes and an operator.
    pub async fn new(name: &str, count: usize) -> Self {
        Lab::on(Cluster::shared().await, name, count).await
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
        cluster.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }).to_string());
        cluster.apply(&rbac(name));
        Self::in_namespace(cluster, name, count).await
    }

    /// A corner in a namespace that is there, with whatever rights and operator others put into it.
    pub async fn in_namespace(cluster: &'a Cluster, name: &str, count: usize) -> Self {
        let mut lab = Self { cluster, name: name.to_owned(), nodes: Vec::new(), operators: Vec::new(), unjudged: None };
        cluster.vendor.add(name, V1);
        lab.secret(&api_token(name), &paas_token(name));
        lab.add_nodes(count, &Shape::default()).await;
        lab
    }

    /// Starts one operator more, with settings fit for a test and `extra` on top.
    pub async fn start_operator(&mut self, extra: &[(&str, &str)]) {
        let number = self.operators.len();
        let file = self.cluster.path(&format!("{}.token", self.name));
        std::fs::write(&file, token(&self.cluster.client, &self.name, "oneagent-operator", None).await).expect("a token file");
        let kubeconfig = self.cluster.plane.lock().await.token_kubeconfig(&file);
        let process = format!("{}-operator-{number}", self.name);
        let mut env: Vec<(String, String)> = [
            ("WATCH_NAMESPACE", self.name.as_str()),
            ("POD_NAMESPACE", &self.name),
            ("POD_NAME", &process),
            ("POLL_INTERVAL", "500ms"),
            ("SLOW_POLL_INTERVAL", "1s"),
            ("HOSTS_POLL_INTERVAL", "1s"),
            ("VENDOR_TIMEOUT", "2s"),
            ("DISCOVERY_INTERVAL", "1s"),
            ("LEASE_DURATION", "5s"),
            ("LEASE_RENEW_DEADLINE", "3s"),
            ("LEASE_RETRY_PERIOD", "1s"),
        ]
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
        env.extend(extra.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        self.operators.push(Operator::start(&self.cluster.path(""), &process, &kubeconfig, &env));
    }

    /// Writes the Secret with the tokens.
    pub fn secret(&self, api: &str, paas: &str) {
        self.cluster.apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tokens", "namespace": self.name }, "stringData": { "apiToken": api, "paasToken": paas } }).to_string());
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

    /// Applies a OneAgent named `agent` on this lab's nodes, with `spec` on top.
    pub fn oneagent(&self, spec: &Value) {
        self.oneagent_named("agent", spec);
    }

    /// The same with a name.
    pub fn oneagent_named(&self, name: &str, spec: &Value) {
        let mut whole = json!({ "apiUrl": self.cluster.vendor.url(&self.name), "tokens": "tokens", "nodeSelector": { "lab": self.name } });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        self.cluster.apply(&json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent", "metadata": { "name": name, "namespace": self.name }, "spec": whole }).to_string());
    }

    /// The OneAgents.
    #[must_use]
    pub fn agents(&self) -> Api<OneAgent> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Merges into a OneAgent's spec.
    pub async fn edit(&self, name: &str, spec: Value) {
        self.agents().patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.expect("a OneAgent is changed");
    }

    /// The status of a OneAgent.
    pub async fn status(&self, name: &str) -> OneAgentStatus {
        self.agents().get(name).await.ok().and_then(|a| a.status).unwrap_or_default()
    }

    /// A DaemonSet.
    pub async fn daemonset(&self, name: &str) -> Option<DaemonSet> {
        Api::<DaemonSet>::namespaced(self.cluster.client.clone(), &self.name).get_opt(name).await.expect("an answer")
    }

    /// The agents' Pods that are not being deleted, by node.
    pub async fn pods(&self, name: &str) -> BTreeMap<String, Pod> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let list = api.list(&ListParams::default().labels(&format!("oneagent={name}"))).await.expect("Pods");
        list.items
            .into_iter()
            .filter(|p| p.metadata.deletion_timestamp.is_none())
            .filter_map(|p| Some((p.spec.as_ref()?.node_name.clone()?, p)))
            .collect()
    }

    /// UIDs of the Pods by node.
    pub async fn uids(&self, name: &str) -> BTreeMap<String, String> {
        self.pods(name).await.into_iter().map(|(node, pod)| (node, pod.uid().unwrap_or_default())).collect()
    }

    /// Waits until a condition of a OneAgent has a status and a reason; returns its message.
    pub async fn condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.condition_within(SOON, name, type_, status, reason).await
    }

    /// The same with a time.
    pub async fn condition_within(&self, within: Duration, name: &str, type_: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{}/{name} has {type_}={status}/{reason}", self.name), within, || async {
            let now = self.status(name).await;
            match now.conditions.iter().find(|c| c.type_ == type_) {
                Some(c) if c.status == status && c.reason == reason => Ok(c.message.clone()),
                _ => Err(format!("{:#?}\n{}", now.conditions, self.last_words())),
            }
        })
        .await
    }

    /// Waits until a condition of a OneAgent says something.
    pub async fn says(&self, name: &str, type_: &str, words: &str) -> String {
        eventually(&format!("{}/{name} says in {type_}: {words}", self.name), SOON, || async {
            let now = self.status(name).await;
            let said = now.conditions.iter().find(|c| c.type_ == type_ && c.message.contains(words));
            said.map(|c| c.message.clone()).ok_or_else(|| format!("{:#?}\n{}", now.conditions, self.last_words()))
        })
        .await
    }

    /// Waits until every selected node runs `version`, as the API server has it, and the status agrees.
    pub async fn all_at(&self, name: &str, version: &str, count: usize, within: Duration) {
        eventually(&format!("{count} agents of {}/{name} at {version}", self.name), within, || async {
            let pods = self.pods(name).await;
            let good = pods.values().filter(|p| version_of(p).as_deref() == Some(version) && is_ready(p)).count();
            let status = self.status(name).await;
            let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            if good == count && pods.len() == count && ready && status.desired_version.as_deref() == Some(version) {
                return Ok(());
            }
            Err(format!("{good} of {} Pods; {:?}; {:#?}\n{}", pods.len(), status.nodes, status.conditions, self.last_words()))
        })
        .await;
    }

    /// Waits until the operator has looked at a OneAgent as it is now.
    pub async fn is_observed(&self, name: &str) {
        let wanted = self.agents().get(name).await.expect("a OneAgent").metadata.generation;
        eventually("the last edit is observed", SOON, || async {
            let now = self.status(name).await.observed_generation;
            if now == wanted { Ok(()) } else { Err(format!("{now:?} of {wanted:?}\n{}", self.last_words())) }
        })
        .await;
    }

    /// Waits until the environment was asked for its newest version twice more: what it says now is known.
    pub async fn is_polled(&self) {
        let path = "/v1/deployment/installer/agent/unix/default/latest/metainfo";
        let asked = || self.cluster.vendor.with(&self.name, |e| e.calls.get(path).copied().unwrap_or_default());
        let before = asked();
        eventually("the environment is asked", SOON, || async { if asked() >= before + 2 { Ok(()) } else { Err(self.last_words()) } }).await;
    }

    /// The address of a node.
    pub async fn ip(&self, node: &str) -> String {
        let node = Api::<Node>::all(self.cluster.client.clone()).get(node).await.expect("a Node");
        let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
        addresses.into_iter().find(|a| a.type_ == "InternalIP").expect("an address").address
    }

    /// Waits until the nodes with an agent are noted.
    pub async fn is_noted(&self, name: &str) {
        eventually("the nodes are noted", SOON, || async {
            self.cluster.try_kubectl(&["-n", &self.name, "get", "configmap", &format!("{name}-known-nodes")], None).map(drop)
        })
        .await;
    }

    /// Waits until at least so many agents are at a version.
    pub async fn reached(&self, name: &str, version: &str, at_least: usize) {
        eventually(&format!("{at_least} agents at {version}"), SOON, || async {
            let count = self.pods(name).await.values().filter(|p| version_of(p).as_deref() == Some(version)).count();
            if count >= at_least { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
    }

    /// Waits until so many Pods are Ready, whatever the status says.
    pub async fn all_pods_ready(&self, name: &str, count: usize) {
        eventually(&format!("{count} Ready agents of {}/{name}", self.name), SOON, || async {
            let ready = self.pods(name).await.values().filter(|p| is_ready(p)).count();
            if ready == count { Ok(()) } else { Err(format!("{ready}\n{}", self.last_words())) }
        })
        .await;
    }

    /// Waits until there are agents on just these nodes.
    pub async fn pods_are(&self, name: &str, nodes: &[String]) {
        let wanted: Vec<&String> = nodes.iter().collect();
        eventually(&format!("agents of {}/{name} on {nodes:?}", self.name), SOON, || async {
            let pods = self.pods(name).await;
            let mut have: Vec<&String> = pods.keys().collect();
            have.sort();
            let mut wanted = wanted.clone();
            wanted.sort();
            if have == wanted { Ok(()) } else { Err(format!("on {have:?}")) }
        })
        .await;
    }

    /// Events about a OneAgent: reasons.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let list =
            api.list(&ListParams::default().fields(&format!("involvedObject.kind=OneAgent,involvedObject.name={name}"))).await.expect("Events");
        list.items
            .into_iter()
            .map(|e| format!("{} {}: {}", e.type_.unwrap_or_default(), e.reason.unwrap_or_default(), e.message.unwrap_or_default()))
            .collect()
    }

    /// The last lines that the operators printed.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.operators.iter().map(|o| crate::control_plane::tail(&o.log)).collect::<Vec<_>>().join("\n---\n")
    }

    /// Requests of its operator, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<audit::Request> {
        audit::requests(&self.cluster.path("audit.log"), &self.name)
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
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.cluster.client.clone());
        let _ = namespaces.delete(&self.name, &DeleteParams::default()).await;
        nodes::delete(&self.cluster.client, &self.nodes).await;
    }
}

/// `config/oneagent-operator/rbac.yaml` for another namespace.
fn rbac(namespace: &str) -> String {
    let text =
        std::fs::read_to_string(repository("config/oneagent-operator/rbac.yaml")).expect("config/oneagent-operator/rbac.yaml; run `make generate`");
    let mut all = String::new();
    for mut document in documents(&text) {
        let cluster_wide = document["metadata"].get("namespace").is_none();
        if !cluster_wide {
            document["metadata"]["namespace"] = namespace.into();
        } else if document["kind"] == "ClusterRoleBinding" {
            document["metadata"]["name"] = format!("oneagent-operator-{namespace}").into();
        }
        if let Some(subjects) = document.get_mut("subjects").and_then(Value::as_array_mut) {
            for subject in subjects {
                subject["namespace"] = namespace.into();
            }
        }
        all.push_str("---\n");
        all.push_str(&document.to_string());
        all.push('\n');
    }
    all
}

/// Whether a Pod is Ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none() && conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// The version that a Pod was made from.
#[must_use]
pub fn version_of(pod: &Pod) -> Option<String> {
    pod.annotations().get("oneagent.dynatrace.com/agent-version").cloned()
}
