//! The watch that feeds the fleet, and what is done for Pods that no object selects any more.
//!
//! Must not read a spec.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::context::JmxExporters;
use crate::k8s::containers::PodContainers;
use crate::k8s::watch::{Affects, Change, Id};
use crate::kernel::feed::Feed;
use crate::kernel::kind::Shared;
use crate::kernel::{Key, annotate};

/// What could not be done is tried again after so long.
const AGAIN: Duration = Duration::from_secs(10);
/// Changes within so long are looked at together.
const GATHER: Duration = Duration::from_millis(200);

/// Asks for no object.
const NOBODY: Key = (String::new(), String::new());

/// Starts it.
pub fn watch(kind: &Arc<JmxExporters>, feed: &mut Feed<'_>) {
    feed.follow(("pods", "", Id::Name), kind, |kind, change: Change<PodContainers>| {
        Affects::Each(kind.fleet.pod(&change, |run| kind.metrics.ended(run)))
    });
}

/// Takes our annotations from Pods that no object selects any more, also where the object was deleted while no operator
/// ran.
pub async fn sweep(kind: &JmxExporters, shared: &Shared) {
    // Annotations that stay are another client's.
    let mut others: HashSet<Arc<str>> = HashSet::new();
    loop {
        let mut orphans = kind.fleet.read().orphans();
        others.retain(|uid| orphans.iter().any(|(_, target)| target.uid == *uid));
        orphans.retain(|(_, target)| !others.contains(&target.uid));
        // A stop that cannot be read may be one.
        let mut has_failed = !orphans.is_empty() && shared.is_stopped(&NOBODY).await.unwrap_or(true);
        if has_failed {
            orphans.clear();
        }
        for (namespace, target) in orphans {
            let pod = (&*namespace, &*target.name, &*target.uid);
            match annotate(&shared.client, shared.manager, pod, &BTreeMap::new()).await {
                Ok(_) => drop(others.insert(target.uid.clone())),
                Err(error) => {
                    has_failed = true;
                    tracing::warn!(namespace, pod = &*target.name, error = error.chain(), "annotations stay for now");
                }
            }
        }
        let again = if has_failed { AGAIN } else { Duration::MAX };
        tokio::select! {
            () = kind.fleet.changed.notified() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep(again) => {}
        }
    }
}
