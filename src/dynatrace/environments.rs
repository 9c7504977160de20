//! Environments in use: one poller each, however many OneAgents share it; what they need is gathered for it, and whoever
//! subscribed is told when the picture changes.
//!
//! Here so that a slow or lying environment costs nobody but itself: a reconcile only ever reads a [`Snapshot`].
//! Must not decide what a picture means for an agent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::gone::{Outcome, Zoned};
use super::poller::Poller;
use super::types::{Hosts, zone_key};
use super::{Client, Error, GoneNode, Told, Transport};
use crate::api::name::Version;

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

/// Who is told of changes: namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subscriber {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What a subscriber needs beyond the newest version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// Versions that hosts report, in an answer newer than this.
    pub hosts: Option<DateTime<Utc>>,
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
    /// Whether it was not answered at all.
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
        let accepted = !matches!(self.paas, TokenState::Unauthorized(_) | TokenState::ScopeMissing(_));
        !self.away && self.answered_at.is_some() && accepted
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
    fn key(&self) -> String {
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

/// All environments in use.
#[derive(Debug)]
pub struct Environments {
    periods: Periods,
    tell: mpsc::UnboundedSender<Subscriber>,
    running: Mutex<HashMap<String, Environment>>,
    /// Host lists are read one at a time, whatever environments there are: each may be large.
    reading: Arc<Semaphore>,
}

#[derive(Debug)]
struct Environment {
    picture: watch::Receiver<Arc<Snapshot>>,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reading: Arc<Semaphore>,
    subscribers: Mutex<HashMap<Subscriber, Interest>>,
    /// What came of telling of nodes, for as long as somebody still wants it told.
    told: Mutex<Vec<Outcome>>,
    pub(super) more: Notify,
}

/// What all subscribers of an environment need.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) hosts: Option<DateTime<Utc>>,
    pub(super) proof: bool,
    pub(super) offered: bool,
    /// Zones whose endpoints are needed, the default one apart: that comes with the identity.
    pub(super) zones: BTreeSet<String>,
    pub(super) gone: Vec<Zoned>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { reading: Arc::new(Semaphore::new(1)), subscribers: Mutex::default(), told: Mutex::default(), more: Notify::new() }
    }
}

impl Shared {
    pub(super) fn subscribers(&self) -> MutexGuard<'_, HashMap<Subscriber, Interest>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn needs(&self) -> Needs {
        let (subscribers, mut told) = (self.subscribers(), self.told());
        let mut needs = Needs::default();
        told.retain(|(node, _)| subscribers.values().any(|interest| interest.gone.contains(node)));
        for interest in subscribers.values() {
            needs.hosts = needs.hosts.max(interest.hosts);
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

impl Environments {
    /// None yet; changes are told through `tell`.
    #[must_use]
    pub fn new(periods: Periods, tell: mpsc::UnboundedSender<Subscriber>) -> Self {
        Self { periods, tell, running: Mutex::default(), reading: Arc::new(Semaphore::new(1)) }
    }

    /// The picture of an environment; the first to ask makes its poller start. Never waits.
    pub fn look(&self, subscriber: &Subscriber, access: &Access) -> Result<Arc<Snapshot>, Error> {
        let key = access.key();
        let mut running = self.running();
        Self::leave_others(&mut running, subscriber, &key);
        if !running.contains_key(&key) {
            let client = Client::new(&access.base, &access.transport)?;
            let (publish, picture) = watch::channel(Arc::default());
            let shared = Arc::new(Shared { reading: self.reading.clone(), ..Shared::default() });
            shared.subscribers().insert(subscriber.clone(), Interest::default());
            let poller = Poller::new(client, access.clone(), self.periods, shared.clone(), publish, self.tell.clone());
            running.insert(key.clone(), Environment { picture, shared, task: tokio::spawn(poller.run()) });
        }
        let Some(environment) = running.get(&key) else { return Ok(Arc::default()) };
        environment.shared.subscribers().entry(subscriber.clone()).or_default();
        Ok(environment.picture.borrow().clone())
    }

    /// What came of telling of the nodes that a subscriber still names.
    pub fn told(&self, subscriber: &Subscriber) -> Vec<(GoneNode, Told)> {
        let mut all = Vec::new();
        for environment in self.running().values() {
            let subscribers = environment.shared.subscribers();
            let Some(interest) = subscribers.get(subscriber).filter(|interest| !interest.gone.is_empty()) else { continue };
            all.extend(environment.shared.told().iter().filter(|(node, _)| interest.gone.contains(node)).cloned());
        }
        all
    }

    /// Says what a subscriber needs from now on.
    pub fn need(&self, subscriber: &Subscriber, interest: &Interest) {
        for environment in self.running().values() {
            let mut subscribers = environment.shared.subscribers();
            if let Some(known) = subscribers.get_mut(subscriber)
                && known != interest
            {
                known.clone_from(interest);
                drop(subscribers);
                environment.shared.more.notify_one();
            }
        }
    }

    /// Forgets a subscriber; a poller without any ends.
    pub fn forget(&self, subscriber: &Subscriber) {
        Self::leave_others(&mut self.running(), subscriber, "");
    }

    fn leave_others(running: &mut HashMap<String, Environment>, subscriber: &Subscriber, but: &str) {
        running.retain(|key, environment| {
            if key == but {
                return true;
            }
            let mut subscribers = environment.shared.subscribers();
            subscribers.remove(subscriber);
            !subscribers.is_empty()
        });
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Environment>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
