//! What the runtime asks of kind ConfigWatcher, and the watches that feed its fleet.
//!
//! Wiring only: which watch tells whom. Must not read a spec or write anything.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};

use super::{Context, Desk, Kept, reconcile, refuse, resolve};
use crate::api::config_watcher::condition::Reason;
use crate::api::config_watcher::package::PACKAGE;
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherSpec};
use crate::api::package::Package;
use crate::fleet::replicas::Owner;
use crate::k8s::facts::PodFacts;
use crate::k8s::watch::{Affects, Id};
use crate::k8s::workload::{DaemonSetFacts, ReplicaSetFacts, StatefulSetFacts};
use crate::kernel::runtime::Kind;
use crate::kernel::sync::{Scope, Watch, Watches, api};
use crate::kernel::triggers::Triggers;
use crate::kernel::{self, Events, Key};

impl Kind for Context {
    const PACKAGE: &'static Package = &PACKAGE;
    type Object = ConfigWatcher;
    type Desk = Kept;

    async fn reconcile(&self, object: &ConfigWatcher, desk: &Desk) -> Result<Duration, kernel::Error> {
        Box::pin(reconcile(object, self, desk)).await
    }

    async fn undecodable(&self, metadata: &ObjectMeta, error: &str, desk: &Desk) -> Result<Duration, kernel::Error> {
        let status = kernel::status::stored::<ConfigWatcher>(&self.client, metadata).await?;
        let stand_in = ConfigWatcher { metadata: metadata.clone(), spec: ConfigWatcherSpec::default(), status };
        let message = format!("the object cannot be read: {error}; compare it with kubectl explain configwatcher.spec");
        refuse(self, &stand_in, desk, Reason::InvalidSpec, &message).await
    }

    async fn unreadable(&self, object: &ConfigWatcher, why: &str, desk: &Desk) -> Result<Duration, kernel::Error> {
        let message = format!("{why}; grant the operator list and watch of that");
        refuse(self, object, desk, Reason::RightsMissing, &message).await
    }

    fn seen(&self, object: &DeserializeGuard<ConfigWatcher>) -> bool {
        // Budgets are shared: every watcher is known before the first look.
        if let Ok(object) = &object.0 {
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            return self.fleet.watches(&key, resolve::resolve(object).ok());
        }
        false
    }

    fn operator(object: &ConfigWatcher) -> Option<&str> {
        object.status.as_ref()?.operator_namespace.as_deref()
    }

    fn events(&self) -> Option<&Events> {
        Some(&self.events)
    }

    fn is_foreign(&self, object: &ConfigWatcher, desk: &Desk) -> bool {
        desk.own.status.is_foreign(object)
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        self.upgradeable.tell(&format!("ConfigWatcher {}/{}", key.0, key.1), None);
        if is_replaced {
            return;
        }
        self.fleet.watches(key, None);
        self.named.keep(key, &[]);
        self.metrics.forget(key);
    }

    fn looked(&self, is_good: bool, took: Duration) {
        self.metrics.all.reconciled(is_good, took);
    }
}

/// Starts the watches that feed the fleet.
pub fn watch_fleet(context: &Arc<Context>, scope: &Scope, triggers: &Triggers) -> Watches {
    let mut watches = Watches::default();
    let woken = triggers.clone();
    context.turns.wake_by(move |key| woken.one(key));
    let client = &context.client;
    for namespace in scope.namespaces() {
        let of = |kind| Watch { kind, namespace: Some(&namespace), ..Watch::default() };
        let (shared, told) = (context.clone(), triggers.clone());
        watches.follow(of("pods"), api::<PodFacts>(client, &namespace), move |change| {
            told.affected(Affects::Each(shared.fleet.pod(&change)));
        });
        let (shared, told) = (context.clone(), triggers.clone());
        let config_maps = api::<PartialObjectMeta<ConfigMap>>(client, &namespace);
        watches.follow(of("configmaps"), config_maps, move |change| {
            told.affected(Affects::Each(shared.fleet.config_map(&change)));
        });
        own::<ReplicaSetFacts>(&mut watches, context, &namespace, triggers, ("replicasets", "ReplicaSet"));
        own::<StatefulSetFacts>(&mut watches, context, &namespace, triggers, ("statefulsets", "StatefulSet"));
        own::<DaemonSetFacts>(&mut watches, context, &namespace, triggers, ("daemonsets", "DaemonSet"));
    }
    watches
}

/// A watch of owners of Pods.
fn own<K>(
    watches: &mut Watches,
    context: &Arc<Context>,
    namespace: &str,
    triggers: &Triggers,
    (plural, kind): (&'static str, &'static str),
) where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug
        + Send
        + 'static,
    for<'k> Owner: From<&'k K>,
{
    let (shared, told) = (context.clone(), triggers.clone());
    let watch = Watch { kind: plural, namespace: Some(namespace), id: Id::Uid, ..Watch::default() };
    watches.follow(watch, api::<K>(&context.client, namespace), move |change| {
        told.affected(Affects::Each(shared.fleet.owner(kind, &change)));
    });
}
