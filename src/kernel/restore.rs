//! Restore: puts a part of another's object back, and leaves it to its owners.
//!
//! Here because what our patch changes would be ours from then on, and the next apply of its owner would conflict with
//! us. Must not decide what is put back.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, call};

/// So often ownership is given up, while others write the object, too.
const TRIES: usize = 5;

/// Patches exactly this object strategically, unless a dry run shows that something else would come of it. Returns
/// whether it was.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn restore<K>(
    manager: &str,
    api: &Api<K>,
    live: &K,
    part: &Value,
    is_as_wanted: impl Fn(&K) -> bool,
) -> Result<bool, Error>
where
    K: ResourceExt + DeserializeOwned + Clone + Debug,
{
    let (name, what) = (live.name_any(), || format!("put back {}", live.name_any()));
    let mut body = part.clone();
    body["metadata"] = json!({ "resourceVersion": live.resource_version() });
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let trial = PatchParams { dry_run: true, ..params.clone() };
    let made = call(what, api.patch(&name, &trial, &Patch::Strategic(&body))).await?;
    if !is_as_wanted(&made) {
        return Ok(false);
    }
    let restored = call(what, api.patch(&name, &params, &Patch::Strategic(&body))).await?;
    disown(manager, api, restored, live.managed_fields()).await?;
    Ok(true)
}

/// Whether fields of an object are ours that should not be.
#[must_use]
pub fn owns(manager: &str, object: &impl ResourceExt) -> bool {
    object.managed_fields().iter().any(|entry| is_ours(manager, entry))
}

/// Gives up what is ours of an object, as it is stored: what others owned before is theirs again.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn disown<K>(manager: &str, api: &Api<K>, mut live: K, before: &[ManagedFieldsEntry]) -> Result<(), Error>
where
    K: ResourceExt + DeserializeOwned + Clone + Debug,
{
    let name = live.name_any();
    let what = || format!("give up the ownership of {name}");
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let mut tries = 1;
    while owns(manager, &live) {
        let entries = entries(manager, live.managed_fields(), before);
        let metadata = json!({ "resourceVersion": live.resource_version(), "managedFields": entries });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match call(what, api.patch(&name, &params, &patch)).await {
            Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
            other => return other.map(drop),
        }
        let list = call(what, api.list(&ListParams::default().fields(&format!("metadata.name={name}")))).await?;
        let Some(stored) = list.items.into_iter().next() else { break };
        live = stored;
    }
    Ok(())
}

fn is_ours(manager: &str, entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(manager) && entry.subresource.is_none()
}

/// Who owns what without us: of those who were there before what they had, for our patch took it from them.
fn entries(manager: &str, now: &[ManagedFieldsEntry], before: &[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry> {
    let id = |entry: &ManagedFieldsEntry| {
        (entry.manager.clone(), entry.operation.clone(), entry.api_version.clone(), entry.subresource.clone())
    };
    let others = now.iter().filter(|entry| !is_ours(manager, entry));
    let known =
        |entry: &ManagedFieldsEntry| before.iter().find(|known| id(known) == id(entry) && entry.time == known.time);
    let mut kept: Vec<ManagedFieldsEntry> = others.map(|entry| known(entry).unwrap_or(entry).clone()).collect();
    let is_gone = |entry: &&ManagedFieldsEntry| !is_ours(manager, entry) && !now.iter().any(|one| id(one) == id(entry));
    kept.extend(before.iter().filter(is_gone).cloned());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, fields: &Value, time: &str) -> ManagedFieldsEntry {
        serde_json::from_value(json!({ "manager": manager, "operation": "Apply", "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": time }))
        .unwrap()
    }

    #[test]
    fn what_we_took_is_its_owners_again_and_what_they_wrote_since_stays() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let before =
            [entry("helm", &json!({ "f:a": {}, "f:b": {} }), early), entry("gone", &json!({ "f:c": {} }), early)];
        let ours = entry("us", &json!({ "f:a": {}, "f:c": {} }), late);
        let now =
            [entry("helm", &json!({ "f:b": {} }), early), ours.clone(), entry("new", &json!({ "f:d": {} }), late)];
        let after = entries("us", &now, &before);
        assert_eq!(after, [before[0].clone(), now[2].clone(), before[1].clone()]);
        let written = [entry("helm", &json!({ "f:x": {} }), late), ours];
        assert_eq!(entries("us", &written, &before)[0], written[0]);
    }
}
