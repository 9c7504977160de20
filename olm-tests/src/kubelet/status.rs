//! A Pod's status, as a real kubelet writes it.
//!
//! Must not know why it is so.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

pub(super) fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// All containers alike: what befalls one befalls all.
fn status(pod: &Pod, ready: bool, state: &Value, last: &Value, restarts: i32) -> Value {
    let condition = |type_: &str, holds: bool| json!({ "type": type_, "status": if holds { "True" } else { "False" } });
    let uid = pod.metadata.uid.as_deref().unwrap_or_default().replace('-', "");
    let of = |(number, container): (usize, &Container)| {
        // As many digits as a real one has, and others with each restart.
        let id = format!("containerd://{uid}{:032}", i64::from(restarts) + 1_000_000 * number as i64);
        json!({ "name": container.name, "image": container.image, "imageID": container.image, "ready": ready,
            "started": ready, "containerID": if state["waiting"].is_null() { id.as_str() } else { "" },
            "restartCount": restarts, "state": state, "lastState": last })
    };
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    json!({
        "phase": "Running",
        "startTime": now(),
        "conditions": [condition("PodReadyToStartContainers", true), condition("Initialized", true),
        condition("ContainersReady", ready), condition("Ready", ready), condition("PodScheduled", true)],
        "initContainerStatuses": done(init_containers(pod)),
        "containerStatuses": containers.iter().enumerate().map(of).collect::<Vec<_>>(),
    })
}

/// Why a container ended. There is no memory limit here: one that seems to be killed for it has put a file `oomkilled`
/// into its `/tmp`.
pub(super) fn ended_for(code: i32, tmp: &Path) -> &'static str {
    match code {
        0 => "Completed",
        137 if tmp.join("oomkilled").exists() => "OOMKilled",
        _ => "Error",
    }
}

pub(super) fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

/// Statuses of containers that did their work.
pub(super) fn done(containers: &[Container]) -> Vec<Value> {
    let at = now();
    let status = |c: &Container| {
        json!({ "name": c.name, "image": c.image, "imageID": c.image, "ready": false, "started": false,
            "restartCount": 0, "state": { "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": at,
            "finishedAt": at } } })
    };
    containers.iter().map(status).collect()
}

/// A Pod whose first init container waits, and whose other containers wait for that.
pub(super) fn initializing(pod: &Pod, reason: &str, message: &str, restarts: i32) -> Value {
    let mut status = waiting(pod, "PodInitializing", "", 0);
    let first = &waiting(pod, reason, message, restarts)["containerStatuses"][0];
    status["initContainerStatuses"] = done(init_containers(pod)).into();
    for (key, value) in first.as_object().into_iter().flatten() {
        if matches!(key.as_str(), "restartCount" | "state" | "lastState") {
            status["initContainerStatuses"][0][key] = value.clone();
        }
    }
    status["conditions"][1]["status"] = "False".into();
    status
}

pub(super) fn running(pod: &Pod, ready: bool) -> Value {
    status(pod, ready, &json!({ "running": { "startedAt": now() } }), &json!({}), 0)
}

/// What a Pod looks like whose containers all did their work.
pub(super) fn succeeded(pod: &Pod) -> Value {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    json!({
        "phase": "Succeeded", "startTime": now(),
        "initContainerStatuses": done(init_containers(pod)),
        "containerStatuses": done(containers),
    })
}

pub(super) fn waiting(pod: &Pod, reason: &str, message: &str, restarts: i32) -> Value {
    let last = if restarts > 0 {
        json!({ "terminated": { "exitCode": 1, "reason": "Error", "startedAt": now(), "finishedAt": now() } })
    } else {
        json!({})
    };
    let mut status =
        status(pod, false, &json!({ "waiting": { "reason": reason, "message": message } }), &last, restarts);
    if restarts == 0 {
        status["phase"] = "Pending".into();
    }
    status
}

/// The status of a Pod whose images, those of its init containers too, were all pulled at this digest.
pub(super) fn of_image(mut status: Value, digest: &str) -> Value {
    for statuses in ["initContainerStatuses", "containerStatuses"] {
        for container in status[statuses].as_array_mut().into_iter().flatten() {
            container["imageID"] = digest.into();
        }
    }
    status
}
