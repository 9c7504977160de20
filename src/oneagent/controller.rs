//! What the runtime asks of kind OneAgent, and the watches that feed its fleet.
//!
//! Wiring only: which watch tells whom. Must not read a spec or write anything.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, ObjectMeta};
use kube::core::DeserializeGuard;

use super::{Context, Desk, Kept, reconcile, refuse};
use crate::api::oneagent::condition::Reason;
use crate::api::oneagent::package::PACKAGE;
use crate::api::oneagent::{OneAgent, OneAgentSpec};
use crate::api::package::Package;
use crate::dynatrace::Subscriber;
use crate::fleet::daemonsets::NodeChange;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::watch::Affects;
use crate::kernel::runtime::Kind;
use crate::kernel::sync::{Scope, Watch, Watches, api};
use crate::kernel::triggers::Triggers;
use crate::kernel::{self, Events, Key};

/// Label of every agent's Pod and DaemonSet.
pub const LABEL: &str = "dynatrace=oneagent";
/// Labels of the DaemonSets that the vendor's present operator makes of a DynaKube, for agents on hosts.
pub const VENDORS: &str = "app.kubernetes.io/name=oneagent,app.kubernetes.io/managed-by=dynatrace-operator";

impl Kind for Context {
    const PACKAGE: &'static Package = &PACKAGE;
    type Object = OneAgent;
    type Desk = Kept;

    async fn reconcile(&self, object: &OneAgent, desk: &Desk) -> Result<Duration, kernel::Error> {
        Box::pin(reconcile(object, self, desk)).await
    }

    async fn undecodable(&self, metadata: &ObjectMeta, error: &str, desk: &Desk) -> Result<Duration, kernel::Error> {
        let status = kernel::status::stored::<OneAgent>(&self.client, metadata).await?;
        let stand_in = OneAgent { metadata: metadata.clone(), spec: OneAgentSpec::default(), status };
        let message = format!("the object cannot be read: {error}; compare it with kubectl explain oneagent.spec");
        refuse(self, &stand_in, desk, Reason::InvalidSpec, &message).await
    }

    async fn unreadable(&self, object: &OneAgent, why: &str, desk: &Desk) -> Result<Duration, kernel::Error> {
        let message = format!("{why}; grant the operator list and watch of that; agents run on, and none is replaced");
        refuse(self, object, desk, Reason::RightsMissing, &message).await
    }

    fn seen(&self, object: &DeserializeGuard<OneAgent>) -> bool {
        self.peers.note(object)
    }

    fn operator(object: &OneAgent) -> Option<&str> {
        object.status.as_ref()?.operator_namespace.as_deref()
    }

    fn events(&self) -> Option<&Events> {
        Some(&self.events)
    }

    fn is_foreign(&self, object: &OneAgent, desk: &Desk) -> bool {
        desk.own.status.is_foreign(object)
    }

    fn listed(&self, namespace: &str, is_readable: bool) {
        self.peers.listed(namespace, is_readable);
    }

    fn gone(&self, key: &Key, uid: &str, is_replaced: bool) {
        self.deletions.forget(uid);
        self.optional_apis.forget(uid);
        self.notes.forget(uid);
        if is_replaced {
            return;
        }
        self.peers.gone(key);
        self.fleet.forget(key);
        self.named.keep(key, &[]);
        self.environments.forget(&Subscriber { namespace: key.0.clone(), name: key.1.clone() });
        self.upgradeable.tell(&format!("OneAgent {}/{}", key.0, key.1), None);
        self.metrics.forget(key);
    }

    fn looked(&self, is_good: bool, took: Duration) {
        self.metrics.all.reconciled(is_good, took);
    }
}

/// Starts the watches that feed the fleet.
pub fn watch_fleet(context: &Arc<Context>, scope: &Scope, triggers: &Triggers) -> Watches {
    let mut watches = Watches::default();
    let client = &context.client;
    let (shared, told) = (context.clone(), triggers.clone());
    let nodes = Watch { kind: "nodes", ..Watch::default() };
    watches.follow(nodes, Api::<NodeFacts>::all(client.clone()), move |change| {
        told.affected(match shared.fleet.node(&change) {
            NodeChange::Nothing => Affects::Nobody,
            // Before all OneAgents are known none is reconciled.
            NodeChange::One(nodes) => Affects::Each(shared.peers.near(&nodes)),
            NodeChange::Gone => Affects::All,
        });
    });
    for namespace in scope.namespaces() {
        let of = |kind, labels| Watch { kind, namespace: Some(&namespace), labels, ..Watch::default() };
        let (shared, told) = (context.clone(), triggers.clone());
        watches.follow(of("pods", LABEL), api::<PodFacts>(client, &namespace), move |change| {
            told.affected(shared.fleet.pod(&change));
        });
        let (shared, told) = (context.clone(), triggers.clone());
        watches.follow(of("daemonsets", LABEL), api::<DaemonSet>(client, &namespace), move |change| {
            told.affected(shared.fleet.daemonset_change(change));
        });
        let (shared, told) = (context.clone(), triggers.clone());
        let theirs = of("daemonsets of Dynatrace Operator", VENDORS);
        watches.follow(theirs, api::<DaemonSet>(client, &namespace), move |change| {
            told.affected(shared.fleet.vendors_change(change));
        });
    }
    watches
}
