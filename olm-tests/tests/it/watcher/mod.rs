//! ConfigWatcher: a changed ConfigMap reaches its Pods, safely.
//!
//! The test's own eyes see what goes and comes; what the operator says of it is tried apart from that.

mod basics;
mod blocked;
mod hostile;
mod restarts;
mod web;
mod workloads;

use std::time::Duration;

use olm_tests::lab::{Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

/// A corner with a Deployment of four Pods that say `one`, and a watcher that has seen them.
pub(super) async fn lab(name: &str) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    lab.message("one");
    lab.workload("Deployment", "webapp", &json!({}));
    lab.watcher(&json!({}));
    lab.all_say("webapp", "one", 4, SOON).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    next_second().await;
    lab
}

/// The API's times are whole seconds: what comes after this is later than what was before.
pub(super) async fn next_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}
