//! A Pod's status, as a real kubelet writes it.
//!
//! Must not know why it is so.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

pub(super) fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

fn status(pod: &Pod, ready: bool, state: &Value, last: &Value, restarts: i32) -> Value {
    let container = &pod.spec.as_ref().expect("a spec").containers[0];
    let condition = |type_: &str, holds: bool| {
        json!({ "type": type_, "status": if holds { "True" } else { "False" },
        "lastTransitionTime": now() })
    };
    json!({
        "phase": "Running",
        "startTime": now(),
        "conditions": [condition("PodReadyToStartContainers", true), condition("Initialized", true),
        condition("ContainersReady", ready), condition("Ready", ready), condition("PodScheduled", true)],
        "containerStatuses": [{
            "name": container.name, "image": container.image, "imageID": container.image, "ready": ready,
            "started": ready,
            "restartCount": restarts, "state": state, "lastState": last,
        }],
    })
}

pub(super) fn running(pod: &Pod, ready: bool) -> Value {
    status(pod, ready, &json!({ "running": { "startedAt": now() } }), &json!({}), 0)
}

/// What a Pod looks like whose containers all did their work.
pub(super) fn succeeded(pod: &Pod) -> Value {
    let spec = pod.spec.as_ref().expect("a spec");
    let done = |containers: &[Container]| {
        let all: Vec<Value> = containers
            .iter()
            .map(|c| {
                json!({ "name": c.name, "image": c.image, "imageID": c.image, "ready": false, "started": false,
                "restartCount": 0, "state": { "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now(),
                "finishedAt": now() } } })
            })
            .collect();
        all
    };
    json!({
        "phase": "Succeeded", "startTime": now(),
        "initContainerStatuses": done(spec.init_containers.as_deref().unwrap_or_default()),
        "containerStatuses": done(&spec.containers),
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
pub(super) fn of_image(mut status: Value, pod: &Pod, digest: &str) -> Value {
    let mut done = succeeded(pod)["initContainerStatuses"].take();
    for container in [&mut done, &mut status["containerStatuses"]].into_iter().filter_map(Value::as_array_mut).flatten()
    {
        container["imageID"] = digest.into();
    }
    if done.as_array().is_some_and(|all| !all.is_empty()) {
        status["initContainerStatuses"] = done;
    }
    status
}
