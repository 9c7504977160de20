//! The world: what is there, what happens at which time, and what the watches show of it.
//!
//! Must not know an operator, a kind or an engine.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::fate::Fate;
use super::pool::Pool;
use super::status::{condition, is_ready, text};
use super::turn::Turn;
use super::workload::Workload;

/// What a watch shows.
#[derive(Debug)]
pub enum Event {
    Node(Value),
    NodeGone(Value),
    Pod(Value),
    PodGone(Value),
    ReplicaSet(Value),
}

/// What happens at its time.
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

/// How long a Pod takes to end.
const ENDS: i64 = 1;

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
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) pods: BTreeMap<String, Value>,
    /// The Pods of each node.
    on: BTreeMap<String, BTreeSet<String>>,
    /// The pools, and how many nodes each has ever had.
    pub(super) pools: BTreeMap<String, (Pool, usize)>,
    /// The pool of each node.
    pub(super) pool_of: BTreeMap<String, String>,
    /// Metadata of the new Pods of each DaemonSet.
    templates: BTreeMap<String, Value>,
    pub(super) workloads: BTreeMap<String, Workload>,
    pub(super) namespace: &'static str,
    due: BTreeMap<(DateTime<Utc>, u64, u64), Due>,
    /// What silent kubelets have not said, by Pod.
    pub(super) unsaid: Vec<(String, Turn)>,
    events: Vec<Event>,
    /// Nodes where the DaemonSet controller may have something to do; `None`: on all.
    stale: Option<BTreeSet<String>>,
    count: u64,
    /// Decides which of those comes first that happen at one time, and how long things take; `None`: the older one
    /// comes first.
    random: Option<fastrand::Rng>,
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
            on: BTreeMap::new(),
            pools: BTreeMap::new(),
            pool_of: BTreeMap::new(),
            templates: BTreeMap::new(),
            workloads: BTreeMap::new(),
            namespace,
            due: BTreeMap::new(),
            unsaid: Vec::new(),
            events: Vec::new(),
            stale: None,
            count: 0,
            random: random.map(fastrand::Rng::with_seed),
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A share of one, at random; the middle where nothing is random.
    pub(super) fn draw(&mut self) -> f64 {
        self.random.as_mut().map_or(0.5, fastrand::Rng::f64)
    }

    pub(super) fn after(&mut self, seconds: i64, due: Due) {
        let count = self.next();
        let order = self.random.as_mut().map_or(count, |random| random.u64(..));
        self.due.insert((self.now + TimeDelta::seconds(seconds), order, count), due);
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

    /// When something happens next.
    #[must_use]
    pub fn due(&self) -> Option<DateTime<Utc>> {
        self.due.keys().next().map(|(at, ..)| *at)
    }

    /// Lets one thing happen that is due.
    pub fn happen(&mut self) {
        let Some(((at, ..), due)) = self.due.pop_first() else { return };
        self.now = self.now.max(at);
        match due {
            Due::Status(name, status) => self.set_status(&name, status),
            Due::Turn(name, turn) => self.turn(&name, &turn),
            Due::Silence(node) => self.set_ready(&node, false),
            Due::Remove(name) => self.delete(&name),
            Due::Gone(name) => {
                if let Some(pod) = self.pods.remove(&name) {
                    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
                    self.on.get_mut(node).map(|pods| pods.remove(&name));
                    self.due.retain(|_, due| !due.is_of(&name));
                    self.reconsider_node(node);
                    self.events.push(Event::PodGone(pod));
                }
            }
        }
    }

    /// What a Pod was still to become it does not become.
    pub(super) fn forget_status(&mut self, pod: &str) {
        self.due.retain(|_, due| !matches!(due, Due::Status(of, _) if of == pod));
    }

    /// The watches show it.
    pub(super) fn show(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Nodes where the DaemonSet controller may have something to do since the last time.
    pub fn take_stale(&mut self) -> Vec<String> {
        let stale = self.stale.replace(BTreeSet::new());
        stale.map_or_else(|| self.nodes(), |stale| stale.into_iter().collect())
    }

    /// What belongs on any node is otherwise than before.
    pub fn reconsider(&mut self) {
        self.stale = None;
    }

    /// What belongs on a node may be otherwise than before.
    pub fn reconsider_node(&mut self, node: &str) {
        if let Some(stale) = &mut self.stale {
            stale.insert(node.to_owned());
        }
    }

    /// What runs on a node and is Ready, of a DaemonSet: the annotation of its Pod.
    #[must_use]
    pub fn runs(&self, set: &str, node: &str) -> Option<&str> {
        let names = self.on.get(node)?.iter();
        let pod = names.map(|name| &self.pods[name]).find(|pod| is_of(pod, set) && is_ready(pod))?;
        pod["metadata"]["annotations"][self.annotation].as_str()
    }

    pub(super) fn pods_on(&self, node: &str) -> Vec<String> {
        self.on.get(node).into_iter().flatten().cloned().collect()
    }

    /// The template of a DaemonSet's new Pods: the metadata that they get.
    pub fn set_template(&mut self, set: &str, metadata: Value) {
        let before = self.templates.insert(set.to_owned(), metadata);
        if before.as_ref() != self.templates.get(set) {
            self.reconsider();
        }
    }

    /// What the DaemonSet controller does on these nodes: it makes a Pod where one belongs and is missing, and deletes
    /// those that do not belong there.
    pub fn control(&mut self, set: &str, nodes: &[String], shall_have: impl Fn(&str) -> Option<bool>) {
        let Some(metadata) = self.templates.get(set).cloned() else { return };
        let is_its = |world: &Self, name: &&String| is_of(&world.pods[*name], set);
        let there: Vec<String> = nodes.iter().filter(|node| self.nodes.contains_key(*node)).cloned().collect();
        for node in there {
            let shall = shall_have(&node);
            let has = self.on.get(&node).is_some_and(|pods| pods.iter().any(|name| is_its(self, &name)));
            match (shall, has) {
                (Some(true), false) if self.refuses.is_none() => {
                    self.create(metadata.clone(), &json!({ "kind": "DaemonSet", "name": set, "uid": set }), &node);
                }
                (Some(false), true) => {
                    let pods: Vec<String> = self.on[&node].iter().filter(|name| is_its(self, name)).cloned().collect();
                    for pod in &pods {
                        self.delete(pod);
                    }
                }
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
        self.on.entry(node.to_owned()).or_default().insert(name.clone());
        self.pods.insert(
            name.clone(),
            json!({ "metadata": metadata, "spec": { "nodeName": node, "restartPolicy": "Always",
                "containers": [{ "name": "app", "image": "app" }] }, "status": null }),
        );
        self.set_status(&name, status);
        self.start(&name);
    }

    pub(super) fn set_status(&mut self, name: &str, status: Value) {
        let version = self.next().to_string();
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod["metadata"]["resourceVersion"] = version.clone().into();
        pod["status"] = Self::carry(&pod["status"], status, &version);
        self.events.push(Event::Pod(pod.clone()));
    }

    /// A user deletes a Pod.
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

/// Whether a Pod belongs to a DaemonSet.
fn is_of(pod: &Value, set: &str) -> bool {
    let owner = &pod["metadata"]["ownerReferences"][0];
    owner["kind"] == "DaemonSet" && owner["name"] == set
}
