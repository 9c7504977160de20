//! A process of kind ConfigWatcher: what it is made of.
//!
//! Wiring only.

use std::sync::Arc;

use super::{Base, Operated};
use crate::config_watcher::controller::watch_fleet;
use crate::config_watcher::{Context, MANAGER, OwnMetrics, fleet::Fleet, turns::Turns};
use crate::kernel::sync::{Scope, Watches};
use crate::kernel::triggers::Triggers;
use crate::kernel::{Deletions, Events, Named, Upgradeable};
use crate::telemetry::Metrics;

impl Operated for Context {
    fn watch(self: &Arc<Self>, scope: &Scope, triggers: &Triggers) -> Watches {
        watch_fleet(self, scope, triggers)
    }

    fn named(&self) -> &Named {
        &self.named
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics.all
    }

    fn upgradeable(&self) -> &Upgradeable {
        &self.upgradeable
    }
}

/// What the kind is made of.
pub(super) fn kind(base: Base<'_>) -> Arc<Context> {
    let Base { client, clock, heard, tell_named, namespace, pod, .. } = base;
    Arc::new(Context {
        client: client.clone(),
        fleet: Fleet::new(clock.clone()),
        clock,
        namespace,
        named: Named::new(client.clone(), tell_named),
        deletions: Deletions::default(),
        turns: Turns::default(),
        upgradeable: Upgradeable::default(),
        events: Events::new(client, MANAGER, &pod),
        metrics: OwnMetrics::default(),
        heard,
    })
}
