//! A test's own eyes on a rollout, apart from anything that the operator says of it.
//!
//! Must not judge: tests do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, ObjectList};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;

use crate::eventually;
use crate::lab::{Lab, SOON, is_ready};
use crate::watched::Soon;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The newest resourceVersion.
    newest: u64,
    ready: BTreeMap<String, BTreeSet<String>>,
    counting: bool,
    /// How many nodes were without a Ready agent at once, since all had one.
    pub most_unready: usize,
    /// UIDs of the Pods that each node had.
    pub pods: BTreeMap<String, BTreeSet<String>>,
    /// When Pods began to be deleted, in order.
    pub deletions: Vec<Instant>,
    /// How many others were Ready when each of them did.
    pub others_ready: Vec<usize>,
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

    /// Takes a Pod as the watch shows it, with its place.
    fn take(&mut self, pod: &Pod, place: Option<String>, gone: bool) {
        self.newest = self.newest.max(revision(pod.resource_version().as_ref()));
        let (Some(place), Some(uid)) = (place, pod.uid()) else { return };
        if (gone || pod.metadata.deletion_timestamp.is_some()) && self.deleting.insert(uid.clone()) {
            self.deletions.push(Instant::now());
            let others = self.ready.iter().filter(|(other, pods)| **other != place && !pods.is_empty());
            self.others_ready.push(others.count());
        }
        let on_place = self.ready.entry(place.clone()).or_default();
        let became_ready = !gone && is_ready(pod) && on_place.insert(uid.clone());
        if gone || !is_ready(pod) {
            on_place.remove(&uid);
        }
        if became_ready && self.counting {
            self.readies.push(Instant::now());
        }
        self.pods.entry(place).or_default().insert(uid);
    }

    /// A list is whole: who is not in it went while the watch was cut.
    fn keep(&mut self, listed: &BTreeSet<String>) {
        let gone: Vec<String> = self.pods.values().flatten().filter(|uid| !listed.contains(*uid)).cloned().collect();
        for uid in gone {
            self.ready.values_mut().for_each(|ready| _ = ready.remove(&uid));
            if self.deleting.insert(uid) {
                self.deletions.push(Instant::now());
            }
        }
    }

    /// Counts who lacks a Ready one. Nodes that join are none of those that it was opened on.
    fn count(&mut self, places: usize) {
        let unready = places.saturating_sub(self.ready.values().filter(|pods| !pods.is_empty()).count());
        // Counting begins with the first complete fleet: before that Pods are starting, not replaced.
        self.counting |= unready == 0;
        if self.counting {
            self.most_unready = self.most_unready.max(unready);
        }
    }

    /// Whether it is as new as this list: what is in it was seen, and what was seen before but is not in it went.
    fn has_caught_up(&self, before: &Self, list: &ObjectList<Pod>) -> bool {
        let newest = list.items.iter().map(|pod| revision(pod.resource_version().as_ref())).max();
        let listed: BTreeSet<String> = list.items.iter().filter_map(kube::ResourceExt::uid).collect();
        let mut gone = before.pods.values().flatten().filter(|uid| !listed.contains(*uid));
        newest.is_none_or(|newest| newest <= self.newest) && gone.all(|uid| self.deleting.contains(uid))
    }

    /// Nodes that did not have exactly so many Pods, one after the other.
    #[must_use]
    pub fn without(&self, count: usize) -> Vec<(&String, usize)> {
        self.pods.iter().map(|(node, pods)| (node, pods.len())).filter(|(_, pods)| *pods != count).collect()
    }
}

/// Resource versions of one API server can be compared.
#[must_use]
pub fn revision(version: Option<&String>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[derive(Debug)]
pub struct Eyes {
    pods: Api<Pod>,
    of_it: ListParams,
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
        let api = Api::<Pod>::namespaced(lab.cluster.client.clone(), &lab.name);
        let of_it = ListParams::default().labels(labels);
        let eyes = Self { pods: api.clone(), of_it, seen: Arc::default(), changes };
        let shared = eyes.seen.clone();
        let config = watcher::Config::default().labels(labels);
        tokio::spawn(async move {
            let mut events = watcher(api, config).backoff(Soon).boxed();
            let mut listed: Option<BTreeSet<String>> = None;
            while let Some(event) = events.next().await {
                let mut seen = shared.lock().expect("what was seen");
                match event {
                    Ok(watcher::Event::Apply(pod)) => seen.take(&pod, place(&pod), false),
                    Ok(watcher::Event::Delete(pod)) => seen.take(&pod, place(&pod), true),
                    Ok(watcher::Event::Init) => listed = Some(BTreeSet::new()),
                    Ok(watcher::Event::InitApply(pod)) => {
                        listed.get_or_insert_default().extend(pod.uid());
                        seen.take(&pod, place(&pod), false);
                    }
                    Ok(watcher::Event::InitDone) => seen.keep(&listed.take().unwrap_or_default()),
                    Err(_) => continue,
                }
                // Half a list is no moment that there ever was.
                if listed.is_none() {
                    seen.count(nodes);
                }
                drop(seen);
                let _ = tell.send(());
            }
        });
        eventually("the test sees the whole fleet", SOON, || async {
            if eyes.so_far().counting { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        eyes
    }

    /// Waits until something happens.
    pub async fn changed(&mut self) {
        let _ = self.changes.changed().await;
    }

    /// What was seen until now. A watch is behind what a test knows from elsewhere, so it catches up first.
    pub async fn seen(&self) -> Seen {
        let before = self.so_far().clone();
        let list = self.pods.list(&self.of_it).await.expect("the Pods");
        eventually("the test's watch has caught up", SOON, || async {
            let seen = self.so_far().clone();
            if seen.has_caught_up(&before, &list) { Ok(seen) } else { Err("not yet".to_owned()) }
        })
        .await
    }

    /// What the watch has shown so far.
    pub fn so_far(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("what was seen")
    }
}
