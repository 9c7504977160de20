//! Deleting Pods: the one way to do it, with the budget, the UID and the resourceVersion checked once more.
//!
//! Here so that even a wrong plan cannot exceed the budget: what is in flight is counted in a ledger of each owner, and
//! the guard judges by that, not by what the plan says. Must not choose a Pod.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use parking_lot::{Mutex, MutexGuard};

use super::{Error, call};
use crate::k8s::facts::PodFacts;
use crate::rollout::guard::Guard;
use crate::rollout::ledger::{Entry, Ledger};

/// A Pod to delete.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a Arc<str>,
    /// resourceVersion it was judged by.
    pub resource_version: &'a str,
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

/// What each owner has in flight.
#[derive(Debug, Default)]
pub struct Deletions {
    owners: Mutex<HashMap<String, Ledger>>,
}

impl Deletions {
    /// What an owner has in flight.
    #[must_use]
    pub fn ledger(&self, owner: &str) -> Ledger {
        self.owners().get(owner).cloned().unwrap_or_default()
    }

    /// What of it the watches have not shown yet.
    pub fn settle(&self, owner: &str, ledger: Ledger) {
        if ledger == Ledger::default() {
            self.owners().remove(owner);
        } else {
            self.owners().insert(owner.to_owned(), ledger);
        }
    }

    /// Forgets an owner.
    pub fn forget(&self, owner: &str) {
        self.owners().remove(owner);
    }

    fn begin(&self, owner: &str, guard: &Guard, target: &Target<'_>, now: DateTime<Utc>) -> Option<Entry> {
        self.owners().entry(owner.to_owned()).or_default().begin(guard, target.node, target.uid, now)
    }

    fn undo(&self, owner: &str, entry: &Entry) {
        if let Some(ledger) = self.owners().get_mut(owner) {
            ledger.undo(entry);
        }
    }

    /// Deletes a Pod, if the guard admits it and the Pod is still the one that was judged.
    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    pub async fn delete(
        &self,
        client: &Client,
        owner: &str,
        guard: &Guard,
        target: Target<'_>,
        now: DateTime<Utc>,
    ) -> Result<Outcome, Error> {
        let Some(entry) = self.begin(owner, guard, &target, now) else { return Ok(Outcome::OverBudget) };
        let api: Api<PodFacts> = Api::namespaced(client.clone(), target.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(target.uid.to_string()),
                resource_version: Some(target.resource_version.to_owned()),
            }),
            ..DeleteParams::default()
        };
        match call(|| format!("delete Pod {}/{}", target.namespace, target.name), api.delete(target.name, &params))
            .await
        {
            Ok(_) => Ok(Outcome::Deleted),
            Err(error) if error.is_conflict() || error.is_not_found() => {
                self.undo(owner, &entry);
                Ok(Outcome::Changed)
            }
            Err(error) => {
                // A request without an answer may have deleted the Pod: it counts until the watch says otherwise.
                if matches!(&error, Error::Api { source, .. } if matches!(**source, kube::Error::Api(_))) {
                    self.undo(owner, &entry);
                }
                Err(error)
            }
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Ledger>> {
        self.owners.lock()
    }
}
