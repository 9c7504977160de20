//! Statuses: the last one that we wrote of an object, and the one way to write the next.
//!
//! What is decided from is our own last write: a cache may be behind it. Counts alone are not written with every
//! change. Must not word anything.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams, ObjectMeta};
use kube::core::object::HasStatus;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::apply::replace_status;
use super::{Error, Events, call};
use crate::api::condition::Transition;

/// While a rollout runs, counts are written at most this often; what matters is written at once.
const PERIOD: Duration = Duration::from_secs(2);

/// The last status that we wrote of an object.
#[derive(Debug)]
pub struct LastStatus<S>(Mutex<Option<Written<S>>>);

#[derive(Debug)]
struct Written<S> {
    status: Arc<S>,
    at: Instant,
    /// The object's resourceVersion after it.
    version: Option<String>,
}

impl<S> Default for LastStatus<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The field manager of a status.
#[derive(Clone, Copy)]
pub struct Writer<'w> {
    pub client: &'w Client,
    pub manager: &'static str,
    pub events: &'w Events,
}

/// The stored status of an object that does not decode, as far as it reads: what it remembers must outlive that. By a
/// list, for more than that no kind may.
pub async fn stored<K>(client: &Client, metadata: &ObjectMeta) -> Result<Option<K::Status>, Error>
where
    K: Resource<DynamicType = ()> + HasStatus,
    K::Status: DeserializeOwned,
{
    let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &ApiResource::erase::<K>(&()));
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = call(|| format!("read the status of {namespace}/{name}"), api.list(&one)).await?;
    let status = list.items.into_iter().next().and_then(|object| object.data.get("status").cloned());
    Ok(status.and_then(|status| serde_json::from_value(status).ok()))
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    Written,
    /// It is there already.
    Unchanged,
    /// It is too soon for mere counts; for so long.
    TooSoon(Duration),
}

impl<S: Clone + Default + PartialEq + Serialize> LastStatus<S> {
    /// The last status that we know of: our own last write, otherwise what is stored.
    pub fn last(&self, object: &impl HasStatus<Status = S>) -> Arc<S> {
        let ours = self.0.lock().as_ref().map(|written| written.status.clone());
        ours.unwrap_or_else(|| Arc::new(object.status().cloned().unwrap_or_default()))
    }

    /// Whether another client wrote the status after we did: it is ours alone, and written again.
    pub fn is_foreign<K: Resource + HasStatus<Status = S>>(&self, object: &K) -> bool {
        let written = self.0.lock();
        let Some(ours) = &*written else { return false };
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        let is_newer = number(object.meta().resource_version.as_deref()) > number(ours.version.as_deref());
        is_newer && object.status() != Some(&*ours.status)
    }

    /// Writes a status if it differs, and tells of every transition. `is_urgent`: more than counts changed.
    pub async fn write<K>(
        &self,
        writer: Writer<'_>,
        object: &K,
        status: S,
        transitions: &[Transition],
        is_urgent: bool,
    ) -> Result<WriteOutcome, Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + HasStatus<Status = S>
            + Clone
            + std::fmt::Debug,
    {
        if status == *self.last(object) && !self.is_foreign(object) {
            return Ok(WriteOutcome::Unchanged);
        }
        let last = self.0.lock().as_ref().map(|written| written.at);
        if let Some(left) = last.filter(|_| !is_urgent).and_then(|at| PERIOD.checked_sub(at.elapsed())) {
            return Ok(WriteOutcome::TooSoon(left));
        }
        // Only its metadata is read back: an object that does not decode must be able to say so.
        let api: Api<PartialObjectMeta<K>> =
            Api::namespaced(writer.client.clone(), &object.namespace().unwrap_or_default());
        let uid = object.uid().unwrap_or_default();
        let value = serde_json::to_value(&status)?;
        let version = replace_status(writer.manager, &api, &object.name_any(), &uid, &value).await?;
        *self.0.lock() = Some(Written { status: status.into(), at: Instant::now(), version });
        let about = object.object_ref(&());
        for transition in transitions {
            let Transition { type_, reason, message, warning } = transition;
            if *warning {
                tracing::warn!(namespace = about.namespace, name = about.name, reason, message, "told");
            } else {
                tracing::info!(namespace = about.namespace, name = about.name, reason, message, "told");
            }
            writer.events.publish(&about, *warning, reason, type_, message).await;
        }
        Ok(WriteOutcome::Written)
    }
}
