//! Requests: the container that joins a Pod, to have its JVM export.
//!
//! Pure. Must not send it, nor decide whether it joins.

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use serde_json::{Value, json};

use super::export::Export;
use super::resolve::Resolved;
use super::run::{COMMAND, Identity, PREFIX, VALID};
use super::target::{Instance, Target};
use crate::k8s::containers::Capabilities;

/// The user of our image where the JVM's is unknown.
const NOBODY: i64 = 65_532;

/// The container that joins `instance`. `rewrites`: only another configuration is brought.
#[must_use]
pub fn container(
    resolved: &Resolved,
    desired: &Export,
    (target, instance): (&Target, &Instance),
    rewrites: bool,
    (image, identity): (&str, Option<&Identity>),
    now: DateTime<Utc>,
) -> Value {
    // Whole seconds, and none of them in the past: what began a moment ago is no older than this.
    let until = now.trunc_subsecs(0) + TimeDelta::seconds(1) + VALID;
    let mut args = vec![
        COMMAND.to_owned(),
        format!("--port={}", desired.port),
        format!("--sha256={}", desired.sha256),
        format!("--container={}", instance.id),
        format!("--valid-until={}", until.format("%FT%TZ")),
        format!("--min-free-memory={}", resolved.min_free_memory),
    ];
    if rewrites {
        args.push("--rewrite".to_owned());
    }
    let config = json!({ "configMapKeyRef": { "name": resolved.config_map, "key": resolved.key } });
    json!({
        "name": name(target, instance),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": *instance.shape.name,
        "args": args,
        "env": [{ "name": "JMX_CONFIG", "valueFrom": config }],
        "securityContext": security(instance, identity),
    })
}

/// A name that the same request has again, and no other container of the Pod, by any writer.
fn name(target: &Target, instance: &Instance) -> String {
    let stem = format!("{PREFIX}{}-", instance.restarts);
    let ours = target.runs.iter().map(|run| &*run.name);
    let others = target.taken.iter().map(|name| &**name);
    let numbers = ours.chain(others).filter_map(|name| name.strip_prefix(&*stem)?.parse::<u32>().ok());
    format!("{stem}{}", numbers.max().unwrap_or_default().saturating_add(1))
}

/// The user of the container: a JVM's files open only to its own user, with at least its capabilities.
fn security(instance: &Instance, identity: Option<&Identity>) -> Value {
    let security = &instance.shape.security;
    let user = security.run_as_user.or_else(|| identity.map(|identity| identity.user));
    let user = user.unwrap_or(NOBODY);
    // A group was learned together with its user.
    let group = identity.filter(|identity| identity.user == user).map(|identity| identity.group);
    let group = security.run_as_group.or(group);
    let own = security.capabilities.clone().unwrap_or_default();
    // Only root has capabilities without being given any.
    let capabilities = if user == 0 { own } else { Capabilities { drop: vec!["ALL".to_owned()], ..own } };
    let mut all = json!({
        "runAsUser": user,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "seccompProfile": { "type": "RuntimeDefault" },
        "capabilities": {},
    });
    for (key, names) in [("add", capabilities.add), ("drop", capabilities.drop)] {
        if !names.is_empty() {
            all["capabilities"][key] = names.into();
        }
    }
    if let Some(group) = group {
        all["runAsGroup"] = group.into();
    }
    if user != 0 {
        all["runAsNonRoot"] = true.into();
    }
    all
}
