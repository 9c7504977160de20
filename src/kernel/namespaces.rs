//! Namespaces: the node selector that a namespace itself carries, which keeps Pods off nodes without a word in any
//! spec.
//!
//! Remembered for a period. Must not judge what it means: where nobody enforces it (a plain cluster without the
//! admission plugin) it means nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use super::{Error, call};
use crate::k8s::node_selector::{self, Selector};

/// What was read, by namespace.
#[derive(Debug)]
pub struct NodeSelectors {
    /// For how long an answer is believed.
    period: Duration,
    known: Mutex<HashMap<String, (Instant, Arc<Selector>)>>,
}

impl NodeSelectors {
    /// None is known yet.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self { period, known: Mutex::default() }
    }

    /// What was read last; `None`, if it never was.
    #[must_use]
    pub fn known(&self, namespace: &str) -> Option<Arc<Selector>> {
        self.known.lock().get(namespace).map(|(_, selector)| selector.clone())
    }

    /// Whether what was read last may be another by now.
    #[must_use]
    pub fn is_old(&self, namespace: &str) -> bool {
        let known = self.known.lock();
        known.get(namespace).is_none_or(|(at, _)| at.elapsed() >= self.period)
    }

    /// Reads it, unless that was done just now.
    pub async fn read(&self, client: &Client, namespace: &str) -> Result<Arc<Selector>, Error> {
        let known = self.known.lock().get(namespace).cloned();
        if let Some((_, selector)) = known.filter(|(at, _)| at.elapsed() < self.period) {
            return Ok(selector);
        }
        let api: Api<Namespace> = Api::all(client.clone());
        let found = call(|| format!("read Namespace {namespace}"), api.get(namespace)).await?;
        let selector = Arc::new(node_selector::of(&found));
        self.known.lock().insert(namespace.to_owned(), (Instant::now(), Arc::clone(&selector)));
        Ok(selector)
    }

    /// What it means where the namespace says nothing: believed for as long as what was read.
    pub fn amend(&self, namespace: &str, selector: Selector) -> Arc<Selector> {
        let selector = Arc::new(selector);
        if let Some((_, known)) = self.known.lock().get_mut(namespace) {
            *known = Arc::clone(&selector);
        }
        selector
    }
}
