//! The controller: watches feed the fleet, changes become reconciles, one at a time per OneAgent.
//!
//! Wiring only: which watch tells whom. Must not read a spec or write anything.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Controller, WatchStreamExt};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use super::fleet::{Concerns, Key};
use super::{Context, reconcile};
use crate::api::oneagent::OneAgent;
use crate::api::oneagent::condition::Reason;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel::{self};

/// A OneAgent whose spec may not even decode: a broken one must not stop the watch.
type Guarded = DeserializeGuard<OneAgent>;

/// Reconciles under way at once.
const CONCURRENCY: u16 = 8;
/// No reconcile takes longer; it never waits for a Pod or for the vendor.
/// Shorter than the Pod's grace period, so that the lease is given back at the end.
const LONGEST: Duration = Duration::from_secs(20);
/// After a plan its OneAgent is left alone for so many times as long as the plan took: events that come faster than plans can
/// be made are answered by one plan.
const PACE: u32 = 4;
/// And never for longer.
const SLOWEST: Duration = Duration::from_secs(1);
/// Events that concern all OneAgents are gathered for so long, the first apart.
const GATHER: Duration = Duration::from_millis(20);
/// Conflicts are tried again at once for as long as the back-off would still be short.
const SOON_ENOUGH: Duration = Duration::from_secs(3);
/// Objects on a page of a list: small pages keep the peak low.
const PAGE: u32 = 25;
/// Label of every agent's Pod and DaemonSet.
const LABEL: &str = "dynatrace=oneagent";

/// Which namespaces are watched; empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<String>);

impl Scope {
    /// One entry per watch; the empty string stands for all namespaces.
    fn watches(&self) -> Vec<String> {
        if self.0.is_empty() { vec![String::new()] } else { self.0.clone() }
    }
}

fn api<K>(client: &Client, scope: &str) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    if scope.is_empty() { Api::all(client.clone()) } else { Api::namespaced(client.clone(), scope) }
}

/// Sends changes to the controllers of the scopes.
#[derive(Debug, Clone, Default)]
pub struct Triggers {
    scopes: Arc<HashMap<String, Senders>>,
}

/// One OneAgent is to be looked at, or all of a scope.
type Senders = (UnboundedSender<ObjectRef<Guarded>>, Arc<Notify>);

impl Triggers {
    /// Triggers for a scope, with the receiving ends.
    #[must_use]
    pub fn new(scope: &Scope) -> (Self, Vec<Receiver>) {
        let mut scopes = HashMap::new();
        let mut receivers = Vec::new();
        for name in scope.watches() {
            let (one, ones) = unbounded();
            let all = Arc::new(Notify::new());
            scopes.insert(name.clone(), (one, all.clone()));
            receivers.push(Receiver { scope: name, ones, all });
        }
        (Self { scopes: Arc::new(scopes) }, receivers)
    }

    /// Has a OneAgent looked at.
    pub fn one(&self, key: &Key) {
        if let Some((one, _)) = self.scopes.get(&key.0).or_else(|| self.scopes.get("")) {
            let _ = one.unbounded_send(ObjectRef::new(&key.1).within(&key.0));
        }
    }

    fn concerns(&self, concerns: Concerns) {
        match concerns {
            Concerns::Nobody => {}
            Concerns::One(key) => self.one(&key),
            Concerns::All => {
                for (_, all) in self.scopes.values() {
                    all.notify_one();
                }
            }
        }
    }
}

/// The receiving end of a scope's triggers.
#[derive(Debug)]
pub struct Receiver {
    scope: String,
    ones: UnboundedReceiver<ObjectRef<Guarded>>,
    all: Arc<Notify>,
}

/// At once, and then at most once in a while: a thousand nodes that change are one reason to look.
fn gathered(all: Arc<Notify>) -> impl Stream<Item = ()> + Send + 'static {
    futures::stream::unfold((all, false), |(all, waits)| async move {
        if waits {
            tokio::time::sleep(GATHER).await;
        }
        all.notified().await;
        Some(((), (all, true)))
    })
}

/// Which watches are complete since when. A new epoch makes every watch list anew.
#[derive(Debug)]
pub struct Synced {
    epoch: watch::Sender<u64>,
    done: Mutex<HashMap<String, u64>>,
    /// Watches of namespaces that cannot be read: nobody waits for them.
    refused: Mutex<HashSet<String>>,
    watches: Vec<String>,
    changed: Notify,
}

impl Synced {
    /// A namespace cannot be read: it was deleted, or its rights are gone. The others go on without it.
    fn refuse(&self, watch: &str) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(watch.to_owned());
        self.changed.notify_waiters();
    }

    /// Whether what is known of a namespace is complete.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = |kind: &str| done.contains_key(&format!("{kind}/{namespace}")) || done.contains_key(&format!("{kind}/"));
        done.contains_key("nodes") && is_done("pods") && is_done("daemonsets")
    }

    fn mark(&self, watch: &str, epoch: u64) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(watch);
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(watch.to_owned(), epoch);
        self.changed.notify_waiters();
    }

    /// Whether every watch has listed once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.at_least(0)
    }

    fn at_least(&self, epoch: u64) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |watch: &&String| done.get(*watch).is_some_and(|at| *at >= epoch) || refused.contains(*watch);
        self.watches.iter().filter(is_known).count() == self.watches.len()
    }

    /// Lists everything anew and waits for it: what another leader did last is then seen.
    pub async fn refresh(&self) {
        let epoch = *self.epoch.borrow() + 1;
        self.epoch.send_replace(epoch);
        self.wait(epoch).await;
    }

    /// Waits for the first lists.
    pub async fn first(&self) {
        self.wait(0).await;
    }

    async fn wait(&self, epoch: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.at_least(epoch) {
                return;
            }
            changed.await;
        }
    }
}

/// Starts the watches that feed the fleet.
pub fn watch_fleet(context: &Arc<Context>, scope: &Scope, triggers: &Triggers) -> Arc<Synced> {
    let scopes = scope.watches();
    let watches = scopes.iter().flat_map(|scope| ["pods", "daemonsets"].map(|kind| format!("{kind}/{scope}")));
    let synced = Arc::new(Synced {
        epoch: watch::channel(0).0,
        done: Mutex::default(),
        refused: Mutex::default(),
        watches: watches.chain(["nodes".to_owned()]).collect(),
        changed: Notify::new(),
    });
    let config = watcher::Config::default().page_size(PAGE);
    let ours = config.clone().labels(LABEL);
    let client = &context.client;
    let (shared, told) = (context.clone(), triggers.clone());
    tokio::spawn(follow("nodes".to_owned(), Api::<NodeFacts>::all(client.clone()), config, synced.clone(), move |event| {
        told.concerns(shared.fleet.node(&event));
    }));
    for scope in scopes {
        let (shared, told, name) = (context.clone(), triggers.clone(), scope.clone());
        tokio::spawn(follow(format!("pods/{scope}"), api::<PodFacts>(client, &scope), ours.clone(), synced.clone(), move |event| {
            told.concerns(shared.fleet.pod(&name, &event));
        }));
        let (shared, told, name) = (context.clone(), triggers.clone(), scope.clone());
        tokio::spawn(follow(format!("daemonsets/{scope}"), api::<DaemonSet>(client, &scope), ours.clone(), synced.clone(), move |event| {
            told.concerns(shared.fleet.daemonset_event(&name, event));
        }));
    }
    synced
}

async fn follow<K>(name: String, api: Api<K>, config: watcher::Config, synced: Arc<Synced>, mut take: impl FnMut(Event<K>) + Send)
where
    K: Resource + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let mut epochs = synced.epoch.subscribe();
    loop {
        let epoch = *epochs.borrow_and_update();
        let mut events = watcher(api.clone(), config.clone()).default_backoff().boxed();
        loop {
            let event = tokio::select! {
                biased;
                _ = epochs.changed() => break,
                event = events.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    let complete = matches!(event, Event::InitDone);
                    take(event);
                    if complete {
                        synced.mark(&name, epoch);
                    }
                }
                Some(Err(error)) => {
                    // Of one namespace only: without nodes, or with rights for all namespaces, nobody could go on.
                    if is_refused(&error) && name.split_once('/').is_some_and(|(_, namespace)| !namespace.is_empty()) {
                        synced.refuse(&name);
                    }
                    tracing::warn!(watch = name, error = chain(&error), "a watch was interrupted and is taken up again");
                }
                None => break,
            }
        }
    }
}

/// Whether the API server forbids a list, or knows no such thing.
fn is_refused(error: &watcher::Error) -> bool {
    let of = |error: &kube::Error| matches!(error, kube::Error::Api(status) if [403, 404].contains(&status.code));
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => of(error),
        watcher::Error::WatchError(status) => [403, 404].contains(&status.code),
        watcher::Error::NoResourceVersion => false,
    }
}

/// Runs the controllers of all scopes until `stop` is done and what was begun is finished.
pub async fn run(
    context: Arc<Context>,
    triggers: Triggers,
    receivers: Vec<Receiver>,
    stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    context.peers.expect(&receivers.iter().map(|receiver| receiver.scope.clone()).collect::<Vec<_>>());
    let controllers = receivers.into_iter().map(|receiver| run_scope(context.clone(), triggers.clone(), receiver, stop.clone()));
    futures::future::join_all(controllers).await;
}

async fn run_scope(context: Arc<Context>, triggers: Triggers, receiver: Receiver, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (store, writer) = reflector::store::<Guarded>();
    let (peers, scope, told) = (context.clone(), receiver.scope.clone(), triggers.clone());
    let (unread, of) = (context.clone(), receiver.scope.clone());
    let events = watcher(api::<Guarded>(&context.client, &receiver.scope), watcher::Config::default().page_size(PAGE))
        .default_backoff()
        .reflect(writer)
        .inspect_ok(move |event| {
            let news = peers.peers.take(&scope, event);
            for (key, uid) in &news.gone {
                peers.forget(key, uid.as_deref());
            }
            if let Event::Apply(object) = event
                && let Ok(object) = &object.0
                && peers.is_foreign(object)
            {
                told.one(&(object.namespace().unwrap_or_default(), object.name_any()));
            }
            // After a list too: while it was under way the store still had what was before.
            if news.concerns_all {
                told.concerns(Concerns::All);
            }
        })
        .inspect_err(move |error| {
            if is_refused(error) {
                unread.peers.unreadable(&of);
            }
        })
        .touched_objects();
    Controller::for_stream(only_changes(events), store)
        .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
        .reconcile_on(receiver.ones)
        .reconcile_all_on(gathered(receiver.all))
        .graceful_shutdown_on(stop)
        .run(look, |object, error, context| failed(&object, error, &context), context)
        .for_each(|outcome| async {
            // Failures of a reconcile were logged and counted where they happened.
            if let Err(error @ kube::runtime::controller::Error::QueueError(_)) = outcome {
                tracing::warn!(error = chain(&error), "the watch of OneAgents was interrupted and is taken up again");
            }
        })
        .await;
}

/// Lets pass what may change a decision: our own status writes do not.
fn only_changes(
    events: impl Stream<Item = Result<Guarded, watcher::Error>> + Send + 'static,
) -> impl Stream<Item = Result<Guarded, watcher::Error>> + Send + 'static {
    let mut seen: HashMap<Key, (Option<String>, Option<i64>, bool)> = HashMap::new();
    events.try_filter(move |object| {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        let state = (object.uid(), object.meta().generation, object.meta().deletion_timestamp.is_some());
        let changed = seen.get(&key) != Some(&state);
        seen.insert(key, state);
        futures::future::ready(changed)
    })
}

async fn look(object: Arc<Guarded>, context: Arc<Context>) -> Result<Action, kernel::Error> {
    let key = (object.namespace().unwrap_or_default(), object.name_any());
    if !context.synced.get().is_some_and(|synced| synced.covers(&key.0)) {
        return Ok(Action::requeue(Duration::from_secs(1)));
    }
    if let Some(wait) = too_soon(&context, &key) {
        return Ok(Action::requeue(wait));
    }
    let began = std::time::Instant::now();
    let outcome = match &object.0 {
        Ok(object) => match tokio::time::timeout(LONGEST, Box::pin(reconcile(object, &context))).await {
            Ok(outcome) => outcome,
            Err(_) => Err(kernel::Error::Timeout(format!("reconcile OneAgent {}/{}", key.0, key.1))),
        },
        Err(invalid) => undecodable(&context, &key, &invalid.metadata, &invalid.error).await,
    };
    if !context.peers.is_there(&key) {
        // It went while it was looked at: what that look began ends here.
        context.forget(&key, object.uid().as_deref());
    }
    context.metrics.reconciled(outcome.is_ok(), began.elapsed());
    if outcome.is_ok() {
        context.backoff.succeeded(&key);
    }
    outcome
}

/// How long a OneAgent is left alone before the next look.
fn too_soon(context: &Context, key: &Key) -> Option<Duration> {
    let pace = context.pace.lock().unwrap_or_else(PoisonError::into_inner);
    let (planned, took) = pace.get(key)?;
    (*took * PACE).min(SLOWEST).checked_sub(planned.elapsed()).filter(|left| !left.is_zero())
}

/// A OneAgent that does not decode: said in its status, as far as that can be.
async fn undecodable(context: &Context, key: &Key, metadata: &kube::api::ObjectMeta, error: &str) -> Result<Action, kernel::Error> {
    tracing::warn!(namespace = key.0, name = key.1, error, "a OneAgent cannot be read");
    let stand_in = OneAgent { metadata: metadata.clone(), spec: crate::api::oneagent::OneAgentSpec::default(), status: None };
    let before = context.last_status(&stand_in);
    super::refuse(
        context,
        &stand_in,
        &before,
        Reason::InvalidSpec,
        &format!("the object cannot be read: {error}; compare it with kubectl explain oneagent.spec"),
    )
    .await
    .map(Action::requeue)
}

fn failed(object: &Guarded, error: &kernel::Error, context: &Context) -> Action {
    let key = (object.namespace().unwrap_or_default(), object.name_any());
    let wait = context.backoff.failed(&key);
    // Somebody else wrote at the same time: look again at once, unless that goes on.
    if error.is_conflict() && wait < SOON_ENOUGH {
        return Action::requeue(Duration::from_millis(50));
    }
    tracing::warn!(namespace = key.0, name = key.1, error = error.chain(), again_in = ?wait, "a reconcile failed");
    Action::requeue(wait)
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |cause| cause.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
