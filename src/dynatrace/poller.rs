//! One poller per environment, however many OneAgents share it: what is due is asked, the newest picture is kept,
//! and whoever subscribed is told when it changes.
//!
//! Here so that a slow or lying environment costs nobody but itself: a reconcile only ever reads a [`Snapshot`].
//! Must not decide what a picture means for an agent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::schedule::Due;
use super::types::Hosts;
use super::{Client, Error, Transport};
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    /// Versions that hosts report.
    pub hosts: bool,
    /// Versions on offer, soon rather than within the hour.
    pub offered: bool,
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
    /// The token that downloads installers.
    pub paas: TokenState,
    /// The token that reads hosts.
    pub api: TokenState,
    /// The environment's identity.
    pub environment_id: Option<String>,
    /// Addresses that agents talk to, once asked.
    pub endpoints: Option<Arc<Vec<String>>>,
    /// What hosts report, once asked.
    pub hosts: Option<Arc<Hosts>>,
    /// What is on offer, once asked.
    pub offered: Option<Arc<Vec<Version>>>,
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

#[derive(Debug, Default)]
struct Shared {
    subscribers: Mutex<HashMap<Subscriber, Interest>>,
    more: Notify,
}

impl Shared {
    fn subscribers(&self) -> MutexGuard<'_, HashMap<Subscriber, Interest>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interest(&self) -> Interest {
        let subscribers = self.subscribers();
        Interest { hosts: subscribers.values().any(|i| i.hosts), offered: subscribers.values().any(|i| i.offered) }
    }
}

impl Environments {
    /// None yet; changes are told through `tell`.
    #[must_use]
    pub fn new(periods: Periods, tell: mpsc::UnboundedSender<Subscriber>) -> Self {
        Self { periods, tell, running: Mutex::default() }
    }

    /// The picture of an environment; the first to ask makes its poller start. Never waits.
    pub fn look(&self, subscriber: &Subscriber, access: &Access) -> Result<Arc<Snapshot>, Error> {
        let key = access.key();
        let mut running = self.running();
        Self::leave_others(&mut running, subscriber, &key);
        if !running.contains_key(&key) {
            let client = Client::new(&access.base, &access.transport)?;
            let (publish, picture) = watch::channel(Arc::default());
            let shared = Arc::new(Shared::default());
            shared.subscribers().insert(subscriber.clone(), Interest::default());
            let poller = Poller {
                client,
                access: access.clone(),
                periods: self.periods,
                shared: shared.clone(),
                publish,
                tell: self.tell.clone(),
                probes: Probes::default(),
            };
            running.insert(key.clone(), Environment { picture, shared, task: tokio::spawn(poller.run()) });
        }
        let Some(environment) = running.get(&key) else { return Ok(Arc::default()) };
        environment.shared.subscribers().entry(subscriber.clone()).or_default();
        Ok(environment.picture.borrow().clone())
    }

    /// Says what a subscriber needs from now on.
    pub fn need(&self, subscriber: &Subscriber, interest: Interest) {
        for environment in self.running().values() {
            let mut subscribers = environment.shared.subscribers();
            if let Some(known) = subscribers.get_mut(subscriber)
                && *known != interest
            {
                *known = interest;
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

#[derive(Debug, Default)]
struct Probes {
    latest: Due,
    identity: Due,
    paas: Due,
    api: Due,
    offered: Due,
    hosts: Due,
}

struct Poller {
    client: Client,
    access: Access,
    periods: Periods,
    shared: Arc<Shared>,
    publish: watch::Sender<Arc<Snapshot>>,
    tell: mpsc::UnboundedSender<Subscriber>,
    probes: Probes,
}

impl Poller {
    async fn run(mut self) {
        loop {
            self.ask_for_the_newest().await;
            self.ask_for_the_rest().await;
            let interest = self.shared.interest();
            let p = &self.probes;
            let mut wake = [p.latest, p.identity, p.paas, p.api, p.offered].iter().map(|due| due.at).min().unwrap_or_else(Instant::now);
            if interest.hosts {
                wake = wake.min(p.hosts.at);
            }
            tokio::select! {
                () = tokio::time::sleep_until(wake) => {}
                () = self.shared.more.notified() => {
                    if self.shared.interest().offered && !interest.offered {
                        self.probes.offered.at = Instant::now();
                    }
                }
            }
        }
    }

    /// First and alone, for a first install waits for it.
    async fn ask_for_the_newest(&mut self) {
        if !self.probes.latest.is_now() {
            return;
        }
        let outcome = self.client.latest(&self.access.paas).await;
        let mut next = (**self.publish.borrow()).clone();
        match &outcome {
            Ok(version) if next.latest.is_some_and(|known| *version < known) => {
                next.trouble = Some(format!("names {version} as the newest version, which is older than what it named before; ignored"));
            }
            Ok(version) => {
                next.trouble = None;
                if next.latest != Some(*version) {
                    if next.latest.is_some() {
                        // Agents may have updated themselves to it: ask before anyone acts on the new version.
                        let hosts = self.client.hosts(&self.access.api).await;
                        self.probes.hosts.settle(&hosts, self.periods.hosts);
                        next.hosts = hosts.ok().map(Arc::new).or(next.hosts);
                    }
                    next.latest = Some(*version);
                    next.latest_at = Some(Utc::now());
                }
            }
            Err(error) => complain(&mut next, error),
        }
        if outcome.is_err() && matches!(next.paas, TokenState::Ready | TokenState::Unknown)
            || outcome.is_ok() && !matches!(next.paas, TokenState::Ready | TokenState::Unknown)
        {
            // The token is the first suspect, and the first to be cleared.
            self.probes.paas.at = Instant::now();
        }
        self.probes.latest.settle(&outcome, self.periods.latest);
        self.publish(next);
    }

    async fn ask_for_the_rest(&mut self) {
        let interest = self.shared.interest();
        let (client, access, periods) = (&self.client, &self.access, self.periods);
        let due = &self.probes;
        let asked = (due.identity.is_now(), due.paas.is_now(), due.api.is_now(), interest.hosts && due.hosts.is_now());
        let (identity, paas, api, hosts, offered) = tokio::join!(
            when(asked.0, client.connection(&access.paas)),
            when(asked.1, client.scopes(&access.paas)),
            when(asked.2, client.scopes(&access.api)),
            when(asked.3, client.hosts(&access.api)),
            when(due.offered.is_now(), client.offered(&access.paas)),
        );
        let mut next = (**self.publish.borrow()).clone();
        if let Some(outcome) = identity {
            self.probes.identity.settle(&outcome, periods.slow);
            if let Ok((id, endpoints)) = outcome {
                next.environment_id = Some(id);
                next.endpoints = endpoints.map(Arc::new).or(next.endpoints);
            }
        }
        if let Some(outcome) = paas {
            next.paas = token_state(&outcome, "InstallerDownload");
            // A good answer needs no repetition: the newest version proves the token every time.
            self.probes.paas.settle(&outcome, Duration::from_secs(365 * 86_400));
        }
        if let Some(outcome) = api {
            next.api = token_state(&outcome, "DataExport");
            self.probes.api.settle(&outcome, periods.slow);
        }
        if let Some(outcome) = hosts {
            self.probes.hosts.settle(&outcome, periods.hosts);
            next.hosts = outcome.ok().map(Arc::new).or(next.hosts);
        }
        if let Some(outcome) = offered {
            self.probes.offered.settle(&outcome, if interest.offered { periods.hosts } else { periods.slow });
            next.offered = outcome.ok().map(Arc::new).or(next.offered);
        }
        self.publish(next);
    }

    fn publish(&self, next: Snapshot) {
        if **self.publish.borrow() == next {
            return;
        }
        self.publish.send_replace(Arc::new(next));
        for subscriber in self.shared.subscribers().keys() {
            let _ = self.tell.send(subscriber.clone());
        }
    }
}

async fn when<T>(asked: bool, question: impl Future<Output = T>) -> Option<T> {
    if asked { Some(question.await) } else { None }
}

/// A refusal of the token is the token's trouble, everything else the environment's.
fn complain(snapshot: &mut Snapshot, error: &Error) {
    match error {
        Error::Unauthorized(message) => {
            snapshot.paas = TokenState::Unauthorized(message.clone());
            snapshot.trouble = None;
        }
        Error::Forbidden(_) => {
            snapshot.paas = TokenState::ScopeMissing("InstallerDownload");
            snapshot.trouble = None;
        }
        other => snapshot.trouble = Some(other.to_string()),
    }
}

fn token_state(outcome: &Result<Vec<String>, Error>, scope: &'static str) -> TokenState {
    match outcome {
        Ok(scopes) if scopes.iter().any(|s| s == scope) => TokenState::Ready,
        Ok(_) => TokenState::ScopeMissing(scope),
        Err(Error::Unauthorized(message)) => TokenState::Unauthorized(message.clone()),
        Err(error) => TokenState::Error(error.to_string()),
    }
}
