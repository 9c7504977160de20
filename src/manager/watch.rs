//! The watches that feed the fleet.
//!
//! Wiring only: which watch feeds which index. Must not read a spec or write anything.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::context::Managers;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::watch::{Change, Id};
use crate::kernel::feed::Feed;
use crate::stack::table::Table;

/// Starts them.
pub fn watch(kind: &Arc<Managers>, feed: &mut Feed<'_>) {
    let label = &*Table::own().labels.kind;
    feed.follow_cluster("nodes", kind, |kind, change: Change<NodeFacts>| kind.fleet.node(&change));
    feed.follow(("pods", label, Id::Name), kind, |kind, change: Change<PodFacts>| kind.fleet.pod(&change));
    feed.follow(("statefulsets", label, Id::Name), kind, |kind, change: Change<StatefulSet>| {
        kind.fleet.with(|all| all.stateful_sets.take(change))
    });
    feed.follow(("daemonsets", label, Id::Name), kind, |kind, change: Change<DaemonSet>| {
        kind.fleet.with(|all| all.daemon_sets.take(change))
    });
    feed.follow(("configmaps", label, Id::Name), kind, |kind, change: Change<ConfigMap>| {
        kind.fleet.with(|all| all.config_maps.take(change))
    });
    feed.follow(("secrets", label, Id::Name), kind, |kind, change: Change<Secret>| {
        kind.fleet.with(|all| all.secrets.take(change))
    });
    feed.follow(("services", label, Id::Name), kind, |kind, change: Change<Service>| {
        kind.fleet.with(|all| all.services.take(change))
    });
    feed.follow(("poddisruptionbudgets", label, Id::Name), kind, |kind, change: Change<PodDisruptionBudget>| {
        kind.fleet.with(|all| all.budgets.take(change))
    });
}
