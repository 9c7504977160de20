//! How an environment is reached, how often it is asked, and what those who share it need of it.
//!
//! Here because the poller and those who subscribe both hold it. Must not ask anything.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, MutexGuard};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, Semaphore};

use super::Transport;
use super::gone::{GoneNode, Outcome, Zoned};
use super::types::zone_key;

/// How often an environment is asked.
#[derive(Debug, Clone, Copy)]
pub struct Periods {
    /// For the newest version.
    pub latest: Duration,
    /// For token scopes, identity, and whether versions are still offered.
    pub slow: Duration,
    /// For the host list while something needs it.
    pub hosts: Duration,
}

/// Who is notified of changes: namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subscriber {
    pub namespace: String,
    pub name: String,
}

/// What a subscriber needs beyond the newest version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent needs")]
pub struct Interest {
    /// Versions that hosts report, in an answer newer than this.
    pub hosts: Option<DateTime<Utc>>,
    /// What hosts reported last, kept: agents are judged by it.
    pub keeps_hosts: bool,
    /// To know soon whether the environment is there.
    pub proof: bool,
    /// Versions on offer, soon rather than within the hour.
    pub offered: bool,
    /// Addresses that agents talk to.
    pub endpoints: bool,
    /// The network zone in question.
    pub zone: Option<Arc<str>>,
    /// Nodes to tell it of.
    pub gone: Vec<GoneNode>,
}

/// What identifies a poller: the address, the tokens and how to get there.
#[derive(Debug, Clone)]
pub struct Access {
    /// Base address.
    pub base: String,
    /// Token that downloads installers.
    pub paas: SecretString,
    /// Token that reads hosts.
    pub api: SecretString,
    /// How to get there.
    pub transport: Transport,
}

impl Access {
    /// A digest, so that no secret serves as a key.
    pub(super) fn key(&self) -> String {
        let mut hash = Sha256::new();
        let proxy = self.transport.proxy.as_ref().map_or("", |p| p.expose_secret());
        for part in [
            self.base.as_str(),
            self.paas.expose_secret(),
            self.api.expose_secret(),
            proxy,
            self.transport.no_proxy.as_deref().unwrap_or_default(),
            self.transport.trusted.as_deref().unwrap_or_default(),
            if self.transport.skip_cert_check { "skip" } else { "" },
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reading: Arc<Semaphore>,
    subscribers: Mutex<HashMap<Subscriber, Interest>>,
    /// What came of telling of nodes, for as long as an object still asks for it.
    told: Mutex<Vec<Outcome>>,
    pub(super) more: Notify,
}

/// What all subscribers of an environment need.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) hosts: Option<DateTime<Utc>>,
    /// Zones of the host list that an object needs, or keeps.
    pub(super) host_zones: BTreeSet<String>,
    pub(super) proof: bool,
    pub(super) offered: bool,
    /// Zones whose endpoints are needed, the default one apart: that comes with the identity.
    pub(super) zones: BTreeSet<String>,
    pub(super) gone: Vec<Zoned>,
}

impl Shared {
    /// No one's yet; host lists are read by the holder of `reading`.
    pub(super) fn new(reading: Arc<Semaphore>) -> Self {
        Self { reading, subscribers: Mutex::default(), told: Mutex::default(), more: Notify::new() }
    }

    pub(super) fn subscribers(&self) -> MutexGuard<'_, HashMap<Subscriber, Interest>> {
        self.subscribers.lock()
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.told.lock()
    }

    pub(super) fn needs(&self) -> Needs {
        let (subscribers, mut told) = (self.subscribers(), self.told());
        let mut needs = Needs::default();
        told.retain(|(node, _)| subscribers.values().any(|interest| interest.gone.contains(node)));
        for interest in subscribers.values() {
            needs.hosts = needs.hosts.max(interest.hosts);
            if interest.hosts.is_some() || interest.keeps_hosts {
                needs.host_zones.insert(zone_key(interest.zone.as_deref()));
            }
            needs.proof |= interest.proof;
            needs.offered |= interest.offered;
            let zone = interest.zone.as_deref().filter(|_| interest.endpoints).map(|zone| zone_key(Some(zone)));
            needs.zones.extend(zone.filter(|zone| *zone != zone_key(None)));
            let untold = interest.gone.iter().filter(|node| !told.iter().any(|(known, _)| known == *node));
            needs.gone.extend(untold.map(|node| (interest.zone.clone(), node.clone())));
        }
        needs
    }
}
