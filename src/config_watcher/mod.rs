//! The pipeline of kind ConfigWatcher: resolve → observe → plan → act → status, one file a step.
//!
//! Here is its table of contents, and one look from beginning to end. Must not hold logic of its own.

mod act;
pub mod change;
pub mod controller;
mod desk;
pub mod fleet;
#[cfg(test)]
mod goldens;
mod memory;
mod metrics;
mod observe;
pub mod places;
mod plan;
pub mod resolve;
pub mod revision;
mod status;
#[cfg(test)]
mod tests;
pub mod turns;

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, ResourceExt};
use tokio::time::Instant;

use crate::api::condition::{Condition, Transition};
use crate::api::config_watcher::condition::Reason;
use crate::api::config_watcher::package::PACKAGE;
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherStatus};
use crate::clock::Clock;
use crate::kernel::status::{Saying, Writer};
use crate::kernel::{self, Deletions, Events, Heard, Named, Reference, Upgradeable};
use act::Done;
pub use desk::{Desk, Kept};
pub use metrics::OwnMetrics;
use observe::Content;
use plan::{Facts, Plan};
use resolve::Resolved;
use turns::Turns;

/// The package's name: field manager, Event source, and name of Lease and stop ConfigMap.
pub const MANAGER: &str = PACKAGE.name;

/// Without any event an object is looked at this often: a safety net, not a mechanism.
const RESYNC: Duration = Duration::from_secs(900);
/// What may not be read is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Of the watchers of a namespace one looks at a time; one that waits is woken, and asks again should that fail.
const TURN: Duration = Duration::from_secs(2);
/// What is due by the clock is looked at a moment later.
const A_MOMENT: Duration = Duration::from_millis(20);

/// What every reconcile shares.
pub struct Context {
    pub client: Client,
    pub clock: Clock,
    /// The operator's own namespace.
    pub namespace: String,
    pub fleet: fleet::Fleet,
    /// The stop.
    pub named: Named,
    /// Evictions in flight, by namespace: several watchers share a workload.
    pub deletions: Deletions,
    /// One look at a time in each namespace: what one evicts the next must count.
    pub turns: Turns,
    pub upgradeable: Upgradeable,
    pub events: Events,
    pub metrics: OwnMetrics,
    /// Since when this process leads, and is answered.
    pub heard: Arc<Heard>,
}

/// Looks at one ConfigWatcher, does what is to be done now, and says when to look again.
async fn reconcile(object: &ConfigWatcher, context: &Context, desk: &Desk) -> Result<Duration, kernel::Error> {
    let key: kernel::Key = (object.namespace().unwrap_or_default(), object.name_any());
    if object.metadata.deletion_timestamp.is_some() {
        context.fleet.watches(&key, None);
        return Ok(RESYNC);
    }
    let resolved = match resolve::resolve(object) {
        Ok(resolved) => resolved,
        Err(message) => {
            context.fleet.watches(&key, None);
            return refuse(context, object, desk, Reason::InvalidSpec, &message).await;
        }
    };
    context.fleet.watches(&key, Some(resolved.clone()));
    // What happened while others had their turn counts. Nobody waits for it here: other namespaces want the place.
    let Some(_turn) = context.turns.take(&key) else { return Ok(TURN) };
    let stopped = context.is_stopped(&key).await?;
    let stored = desk.own.status.last(object);
    let memory = memory::read(&stored, &resolved.config_map);
    let known = memory.tracked.as_ref().map(change::Tracked::desired);
    let read = observe::content(context, desk, &resolved, known).await?;
    let is_edited = stored.observed_generation.is_some_and(|seen| Some(seen) != object.metadata.generation);
    let look = Look { context, object, desk, resolved: &resolved, read: &read, stopped, is_edited };
    let began = Instant::now();
    let plan = look.plan(&memory);
    desk.planned(began.elapsed());
    let next = look.carry_out(plan, &memory).await?;
    let asked = matches!(read, Content::Forbidden(_)).then_some(ASK_AGAIN);
    Ok(asked.map_or(next, |asked| next.min(asked)))
}

/// One look at one ConfigWatcher.
struct Look<'a> {
    context: &'a Context,
    object: &'a ConfigWatcher,
    desk: &'a Desk,
    resolved: &'a Resolved,
    read: &'a Content,
    stopped: bool,
    /// The spec was edited since the status was written.
    is_edited: bool,
}

impl Look<'_> {
    fn plan(&self, memory: &memory::Memory) -> Plan {
        let found = match self.read {
            Content::Found(config) => Some(config),
            _ => None,
        };
        let Self { context, resolved, .. } = self;
        let (kept, now) = (&self.desk.own, context.clock.now());
        let restless = kept.restless.lock().clone();
        let missing = kept.missing.lock().clone();
        let believed_after = self.believed_after();
        let plan = plan::plan(&Facts {
            resolved,
            memory,
            found,
            is_absent: matches!(self.read, Content::Absent),
            is_edited: self.is_edited,
            stopped: self.stopped,
            fleet: &context.fleet.read(),
            ledger: &context.deletions.ledger(&resolved.namespace),
            restless: restless.as_ref(),
            blocked: &kept.blocked.now(),
            peaks: &kept.peaks(believed_after),
            missing: &missing,
            deciding_since: context.heard.deciding_since(),
            heard_since: context.heard.unbroken_since(),
            own: (&context.namespace, MANAGER),
            now,
        });
        kept.keep(&plan);
        plan
    }

    /// Fewer Pods than there were are believed after so long, where nobody says how many there shall be.
    fn believed_after(&self) -> Duration {
        self.resolved.policy.wait_ready.to_std().unwrap_or(Duration::MAX)
    }

    /// Does what the plan says, then says so; returns when to look again.
    async fn carry_out(&self, mut plan: Plan, before: &memory::Memory) -> Result<Duration, kernel::Error> {
        let Self { context, desk, resolved, .. } = self;
        // What must survive a crash is written before a Pod is touched.
        if plan.memory != *before {
            self.say(&plan, &Done::default()).await?;
        }
        context.deletions.settle(&resolved.namespace, plan.ledger.clone());
        let (done, error) = match act::evict(context, desk, resolved, &plan.guard, &plan.decision.steps).await {
            Ok(done) => (done, None),
            Err((done, error)) => (done, Some(error)),
        };
        let has_acted = !plan.decision.steps.is_empty();
        if done.is_blocked {
            // Said is what is known now; whom else to take the next look finds.
            plan = self.plan(&plan.memory);
        }
        let label = format!("ConfigWatcher {}/{}", resolved.namespace, resolved.name);
        // While nothing may be replaced, nothing that OLM could interrupt is under way.
        let evicted_at = desk.own.evicted_at.lock().filter(|_| plan.is_in_flight);
        context.upgradeable.tell(&label, evicted_at.map(|at| at + resolved.policy.wait_ready));
        let later = self.say(&plan, &done).await?;
        if let Some(error) = error {
            return Err(error);
        }
        // The watch wakes us earlier, unless it is down; and an eviction without an answer is looked at again.
        let others = done.is_blocked && !plan.decision.steps.is_empty();
        let soon = (done.has_changed || others).then_some(Duration::from_secs(1));
        let rest = done.is_unfinished.then_some(A_MOMENT);
        let unseen = has_acted.then_some(Duration::from_secs(100));
        let due = plan.next.map(|at| (at - context.clock.now()).to_std().unwrap_or_default() + A_MOMENT);
        let unblocked = desk.own.blocked.ends_in().map(|wait| wait + A_MOMENT);
        let believed = desk.own.believed_in(self.believed_after()).map(|wait| wait + A_MOMENT);
        Ok([due, later, soon, rest, unseen, unblocked, believed].into_iter().flatten().fold(RESYNC, Duration::min))
    }

    /// Says what was decided and what came of it; returns how long to wait when it was too soon for mere counts.
    async fn say(&self, plan: &Plan, done: &Done) -> Result<Option<Duration>, kernel::Error> {
        let Self { context, object, desk, resolved, read, .. } = *self;
        let picture = status::Picture { object, resolved, read, plan, done };
        let last = desk.own.status.last(object);
        let (status, transitions) = status::status(&picture, &last, context.clock.now())?;
        let is_urgent = status::essence(&last) != status::essence(&status);
        if let Some(pods) = &status.pods {
            context.metrics.pods(&(resolved.namespace.clone(), resolved.name.clone()), pods);
        }
        context.write(object, desk, status, &transitions, is_urgent).await
    }
}

/// Says in the status why nothing can be done, and waits for a change.
async fn refuse(
    context: &Context,
    object: &ConfigWatcher,
    desk: &Desk,
    reason: Reason,
    message: &str,
) -> Result<Duration, kernel::Error> {
    let before = desk.own.status.last(object);
    let (status, transitions) =
        status::invalid(object.metadata.generation, &before, reason, message, context.clock.now());
    context.write(object, desk, status, &transitions, true).await?;
    Ok(RESYNC)
}

impl Context {
    /// Whether somebody stopped everything.
    async fn is_stopped(&self, key: &kernel::Key) -> Result<bool, kernel::Error> {
        let stop = Reference::stop(&self.namespace, MANAGER);
        self.named.look(key, &stop).await.is_stop(&stop)
    }

    async fn write(
        &self,
        object: &ConfigWatcher,
        desk: &Desk,
        mut status: ConfigWatcherStatus,
        transitions: &[Transition],
        is_urgent: bool,
    ) -> Result<Option<Duration>, kernel::Error> {
        status.operator_namespace = Some(self.namespace.clone());
        let writer = Writer { client: &self.client, manager: MANAGER, events: &self.events };
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
