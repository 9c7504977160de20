//! Store: writes an object of which others may have made or changed the one that is there.
//!
//! Never over it: it is created, or changed where its resourceVersion is the one that was seen. One that is immutable
//! is deleted first, where its caller has all that it holds. Must not decide its content.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::Cx;
use super::fleet::{Inner, Objects};
use crate::kernel::apply::{create, merge};
use crate::kernel::set::remove;
use crate::kernel::{self};

/// Writes it: what has a resourceVersion is a change. Returns what hinders it.
pub async fn store<K>(
    cx: &Cx<'_>,
    (namespace, name): (&str, &str),
    object: &Value,
    of: fn(&mut Inner) -> &mut Objects<K>,
) -> Result<Option<String>, kernel::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + ResourceExt
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    let api: Api<K> = Api::namespaced(cx.client.clone(), namespace);
    let stored = if object["metadata"]["resourceVersion"].is_string() {
        merge(cx.manager, &api, name, object).await?
    } else {
        let Some(stored) = create(cx.manager, &api, object).await? else {
            return Ok(Some(unlabelled(&K::kind(&()), name, &object["metadata"]["labels"])));
        };
        stored
    };
    cx.kind.fleet.with(|all| of(all).keep(stored));
    Ok(None)
}

/// Deletes an object of ours that is immutable, and out of date: another one is created in its place.
pub async fn thaw<K>(cx: &Cx<'_>, (namespace, name): (&str, &str), uid: &str) -> Result<(), kernel::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let (api, kind): (Api<K>, _) = (Api::namespaced(cx.client.clone(), namespace), K::kind(&()));
    tracing::info!(namespace, %kind, name, "it is immutable and out of date: it is deleted, and created again");
    if remove(&api, &kind, name, Some(uid.to_owned())).await? {
        return Ok(());
    }
    Err(kernel::Error::Stale(format!("delete {kind} {name}")))
}

/// What to do about an object that is there and in no watch of ours.
fn unlabelled(kind: &str, name: &str, labels: &Value) -> String {
    let label = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let labels: Vec<String> = labels.as_object().into_iter().flatten().map(label).collect();
    let (labels, of) = (labels.join(" "), kind.to_lowercase());
    format!(
        "{kind} {name} exists without its labels: to have it used, kubectl label {of} {name} {labels}; or delete it"
    )
}
