//! Environments in use: one poller each, however many OneAgents share it; what they need is gathered for it, and
//! each subscriber is told when the picture changes.
//!
//! Here so that a slow or lying environment costs only itself: a reconcile only ever reads a [`Snapshot`]. Must not
//! decide what a picture means for an agent.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, mpsc, watch};

use super::needs::{Access, Interest, Periods, Shared, Subscriber};
use super::poller::Poller;
use super::snapshot::Snapshot;
use super::{Client, Error, GoneNode, Told};
use crate::clock::Clock;

/// All environments in use.
#[derive(Debug)]
pub struct Environments {
    periods: Periods,
    clock: Clock,
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

impl Environments {
    /// None yet; changes are told through `tell`.
    #[must_use]
    pub fn new(periods: Periods, clock: Clock, tell: mpsc::UnboundedSender<Subscriber>) -> Self {
        Self { periods, clock, tell, running: Mutex::default(), reading: Arc::new(Semaphore::new(1)) }
    }

    /// The picture of an environment; the first to ask makes its poller start. Never waits.
    pub fn snapshot(&self, subscriber: &Subscriber, access: &Access) -> Result<Arc<Snapshot>, Error> {
        let key = access.key();
        let mut running = self.running();
        Self::leave_others(&mut running, subscriber, &key);
        if !running.contains_key(&key) {
            let client = Client::new(&access.base, &access.transport)?;
            let (publish, picture) = watch::channel(Arc::default());
            let shared = Arc::new(Shared::new(self.reading.clone()));
            shared.subscribers().insert(subscriber.clone(), Interest::default());
            let poller = Poller::new(
                client,
                access.clone(),
                self.periods,
                self.clock.clone(),
                shared.clone(),
                publish,
                self.tell.clone(),
            );
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
            let Some(interest) = subscribers.get(subscriber).filter(|interest| !interest.gone.is_empty()) else {
                continue;
            };
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
        self.running.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use axum::Router;
    use axum::extract::State;
    use axum::http::{HeaderMap, Uri};
    use chrono::DateTime;
    use futures::future::pending;
    use secrecy::SecretString;

    use super::*;
    use crate::dynatrace::Transport;

    const PATIENCE: Duration = Duration::from_secs(120);

    /// How often each path was asked for.
    type Calls = Arc<Mutex<HashMap<String, usize>>>;

    /// An environment with hosts in zones a, b and c, on a page each; one whose token is "hangs" gets no host list.
    async fn environment() -> (String, Calls) {
        let answer = |State(calls): State<Calls>, uri: Uri, headers: HeaderMap| async move {
            *calls.lock().entry(uri.path().to_owned()).or_default() += 1;
            let query = uri.query().unwrap_or_default();
            let host = |zone: &str| {
                format!(
                    r#"[{{"ipAddresses":["10.0.0.1"],"networkZoneId":"{zone}","agentVersion":
                    {{"major":1,"minor":2,"revision":3,"timestamp":"20250101-000000"}}}}]"#
                )
            };
            let next = |key: &'static str| [("Next-Page-Key", key)];
            match uri.path() {
                "/api/v1/entity/infrastructure/hosts" if headers["authorization"] == "Api-Token hangs" => {
                    pending().await
                }
                "/api/v1/entity/infrastructure/hosts" if query.ends_with("=b") => (next("c"), host("B")),
                "/api/v1/entity/infrastructure/hosts" if query.ends_with("=c") => (next(""), host("c")),
                "/api/v1/entity/infrastructure/hosts" => (next("b"), host("a")),
                _ => (next(""), r#"{"latestAgentVersion": "1.2.3.20250101-000000"}"#.to_owned()),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/api", listener.local_addr().unwrap());
        let calls = Calls::default();
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer).with_state(calls.clone())).into_future());
        (base, calls)
    }

    struct Bench {
        environments: Environments,
        access: Access,
        told: mpsc::UnboundedReceiver<Subscriber>,
    }

    impl Bench {
        fn new(base: String, api: &str) -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let often = Duration::from_millis(50);
            let (tell, told) = mpsc::unbounded_channel();
            let periods = Periods { latest: often, slow: PATIENCE, hosts: PATIENCE };
            let token = |token: &str| SecretString::from(token.to_owned());
            let transport = Transport { timeout: PATIENCE, ..Transport::default() };
            let access = Access { base, paas: token("paas"), api: token(api), transport };
            Self { environments: Environments::new(periods, Clock::default(), tell), access, told }
        }

        /// The picture that a subscriber is shown, once that is as it should be.
        async fn shows(&mut self, name: &str, is_so: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
            loop {
                let picture = self.environments.snapshot(&subscriber(name), &self.access).unwrap();
                if is_so(&picture) {
                    return picture;
                }
                tokio::time::timeout(PATIENCE, self.told.recv()).await.expect("something new").unwrap();
            }
        }

        fn need(&self, name: &str, interest: Interest) {
            self.environments.need(&subscriber(name), &Interest { zone: Some(name.into()), ..interest });
        }
    }

    fn subscriber(name: &str) -> Subscriber {
        Subscriber { namespace: "n".into(), name: name.into() }
    }

    #[tokio::test]
    async fn of_a_host_list_only_zones_that_are_needed_are_kept_and_only_for_as_long() {
        let (base, _) = environment().await;
        let mut bench = Bench::new(base, "api");
        bench.shows("a", |picture| picture.latest.is_some()).await;
        bench.need("a", Interest { hosts: Some(DateTime::UNIX_EPOCH), ..Interest::default() });
        let picture = bench.shows("a", |picture| picture.hosts.is_some()).await;
        let of = |picture: &Snapshot, zone: &str| picture.hosts.as_ref()?.of(Some(zone)).map(HashMap::len);
        assert_eq!([of(&picture, "A"), of(&picture, "b"), of(&picture, "c")], [Some(1), None, None]);
        // One who comes later waits for a list with its zone, also where it asks for nothing newer.
        bench.shows("b", |picture| picture.latest.is_some()).await;
        bench.need("b", Interest { hosts: Some(DateTime::UNIX_EPOCH), ..Interest::default() });
        let picture = bench.shows("b", |picture| of(picture, "b").is_some()).await;
        assert_eq!([of(&picture, "a"), of(&picture, "b"), of(&picture, "c")], [Some(1), Some(1), None]);
        // Agents are judged by it still.
        bench.need("a", Interest { keeps_hosts: true, ..Interest::default() });
        bench.need("b", Interest::default());
        let picture = bench.shows("a", |picture| of(picture, "b").is_none()).await;
        assert_eq!(of(&picture, "a"), Some(1));
        bench.need("a", Interest::default());
        let picture = bench.shows("a", |picture| picture.hosts.is_none()).await;
        assert_eq!(picture.hosts_at, None);
    }

    #[tokio::test]
    async fn an_environment_that_is_slow_to_say_which_hosts_went_is_asked_for_all_else_meanwhile() {
        let (base, calls) = environment().await;
        let mut bench = Bench::new(base, "hangs");
        bench.shows("a", |picture| picture.latest.is_some()).await;
        let node = GoneNode { name: "n".into(), ip: IpAddr::from([10, 0, 0, 1]), since: DateTime::UNIX_EPOCH };
        bench.need("a", Interest { gone: vec![node], ..Interest::default() });
        let asked = |what: &str| calls.lock().iter().filter(|(path, _)| path.contains(what)).map(|(_, n)| n).sum();
        let wait = async |what: &str, times: usize| {
            let asked_so = async {
                while asked(what) < times {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(PATIENCE, asked_so).await.unwrap_or_else(|_| panic!("{what}: {}", asked(what)));
        };
        wait("/hosts", 1).await;
        let before: usize = asked("/latest");
        wait("/latest", before + 2).await;
        assert_eq!(asked("/hosts"), 1);
    }
}
