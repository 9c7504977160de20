//! Deleting Pods: the one way to do it, with the budget, the UID and the resourceVersion checked once more.
//!
//! Here so that even a wrong plan cannot exceed the budget: the count of what is in flight is kept here, apart from
//! the plan's own. Must not choose a Pod.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};

use super::facts::PodFacts;
use super::{Error, call};

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
    /// Whether an available agent is lost by it.
    pub costs: bool,
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
    /// Nodes that lost an available agent by us and have none yet.
    pub nodes: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Flight {
    /// Nodes that lost an available agent by us and have none yet, with the time of the deletion.
    nodes: HashMap<Arc<str>, Lost>,
    /// UIDs that we deleted and that the watch may still show, with the time of the deletion.
    uids: HashMap<Arc<str>, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Lost {
    at: Instant,
    /// A new agent is Ready, and must only stay so.
    is_ready: bool,
}

/// How far a node's new agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Not Ready.
    Missing,
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
        let of = |flight: &Flight| InFlight { uids: flight.uids.keys().cloned().collect(), nodes: flight.nodes.keys().cloned().collect() };
        self.owners().get(owner).map(of).unwrap_or_default()
    }

    /// Forgets what the watch has shown: UIDs that are gone or terminating, nodes with an available agent again.
    pub fn settle(&self, owner: &str, still_shown: impl Fn(&str) -> bool, agent: impl Fn(&str) -> Agent) {
        if let Some(flight) = self.owners().get_mut(owner) {
            flight.uids.retain(|uid, at| still_shown(uid) && at.elapsed() < BELIEVED);
            flight.nodes.retain(|node, lost| {
                let now = agent(node);
                lost.is_ready = now == Agent::Ready;
                now != Agent::Settled
            });
        }
    }

    /// When the latest Pod was deleted whose replacement is not Ready yet.
    #[must_use]
    pub fn latest(&self, owner: &str) -> Option<Instant> {
        self.owners().get(owner).and_then(|flight| flight.nodes.values().filter(|lost| !lost.is_ready).map(|lost| lost.at).max())
    }

    /// Forgets an owner.
    pub fn forget(&self, owner: &str) {
        self.owners().remove(owner);
    }

    /// Deletes a Pod, if that stays within the budget and the Pod is still the one that was judged.
    pub async fn delete(&self, client: &Client, owner: &str, budget: usize, target: Target<'_>) -> Result<Outcome, Error> {
        let newly_lost = {
            let mut owners = self.owners();
            let flight = owners.entry(owner.to_owned()).or_default();
            if target.costs && !flight.nodes.contains_key(target.node) && flight.nodes.len() >= budget {
                return Ok(Outcome::OverBudget);
            }
            flight.uids.insert(target.uid.clone(), Instant::now());
            target.costs && flight.nodes.insert(target.node.clone(), Lost { at: Instant::now(), is_ready: false }).is_none()
        };
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
