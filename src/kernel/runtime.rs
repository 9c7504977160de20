//! The runtime of a kind: its objects' watch, the queue, one reconcile at a time for each object, and what becomes of
//! errors.
//!
//! Here so that a kind brings nothing but its own domain. Must not know a kind, nor write anything itself.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, predicates};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::kind::{Kind, Shared, Status};
use super::operator::{Next, Operator};
use super::rivals::{LeftAlone, Rivals};
use super::state::{Known, ObjectState, States};
use super::sync::{PAGE, Synced, api, refusal};
use super::triggers::{Receiver, Triggers, gathered};
use super::{Error, Key, chain};
use crate::api::object::ObjectStatus;
use crate::backoff;
use crate::k8s::watch::{Affects, Change, Id, Relist, key_of};

/// Reconciles under way at once.
const CONCURRENCY: u16 = 8;
/// No reconcile takes longer; it never waits for a Pod or an external service. Shorter than the Pod's grace period, so
/// that the lease is given back at the end.
const LONGEST: Duration = Duration::from_secs(20);
/// After a plan its object is left alone for so many times as long as the plan took: events that come faster than plans
/// can be made are answered by one plan.
const PACE: u32 = 4;
/// And never for longer.
const SLOWEST: Duration = Duration::from_secs(1);
/// Conflicts are tried again at once for as long as the back-off would still be short.
const SOON_ENOUGH: Duration = Duration::from_secs(3);

/// A kind at work.
pub struct Runtime<K: Kind> {
    operator: Operator<K>,
    triggers: Triggers,
    states: States<Status<K>, K::State>,
    /// The objects that there are, with their UIDs.
    present: Mutex<HashMap<Key, String>>,
    synced: OnceLock<Arc<Synced>>,
    rivals: Rivals,
}

impl<K: Kind> Runtime<K> {
    /// Not at work yet.
    #[must_use]
    pub fn new(kind: Arc<K>, shared: Arc<Shared>, triggers: Triggers) -> Arc<Self> {
        Arc::new(Self {
            rivals: Rivals::new(shared.client.clone(), K::PACKAGE.name, &shared.namespace),
            operator: Operator { kind, shared },
            triggers,
            states: States::default(),
            present: Mutex::default(),
            synced: OnceLock::new(),
        })
    }

    /// The caches that it decides from.
    pub fn decides_from(&self, synced: Arc<Synced>) {
        let _ = self.synced.set(synced);
    }

    /// Works until `stop` is done and what was begun is finished.
    pub async fn run(
        self: Arc<Self>,
        receivers: Vec<Receiver>,
        stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
    ) {
        let controllers = receivers.into_iter().map(|receiver| self.clone().run_namespace(receiver, stop.clone()));
        tokio::select! {
            _ = futures::future::join_all(controllers) => {}
            () = self.hear_refusals() => {}
        }
    }

    /// An operator that may read less than before, or more, looks again.
    async fn hear_refusals(&self) {
        let Some(synced) = self.synced.get() else { return std::future::pending().await };
        let mut refusals = synced.refusals();
        while refusals.changed().await.is_ok() {
            self.triggers.affected(Affects::All);
        }
    }

    async fn run_namespace(
        self: Arc<Self>,
        receiver: Receiver,
        stop: impl Future<Output = ()> + Send + Sync + 'static,
    ) {
        let Receiver { namespace, ones, all } = receiver;
        let (store, writer) = reflector::store::<DeserializeGuard<K::Object>>();
        let (own, name, mut relist) = (self.clone(), namespace.clone(), Relist::new(&namespace, Id::Name));
        let (unread, of) = (self.clone(), namespace.clone());
        let api = api::<DeserializeGuard<K::Object>>(&self.operator.shared.client, &namespace);
        let events = watcher(api, watcher::Config::default().page_size(PAGE))
            .default_backoff()
            .reflect(writer)
            .inspect_ok(move |event| {
                if let Some(change) = relist.look_at(event) {
                    own.take(&name, &change);
                }
            })
            .inspect_err(move |error| {
                if refusal(error).is_some() {
                    unread.operator.kind.listed(&of, false);
                }
            })
            .touched_objects()
            // Our own status writes change no decision.
            .predicate_filter(predicates::generation, PredicateConfig::default());
        Controller::for_stream(events, store)
            .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
            .reconcile_on(ones.map(|(namespace, name)| ObjectRef::new(&name).within(&namespace)))
            .reconcile_all_on(gathered(all))
            .graceful_shutdown_on(stop)
            .run(
                |object, runtime| async move { runtime.reconcile(&object).await },
                |object, error, runtime| runtime.failed(&*object, error),
                self,
            )
            .for_each(|outcome| async {
                // Failures of a reconcile were logged and counted where they happened.
                if let Err(error @ kube::runtime::controller::Error::QueueError(_)) = outcome {
                    tracing::warn!(
                        error = chain(&error),
                        "the watch of the objects was interrupted and is taken up again"
                    );
                }
            })
            .await;
    }

    fn take(&self, namespace: &str, change: &Change<&DeserializeGuard<K::Object>>) {
        for (key, uid) in self.gone(change) {
            self.states.clear(&key);
            self.rivals.forget(&key);
            self.operator.gone(&key, &uid, false);
        }
        let affects_all = match change {
            Change::Listed(object) => {
                self.operator.kind.seen(object);
                false
            }
            Change::Applied(object) => {
                if let Ok(decoded) = &object.0
                    && let Some(state) = self.states.there(&key_of(*object))
                    && state.status.is_foreign(decoded)
                {
                    self.triggers.one(&key_of(*object));
                }
                self.operator.kind.seen(object)
            }
            Change::Deleted(_) => true,
            Change::Complete(_) => {
                self.operator.kind.listed(namespace, true);
                // While the list was under way the store still had what was before.
                true
            }
        };
        if affects_all {
            self.triggers.affected(Affects::All);
        }
    }

    /// Takes note of which objects there are; returns those that are gone, also when their deletion was not seen.
    fn gone(&self, change: &Change<&DeserializeGuard<K::Object>>) -> Vec<(Key, String)> {
        let mut present = self.present.lock();
        match change {
            Change::Listed(object) | Change::Applied(object) => {
                present.insert(key_of(*object), uid_of(*object));
                Vec::new()
            }
            Change::Deleted(object) => {
                present.remove(&key_of(*object));
                vec![(key_of(*object), uid_of(*object))]
            }
            Change::Complete(listed) => present.extract_if(|key, _| listed.lacks(&key.0, &key.1)).collect(),
        }
    }

    async fn reconcile(&self, object: &DeserializeGuard<K::Object>) -> Result<Action, Error> {
        let key = key_of(object);
        let Some(synced) = self.synced.get() else { return Ok(Action::requeue(Duration::from_secs(1))) };
        let Known { state, replaced } = self.states.of(&key, &uid_of(object));
        if let Some(before) = replaced {
            self.operator.gone(&key, &before.uid, true);
        }
        if let Some(why) = synced.refusal(&key.0) {
            // What is known is old, so nothing is decided from it.
            let error = Error::Unread(why);
            if let (Some(said), Ok(object)) = (state.complaint(&error), &object.0) {
                self.operator.unreadable(object, &said, &key, &state).await?;
            }
            return Err(error);
        }
        if !synced.covers(&key.0) {
            return Ok(Action::requeue(Duration::from_secs(1)));
        }
        if let Some(wait) = too_soon(&state) {
            return Ok(Action::requeue(wait));
        }
        if let Some(again) = self.leaves_alone(object, &key).await {
            return Ok(Action::requeue(again));
        }
        let began = Instant::now();
        state.begins();
        let reconcile = async {
            match &object.0 {
                Ok(decoded) => self.operator.reconcile(decoded, &key, &state).await,
                Err(invalid) => {
                    tracing::warn!(namespace = key.0, name = key.1, error = invalid.error, "an object cannot be read");
                    self.operator.undecodable(&invalid.metadata, &invalid.error, &key, &state).await.map(Next::Done)
                }
            }
        };
        let outcome = tokio::time::timeout(LONGEST, Box::pin(reconcile)).await.unwrap_or_else(|_| {
            let what = format!("{} {}/{}", K::Object::kind(&()), key.0, key.1);
            Err(Error::Overlong { what, secs: LONGEST.as_secs() })
        });
        if !self.present.lock().contains_key(&key) {
            // It went while it was looked at: what that look began ends here.
            self.states.clear(&key);
            self.operator.gone(&key, &state.uid, false);
        }
        self.operator.shared.metrics.reconciled(outcome.is_ok(), began.elapsed());
        Ok(match outcome? {
            Next::Done(again) => {
                state.succeeded();
                Action::requeue(again)
            }
            Next::Later(again) => Action::requeue(again),
        })
    }

    /// Whether another installation operates an object; when to look again then.
    async fn leaves_alone(&self, object: &DeserializeGuard<K::Object>, key: &Key) -> Option<Duration> {
        let decoded = object.0.as_ref().ok()?;
        let LeftAlone { news, again } =
            self.rivals.operates(key, decoded.status().and_then(ObjectStatus::operator)).await?;
        if let Some(news) = news {
            tracing::warn!(namespace = key.0, name = key.1, news, "left alone");
            let about = decoded.object_ref(&());
            self.operator.shared.events.publish(&about, true, "OperatedElsewhere", "LeaveAlone", &news).await;
            // What was begun here continues there. That the object is there still counts.
            self.states.clear(key);
            self.operator.gone(key, &uid_of(object), false);
            if self.operator.kind.seen(object) {
                self.triggers.affected(Affects::All);
            }
        }
        Some(again)
    }

    fn failed(&self, object: &DeserializeGuard<K::Object>, error: &Error) -> Action {
        let key = key_of(object);
        let count = self.states.there(&key).map_or(1, |state| state.failed());
        let wait = backoff::wait(count, &key);
        // Another client wrote at the same time: look again at once, unless that keeps happening.
        if error.is_conflict() && wait < SOON_ENOUGH {
            return Action::requeue(Duration::from_millis(50));
        }
        tracing::warn!(namespace = key.0, name = key.1, error = error.chain(), again_in = ?wait, "a reconcile failed");
        Action::requeue(wait)
    }
}

fn uid_of(object: &impl Resource) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

/// How long an object is left alone before the next look.
fn too_soon<S, O>(state: &ObjectState<S, O>) -> Option<Duration> {
    let (planned, took) = state.last_plan()?;
    (took * PACE).min(SLOWEST).checked_sub(planned.elapsed()).filter(|left| !left.is_zero())
}
