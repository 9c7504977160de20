//! Reading a cluster for a command that looks once: lists with the caller's rights, and what may have been meant.
//!
//! Must not write.

use std::fmt::Debug;

use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

/// Everything of a kind; the error names it and the verb.
pub(super) async fn list<K>(api: Api<K>, what: &str, labels: &str) -> Result<Vec<K>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let listed = api.list(&ListParams::default().labels(labels)).await;
    listed.map(|list| list.items).map_err(|error| format!("cannot list {what}: {error}"))
}

/// What may have been meant.
pub(super) fn nearest(name: &str, names: &[&str]) -> String {
    let likeness = |other: &&&str| strsim::jaro_winkler(name, other);
    let best = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map(|best| format!("; the nearest name is {best}")).unwrap_or_default()
}
