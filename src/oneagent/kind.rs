//! OneAgents, as the kernel reconciles them.
//!
//! Wiring: each step has a file of its own. Must not decide anything.

use std::iter::empty;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

use super::context::{Cx, OneAgents};
use super::done::Done;
use super::memory::{self, Memory};
use super::observe::{self, Seen};
use super::plan::{self, Plan};
use super::resolve::{Resolved, resolve};
use super::state::Kept;
use super::{act, overlap, status, watch};
use crate::api::condition::Transition;
use crate::api::oneagent::package::PACKAGE;
use crate::api::oneagent::{OneAgent, OneAgentSpec, OneAgentStatus};
use crate::api::package::Package;
use crate::dynatrace::Subscriber;
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Acted, Kind, Observation, Prepared, StatusInput};
use crate::kernel::{Error, Key};

/// Until all OneAgents are listed this is how often that is asked.
const UNKNOWN: Duration = Duration::from_millis(500);

impl Kind for OneAgents {
    const PACKAGE: &'static Package = &PACKAGE;
    const COUNTS: (&'static str, &'static str) =
        ("nodes", "Nodes of a OneAgent, by state; the states are those of status.nodes");
    type Object = OneAgent;
    type Spec = Resolved;
    type Seen = Seen;
    type Memory = Memory;
    type Plan = Plan;
    type Done = Done;
    type State = Kept;

    fn resolve(object: &OneAgent) -> Result<Resolved, String> {
        resolve(object).map_err(|refusals| refusals.into_iter().map(|refusal| refusal.0).collect::<Vec<_>>().join("; "))
    }

    fn remember(status: &OneAgentStatus, _: &Resolved) -> Memory {
        memory::read(status)
    }

    async fn observe(
        cx: &Cx<'_>,
        resolved: Resolved,
        memory: &Memory,
        now: DateTime<Utc>,
    ) -> Result<Observation<Seen>, Error> {
        // The older OneAgent wins a node, so wait until all are listed.
        if !cx.kind.peers.are_known() {
            return Ok(Observation::Later(UNKNOWN));
        }
        let resolved = beside_others(cx, resolved);
        let observed = observe::observe(cx, &resolved, &memory.rollout.touched.away, now).await?;
        Ok(Observation::Seen(Seen { resolved, observed }))
    }

    fn plan(cx: &Cx<'_>, memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> Result<Plan, Error> {
        Ok(plan::plan(memory, &seen.resolved, &seen.observed, &cx.kind.settings.agent_image, now)?)
    }

    async fn prepare(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan) -> Result<Prepared<Self>, Error> {
        act::prepare(cx, seen, plan).await
    }

    async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, _: &mut Done) -> Acted {
        act::act(cx, seen, plan).await
    }

    async fn finish(cx: &Cx<'_>, seen: &Seen) -> Option<Duration> {
        act::write_note(cx, &seen.resolved).await
    }

    fn status(input: &StatusInput<'_, Self>, now: DateTime<Utc>) -> Result<(OneAgentStatus, Vec<Transition>), Error> {
        let StatusInput { object, before, seen, plan, done, complaint } = *input;
        let (resolved, seen, assessment) = (&seen.resolved, &seen.observed, &plan.assessment);
        let facts = status::StatusFacts { object, before, resolved, seen, assessment, done, complaint };
        Ok(status::status(&facts, now)?)
    }

    fn unread(metadata: ObjectMeta, status: Option<OneAgentStatus>) -> OneAgent {
        OneAgent { metadata, spec: OneAgentSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        watch::watch(self, feed);
    }

    fn seen(&self, object: &DeserializeGuard<OneAgent>) -> bool {
        self.peers.note(object)
    }

    fn listed(&self, namespace: &str, is_readable: bool) {
        self.peers.listed(namespace, is_readable);
    }

    fn gone(&self, key: &Key, uid: &str, is_replaced: bool) {
        self.optional_apis.forget(uid);
        self.notes.forget(uid);
        if is_replaced {
            return;
        }
        self.peers.gone(key);
        self.fleet.forget(key);
        self.environments.forget(&Subscriber { namespace: key.0.clone(), name: key.1.clone() });
        self.metrics.rollouts.forget(key);
    }
}

/// What a spec means beside the other OneAgents, and the DaemonSets of Dynatrace Operator.
fn beside_others(cx: &Cx<'_>, resolved: Resolved) -> Resolved {
    let (key, OneAgents { fleet, peers, .. }) = (cx.key, cx.kind);
    let others = peers.others(key, &resolved.placement, fleet);
    let nodes = fleet.near(key, &resolved.placement.selector, empty(), empty());
    let pods = fleet.pods(key);
    let (live, yielded) = (fleet.daemonset(key), fleet.yields_to(key));
    let resolved = overlap::exclude_older(resolved, &others, &nodes, &pods, &yielded);
    let agents = peers.agents(key, &yielded, fleet);
    let is_unread = |namespace: &str| peers.is_unread(namespace);
    let doubt = overlap::doubt(&resolved, live.as_deref(), &agents, (&nodes, &pods), &yielded, is_unread);
    let mut resolved = Resolved { doubt: doubt.or(resolved.doubt), ..resolved };
    resolved.warnings.extend(overlap::beside_vendors(&resolved.placement, &fleet.vendors(), &nodes));
    resolved
}
