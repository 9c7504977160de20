//! ConfigWatchers, as the kernel reconciles them.
//!
//! Wiring: each step has a file of its own. Must not decide anything.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::act::{self, Done};
use super::change::Tracked;
use super::context::{ConfigWatchers, Cx};
use super::memory::{self, Memory};
use super::observe::{self, Content, Seen};
use super::plan::{self, Facts, Plan};
use super::resolve::{Resolved, resolve};
use super::state::Kept;
use super::{status, watch};
use crate::api::condition::Transition;
use crate::api::config_watcher::condition::Reason;
use crate::api::config_watcher::package::PACKAGE;
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherSpec, ConfigWatcherStatus};
use crate::api::package::Package;
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Acted, Kind, Observation, StatusInput};
use crate::kernel::{Error, Key};

/// One that waits for its turn is woken, and asks again should that fail.
const TURN: Duration = Duration::from_secs(2);

impl Kind for ConfigWatchers {
    const PACKAGE: &'static Package = &PACKAGE;
    const COUNTS: (&'static str, &'static str) =
        ("pods", "Pods of a ConfigWatcher, by state; the states are those of status.pods");
    type Object = ConfigWatcher;
    type Spec = Resolved;
    type Seen = Seen;
    type Memory = Memory;
    type Plan = Plan;
    type Done = Done;
    type State = Kept;

    fn resolve(object: &ConfigWatcher) -> Result<Resolved, String> {
        resolve(object)
    }

    fn remember(status: &ConfigWatcherStatus, resolved: &Resolved) -> Memory {
        memory::read(status, &resolved.config_map)
    }

    async fn observe(
        cx: &Cx<'_>,
        resolved: Resolved,
        memory: &Memory,
        _: DateTime<Utc>,
    ) -> Result<Observation<Seen>, Error> {
        // What happened while others had their turn counts. Nothing waits for it here: other namespaces want the place.
        let Some(turn) = cx.kind.turns.take(cx.key) else { return Ok(Observation::Later(TURN)) };
        let stopped = cx.is_stopped(cx.key).await?;
        let content = observe::content(cx, &resolved, memory.tracked.as_ref().map(Tracked::desired)).await?;
        let generation = cx.last_status().observed_generation;
        let is_edited = generation.is_some_and(|seen| Some(seen) != cx.object.metadata.generation);
        Ok(Observation::Seen(Seen::new(resolved, content, stopped, is_edited, turn)))
    }

    fn plan(cx: &Cx<'_>, memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> Result<Plan, Error> {
        let (kept, resolved) = (&cx.state.own, &seen.resolved);
        let debouncing = kept.debouncing.lock().clone();
        let missing = kept.missing.lock().clone();
        let plan = plan::plan(&Facts {
            resolved,
            memory,
            found: if let Content::Found(config) = &seen.content { Some(config) } else { None },
            is_absent: matches!(seen.content, Content::Absent),
            is_edited: seen.is_edited,
            stopped: seen.stopped,
            fleet: &cx.kind.fleet.read(),
            ledger: &cx.in_flight.ledger(&resolved.namespace),
            debouncing: debouncing.as_ref(),
            blocked: &kept.blocked.now(),
            peaks: &kept.peaks(seen.believed_after()),
            missing: &missing,
            deciding_since: cx.contact.deciding_since(),
            in_contact_since: cx.contact.in_contact_since(),
            own: (&cx.namespace, cx.manager),
            now,
        });
        kept.keep(&plan);
        Ok(plan)
    }

    async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, done: &mut Done) -> Acted {
        act::act(cx, seen, plan, done).await
    }

    fn status(
        input: &StatusInput<'_, Self>,
        now: DateTime<Utc>,
    ) -> Result<(ConfigWatcherStatus, Vec<Transition>), Error> {
        let StatusInput { object, before, seen, plan, done: _, complaint } = *input;
        let (resolved, read) = (&seen.resolved, &seen.content);
        // Evictions are all that it asks of the API server once there is a plan.
        let complaint = complaint.map(|(_, why)| {
            let message = format!("evictions in namespace {} fail again and again: {why}", resolved.namespace);
            (Reason::EvictionRefused, message)
        });
        let complaint = complaint.as_ref();
        Ok(status::status(&status::StatusFacts { object, resolved, read, plan, complaint }, before, now)?)
    }

    /// Watchers of a namespace share its workloads.
    fn group<'s>(_: &'s Cx<'_>, seen: &'s Seen) -> &'s str {
        &seen.resolved.namespace
    }

    fn unread(metadata: ObjectMeta, status: Option<ConfigWatcherStatus>) -> ConfigWatcher {
        ConfigWatcher { metadata, spec: ConfigWatcherSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        watch::watch(self, feed);
    }

    fn seen(&self, object: &DeserializeGuard<ConfigWatcher>) -> bool {
        // Budgets are shared: every watcher is known before the first reconcile.
        let Ok(object) = &object.0 else { return false };
        let resolved = if object.metadata.deletion_timestamp.is_none() { resolve(object).ok() } else { None };
        self.fleet.watches(&(object.namespace().unwrap_or_default(), object.name_any()), resolved)
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        if !is_replaced {
            self.fleet.watches(key, None);
        }
    }
}
