//! Namespaces: the node selector that a namespace itself carries, which keeps Pods off nodes without a word in any
//! spec.
//!
//! Remembered for a period. Must not judge what it means: where it is not enforced (a plain cluster without the
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

/// What was not asked for since is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

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

    /// What was read just now.
    #[must_use]
    pub fn fresh(&self, namespace: &str) -> Option<Arc<Selector>> {
        let known = self.known.lock().get(namespace).cloned();
        known.filter(|(at, _)| at.elapsed() < self.period).map(|(_, selector)| selector)
    }

    /// Asks what the namespace says. It is unknown before it is noted: what it means may have to be asked, too.
    pub async fn read(client: &Client, namespace: &str) -> Result<Selector, Error> {
        let api: Api<Namespace> = Api::all(client.clone());
        let found = call(|| format!("read Namespace {namespace}"), api.get(namespace)).await?;
        Ok(node_selector::of(&found))
    }

    /// Notes what was found.
    pub fn note(&self, namespace: &str, selector: Selector) -> Arc<Selector> {
        let selector = Arc::new(selector);
        let mut known = self.known.lock();
        // No event says when a namespace is of no interest any more.
        known.retain(|_, (at, _)| at.elapsed() < FORGOTTEN);
        known.insert(namespace.to_owned(), (Instant::now(), Arc::clone(&selector)));
        selector
    }
}
