//! The lease: of several operators one acts.
//!
//! Expiry is judged by when we saw the record change, never by comparing clocks. A holder that cannot renew in time
//! ends the process. Must not know what the leader does.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::time::Instant;

use super::{ApiContact, Error, call};

/// Annotation of the Lease: the namespaces that its holder watches, separated by commas; empty means all.
pub const WATCHED: &str = "oneagent.dynatrace.com/watched-namespaces";
/// How long a lease is valid that does not say so.
pub const UNSAID: Duration = Duration::from_secs(137);

/// How long, how late, how often.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a lease that is not renewed stays valid.
    pub duration: Duration,
    /// For how long the holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How often it is renewed.
    pub retry_period: Duration,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take it.
    Acquire,
    /// It is ours already: go on.
    Resume,
    /// It is another holder's, for so long at least.
    Wait(Duration),
}

/// What a lease says, and for how long we have seen it say so; `unsaid`: how long it is valid if it does not say so.
#[must_use]
pub fn decide(spec: Option<&LeaseSpec>, me: &str, unchanged_for: Duration, unsaid: Duration) -> Step {
    let Some(spec) = spec else { return Step::Acquire };
    match spec.holder_identity.as_deref() {
        None | Some("") => Step::Acquire,
        Some(holder) if holder == me => Step::Resume,
        Some(_) => {
            let valid =
                spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map_or(unsaid, Duration::from_secs);
            match valid.checked_sub(unchanged_for) {
                Some(left) if !left.is_zero() => Step::Wait(left),
                _ => Step::Acquire,
            }
        }
    }
}

/// Takes part in the election for one lease.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    me: String,
    watched: String,
    timing: Timing,
    contact: Arc<ApiContact>,
    held: Option<Lease>,
    /// The newest revision of the lease that was ours.
    newest: u64,
}

impl Candidate {
    /// `me` must be other for every process that may run at once; `watched`: the namespaces that it watches.
    #[must_use]
    pub fn new(api: Api<Lease>, name: &str, me: &str, watched: &str, timing: Timing, contact: Arc<ApiContact>) -> Self {
        let (me, watched) = (me.to_owned(), watched.to_owned());
        Self { api, name: name.to_owned(), me, watched, timing, contact, held: None, newest: 0 }
    }

    /// Waits until the lease is ours. Watches it, so that one that is given back is taken at once.
    pub async fn acquire(&mut self) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(self.api.clone(), config).default_backoff().boxed();
        let (mut seen, mut since, mut known): (Option<Lease>, Instant, bool) = (None, Instant::now(), false);
        // Who held it last: one who does not know yet that it was deleted acts on, for as long as it is valid.
        let mut last: Option<LeaseSpec> = None;
        let mut listed = false;
        loop {
            let step = if known {
                decide(last.as_ref(), &self.me, since.elapsed(), self.timing.duration)
            } else {
                Step::Wait(self.timing.retry_period)
            };
            let wait = match step {
                Step::Acquire | Step::Resume => match self.write(seen.clone(), true).await {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::info!(error = error.chain(), "the lease was not taken");
                        Duration::from_secs(1)
                    }
                },
                Step::Wait(left) => left,
            };
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(wait) => continue,
            };
            let update = match event {
                Some(Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease))) => Some(lease),
                Some(Ok(watcher::Event::Delete(_))) => None,
                Some(Ok(watcher::Event::InitDone)) => {
                    known = true;
                    // It was deleted while no one watched.
                    if listed || seen.is_none() {
                        continue;
                    }
                    None
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot watch the lease");
                    continue;
                }
                Some(Ok(watcher::Event::Init)) => {
                    listed = false;
                    continue;
                }
                None => continue,
            };
            listed |= update.is_some();
            if update.as_ref().and_then(|l| l.spec.as_ref()) != seen.as_ref().and_then(|l| l.spec.as_ref()) {
                since = Instant::now();
            }
            last = update.as_ref().map_or(last, |lease| lease.spec.clone());
            seen = update;
        }
    }

    /// Renews for ever; returns when the lease is lost.
    pub async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.timing.retry_period).await;
            let mut pause = Duration::from_millis(500);
            loop {
                let held = self.held.clone();
                match self.write(held, false).await {
                    Ok(()) => {
                        renewed = Instant::now();
                        break;
                    }
                    Err(error @ Error::Restored { .. }) => return error,
                    Err(error) if error.is_conflict() => {
                        // It was written: us through a retried request, or the one who took it.
                        match call(|| format!("read Lease {}", self.name), self.api.get_opt(&self.name)).await {
                            Ok(Some(lease))
                                if lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()) == Some(&self.me) =>
                            {
                                if let Err(error) = self.took(lease) {
                                    return error;
                                }
                            }
                            Ok(Some(_)) => return error,
                            // It was deleted: ours as long as no one else creates it.
                            Ok(None) => self.held = None,
                            Err(_) => {}
                        }
                    }
                    Err(error) if error.is_not_found() => self.held = None,
                    Err(error) if renewed.elapsed() >= self.timing.renew_deadline => return error,
                    Err(error) => tracing::warn!(error = error.chain(), "the lease is not renewed yet"),
                }
                if renewed.elapsed() >= self.timing.renew_deadline {
                    return Error::Timeout(format!("renew Lease {}", self.name));
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(self.timing.retry_period);
            }
        }
    }

    /// Gives it back, so that the next one need not wait.
    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    pub async fn release(&mut self) {
        let Some(mut lease) = self.held.take() else { return };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        lease.metadata.managed_fields = None;
        if let Err(error) =
            call(|| "give the Lease back".to_owned(), self.api.replace(&self.name, &self.params(), &lease)).await
        {
            tracing::warn!(error = error.chain(), "the lease was not given back");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    async fn write(&mut self, seen: Option<Lease>, acquire: bool) -> Result<(), Error> {
        let now = Timestamp::now();
        let before = seen.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let renewed = before.renew_time.clone();
        let changes_hands = before.holder_identity.as_deref() != Some(&self.me);
        let spec = LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: Some(i32::try_from(self.timing.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
            acquire_time: if acquire && changes_hands { Some(MicroTime(now)) } else { before.acquire_time.clone() },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(
                before.lease_transitions.unwrap_or(0) + i32::from(acquire && changes_hands && seen.is_some()),
            ),
            ..before
        };
        let stored = match seen {
            None => {
                let mut lease = Lease {
                    metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                    spec: Some(spec),
                };
                lease.annotations_mut().insert(WATCHED.to_owned(), self.watched.clone());
                call(|| format!("create Lease {}", self.name), self.api.create(&self.params(), &lease)).await?
            }
            Some(mut lease) => {
                // resourceVersion stays in: of two who take it at once, one gets a conflict.
                lease.metadata.managed_fields = None;
                lease.annotations_mut().insert(WATCHED.to_owned(), self.watched.clone());
                lease.spec = Some(spec);
                call(|| format!("renew Lease {}", self.name), self.api.replace(&self.name, &self.params(), &lease))
                    .await?
            }
        };
        self.took(stored)?;
        if acquire {
            let renewed =
                renewed.and_then(|time| TimeDelta::try_milliseconds(now.as_millisecond() - time.0.as_millisecond()));
            self.contact.leads(renewed);
        } else {
            self.contact.answered();
        }
        Ok(())
    }

    /// Takes the lease as the API server has it. Only a restored database has an older one of ours.
    fn took(&mut self, lease: Lease) -> Result<(), Error> {
        let now = lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or(self.newest);
        let before = std::mem::replace(&mut self.newest, now);
        self.held = Some(lease);
        if now < before { Err(Error::Restored { before, now }) } else { Ok(()) }
    }

    /// The Lease has the package's name, and so has the field manager.
    fn params(&self) -> PostParams {
        PostParams { field_manager: Some(self.name.clone()), ..PostParams::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Duration = UNSAID;

    fn held_by(holder: &str, seconds: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_when_free_given_back_or_long_unchanged() {
        assert_eq!(decide(None, "me", Duration::ZERO, VALID), Step::Acquire);
        assert_eq!(decide(Some(&held_by("", 1)), "me", Duration::ZERO, VALID), Step::Acquire);
        assert_eq!(decide(Some(&held_by("you", 10)), "me", Duration::from_secs(10), VALID), Step::Acquire);
    }

    #[test]
    fn anothers_lease_is_left_alone_for_as_long_as_that_one_said() {
        assert_eq!(
            decide(Some(&held_by("you", 10)), "me", Duration::from_secs(4), VALID),
            Step::Wait(Duration::from_secs(6))
        );
    }

    #[test]
    fn a_restarted_container_resumes_its_own() {
        assert_eq!(decide(Some(&held_by("me", 10)), "me", Duration::ZERO, VALID), Step::Resume);
    }
}
