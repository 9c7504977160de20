//! What a kind is: its package, its objects, and the five steps of a reconcile.
//!
//! Here so that a kind brings nothing but its own domain; `operator` has the order of the steps and all that they
//! share. Must not know a kind.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;

use super::feed::Feed;
use super::state::ObjectState;
use super::{ApiContact, Error, Events, InFlight, Key, Named, Reference, Upgradeable};
use crate::api::condition::{Transition, Type};
use crate::api::object::ObjectStatus;
use crate::api::package::Package;
use crate::clock::Clock;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Decision};
use crate::telemetry::Metrics;

/// The status of a kind's objects.
pub type Status<K> = <<K as Kind>::Object as HasStatus>::Status;
/// Why one of its conditions is as it is.
pub type Reason<K> = <<Status<K> as ObjectStatus>::Condition as Type>::Reason;
/// What is kept of one of its objects.
pub type State<K> = ObjectState<Status<K>, <K as Kind>::State>;
/// What a human must fix: a reason, and a sentence with the remedy.
pub type Problem<K> = (Reason<K>, String);

/// A kind that is reconciled.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Its package, which names all that is written.
    const PACKAGE: &'static Package;
    /// What its objects count: the name of that metric, and its help.
    const COUNTS: (&'static str, &'static str);

    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + HasStatus<Status: ObjectStatus>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static;
    /// What a spec means, defaults included.
    type Spec: Send + Sync;
    /// What was found, with the spec as it applies beside that.
    type Seen: Send + Sync;
    /// What must outlive the process.
    type Memory: PartialEq + Send + Sync;
    type Plan: Planned<Memory = Self::Memory> + Send + Sync;
    /// What came of a plan, for the status to say.
    type Done: Default + Send + Sync;
    /// What is kept of an object between two reconciles.
    type State: Default + Send + Sync + 'static;

    /// What a spec means; or each field that is invalid, with the remedy. Pure.
    fn resolve(object: &Self::Object) -> Result<Self::Spec, String>;

    /// What a status remembers. Pure.
    fn remember(status: &Status<Self>, spec: &Self::Spec) -> Self::Memory;

    /// What is there. Writes nothing.
    fn observe(
        cx: &Cx<'_, Self>,
        spec: Self::Spec,
        memory: &Self::Memory,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Observation<Self::Seen>, Error>> + Send;

    /// What is to be done. Writes nothing.
    fn plan(
        cx: &Cx<'_, Self>,
        memory: &Self::Memory,
        seen: &Self::Seen,
        now: DateTime<Utc>,
    ) -> Result<Self::Plan, Error>;

    /// Writes what must be there before a Pod is deleted, such as the objects that Pods are made from. Default:
    /// nothing.
    fn prepare(
        _cx: &Cx<'_, Self>,
        _seen: &Self::Seen,
        _plan: &mut Self::Plan,
    ) -> impl Future<Output = Result<Prepared<Self>, Error>> + Send {
        async { Ok(Prepared::Done(Self::Done::default())) }
    }

    /// Carries the plan out. What must outlive the process is written.
    fn act(
        cx: &Cx<'_, Self>,
        seen: &Self::Seen,
        plan: &mut Self::Plan,
        done: &mut Self::Done,
    ) -> impl Future<Output = Acted> + Send;

    /// What may fail, or hang, without keeping anything else waiting: it comes last. Returns when to come again.
    fn finish(_cx: &Cx<'_, Self>, _seen: &Self::Seen) -> impl Future<Output = Option<Duration>> + Send {
        async { None }
    }

    /// The status, and what changed in it. Pure.
    fn status(input: &StatusInput<'_, Self>, now: DateTime<Utc>) -> Result<(Status<Self>, Vec<Transition>), Error>;

    /// Under which name what is in flight is counted: the UID of the object, or what several objects share.
    fn group<'s>(cx: &'s Cx<'_, Self>, _seen: &'s Self::Seen) -> &'s str {
        &cx.state.uid
    }

    /// An object with this status whose spec cannot be read.
    fn unread(metadata: ObjectMeta, status: Option<Status<Self>>) -> Self::Object;

    /// What is done beside the reconciles, for no object that there is. It never ends.
    fn beside(&self, _shared: &Shared) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Starts the watches that feed its caches.
    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>);

    /// An object as the watch shows it, before any is reconciled. Returns whether it affects all others.
    fn seen(&self, _object: &DeserializeGuard<Self::Object>) -> bool {
        false
    }

    /// The objects of a namespace are known now, or cannot be read.
    fn listed(&self, _namespace: &str, _is_readable: bool) {}

    /// An object is gone, its state too: what else the kind holds for it is dropped now. `is_replaced`: another has its
    /// name.
    fn gone(&self, _key: &Key, _uid: &str, _is_replaced: bool) {}
}

/// What was observed.
#[derive(Debug)]
pub enum Observation<S> {
    Seen(S),
    /// Nothing can be said yet: reconcile again after this.
    Later(Duration),
}

/// A plan, as far as the order of a reconcile needs it.
pub trait Planned {
    type Memory;
    /// What is remembered once it is carried out.
    fn memory(&self) -> &Self::Memory;
    /// What is in flight, without what the watches have shown.
    fn ledger(&self) -> Ledger;
    /// Whether a Pod is to be removed.
    fn has_steps(&self) -> bool;
}

/// Of a kind that remembers only what the engine does.
impl<R> Planned for Decision<R> {
    type Memory = rollout::Memory<R>;

    fn memory(&self) -> &Self::Memory {
        &self.plan.memory
    }

    fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    fn has_steps(&self) -> bool {
        !self.plan.steps.is_empty()
    }
}

/// What came of the preparation.
pub enum Prepared<K: Kind> {
    Done(K::Done),
    /// What the plan rests on has changed: reconcile again.
    Again(Duration),
    /// The API server refuses it, which is said; `then`: when to try again, or the error for the back-off.
    Refused {
        problem: Option<Problem<K>>,
        then: Result<Duration, Error>,
    },
}

/// What came of the actions.
#[derive(Debug, Default)]
pub struct Acted {
    /// What went wrong. What was done before is said all the same.
    pub error: Option<Error>,
    /// When to reconcile again, if nothing happens before.
    pub next: Option<Duration>,
    /// Until when Pods count as removed and not yet replaced.
    pub busy_until: Option<DateTime<Utc>>,
}

/// All that a status is made from.
pub struct StatusInput<'i, K: Kind> {
    pub object: &'i K::Object,
    /// The last status.
    pub before: &'i Status<K>,
    pub seen: &'i K::Seen,
    pub plan: &'i K::Plan,
    pub done: &'i K::Done,
    /// What keeps failing.
    pub complaint: Option<&'i Problem<K>>,
}

/// What all reconciles of a process share.
pub struct Shared {
    pub client: Client,
    pub clock: Clock,
    /// The package's name: field manager, Event source, and name of Lease and stop ConfigMap.
    pub manager: &'static str,
    /// The operator's own namespace.
    pub namespace: String,
    /// Secrets and ConfigMaps that objects refer to.
    pub named: Named,
    /// What is in flight.
    pub in_flight: InFlight,
    /// What OLM knows of rollouts.
    pub upgradeable: Upgradeable,
    pub events: Events,
    pub metrics: Metrics,
    /// Since when this process leads, and is answered.
    pub contact: Arc<ApiContact>,
}

/// What a process knows of itself.
pub struct Process {
    pub client: Client,
    pub clock: Clock,
    /// The operator's own namespace.
    pub namespace: String,
    /// The name of its Pod.
    pub pod: String,
    pub contact: Arc<ApiContact>,
}

impl Shared {
    /// Of a process of kind `K`; `tell_named` gets every object referred to that changes.
    #[must_use]
    pub fn new<K: Kind>(process: Process, tell_named: UnboundedSender<Reference>) -> Self {
        let Process { client, clock, namespace, pod, contact } = process;
        let manager = K::PACKAGE.name;
        Self {
            named: Named::new(client.clone(), tell_named),
            in_flight: InFlight::default(),
            upgradeable: Upgradeable::default(),
            events: Events::new(client.clone(), manager, &pod),
            metrics: Metrics::new(&K::Object::kind(&()), K::COUNTS),
            client,
            clock,
            manager,
            namespace,
            contact,
        }
    }

    /// Whether everything is stopped.
    pub async fn is_stopped(&self, key: &Key) -> Result<bool, Error> {
        let stop = self.stop();
        self.named.lookup(key, &stop).await.is_stop(&stop)
    }

    /// The ConfigMap with which everything is stopped.
    #[must_use]
    pub fn stop(&self) -> Reference {
        Reference::stop(&self.namespace, self.manager)
    }
}

/// One reconcile: of which object, and what it may use.
pub struct Cx<'r, K: Kind> {
    pub kind: &'r K,
    pub shared: &'r Shared,
    pub object: &'r K::Object,
    pub key: &'r Key,
    pub state: &'r State<K>,
}

impl<K: Kind> Cx<'_, K> {
    /// The last status that we know of: our own last write, otherwise what is stored.
    #[must_use]
    pub fn last_status(&self) -> Arc<Status<K>> {
        self.state.status.last(self.object)
    }
}

impl<K: Kind> Deref for Cx<'_, K> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}
