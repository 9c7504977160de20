//! What is the same in every world: the DaemonSet controller makes Pods at once, and each is Ready after the same time.
//!
//! Must not touch a real cluster, nor judge a plan.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Done;
use crate::k8s::node::Node;
use crate::k8s::placement::{Placement, Verdict};
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{Calendar, Pod, Step};

/// How long a new Pod takes where none shows it.
const USUALLY: TimeDelta = TimeDelta::seconds(60);

/// Pods that come.
#[derive(Debug)]
pub struct Scene {
    pub now: DateTime<Utc>,
    /// How long a new Pod takes to be Ready, and of how many that was measured.
    pub usual: (TimeDelta, usize),
    /// When Pods that were made become Ready, by UID.
    due: BTreeMap<Arc<str>, DateTime<Utc>>,
    made: usize,
}

/// What the engine wants, as it is carried out.
#[derive(Debug)]
pub struct Carried<'a, R> {
    pub guard: &'a Guard,
    pub steps: &'a [Step<R>],
    /// What the template makes.
    pub revision: Option<&'a R>,
}

impl Scene {
    /// With these Pods.
    #[must_use]
    pub fn of<R>(pods: &[Arc<Pod<R>>], now: DateTime<Utc>) -> Self {
        let starts = pods.iter().filter(|pod| pod.ready_since.is_none() && pod.trouble.is_none());
        let due = starts.map(|pod| (pod.id.clone(), now)).collect();
        Self { now, usual: usual(pods), due, made: 0 }
    }

    /// Whether a Pod is on its way.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.due.is_empty()
    }

    /// Lets time pass.
    pub fn pass<R: Clone>(&mut self, pods: &mut [Arc<Pod<R>>], until: DateTime<Utc>) {
        self.now = until;
        for pod in pods {
            if self.due.get(&pod.id).is_some_and(|at| *at <= until) {
                let ready = self.due.remove(&pod.id);
                let pod = Arc::make_mut(pod);
                (pod.ready_since, pod.unready_since) = (ready, None);
            }
        }
    }

    /// Replaces Pods; what was begun is noted in the ledger.
    pub fn carry_out<R: Clone>(
        &mut self,
        pods: &mut Vec<Arc<Pod<R>>>,
        ledger: &mut Ledger,
        carried: &Carried<'_, R>,
        done: &mut Done,
    ) {
        for step in carried.steps {
            // The guard has the last word here, too.
            if ledger.begin(carried.guard, &step.place, &step.pod.id, self.now).is_none() {
                continue;
            }
            done.restarts.push((step.pod.node.to_string(), !step.costs));
            pods.retain(|pod| pod.id != step.pod.id);
            self.due.remove(&step.pod.id);
            self.make(pods, &step.pod.node, carried.revision);
        }
    }

    /// What the DaemonSet controller does at once: Pods where there should be one, none elsewhere.
    pub fn place<R: Clone>(
        &mut self,
        pods: &mut Vec<Arc<Pod<R>>>,
        (nodes, placement): (&[Arc<Node>], &Placement),
        revision: Option<&R>,
        done: &mut Done,
    ) {
        let mut empty = Vec::new();
        let mut left = HashSet::new();
        let has: HashSet<Arc<str>> = pods.iter().map(|pod| pod.node.clone()).collect();
        for node in nodes {
            match placement.verdict(node) {
                Verdict::Selected if !has.contains(&node.name) => empty.push((node.name.clone(), node.ready)),
                Verdict::NotMatching | Verdict::Architecture(_) | Verdict::Overlap(_) => {
                    left.insert(node.name.clone());
                }
                Verdict::Selected | Verdict::Untolerated(_) => {}
            }
        }
        let gone = pods.iter().filter(|pod| left.contains(&pod.node));
        done.loses.extend(gone.map(|pod| pod.node.to_string()));
        pods.retain(|pod| !left.contains(&pod.node));
        for (node, is_ready) in empty {
            done.gains.push(node.to_string());
            let uid = self.make(pods, &node, revision);
            if !is_ready {
                self.due.remove(&uid);
            }
        }
    }

    /// A new Pod, from the template that is there.
    fn make<R: Clone>(&mut self, pods: &mut Vec<Arc<Pod<R>>>, node: &Arc<str>, revision: Option<&R>) -> Arc<str> {
        self.made += 1;
        let name = format!("new-{}", self.made);
        let pod = Pod { revision: revision.cloned(), created: self.now, ..Pod::named(&name, node) };
        let uid = pod.id.clone();
        self.due.insert(uid.clone(), self.now + self.usual.0);
        pods.push(Arc::new(pod));
        uid
    }

    /// When something happens next; `engines`: when the engine wants to look again.
    #[must_use]
    pub fn next(&self, calendar: &Calendar, engines: Option<DateTime<Utc>>, changed: bool) -> Option<DateTime<Utc>> {
        let due = self.due.values().min().copied();
        // Nodes that changed, and those about to be Ready, are looked at again at once.
        let at_once = (changed || due.is_some()).then_some(self.now + TimeDelta::seconds(1));
        let due = due.map(|due| due.max(self.now + TimeDelta::seconds(1)));
        let engines = match calendar.closed(self.now) {
            // The engine looks again and again, in case the clock was set; here it never is.
            Some(closed) if due.is_none() => closed.opens,
            _ => engines,
        };
        let next = [due, engines].into_iter().flatten().filter(|at| *at > self.now).min();
        next.filter(|_| !changed).or(at_once)
    }
}

/// How long a Pod takes to be Ready, and of how many that is known: the median of those that never restarted.
fn usual<R>(pods: &[Arc<Pod<R>>]) -> (TimeDelta, usize) {
    let steady = pods.iter().filter(|pod| pod.restarts == 0 && !pod.deleting);
    let mut times: Vec<TimeDelta> = steady.filter_map(|pod| Some(pod.ready_since? - pod.created)).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    (median.map_or(USUALLY, |median| median.max(TimeDelta::seconds(1))), times.len())
}
