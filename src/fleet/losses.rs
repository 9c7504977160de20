//! Nodes that lost their Pod, as the watch of the Pods shows it: since when, and why the Pods since then came to
//! nothing.
//!
//! Here because a Pod that its kubelet refuses is gone within a second, and its reason with it. Gone with the process.
//! Pure. Must not judge anything.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::k8s::watch::Key;
use crate::rollout::{Loss, Pod, Trouble};

/// By object, and by node.
#[derive(Debug, Default)]
pub(super) struct Losses(HashMap<Key, Arc<HashMap<Arc<str>, Loss>>>);

impl Losses {
    /// What is known of an object's nodes.
    pub(super) fn of(&self, key: &Key) -> Arc<HashMap<Arc<str>, Loss>> {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Takes note of how a Pod is, and how it was.
    pub(super) fn see<R>(&mut self, key: &Key, before: Option<&Pod<R>>, pod: &Pod<R>, now: DateTime<Utc>) {
        if pod.ready_since.is_some() {
            self.remove(key, &pod.node);
            return;
        }
        let was_ready = before.is_some_and(|before| before.id == pod.id && before.ready_since.is_some());
        if was_ready {
            self.loss(key, pod, pod.unready_since.unwrap_or(now));
        }
        if let Some(Trouble::Ended(why)) = &pod.trouble {
            let loss = self.loss(key, pod, pod.unready_since.unwrap_or(pod.created));
            (loss.is_futile, loss.why) = (true, Some(why.clone()));
        }
    }

    /// Takes note of a Pod that is gone, where no other one of its node is Ready.
    pub(super) fn gone<R>(&mut self, key: &Key, pod: &Pod<R>, now: DateTime<Utc>) {
        let ran = pod.ready_since.is_some() || pod.was_ready.is_some();
        let since = if pod.ready_since.is_some() { now } else { pod.unready_since.unwrap_or(pod.created) };
        self.loss(key, pod, since).is_futile |= !ran;
    }

    fn loss<R>(&mut self, key: &Key, pod: &Pod<R>, since: DateTime<Utc>) -> &mut Loss {
        let of = Arc::make_mut(self.0.entry(key.clone()).or_default());
        of.entry(pod.node.clone()).or_insert(Loss { since, is_futile: false, why: None })
    }

    fn remove(&mut self, key: &Key, node: &str) {
        if self.0.get(key).is_some_and(|of| of.contains_key(node)) {
            self.retain(key, |name| name != node);
        }
    }

    /// Keeps what is known of these nodes only.
    pub(super) fn retain(&mut self, key: &Key, stays: impl Fn(&str) -> bool) {
        let Some(of) = self.0.get_mut(key) else { return };
        if of.keys().any(|node| !stays(node)) {
            Arc::make_mut(of).retain(|node, _| stays(node));
        }
        if of.is_empty() {
            self.0.remove(key);
        }
    }

    /// Forgets an object.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Forgets a node.
    pub(super) fn forget_node(&mut self, node: &str) {
        let keys: Vec<Key> = self.0.keys().cloned().collect();
        for key in &keys {
            self.remove(key, node);
        }
    }
}
