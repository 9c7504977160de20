//! A node, as far as a Pod on it is concerned.
//!
//! Pure. Must not know what runs there.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

/// A node, as far as a Pod on it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Whether it is Ready.
    pub ready: bool,
    /// Since when it is so.
    pub ready_since: Option<DateTime<Utc>>,
    /// Cordoned, or being deleted, or announced as leaving.
    pub busy: Option<&'static str>,
    /// When it joined.
    pub created: DateTime<Utc>,
    /// Its internal address.
    pub ip: Option<IpAddr>,
}

impl Node {
    /// A Ready node without labels or taints.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            ready: true,
            ready_since: None,
            busy: None,
            created: DateTime::UNIX_EPOCH,
            ip: None,
        }
    }
}

/// A taint on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    /// Value, often empty.
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}
