//! Objects as a watch of the API server shows them, for those who wait: to ask that itself again and again takes a
//! processor from what is tested.
//!
//! Behind the API server by a moment: what must not have changed is asked of that.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, OnceCell};

/// All objects of a kind, watched from the first request on.
pub struct Watched<K: Resource<DynamicType = ()> + 'static>(OnceCell<Store<DeserializeGuard<K>>>);

impl<K: Resource<DynamicType = ()> + 'static> Default for Watched<K> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<K> Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// The object of this name, if it is there and makes sense.
    pub async fn get(&self, client: &Client, namespace: &str, name: &str) -> Option<K> {
        let store = self.0.get_or_init(|| follow(Api::all(client.clone()))).await;
        store.get(&ObjectRef::new(name).within(namespace))?.0.as_ref().ok().cloned()
    }
}

async fn follow<K>(api: Api<K>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (store, writer) = store();
    let events = reflector(writer, events(api));
    tokio::spawn(async move { events.for_each(|_| ready(())).await });
    store.wait_until_ready().await.expect("a watch that goes on");
    store
}

/// All objects of a kind. Where the database was restored, a list is created again: a watch that continues would wait
/// for the earlier revisions.
pub fn events<K>(api: Api<K>) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    futures::stream::repeat(()).flat_map(move |()| {
        let watch = watcher(api.clone(), watcher::Config::default()).backoff(Soon);
        watch.take_until(Box::pin(RESTORED.notified())).boxed()
    })
}

/// The database of a control plane was restored.
pub(crate) static RESTORED: Notify = Notify::const_new();

/// A watch that broke is begun again after a moment, however often: an API server that was unreachable is back when a
/// test says so.
pub struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}
