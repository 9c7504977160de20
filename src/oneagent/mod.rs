//! The pipeline of kind OneAgent: resolve → observe → plan → act → status, one file a step.
//!
//! Here is its table of contents, and what the steps share. Must not hold logic of its own.

pub mod act;
mod admitted;
pub mod build;
mod conflict;
pub mod controller;
mod desk;
mod done;
mod edited;
pub mod explain;
pub mod fleet;
pub mod from_cluster;
#[cfg(test)]
mod goldens;
mod hold;
pub mod known;
pub mod listed;
pub mod memory;
mod metrics;
mod objection;
pub mod observe;
pub mod overlap;
pub mod peers;
pub mod places;
pub mod plan;
pub mod preview;
mod problem;
mod refusal;
pub mod resolve;
pub mod revision;
#[cfg(test)]
mod rollouts;
pub mod status;
pub mod version;

use std::collections::HashMap;
use std::iter::empty;
use std::time::Duration;

use kube::{Client, Resource, ResourceExt};
use tokio::time::Instant;

use crate::api::condition::{Condition, Transition, keep_what_is_urgent};
use crate::api::oneagent::condition::Reason;
use crate::api::oneagent::package::PACKAGE;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::clock::Clock;
use crate::dynatrace::Environments;
use crate::kernel::status::{Saying, Writer};
use crate::kernel::{self, Deletions, Events, Named, NodeSelectors, Notes, OptionalApis, Singletons, Upgradeable};
use crate::rollout;
use crate::rollout::ledger::Ledger;
pub use desk::{Desk, Kept};
use done::Done;
pub use metrics::OwnMetrics;
use objection::{Failed, complaint, label, refusal};

/// The package's name: field manager, Event source, and name of Lease and stop ConfigMap.
pub const MANAGER: &str = PACKAGE.name;

/// A look that learnt something while it acted is followed by another so soon.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Without any event an object is looked at this often: a safety net, not a mechanism.
const RESYNC: Duration = Duration::from_secs(900);

/// What every reconcile shares.
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// What time it is.
    pub clock: Clock,
    pub settings: Settings,
    /// The fleet, as the watches show it.
    pub fleet: fleet::Fleet,
    /// Every OneAgent, by what it selects.
    pub peers: peers::Peers,
    /// Secrets and ConfigMaps that OneAgents refer to.
    pub named: Named,
    /// Environments in use.
    pub environments: Environments,
    /// Deletions in flight.
    pub deletions: Deletions,
    /// Objects of APIs that the cluster may lack.
    pub optional_apis: OptionalApis,
    /// Node selectors of namespaces.
    pub node_selectors: NodeSelectors,
    /// Objects of which the cluster has one.
    pub singletons: Singletons,
    /// The nodes that each OneAgent knows.
    pub notes: Notes<known::Known>,
    /// What OLM knows of rollouts.
    pub upgradeable: Upgradeable,
    pub events: Events,
    pub metrics: OwnMetrics,
    /// UID of Namespace kube-system.
    pub cluster_id: tokio::sync::OnceCell<String>,
    /// Since when this process leads, and is answered.
    pub heard: std::sync::Arc<kernel::Heard>,
}

/// Settings that a reconcile needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The operator's own namespace.
    pub namespace: String,
    /// Installer image where the spec names none.
    pub agent_image: String,
    /// Longest time for a call to an environment.
    pub vendor_timeout: Duration,
}

/// Looks at one OneAgent, does what is to be done now, and says when to look again. What keeps it from that is said,
/// whatever it is: what goes on failing in silence is found by nobody.
pub async fn reconcile(object: &OneAgent, context: &Context, desk: &Desk) -> Result<Duration, kernel::Error> {
    let error = match Box::pin(look_at(object, context, desk)).await {
        Ok(then) => return Ok(then),
        Err(Failed::Said(error)) => return Err(error),
        Err(Failed::Unsaid(error)) => error,
    };
    if let Some((reason, message)) = complaint(desk, &error) {
        refuse(context, object, desk, reason, &message).await?;
    }
    Err(error)
}

async fn look_at(object: &OneAgent, context: &Context, desk: &Desk) -> Result<Duration, Failed> {
    if object.metadata.deletion_timestamp.is_some() {
        // The garbage collector removes the DaemonSet; nothing outside the cluster is ours.
        return Ok(RESYNC);
    }
    let resolved = match resolve::resolve(object) {
        Ok(resolved) => resolved,
        Err(refusals) => {
            let message = refusals.into_iter().map(|r| r.0).collect::<Vec<_>>().join("; ");
            return Ok(refuse(context, object, desk, Reason::InvalidSpec, &message).await?);
        }
    };
    // Who is older decides about nodes: before all are known nobody can say.
    if !context.peers.are_known() {
        return Ok(Duration::from_millis(500));
    }
    let key: kernel::Key = (resolved.namespace.clone(), resolved.name.clone());
    let others = context.peers.others(&key, &resolved.placement, &context.fleet);
    let nodes = context.fleet.near(&key, &resolved.placement.selector, empty(), empty());
    let pods = context.fleet.pods(&key);
    let (live, yielded) = (context.fleet.daemonset(&key), context.fleet.yields_to(&key));
    let resolved = overlap::apart(resolved, &others, &nodes, &pods, &yielded);
    let doubt = {
        let agents = context.peers.agents(&key, &yielded, &context.fleet);
        let is_unread = |namespace: &str| context.peers.is_unread(namespace);
        overlap::doubt(&resolved, live.as_deref(), &agents, (&nodes, &pods), &yielded, is_unread)
    };
    let mut resolved = resolve::Resolved { doubt: doubt.or(resolved.doubt), ..resolved };
    resolved.warnings.extend(overlap::beside_vendors(&resolved.placement, &context.fleet.vendors(), &nodes));
    let now = context.clock.now();
    let last = desk.own.status.last(object);
    let memory = memory::read(&last);
    let away = &memory.rollout.touched.away;
    let seen = observe::observe(context, (desk, status::says_refused(&last)), (&resolved, away), now).await?;
    let began = Instant::now();
    let mut plan = plan::plan(&memory, &resolved, &seen, &context.settings.agent_image, now)?;
    desk.planned(began.elapsed());
    context.peers.remembers(&key, !plan.assessment.decision.memory.rollout.touched.away.is_empty());
    // First in memory, whatever becomes of the rest: who is gone stays gone since then.
    if let Some(news) = plan.known.take() {
        act::note(context, object, &resolved, news).await;
    }
    desk.saw(seen.missing.clone(), seen.refused.clone());
    context.named.keep(&key, &seen.named_objects);
    let subscriber = observe::subscriber(&resolved);
    if resolved.versions.is_some() {
        context.environments.forget(&subscriber);
    }
    context.environments.need(&subscriber, &plan.interest);
    let look = Look { context, object, desk, resolved: &resolved, seen: &seen };
    let carried_out = Box::pin(look.carry_out(plan, &memory)).await;
    let noted = act::write_note(context, &resolved).await.unwrap_or(RESYNC);
    Ok(carried_out?.min(noted))
}

/// One look at one OneAgent, once it is planned.
struct Look<'a> {
    context: &'a Context,
    object: &'a OneAgent,
    desk: &'a Desk,
    resolved: &'a resolve::Resolved,
    seen: &'a observe::Observed,
}

impl Look<'_> {
    /// Does what the plan says, then says so; returns when to look again.
    async fn carry_out(&self, mut plan: plan::Plan, memory: &memory::Memory) -> Result<Duration, Failed> {
        let Self { context, desk, resolved, seen, .. } = self;
        // The cheap question first: within a rollout the namespace was looked at a moment ago.
        let known = context.node_selectors.known(&resolved.namespace);
        let is_another = known.is_some_and(|known| known.labels != seen.namespace_selector);
        if (is_another || context.node_selectors.is_old(&resolved.namespace))
            && (!plan.steps.is_empty() || act::writes_over(seen, &plan.objects)?)
            && observe::selector_changed(context, resolved, seen).await?
        {
            return Ok(AT_ONCE);
        }
        let mut done = match act::objects(context, desk, resolved, seen, plan.objects).await {
            Ok(done) => done,
            Err(failure) => {
                let (refused, then) = refusal(self.object, desk, failure);
                if refused.is_none() {
                    return Ok(then?);
                }
                self.say(&plan.assessment, &Done { refused, ..Done::default() }).await?;
                return then.map_err(Failed::Said);
            }
        };
        if let Some(message) = plan.edited.take().filter(|_| done.template_replaced) {
            tracing::warn!(namespace = resolved.namespace, name = resolved.name, message, "the DaemonSet was edited");
            context.events.publish(&self.object.object_ref(&()), true, "DaemonSetEdited", "Revert", &message).await;
        }
        // What must survive a crash is written before a Pod is touched.
        if plan.assessment.decision.memory != *memory {
            self.say(&plan.assessment, &done).await?;
        }
        self.measure(&plan.ledger, &plan.assessment.decision.plan);
        context.deletions.settle(&resolved.uid, plan.ledger);
        let recycled = act::recycle(context, desk, (self.object, resolved), &plan.guard, &plan.steps).await;
        // While nothing may be replaced, nothing that OLM could interrupt is under way.
        let latest = context
            .deletions
            .ledger(&resolved.uid)
            .latest()
            .filter(|_| resolved.policy.hold.is_none() && !seen.stopped);
        let who = format!("OneAgent {}", label(self.object));
        context.upgradeable.tell(&who, latest.map(|at| at + resolved.policy.wait_ready));
        match &recycled {
            Ok(recycled) => done.pod_changed = recycled.changed,
            Err(error) => done.complaint = complaint(desk, error),
        }
        let nudged = if plan.nudge {
            Some(act::nudge(context, desk, resolved, &seen.missing).await)
        } else {
            desk.forget_nudge();
            None
        }
        .transpose();
        if let Err(error) = &nudged {
            done.complaint = done.complaint.or_else(|| complaint(desk, error));
        }
        let later = self.say(&plan.assessment, &done).await?;
        let recycled = recycled.map_err(Failed::Said)?;
        let nudged = nudged.map_err(Failed::Said)?;
        // The watch wakes us earlier, unless it is down; and a deletion without an answer is looked at again.
        let soon = done
            .pod_changed
            .then_some(Duration::from_secs(1))
            .or((!plan.steps.is_empty()).then_some(Duration::from_secs(100)));
        let refused =
            if recycled.refused { Some(AT_ONCE) } else { desk.own.aside.ends_in().map(|left| left + AT_ONCE) };
        let follows = resolved.istio || resolved.cluster.proxy || resolved.cluster.pauses;
        let compared = follows.then(|| context.optional_apis.period());
        Ok([plan.next, later, soon, refused, compared, nudged].into_iter().flatten().fold(RESYNC, Duration::min))
    }

    /// Counts the rollout, and how long nodes were without an agent that have one again.
    fn measure(&self, ledger: &Ledger, decided: &rollout::Plan<revision::Revision>) {
        let Self { context, resolved, seen, .. } = *self;
        let (before, lost) = (seen.ledger.lost(), ledger.lost());
        let key = (resolved.namespace.clone(), resolved.name.clone());
        context.metrics.rollout(&key, (decided.budget, lost.len(), decided.report.outdated));
        let settled = before.iter().filter(|(node, _)| !lost.contains_key(*node));
        let mut settled: HashMap<&str, _> = settled.map(|(node, since)| (&**node, *since)).collect();
        if settled.is_empty() {
            return;
        }
        let now = context.clock.now();
        for pod in seen.pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.deleting) {
            if let Some(since) = settled.remove(&*pod.node) {
                context.metrics.replaced_in(now - since);
            }
        }
    }

    /// Says what was decided and what came of it; returns how long to wait when it was too soon for mere counts.
    async fn say(&self, assessment: &plan::Assessment, done: &Done) -> Result<Option<Duration>, kernel::Error> {
        let Self { context, object, desk, resolved, seen } = *self;
        let before = desk.own.status.last(object);
        let picture = status::Picture { object, before: &before, resolved, seen, assessment, done };
        let (status, transitions) = status::status(&picture, context.clock.now())?;
        if let Some(counts) = &status.nodes {
            context.metrics.nodes(&(resolved.namespace.clone(), resolved.name.clone()), counts);
        }
        context.write_status(object, desk, &before, status, &transitions).await
    }
}

/// Says in the status why nothing can be done, and waits for a change.
async fn refuse(
    context: &Context,
    object: &OneAgent,
    desk: &Desk,
    reason: Reason,
    message: &str,
) -> Result<Duration, kernel::Error> {
    let before = desk.own.status.last(object);
    let (status, transitions) =
        status::invalid(object.metadata.generation, &before, reason, message, context.clock.now());
    context.write_status(object, desk, &before, status, &transitions).await?;
    Ok(RESYNC)
}

/// What of a status must not wait: all but counts, names and sentences that only follow them.
fn essence(status: &OneAgentStatus) -> OneAgentStatus {
    let mut essence = OneAgentStatus {
        nodes: None,
        instances: std::collections::BTreeMap::new(),
        instances_truncated: None,
        updated_timestamp: None,
        ..status.clone()
    };
    keep_what_is_urgent(&mut essence.conditions);
    if let Some(rollout) = &mut essence.rollout {
        rollout.waiting_on.clear();
        rollout.expected_finish = None;
    }
    essence
}

impl Context {
    /// Writes a status if it differs; returns how long to wait when it was too soon for mere counts.
    async fn write_status(
        &self,
        object: &OneAgent,
        desk: &Desk,
        before: &OneAgentStatus,
        mut status: OneAgentStatus,
        transitions: &[Transition],
    ) -> Result<Option<Duration>, kernel::Error> {
        status.operator_namespace = Some(self.settings.namespace.clone());
        let writer = Writer { client: &self.client, manager: MANAGER, events: &self.events };
        let is_urgent = essence(before) != essence(&status);
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        self.metrics.all.says(&key, status.conditions.iter().map(Condition::says));
        match desk.own.status.write(writer, object, status, transitions, is_urgent).await? {
            Saying::Written => self.metrics.all.status_written(),
            Saying::Known => {}
            Saying::TooSoon(left) => return Ok(Some(left)),
        }
        Ok(None)
    }
}
