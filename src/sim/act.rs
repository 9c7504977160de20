//! What a script lets happen.
//!
//! Must not look at what comes of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use strum::VariantNames;

use super::fate::Fate;
use super::world::World;

/// What happens.
#[derive(Debug, Clone, Deserialize, JsonSchema, VariantNames)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Act {
    /// What becomes of Pods with this value of the annotation.
    Fate(BTreeMap<String, Fate>),
    /// What becomes of Pods on a node; nothing: what their annotation makes of them.
    FateOn(BTreeMap<String, Option<Fate>>),
    /// Kubelets fall silent.
    NotReady(Vec<String>),
    /// Kubelets are heard again.
    Ready(Vec<String>),
    Cordon(Vec<String>),
    Uncordon(Vec<String>),
    /// Taints of nodes, as `key:effect`; none: they go.
    Taint(BTreeMap<String, Vec<String>>),
    /// Nodes are deleted.
    Leave(Vec<String>),
    /// So many nodes join a pool.
    Join(BTreeMap<String, usize>),
    /// A user deletes the Pods of nodes.
    Delete(Vec<String>),
    /// The containers of the Pods of nodes end and are started again.
    RestartContainers(Vec<String>),
    /// The API server refuses new Pods with these words; none: no longer.
    Refuse(Option<String>),
    /// Deployments get so many replicas.
    Scale(BTreeMap<String, usize>),
    /// A PodDisruptionBudget keeps so many Pods of each workload available; none: there is none.
    MinAvailable(Option<usize>),
}

impl Act {
    /// The nodes that it names.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        match self {
            Self::NotReady(nodes)
            | Self::Ready(nodes)
            | Self::Cordon(nodes)
            | Self::Uncordon(nodes)
            | Self::Leave(nodes)
            | Self::Delete(nodes)
            | Self::RestartContainers(nodes) => nodes.iter().map(String::as_str).collect(),
            Self::FateOn(nodes) => nodes.keys().map(String::as_str).collect(),
            Self::Taint(nodes) => nodes.keys().map(String::as_str).collect(),
            Self::Fate(_) | Self::Join(_) | Self::Refuse(_) | Self::Scale(_) | Self::MinAvailable(_) => Vec::new(),
        }
    }
}

impl World {
    /// Lets it happen; returns what an observer would say.
    pub fn act(&mut self, act: &Act) -> String {
        match act {
            Act::Fate(fates) => {
                self.fates.extend(fates.iter().map(|(value, fate)| (value.clone(), *fate)));
                format!("Pods from now on: {fates:?}")
            }
            Act::FateOn(fates) => {
                for (node, fate) in fates {
                    match fate {
                        Some(fate) => self.fates_on.insert(node.clone(), *fate),
                        None => self.fates_on.remove(node),
                    };
                }
                format!("Pods on nodes from now on: {fates:?}")
            }
            Act::NotReady(nodes) => self.each(nodes, "NotReady", |world, node| world.set_ready(node, false)),
            Act::Ready(nodes) => self.each(nodes, "Ready again", |world, node| world.set_ready(node, true)),
            Act::Cordon(nodes) => self.each(nodes, "cordoned", |world, node| world.cordon(node, true)),
            Act::Uncordon(nodes) => self.each(nodes, "uncordoned", |world, node| world.cordon(node, false)),
            Act::Leave(nodes) => self.each(nodes, "deleted", Self::leave),
            Act::Delete(nodes) => self.each(nodes, "losing their Pods to somebody", Self::delete_on),
            Act::RestartContainers(nodes) => self.each(nodes, "containers start again", Self::restart_on),
            Act::Taint(nodes) => {
                for (node, taints) in nodes {
                    self.taint(node, taints);
                }
                format!("taints: {nodes:?}")
            }
            Act::Join(zones) => {
                for (zone, count) in zones {
                    self.join(zone, *count);
                }
                format!("nodes join: {zones:?}")
            }
            Act::Refuse(words) => {
                self.refuses.clone_from(words);
                self.reconsider();
                let words = words.as_deref().unwrap_or("nothing any more");
                format!("the API server refuses new Pods: {words}")
            }
            Act::Scale(workloads) => {
                for (name, replicas) in workloads {
                    self.scale(name, *replicas);
                }
                format!("replicas: {workloads:?}")
            }
            Act::MinAvailable(count) => {
                self.min_available = *count;
                let count = count.map_or_else(|| "gone".to_owned(), |count| format!("minAvailable {count}"));
                format!("PodDisruptionBudget: {count}")
            }
        }
    }

    fn each(&mut self, nodes: &[String], what: &str, act: impl Fn(&mut Self, &str)) -> String {
        for node in nodes {
            act(self, node);
        }
        format!("{what}: {}", nodes.join(", "))
    }
}
