//! What the watches of a small world show the operator, as the API server would.
//!
//! Must not look at it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::fleet::Fleet;
use crate::k8s::watch::Change;
use crate::sim::Event;

/// The watches show it to the operator.
pub(super) fn show(fleet: &Fleet, event: Event) {
    /// The simulated cluster says what the API would: all of it can be read.
    fn read<T: DeserializeOwned>(object: Value) -> Option<T> {
        serde_json::from_value(object).ok()
    }
    match event {
        Event::Node(node) => drop(read(node).map(|node| fleet.node(&Change::Applied(node)))),
        Event::NodeGone(node) => drop(read(node).map(|node| fleet.node(&Change::Deleted(node)))),
        Event::Pod(pod) => drop(read(pod).map(|pod| fleet.pod(&Change::Applied(pod)))),
        Event::PodGone(pod) => drop(read(pod).map(|pod| fleet.pod(&Change::Deleted(pod)))),
        Event::ReplicaSet(_) => {}
    }
}
