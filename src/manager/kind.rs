//! Managers, as the kernel reconciles them.
//!
//! Wiring: each step has a file of its own. Must not decide anything.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::act::{self, Done};
use super::context::{Cx, Managers};
use super::observe::{self, Seen};
use super::part::{Facts, Plan};
use super::plan;
use super::resolve::{Resolved, resolve};
use super::state::Kept;
use super::status::{StatusFacts, status};
use super::watch;
use crate::api::condition::Transition;
use crate::api::manager::package::PACKAGE;
use crate::api::manager::{Manager, ManagerSpec, ManagerStatus};
use crate::api::package::Package;
use crate::k8s::watch::key_of;
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Acted, Kind, Observation, StatusInput};
use crate::kernel::{Error, Key};
use crate::stack::table::Table;

impl Kind for Managers {
    const PACKAGE: &'static Package = &PACKAGE;
    const COUNTS: (&'static str, &'static str) =
        ("components", "Components of a Manager, by state; the states are those of status.summary");
    type Object = Manager;
    type Spec = Resolved;
    type Seen = Seen;
    type Memory = ();
    type Plan = Plan;
    type Done = Done;
    type State = Kept;

    fn resolve(object: &Manager) -> Result<Resolved, String> {
        resolve(object)
    }

    fn remember(_: &ManagerStatus, _: &Resolved) {}

    async fn observe(cx: &Cx<'_>, resolved: Resolved, (): &(), _: DateTime<Utc>) -> Result<Observation<Seen>, Error> {
        observe::observe(cx, resolved).await.map(Observation::Seen)
    }

    fn plan(cx: &Cx<'_>, (): &(), seen: &Seen, now: DateTime<Utc>) -> Result<Plan, Error> {
        let Seen { resolved, templates, .. } = seen;
        let all = cx.kind.fleet.read();
        let mut deleted = cx.state.own.deleted.lock();
        deleted.retain(|uid| all.is_staying(uid));
        Ok(plan::plan(&Facts { table: Table::own(), resolved, templates, all: &all, deleted: &deleted, now }))
    }

    async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, done: &mut Done) -> Acted {
        act::act(cx, seen, plan, done).await
    }

    fn status(input: &StatusInput<'_, Self>, now: DateTime<Utc>) -> Result<(ManagerStatus, Vec<Transition>), Error> {
        let StatusInput { object, before, seen, plan, done, complaint } = *input;
        let facts = StatusFacts { object, seen, plan, done, complaint };
        Ok(status(Table::own(), &facts, before, now))
    }

    fn unread(metadata: ObjectMeta, status: Option<ManagerStatus>) -> Manager {
        Manager { metadata, spec: ManagerSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        watch::watch(self, feed);
    }

    fn seen(&self, object: &DeserializeGuard<Manager>) -> bool {
        self.fleet.note(&key_of(object), true);
        false
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        if !is_replaced {
            self.fleet.note(key, false);
        }
    }
}
