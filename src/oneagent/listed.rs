//! A cluster as a user's lists show it, for commands that read once and judge by the operator's own code.
//!
//! Pure: it is handed the lists. Must not judge anything itself.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::core::DeserializeGuard;

use super::context::OneAgents;
use super::fleet::Fleet;
use super::overlap;
use super::peers::Peers;
use super::resolve::Resolved;
use super::revision::Pod;
use crate::api::oneagent::OneAgent;
use crate::clock::Clock;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::node::Node;
use crate::k8s::watch::{Id, list};
use crate::kernel::kind::Kind;

/// What a cluster says.
#[derive(Debug, Default)]
pub struct Cluster {
    pub(super) fleet: Fleet,
    peers: Peers,
    pub(super) agents: Vec<OneAgent>,
}

impl Cluster {
    /// One by this clock, of which nothing is known yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self { fleet: Fleet::new(clock), ..Self::default() }
    }

    /// Takes note of a OneAgent, which the others may have to respect.
    pub(super) fn note(&self, agent: &DeserializeGuard<OneAgent>) {
        self.peers.note(agent);
    }

    /// Of everything that was listed.
    #[must_use]
    pub fn of(agents: Vec<OneAgent>, nodes: Vec<NodeFacts>, pods: Vec<PodFacts>, sets: Vec<DaemonSet>) -> Self {
        let cluster = Self { agents, ..Self::default() };
        for agent in &cluster.agents {
            cluster.peers.note(&DeserializeGuard(Ok(agent.clone())));
        }
        list(Id::Name, nodes).for_each(|change| drop(cluster.fleet.node(&change)));
        list(Id::Name, pods).for_each(|change| drop(cluster.fleet.pod(&change)));
        list(Id::Name, sets).for_each(|change| drop(cluster.fleet.daemonset_change(change)));
        cluster
    }

    /// The names of all nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<str>> {
        self.fleet.nodes().iter().map(|node| node.name.clone()).collect()
    }

    /// The OneAgents.
    #[must_use]
    pub fn agents(&self) -> &[OneAgent] {
        &self.agents
    }

    /// DaemonSet and Pods of a OneAgent.
    #[must_use]
    pub fn workload(&self, agent: &OneAgent) -> (Option<Arc<DaemonSet>>, Vec<Arc<Pod>>) {
        let key = (agent.namespace().unwrap_or_default(), agent.name_any());
        (self.fleet.daemonset(&key), self.fleet.pods(&key))
    }

    /// What a spec means, beside the others; or why it is invalid.
    pub(super) fn resolved(&self, agent: &OneAgent, nodes: &[Arc<Node>]) -> Result<Resolved, String> {
        let resolved = OneAgents::resolve(agent)?;
        let key = (resolved.namespace.clone(), resolved.name.clone());
        let others = self.peers.others(&key, &resolved.placement, &self.fleet);
        Ok(overlap::exclude_older(resolved, &others, nodes, &self.fleet.pods(&key), &self.fleet.yields_to(&key)))
    }
}
