//! Watches that feed caches: which namespaces, whether their first lists are complete, and one stream each that is
//! taken up again for ever.
//!
//! Here because every kind decides from caches, and may not before they are complete. Must not know what is cached.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

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

/// Objects on a page of a list: small pages keep the peak low.
pub(super) const PAGE: u32 = 25;

/// Which namespaces are watched; empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<String>);

impl Scope {
    /// One entry per watch; the empty string stands for all namespaces.
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

/// Which watches are complete since when. A new epoch makes every watch list anew.
#[derive(Debug)]
pub struct Synced {
    epoch: watch::Sender<u64>,
    done: Mutex<HashMap<Name, u64>>,
    /// Watches of namespaces that cannot be read: nobody waits for them.
    refused: Mutex<HashSet<Name>>,
    watches: Mutex<Vec<Name>>,
    changed: Notify,
}

impl Synced {
    /// A namespace cannot be read: it was deleted, or its rights are gone. The others go on without it.
    fn refuse(&self, watch: &Name) {
        self.refused.lock().insert(watch.clone());
        self.changed.notify_waiters();
    }

    fn mark(&self, watch: &Name, epoch: u64) {
        self.refused.lock().remove(watch);
        self.done.lock().insert(watch.clone(), epoch);
        self.changed.notify_waiters();
    }

    /// Whether what is known of a namespace is complete.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        let done = self.done.lock();
        let is_done = |kind: &str| {
            let of = |(name, within): &Name| {
                *name == kind && within.as_deref().is_none_or(|within| within.is_empty() || within == namespace)
            };
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
        let (done, refused) = (self.done.lock(), self.refused.lock());
        self.watches
            .lock()
            .iter()
            .all(|watch| done.get(watch).is_some_and(|at| *at >= epoch) || refused.contains(watch))
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

/// Watches that run. None of them ends by itself; with this they all end.
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
            refused: Mutex::default(),
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

    /// Starts one: `take` is told every event.
    pub fn follow<K>(
        &mut self,
        kind: &'static str,
        namespace: Option<&str>,
        api: Api<K>,
        labels: &str,
        take: impl FnMut(Event<K>) + Send + 'static,
    ) where
        K: Resource + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
    {
        let name: Name = (kind, namespace.map(str::to_owned));
        self.synced.watches.lock().push(name.clone());
        let config = watcher::Config::default().page_size(PAGE);
        let config = if labels.is_empty() { config } else { config.labels(labels) };
        self.tasks.spawn(follow(name, api, config, self.synced.clone(), take));
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
    mut take: impl FnMut(Event<K>) + Send,
) where
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
                    if is_refused(&error) && name.1.as_deref().is_some_and(|namespace| !namespace.is_empty()) {
                        synced.refuse(&name);
                    }
                    let (kind, namespace) = &name;
                    tracing::warn!(
                        kind,
                        namespace,
                        error = chain(&error),
                        "a watch was interrupted and is taken up again"
                    );
                }
                None => break,
            }
        }
    }
}

/// Whether the API server forbids a list, or knows no such thing.
pub(super) fn is_refused(error: &watcher::Error) -> bool {
    let of = |error: &kube::Error| matches!(error, kube::Error::Api(status) if [403, 404].contains(&status.code));
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => of(error),
        watcher::Error::WatchError(status) => [403, 404].contains(&status.code),
        watcher::Error::NoResourceVersion => false,
    }
}
