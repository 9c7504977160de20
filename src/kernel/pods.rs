//! Deleting, evicting and changing Pods: the one way to do it, with budget, UID and resourceVersion checked once more.
//!
//! Here so that even a wrong plan cannot exceed the budget: what is in flight is counted in a ledger of each owner, and
//! the guard judges by that, not by what the plan says. Must not choose a Pod.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::aside::Aside;
use super::{Error, call};
use crate::k8s::facts::PodFacts;
use crate::rollout::guard::Guard;
use crate::rollout::ledger::{Entry, Ledger};

/// A Pod to remove or change.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// The kind's id of it.
    pub id: &'a Arc<str>,
    /// resourceVersion it was judged by.
    pub resource_version: &'a str,
    /// Its place.
    pub place: &'a Arc<str>,
    pub how: How<'a>,
}

/// What is done to a Pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum How<'a> {
    /// It is deleted, whatever its PodDisruptionBudget says: DaemonSets have none.
    Delete,
    /// It is deleted, unless a PodDisruptionBudget forbids it.
    Evict,
    /// It stays, and a container joins it: with that it is another occupant of its place.
    Join(&'a Value),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is being deleted, or changed.
    Taken,
    /// It may not be done now.
    Blocked(Blocked),
    /// It changed or went meanwhile: look again.
    Changed,
    /// It is known to have changed, and its watch does not show it yet: nothing was asked.
    Stale,
    /// The budget is used up; the plan was wrong.
    OverBudget,
}

/// Why it is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// In the API server's words.
    pub why: String,
    pub by: By,
}

/// What forbids it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A PodDisruptionBudget.
    Budget,
    /// Two of them select the Pod, and the API server wants one.
    Budgets,
    /// A policy, a webhook or a missing right.
    Refusal,
}

/// A Pod that the API server has changed is not asked for again by the same resourceVersion for so long: its watch is
/// late, and each other event would repeat the request.
const STALE: Duration = Duration::from_secs(10);

/// What each owner has in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    owners: Mutex<HashMap<String, Ledger>>,
    /// resourceVersions that are known to be old, by the kind's id of the Pod.
    stale: Aside<Box<str>>,
}

impl InFlight {
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
        self.owners().entry(owner.to_owned()).or_default().begin(guard, target.place, target.id, now)
    }

    fn undo(&self, owner: &str, entry: &Entry) {
        if let Some(ledger) = self.owners().get_mut(owner) {
            ledger.undo(entry);
        }
    }

    /// Does it, if the guard admits it and the Pod is still the one that was judged.
    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    pub async fn take(
        &self,
        client: &Client,
        owner: &str,
        guard: &Guard,
        target: Target<'_>,
        now: DateTime<Utc>,
    ) -> Result<Outcome, Error> {
        let version = Box::from(target.resource_version);
        if self.stale.holds_for(target.id, &version) {
            return Ok(Outcome::Stale);
        }
        let Some(entry) = self.begin(owner, guard, &target, now) else { return Ok(Outcome::OverBudget) };
        let api: Api<PodFacts> = Api::namespaced(client.clone(), target.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(target.uid.to_string()),
                resource_version: Some(target.resource_version.to_owned()),
            }),
            ..DeleteParams::default()
        };
        let what = |verb: &str| format!("{verb} Pod {}/{}", target.namespace, target.name);
        let answer = match target.how {
            How::Delete => call(|| what("delete"), api.delete(target.name, &params)).await.map(drop),
            How::Evict => {
                let body = eviction(&target, &params);
                let post = PostParams::default();
                let sent = api.create_subresource::<Value, Status>("eviction", target.name, &post, &body);
                call(|| what("evict"), sent).await.map(drop)
            }
            How::Join(container) => {
                let body = json!({
                    "metadata": { "uid": target.uid, "resourceVersion": target.resource_version },
                    "spec": { "ephemeralContainers": [container] },
                });
                let patch = (PatchParams::default(), Patch::Strategic(body));
                let sent = api.patch_subresource("ephemeralcontainers", target.name, &patch.0, &patch.1);
                call(|| what("add an ephemeral container to"), sent).await.map(drop)
            }
        };
        match answer {
            Ok(()) => Ok(Outcome::Taken),
            Err(error) if let Some(blocked) = blocked(&error, target.how) => {
                self.undo(owner, &entry);
                Ok(Outcome::Blocked(blocked))
            }
            Err(error) if error.is_conflict() || error.is_not_found() => {
                self.undo(owner, &entry);
                self.stale.put(target.id, version, STALE, false);
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

/// Written here: kube's own eviction names the options `delete_options`, which the API server passes over, and the
/// preconditions with them.
fn eviction(target: &Target<'_>, params: &DeleteParams) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": target.name, "namespace": target.namespace },
        "deleteOptions": params,
    })
}

/// What of the API server's answers concerns this Pod: 429 with a cause, an objection, or a 500 that is no trouble of
/// its own. A right that is missing to delete Pods concerns them all.
fn blocked(error: &Error, how: How<'_>) -> Option<Blocked> {
    let Error::Api { source, .. } = error else { return None };
    let kube::Error::Api(status) = &**source else { return None };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let is_budget = causes.iter().any(|cause| cause.reason == "DisruptionBudget");
    let says = |words: &str| status.message.contains(words);
    let by = match status.code {
        429 if is_budget => By::Budget,
        500 if says("more than one PodDisruptionBudget") => By::Budgets,
        // One webhook may be asked of some Pods only.
        500 if says("failed calling webhook") => By::Refusal,
        _ if error.is_not_found() => return None,
        401 => return None,
        403 if how == How::Delete && says(" cannot delete resource ") && !says("admission webhook") => return None,
        _ => error.objection().map(|_| By::Refusal)?,
    };
    let cause = causes.iter().map(|cause| cause.message.as_str()).find(|message| !message.is_empty());
    let why = cause.filter(|_| by == By::Budget).unwrap_or(&status.message).to_owned();
    Some(Blocked { why, by })
}
