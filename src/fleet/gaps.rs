//! For how long nodes were without an available agent because a rollout replaced it.
//!
//! Pure. Must not count a node that another cause left without one.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::rollout::Pod;
use crate::rollout::ledger::Ledger;

/// Of the nodes that lost their agent by us and have an available one again since the ledger was `before`.
#[must_use]
pub fn gaps<R>(before: &Ledger, after: &Ledger, pods: &[Arc<Pod<R>>], now: DateTime<Utc>) -> Vec<TimeDelta> {
    let lost = after.lost();
    let settled = before.lost().into_iter().filter(|(node, _)| !lost.contains_key(node));
    let settled: HashMap<Arc<str>, DateTime<Utc>> = settled.collect();
    if settled.is_empty() {
        return Vec::new();
    }
    let ready = pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.deleting);
    ready.filter_map(|pod| settled.get(&pod.node)).map(|since| now - *since).collect()
}
