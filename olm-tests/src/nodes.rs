//! Fake nodes: Node objects as a kubelet would write them, without a machine behind them.
//!
//! Must not run Pods: that is `kubelet`.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// What a node is like.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Labels beside the usual ones.
    pub labels: Vec<(String, String)>,
    /// Taints: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    pub zone: Option<String>,
    /// Architecture; amd64 when empty.
    pub arch: String,
    /// Entries in `status.images`: a used node has 50.
    pub images: usize,
}

impl Shape {
    /// With a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// With a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push((key.into(), value.into(), effect.into()));
        self
    }

    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.into());
        self
    }
}

static ADDRESS: AtomicU32 = AtomicU32::new(1);

fn conditions(ready: bool) -> Value {
    let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let condition = |type_: &str, status: bool, reason: &str| {
        json!({ "type": type_, "status": if status { "True" } else { "False" }, "reason": reason,
            "lastHeartbeatTime": now, "lastTransitionTime": now })
    };
    json!([
        condition("MemoryPressure", false, "KubeletHasSufficientMemory"),
        condition("DiskPressure", false, "KubeletHasNoDiskPressure"),
        condition("PIDPressure", false, "KubeletHasSufficientPID"),
        condition("Ready", ready, "KubeletReady")
    ])
}

/// A Node object, with its status: the API server keeps it on creation.
#[must_use]
pub fn node(name: &str, shape: &Shape) -> Value {
    let number = ADDRESS.fetch_add(1, Ordering::Relaxed);
    let address = format!("10.{}.{}.{}", 100 + number / 65536, (number / 256) % 256, number % 256);
    let arch = if shape.arch.is_empty() { "amd64" } else { &shape.arch };
    let mut labels = serde_json::Map::new();
    for (key, value) in [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/arch", arch),
    ] {
        labels.insert(key.into(), value.into());
    }
    if let Some(zone) = &shape.zone {
        labels.insert("topology.kubernetes.io/zone".into(), zone.clone().into());
    }
    for (key, value) in &shape.labels {
        labels.insert(key.clone(), value.clone().into());
    }
    let taints: Vec<Value> = shape
        .taints
        .iter()
        .map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }))
        .collect();
    let resources = json!({ "cpu": "16", "memory": "64Gi", "pods": "250", "ephemeral-storage": "100Gi" });
    let image = |i: usize| {
        let name = format!("registry.example/team-{i}/service");
        let names = [format!("{name}@sha256:{i:064x}"), format!("{name}:1.{i}")];
        json!({ "names": names, "sizeBytes": 123_456_789 + i })
    };
    let images: Vec<Value> = (0..shape.images).map(image).collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
        "status": {
            "capacity": resources, "allocatable": resources, "conditions": conditions(true),
            "addresses": [{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": name }],
            "nodeInfo": { "architecture": arch, "operatingSystem": "linux", "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "", "kernelVersion": "6.1", "osImage": "rig", "containerRuntimeVersion": "fake://1",
            "machineID": "", "systemUUID": "", "bootID": "" },
            "images": images,
        },
    })
}

/// Creates nodes.
pub async fn create(client: &Client, nodes: Vec<Value>) {
    let api: Api<Node> = Api::all(client.clone());
    stream::iter(nodes)
        .map(|node| {
            let api = api.clone();
            async move {
                let node: Node = serde_json::from_value(node).expect("a Node");
                api.create(&PostParams::default(), &node).await.expect("a Node is created");
            }
        })
        .buffer_unordered(8)
        .collect::<()>()
        .await;
}

/// Makes a node Ready or NotReady. A change moves the transition time, a heartbeat does not.
pub async fn set_ready(client: &Client, name: &str, ready: bool) {
    let api: Api<Node> = Api::all(client.clone());
    let patch = json!({ "status": { "conditions": conditions(ready) } });
    api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.expect("a Node's status");
}

/// A heartbeat: new times, nothing else.
pub async fn heartbeat(client: &Client, name: &str) {
    let api: Api<Node> = Api::all(client.clone());
    let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "lastHeartbeatTime": now }] } });
    let _ = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
}

/// Changes a node.
pub async fn patch(client: &Client, name: &str, patch: &Value) {
    let api: Api<Node> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("a Node is changed");
}

/// Removes nodes.
pub async fn delete(client: &Client, names: &[String]) {
    let api: Api<Node> = Api::all(client.clone());
    for name in names {
        let _ = api.delete(name, &DeleteParams::default()).await;
    }
}
