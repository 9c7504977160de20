//! The runtime of a kind: its objects' watch, the queue, one look at a time for each object, and what becomes of
//! errors.
//!
//! Here so that a kind brings nothing but its own domain. Must not know a kind, nor write anything itself.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, predicates};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::desk::{Desk, Desks};
use super::rivals::{LeftAlone, Rivals};
use super::sync::{PAGE, Synced, api, refusal};
use super::triggers::{Receiver, Triggers, gathered};
use super::{Error, Events, Key, chain};
use crate::api::package::Package;
use crate::backoff;
use crate::k8s::watch::{Affects, Change, Id, Relist};

/// Reconciles under way at once.
const CONCURRENCY: u16 = 8;
/// No reconcile takes longer; it never waits for a Pod or for anybody outside.
/// Shorter than the Pod's grace period, so that the lease is given back at the end.
const LONGEST: Duration = Duration::from_secs(20);
/// After a plan its object is left alone for so many times as long as the plan took: events that come faster than plans
/// can be made are answered by one plan.
const PACE: u32 = 4;
/// And never for longer.
const SLOWEST: Duration = Duration::from_secs(1);
/// Conflicts are tried again at once for as long as the back-off would still be short.
const SOON_ENOUGH: Duration = Duration::from_secs(3);

/// A kind that is reconciled.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Its package, which names all that is written.
    const PACKAGE: &'static Package;
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static;
    /// What it keeps of an object between two looks.
    type Desk: Default + Send + Sync + 'static;

    /// Looks at an object, does what is to be done now, and says when to look again.
    fn reconcile(
        &self,
        object: &Self::Object,
        desk: &Desk<Self::Desk>,
    ) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// An object that does not decode: to be said in its status, as far as that can be.
    fn undecodable(
        &self,
        metadata: &ObjectMeta,
        error: &str,
        desk: &Desk<Self::Desk>,
    ) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// What it is decided from may not be read: to be said in its status.
    fn unreadable(
        &self,
        object: &Self::Object,
        why: &str,
        desk: &Desk<Self::Desk>,
    ) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// An object as the watch shows it, before anybody looks at one. Returns whether it concerns all others.
    fn seen(&self, _object: &DeserializeGuard<Self::Object>) -> bool {
        false
    }

    /// Whether somebody else wrote what only we write: then it is looked at, though its spec is the same.
    fn is_foreign(&self, _object: &Self::Object, _desk: &Desk<Self::Desk>) -> bool {
        false
    }

    /// The namespace of the installation that an object's status names as its operator.
    fn operator(_object: &Self::Object) -> Option<&str> {
        None
    }

    /// Where the runtime itself speaks of an object.
    fn events(&self) -> Option<&Events> {
        None
    }

    /// The objects of a namespace are known now, or cannot be read.
    fn listed(&self, _namespace: &str, _is_readable: bool) {}

    /// An object is gone, its desk too: whatever else is held for it goes now. `is_replaced`: another has its name.
    fn gone(&self, _key: &Key, _uid: &str, _is_replaced: bool) {}

    /// A look is over.
    fn looked(&self, _is_good: bool, _took: Duration) {}
}

/// A kind at work.
pub struct Runtime<K: Kind> {
    pub kind: Arc<K>,
    client: Client,
    triggers: Triggers,
    desks: Desks<K::Desk>,
    /// The objects that there are, with their UIDs.
    present: Mutex<HashMap<Key, String>>,
    synced: OnceLock<Arc<Synced>>,
    rivals: Rivals,
}

impl<K: Kind> Runtime<K> {
    /// Not at work yet; `namespace`: where the operator itself is.
    #[must_use]
    pub fn new(client: Client, kind: Arc<K>, triggers: Triggers, namespace: &str) -> Arc<Self> {
        Arc::new(Self {
            rivals: Rivals::new(client.clone(), K::PACKAGE.name, namespace),
            kind,
            client,
            triggers,
            desks: Desks::default(),
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
        let api = api::<DeserializeGuard<K::Object>>(&self.client, &namespace);
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
                    unread.kind.listed(&of, false);
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
                |object, runtime| async move { runtime.look(&object).await },
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
            self.desks.clear(&key);
            self.rivals.forget(&key);
            self.kind.gone(&key, &uid, false);
        }
        let affects_all = match change {
            Change::Listed(object) => {
                self.kind.seen(object);
                false
            }
            Change::Applied(object) => {
                if let Ok(decoded) = &object.0
                    && let Some(desk) = self.desks.there(&key_of(*object))
                    && self.kind.is_foreign(decoded, &desk)
                {
                    self.triggers.one(&key_of(*object));
                }
                self.kind.seen(object)
            }
            Change::Deleted(_) => true,
            Change::Complete(_) => {
                self.kind.listed(namespace, true);
                // While the list was under way the store still had what was before.
                true
            }
        };
        if affects_all {
            self.triggers.affected(Affects::All);
        }
    }

    /// Takes note of which objects there are; returns those that are gone, also when nobody saw them go.
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

    async fn look(&self, object: &DeserializeGuard<K::Object>) -> Result<Action, Error> {
        let key = key_of(object);
        let Some(synced) = self.synced.get() else { return Ok(Action::requeue(Duration::from_secs(1))) };
        let (desk, before) = self.desks.of(&key, &uid_of(object));
        if let Some(before) = before {
            self.kind.gone(&key, &before.uid, true);
        }
        if let Some(why) = synced.refusal(&key.0) {
            // What is known is old, so nothing is decided from it.
            let error = Error::Unread(why);
            if let (Some(said), Ok(object)) = (desk.complaint(&error), &object.0) {
                self.kind.unreadable(object, &said, &desk).await?;
            }
            return Err(error);
        }
        if !synced.covers(&key.0) {
            return Ok(Action::requeue(Duration::from_secs(1)));
        }
        if let Some(wait) = too_soon(&desk) {
            return Ok(Action::requeue(wait));
        }
        if let Some(again) = self.leaves_alone(object, &key).await {
            return Ok(Action::requeue(again));
        }
        let began = Instant::now();
        desk.begins();
        let look = async {
            match &object.0 {
                Ok(decoded) => self.kind.reconcile(decoded, &desk).await,
                Err(invalid) => {
                    tracing::warn!(namespace = key.0, name = key.1, error = invalid.error, "an object cannot be read");
                    self.kind.undecodable(&invalid.metadata, &invalid.error, &desk).await
                }
            }
        };
        let outcome = tokio::time::timeout(LONGEST, Box::pin(look)).await.unwrap_or_else(|_| {
            let what = format!("{} {}/{}", K::Object::kind(&()), key.0, key.1);
            Err(Error::Overlong { what, secs: LONGEST.as_secs() })
        });
        if !self.present.lock().contains_key(&key) {
            // It went while it was looked at: what that look began ends here.
            self.desks.clear(&key);
            self.kind.gone(&key, &desk.uid, false);
        }
        self.kind.looked(outcome.is_ok(), began.elapsed());
        if outcome.is_ok() {
            desk.succeeded();
        }
        outcome.map(Action::requeue)
    }

    /// Whether another installation operates an object; when to look again then.
    async fn leaves_alone(&self, object: &DeserializeGuard<K::Object>, key: &Key) -> Option<Duration> {
        let decoded = object.0.as_ref().ok()?;
        let LeftAlone { news, again } = self.rivals.operates(key, K::operator(decoded)).await?;
        if let Some(news) = news {
            tracing::warn!(namespace = key.0, name = key.1, news, "left alone");
            if let Some(events) = self.kind.events() {
                events.publish(&decoded.object_ref(&()), true, "OperatedElsewhere", "LeaveAlone", &news).await;
            }
            // What was begun here goes on there. That the object is there still counts.
            self.desks.clear(key);
            self.kind.gone(key, &uid_of(object), false);
            if self.kind.seen(object) {
                self.triggers.affected(Affects::All);
            }
        }
        Some(again)
    }

    fn failed(&self, object: &DeserializeGuard<K::Object>, error: &Error) -> Action {
        let key = key_of(object);
        let count = self.desks.there(&key).map_or(1, |desk| desk.failed());
        let wait = backoff::wait(count, &key);
        // Somebody else wrote at the same time: look again at once, unless that goes on.
        if error.is_conflict() && wait < SOON_ENOUGH {
            return Action::requeue(Duration::from_millis(50));
        }
        tracing::warn!(namespace = key.0, name = key.1, error = error.chain(), again_in = ?wait, "a reconcile failed");
        Action::requeue(wait)
    }
}

fn key_of(object: &impl Resource) -> Key {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

fn uid_of(object: &impl Resource) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

/// How long an object is left alone before the next look.
fn too_soon<D>(desk: &Desk<D>) -> Option<Duration> {
    let (planned, took) = desk.last_plan()?;
    (took * PACE).min(SLOWEST).checked_sub(planned.elapsed()).filter(|left| !left.is_zero())
}
