//! Marks: the annotations by which Prometheus finds a Pod whose JVM exports.
//!
//! Pure. Must not write any.

use std::collections::BTreeMap;

use crate::k8s::facts::{EXPORTS, SCRAPE, SCRAPE_PATH, SCRAPE_PORT};

/// All of them.
pub const ANNOTATIONS: [&str; 4] = [EXPORTS, SCRAPE, SCRAPE_PORT, SCRAPE_PATH];
/// What the first one says.
const VERIFIED: &str = "verified";

/// Those of a Pod that exports on a port, or on none.
#[must_use]
pub fn wanted(port: Option<u16>) -> BTreeMap<String, String> {
    let Some(port) = port else { return BTreeMap::new() };
    let all = [
        (EXPORTS, VERIFIED.to_owned()),
        (SCRAPE, "true".to_owned()),
        (SCRAPE_PORT, port.to_string()),
        (SCRAPE_PATH, "/metrics".to_owned()),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Whether a Pod carries our first annotation: without it we wrote none of the others.
#[must_use]
pub fn is_marked(now: &BTreeMap<String, String>) -> bool {
    now.contains_key(EXPORTS)
}

/// Whether a Pod is to be annotated. `others`: keys whose values another client set.
#[must_use]
pub fn differ(now: &BTreeMap<String, String>, port: Option<u16>, others: &[String]) -> bool {
    if port.is_none() {
        return is_marked(now) && !others.iter().any(|key| key == EXPORTS);
    }
    // A value of another client stays; once it is gone, ours is due.
    let is_others = |key: &String| others.contains(key) && now.contains_key(key);
    wanted(port).iter().any(|(key, value)| now.get(key) != Some(value) && !is_others(key))
}
