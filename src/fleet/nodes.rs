//! Nodes, from what their watch shows.
//!
//! Pure. Must not decide whether anything should run there.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use kube::ResourceExt;

use super::{as_seen, created, since};
use crate::k8s::facts::{APPLIED_DRAIN, CONFIG_STATE, DESIRED_DRAIN, NodeFacts};
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
        is_reconfigured(facts).then_some("the machine-config operator is changing the node")
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

/// A node as this process saw it: since when it is Ready, or not, not by its kubelet's clock alone.
pub fn see(before: Option<&Node>, node: &mut Node, now: DateTime<Utc>) {
    let same = before.filter(|before| before.ready == node.ready).and_then(|before| before.ready_since);
    let is_change = before.is_some_and(|before| before.ready != node.ready);
    node.ready_since = node.ready_since.map(|at| as_seen(at, same, is_change, now));
}

/// Whether OpenShift's machine-config operator works on a node now. A node whose pool is paused or degraded can want
/// another configuration for weeks: that alone is no reason to wait.
fn is_reconfigured(facts: &NodeFacts) -> bool {
    let said = |key: &str| facts.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let drains =
        said(DESIRED_DRAIN).is_some_and(|asked| asked.starts_with("drain-") && said(APPLIED_DRAIN) != Some(asked));
    match said(CONFIG_STATE) {
        Some("Working" | "Rebooting") => true,
        Some("Degraded") => false,
        _ => drains,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_busy_while_the_machine_config_operator_works_on_it_and_not_while_its_pool_waits() {
        let busy = |state: &str, current: &str, desired: &str, drain: [&str; 2]| {
            let key = |name: &str| format!("machineconfiguration.openshift.io/{name}");
            let annotations = json!({ key("state"): state, key("currentConfig"): current, key("desiredConfig"): desired,
                key("desiredDrain"): drain[0], key("lastAppliedDrain"): drain[1] });
            let facts = json!({ "metadata": { "name": "n", "annotations": annotations } });
            node(&serde_json::from_value(facts).unwrap()).busy.is_some()
        };
        let idle = ["uncordon-a", "uncordon-a"];
        assert!(!busy("Done", "a", "a", idle), "at rest");
        assert!(busy("Working", "a", "b", idle), "being changed");
        assert!(busy("Done", "a", "b", ["drain-b", "uncordon-a"]), "about to be drained");
        assert!(!busy("Done", "a", "b", idle), "its pool waits");
        assert!(!busy("Degraded", "a", "b", ["drain-b", "uncordon-a"]), "it can stay so for weeks");
    }
}
