//! ConfigWatcher: a changed ConfigMap reaches its Pods, safely.
//!
//! The test's own eyes see what goes and comes; what the operator says of it is tried apart from that.

mod basics;
mod blocked;
mod everywhere;
mod hostile;
mod restarts;
mod web;
mod workloads;
mod world;

use std::time::Duration;

use olm_tests::eyes::Eyes;
use olm_tests::lab::{Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

/// A corner with a Deployment of four Pods that say `one`, and a watcher that has seen them.
pub async fn lab(name: &str) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    webapp(&lab).await;
    lab
}

/// The same in a corner that is there.
pub(super) async fn webapp(lab: &Lab<'_>) {
    lab.message("one");
    lab.workload("Deployment", "webapp", &json!({}));
    lab.watcher(&json!({}));
    lab.all_say("webapp", "one", 4, SOON).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    next_second().await;
}

/// Waits until one Pod of `webapp` was replaced.
pub(super) async fn one_is_gone(eyes: &Eyes) {
    olm_tests::eventually("the first is gone", SOON, || async {
        if eyes.seen().deletions.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
}

/// The API's times are whole seconds: what comes after this is later than what was before.
pub async fn next_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}
