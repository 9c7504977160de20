//! What a Pod was made with: the data of the ConfigMap, as of its last change.
//!
//! Pure. Must not read a ConfigMap.

use std::fmt;

use chrono::{DateTime, Utc};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::k8s::hex::hex;
use crate::rollout;

/// The data of a ConfigMap, as of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// SHA-256 of the data.
    pub hash: String,
    /// When it changed, by the API server's clock.
    pub changed_at: DateTime<Utc>,
}

/// A Pod that may be replaced for a ConfigMap's sake.
pub type Pod = rollout::Pod<Config>;

impl Config {
    /// What Pods have while there is no ConfigMap.
    #[must_use]
    pub fn absent() -> Self {
        Self { hash: String::new(), changed_at: DateTime::UNIX_EPOCH }
    }

    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.hash.is_empty()
    }
}

impl rollout::Revision for Config {
    fn is_another_release(&self, than: &Self) -> bool {
        self.hash != than.hash
    }

    fn supersedes(&self, other: &Self) -> bool {
        self.changed_at >= other.changed_at
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        write!(f, "the ConfigMap of {} ({short})", self.changed_at.format("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// The hash of a ConfigMap's data: of every entry, in the order of the keys, each with its length, so that nothing can
/// pass for something else.
#[must_use]
pub fn hash(object: &ConfigMap) -> String {
    let mut hasher = Sha256::new();
    let mut add = |kind: &str, key: &str, value: &[u8]| {
        for part in [kind.as_bytes(), key.as_bytes(), value] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    };
    for (key, value) in object.data.iter().flatten() {
        add("data", key, value.as_bytes());
    }
    for (key, ByteString(value)) in object.binary_data.iter().flatten() {
        add("binaryData", key, value);
    }
    hex(&hasher.finalize())
}

/// When data was last written, by the API server's clock: labels and annotations do not move it. Where no manager owns
/// any, the object's creation.
#[must_use]
pub fn written_at(object: &ConfigMap) -> Option<DateTime<Utc>> {
    let owns_data = |fields: &Option<FieldsV1>| {
        fields
            .as_ref()
            .is_some_and(|FieldsV1(fields)| ["f:data", "f:binaryData"].iter().any(|key| fields.get(key).is_some()))
    };
    let entries = object.metadata.managed_fields.iter().flatten().filter(|entry| owns_data(&entry.fields_v1));
    let written = entries.filter_map(|entry| entry.time.as_ref()).max();
    let at = written.or(object.metadata.creation_timestamp.as_ref())?;
    DateTime::from_timestamp(at.0.as_second(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn map(value: Value) -> ConfigMap {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_hash_is_of_the_data_and_of_nothing_else() {
        let of = |value| hash(&map(value));
        let plain = of(json!({ "data": { "a": "1", "b": "2" } }));
        assert_eq!(plain, of(json!({ "data": { "b": "2", "a": "1" }, "metadata": { "labels": { "x": "y" } } })));
        for other in [
            json!({ "data": { "a": "12", "b": "" } }),
            json!({ "data": { "a": "1" }, "binaryData": { "b": "Mg==" } }),
            json!({ "data": { "a": "1" } }),
            json!({}),
        ] {
            assert_ne!(plain, of(other.clone()), "{other}");
        }
    }

    #[test]
    fn a_change_is_as_old_as_the_last_write_of_data() {
        let entry = |at: &str, fields: Value| json!({ "manager": "m", "time": at, "fieldsV1": fields });
        let at = |value| written_at(&map(value)).unwrap().timestamp();
        let fields = json!([
            entry("1970-01-01T00:01:00Z", json!({ "f:data": { "f:a": {} } })),
            entry("1970-01-01T00:00:30Z", json!({ "f:binaryData": {} })),
            entry("1970-01-01T00:09:00Z", json!({ "f:metadata": { "f:labels": {} } }))
        ]);
        assert_eq!(at(json!({ "metadata": { "managedFields": fields } })), 60);
        let bare = json!({ "metadata": { "creationTimestamp": "1970-01-01T00:00:07Z" } });
        assert_eq!(at(bare), 7);
    }
}
