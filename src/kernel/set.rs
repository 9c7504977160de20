//! An applied set: objects of one owner and kind, told by their labels, made equal to what is wanted, surplus included.
//!
//! Must not know what the objects are for, nor when they are compared.

use std::fmt::Debug;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::apply::apply;
use super::{Error, call};
use crate::k8s::api_group::Wanted;

/// Whose objects, and where.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub uid: &'a str,
    pub namespace: &'a str,
    /// Labels that tell them.
    pub selector: &'a str,
}

/// Makes an owner's objects of one kind what is wanted: applies what differs, deletes what is too much. Returns the
/// writes; none where the cluster does not serve that kind.
pub async fn converge(
    manager: &str,
    client: &Client,
    gvk: &GroupVersionKind,
    owner: Owner<'_>,
    wanted: &Wanted,
) -> Result<usize, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), owner.namespace, &ApiResource::from_gvk(gvk));
    let listed = call(|| format!("list {}", gvk.kind), api.list(&ListParams::default().labels(owner.selector))).await;
    let live = match listed {
        Ok(list) => list.items,
        // The group is served without this kind, or has gone since it was asked for.
        Err(error) if error.is_not_found() => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut writes = 0;
    let desired: Vec<&Value> = wanted.objects.iter().filter(|object| object["kind"] == gvk.kind.as_str()).collect();
    for object in &desired {
        let mut object = (*object).clone();
        object["apiVersion"] = gvk.api_version().into();
        let found = live.iter().find(|live| object["metadata"]["name"] == live.name_any().as_str());
        let value = found.map(serde_json::to_value).transpose()?;
        writes += usize::from(apply(manager, &api, &object, found.zip(value.as_ref())).await?.is_some());
    }
    for surplus in live
        .iter()
        .filter(|_| !wanted.keep_others)
        .filter(|live| !desired.iter().any(|o| o["metadata"]["name"] == live.name_any().as_str()))
    {
        writes += usize::from(remove(&api, gvk.kind.as_str(), &surplus.name_any(), surplus.uid()).await?);
    }
    Ok(writes)
}

/// Deletes the object with this UID, whatever others write to it meanwhile: some are written each second. Returns
/// whether it was there.
#[expect(clippy::disallowed_methods, reason = "the kernel writes")]
pub async fn remove<K>(api: &Api<K>, kind: &str, name: &str, uid: Option<String>) -> Result<bool, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid, resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match call(|| format!("delete {kind} {name}"), api.delete(name, &params)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

/// An object by its name, whatever its labels, by a list: for more than that no kind may.
pub async fn find<K>(api: &Api<K>, kind: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = call(|| format!("look for {kind} {name}"), api.list(&one)).await?;
    Ok(list.items.into_iter().next())
}
