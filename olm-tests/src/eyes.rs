//! A test's own eyes on a rollout, apart from anything that the operator says of it.
//!
//! Must not judge: tests do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;

use crate::eventually;
use crate::lab::{Lab, SOON, is_ready};

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    ready: BTreeMap<String, BTreeSet<String>>,
    counting: bool,
    /// How many nodes were without a Ready agent at once, since all had one.
    pub most_unready: usize,
    /// UIDs of the Pods that each node had.
    pub pods: BTreeMap<String, BTreeSet<String>>,
    /// When Pods began to be deleted, in order.
    pub deletions: Vec<Instant>,
    /// When Pods became Ready, those of the beginning apart, in order.
    pub readies: Vec<Instant>,
    /// Pods whose deletion was seen.
    deleting: BTreeSet<String>,
}

impl Seen {
    /// How many were unready at most, and how many deletions there were.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.most_unready, self.deletions.len())
    }

    /// Nodes that did not have exactly so many Pods, one after the other.
    #[must_use]
    pub fn without(&self, count: usize) -> Vec<(&String, usize)> {
        self.pods.iter().map(|(node, pods)| (node, pods.len())).filter(|(_, pods)| *pods != count).collect()
    }
}

#[derive(Debug)]
pub struct Eyes {
    seen: Arc<Mutex<Seen>>,
    changes: watch::Receiver<()>,
}

impl Eyes {
    /// Opened on a fleet of so many Ready agents; they have seen all of it when this returns.
    pub async fn on(lab: &Lab<'_>, name: &str, nodes: usize) -> Self {
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.clone());
        Self::opened(lab, &format!("oneagent={name}"), nodes, node).await
    }

    /// Opened on a workload of so many Ready Pods, each a place of its own: who replaces one is another.
    pub async fn on_replicas(lab: &Lab<'_>, labels: &str, replicas: usize) -> Self {
        Self::opened(lab, labels, replicas, kube::ResourceExt::uid).await
    }

    async fn opened(
        lab: &Lab<'_>,
        labels: &str,
        nodes: usize,
        place: impl Fn(&Pod) -> Option<String> + Send + 'static,
    ) -> Self {
        let (tell, changes) = watch::channel(());
        let eyes = Self { seen: Arc::default(), changes };
        let (shared, api) = (eyes.seen.clone(), Api::<Pod>::namespaced(lab.cluster.client.clone(), &lab.name));
        let config = watcher::Config::default().labels(labels);
        tokio::spawn(async move {
            let mut events = watcher(api, config).default_backoff().boxed();
            while let Some(event) = events.next().await {
                let mut seen = shared.lock().expect("what was seen");
                let (pod, gone) = match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => (pod, false),
                    Ok(watcher::Event::Delete(pod)) => (pod, true),
                    _ => continue,
                };
                let (Some(node), Some(uid)) = (place(&pod), pod.uid()) else {
                    continue;
                };
                if (gone || pod.metadata.deletion_timestamp.is_some()) && seen.deleting.insert(uid.clone()) {
                    seen.deletions.push(Instant::now());
                }
                let on_node = seen.ready.entry(node.clone()).or_default();
                let became_ready = !gone && is_ready(&pod) && on_node.insert(uid.clone());
                if gone || !is_ready(&pod) {
                    on_node.remove(&uid);
                }
                if became_ready && seen.counting {
                    seen.readies.push(Instant::now());
                }
                seen.pods.entry(node).or_default().insert(uid);
                // Nodes that join are none of those that it was opened on.
                let unready = nodes.saturating_sub(seen.ready.values().filter(|pods| !pods.is_empty()).count());
                // Counting begins with the first complete fleet: before that Pods are starting, not replaced.
                seen.counting |= unready == 0;
                if seen.counting {
                    seen.most_unready = seen.most_unready.max(unready);
                }
                drop(seen);
                let _ = tell.send(());
            }
        });
        eventually("the test sees the whole fleet", SOON, || async {
            if eyes.seen().counting { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        eyes
    }

    /// Waits until something happens.
    pub async fn changed(&mut self) {
        let _ = self.changes.changed().await;
    }

    /// What was seen so far.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("what was seen")
    }
}
