//! The poller of one environment: asks what is due, tells of nodes that are gone, and keeps the newest picture.
//!
//! Must not know who needs what: that is gathered in `needs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::gone::{self, Outcome};
use super::needs::{Access, Needs, Periods, Shared, Subscriber};
use super::schedule::Due;
use super::snapshot::{Snapshot, TokenState};
use super::types::{Hosts, zone_key};
use super::{Client, Error};
use crate::clock::Clock;

/// While an object must know whether the environment is there, it is asked this often at least.
const PROOF: Duration = Duration::from_secs(30);

/// When each question is due.
#[derive(Debug)]
struct Probes {
    latest: Due,
    identity: Due,
    paas: Due,
    api: Due,
    offered: Due,
    hosts: Due,
    gone: Due,
    zones: BTreeMap<String, Due>,
    /// When a proof that the environment is there has become too old.
    proof: Instant,
}

impl Default for Probes {
    fn default() -> Self {
        let due = Due::default;
        let zones = BTreeMap::new();
        Self {
            latest: due(),
            identity: due(),
            paas: due(),
            api: due(),
            offered: due(),
            hosts: due(),
            gone: due(),
            zones,
            proof: Instant::now(),
        }
    }
}

pub(super) struct Poller {
    client: Client,
    access: Access,
    periods: Periods,
    clock: Clock,
    shared: Arc<Shared>,
    publish: watch::Sender<Arc<Snapshot>>,
    tell: mpsc::UnboundedSender<Subscriber>,
    probes: Probes,
    /// A host list that is being read, and since when; nothing else waits for it.
    reading: JoinSet<(Result<Hosts, Error>, DateTime<Utc>)>,
    /// The environment is being informed of nodes that are gone; nothing else waits for that either.
    informing: JoinSet<(Vec<Outcome>, Result<(), Error>)>,
}

impl Poller {
    pub(super) fn new(
        client: Client,
        access: Access,
        periods: Periods,
        clock: Clock,
        shared: Arc<Shared>,
        publish: watch::Sender<Arc<Snapshot>>,
        tell: mpsc::UnboundedSender<Subscriber>,
    ) -> Self {
        Self {
            client,
            access,
            periods,
            clock,
            shared,
            publish,
            tell,
            probes: Probes::default(),
            reading: JoinSet::new(),
            informing: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut offered = false;
        loop {
            // An object needs to know now, not within the hour.
            let wanted = self.shared.needs().offered;
            if wanted && !offered {
                self.probes.offered.at = Instant::now();
            }
            offered = wanted;
            self.hurry();
            self.ask_for_the_newest().await;
            self.ask_for_the_rest().await;
            self.read_hosts();
            self.inform_of_nodes();
            let needs = self.shared.needs();
            self.drop_hosts(&needs);
            self.probes.zones.retain(|zone, _| needs.zones.contains(zone));
            let p = &self.probes;
            let always = [p.latest, p.identity, p.paas, p.api, p.offered].map(|due| due.at);
            let zones = needs.zones.iter().map(|zone| p.zones.get(zone).map_or_else(Instant::now, |due| due.at));
            let gone = gone::wait(&needs.gone, self.clock.now()).filter(|_| self.informing.is_empty());
            let gone = gone.map(|wait| p.gone.at.max(Instant::now() + wait));
            let proof = needs.proof.then_some(p.proof);
            let hosts = needs.hosts.filter(|_| self.reading.is_empty()).map(|_| p.hosts.at);
            let wake = always.into_iter().chain(zones).chain(gone).chain(proof).chain(hosts).min();
            tokio::select! {
                Some(Ok((outcome, asked_at))) = self.reading.join_next() => {
                    self.probes.hosts.settle(&outcome, self.periods.hosts);
                    let mut next = (**self.publish.borrow()).clone();
                    hear(&mut next, outcome, asked_at);
                    self.publish(next);
                }
                Some(Ok((outcomes, result))) = self.informing.join_next() => self.informed(outcomes, &result),
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)) => {}
                () = self.shared.more.notified() => {}
            }
        }
    }

    /// Forgets what hosts of a zone reported once no object is judged by it.
    fn drop_hosts(&self, needs: &Needs) {
        let picture = self.publish.borrow().clone();
        let Some(hosts) = picture.hosts.as_ref().filter(|hosts| hosts.exceeds(&needs.host_zones)) else { return };
        let kept = hosts.only(&needs.host_zones).map(Arc::new);
        let hosts_at = picture.hosts_at.filter(|_| kept.is_some());
        self.publish(Snapshot { hosts: kept, hosts_at, ..(*picture).clone() });
    }

    /// Reads the host list when it is due and no other poller reads one: it may take minutes, and nothing waits for it.
    fn read_hosts(&mut self) {
        let needs = self.shared.needs();
        if !self.reading.is_empty() || needs.hosts.is_none() || !self.probes.hosts.is_now() {
            return;
        }
        let (client, token, turn) = (self.client.clone(), self.access.api.clone(), self.shared.reading.clone());
        let clock = self.clock.clone();
        self.reading.spawn(async move {
            let _turn = turn.acquire_owned().await;
            let asked_at = clock.now();
            (client.hosts(&token, &needs.host_zones).await, asked_at)
        });
    }

    /// What an object waits for is asked now, unless it failed a moment ago.
    fn hurry(&mut self) {
        let needs = self.shared.needs();
        let picture = self.publish.borrow().clone();
        let known = picture.hosts_at.max(picture.hosts_refused_at);
        let lacks_zones = picture.hosts.as_ref().is_some_and(|hosts| !hosts.covers(&needs.host_zones));
        if needs.hosts.is_some_and(|wanted| lacks_zones || known.is_none_or(|known| known < wanted)) {
            self.probes.hosts.hurry();
        }
        if needs.proof && self.probes.proof <= Instant::now() {
            self.probes.latest.hurry();
            self.probes.proof = Instant::now() + PROOF;
        }
    }

    /// Informs the environment of nodes that are gone, those of ten seconds together: it may take as long as a host
    /// list, and nothing waits for it.
    fn inform_of_nodes(&mut self) {
        let (gone, now) = (self.shared.needs().gone, self.clock.now());
        let is_due = self.probes.gone.is_now() && gone::wait(&gone, now) == Some(Duration::ZERO);
        if !self.informing.is_empty() || !is_due {
            return;
        }
        let (client, token, turn) = (self.client.clone(), self.access.api.clone(), self.shared.reading.clone());
        self.informing.spawn(async move { gone::tell(&client, &token, turn, &gone, now).await });
    }

    /// Takes what came of informing the environment of nodes that are gone.
    fn informed(&mut self, outcomes: Vec<Outcome>, result: &Result<(), Error>) {
        self.probes.gone.settle(result, gone::GATHER);
        if let Err(error) = result {
            self.probes.gone.at = self.probes.gone.at.max(Instant::now() + gone::AGAIN);
            tracing::warn!(%error, "cannot inform the environment of nodes that are gone; trying again");
        }
        if outcomes.is_empty() {
            return;
        }
        self.shared.told().extend(outcomes);
        self.tell_subscribers();
    }

    /// First and alone, for a first install waits for it.
    async fn ask_for_the_newest(&mut self) {
        if !self.probes.latest.is_now() {
            return;
        }
        let asked_at = self.clock.now();
        let outcome = self.client.latest(&self.access.paas).await;
        let mut next = (**self.publish.borrow()).clone();
        next.away = outcome.is_err();
        let known = next.latest;
        let mut again = false;
        match &outcome {
            Ok(version) if known == Some(*version) => next.trouble = None,
            Ok(version) => {
                // What it names must be on offer: a version that is not can be neither wanted nor downloaded.
                let offered = self.client.offered(&self.access.paas).await;
                self.probes.offered.settle(&offered, self.periods.slow);
                let unlisted = offered.as_ref().err().cloned();
                next.offered = offered.ok().map(Arc::new).or(next.offered);
                next.trouble = if known.is_some_and(|known| *version < known) {
                    Some(format!(
                        "names {version} as the newest version, which is older than what it named before; ignored"
                    ))
                } else if let Some(error) = unlisted.as_ref().filter(|_| next.lacks(*version)) {
                    // The list in hand may be from before that version.
                    again = true;
                    Some(error.to_string())
                } else if next.lacks(*version) {
                    Some(format!("names {version} as the newest version, which it does not offer; ignored"))
                } else {
                    next.latest = Some(*version);
                    next.latest_at = Some(self.clock.now());
                    None
                };
            }
            Err(error) => complain(&mut next, error),
        }
        if outcome.is_ok() {
            next.answered_at = Some(asked_at);
            self.probes.proof = Instant::now() + PROOF;
        }
        if outcome.is_err() && matches!(next.paas, TokenState::Ready | TokenState::Unknown)
            || outcome.is_ok() && !matches!(next.paas, TokenState::Ready | TokenState::Unknown)
        {
            // The token is the first suspect, and the first to be cleared.
            self.probes.paas.at = Instant::now();
        }
        self.probes.latest.settle(&outcome, if again { PROOF.min(self.periods.latest) } else { self.periods.latest });
        self.publish(next);
    }

    async fn ask_for_the_rest(&mut self) {
        let needs = self.shared.needs();
        let (client, access, periods) = (&self.client, &self.access, self.periods);
        let due = &self.probes;
        let asked = (due.identity.is_now(), due.paas.is_now(), due.api.is_now());
        let zones = needs.zones.iter().filter(|zone| due.zones.get(*zone).is_none_or(Due::is_now));
        let of_zone = |zone: &String| {
            let zone = zone.clone();
            async move { (client.connection(&access.paas, Some(&zone)).await, zone) }
        };
        let (identity, zones, paas, api, offered) = tokio::join!(
            when(asked.0, client.connection(&access.paas, None)),
            futures::future::join_all(zones.map(of_zone)),
            when(asked.1, client.scopes(&access.paas)),
            when(asked.2, client.scopes(&access.api)),
            when(due.offered.is_now(), client.offered(&access.paas)),
        );
        let mut next = (**self.publish.borrow()).clone();
        if let Some(outcome) = identity {
            self.probes.identity.settle(&outcome, periods.slow);
            if let Ok((id, endpoints)) = outcome {
                next.environment_id = Some(id);
                next.endpoints.extend(endpoints.map(|endpoints| (zone_key(None), Arc::new(endpoints))));
            }
        }
        next.endpoints.retain(|zone, _| *zone == zone_key(None) || needs.zones.contains(zone));
        next.zone_trouble.retain(|zone, _| needs.zones.contains(zone));
        for (outcome, zone) in zones {
            self.probes.zones.entry(zone.clone()).or_default().settle(&outcome, periods.slow);
            match outcome {
                Ok((_, endpoints)) => {
                    next.zone_trouble.remove(&zone);
                    next.endpoints.extend(endpoints.map(|endpoints| (zone, Arc::new(endpoints))));
                }
                Err(error) => drop(next.zone_trouble.insert(zone, error.to_string())),
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
        if let Some(outcome) = offered {
            self.probes.offered.settle(&outcome, if needs.offered { periods.hosts } else { periods.slow });
            next.offered = outcome.ok().map(Arc::new).or(next.offered);
        }
        self.publish(next);
    }

    fn tell_subscribers(&self) {
        for subscriber in self.shared.subscribers().keys() {
            let _ = self.tell.send(subscriber.clone());
        }
    }

    fn publish(&self, next: Snapshot) {
        let before = self.publish.borrow().clone();
        if *before == next {
            return;
        }
        // That it answered once more is worth a look only to those who wait for a proof.
        let nothing_else = Snapshot { answered_at: next.answered_at, ..(*before).clone() } == next;
        let quietly = nothing_else && before.answered_at.is_some() && !self.shared.needs().proof;
        self.publish.send_replace(Arc::new(next));
        if !quietly {
            self.tell_subscribers();
        }
    }
}

/// Takes what came of asking for hosts.
fn hear(snapshot: &mut Snapshot, outcome: Result<Hosts, Error>, asked_at: DateTime<Utc>) {
    match outcome {
        Ok(hosts) => {
            snapshot.hosts = Some(Arc::new(hosts));
            snapshot.hosts_at = Some(asked_at);
            (snapshot.hosts_refused_at, snapshot.hosts_trouble) = (None, None);
        }
        Err(error) => {
            let is_final =
                matches!(error, Error::Unauthorized(_) | Error::Forbidden(_) | Error::Status { code: 404, .. });
            snapshot.hosts_refused_at = is_final.then_some(asked_at).or(snapshot.hosts_refused_at);
            let since = snapshot.hosts_trouble.as_ref().map_or(asked_at, |(since, _)| *since);
            snapshot.hosts_trouble = Some((since, error.to_string()));
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
