//! Notes: what must outlive us and is too large for a status, one ConfigMap per object.
//!
//! Read once, because no one else writes it; written when it changed, and then at most every ten seconds, only the
//! pieces that changed. Best effort: what cannot be written is tried again later and holds nothing up. Must not know
//! what is noted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use super::Error;
use super::apply::{apply, merge};
use crate::backoff::Backoff;

/// Changes within so long are written together.
const GATHER: Duration = Duration::from_secs(10);

/// What can be noted.
pub trait Noted: PartialEq + Send + Sync {
    /// As text, in pieces that change apart from each other. A piece that is empty is there all the same: what is left
    /// out of a write would stay.
    fn pieces(&self) -> BTreeMap<String, String>;
}

/// All notes, by the UID of the object they are about.
#[derive(Debug)]
pub struct Notes<T> {
    manager: &'static str,
    all: Mutex<HashMap<String, Note<T>>>,
    backoff: Backoff<String>,
}

#[derive(Debug)]
struct Note<T> {
    now: Arc<T>,
    /// What the ConfigMap has, as far as we wrote it.
    stored: Option<Arc<T>>,
    /// When to write, while the two differ.
    due: Option<Instant>,
}

/// Where a note is kept, and whose it is: it is deleted with its owner.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// UID of the owner.
    pub uid: &'a str,
    pub namespace: &'a str,
    /// Name of the ConfigMap.
    pub name: &'a str,
    /// Owner reference and labels.
    pub metadata: Value,
}

impl<T: Noted> Notes<T> {
    /// None yet; written by this field manager.
    #[must_use]
    pub fn new(manager: &'static str) -> Self {
        Self { manager, all: Mutex::default(), backoff: Backoff::default() }
    }

    /// What is noted; `None` before it was read.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<Arc<T>> {
        self.notes().get(uid).map(|note| note.now.clone())
    }

    /// Takes what was read. What was `found` is written once more: it may be that of another owner of the same name,
    /// with which it would be deleted.
    pub fn read(&self, uid: &str, value: T, found: bool) -> Arc<T> {
        let value = Arc::new(value);
        let stored = (!found).then(|| value.clone());
        self.notes().insert(uid.to_owned(), Note { now: value.clone(), stored, due: None });
        value
    }

    /// Notes a value, to be written soon, or at once.
    pub fn set(&self, uid: &str, value: T, at_once: bool) {
        let mut notes = self.notes();
        let Some(note) = notes.get_mut(uid) else { return };
        if *note.now != value {
            note.now = Arc::new(value);
        }
        if note.stored.as_ref() == Some(&note.now) {
            note.due = None;
        } else if at_once {
            note.due = Some(Instant::now());
        } else {
            note.due.get_or_insert_with(|| Instant::now() + GATHER);
        }
    }

    /// How long until it is to be written; `None`: there is nothing to write.
    #[must_use]
    pub fn due(&self, uid: &str) -> Option<Duration> {
        let due = self.notes().get(uid)?.due?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Writes it; returns when to come again, if that failed.
    pub async fn write(&self, client: &Client, place: &Place<'_>) -> Option<Duration> {
        let (value, stored) = self.notes().get(place.uid).map(|note| (note.now.clone(), note.stored.clone()))?;
        let outcome = put(self.manager, client, place, &*value, stored.as_deref()).await;
        let key = place.uid.to_owned();
        let wait = match &outcome {
            Ok(()) => {
                self.backoff.succeeded(&key);
                None
            }
            Err(error) => {
                tracing::warn!(
                    namespace = place.namespace,
                    name = place.name,
                    error = error.chain(),
                    "a note could not be written; tried again"
                );
                Some(self.backoff.failed(&key).max(GATHER))
            }
        };
        if let Some(note) = self.notes().get_mut(place.uid) {
            if outcome.is_ok() {
                note.stored = Some(value);
            }
            note.due = wait.map(|wait| Instant::now() + wait);
        }
        wait
    }

    /// Forgets an owner.
    pub fn forget(&self, uid: &str) {
        self.notes().remove(uid);
        self.backoff.succeeded(&uid.to_owned());
    }

    fn notes(&self) -> MutexGuard<'_, HashMap<String, Note<T>>> {
        self.all.lock()
    }
}

/// Writes the pieces that differ from what is stored; all of them where that is not known, or is gone.
async fn put<T: Noted>(
    manager: &str,
    client: &Client,
    place: &Place<'_>,
    value: &T,
    stored: Option<&T>,
) -> Result<(), Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), place.namespace);
    let pieces = value.pieces();
    if let Some(stored) = stored.map(Noted::pieces) {
        let changed: BTreeMap<_, _> = pieces.iter().filter(|(key, text)| stored.get(*key) != Some(text)).collect();
        match merge(manager, &api, place.name, &json!({ "data": changed })).await {
            Err(error) if error.is_not_found() => {}
            outcome => return outcome.map(drop),
        }
    }
    let metadata = json!({ "name": place.name, "namespace": place.namespace });
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": pieces });
    for (key, value) in place.metadata.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    apply(manager, &api, &object, None).await.map(drop)
}
