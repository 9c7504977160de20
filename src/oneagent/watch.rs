//! The watches that feed the fleet.
//!
//! Wiring only: which watch feeds which index. Must not read a spec or write anything.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;

use super::context::OneAgents;
use crate::fleet::daemonsets::NodeChange;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::watch::{Affects, Change, Id};
use crate::kernel::feed::Feed;

/// Label of every agent's Pod and DaemonSet.
pub const LABEL: &str = "dynatrace=oneagent";
/// Labels of the DaemonSets that the vendor's present operator makes of a DynaKube, for agents on hosts.
pub const VENDORS: &str = "app.kubernetes.io/name=oneagent,app.kubernetes.io/managed-by=dynatrace-operator";

/// Starts them.
pub fn watch(kind: &Arc<OneAgents>, feed: &mut Feed<'_>) {
    kind.peers.expect(&feed.namespaces());
    feed.follow_cluster("nodes", kind, |kind, change: Change<NodeFacts>| match kind.fleet.node(&change) {
        NodeChange::Nothing => Affects::Nobody,
        // Before all OneAgents are known none is reconciled.
        NodeChange::One(nodes) => Affects::Each(kind.peers.near(&nodes)),
        NodeChange::Gone => Affects::All,
    });
    feed.follow(("pods", LABEL, Id::Name), kind, |kind, change: Change<PodFacts>| kind.fleet.pod(&change));
    feed.follow(("daemonsets", LABEL, Id::Name), kind, |kind, change: Change<DaemonSet>| {
        kind.fleet.daemonset_change(change)
    });
    let theirs = ("daemonsets of Dynatrace Operator", VENDORS, Id::Name);
    feed.follow(theirs, kind, |kind, change: Change<DaemonSet>| kind.fleet.vendors_change(change));
}
