//! Nodes: they join and leave, fall silent, are cordoned and tainted.
//!
//! Must not know what runs there.

use serde_json::{Value, json};

use super::pool::Pool;
use super::status::{condition, text};
use super::world::{Due, Event, World};

const ZONE: &str = "topology.kubernetes.io/zone";

impl World {
    /// A pool, with the nodes that it has at the beginning.
    pub fn add_pool(&mut self, pool: &Pool) {
        self.pools.insert(pool.name.clone(), (pool.clone(), 0));
        self.join(&pool.name, pool.count);
    }

    /// So many nodes join a pool.
    pub fn join(&mut self, pool: &str, count: usize) {
        for _ in 0..count {
            let Some((of, number)) = self.pools.get_mut(pool) else { return };
            let (name, of) = (format!("{pool}-{number}"), of.clone());
            *number += 1;
            let number = self.pools.values().map(|(_, number)| number).sum::<usize>();
            let address = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
            self.join_as(&name, &address, &of);
        }
    }

    fn join_as(&mut self, name: &str, address: &str, pool: &Pool) {
        let version = self.next().to_string();
        let mut labels = json!({ "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" });
        if !pool.zone().is_empty() {
            labels[ZONE] = pool.zone().into();
        }
        for (key, value) in &pool.labels {
            labels[key] = value.clone().into();
        }
        let node = json!({ "metadata": { "name": name, "uid": format!("node-{name}"), "resourceVersion": version,
                "creationTimestamp": text(self.now), "labels": labels },
            "spec": { "taints": taints(&pool.taints) },
            "status": { "conditions": [condition("Ready", true, self.now)],
                "addresses": [{ "type": "InternalIP", "address": address }] } });
        self.pool_of.insert(name.to_owned(), pool.name.clone());
        self.put_node(name, node);
    }

    /// A node as it is elsewhere joins a pool.
    pub fn join_node(&mut self, pool: &str, node: Value) {
        let Some(name) = node["metadata"]["name"].as_str().map(str::to_owned) else { return };
        self.pool_of.insert(name.clone(), pool.to_owned());
        self.put_node(&name, node);
    }

    /// A node is gone, with its Pods.
    pub fn leave(&mut self, name: &str) {
        for pod in self.pods_on(name) {
            self.after(0, Due::Gone(pod));
        }
        if let Some(node) = self.nodes.remove(name) {
            self.show(Event::NodeGone(node));
        }
    }

    /// A node's kubelet falls silent, or is heard again.
    pub fn set_ready(&mut self, name: &str, is_ready: bool) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        node["status"]["conditions"] = json!([condition("Ready", is_ready, self.now)]);
        self.put_node(name, node);
        for pod in self.pods_on(name) {
            if is_ready {
                self.say_what_was_unsaid(&pod);
                self.start(&pod);
            } else {
                self.forget_status(&pod);
                self.set_unready(&pod);
            }
        }
    }

    /// A node's kubelet is cordoned, or no longer.
    pub fn cordon(&mut self, name: &str, is_cordoned: bool) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        node["spec"]["unschedulable"] = is_cordoned.into();
        self.put_node(name, node);
    }

    /// Taints of a node, each as `key:Effect` or `key=value:Effect`.
    pub fn taint(&mut self, name: &str, all: &[String]) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        node["spec"]["taints"] = taints(all);
        self.put_node(name, node);
    }

    /// Nodes on which a new Pod may start.
    pub(super) fn open_nodes(&self) -> Vec<String> {
        let is_open = |(name, node): &(&String, &Value)| {
            self.is_up(name) && node["spec"]["unschedulable"] != true && node["spec"]["taints"] == json!([])
        };
        self.nodes.iter().filter(is_open).map(|(name, _)| name.clone()).collect()
    }

    /// Whether a node's kubelet is heard.
    pub(super) fn is_up(&self, node: &str) -> bool {
        let conditions = self.nodes.get(node).and_then(|node| node["status"]["conditions"].as_array());
        conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
    }

    fn put_node(&mut self, name: &str, mut node: Value) {
        node["metadata"]["resourceVersion"] = self.next().to_string().into();
        self.nodes.insert(name.to_owned(), node.clone());
        self.show(Event::Node(node));
    }

    /// The nodes' names.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }
}

fn taints(all: &[String]) -> Value {
    let taint = |taint: &String| {
        let (key, effect) = taint.rsplit_once(':').unwrap_or((taint, "NoSchedule"));
        let (key, value) = key.split_once('=').map_or((key, None), |(key, value)| (key, Some(value)));
        let mut taint = json!({ "key": key, "effect": effect });
        if let Some(value) = value {
            taint["value"] = value.into();
        }
        taint
    };
    all.iter().map(taint).collect()
}
