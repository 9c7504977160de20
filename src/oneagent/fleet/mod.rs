//! The fleet as the watches show it: nodes, agents and their DaemonSets, and the DaemonSets of Dynatrace Operator.
//!
//! Says which OneAgents a change affects. Must not decide anything.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::admitted::{Admissions, Admitted};
use super::build::record::{self, RECORD_ANNOTATION};
use super::revision::{Pod, Revision};
use crate::clock::Clock;
use crate::fleet::daemonsets::{DaemonSets, NodeChange, Reads};
use crate::k8s::affinity::of_template;
use crate::k8s::facts::{HASH_ANNOTATION, NodeFacts, PodFacts, VERSION_ANNOTATION};
use crate::k8s::node::Node;
use crate::k8s::placement::Placement;
use crate::k8s::watch::{Affects, Change, key_of};
use crate::kernel::Key;
use crate::rollout::Loss;

#[derive(Debug, Default)]
pub struct Fleet {
    inner: RwLock<Inner>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Inner {
    agents: DaemonSets<Agents>,
    /// The older OneAgents to which those leave their nodes, as their records say.
    yields_to: HashMap<Key, Arc<BTreeSet<String>>>,
    /// What the DaemonSets of Dynatrace Operator select: on the same nodes both agents do harm.
    vendors: BTreeMap<Key, Arc<Placement>>,
    /// When the Pods of a OneAgent last changed.
    changed: HashMap<Key, Instant>,
}

/// How agents are read.
#[derive(Debug)]
struct Agents;

impl Reads for Agents {
    type Revision = Revision;
    type Detail = Admitted;

    fn owner(facts: &PodFacts) -> Option<Key> {
        let name = facts.metadata.labels.as_ref()?.get("oneagent")?;
        let owners = facts.metadata.owner_references.as_ref()?;
        let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
        (controller.kind == "DaemonSet" && controller.name == *name)
            .then(|| (facts.namespace().unwrap_or_default(), name.clone()))
    }

    fn revision(facts: &PodFacts) -> Option<Revision> {
        let annotation = |key: &str| facts.metadata.annotations.as_ref()?.get(key);
        let version = annotation(VERSION_ANNOTATION).and_then(|version| version.parse().ok());
        annotation(HASH_ANNOTATION).map(|hash| Revision { version, hash: hash.clone() })
    }

    fn detail(facts: &PodFacts) -> Option<Admitted> {
        Admitted::of(facts)
    }
}

impl Fleet {
    /// One by this clock, of which nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Every node.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.inner.read().agents.nodes()
    }

    /// The nodes that matter to a OneAgent: see [`DaemonSets::near`].
    pub fn near<'n>(
        &self,
        key: &Key,
        selector: &BTreeMap<String, String>,
        names: impl Iterator<Item = &'n str>,
        known: impl Iterator<Item = (&'n str, IpAddr)>,
    ) -> Vec<Arc<Node>> {
        self.inner.write().agents.near(key, selector, names, known)
    }

    /// The Pods of a OneAgent.
    #[must_use]
    pub fn pods(&self, key: &Key) -> Vec<Arc<Pod>> {
        self.inner.read().agents.pods(key)
    }

    /// What admission made of them.
    #[must_use]
    pub fn admissions(&self, key: &Key) -> Admissions {
        Admissions::count(self.inner.read().agents.details(key))
    }

    /// Nodes of these that lost their agent; what is known of others is forgotten.
    #[must_use]
    pub fn losses(&self, key: &Key, is_selected: impl Fn(&Node) -> bool) -> Arc<HashMap<Arc<str>, Loss>> {
        self.inner.write().agents.losses(key, is_selected)
    }

    /// For how long the Pods of a OneAgent have not changed; `None` when they never did.
    #[must_use]
    pub fn quiet(&self, key: &Key) -> Option<Duration> {
        self.inner.read().changed.get(key).map(Instant::elapsed)
    }

    /// Forgets a OneAgent that is gone.
    pub fn forget(&self, key: &Key) {
        let mut inner = self.inner.write();
        inner.agents.forget(key);
        inner.changed.remove(key);
    }

    /// The DaemonSet of a OneAgent's name, if it has the label of ours.
    #[must_use]
    pub fn daemonset(&self, key: &Key) -> Option<Arc<DaemonSet>> {
        self.inner.read().agents.set(key).cloned()
    }

    /// The OneAgents that have Pods.
    #[must_use]
    pub fn with_pods(&self) -> Vec<Key> {
        self.inner.read().agents.with_pods()
    }

    /// The older OneAgents to which the DaemonSet of one leaves their nodes.
    #[must_use]
    pub fn yields_to(&self, key: &Key) -> Arc<BTreeSet<String>> {
        self.inner.read().yields_to.get(key).cloned().unwrap_or_default()
    }

    /// What the DaemonSets of Dynatrace Operator select.
    #[must_use]
    pub fn vendors(&self) -> Vec<(Key, Arc<Placement>)> {
        self.inner.read().vendors.iter().map(|(key, placement)| (key.clone(), placement.clone())).collect()
    }

    /// Takes what we have just written, ahead of the watch.
    pub fn wrote(&self, key: &Key, daemonset: Arc<DaemonSet>) {
        let inner = &mut *self.inner.write();
        inner.change(key, |agents| agents.wrote(key, daemonset));
    }

    /// Takes a change of the nodes.
    pub fn node(&self, change: &Change<NodeFacts>) -> NodeChange {
        let now = self.clock.now();
        self.inner.write().agents.node(change, now)
    }

    /// Takes a change of the agents' Pods.
    pub fn pod(&self, change: &Change<PodFacts>) -> Affects {
        let now = self.clock.now();
        let inner = &mut *self.inner.write();
        let affects = inner.agents.pod(change, now);
        if let Affects::One(key) = &affects {
            // The last Pods of a OneAgent that is gone go after it.
            if inner.agents.is_known(key) {
                inner.changed.insert(key.clone(), Instant::now());
            } else {
                inner.changed.remove(key);
            }
        }
        affects
    }

    /// Takes a change of the agents' DaemonSets.
    pub fn daemonset_change(&self, change: Change<DaemonSet>) -> Affects {
        let inner = &mut *self.inner.write();
        if let Some(key) = change.present().map(key_of) {
            return inner.change(&key, |agents| agents.daemonset(change));
        }
        let affects = inner.agents.daemonset(change);
        inner.yields_to.retain(|key, _| inner.agents.set(key).is_some());
        affects
    }

    /// Takes a change of the DaemonSets of Dynatrace Operator.
    pub fn vendors_change(&self, change: Change<DaemonSet>) -> Affects {
        let vendors = &mut self.inner.write().vendors;
        let is_news = match change {
            Change::Listed(set) | Change::Applied(set) => {
                let key = key_of(&set);
                let spec = set.spec.and_then(|spec| spec.template.spec);
                let placement = Arc::new(spec.as_ref().map(of_template).unwrap_or_default());
                vendors.insert(key, placement.clone()) != Some(placement)
            }
            Change::Deleted(set) => vendors.remove(&key_of(&set)).is_some(),
            Change::Complete(listed) => {
                let before = vendors.len();
                vendors.retain(|key, _| !listed.lacks(&key.0, &key.1));
                vendors.len() != before
            }
        };
        if is_news { Affects::All } else { Affects::Nobody }
    }
}

impl Inner {
    /// Changes a DaemonSet, and reads its record again if that is another: its status changes more often.
    fn change<A>(&mut self, key: &Key, change: impl FnOnce(&mut DaemonSets<Agents>) -> A) -> A {
        let before = self.agents.set(key).cloned();
        let answer = change(&mut self.agents);
        if let Some(now) = self.agents.set(key)
            && before.is_none_or(|before| record_of(&before) != record_of(now))
        {
            self.yields_to.insert(key.clone(), Arc::new(record::yields_to(now)));
        }
        answer
    }
}

fn record_of(set: &DaemonSet) -> Option<&String> {
    set.annotations().get(RECORD_ANNOTATION)
}
