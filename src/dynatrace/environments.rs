//! Environments in use: one poller each, however many OneAgents share it; what they need is gathered for it, and
//! whoever subscribed is told when the picture changes.
//!
//! Here so that a slow or lying environment costs nobody but itself: a reconcile only ever reads a [`Snapshot`].
//! Must not decide what a picture means for an agent.

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
    pub fn look(&self, subscriber: &Subscriber, access: &Access) -> Result<Arc<Snapshot>, Error> {
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
