//! Watches that feed caches: which namespaces, whether their first lists are complete, and one stream each that is
//! taken up again for ever.
//!
//! Here because every kind decides from caches, and may not before they are complete. Must not know what is cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::chain;
use crate::backoff;
use crate::k8s::watch::{Change, Id, Relist};

/// Objects on a page of a list: small pages keep the peak low.
pub(super) const PAGE: u32 = 25;

/// What is refused is asked for again after at most so long.
const LONGEST: Duration = Duration::from_secs(30);

/// Which namespaces are watched; empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<String>);

impl Scope {
    /// One entry per watch; the empty string means all namespaces.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        if self.0.is_empty() { vec![String::new()] } else { self.0.clone() }
    }
}

/// The objects of a kind in one namespace of a scope.
#[must_use]
pub fn api<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    if namespace.is_empty() { Api::all(client.clone()) } else { Api::namespaced(client.clone(), namespace) }
}

/// A watch: what of, and in which namespace; `None`: of the cluster.
type Name = (&'static str, Option<String>);

/// Which watches are complete since when. A new epoch makes every watch list again.
#[derive(Debug)]
pub struct Synced {
    epoch: watch::Sender<u64>,
    done: Mutex<HashMap<Name, u64>>,
    /// Watches that the API server refuses, and what it says. Nothing waits for those of one namespace.
    refused: watch::Sender<BTreeMap<Name, String>>,
    watches: Mutex<Vec<Name>>,
    changed: Notify,
}

impl Synced {
    /// The right to a watch is gone, or was never there.
    fn refuse(&self, watch: &Name, why: String) {
        self.refused.send_if_modified(|refused| refused.insert(watch.clone(), why).is_none());
        self.changed.notify_waiters();
    }

    fn mark(&self, watch: &Name, epoch: u64) {
        self.done.lock().insert(watch.clone(), epoch);
        self.refused.send_if_modified(|refused| refused.remove(watch).is_some());
        self.changed.notify_waiters();
    }

    /// What may not be read that a namespace needs, and the API server's words: what is known of it is old.
    #[must_use]
    pub fn refusal(&self, namespace: &str) -> Option<String> {
        let refused = self.refused.borrow();
        let ((kind, within), why) = refused.iter().find(|((_, within), _)| concerns(within.as_deref(), namespace))?;
        let place = within.iter().filter(|within| !within.is_empty()).map(|within| format!(" of namespace {within}"));
        Some(format!("{kind}{}: {why}", place.collect::<String>()))
    }

    /// Tells when the API server refuses one more, or one less.
    #[must_use]
    pub fn refusals(&self) -> watch::Receiver<BTreeMap<Name, String>> {
        self.refused.subscribe()
    }

    /// Whether what is known of a namespace is complete.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        let done = self.done.lock();
        let is_done = |kind: &str| {
            let of = |(name, within): &Name| *name == kind && concerns(within.as_deref(), namespace);
            done.keys().any(of)
        };
        let kinds: BTreeSet<&str> = self.watches.lock().iter().map(|(kind, _)| *kind).collect();
        kinds.into_iter().all(is_done)
    }

    /// Whether every watch has listed once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.at_least(0)
    }

    fn at_least(&self, epoch: u64) -> bool {
        let (done, refused) = (self.done.lock(), self.refused.borrow());
        // Of one namespace only: without nodes, or with rights for all namespaces, nothing could continue.
        let is_passed_over =
            |watch: &Name| refused.contains_key(watch) && watch.1.as_deref().is_some_and(|n| !n.is_empty());
        let is_there = |watch: &Name| done.get(watch).is_some_and(|at| *at >= epoch);
        self.watches.lock().iter().all(|watch| is_there(watch) || is_passed_over(watch))
    }

    /// Lists everything again and waits for it: what another leader did last is then seen.
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

/// What to watch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch<'w> {
    /// The plural of the kind, for messages.
    pub kind: &'static str,
    /// `None`: objects of the cluster; empty: all namespaces.
    pub namespace: Option<&'w str>,
    /// A label selector; empty: all objects.
    pub labels: &'w str,
    /// The key of the index.
    pub id: Id,
}

/// Watches that run. None of them ends unless stopped; with this they all end.
#[derive(Debug)]
pub struct Watches {
    synced: Arc<Synced>,
    tasks: JoinSet<()>,
}

impl Default for Watches {
    fn default() -> Self {
        let synced = Synced {
            epoch: watch::channel(0).0,
            done: Mutex::default(),
            refused: watch::Sender::default(),
            watches: Mutex::default(),
            changed: Notify::new(),
        };
        Self { synced: Arc::new(synced), tasks: JoinSet::new() }
    }
}

impl Watches {
    /// How far they are.
    #[must_use]
    pub fn synced(&self) -> Arc<Synced> {
        self.synced.clone()
    }

    /// Starts one: `take` gets every change.
    pub fn follow<K>(&mut self, watch: Watch<'_>, api: Api<K>, take: impl FnMut(Change<K>) + Send + 'static)
    where
        K: Resource + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
    {
        let Watch { kind, namespace, labels, id } = watch;
        let name: Name = (kind, namespace.map(str::to_owned));
        self.synced.watches.lock().push(name.clone());
        let config = watcher::Config::default().page_size(PAGE);
        let config = if labels.is_empty() { config } else { config.labels(labels) };
        let relist = Relist::new(namespace.unwrap_or_default(), id);
        self.tasks.spawn(follow(name, api, config, self.synced.clone(), relist, take));
    }

    /// Waits until one ends, which is a defect: what it feeds would stay as it is. Says which defect.
    pub async fn ended(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(Err(error)) => format!("a watch ended: {error}"),
            Some(Ok(())) => "a watch ended".to_owned(),
            None => std::future::pending().await,
        }
    }
}

async fn follow<K>(
    name: Name,
    api: Api<K>,
    config: watcher::Config,
    synced: Arc<Synced>,
    mut relist: Relist,
    mut take: impl FnMut(Change<K>) + Send,
) where
    K: Resource + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let mut epochs = synced.epoch.subscribe();
    let mut refusals = 0;
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
                    if let Some(change) = relist.take(event) {
                        take(change);
                    }
                    if complete {
                        refusals = 0;
                        synced.mark(&name, epoch);
                    }
                }
                Some(Err(error)) => {
                    let (kind, namespace) = &name;
                    tracing::warn!(
                        kind,
                        namespace,
                        error = chain(&error),
                        "a watch was interrupted and is taken up again"
                    );
                    // What was missed meanwhile only a new list can tell, and that it is allowed again.
                    if let Some(why) = refusal(&error) {
                        refusals += 1;
                        synced.refuse(&name, why);
                        tokio::select! {
                            _ = epochs.changed() => {}
                            () = tokio::time::sleep(backoff::wait(refusals, &name).min(LONGEST)) => {}
                        }
                        break;
                    }
                }
                None => break,
            }
        }
    }
}

/// Whether a watch has what a namespace needs.
fn concerns(within: Option<&str>, namespace: &str) -> bool {
    within.is_none_or(|within| within.is_empty() || within == namespace)
}

/// The API server's words when it forbids a list, or knows no such thing.
pub(super) fn refusal(error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return None;
    };
    [403, 404].contains(&status.code).then(|| status.message.clone())
}
