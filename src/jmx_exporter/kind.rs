//! PrometheusJmxExporters, as the kernel reconciles them.
//!
//! Wiring: each step has a file of its own. Must not decide anything.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::act::{self, Done};
use super::context::{Cx, JmxExporters};
use super::memory::{self, Memory};
use super::observe::{self, Seen};
use super::plan::{self, Facts, Plan};
use super::resolve::{Resolved, resolve};
use super::state::Kept;
use super::status::{StatusFacts, status};
use super::watch;
use crate::api::condition::Transition;
use crate::api::jmx_exporter::package::PACKAGE;
use crate::api::jmx_exporter::{
    PrometheusJmxExporter, PrometheusJmxExporterSpec, PrometheusJmxExporterStatus as Status,
};
use crate::api::package::Package;
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Acted, Kind, Observation, Shared, StatusInput};
use crate::kernel::{Error, Key};

impl Kind for JmxExporters {
    const PACKAGE: &'static Package = &PACKAGE;
    const COUNTS: (&'static str, &'static str) =
        ("jvms", "JVMs of a PrometheusJmxExporter, by state; the states are those of status.jvms");
    type Object = PrometheusJmxExporter;
    type Spec = Resolved;
    type Seen = Seen;
    type Memory = Memory;
    type Plan = Plan;
    type Done = Done;
    type State = Kept;

    fn resolve(object: &PrometheusJmxExporter) -> Result<Resolved, String> {
        resolve(object)
    }

    fn remember(status: &Status, _: &Resolved) -> Memory {
        memory::read(status)
    }

    async fn observe(
        cx: &Cx<'_>,
        resolved: Resolved,
        _: &Memory,
        _: DateTime<Utc>,
    ) -> Result<Observation<Seen>, Error> {
        let stopped = cx.is_stopped(cx.key).await?;
        let content = observe::content(cx, &resolved).await;
        let generation = cx.last_status().observed_generation;
        let is_edited = generation.is_some_and(|seen| Some(seen) != cx.object.metadata.generation);
        Ok(Observation::Seen(Seen { resolved, content, stopped, is_edited }))
    }

    fn plan(cx: &Cx<'_>, memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> Result<Plan, Error> {
        let kept = &cx.state.own;
        Ok(plan::plan(&Facts {
            resolved: &seen.resolved,
            memory,
            content: &seen.content,
            is_changing: kept.settles_in(&seen.content).is_some(),
            is_edited: seen.is_edited,
            stopped: seen.stopped,
            fleet: &cx.kind.fleet.read(),
            ledger: &cx.in_flight.ledger(&cx.state.uid),
            blocked: &kept.blocked.now(),
            others: &kept.others.lock(),
            image: &cx.kind.image,
            deciding_since: cx.contact.deciding_since(),
            in_contact_since: cx.contact.in_contact_since(),
            now,
        }))
    }

    async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, done: &mut Done) -> Acted {
        act::act(cx, seen, plan, done).await
    }

    fn status(input: &StatusInput<'_, Self>, now: DateTime<Utc>) -> Result<(Status, Vec<Transition>), Error> {
        let StatusInput { object, before, seen, plan, done: _, complaint } = *input;
        let facts = StatusFacts { object, resolved: &seen.resolved, content: &seen.content, plan, complaint };
        Ok(status(&facts, before, now)?)
    }

    fn unread(metadata: ObjectMeta, status: Option<Status>) -> PrometheusJmxExporter {
        PrometheusJmxExporter { metadata, spec: PrometheusJmxExporterSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        watch::watch(self, feed);
    }

    fn seen(&self, object: &DeserializeGuard<PrometheusJmxExporter>) -> bool {
        let Ok(decoded) = &object.0 else {
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            return self.fleet.selects(&key, None);
        };
        let key = (decoded.namespace().unwrap_or_default(), decoded.name_any());
        if decoded.metadata.deletion_timestamp.is_some() {
            self.fleet.gone(&key);
            return true;
        }
        self.fleet.selects(&key, resolve(decoded).ok())
    }

    fn listed(&self, namespace: &str, is_readable: bool) {
        self.fleet.listed(namespace, is_readable);
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        if !is_replaced {
            self.fleet.gone(key);
        }
    }

    async fn beside(&self, shared: &Shared) {
        watch::sweep(self, shared).await;
    }
}
