//! How much memory ConfigWatchers take in a large cluster, counted by the allocator: the same on every machine.
//!
//! Here because the operator keeps every Pod of the namespaces that it watches for as long as it lives. Must hold this
//! one test alone: another would be counted with it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use oneagent_operator::api::config_watcher::ConfigWatcher;
use oneagent_operator::config_watcher::fleet::Fleet;
use oneagent_operator::config_watcher::resolve::resolve;
use oneagent_operator::k8s::facts::PodFacts;
use oneagent_operator::k8s::watch::Change;
use oneagent_operator::k8s::workload::ReplicaSetFacts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const PODS: usize = 10_000;
const CONFIG_MAPS: usize = 20_000;
const WATCHERS: usize = 500;
const TIME: &str = "2026-01-01T00:00:00Z";

fn read<K: DeserializeOwned>(value: &Value) -> K {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn pod(number: usize) -> PodFacts {
    let app = number / 4;
    read(&json!({
        "metadata": {
            "name": format!("app-{app}-86f655dfdb-{number:05}"), "namespace": format!("team-{}", app % 50),
            "uid": format!("{number:036}"), "resourceVersion": "12345678", "creationTimestamp": TIME,
            "labels": { "app": format!("app-{app}"), "pod-template-hash": "86f655dfdb", "tier": "web" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app}-86f6"),
                "uid": format!("{app:036}"), "controller": true }],
        },
        "spec": { "nodeName": format!("worker-{:05}.cluster.example", number % 500), "containers": [] },
        "status": {
            "phase": "Running", "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": TIME }],
            "containerStatuses": [{ "name": "c", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": TIME } } }],
        },
    }))
}

fn replica_set(app: usize) -> ReplicaSetFacts {
    read(&json!({
        "metadata": { "name": format!("app-{app}-86f655dfdb"), "namespace": format!("team-{}", app % 50),
            "uid": format!("{app:036}"), "generation": 1, "ownerReferences": [{ "apiVersion": "apps/v1",
            "kind": "Deployment", "name": format!("app-{app}"), "uid": format!("d{app:035}"), "controller": true }] },
        "spec": { "replicas": 4, "template": { "metadata": { "labels": { "app": format!("app-{app}"),
            "pod-template-hash": "86f655dfdb", "tier": "web" } } } },
        "status": { "observedGeneration": 1, "replicas": 4, "availableReplicas": 4 },
    }))
}

fn watcher(number: usize) -> ConfigWatcher {
    read(&json!({
        "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
        "metadata": { "name": format!("watcher-{number}"), "namespace": format!("team-{}", number % 50) },
        "spec": { "configMap": format!("config-{number}"), "podSelector": { "app": format!("app-{number}") } },
    }))
}

#[test]
fn ten_thousand_pods_and_twenty_thousand_configmaps_take_little_memory() {
    let fleet = Fleet::default();
    let before = HEAP.allocated();
    for number in 0..WATCHERS {
        let watcher = watcher(number);
        let key = (watcher.metadata.namespace.clone().unwrap(), watcher.metadata.name.clone().unwrap());
        fleet.watches(&key, Some(resolve(&watcher).unwrap()));
    }
    let watchers = HEAP.allocated() - before;
    for number in 0..CONFIG_MAPS {
        let object = json!({ "metadata": { "name": format!("config-{number}"),
            "namespace": format!("team-{}", number % 50), "resourceVersion": "12345678", "uid": format!("{number:036}"),
            "labels": { "app.kubernetes.io/managed-by": "Helm" } } });
        fleet.config_map(&Change::Applied(read(&object)));
    }
    let config_maps = HEAP.allocated() - before - watchers;
    for number in 0..PODS {
        fleet.pod(&Change::Applied(pod(number)));
    }
    for app in 0..PODS / 4 {
        fleet.owner("ReplicaSet", &Change::Applied(replica_set(app)));
    }
    let pods = HEAP.allocated() - before - watchers - config_maps;
    println!(
        "{} bytes a watcher, {} for all ConfigMaps, {} a Pod with its share of a ReplicaSet",
        watchers / WATCHERS,
        config_maps,
        pods / PODS
    );
    // Measured: 1,067, 4,000 and 1,487. A field more may cost a little; the rest of what the API sends does not fit.
    assert!(watchers / WATCHERS < 1_300 && config_maps < 10_000 && pods / PODS < 1_750);
}
