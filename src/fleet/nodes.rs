//! Nodes, from what their watch shows.
//!
//! Pure. Must not decide whether anything shall run there.

use std::net::IpAddr;

use kube::ResourceExt;

use super::{created, since};
use crate::k8s::facts::NodeFacts;
use crate::k8s::node::{Node, Taint};
use crate::k8s::placement::is_leaving;

/// A node, from what its watch shows.
#[must_use]
pub fn node(facts: &NodeFacts) -> Node {
    let taints: Vec<Taint> = facts
        .spec
        .taints
        .iter()
        .map(|t| Taint { key: t.key.clone(), value: t.value.clone().unwrap_or_default(), effect: t.effect.clone() })
        .collect();
    let ready = facts.status.conditions.iter().find(|c| c.type_ == "Ready");
    let busy = if facts.metadata.deletion_timestamp.is_some() {
        Some("the node is being deleted")
    } else if taints.iter().any(is_leaving) {
        Some("the node is about to be removed")
    } else if facts.spec.unschedulable {
        Some("the node is cordoned")
    } else {
        None
    };
    Node {
        name: facts.name_any().into(),
        labels: facts.metadata.labels.clone().unwrap_or_default(),
        taints,
        ready: ready.is_some_and(|c| c.status == "True"),
        ready_since: ready.and_then(since),
        busy,
        created: created(facts.metadata.creation_timestamp.as_ref()),
        ip: facts
            .status
            .addresses
            .iter()
            .filter(|a| a.type_ == "InternalIP")
            .find_map(|a| a.address.parse::<IpAddr>().ok()),
    }
}
