//! What a kubelet writes of its Pods.
//!
//! Must not decide what becomes of one.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

pub(super) fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub(super) fn condition(type_: &str, is_true: bool, at: DateTime<Utc>) -> Value {
    json!({ "type": type_, "status": if is_true { "True" } else { "False" }, "lastTransitionTime": text(at) })
}

/// Whether a Pod's status says that it is Ready.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// What an observer would say of a Pod that is not being deleted.
#[must_use]
pub fn how(pod: &Value) -> Option<&str> {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let waits = pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].as_str();
    let said = pod["status"]["reason"].as_str().or(waits);
    said.or_else(|| is_ready(pod).then_some("Ready"))
}

fn container(is_ready: bool, restarts: i64, state: &Value, at: DateTime<Utc>) -> Value {
    json!({ "phase": "Running", "startTime": text(at),
        "conditions": [condition("PodScheduled", true, at), condition("Ready", is_ready, at)],
        "containerStatuses": [{ "name": "app", "ready": is_ready, "restartCount": restarts, "state": state }] })
}

pub(super) fn ready(at: DateTime<Utc>) -> Value {
    container(true, 0, &json!({ "running": { "startedAt": text(at) } }), at)
}

pub(super) fn starting(at: DateTime<Utc>) -> Value {
    container(false, 0, &json!({ "running": { "startedAt": text(at) } }), at)
}

pub(super) fn crashing(at: DateTime<Utc>) -> Value {
    let state =
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off restarting failed container" } });
    let mut status = container(false, 3, &state, at);
    status["containerStatuses"][0]["lastState"] = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    status
}

pub(super) fn creating(at: DateTime<Utc>) -> Value {
    pending(container(false, 0, &json!({ "waiting": { "reason": "ContainerCreating" } }), at))
}

pub(super) fn no_image(at: DateTime<Utc>) -> Value {
    pending(container(false, 0, &json!({ "waiting": { "reason": "ImagePullBackOff", "message": "not found" } }), at))
}

/// Before its containers were started.
fn pending(mut status: Value) -> Value {
    status["phase"] = "Pending".into();
    status
}

pub(super) fn refused(at: DateTime<Utc>) -> Value {
    json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "too little cpu", "startTime": text(at) })
}
