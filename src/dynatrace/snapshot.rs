//! What is known of an environment: the newest picture that its poller has made.
//!
//! Pure. Must not ask anything, nor decide what a picture means for an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::types::{Hosts, zone_key};
use crate::api::name::Version;

/// What is known of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TokenState {
    /// Not tried yet.
    #[default]
    Unknown,
    /// It works and has its scope.
    Ready,
    /// It is refused.
    Unauthorized(String),
    /// It lacks this scope.
    ScopeMissing(&'static str),
    /// It could not be tried.
    Error(String),
}

/// The newest picture of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The newest version that it ever named.
    pub latest: Option<Version>,
    /// When that changed.
    pub latest_at: Option<DateTime<Utc>>,
    /// Why the last question was not answered, or not credibly.
    pub trouble: Option<String>,
    /// Whether it was not answered, or refused.
    pub away: bool,
    /// When the newest version was asked for and answered the last time, whatever the answer was worth.
    pub answered_at: Option<DateTime<Utc>>,
    /// The token that downloads installers.
    pub paas: TokenState,
    /// The token that reads hosts.
    pub api: TokenState,
    /// The environment's identity.
    pub environment_id: Option<String>,
    /// Addresses that agents talk to, by zone as the vendor writes it, once asked.
    pub endpoints: BTreeMap<String, Arc<Vec<String>>>,
    /// Why those of a zone could not be asked for, the last time.
    pub zone_trouble: BTreeMap<String, String>,
    /// What hosts report, once asked.
    pub hosts: Option<Arc<Hosts>>,
    /// When that was asked.
    pub hosts_at: Option<DateTime<Utc>>,
    /// When an answer about hosts was refused for good the last time: the token may not ask, or there is no such API.
    pub hosts_refused_at: Option<DateTime<Utc>>,
    /// Since when such questions fail, and why.
    pub hosts_trouble: Option<(DateTime<Utc>, String)>,
    /// What is on offer, once asked.
    pub offered: Option<Arc<Vec<Version>>>,
}

impl Snapshot {
    /// Whether an installer can be downloaded from it, as far as is known.
    #[must_use]
    pub fn serves_installers(&self) -> bool {
        !self.away && self.answered_at.is_some() && !self.rejects_token()
    }

    /// Whether it rejects the token that downloads installers.
    #[must_use]
    pub fn rejects_token(&self) -> bool {
        matches!(self.paas, TokenState::Unauthorized(_) | TokenState::ScopeMissing(_))
    }

    /// Whether no question was answered yet, well or not.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.answered_at.is_none() && self.trouble.is_none() && !self.away && self.paas == TokenState::Unknown
    }

    /// Whether it is known not to offer a version.
    #[must_use]
    pub fn lacks(&self, version: Version) -> bool {
        self.offered.as_ref().is_some_and(|offered| !offered.is_empty() && !offered.contains(&version))
    }

    /// Addresses that agents of a network zone talk to, once asked.
    #[must_use]
    pub fn endpoints(&self, zone: Option<&str>) -> Option<&[String]> {
        self.endpoints.get(&zone_key(zone)).map(|endpoints| endpoints.as_slice())
    }

    /// Why those of a network zone could not be asked for, the last time.
    #[must_use]
    pub fn zone_trouble(&self, zone: Option<&str>) -> Option<&str> {
        self.zone_trouble.get(&zone_key(zone)).map(String::as_str)
    }
}
