//! How much memory PrometheusJmxExporters take in a large cluster, counted by the allocator: the same on every machine.
//!
//! Here because the operator keeps every Pod of the namespaces that it watches for as long as it lives. Must hold this
//! one test alone: another would be counted with it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use oneagent_operator::jmx_exporter::fleet::Fleet;
use oneagent_operator::k8s::containers::PodContainers;
use oneagent_operator::k8s::watch::Change;
use serde_json::json;

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const PODS: usize = 2000;
const TIME: &str = "2026-01-01T00:00:00Z";

/// A Pod of a Deployment of ten, whose JVM exports.
fn pod(number: usize) -> PodContainers {
    let (app, id) = (number / 10, format!("{number:064x}"));
    let security = json!({ "runAsUser": 1001, "runAsGroup": 1001, "capabilities": { "drop": ["ALL"] } });
    let args = [
        "jmx-attach",
        "--port=9400",
        &format!("--sha256={:064x}", 7),
        &format!("--container={id}"),
        "--valid-until=2026-01-01T00:10:00Z",
        "--min-free-memory=96Mi",
    ];
    let said = json!({ "result": "Exporting", "loadedAt": TIME }).to_string();
    let object = json!({
        "metadata": {
            "name": format!("app-{app}-86f655dfdb-{number:05}"), "namespace": format!("team-{}", app % 50),
            "uid": format!("{number:036}"), "resourceVersion": "12345678", "creationTimestamp": TIME,
            "labels": { "app": format!("app-{app}"), "pod-template-hash": "86f655dfdb", "tier": "web" },
            "annotations": { "jmx-prometheus-exporter": "verified", "prometheus.io/scrape": "true",
                "prometheus.io/port": "9400", "prometheus.io/path": "/metrics", "of/another": "value" },
        },
        "spec": { "nodeName": format!("worker-{:05}.cluster.example", number % 100),
            "containers": [{ "name": "app", "image": format!("registry.example/team/app-{app}:1.0"),
                "securityContext": security }],
            "ephemeralContainers": [{ "name": "jmx-0-1", "image": "registry.example/operator@sha256:1", "args": args,
                "targetContainerName": "app", "securityContext": security }] },
        "status": { "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": TIME }],
            "containerStatuses": [{ "name": "app", "containerID": format!("containerd://{id}"), "ready": true,
                "restartCount": 0, "state": { "running": { "startedAt": TIME } } }],
            "ephemeralContainerStatuses": [{ "name": "jmx-0-1", "containerID": "containerd://0", "ready": false,
                "restartCount": 0, "state": { "terminated": { "exitCode": 0, "finishedAt": TIME, "message": said } } }],
        },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

#[test]
fn two_thousand_jvms_take_little_memory() {
    let fleet = Fleet::default();
    let before = HEAP.allocated();
    for number in 0..PODS {
        fleet.pod(&Change::Applied(pod(number)), |_| {});
    }
    let each = (HEAP.allocated() - before) / PODS;
    println!("{each} bytes a JVM");
    assert!(each <= 600, "{each} bytes");
}
