//! The world: nodes, Pods, kubelets and the DaemonSet controller.
//!
//! Must not know an operator, a kind or an engine.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{condition, crashing, creating, is_ready, no_image, ready, refused, text};
use super::turn::Turn;
use super::workload::Workload;

/// What becomes of a Pod that a kubelet starts; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is Ready after so long.
    Ready(i64),
    /// It is Ready soon, and crashes again and again after so long.
    CrashesAfter(i64),
    /// It crashes again and again from the start.
    Crashes,
    /// Its image is pulled, and that takes so long; then it is Ready.
    Pulls(i64),
    /// Its image cannot be pulled.
    NoImage,
    /// Its kubelet has no room for it.
    Refused,
    /// Its node falls silent.
    KillsNode,
}

/// What a watch shows.
#[derive(Debug)]
pub enum Event {
    Node(Value),
    NodeGone(Value),
    Pod(Value),
    PodGone(Value),
    ReplicaSet(Value),
}

/// What happens by itself.
#[derive(Debug, Clone)]
pub(super) enum Due {
    /// A Pod's status becomes this.
    Status(String, Value),
    /// Something happens in a Pod whose containers run.
    Turn(String, Turn),
    /// A Pod's node falls silent.
    Silence(String),
    /// A Pod that is being deleted is gone.
    Gone(String),
    /// The DaemonSet controller takes a Pod away that its kubelet ended.
    Remove(String),
}

const ZONE: &str = "topology.kubernetes.io/zone";
/// How long a Pod takes to end.
const ENDS: i64 = 1;
/// A fault shows after so long.
const SHOWS: i64 = 1;
/// The DaemonSet controller waits so long before it replaces a Pod that its kubelet refused.
const BACK_OFF: i64 = 10;

/// The world.
pub struct World {
    pub now: DateTime<Utc>,
    /// Key of the annotation by which Pods differ.
    pub(super) annotation: &'static str,
    /// What becomes of Pods with a value of it.
    pub fates: BTreeMap<String, Fate>,
    /// What becomes of Pods on a node, whatever they are made from.
    pub fates_on: BTreeMap<String, Fate>,
    /// Why the API server refuses new Pods.
    pub refuses: Option<String>,
    /// How many Pods of each workload a PodDisruptionBudget keeps available.
    pub min_available: Option<usize>,
    nodes: BTreeMap<String, Value>,
    pub(super) pods: BTreeMap<String, Value>,
    /// How many nodes each zone has ever had.
    joined: BTreeMap<String, usize>,
    /// Metadata of the DaemonSet's new Pods.
    template: Option<Value>,
    pub(super) workloads: BTreeMap<String, Workload>,
    pub(super) namespace: &'static str,
    due: Vec<(DateTime<Utc>, u64, Due)>,
    /// What silent kubelets have not said, by Pod.
    pub(super) unsaid: Vec<(String, Turn)>,
    events: Vec<Event>,
    count: u64,
    /// Decides which of those goes first that happen at one time; `None`: the older one.
    random: Option<u64>,
}

impl World {
    /// An empty one. `annotation`: by which Pods differ.
    #[must_use]
    pub fn new(now: DateTime<Utc>, namespace: &'static str, annotation: &'static str, random: Option<u64>) -> Self {
        Self {
            now,
            annotation,
            fates: BTreeMap::new(),
            fates_on: BTreeMap::new(),
            refuses: None,
            min_available: None,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            joined: BTreeMap::new(),
            template: None,
            workloads: BTreeMap::new(),
            namespace,
            due: Vec::new(),
            unsaid: Vec::new(),
            events: Vec::new(),
            count: 0,
            random,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A number that depends on the seed and on how often it was asked for.
    fn order(&mut self) -> u64 {
        let count = self.next();
        let Some(seed) = self.random else { return count };
        let mixed = (seed ^ count).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    }

    pub(super) fn after(&mut self, seconds: i64, due: Due) {
        let order = self.order();
        self.due.push((self.now + TimeDelta::seconds(seconds), order, due));
    }

    /// What the watches show since the last time.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether the watches have something to show.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// All that is there, as a watch begins with it.
    #[must_use]
    pub fn list(&self) -> Vec<Event> {
        let nodes = self.nodes.values().cloned().map(Event::Node);
        let sets = self.workloads.values().map(|workload| Event::ReplicaSet(workload.object()));
        nodes.chain(sets).chain(self.pods.values().cloned().map(Event::Pod)).collect()
    }

    /// When something happens by itself next.
    #[must_use]
    pub fn due(&self) -> Option<DateTime<Utc>> {
        self.due.iter().map(|(at, ..)| *at).min()
    }

    /// Lets one thing happen that is due.
    pub fn happen(&mut self) {
        let first = self.due.iter().enumerate().min_by_key(|(_, (at, order, _))| (*at, *order)).map(|(index, _)| index);
        let Some(index) = first else { return };
        let (at, _, due) = self.due.remove(index);
        self.now = self.now.max(at);
        match due {
            Due::Status(name, status) => self.set_status(&name, status),
            Due::Turn(name, turn) => self.turn(&name, &turn),
            Due::Silence(node) => self.set_ready(&node, false),
            Due::Remove(name) => self.delete(&name),
            Due::Gone(name) => {
                if let Some(pod) = self.pods.remove(&name) {
                    self.due.retain(|(.., due)| !due.is_of(&name));
                    self.events.push(Event::PodGone(pod));
                }
            }
        }
    }

    /// So many nodes join a zone; they are called after it.
    pub fn join(&mut self, zone: &str, count: usize) {
        for _ in 0..count {
            let number = self.joined.entry(zone.to_owned()).or_default();
            let name = format!("{zone}-{number}");
            *number += 1;
            let address = format!("10.0.0.{}", self.joined.values().sum::<usize>());
            self.join_as(&name, &address, zone);
        }
    }

    fn join_as(&mut self, name: &str, address: &str, zone: &str) {
        let version = self.next().to_string();
        let labels = json!({ ZONE: zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" });
        let node = json!({ "metadata": { "name": name, "uid": format!("node-{name}"), "resourceVersion": version,
                "creationTimestamp": text(self.now), "labels": labels },
            "spec": { "taints": [] },
            "status": { "conditions": [condition("Ready", true, self.now)],
                "addresses": [{ "type": "InternalIP", "address": address }] } });
        self.put_node(name, node);
    }

    /// A node is gone, with its Pods.
    pub fn leave(&mut self, name: &str) {
        for pod in self.pods_on(name) {
            self.after(0, Due::Gone(pod));
        }
        self.events.extend(self.nodes.remove(name).map(Event::NodeGone));
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
                self.due.retain(|(.., due)| !matches!(due, Due::Status(of, _) if *of == pod));
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

    /// Taints of a node, as `key:effect`.
    pub fn taint(&mut self, name: &str, taints: &[String]) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        let taint = |taint: &String| {
            let (key, effect) = taint.split_once(':').unwrap_or((taint, "NoSchedule"));
            json!({ "key": key, "effect": effect })
        };
        node["spec"]["taints"] = taints.iter().map(taint).collect::<Vec<_>>().into();
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
        self.nodes.get(node).is_some_and(|node| node["status"]["conditions"][0]["status"] == "True")
    }

    pub(super) fn show(&mut self, event: Event) {
        self.events.push(event);
    }

    fn put_node(&mut self, name: &str, mut node: Value) {
        node["metadata"]["resourceVersion"] = self.next().to_string().into();
        self.nodes.insert(name.to_owned(), node.clone());
        self.events.push(Event::Node(node));
    }

    /// The nodes' names.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// What runs on a node and is Ready: the annotation of its Pod.
    #[must_use]
    pub fn runs(&self, node: &str) -> Option<String> {
        let pod = self.pods.values().find(|pod| pod["spec"]["nodeName"] == node && is_ready(pod))?;
        pod["metadata"]["annotations"][self.annotation].as_str().map(str::to_owned)
    }

    pub(super) fn pods_on(&self, node: &str) -> Vec<String> {
        self.pods.iter().filter(|(_, pod)| pod["spec"]["nodeName"] == node).map(|(name, _)| name.clone()).collect()
    }

    /// The template of new Pods: the metadata that they get.
    pub fn set_template(&mut self, metadata: Value) {
        self.template = Some(metadata);
    }

    /// What the DaemonSet controller does: a Pod on every node that shall have one and has none, and none where there
    /// shall not be one.
    pub fn control(&mut self, shall_have: impl Fn(&str) -> Option<bool>) {
        if self.template.is_none() {
            return;
        }
        for node in self.nodes() {
            let pods = self.pods_on(&node);
            match shall_have(&node) {
                Some(true) if pods.is_empty() && self.refuses.is_none() => {
                    let metadata = self.template.clone().unwrap_or_default();
                    self.create(metadata, &json!({ "kind": "DaemonSet", "name": "agent", "uid": "daemonset" }), &node);
                }
                Some(false) => pods.iter().for_each(|pod| self.delete(pod)),
                _ => {}
            }
        }
    }

    /// A controller creates a Pod.
    pub(super) fn create(&mut self, mut metadata: Value, owner: &Value, node: &str) {
        let number = self.next();
        let name = format!("pod-{number}");
        let more = json!({ "name": name, "namespace": self.namespace, "uid": format!("uid-{number}"),
            "creationTimestamp": text(self.now), "ownerReferences": [{ "apiVersion": "apps/v1", "controller": true,
                "kind": owner["kind"], "name": owner["name"], "uid": owner["uid"] }] });
        for (key, value) in more.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        let status = json!({ "phase": "Pending", "conditions": [condition("PodScheduled", true, self.now)] });
        self.pods.insert(
            name.clone(),
            json!({ "metadata": metadata, "spec": { "nodeName": node, "restartPolicy": "Always",
                "containers": [{ "name": "app", "image": "app" }] }, "status": null }),
        );
        self.set_status(&name, status);
        self.start(&name);
    }

    /// What a kubelet makes of a Pod that it starts, or starts again.
    fn start(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        if !self.is_up(&node) || !pod["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let value = pod["metadata"]["annotations"][self.annotation].as_str();
        let of_its_own = value.and_then(|value| self.fates.get(value));
        let fate = self.fates_on.get(&node).or(of_its_own).copied().unwrap_or(Fate::Ready(5));
        let status = |seconds: i64, status: fn(DateTime<Utc>) -> Value| {
            (seconds, Due::Status(name.to_owned(), status(self.now + TimeDelta::seconds(seconds))))
        };
        let all = match fate {
            Fate::Ready(after) => vec![status(after, ready)],
            Fate::Crashes => vec![status(SHOWS, crashing)],
            Fate::CrashesAfter(after) => vec![status(SHOWS, ready), status(SHOWS + after, crashing)],
            Fate::Pulls(after) => vec![status(SHOWS, creating), status(after, ready)],
            Fate::NoImage => vec![status(SHOWS, no_image)],
            Fate::Refused => vec![status(SHOWS, refused), (SHOWS + BACK_OFF, Due::Remove(name.to_owned()))],
            Fate::KillsNode => vec![(SHOWS, Due::Silence(node))],
        };
        for (seconds, due) in all {
            self.after(seconds, due);
        }
    }

    pub(super) fn set_status(&mut self, name: &str, status: Value) {
        let version = self.next().to_string();
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod["metadata"]["resourceVersion"] = version.clone().into();
        pod["status"] = Self::carry(&pod["status"], status, &version);
        self.events.push(Event::Pod(pod.clone()));
    }

    /// Somebody deletes a Pod.
    pub fn delete(&mut self, name: &str) {
        let (now, version) = (self.now, self.next().to_string());
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) else {
            return;
        };
        pod["metadata"]["resourceVersion"] = version.into();
        pod["metadata"]["deletionTimestamp"] = text(now + TimeDelta::seconds(30)).into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        self.events.push(Event::Pod(pod.clone()));
        self.after(ENDS, Due::Gone(name.to_owned()));
    }

    /// The same by its node.
    pub fn delete_on(&mut self, node: &str) {
        for pod in self.pods_on(node) {
            self.delete(&pod);
        }
    }
}

impl Due {
    fn is_of(&self, pod: &str) -> bool {
        let (Self::Status(of, _) | Self::Turn(of, _) | Self::Gone(of) | Self::Remove(of) | Self::Silence(of)) = self;
        of == pod
    }
}
