//! A fleet as lists show it, or as watches keep it: all that each node is judged by.
//!
//! Reads only. Must not judge a node: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};

use super::super::read::Reader;
use super::managed::Managed;
use super::object::Object;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::oneagent::OneAgent;
use crate::daemonset_rollout::explain::Around;
use crate::daemonset_rollout::listed::{Listed, Lists};
use crate::fleet::finding::Finding;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel::Reached;
use crate::oneagent::listed::Cluster;
use crate::oneagent::{LABEL, explain};
use crate::rollout::Look;

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    pub(super) agents: Vec<OneAgent>,
    pub(super) rollouts: Vec<DaemonSetRollout>,
    pub(super) nodes: Vec<NodeFacts>,
    pub(super) pods: Vec<PodFacts>,
    pub(super) sets: Vec<DaemonSet>,
    pub(super) revisions: Vec<ControllerRevision>,
}

/// Which Pods matter to a kind, as a label selector.
pub(super) fn label(kind: Managed) -> &'static str {
    if kind == Managed::Oneagent { LABEL } else { "" }
}

/// Everything that the nodes of an object are judged by.
pub(super) async fn listed(reached: &Reached, object: &Object) -> Result<Fleet, String> {
    let reader = Reader::of(reached, object.kind.operator());
    let namespace = object.namespace();
    let within = Some(namespace.as_str());
    let mut fleet = Fleet::default();
    match object.kind {
        Managed::Configwatcher => return Ok(fleet),
        Managed::Oneagent => {
            // Those of other namespaces may keep nodes, too; without the right to see them they do not count.
            fleet.agents = match reader.any(None, "oneagents").await? {
                Ok(agents) => agents,
                Err(_) => reader.within(within, "oneagents", "").await?,
            };
        }
        Managed::Daemonsetrollout => {
            fleet.rollouts = reader.within(within, "daemonsetrollouts", "").await?;
            fleet.revisions = reader.within(within, "controllerrevisions", "").await?;
        }
    }
    // While the API server makes a page of one list, a page of another is read.
    (fleet.nodes, fleet.pods, fleet.sets) = tokio::try_join!(
        reader.all("nodes"),
        reader.within(within, "pods", label(object.kind)),
        reader.within(within, "daemonsets", label(object.kind)),
    )?;
    Ok(fleet)
}

/// How each node of an object is, and what there is to say of one.
pub(super) enum Judged {
    Agents(Box<(Cluster, OneAgent)>),
    Sets(Box<(Listed, DaemonSetRollout)>),
    Nothing,
}

impl Judged {
    /// Of what was listed.
    pub(super) fn of(fleet: Fleet, object: &Object) -> Self {
        let is_it = |metadata: &kube::api::ObjectMeta| {
            metadata.name == object.whole.metadata.name && metadata.namespace == object.whole.metadata.namespace
        };
        let Fleet { agents, rollouts, nodes, pods, sets, revisions } = fleet;
        match object.kind {
            Managed::Oneagent => match agents.iter().find(|agent| is_it(&agent.metadata)).cloned() {
                Some(agent) => Self::Agents(Box::new((Cluster::of(agents, nodes, pods, sets), agent))),
                None => Self::Nothing,
            },
            Managed::Daemonsetrollout => match rollouts.iter().find(|rollout| is_it(&rollout.metadata)).cloned() {
                Some(rollout) => {
                    let lists = Lists { objects: rollouts, nodes, pods, sets, revisions };
                    Self::Sets(Box::new((Listed::of(lists), rollout)))
                }
                None => Self::Nothing,
            },
            Managed::Configwatcher => Self::Nothing,
        }
    }

    /// How each node is; nothing where the spec is invalid, as the status says then.
    pub(super) fn looks(&self, now: DateTime<Utc>) -> Vec<Look> {
        match self {
            Self::Agents(both) => both.0.looks(&both.1, &explain::Around::default(), now).unwrap_or_default(),
            Self::Sets(both) => both.0.looks(&both.1, &Around::default(), now).unwrap_or_default(),
            Self::Nothing => Vec::new(),
        }
    }

    /// What there is to say of a node.
    pub(super) fn node(&self, name: &str, now: DateTime<Utc>) -> Option<Finding> {
        match self {
            Self::Agents(both) => both.0.node(name, &both.1, &explain::Around::default(), now),
            Self::Sets(both) => Some(both.0.node(name, &both.1, &Around::default(), now)),
            Self::Nothing => None,
        }
    }

    /// What helps a node, or tells more.
    pub(super) fn remedy(&self, name: &str, now: DateTime<Utc>) -> Option<String> {
        self.node(name, now)?.remedy
    }
}
