//! Apply: server-side, forced, with the package's one field manager, after the ownership hand-over.
//!
//! Here because a plain forced apply neither adopts nor reverts (see `ownership`). Must not decide what is applied.

use std::fmt::Debug;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, call};
use crate::k8s::drift::{APPLIED_ANNOTATION, is_current};
use crate::k8s::ownership::take_over;

/// Applies `desired` unless `live` already is it. Returns the object as stored, `None` when nothing was written.
pub async fn apply<K>(
    manager: &str,
    api: &Api<K>,
    desired: &Value,
    live: Option<(&K, &Value)>,
) -> Result<Option<K>, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    if let Some((object, value)) = live {
        if is_current(manager, desired, value, object.managed_fields()) {
            return Ok(None);
        }
        hand_over(manager, api, object, desired).await?;
    }
    send(manager, api, desired).await.map(Some)
}

/// What admission made of an object of ours: the hash of what was applied, and the generation that came of it; of a
/// kind without generations, the resourceVersion.
#[derive(Debug, Default)]
pub struct Belief(Mutex<Option<(String, Option<String>)>>);

fn generation(meta: &ObjectMeta) -> Option<String> {
    meta.generation.map(|number| number.to_string()).or_else(|| meta.resource_version.clone())
}

impl Belief {
    /// Whether an object is what admission made of ours.
    #[must_use]
    pub fn holds<K: Metadata<Ty = ObjectMeta>>(&self, live: &K) -> bool {
        self.0.lock().as_ref().is_some_and(|(_, known)| *known == generation(live.metadata()))
    }

    /// Applies `desired`, which carries its hash, unless `live` already is it, or is what admission made of it: that is
    /// believed after one try, not fought for ever. Returns the object as stored, `None` when nothing was written.
    pub async fn apply<K>(
        &self,
        manager: &str,
        api: &Api<K>,
        desired: &Value,
        live: Option<&K>,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let hash = desired["metadata"]["annotations"][APPLIED_ANNOTATION].to_string();
        let mark = |object: &K| (hash.clone(), generation(object.metadata()));
        if live.is_some_and(|live| *self.0.lock() == Some(mark(live))) {
            return Ok(None);
        }
        let value = live.map(serde_json::to_value).transpose()?;
        let Some(mut stored) = apply(manager, api, desired, live.zip(value.as_ref())).await? else { return Ok(None) };
        if !is_as_desired(manager, desired, &stored)? {
            // A webhook, or an edit that came in between: over exactly this object only the former can differ.
            stored = apply_over(manager, api, desired, &stored).await?;
        }
        if is_as_desired(manager, desired, &stored)? {
            *self.0.lock() = None;
        } else if self.0.lock().replace(mark(&stored)).is_none() {
            let (namespace, name, kind) = (stored.namespace(), stored.name_any(), desired["kind"].as_str());
            tracing::warn!(namespace, name, kind, "a webhook changes what is applied; that is left as it is");
        }
        Ok(Some(stored))
    }
}

/// Whether an object is what is asked for.
pub fn is_as_desired<K: Resource + Serialize>(manager: &str, desired: &Value, live: &K) -> Result<bool, Error> {
    Ok(is_current(manager, desired, &serde_json::to_value(live)?, live.managed_fields()))
}

/// Applies `desired` over exactly `live`, or fails with a conflict: what differs in the object that is returned,
/// admission made of it, and is no edit that came in between.
async fn apply_over<K>(manager: &str, api: &Api<K>, desired: &Value, live: &K) -> Result<K, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let version = hand_over(manager, api, live, desired).await?.or_else(|| live.resource_version());
    let mut exact = desired.clone();
    exact["metadata"]["resourceVersion"] = version.into();
    send(manager, api, &exact).await
}

#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
async fn send<K>(manager: &str, api: &Api<K>, desired: &Value) -> Result<K, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let name = desired["metadata"]["name"].as_str().unwrap_or_default();
    let kind = desired["kind"].as_str().unwrap_or_default();
    let params = PatchParams::apply(manager).force();
    call(|| format!("apply {kind} {name}"), api.patch(name, &params, &Patch::Apply(desired))).await
}

/// Changes some fields of an object that is there, and leaves all others, its owners too, as they are. Returns the
/// object as stored.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn merge<K>(manager: &str, api: &Api<K>, name: &str, fields: &Value) -> Result<K, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    call(|| format!("change {name}"), api.patch(name, &params(manager), &Patch::Merge(fields))).await
}

/// Creates an object, never over another one. Returns it as stored; `None`: there is one of its name.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn create<K>(manager: &str, api: &Api<K>, object: &Value) -> Result<Option<K>, Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    let object = serde_json::from_value(object.clone())?;
    match call(|| format!("create {kind} {name}"), api.create(&params, &object)).await {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a whole status: it is ours alone, and what the original operator left in it must go. Not by server-side
/// apply: the status subresource takes no hand-over of ownership, so leftovers would stay.
/// Returns the object's resourceVersion after it.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn replace_status<K>(
    manager: &str,
    api: &Api<K>,
    name: &str,
    uid: &str,
    status: &Value,
) -> Result<Option<String>, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let patch = json!([{ "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "add", "path": "/status", "value": status }]);
    let patch = Patch::<Value>::Json(serde_json::from_value(patch)?);
    call(|| format!("write the status of {name}"), api.patch_status(name, &params(manager), &patch))
        .await
        .map(|object| object.resource_version())
}

pub(super) fn params(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

/// Returns the object's resourceVersion after it, when there was anything to take.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
async fn hand_over<K>(manager: &str, api: &Api<K>, live: &K, desired: &Value) -> Result<Option<String>, Error>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let api_version = desired["apiVersion"].as_str().unwrap_or_default();
    let Some(fields) = take_over(manager, live.managed_fields(), api_version, desired) else { return Ok(None) };
    let name = live.name_any();
    // The test makes a hand-over of an object that changed meanwhile fail instead of taking fields unseen.
    let patch = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version() },
        { "op": "replace", "path": "/metadata/managedFields", "value": fields },
    ]);
    let patch = Patch::<Value>::Json(serde_json::from_value(patch)?);
    match call(|| format!("take over the fields of {name}"), api.patch(&name, &params(manager), &patch)).await {
        // The API server's answer to a test that failed; nothing in the patch itself can be invalid.
        Err(Error::Api { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.is_invalid()) => {
            Err(Error::Stale(format!("take over the fields of {name}")))
        }
        outcome => outcome.map(|object| object.resource_version()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Answer, Asked, client};
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    const MANAGER: &str = "us";

    /// What is asked for, and an object that is it; `manager` owns its data.
    fn objects(manager: &str, value: &str) -> (Value, ConfigMap, Value) {
        let desired =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "spec": { "key": "ours" } });
        let operation = if manager == MANAGER { "Apply" } else { "Update" };
        let entry = |manager: &str, operation: &str, fields: Value| {
            json!({ "manager": manager, "operation": operation, "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields })
        };
        let live = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "c", "namespace": "n", "resourceVersion": "7", "managedFields": [
                entry(MANAGER, "Apply", json!({ "f:spec": {} })),
                entry(manager, operation, json!({ "f:spec": { "f:key": {} } })),
            ] },
        });
        let mut seen = live.clone();
        seen["spec"] = json!({ "key": value });
        (desired, serde_json::from_value(live).unwrap(), seen)
    }

    fn stored(version: &str) -> Answer {
        Answer::Object(json!({ "metadata": { "name": "c", "resourceVersion": version } }))
    }

    fn is_hand_over(asked: &Asked) -> bool {
        asked.body.is_array()
    }

    #[tokio::test]
    async fn what_is_as_it_should_be_is_not_written() {
        let (client, asked) = client(|_| stored("8"));
        let (desired, live, seen) = objects(MANAGER, "ours");
        let api: Api<ConfigMap> = Api::namespaced(client, "n");
        assert!(apply(MANAGER, &api, &desired, Some((&live, &seen))).await.unwrap().is_none());
        assert_eq!(*asked.lock().unwrap(), []);
    }

    #[tokio::test]
    async fn what_others_own_is_taken_over_before_it_is_applied() {
        let (client, asked) = client(|_| stored("8"));
        let (desired, live, seen) = objects("kubectl-edit", "ours");
        let api: Api<ConfigMap> = Api::namespaced(client, "n");
        apply(MANAGER, &api, &desired, Some((&live, &seen))).await.unwrap().unwrap();
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_eq!(asked[0].body[0], json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }));
        assert_eq!(asked[0].body[1]["path"], "/metadata/managedFields");
        assert!(asked[1].path.contains("force=true") && asked[1].path.contains("fieldManager=us"), "{}", asked[1].path);
        assert_eq!(asked[1].body, desired, "no resourceVersion: a change of something else meanwhile is no obstacle");
    }

    #[tokio::test]
    async fn an_object_that_changed_before_adoption_is_read_again() {
        let (client, asked) =
            client(|asked| if is_hand_over(asked) { Answer::Refusal(422, "Invalid") } else { stored("8") });
        let (desired, live, seen) = objects("kubectl-edit", "theirs");
        let api: Api<ConfigMap> = Api::namespaced(client, "n");
        let error = apply(MANAGER, &api, &desired, Some((&live, &seen))).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert_eq!(asked.lock().unwrap().len(), 1, "and nothing was applied");
    }

    #[tokio::test]
    async fn applying_over_exactly_one_state_names_it() {
        for (manager, version) in [(MANAGER, "7"), ("kubectl-edit", "8")] {
            let (client, asked) =
                client(|asked| if is_hand_over(asked) { stored("8") } else { Answer::Refusal(409, "Conflict") });
            let (desired, live, _) = objects(manager, "theirs");
            let api: Api<ConfigMap> = Api::namespaced(client, "n");
            let error = apply_over(MANAGER, &api, &desired, &live).await.unwrap_err();
            assert!(error.is_conflict(), "{error}");
            assert_eq!(asked.lock().unwrap().last().unwrap().body["metadata"]["resourceVersion"], version, "{manager}");
        }
    }

    #[tokio::test]
    async fn what_a_webhook_makes_of_an_object_is_believed_after_one_try_until_something_changes() {
        let of = |generation: i64| {
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "a webhook's" },
                "metadata": { "name": "c", "namespace": "n", "resourceVersion": "8", "generation": generation } })
        };
        let (client, asked) = client(move |_| Answer::Object(of(2)));
        let api: Api<ConfigMap> = Api::namespaced(client, "n");
        let desired = |hash: &str| {
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "ours" },
                "metadata": { "name": "c", "annotations": { APPLIED_ANNOTATION: hash } } })
        };
        let live = |generation: i64| serde_json::from_value::<ConfigMap>(of(generation)).unwrap();
        let belief = Belief::default();
        assert!(!belief.holds(&live(2)));
        let stored = belief.apply(MANAGER, &api, &desired("a"), None).await.unwrap().unwrap();
        assert!(belief.holds(&stored));
        assert_eq!(asked.lock().unwrap().len(), 2, "once more, over exactly what was stored");
        for (hash, generation, writes) in [("a", 2, 0), ("b", 2, 2), ("b", 3, 2)] {
            asked.lock().unwrap().clear();
            belief.apply(MANAGER, &api, &desired(hash), Some(&live(generation))).await.unwrap();
            assert_eq!(asked.lock().unwrap().len(), writes, "hash {hash}, generation {generation}");
        }
    }

    #[tokio::test]
    async fn a_status_is_replaced_whole_and_only_that_of_the_same_object() {
        let (client, asked) = client(|_| stored("9"));
        let api: Api<ConfigMap> = Api::namespaced(client, "n");
        let version = replace_status(MANAGER, &api, "c", "uid", &json!({ "a": 1 })).await.unwrap();
        assert_eq!(version.as_deref(), Some("9"));
        let asked = asked.lock().unwrap().clone();
        assert!(asked[0].path.contains("/configmaps/c/status?"), "{}", asked[0].path);
        let wanted = json!([{ "op": "test", "path": "/metadata/uid", "value": "uid" },
            { "op": "add", "path": "/status", "value": { "a": 1 } }]);
        assert_eq!(asked[0].body, wanted);
    }
}
