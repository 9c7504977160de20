//! Places that went away, as a memory writes them: by name, with the time of the removal or null.
//!
//! Read leniently. Must not decide anything.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserializer, Serialize, Serializer};

use super::lenient::{lenient, text, time};

type Away = BTreeMap<String, Option<DateTime<Utc>>>;

pub(super) fn serialize<S: Serializer>(away: &Away, serializer: S) -> Result<S::Ok, S::Error> {
    let texts: BTreeMap<&String, Option<String>> = away.iter().map(|(name, gone)| (name, gone.map(text))).collect();
    texts.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Away, D::Error> {
    let texts: BTreeMap<String, Option<String>> = lenient(deserializer)?;
    Ok(texts.into_iter().map(|(name, gone)| (name, gone.and_then(|gone| time(&gone)))).collect())
}
