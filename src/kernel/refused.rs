//! Why the API server refuses the Pods of a DaemonSet: its controller says so in Events alone.
//!
//! Must not decide what follows.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::{Error, call};
use crate::rollout::Pod;

/// Why the API server refuses the DaemonSet's Pods where some are missing, in its own words: they stand only in Events.
/// Since when the first of them is missing, as far as known, says whether an Event is of it: a Pod that was made since
/// shows that others are let through, not this one.
pub async fn why<R>(
    client: &Client,
    daemonset: &DaemonSet,
    (pods, missing_since): (&[Arc<Pod<R>>], Option<DateTime<Utc>>),
    now: DateTime<Utc>,
) -> Result<Option<String>, Error> {
    let name = daemonset.name_any();
    let fields = format!("involvedObject.kind=DaemonSet,involvedObject.name={name},reason=FailedCreate");
    let namespace = daemonset.namespace().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let params = ListParams::default().fields(&fields).limit(50);
    let events = call(|| format!("list Events of namespace {namespace}"), api.list(&params)).await?;
    let uid = daemonset.uid();
    let of_this = events.items.into_iter().filter(|event| event.involved_object.uid == uid);
    let Some(last) = of_this.max_by_key(|event| event.last_timestamp.as_ref().map(|t| t.0.as_second())) else {
        return Ok(None);
    };
    let seen = last.last_timestamp.as_ref().map_or(0, |t| t.0.as_second());
    let made_since = pods.iter().any(|pod| pod.created.timestamp() > seen);
    let is_of_it = missing_since.is_some_and(|since| since.timestamp() <= seen) || !made_since;
    // The controller repeats itself at growing intervals, up to about a quarter of an hour.
    Ok((is_of_it && now.timestamp() - seen < 1200).then(|| last.message.unwrap_or_default()))
}
