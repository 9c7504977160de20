//! The watches that feed the fleet.
//!
//! Wiring only: which watch feeds which index. Must not read a spec or write anything.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;

use super::context::ConfigWatchers;
use crate::k8s::facts::PodFacts;
use crate::k8s::watch::{Affects, Change, Id};
use crate::k8s::workload::{DaemonSetFacts, ReplicaSetFacts, StatefulSetFacts};
use crate::kernel::feed::Feed;

/// Starts them.
pub fn watch(kind: &Arc<ConfigWatchers>, feed: &mut Feed<'_>) {
    let woken = feed.triggers.clone();
    kind.turns.wake_by(move |key| woken.one(key));
    feed.follow(("pods", "", Id::Name), kind, |kind, change: Change<PodFacts>| Affects::Each(kind.fleet.pod(&change)));
    feed.follow(("configmaps", "", Id::Name), kind, |kind, change: Change<PartialObjectMeta<ConfigMap>>| {
        Affects::Each(kind.fleet.config_map(&change))
    });
    feed.follow(("replicasets", "", Id::Uid), kind, |kind, change: Change<ReplicaSetFacts>| {
        Affects::Each(kind.fleet.owner("ReplicaSet", &change))
    });
    feed.follow(("statefulsets", "", Id::Uid), kind, |kind, change: Change<StatefulSetFacts>| {
        Affects::Each(kind.fleet.owner("StatefulSet", &change))
    });
    feed.follow(("daemonsets", "", Id::Uid), kind, |kind, change: Change<DaemonSetFacts>| {
        Affects::Each(kind.fleet.owner("DaemonSet", &change))
    });
}
