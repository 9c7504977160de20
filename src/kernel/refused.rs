//! Why the API server refuses the Pods of a DaemonSet: its controller says so in Events alone.
//!
//! Must not decide what follows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Error, call};
use crate::rollout::Pod;

/// After so long without a change, missing Pods are asked about.
pub const QUIET: Duration = Duration::from_secs(3);

/// Since when nodes have no Pod at all.
type Missing = HashMap<Arc<str>, DateTime<Utc>>;

/// What is kept of a DaemonSet's missing Pods between two reconciles.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Since when selected nodes have no Pod.
    missing: Mutex<Missing>,
    /// Why the API server refused new Pods at the last look.
    why: Mutex<Option<String>>,
    /// When that was asked.
    asked: Mutex<Option<Instant>>,
}

/// A DaemonSet of which Pods are missing.
pub struct Short<'s, R> {
    pub daemonset: &'s DaemonSet,
    pub pods: &'s [Arc<Pod<R>>],
    pub missing: &'s Missing,
    /// For how long its Pods have not changed; `None` when they never did.
    pub quiet: Option<Duration>,
}

impl Refusals {
    /// Since when selected nodes have no Pod, as of the last look.
    pub fn missing(&self) -> Missing {
        self.missing.lock().clone()
    }

    /// As of this look.
    pub fn record(&self, missing: Missing, why: Option<String>) {
        *self.missing.lock() = missing;
        *self.why.lock() = why;
    }

    /// Why the API server refuses a DaemonSet's Pods, as far as that can be read: asked for when nothing moves or a Pod
    /// is missing for a while, and, once it is so (also where only the status says that it was), until every selected
    /// node has a Pod or an answer says that it no longer is. What was known before is believed where no one is asked
    /// or answers. `unread` is for what may not be read.
    pub async fn ask<R>(
        &self,
        client: &Client,
        (was_refused, is_short): (bool, bool),
        short: Option<&Short<'_, R>>,
        unread: &str,
        now: DateTime<Utc>,
    ) -> Option<String> {
        let before = self.why.lock().clone().filter(|_| is_short);
        let Some(Short { daemonset, pods, missing, quiet }) = short else { return before };
        let was_refused = was_refused || before.is_some();
        let late = TimeDelta::from_std(QUIET).unwrap_or_default();
        let is_late = missing.values().any(|since| now - *since >= late);
        // Where nothing moves more is asked than the watches say.
        let age = daemonset.creation_timestamp().map_or(0, |t| now.timestamp() - t.0.as_second());
        let is_quiet = age >= 2 && quiet.is_none_or(|quiet| quiet >= QUIET);
        if !((was_refused || is_late || is_quiet) && self.is_time()) {
            return before;
        }
        let since = if was_refused { Some(DateTime::UNIX_EPOCH) } else { missing.values().min().copied() };
        let answer = why(client, daemonset, (pods, since), now).await;
        // Without the right to read Events no refusal is seen: a Pod missing for so long most likely is refused.
        let may_not = |error: &Error| is_late && error.has_code(&[403]);
        answer.unwrap_or_else(|error| before.or_else(|| (was_refused || may_not(&error)).then(|| unread.to_owned())))
    }

    /// Whether it is time to ask, noted as done: looks follow one another quickly.
    fn is_time(&self) -> bool {
        let (mut asked, now) = (self.asked.lock(), Instant::now());
        let is_time = asked.is_none_or(|asked| now - asked >= Duration::from_secs(1));
        if is_time {
            *asked = Some(now);
        }
        is_time
    }
}

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
