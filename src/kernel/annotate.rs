//! Annotations of Pods that are not ours: applied without force, so that a value that a user set stays.
//!
//! Must not decide what is annotated.

use std::collections::BTreeMap;

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{Error, call};
use crate::k8s::facts::PodFacts;

/// Has a Pod have these annotations of ours, and no other of ours; returns those whose values another client set. A Pod
/// that is gone needs none.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn annotate(
    client: &Client,
    manager: &str,
    (namespace, name, uid): (&str, &str, &str),
    annotations: &BTreeMap<String, String>,
) -> Result<Vec<String>, Error> {
    let api: Api<PodFacts> = Api::namespaced(client.clone(), namespace);
    let (params, mut wanted, mut others) = (PatchParams::apply(manager), annotations.clone(), Vec::new());
    loop {
        // The UID, for an apply to a Pod that is gone would make one.
        let body = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace, "uid": uid, "annotations": wanted },
        });
        let patch = Patch::Apply(body);
        let sent = api.patch(name, &params, &patch);
        let Err(error) = call(|| format!("annotate Pod {namespace}/{name}"), sent).await else {
            return Ok(others);
        };
        let conflicts = conflicts(&error, &wanted);
        if conflicts.is_empty() {
            return if error.is_conflict() || error.is_not_found() { Ok(Vec::new()) } else { Err(error) };
        }
        for key in conflicts {
            wanted.remove(&key);
            others.push(key);
        }
    }
}

/// Annotations with values of another client.
fn conflicts(error: &Error, wanted: &BTreeMap<String, String>) -> Vec<String> {
    let Error::Api { source, .. } = error else { return Vec::new() };
    let kube::Error::Api(status) = &**source else { return Vec::new() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<&str> = causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .filter_map(|cause| cause.field.strip_prefix(".metadata.annotations."))
        .collect();
    wanted.keys().filter(|key| fields.contains(&key.as_str())).cloned().collect()
}
