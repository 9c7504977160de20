//! Watches of all that the nodes of an object are judged by, kept up to date.
//!
//! Reads only, with the caller's rights. Must not judge anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use kube::Resource;
use kube::api::{Api, ListParams, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::live::{Fleet, label};
use super::managed::Managed;
use super::object::Object;
use super::wait::unanswered;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::oneagent::OneAgent;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel::Reached;

/// A watch that had no answer may have one again, and nothing to show: after so long it is found out.
const ASKS_AGAIN: Duration = Duration::from_secs(5);
/// No more than so many pictures a second are drawn.
const BETWEEN: Duration = Duration::from_millis(200);
/// A picture takes at most one twentieth of the time.
const SHARE: u32 = 20;
/// Times in what is said are true again within this.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// Whether there is an operator is asked so often.
pub(super) const OPERATOR: Duration = Duration::from_secs(30);

/// How long to wait after a picture that took so long.
pub(super) fn rest(took: Duration) -> Duration {
    (took * SHARE).max(BETWEEN)
}

/// Why watches have no answer, by kind; the error ends them all.
type Troubles = Arc<Mutex<BTreeMap<String, Result<String, String>>>>;

/// Watches whose first list has not come, by kind.
type Unlisted = Arc<Mutex<BTreeSet<String>>>;

/// What watches have shown of the objects of one kind in one namespace.
pub(super) struct Watched {
    kind: Managed,
    agents: Store<OneAgent>,
    rollouts: Store<DaemonSetRollout>,
    nodes: Store<NodeFacts>,
    pods: Store<PodFacts>,
    sets: Store<DaemonSet>,
    revisions: Store<ControllerRevision>,
    pub(super) changed: Arc<Notify>,
    troubles: Troubles,
    unlisted: Unlisted,
    _tasks: JoinSet<()>,
}

impl Watched {
    pub(super) fn of(reached: &Reached, kind: Managed, namespace: &str) -> Self {
        let mut watches = Watches {
            reached: reached.clone(),
            kind,
            changed: Arc::default(),
            troubles: Arc::default(),
            unlisted: Arc::default(),
            tasks: JoinSet::new(),
        };
        let client = || reached.client.clone();
        let (is_agent, is_set) = (kind == Managed::Oneagent, kind == Managed::Daemonsetrollout);
        let config = || watcher::Config::default();
        let labelled = config().labels(label(kind));
        Self {
            kind,
            agents: watches.keep(is_agent, Api::namespaced(client(), namespace), config()),
            rollouts: watches.keep(is_set, Api::namespaced(client(), namespace), config()),
            nodes: watches.keep(true, Api::all(client()), config()),
            pods: watches.keep(true, Api::namespaced(client(), namespace), labelled.clone()),
            sets: watches.keep(true, Api::namespaced(client(), namespace), labelled),
            revisions: watches.keep(is_set, Api::namespaced(client(), namespace), config()),
            changed: watches.changed,
            troubles: watches.troubles,
            unlisted: watches.unlisted,
            _tasks: watches.tasks,
        }
    }

    /// Everything that they have shown.
    pub(super) fn fleet(&self) -> Fleet {
        fn all<K>(store: &Store<K>) -> Vec<K>
        where
            K: Resource + Clone + 'static,
            K::DynamicType: Eq + Hash + Clone,
        {
            store.state().iter().map(|one| K::clone(one)).collect()
        }
        Fleet {
            agents: all(&self.agents),
            rollouts: all(&self.rollouts),
            nodes: all(&self.nodes),
            pods: all(&self.pods),
            sets: all(&self.sets),
            revisions: all(&self.revisions),
        }
    }

    /// Why a watch has no answer, if one has none; the error ends it.
    pub(super) fn trouble(&self) -> Option<Result<String, String>> {
        self.troubles.lock().values().next().cloned()
    }

    /// Whether all first lists have come.
    pub(super) fn is_listed(&self) -> bool {
        self.unlisted.lock().is_empty()
    }

    /// The object of this name, as it is now; nothing before all lists have come, as nodes and Pods would be missing.
    pub(super) fn object(&self, fleet: &Fleet, name: &str) -> Option<Object> {
        if !self.is_listed() {
            return None;
        }
        let is_it = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(name);
        let whole = if self.kind == Managed::Oneagent {
            serde_json::to_value(fleet.agents.iter().find(|agent| is_it(&agent.metadata))?)
        } else {
            serde_json::to_value(fleet.rollouts.iter().find(|rollout| is_it(&rollout.metadata))?)
        };
        Some(Object::of(self.kind, serde_json::from_value(whole.ok()?).ok()?))
    }
}

struct Watches {
    reached: Reached,
    kind: Managed,
    changed: Arc<Notify>,
    troubles: Troubles,
    unlisted: Unlisted,
    tasks: JoinSet<()>,
}

impl Watches {
    /// Keeps a store up to date, if it is wanted.
    fn keep<K>(&mut self, is_wanted: bool, api: Api<K>, config: watcher::Config) -> Store<K>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
    {
        let (store, writer) = reflector::store();
        if !is_wanted {
            return store;
        }
        let (changed, troubles, reached, kind) =
            (self.changed.clone(), self.troubles.clone(), self.reached.clone(), self.kind);
        let plural = K::plural(&K::DynamicType::default()).into_owned();
        let unlisted = self.unlisted.clone();
        unlisted.lock().insert(plural.clone());
        self.tasks.spawn(async move {
            let mut events = Box::pin(watcher(api.clone(), config).default_backoff().reflect(writer));
            loop {
                let is_troubled = troubles.lock().contains_key(&plural);
                let why = tokio::select! {
                    event = events.next() => match event {
                        Some(Ok(event)) => {
                            if matches!(event, Event::InitDone) {
                                unlisted.lock().remove(&plural);
                            }
                            None
                        }
                        Some(Err(why)) => Some(unanswered(&reached, kind, &plural, &why)),
                        None => return,
                    },
                    () = tokio::time::sleep(ASKS_AGAIN), if is_troubled => {
                        if api.list_metadata(&ListParams::default().limit(1)).await.is_err() {
                            continue;
                        }
                        None
                    }
                };
                match why {
                    Some(why) => _ = troubles.lock().insert(plural.clone(), why),
                    None => _ = troubles.lock().remove(&plural),
                }
                changed.notify_one();
            }
        });
        store
    }
}
