//! The watches that feed the fleet.
//!
//! Wiring only: which watch feeds which index. Must not read a spec or write anything.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;

use super::context::DaemonSetRollouts;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::watch::{Change, Id};
use crate::kernel::feed::Feed;

/// Starts them.
pub fn watch(kind: &Arc<DaemonSetRollouts>, feed: &mut Feed<'_>) {
    feed.follow_cluster("nodes", kind, |kind, change: Change<NodeFacts>| kind.fleet.node(&change));
    feed.follow(("pods", "", Id::Name), kind, |kind, change: Change<PodFacts>| kind.fleet.pod(&change));
    feed.follow(("daemonsets", "", Id::Name), kind, |kind, change: Change<DaemonSet>| kind.fleet.daemonset(change));
}
