//! What a test does with Managers in its corner, and what it waits for.
//!
//! Must not judge what the operator says but by the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use oneagent_operator::api::manager::package::PACKAGE;
use oneagent_operator::api::manager::{Manager, ManagerStatus};
use serde_json::{Value, json};

use super::entries::{has_real_programs, real_rabbitmq, real_zookeeper, service};
use super::{LONG, Lab, SOON, is_ready};
use crate::cluster::{Cluster, documents};
use crate::eventually;
use crate::kubelet::Fault;
use crate::nodes::Shape;
use crate::operator::beside;
use crate::sandbox::{Sandbox, on_machine, persistent};

/// Labels of the nodes of a stack; here with the lab's name, for nodes are shared.
const MASTER: &str = "node-role.kubernetes.io/master";
const WORKER: &str = "node-role.kubernetes.io/worker";
/// How much room each volume has.
const ROOM: &str = "10Gi";

/// Gives nodes volumes for three stores each.
pub fn volumes(cluster: &Cluster, nodes: &[String]) {
    let class = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": "local-storage" }, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer" });
    cluster.apply(&class.to_string());
    for (node, number) in nodes.iter().flat_map(|node| (0..3).map(move |number| (node, number))) {
        let of_node = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
        let volume = json!({ "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": format!("{node}-{number}") },
            "spec": { "capacity": { "storage": ROOM }, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local-storage", "local": { "path": format!("/var/lib/{number}") },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [of_node] }] } } } });
        cluster.apply(&volume.to_string());
    }
}

/// Gives nodes networks, in which Pods of real programs run.
pub async fn networks(cluster: &Cluster, nodes: &[String]) {
    let api: Api<Node> = Api::all(cluster.client.clone());
    for node in nodes {
        let name = node.clone();
        let sandbox = tokio::task::spawn_blocking(move || Sandbox::on_node(&name)).await.expect("a network");
        let address = json!({ "type": "InternalIP", "address": sandbox.address.to_string() });
        let status = Patch::Merge(json!({ "status": { "addresses": [address] } }));
        api.patch_status(node, &PatchParams::default(), &status).await.expect("a Node");
    }
}

/// The claim of a server.
fn claim(pod: &Pod) -> String {
    format!("data-{}", pod.name_any())
}

impl Lab<'static> {
    /// A corner of the shared cluster with masters, workers, volumes for three stores on each master, and the operator.
    pub async fn of_stacks(name: &str, masters: usize, workers: usize) -> Self {
        let mut lab = Lab::bare(Cluster::shared().await, &PACKAGE, name, 0).await;
        lab.add_masters(masters).await;
        lab.add_nodes(workers, &Shape::default().label(WORKER, name)).await;
        lab.start_operator(&[]).await;
        lab
    }
}

impl Lab<'static> {
    /// The same, with masters alone whose Pods run for real, each in its node's network.
    pub async fn of_real_stacks(name: &str, masters: usize) -> Self {
        let mut lab = Lab::of_stacks(name, 0, 0).await;
        lab.add_real_masters(masters).await;
        lab
    }
}

impl Lab<'_> {
    /// Adds masters with networks.
    pub async fn add_real_masters(&mut self, count: usize) {
        let nodes = self.add_masters(count).await;
        networks(self.cluster, &nodes).await;
    }

    /// A Manager of real ZooKeeper servers.
    #[must_use]
    pub fn real_stack(&self) -> Value {
        self.stack_of(json!({ "zookeepers": [service("zookeeper1", &real_zookeeper())] }))
    }

    /// A Manager of real RabbitMQ servers.
    #[must_use]
    pub fn real_queue(&self) -> Value {
        self.stack_of(json!({ "rabbitmq": service("rabbitmq1", &real_rabbitmq()) }))
    }

    /// The sample, with programs of the rig: its stores, Redis, BIND and dnsmasq are real, the others stand-ins.
    #[must_use]
    pub fn real_opensdn(&self) -> Value {
        let mut stack = self.stack();
        has_real_programs(&mut stack);
        stack
    }

    /// A Manager of these services.
    #[must_use]
    pub fn stack_of(&self, services: Value) -> Value {
        let mut stack = self.stack();
        stack["spec"]["services"] = services;
        stack
    }

    /// What a server answers to one who has a component's certificates.
    pub async fn ask(&self, component: &str, address: &str, words: &[&str]) -> Result<String, String> {
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let folder = self.cluster.path(&format!("{}-{component}", self.name));
        std::fs::create_dir_all(&folder).expect("a folder");
        let own = secrets.get(&format!("{component}-secret-certificates")).await.expect("certificates");
        let mut bundles = maps.list(&ListParams::default()).await.expect("ConfigMaps").items;
        bundles.retain(|map| map.data.as_ref().is_some_and(|data| data.contains_key("ca-bundle.crt")));
        let all = bundles.pop().and_then(|map| map.data).expect("authorities");
        let files = own.data.expect("data").into_iter().map(|(name, bytes)| (name, bytes.0));
        for (name, bytes) in files.chain(all.into_iter().map(|(name, text)| (name, text.into_bytes()))) {
            std::fs::write(folder.join(name), bytes).expect("a file");
        }
        let (program, folder) = (beside("peer").display().to_string(), folder.display().to_string());
        let (server, _) = address.rsplit_once(':').expect("an address and a port");
        let ask = ["timeout", "40", "bash", "-c", "exec -a ask \"$@\"", "ask", &program, &folder, server, address];
        let words: Vec<String> = ask.iter().chain(words).map(|&word| word.to_owned()).collect();
        let asked =
            tokio::task::spawn_blocking(move || on_machine(&words.iter().map(String::as_str).collect::<Vec<_>>()));
        asked.await.expect("an answer")
    }

    /// The files that a Pod's programs read, by name.
    pub async fn files(&self, pod: &Pod) -> BTreeMap<String, String> {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let files = volumes.filter(|volume| volume.name == "files");
        let sources: Vec<_> = files.flat_map(|volume| volume.projected.iter()).cloned().collect();
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let mut all = BTreeMap::new();
        for source in sources.into_iter().flat_map(|projected| projected.sources.unwrap_or_default()) {
            if let Some(map) = source.config_map {
                all.extend(maps.get(&map.name).await.expect("files").data.unwrap_or_default());
            }
            if let Some(secret) = source.secret {
                let data = secrets.get(&secret.name).await.expect("files").data.unwrap_or_default();
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
                all.extend(data.into_iter().map(|(name, bytes)| (name, text(bytes.0))));
            }
        }
        let own = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let of_own =
            |(name, text): (String, String)| Some((name.strip_suffix(&own)?.strip_suffix('.')?.to_owned(), text));
        all.into_iter().filter_map(of_own).collect()
    }

    /// What a program prints in a container, where a script runs it.
    pub async fn shell(&self, pod: &Pod, container: &str, script: &str) -> Result<String, String> {
        let words = ["bash", "-c", script].map(str::to_owned);
        let command =
            self.cluster.kubelet.real.with(pod, container, |container| container.command(&words, 120)).flatten();
        let mut command = command.ok_or("it does not run")?;
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("an answer");
        let output = output.map_err(|why| why.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Kills all Pods of the stack at once, and the operator, too; waits until other Pods are Ready, and starts another
    /// operator with these variables.
    pub async fn replaces_all(&mut self, variables: &[(&str, &str)]) {
        self.operators.clear();
        let all = self.stack_pods().await;
        let before: Vec<_> = all.iter().map(ResourceExt::uid).collect();
        for pod in &all {
            self.kill(pod).await;
        }
        eventually("other Pods are Ready", LONG, || async {
            let now = self.stack_pods().await;
            let are_new = now.iter().all(|pod| !before.contains(&pod.uid()) && is_ready(pod));
            let names = || now.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
            if now.len() == before.len() && are_new { Ok(()) } else { Err(format!("{:?}", names())) }
        })
        .await;
        self.start_operator(variables).await;
    }

    /// Empties the disk of a server, kills its Pod, and waits until another one is there.
    pub async fn empties_disk(&self, pod: &Pod) {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let claim = claims.get(&claim(pod)).await.expect("a claim");
        let folder = persistent(&claim.spec.and_then(|spec| spec.volume_name).expect("a volume"));
        for entry in std::fs::read_dir(&folder).expect("a volume") {
            let path = entry.expect("an entry").path();
            let emptied = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            emptied.expect("an empty disk");
        }
        self.kill(pod).await;
        eventually("another Pod is there", LONG, || async {
            let now = self.pod_api().get_opt(&pod.name_any()).await.ok().flatten();
            if now.is_some_and(|now| now.uid() != pod.uid()) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }

    /// The master of a server is removed for good, with its disk; another one comes. Deletes the claim that the status
    /// names.
    pub async fn replaces_master(&mut self, pod: &Pod) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).expect("a node");
        self.cluster.kubectl(&["delete", "node", &node]);
        self.kill(pod).await;
        self.add_real_masters(1).await;
        let said = eventually("it says which claim to delete", LONG, || async {
            let said = self.stack_status().await.components[0].waiting_for.clone().unwrap_or_default();
            if said.contains("delete claim") { Ok(said) } else { Err(format!("{:#?}", self.stack_status().await)) }
        })
        .await;
        assert!(said.contains(&claim(pod)), "{said}");
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.cluster.client.clone(), &self.name);
        claims.delete(&claim(pod), &DeleteParams::default()).await.expect("deleted");
    }

    async fn kill(&self, pod: &Pod) {
        self.pod_api().delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.expect("deleted");
    }

    fn pod_api(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Where its Pods are, by name.
    pub async fn addresses(&self) -> Vec<String> {
        let of = |pod: Pod| pod.status.and_then(|status| status.pod_ip).unwrap_or_default();
        self.stack_pods().await.into_iter().map(of).collect()
    }

    /// Adds nodes with the label of masters, with volumes.
    pub async fn add_masters(&mut self, count: usize) -> Vec<String> {
        let nodes = self.add_nodes(count, &Shape::default().label(MASTER, &self.name.clone())).await;
        volumes(self.cluster, &nodes);
        nodes
    }

    /// The sample, on this lab's nodes.
    #[must_use]
    pub fn stack(&self) -> Value {
        let text = PACKAGE.samples[0].yaml;
        let text = text.replace("node-role.kubernetes.io/master: \"\"", &format!("{MASTER}: {}", self.name));
        let text = text.replace("node-role.kubernetes.io/worker: \"\"", &format!("{WORKER}: {}", self.name));
        let mut object = documents(&text).remove(0);
        object["metadata"]["namespace"] = self.name.clone().into();
        object
    }

    /// Changes the spec by a merge patch, and waits until the operator has seen it.
    pub async fn edit_stack(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let edited = self.stacks().patch("cluster1", &PatchParams::default(), &patch).await.expect("a Manager");
        eventually("the edit is seen", SOON, || async {
            let seen = self.stack_status().await.observed_generation;
            if seen >= edited.metadata.generation { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    #[must_use]
    pub fn stacks(&self) -> Api<Manager> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// The status of the Manager.
    pub async fn stack_status(&self) -> ManagerStatus {
        self.stacks().get("cluster1").await.ok().and_then(|manager| manager.status).unwrap_or_default()
    }

    /// Waits until a condition has a reason, and returns the status.
    pub async fn stack_says(&self, type_: &str, reason: &str) -> ManagerStatus {
        eventually(&format!("{type_} says {reason}"), LONG, || async {
            let status = self.stack_status().await;
            let condition = status.conditions.iter().find(|condition| condition.type_ == type_);
            if condition.is_some_and(|found| found.reason == reason) { Ok(status) } else { Err(format!("{status:#?}")) }
        })
        .await
    }

    /// Waits until a component is in a state, and returns what it says of it.
    pub async fn component_is(&self, name: &str, state: &str) -> String {
        eventually(&format!("{name} is {state}"), LONG, || async {
            let status = self.stack_status().await;
            let found = status.components.iter().find(|one| one.name == name && one.state == state);
            found.map(|one| one.waiting_for.clone().unwrap_or_default()).ok_or_else(|| format!("{status:#?}"))
        })
        .await
    }

    /// Waits until it says of a component what has this text in it.
    pub async fn component_says(&self, name: &str, text: &str) {
        eventually(&format!("of {name} it says {text}"), LONG, || async {
            let status = self.stack_status().await;
            let found = status.components.iter().find(|one| one.name == name);
            let is_said = found.is_some_and(|one| one.waiting_for.as_ref().is_some_and(|why| why.contains(text)));
            if is_said { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
    }

    /// Waits until Degraded has a reason, and a message with this text in it.
    pub async fn degraded_says(&self, reason: &str, text: &str) {
        eventually(&format!("Degraded says {reason}: {text}"), LONG, || async {
            let status = self.stack_status().await;
            let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded");
            let is_said = degraded.is_some_and(|one| one.reason == reason && one.message.contains(text));
            if is_said { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
    }

    /// The Pods of a component start, and are not Ready until they are released.
    pub fn hold(&self, component: &str) {
        self.behave(|behaviour| {
            behaviour.pods.insert(component.to_owned(), Fault::Held);
        });
    }

    /// They are Ready.
    pub fn release(&self, component: &str) {
        self.behave(|behaviour| {
            behaviour.pods.remove(component);
        });
    }

    /// The Pods of its stack, by name.
    pub async fn stack_pods(&self) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.name);
        let is_part =
            |pod: &Pod| ["contrail_manager", "shop_part"].iter().any(|label| pod.labels().contains_key(*label));
        let mut pods = api.list(&ListParams::default()).await.expect("Pods").items;
        pods.retain(is_part);
        pods.sort_by_key(ResourceExt::name_any);
        pods
    }

    /// Waits until there are so many Pods.
    pub async fn has_pods(&self, count: usize) {
        eventually(&format!("there are {count} Pods"), SOON, || async {
            let found = self.stack_pods().await.len();
            if found == count { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }
}
