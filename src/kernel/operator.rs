//! The reconcile of any kind: the order of its steps, what is refused, memory before action, the status, the waits.
//!
//! Here because that order is what makes a crash between any two calls harmless. Must not know a kind.

use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::kind::{Acted, Cx, Kind, Observation, Planned, Prepared, Problem, Shared, State, Status, StatusInput};
use super::status::{WriteOutcome, Writer, stored};
use super::{Error, Key};
use crate::api::condition::{Condition, Transition, Type};
use crate::api::object::{ObjectStatus, refused};

/// Without any event an object is reconciled this often: a safety net, not a mechanism.
pub const RESYNC: Duration = Duration::from_secs(900);
/// The watch wakes us earlier, unless it is down; and a step without an answer is looked at again.
const UNSEEN: Duration = Duration::from_secs(100);

/// A kind, and what all its reconciles share.
pub struct Operator<K: Kind> {
    pub kind: Arc<K>,
    pub shared: Arc<Shared>,
}

/// When to reconcile again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Done(Duration),
    /// Nothing was tried: what failed before has not succeeded now.
    Later(Duration),
}

/// How a reconcile failed: whether the status says it.
enum Failed {
    Said(Error),
    Unsaid(Error),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Unsaid(error.into())
    }
}

impl<K: Kind> Operator<K> {
    /// Reconciles an object; returns when to do it again. What keeps it from that is said, whatever it is: a silent
    /// failure is never found.
    pub(super) async fn reconcile(&self, object: &K::Object, key: &Key, state: &State<K>) -> Result<Next, Error> {
        if object.meta().deletion_timestamp.is_some() {
            // The garbage collector removes what is its; nothing outside the cluster is ours.
            return Ok(Next::Done(RESYNC));
        }
        let cx = self.cx(object, key, state);
        let error = match Box::pin(self.steps(&cx)).await {
            Ok(next) => return Ok(next),
            Err(Failed::Said(error)) => return Err(error),
            Err(Failed::Unsaid(error)) => error,
        };
        if let Some(problem) = complaint::<K>(state, &error) {
            self.refuse(&cx, &problem, false).await?;
        }
        Err(error)
    }

    fn cx<'r>(&'r self, object: &'r K::Object, key: &'r Key, state: &'r State<K>) -> Cx<'r, K> {
        Cx { kind: &self.kind, shared: &self.shared, object, key, state }
    }

    async fn steps(&self, cx: &Cx<'_, K>) -> Result<Next, Failed> {
        let shared = &*self.shared;
        let spec = match K::resolve(cx.object) {
            Ok(spec) => spec,
            Err(message) => {
                let problem = (ConditionType::<K>::INVALID_SPEC, message);
                return Ok(Next::Done(self.refuse(cx, &problem, true).await?));
            }
        };
        let memory = K::remember(&cx.last_status(), &spec);
        let seen = match K::observe(cx, spec, &memory, shared.clock.now()).await? {
            Observation::Seen(seen) => seen,
            Observation::Later(wait) => return Ok(Next::Later(wait)),
        };
        let began = Instant::now();
        // Reads may have been slow: meanwhile a window may have closed.
        let plan = K::plan(cx, &memory, &seen, shared.clock.now())?;
        cx.state.planned(began.elapsed());
        let carried_out = Box::pin(self.carry_out(cx, &memory, &seen, plan)).await;
        let finished = K::finish(cx, &seen).await;
        Ok(Next::Done(carried_out?.min(finished.unwrap_or(RESYNC))))
    }

    /// Does what was planned, then says so; returns when to reconcile again.
    async fn carry_out(
        &self,
        cx: &Cx<'_, K>,
        memory: &K::Memory,
        seen: &K::Seen,
        mut plan: K::Plan,
    ) -> Result<Duration, Failed> {
        let shared = &*self.shared;
        let mut done = match K::prepare(cx, seen, &mut plan).await? {
            Prepared::Done(done) => done,
            Prepared::Again(soon) => return Ok(soon),
            Prepared::Refused { problem, then } => {
                if let Some(problem) = &problem {
                    let said = self.refuse(cx, problem, true).await?;
                    return then.map(|then| then.min(said)).map_err(Failed::Said);
                }
                return Ok(then?);
            }
        };
        // What must survive a crash is written before a Pod is touched.
        if *plan.memory() != *memory {
            self.say(cx, seen, &plan, &done, None).await?;
        }
        shared.in_flight.settle(K::group(cx, seen), plan.ledger());
        let unseen = plan.has_steps().then_some(UNSEEN);
        let Acted { error, next, busy_until } = K::act(cx, seen, &mut plan, &mut done).await;
        shared.upgradeable.set_busy_until(&label::<K>(cx.key), busy_until);
        let complaint = error.as_ref().and_then(|error| complaint::<K>(cx.state, error));
        let later = self.say(cx, seen, &plan, &done, complaint.as_ref()).await?;
        if let Some(error) = error {
            return Err(Failed::Said(error));
        }
        Ok([next, later, unseen].into_iter().flatten().fold(RESYNC, Duration::min))
    }

    /// Says what was decided and what came of it; returns how long to wait when it was too soon for mere counts.
    async fn say(
        &self,
        cx: &Cx<'_, K>,
        seen: &K::Seen,
        plan: &K::Plan,
        done: &K::Done,
        complaint: Option<&Problem<K>>,
    ) -> Result<Option<Duration>, Error> {
        let before = cx.last_status();
        let input = StatusInput::<K> { object: cx.object, before: &before, seen, plan, done, complaint };
        let (status, transitions) = K::status(&input, self.shared.clock.now())?;
        if let Some(counts) = status.counts() {
            self.shared.metrics.counts(cx.key, &counts);
        }
        self.write(cx, &before, status, &transitions).await
    }

    /// Says in the status why nothing can be done; returns when to reconcile again, without a change before.
    /// `is_considered`: the reason is what the spec asks for.
    async fn refuse(
        &self,
        cx: &Cx<'_, K>,
        (reason, message): &Problem<K>,
        is_considered: bool,
    ) -> Result<Duration, Error> {
        let before = cx.last_status();
        let generation = (cx.object.meta().generation, is_considered);
        let (status, transitions) = refused(&*before, generation, (*reason, message), self.shared.clock.now());
        let later = self.write(cx, &before, status, &transitions).await?;
        Ok(later.map_or(RESYNC, |later| later.min(RESYNC)))
    }

    /// Writes a status if it differs; returns how long to wait when it was too soon for mere counts.
    async fn write(
        &self,
        cx: &Cx<'_, K>,
        before: &Status<K>,
        mut status: Status<K>,
        transitions: &[Transition],
    ) -> Result<Option<Duration>, Error> {
        let Shared { client, manager, namespace, events, metrics, clock, .. } = &*self.shared;
        *status.head().operator_namespace = Some(namespace.clone());
        if status != *before {
            status.stamp(clock.now());
        }
        metrics.set_conditions(cx.key, status.conditions().iter().map(Condition::says));
        let is_urgent = before.urgent() != status.urgent();
        let writer = Writer { client, manager, events };
        match cx.state.status.write(writer, cx.object, status, transitions, is_urgent).await? {
            WriteOutcome::Written => metrics.status_written(),
            WriteOutcome::Unchanged => {}
            WriteOutcome::TooSoon(left) => return Ok(Some(left)),
        }
        Ok(None)
    }

    /// An object that does not decode: said in its status, as far as that can be.
    pub(super) async fn undecodable(
        &self,
        metadata: &ObjectMeta,
        error: &str,
        key: &Key,
        state: &State<K>,
    ) -> Result<Duration, Error> {
        let status = stored::<K::Object>(&self.shared.client, metadata).await?;
        let object = K::unread(metadata.clone(), status);
        let kind = K::Object::kind(&()).to_lowercase();
        let message = format!("the object cannot be read: {error}; compare it with kubectl explain {kind}.spec");
        let cx = self.cx(&object, key, state);
        self.refuse(&cx, &(ConditionType::<K>::INVALID_SPEC, message), true).await
    }

    /// What it is decided from may not be read: said in the status.
    pub(super) async fn unreadable(
        &self,
        object: &K::Object,
        why: &str,
        key: &Key,
        state: &State<K>,
    ) -> Result<(), Error> {
        let message = format!("{why}; grant the operator list and watch of that; {}", ConditionType::<K>::HALTED);
        let cx = self.cx(object, key, state);
        self.refuse(&cx, &(ConditionType::<K>::RIGHTS_MISSING, message), false).await.map(drop)
    }

    /// An object is gone, its state too: all else that is held for it is dropped now.
    pub(super) fn gone(&self, key: &Key, uid: &str, is_replaced: bool) {
        let Shared { in_flight, upgradeable, named, metrics, .. } = &*self.shared;
        in_flight.forget(uid);
        upgradeable.set_busy_until(&label::<K>(key), None);
        if !is_replaced {
            named.keep(key, &[]);
            metrics.forget(key);
        }
        self.kind.gone(key, uid, is_replaced);
    }
}

/// The condition types of a kind.
type ConditionType<K> = <Status<K> as ObjectStatus>::Condition;

/// An object, as people write it.
fn label<K: Kind>((namespace, name): &Key) -> String {
    format!("{} {namespace}/{name}", K::Object::kind(&()))
}

/// What of an error is to be said.
fn complaint<K: Kind>(state: &State<K>, error: &Error) -> Option<Problem<K>> {
    let (said, tried) = (state.complaint(error)?, error.to_string());
    let said = if said.starts_with(&tried) { said } else { format!("{tried}: {said}") };
    let is_refused = error.has_code(&[401, 403]) && said.contains(" cannot ") && !said.contains("admission webhook");
    let is_right = is_refused || matches!(error, Error::Unread(why) if why.contains(" is forbidden: "));
    Some(if is_right {
        let package = K::PACKAGE.name;
        let message = format!("{said}; grant the operator that right (config/{package}/rbac.yaml has them all)");
        (ConditionType::<K>::RIGHTS_MISSING, message)
    } else {
        let message = format!("{said}; fix the policy, webhook or server that refuses it; it is tried again");
        (ConditionType::<K>::WRITE_REFUSED, message)
    })
}
