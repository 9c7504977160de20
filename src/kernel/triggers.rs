//! Triggers: how a watch has objects reconciled, one or all of them.
//!
//! Here so that a thousand events are one reason to reconcile. Must not know what changed, nor what a reconcile does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use tokio::sync::Notify;

use super::Key;
use super::sync::Scope;
use crate::k8s::watch::Affects;

/// Events that concern all objects are gathered for so long, the first apart.
const GATHER: Duration = Duration::from_millis(20);

/// Has objects reconciled.
#[derive(Debug, Clone, Default)]
pub struct Triggers {
    scopes: Arc<HashMap<String, Trigger>>,
}

#[derive(Debug)]
struct Trigger {
    one: UnboundedSender<Key>,
    all: Arc<Notify>,
}

impl Triggers {
    /// Triggers for a scope, with the receiving ends.
    #[must_use]
    pub fn new(scope: &Scope) -> (Self, Vec<Receiver>) {
        let mut scopes = HashMap::new();
        let mut receivers = Vec::new();
        for namespace in scope.namespaces() {
            let (one, ones) = unbounded();
            let all = Arc::new(Notify::new());
            scopes.insert(namespace.clone(), Trigger { one, all: all.clone() });
            receivers.push(Receiver { namespace, ones, all });
        }
        (Self { scopes: Arc::new(scopes) }, receivers)
    }

    /// Has one reconciled.
    pub fn one(&self, key: &Key) {
        if let Some(trigger) = self.scopes.get(&key.0).or_else(|| self.scopes.get("")) {
            let _ = trigger.one.unbounded_send(key.clone());
        }
    }

    /// Has those reconciled that a change affects.
    pub fn affected(&self, affects: Affects) {
        match affects {
            Affects::Nobody => {}
            Affects::One(key) => self.one(&key),
            Affects::Each(keys) => keys.iter().for_each(|key| self.one(key)),
            Affects::All => {
                for trigger in self.scopes.values() {
                    trigger.all.notify_one();
                }
            }
        }
    }
}

/// The receiving end of a namespace's triggers.
#[derive(Debug)]
pub struct Receiver {
    pub(super) namespace: String,
    pub(super) ones: UnboundedReceiver<Key>,
    pub(super) all: Arc<Notify>,
}

/// At once, and then at most once in a while: a thousand nodes that change are one reason to reconcile.
pub(super) fn gathered(all: Arc<Notify>) -> impl Stream<Item = ()> + Send + 'static {
    futures::stream::unfold((all, false), |(all, waits)| async move {
        if waits {
            tokio::time::sleep(GATHER).await;
        }
        all.notified().await;
        Some(((), (all, true)))
    })
}
