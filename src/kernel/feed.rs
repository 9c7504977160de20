//! Feed: how a kind starts the watches of its caches, each in every namespace of the scope.
//!
//! Here so that a kind says what it watches and what a change affects, and nothing else. Must not know what is cached.

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::sync::{Scope, Watch, Watches, api};
use super::triggers::Triggers;
use crate::k8s::watch::{Affects, Change, Id};

/// Watches that are started; each change reconciles the objects that it affects.
pub struct Feed<'f> {
    client: &'f Client,
    scope: &'f Scope,
    pub triggers: &'f Triggers,
    watches: Watches,
}

impl<'f> Feed<'f> {
    /// No watch yet.
    #[must_use]
    pub fn new(client: &'f Client, scope: &'f Scope, triggers: &'f Triggers) -> Self {
        Self { client, scope, triggers, watches: Watches::default() }
    }

    /// The namespaces that are watched; the empty one means all.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        self.scope.namespaces()
    }

    /// The watches of the kind.
    #[must_use]
    pub fn started(self) -> Watches {
        self.watches
    }

    /// Watches objects of namespaces. `plural`, for messages; `labels`: a selector, empty: all objects; `id`: what the
    /// index is keyed by.
    pub fn follow<K, T>(
        &mut self,
        (plural, labels, id): (&'static str, &str, Id),
        kind: &Arc<T>,
        take: fn(&T, Change<K>) -> Affects,
    ) where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug
            + Send
            + 'static,
        T: Send + Sync + 'static,
    {
        for namespace in self.scope.namespaces() {
            let (kind, told) = (kind.clone(), self.triggers.clone());
            let watch = Watch { kind: plural, namespace: Some(&namespace), labels, id };
            self.watches.follow(watch, api::<K>(self.client, &namespace), move |change| {
                told.affected(take(&kind, change));
            });
        }
    }

    /// Watches objects of the cluster.
    pub fn follow_cluster<K, T>(&mut self, plural: &'static str, kind: &Arc<T>, take: fn(&T, Change<K>) -> Affects)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
        T: Send + Sync + 'static,
    {
        let (kind, told) = (kind.clone(), self.triggers.clone());
        let watch = Watch { kind: plural, ..Watch::default() };
        self.watches.follow(watch, Api::all(self.client.clone()), move |change| told.affected(take(&kind, change)));
    }
}
