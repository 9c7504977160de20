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
    nodes: HashMap<Arc<str>, Instant>,
    /// UIDs that we deleted and that the watch may still show, with the time of the deletion.
    uids: HashMap<Arc<str>, Instant>,
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
        let keys = |map: &HashMap<Arc<str>, Instant>| map.keys().cloned().collect();
        self.owners().get(owner).map(|flight| InFlight { uids: keys(&flight.uids), nodes: keys(&flight.nodes) }).unwrap_or_default()
    }

    /// Forgets what the watch has shown: UIDs that are gone or terminating, nodes with an available agent again.
    pub fn settle(&self, owner: &str, still_shown: impl Fn(&str) -> bool, still_lacking: impl Fn(&str) -> bool) {
        if let Some(flight) = self.owners().get_mut(owner) {
            flight.uids.retain(|uid, at| still_shown(uid) && at.elapsed() < BELIEVED);
            flight.nodes.retain(|node, _| still_lacking(node));
        }
    }

    /// When the latest Pod was deleted that is not replaced yet.
    #[must_use]
    pub fn latest(&self, owner: &str) -> Option<Instant> {
        self.owners().get(owner).and_then(|flight| flight.nodes.values().max().copied())
    }

    /// Forgets an owner.
    pub fn forget(&self, owner: &str) {
        self.owners().remove(owner);
    }

    /// Deletes a Pod, if that stays within the budget and the Pod is still the one that was judged.
    pub async fn delete(&self, client: &Client, owner: &str, budget: usize, target: Target<'_>) -> Result<Outcome, Error> {
        {
            let mut owners = self.owners();
            let flight = owners.entry(owner.to_owned()).or_default();
            if target.costs && !flight.nodes.contains_key(target.node) && flight.nodes.len() >= budget {
                return Ok(Outcome::OverBudget);
            }
            flight.uids.insert(target.uid.clone(), Instant::now());
            if target.costs {
                flight.nodes.insert(target.node.clone(), Instant::now());
            }
        }
        let api: Api<PodFacts> = Api::namespaced(client.clone(), target.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(target.uid.to_string()), resource_version: Some(target.resource_version.to_owned()) }),
            ..DeleteParams::default()
        };
        match call(|| format!("delete Pod {}/{}", target.namespace, target.name), api.delete(target.name, &params)).await {
            Ok(_) => Ok(Outcome::Deleted),
            Err(Error::Api { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.is_conflict() || status.is_not_found()) => {
                self.undo(owner, &target);
                Ok(Outcome::Changed)
            }
            Err(error) => {
                // A request without an answer may have deleted the Pod: it counts until the watch says otherwise.
                if !matches!(error, Error::Timeout(_)) {
                    self.undo(owner, &target);
                }
                Err(error)
            }
        }
    }

    fn undo(&self, owner: &str, target: &Target<'_>) {
        if let Some(flight) = self.owners().get_mut(owner) {
            flight.uids.remove(target.uid);
            flight.nodes.remove(target.node);
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Flight>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
