//! Named objects: the Secrets and ConfigMaps that a CR refers to, each watched by its name only, so that a rotated
//! token works at once and no other Secret is ever read.
//!
//! Must not interpret their content. Values are [`SecretString`]s and never reach a `Debug`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use parking_lot::{Mutex, MutexGuard};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Error;
use super::sync::refusal;

/// Each watch is a connection: a user who may write objects in a namespace cannot have more of them.
const WATCHES: usize = 300;
/// How long a first look waits for the API server.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Secret or ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamedKind {
    Secret,
    /// ConfigMap.
    ConfigMap,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    pub kind: NamedKind,
    pub namespace: String,
    pub name: String,
}

impl Reference {
    /// The ConfigMap with which everything of a package is stopped.
    #[must_use]
    pub fn stop(namespace: &str, package: &str) -> Self {
        Self { kind: NamedKind::ConfigMap, namespace: namespace.to_owned(), name: package.to_owned() }
    }
}

/// What is in it.
#[derive(Debug, Clone, Default)]
pub struct Data {
    /// Changes with every change of the object.
    pub resource_version: String,
    /// The object's own: only those who may read the object know it.
    pub uid: String,
    /// Its entries; those that are not UTF-8 are left out.
    pub entries: BTreeMap<String, SecretString>,
}

/// What a look found.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// The object.
    Found(Arc<Data>),
    /// There is none.
    Absent,
    /// The API server does not say; the cause.
    Unknown(String),
}

/// Whether an entry of a ConfigMap says that everything must stop: by any value of its key but false, however either is
/// spelled, because its writer is in a hurry.
#[must_use]
pub fn stops(key: &str, value: &str) -> bool {
    key.eq_ignore_ascii_case("stop") && !value.trim().eq_ignore_ascii_case("false")
}

impl Lookup {
    /// Whether this ConfigMap says that everything must stop. One that cannot be read may say so.
    pub fn is_stop(&self, reference: &Reference) -> Result<bool, Error> {
        match self {
            Self::Found(data) => Ok(data.entries.iter().any(|(key, value)| stops(key, value.expose_secret()))),
            Self::Absent => Ok(false),
            Self::Unknown(why) => {
                Err(Error::Unread(format!("ConfigMap {}/{}: {why}", reference.namespace, reference.name)))
            }
        }
    }
}

#[derive(Clone, Deserialize, kube::Resource)]
#[resource(inherit = Secret)]
struct SecretFacts {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

#[derive(Clone, Deserialize, kube::Resource)]
#[resource(inherit = ConfigMap)]
struct ConfigMapFacts {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

// A watch wants `Debug`; these show which object it is and nothing of what it holds.
macro_rules! name_only {
    ($($type:ty),+) => {$(impl std::fmt::Debug for $type {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple(stringify!($type)).field(&self.metadata.name).finish()
        }
    })+};
}
name_only!(SecretFacts, ConfigMapFacts);

trait Entries {
    fn entries(self) -> Data;
}

impl Entries for SecretFacts {
    fn entries(self) -> Data {
        let entries = self
            .data
            .into_iter()
            .filter_map(|(key, bytes)| Some((key, SecretString::from(String::from_utf8(bytes.0).ok()?))))
            .collect();
        Data {
            resource_version: self.metadata.resource_version.unwrap_or_default(),
            uid: self.metadata.uid.unwrap_or_default(),
            entries,
        }
    }
}

impl Entries for ConfigMapFacts {
    fn entries(self) -> Data {
        let entries = self.data.into_iter().map(|(key, text)| (key, SecretString::from(text))).collect();
        Data {
            resource_version: self.metadata.resource_version.unwrap_or_default(),
            uid: self.metadata.uid.unwrap_or_default(),
            entries,
        }
    }
}

#[derive(Debug)]
struct Running {
    look: watch::Receiver<Option<Lookup>>,
    subscribers: HashSet<(String, String)>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All named objects in use.
pub struct Named {
    client: Client,
    tell: mpsc::UnboundedSender<Reference>,
    running: Mutex<HashMap<Reference, Running>>,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named").field("watched", &self.running().len()).finish_non_exhaustive()
    }
}

impl Named {
    /// None yet; changes are told through `tell`.
    #[must_use]
    pub fn new(client: Client, tell: mpsc::UnboundedSender<Reference>) -> Self {
        Self { client, tell, running: Mutex::default() }
    }

    /// The object now. The first look starts the watch and waits for its answer, a few seconds at most.
    pub async fn lookup(&self, subscriber: &(String, String), reference: &Reference) -> Lookup {
        let mut receiver = {
            let mut running = self.running();
            let others = running.keys().filter(|known| known.namespace == reference.namespace).count();
            if others >= WATCHES && !running.contains_key(reference) {
                return Lookup::Unknown(format!(
                    "objects of namespace {} refer to more than {WATCHES} Secrets and ConfigMaps",
                    reference.namespace
                ));
            }
            let entry = running.entry(reference.clone()).or_insert_with(|| self.start(reference));
            entry.subscribers.insert(subscriber.clone());
            entry.look.clone()
        };
        let look = tokio::time::timeout(FIRST_LOOK, receiver.wait_for(Option::is_some)).await;
        match look {
            Ok(Ok(look)) => look.clone().unwrap_or(Lookup::Absent),
            _ => Lookup::Unknown("no answer from the API server yet".to_owned()),
        }
    }

    /// Says which objects a subscriber still refers to; watches without a user end.
    pub fn keep(&self, subscriber: &(String, String), references: &[Reference]) {
        self.running().retain(|reference, running| {
            if !references.contains(reference) {
                running.subscribers.remove(subscriber);
            }
            !running.subscribers.is_empty()
        });
    }

    /// Who refers to an object: namespace and name.
    #[must_use]
    pub fn subscribers(&self, reference: &Reference) -> Vec<(String, String)> {
        self.running().get(reference).map(|running| running.subscribers.iter().cloned().collect()).unwrap_or_default()
    }

    fn start(&self, reference: &Reference) -> Running {
        let (publish, look) = watch::channel(None);
        let began = Instant::now();
        let follower = Follower { reference: reference.clone(), publish, tell: self.tell.clone(), began };
        let client = self.client.clone();
        let task = match reference.kind {
            NamedKind::Secret => tokio::spawn(follower.follow::<SecretFacts>(client)),
            NamedKind::ConfigMap => tokio::spawn(follower.follow::<ConfigMapFacts>(client)),
        };
        Running { look, subscribers: HashSet::new(), task }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Reference, Running>> {
        self.running.lock()
    }
}

struct Follower {
    reference: Reference,
    publish: watch::Sender<Option<Lookup>>,
    tell: mpsc::UnboundedSender<Reference>,
    began: Instant,
}

impl Follower {
    async fn follow<K>(self, client: Client)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug
            + Send
            + Entries
            + 'static,
    {
        let api: Api<K> = Api::namespaced(client, &self.reference.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.reference.name));
        let mut events = watcher(api, config).default_backoff().boxed();
        let mut listed = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed = None,
                Ok(watcher::Event::InitApply(object)) => listed = Some(object),
                Ok(watcher::Event::InitDone) => self.found(listed.take().map(Entries::entries)),
                Ok(watcher::Event::Apply(object)) => self.found(Some(object.entries())),
                Ok(watcher::Event::Delete(_)) => self.found(None),
                Err(error) => self.lost(refusal(&error).unwrap_or_else(|| error.to_string())),
            }
        }
    }

    /// What was read before stays true until the API server says otherwise.
    fn lost(&self, why: String) {
        if !matches!(&*self.publish.borrow(), Some(Lookup::Found(_) | Lookup::Absent)) {
            self.say(Lookup::Unknown(why));
        }
    }

    fn found(&self, data: Option<Data>) {
        let same = match (&*self.publish.borrow(), &data) {
            (Some(Lookup::Found(known)), Some(new)) => known.resource_version == new.resource_version,
            (Some(Lookup::Absent), None) => true,
            _ => false,
        };
        if !same {
            self.say(data.map_or(Lookup::Absent, |data| Lookup::Found(Arc::new(data))));
        }
    }

    fn say(&self, look: Lookup) {
        let is_first = self.publish.borrow().is_none();
        self.publish.send_replace(Some(look));
        // A caller that waits for the first answer gets it so; none waits longer than that.
        if !is_first || self.began.elapsed() >= FIRST_LOOK {
            let _ = self.tell.send(self.reference.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Answer, client};
    use super::*;
    use serde_json::{Value, json};

    const WHO: (&str, &str) = ("n", "agent");

    fn who() -> (String, String) {
        (WHO.0.to_owned(), WHO.1.to_owned())
    }

    fn secret(name: &str) -> Reference {
        Reference { kind: NamedKind::Secret, namespace: "n".into(), name: name.into() }
    }

    fn list(items: &Value) -> Answer {
        Answer::Object(
            json!({ "kind": "SecretList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items }),
        )
    }

    /// A list that is answered, and a watch that says nothing.
    fn named(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (Named, mpsc::UnboundedReceiver<Reference>) {
        let (client, _) =
            client(move |asked| if asked.path.contains("watch=true") { Answer::Nothing } else { answer() });
        let (tell, told) = mpsc::unbounded_channel();
        (Named::new(client, tell), told)
    }

    #[tokio::test]
    async fn a_first_look_waits_for_the_answer_and_triggers_no_reconcile() {
        let item = json!([{ "metadata": { "name": "tokens", "uid": "u", "resourceVersion": "5" },
            "data": { "apiToken": "dmFsdWU=", "raw": "/w==" } }]);
        let (named, mut told) = named(move || list(&item));
        let Lookup::Found(data) = named.lookup(&who(), &secret("tokens")).await else { panic!("not found") };
        assert_eq!((data.uid.as_str(), data.resource_version.as_str()), ("u", "5"));
        assert_eq!(data.entries["apiToken"].expose_secret(), "value");
        assert!(!data.entries.contains_key("raw"), "what is no text is no token");
        assert!(!format!("{data:?}").contains("value"), "{data:?}");
        assert!(told.try_recv().is_err(), "who looked has the answer");
    }

    #[tokio::test]
    async fn what_is_not_there_is_absent_and_what_may_not_be_read_is_unknown() {
        let (absent, _told) = named(|| list(&json!([])));
        assert!(matches!(absent.lookup(&who(), &secret("tokens")).await, Lookup::Absent));
        let (forbidden, _told) = named(|| Answer::Refusal(403, "Forbidden"));
        let look = forbidden.lookup(&who(), &secret("tokens")).await;
        assert!(matches!(&look, Lookup::Unknown(why) if why.contains("Forbidden")), "{look:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_unknown_and_no_answer_later_leaves_what_was_read() {
        let (silent, _told) = named(|| Answer::Nothing);
        assert!(matches!(silent.lookup(&who(), &secret("tokens")).await, Lookup::Unknown(_)));

        let (publish, mut look) = watch::channel(None);
        let (tell, mut told) = mpsc::unbounded_channel();
        let follower = Follower { reference: secret("tokens"), publish, tell, began: Instant::now() };
        let data = |version: &str| Data { resource_version: version.to_owned(), ..Data::default() };
        follower.found(Some(data("1")));
        follower.lost("away".to_owned());
        assert!(matches!(&*look.borrow_and_update(), Some(Lookup::Found(_))), "an outage is no verdict");
        follower.found(Some(data("1")));
        assert!(told.try_recv().is_err(), "nothing changed");
        follower.found(Some(data("2")));
        assert_eq!(told.try_recv().unwrap(), secret("tokens"));
        follower.found(None);
        assert_eq!(told.try_recv().unwrap(), secret("tokens"));
    }

    #[tokio::test]
    async fn a_watch_ends_with_its_last_subscriber_and_a_namespace_has_only_so_many() {
        let (named, _told) = named(|| list(&json!([])));
        let other = ("n".to_owned(), "other".to_owned());
        named.lookup(&who(), &secret("tokens")).await;
        named.lookup(&other, &secret("tokens")).await;
        named.keep(&who(), &[]);
        assert_eq!(named.subscribers(&secret("tokens")).as_slice(), std::slice::from_ref(&other));
        named.keep(&other, &[]);
        assert!(named.running().is_empty());
        for number in 0..WATCHES {
            named.lookup(&who(), &secret(&number.to_string())).await;
        }
        let look = named.lookup(&who(), &secret("one-too-many")).await;
        assert!(
            matches!(&look, Lookup::Unknown(why) if why.contains("namespace n refer to more than 300 Secrets")),
            "{look:?}"
        );
        assert!(matches!(named.lookup(&who(), &secret("1")).await, Lookup::Absent), "those that there are go on");
    }
}
