//! How much memory a vRouter takes, and each program that runs on every node, counted by the allocator: the same on
//! every machine.
//!
//! Here because the operator keeps every node, its Pod, its files and its certificate for as long as it lives. Must
//! hold this one test alone: another would be counted with it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;

use oneagent_operator::k8s::watch::Change;
use oneagent_operator::manager::fleet::Fleet;
use oneagent_operator::stack::table::{Row, Table, Workload};
use serde_json::{Value, json};

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const NODES: usize = 500;
const TIME: &str = "2026-01-01T00:00:00Z";
/// Bytes of a certificate and of its key, as `pki` makes them.
const CERTIFICATE: usize = 900;
const KEY: usize = 240;

fn of<T: serde::de::DeserializeOwned>(value: Value) -> Change<T> {
    Change::Applied(serde_json::from_value(value).unwrap())
}

fn name(number: usize) -> String {
    format!("worker-{number:05}.cluster.example")
}

fn node(number: usize) -> Value {
    json!({ "metadata": { "name": name(number), "labels": { "kubernetes.io/hostname": name(number),
            "kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": "" } },
        "spec": {}, "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": TIME }],
            "addresses": [{ "type": "InternalIP", "address": address(number) }] } })
}

fn address(number: usize) -> String {
    format!("10.0.{}.{}", number / 250, number % 250 + 1)
}

fn pod(row: &Row, number: usize) -> Value {
    let labels = json!({ Table::own().labels.kind.clone(): row.kind, row.kind.clone(): "workers",
        "contrail_cluster": "cluster1", "controller-revision-hash": "86f655dfdb" });
    let annotations = json!({ "contrail.juniper.net/template": "0123456789abcdef" });
    json!({ "metadata": { "name": format!("workers-{}-daemonset-{number:05}", row.kind), "namespace": "contrail",
            "uid": format!("{number:036}"), "labels": labels, "annotations": annotations },
        "spec": { "nodeName": name(number) },
        "status": { "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": TIME }] } })
}

/// An object with these entries of each node.
fn each(kind: &str, field: &str, entries: impl Fn(&str) -> Vec<(String, String)>) -> Value {
    let all: BTreeMap<String, String> = (0..NODES).flat_map(|number| entries(&address(number))).collect();
    json!({ "metadata": { "name": kind, "namespace": "contrail", "uid": kind, "resourceVersion": "1" }, field: all })
}

#[test]
fn five_hundred_vrouters_take_little_memory() {
    let row = Table::own().rows.iter().find(|row| row.workload == Workload::DaemonSet).expect("one on every node");
    let fleet = Fleet::default();
    let before = HEAP.allocated();
    for number in 0..NODES {
        fleet.node(&of(node(number)));
        fleet.pod(&of(pod(row, number)));
    }
    let places = (HEAP.allocated() - before) / NODES;
    // A template is about as long as what is rendered from it.
    let files =
        |address: &str| row.files.iter().map(|(name, text)| (format!("{name}.{address}"), text.clone())).collect();
    fleet.with(|all| drop(all.config_maps.take(of(each("files", "data", files)))));
    let certificates = |address: &str| {
        vec![
            (format!("server-{address}.crt"), "Q".repeat(CERTIFICATE.div_ceil(3) * 4)),
            (format!("server-key-{address}.pem"), "Q".repeat(KEY.div_ceil(3) * 4)),
        ]
    };
    fleet.with(|all| drop(all.secrets.take(of(each("certificates", "data", certificates)))));
    let whole = (HEAP.allocated() - before) / NODES;
    println!("{places} bytes a node with its Pod; {whole} with its files and its certificate");
    // Measured: 1,711 and 3,831. A second copy of a file or a certificate does not fit.
    assert!(places < 1_900 && whole < 4_200, "{places} and {whole}");
}
