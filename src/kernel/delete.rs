//! Deleting Pods: the one way to do it, with the budget, the UID and the resourceVersion checked once more.
//!
//! Here so that even a wrong plan cannot exceed the budget: what is in flight is counted here, and the guard judges by
//! that, not by what the plan says. Must not choose a Pod.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};

use super::{Error, call};
use crate::k8s::facts::PodFacts;
use crate::rollout::guard::Guard;

/// A deletion that the watch does not show for so long never happened: its answer was lost, or it was given up.
const BELIEVED: Duration = Duration::from_secs(90);

/// A Pod to delete.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a Arc<str>,
    /// resourceVersion it was judged by.
    pub resource_version: &'a str,
    /// Its node.
    pub node: &'a Arc<str>,
}

/// What came of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is being deleted.
    Deleted,
    /// It changed or went meanwhile: look again.
    Changed,
    /// The budget is used up; the plan was wrong.
    OverBudget,
}

/// What an owner has in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    /// UIDs that were deleted and that the watch may still show.
    pub uids: HashSet<Arc<str>>,
    /// Nodes that lost a running agent by us and have none yet, with the time of the deletion.
    pub nodes: HashMap<Arc<str>, DateTime<Utc>>,
}

#[derive(Debug, Default)]
struct Flight {
    /// Nodes whose Pod we deleted and that have no agent yet.
    nodes: HashMap<Arc<str>, Lost>,
    /// UIDs that we deleted and that the watch may still show, with the time of the deletion.
    uids: HashMap<Arc<str>, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Lost {
    at: Instant,
    when: DateTime<Utc>,
    /// Whether a running agent was lost.
    costs: bool,
    /// A new agent is Ready, and must only stay so.
    is_ready: bool,
}

/// How far a node's new agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// There is no Pod, or it is being deleted.
    Missing,
    /// There is a Pod that is not Ready.
    Unready,
    /// Ready, but not for long enough.
    Ready,
    /// Available, or not ours to wait for.
    Settled,
}

/// Deletions in flight, by owner.
#[derive(Debug, Default)]
pub struct Deletions {
    owners: Mutex<HashMap<String, Flight>>,
}

impl Deletions {
    /// What an owner has in flight.
    #[must_use]
    pub fn in_flight(&self, owner: &str) -> InFlight {
        let of = |flight: &Flight| InFlight {
            uids: flight.uids.keys().cloned().collect(),
            nodes: flight.nodes.iter().filter(|(_, lost)| lost.costs).map(|(node, lost)| (node.clone(), lost.when)).collect(),
        };
        self.owners().get(owner).map(of).unwrap_or_default()
    }

    /// Forgets what the watch has shown: UIDs that are gone or terminating, nodes with an available agent again.
    pub fn settle(&self, owner: &str, still_shown: impl Fn(&str) -> bool, agent: impl Fn(&str) -> Agent) {
        if let Some(flight) = self.owners().get_mut(owner) {
            flight.uids.retain(|uid, at| still_shown(uid) && at.elapsed() < BELIEVED);
            flight.nodes.retain(|node, lost| {
                let now = agent(node);
                lost.is_ready = now == Agent::Ready;
                // Where no agent ran before, none is waited for once there is another Pod.
                if lost.costs { now != Agent::Settled } else { now == Agent::Missing }
            });
        }
    }

    /// When the latest Pod was deleted whose replacement is not Ready yet.
    #[must_use]
    pub fn latest(&self, owner: &str) -> Option<Instant> {
        self.owners().get(owner).and_then(|flight| flight.nodes.values().filter(|lost| lost.costs && !lost.is_ready).map(|lost| lost.at).max())
    }

    /// Forgets an owner.
    pub fn forget(&self, owner: &str) {
        self.owners().remove(owner);
    }

    /// Takes note of a deletion before it is sent; `None`: the guard forbids it. Returns whether its node was not in flight.
    fn begin(&self, owner: &str, guard: &Guard, target: &Target<'_>, now: DateTime<Utc>) -> Option<bool> {
        let mut owners = self.owners();
        let flight = owners.entry(owner.to_owned()).or_default();
        let costs = guard.costs(target.uid);
        let others = flight.nodes.iter().filter(|(node, lost)| lost.costs == costs && *node != target.node).count();
        if !guard.admits(others) {
            return None;
        }
        flight.uids.insert(target.uid.clone(), Instant::now());
        if flight.nodes.get(target.node).is_some_and(|lost| lost.costs || !costs) {
            return Some(false);
        }
        let lost = Lost { at: Instant::now(), when: now, costs, is_ready: false };
        flight.nodes.insert(target.node.clone(), lost);
        Some(true)
    }

    /// Deletes a Pod, if the guard admits it and the Pod is still the one that was judged.
    pub async fn delete(&self, client: &Client, owner: &str, guard: &Guard, target: Target<'_>, now: DateTime<Utc>) -> Result<Outcome, Error> {
        let Some(newly_lost) = self.begin(owner, guard, &target, now) else { return Ok(Outcome::OverBudget) };
        let api: Api<PodFacts> = Api::namespaced(client.clone(), target.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(target.uid.to_string()), resource_version: Some(target.resource_version.to_owned()) }),
            ..DeleteParams::default()
        };
        match call(|| format!("delete Pod {}/{}", target.namespace, target.name), api.delete(target.name, &params)).await {
            Ok(_) => Ok(Outcome::Deleted),
            Err(error) if error.is_conflict() || error.is_not_found() => {
                self.undo(owner, &target, newly_lost);
                Ok(Outcome::Changed)
            }
            Err(error) => {
                // A request without an answer may have deleted the Pod: it counts until the watch says otherwise.
                if matches!(&error, Error::Api { source, .. } if matches!(**source, kube::Error::Api(_))) {
                    self.undo(owner, &target, newly_lost);
                }
                Err(error)
            }
        }
    }

    /// Takes back what this deletion noted; a node that was in flight before stays so.
    fn undo(&self, owner: &str, target: &Target<'_>, newly_lost: bool) {
        if let Some(flight) = self.owners().get_mut(owner) {
            flight.uids.remove(target.uid);
            if newly_lost {
                flight.nodes.remove(target.node);
            }
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Flight>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::name::Share;
    use crate::k8s::node::Node;
    use crate::k8s::placement::Placement;
    use crate::rollout::{Pod, Policy};
    use chrono::TimeDelta;
    use proptest::prelude::*;

    fn pod(number: usize, ready: bool) -> Arc<Pod> {
        Arc::new(Pod { ready_since: ready.then_some(DateTime::UNIX_EPOCH), ..Pod::named(&format!("p{number}"), &format!("n{number}")) })
    }

    fn guard(budget: u32, pods: &[Arc<Pod>]) -> Guard {
        let nodes: Vec<Arc<Node>> = pods.iter().map(|pod| Arc::new(Node::named(&pod.node))).collect();
        let policy = Policy {
            budget: Share::Count(budget),
            min_ready: TimeDelta::zero(),
            wait_ready: TimeDelta::zero(),
            hold: None,
            placement: Placement::default(),
        };
        Guard::count(&policy, &nodes, pods)
    }

    fn target(pod: &Pod) -> Target<'_> {
        Target { namespace: "n", name: &pod.name, uid: &pod.uid, resource_version: "1", node: &pod.node }
    }

    proptest! {
        /// A planner that lies: it wants everything gone, at once or bit by bit, and calls it free.
        #[test]
        fn whatever_a_planner_wants_no_more_than_the_budget_is_in_flight(
            size in 1usize..30, budget in 1u32..6, wishes in proptest::collection::vec((any::<usize>(), any::<bool>()), 1..200),
        ) {
            let pods: Vec<Arc<Pod>> = (0..size).map(|number| pod(number, number % 3 != 0)).collect();
            let (deletions, guard) = (Deletions::default(), guard(budget, &pods));
            let (mut running, mut broken) = (HashSet::new(), HashSet::new());
            for (wish, comes_back) in wishes {
                let pod = &pods[wish % size];
                if comes_back {
                    running.remove(&pod.node);
                    broken.remove(&pod.node);
                    deletions.settle("o", |_| true, |node| if *node == *pod.node { Agent::Settled } else { Agent::Missing });
                } else if deletions.begin("o", &guard, &target(pod), DateTime::UNIX_EPOCH).is_some() {
                    if pod.ready_since.is_some() { &mut running } else { &mut broken }.insert(pod.node.clone());
                }
                prop_assert!(running.len() <= budget as usize, "{} running agents, budget {budget}", running.len());
                prop_assert!(broken.len() <= budget as usize, "{} broken ones, budget {budget}", broken.len());
            }
        }
    }

    #[test]
    fn a_node_is_in_flight_until_its_agent_is_available() {
        let pods = [pod(1, true), pod(2, true)];
        let (deletions, guard) = (Deletions::default(), guard(1, &pods));
        assert_eq!(deletions.begin("o", &guard, &target(&pods[0]), DateTime::UNIX_EPOCH), Some(true));
        assert_eq!(deletions.begin("o", &guard, &target(&pods[1]), DateTime::UNIX_EPOCH), None);
        assert_eq!(deletions.begin("other", &guard, &target(&pods[1]), DateTime::UNIX_EPOCH), Some(true), "another owner has a count of its own");
        for (agent, in_flight) in [(Agent::Missing, 1), (Agent::Unready, 1), (Agent::Ready, 1), (Agent::Settled, 0)] {
            deletions.settle("o", |_| false, |_| agent);
            assert_eq!(deletions.in_flight("o").nodes.len(), in_flight, "{agent:?}");
        }
        assert!(deletions.in_flight("o").uids.is_empty(), "the watch does not show the Pod any more");
        assert_eq!(deletions.begin("o", &guard, &target(&pods[1]), DateTime::UNIX_EPOCH), Some(true));
        deletions.undo("o", &target(&pods[1]), true);
        assert!(deletions.in_flight("o").nodes.is_empty(), "what was refused never was");
    }

    #[test]
    fn a_broken_pod_is_in_flight_until_there_is_another() {
        let pods = [pod(0, false), pod(3, false)];
        let (deletions, guard) = (Deletions::default(), guard(1, &pods));
        assert_eq!(deletions.begin("o", &guard, &target(&pods[0]), DateTime::UNIX_EPOCH), Some(true));
        assert!(deletions.in_flight("o").nodes.is_empty(), "no agent is missing because of us");
        deletions.settle("o", |_| false, |_| Agent::Missing);
        assert_eq!(deletions.begin("o", &guard, &target(&pods[1]), DateTime::UNIX_EPOCH), None);
        deletions.settle("o", |_| false, |_| Agent::Unready);
        assert_eq!(deletions.begin("o", &guard, &target(&pods[1]), DateTime::UNIX_EPOCH), Some(true));
    }
}
