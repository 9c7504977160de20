//! Apply: server-side, forced, with our one field manager, after the ownership hand-over.
//!
//! Here because a plain forced apply neither adopts nor reverts (see `ownership`). Must not decide what is applied.

use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::drift::is_current;
use super::ownership::{Part, take_over};
use super::{Error, MANAGER, call};

/// Applies `desired` unless `live` already is it. Returns the object as stored, `None` when nothing was written.
pub async fn apply<K>(api: &Api<K>, desired: &Value, live: Option<(&K, &Value)>) -> Result<Option<K>, Error>
where
    K: Resource + DeserializeOwned + Clone + std::fmt::Debug,
{
    let name = desired["metadata"]["name"].as_str().unwrap_or_default();
    let kind = desired["kind"].as_str().unwrap_or_default();
    if let Some((object, value)) = live {
        if is_current(desired, value, object.managed_fields()) {
            return Ok(None);
        }
        hand_over(api, object, Part::Object, desired).await?;
    }
    let params = PatchParams::apply(MANAGER).force();
    let stored = call(|| format!("apply {kind} {name}"), api.patch(name, &params, &Patch::Apply(desired))).await?;
    Ok(Some(stored))
}

/// Applies a status. The caller knows that it differs from the one stored.
pub async fn apply_status<K>(api: &Api<K>, live: &K, desired: &Value) -> Result<K, Error>
where
    K: Resource + DeserializeOwned + Clone + std::fmt::Debug,
{
    hand_over(api, live, Part::Status, desired).await?;
    let name = live.name_any();
    let params = PatchParams::apply(MANAGER).force();
    call(|| format!("write the status of {name}"), api.patch_status(&name, &params, &Patch::Apply(desired))).await
}

async fn hand_over<K>(api: &Api<K>, live: &K, part: Part, desired: &Value) -> Result<(), Error>
where
    K: Resource + DeserializeOwned + Clone + std::fmt::Debug,
{
    let api_version = desired["apiVersion"].as_str().unwrap_or_default();
    let Some(fields) = take_over(live.managed_fields(), part, api_version, desired) else { return Ok(()) };
    let name = live.name_any();
    // The test makes a hand-over of an object that changed meanwhile fail instead of taking fields unseen.
    let patch = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version() },
        { "op": "replace", "path": "/metadata/managedFields", "value": fields },
    ]);
    let patch = Patch::<Value>::Json(serde_json::from_value(patch)?);
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let action = || format!("take over the fields of {name}");
    match part {
        Part::Object => call(action, api.patch(&name, &params, &patch)).await?,
        Part::Status => call(action, api.patch_status(&name, &params, &patch)).await?,
    };
    Ok(())
}
