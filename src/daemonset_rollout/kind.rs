//! DaemonSetRollouts, as the kernel reconciles them.
//!
//! Wiring: each step has a file of its own. Must not decide anything.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::context::{Cx, DaemonSetRollouts};
use super::fleet::Named;
use super::memory::{self, Memory};
use super::observe::{self, Seen};
use super::plan::{self, Plan};
use super::resolve::{Resolved, resolve};
use super::state::Kept;
use super::{act, status, watch};
use crate::api::condition::Transition;
use crate::api::daemonset_rollout::package::PACKAGE;
use crate::api::daemonset_rollout::{DaemonSetRollout, DaemonSetRolloutSpec, DaemonSetRolloutStatus};
use crate::api::package::Package;
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Acted, Kind, Observation, StatusInput};
use crate::kernel::{Error, Key};

impl Kind for DaemonSetRollouts {
    const PACKAGE: &'static Package = &PACKAGE;
    const COUNTS: (&'static str, &'static str) =
        ("nodes", "Nodes of a DaemonSetRollout, by state; the states are those of status.nodes");
    type Object = DaemonSetRollout;
    type Spec = Resolved;
    type Seen = Seen;
    type Memory = Memory;
    type Plan = Plan;
    type Done = ();
    type State = Kept;

    fn resolve(object: &DaemonSetRollout) -> Result<Resolved, String> {
        resolve(object)
    }

    fn remember(status: &DaemonSetRolloutStatus, _: &Resolved) -> Memory {
        memory::read(status)
    }

    async fn observe(
        cx: &Cx<'_>,
        resolved: Resolved,
        memory: &Memory,
        now: DateTime<Utc>,
    ) -> Result<Observation<Seen>, Error> {
        Ok(Observation::Seen(observe::observe(cx, resolved, memory, now).await?))
    }

    fn plan(_: &Cx<'_>, memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> Result<Plan, Error> {
        Ok(plan::plan(memory, seen, now))
    }

    async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, (): &mut ()) -> Acted {
        act::act(cx, seen, plan).await
    }

    fn status(
        input: &StatusInput<'_, Self>,
        now: DateTime<Utc>,
    ) -> Result<(DaemonSetRolloutStatus, Vec<Transition>), Error> {
        let StatusInput { object, before, seen, plan, done: (), complaint } = *input;
        Ok(status::status(&status::StatusFacts { object, seen, plan, complaint }, before, now)?)
    }

    fn unread(metadata: ObjectMeta, status: Option<DaemonSetRolloutStatus>) -> DaemonSetRollout {
        DaemonSetRollout { metadata, spec: DaemonSetRolloutSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        watch::watch(self, feed);
    }

    /// Of several that name one DaemonSet the oldest has it: all are known before the first reconcile.
    fn seen(&self, object: &DeserializeGuard<DaemonSetRollout>) -> bool {
        let Ok(object) = &object.0 else { return false };
        let created = object.creation_timestamp().map_or(0, |time| time.0.as_second());
        let named = Named {
            daemon_set: object.spec.daemon_set.clone(),
            age: (created, object.uid().unwrap_or_default()),
            generation: object.metadata.generation,
        };
        let is_there = object.metadata.deletion_timestamp.is_none();
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        self.fleet.names(&key, is_there.then_some(named))
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        if !is_replaced {
            self.fleet.names(key, None);
            self.metrics.forget(key);
        }
    }
}
