//! Act: carries a plan out. Objects first, then the Pods, in the plan's order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::marker::PhantomData;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::api::Api;
use serde_json::json;

use super::Context;
use super::build::daemonset::owner;
use super::build::{ISTIO, istio};
use super::known::{self, News};
use super::observe::Observed;
use super::plan::{Applied, Objects, Planned};
use super::resolve::Resolved;
use crate::api::oneagent::OneAgent;
use crate::kernel::apply::{apply, merge};
use crate::kernel::delete::{Outcome, Target};
use crate::kernel::family::Owner;
use crate::kernel::notes::Place;
use crate::kernel::{self};
use crate::rollout::Step;

/// Deletions under way at once. While they are, nothing else is decided for this OneAgent: too few of them leave the
/// budget of a large fleet unused (with 8 a rollout of 1,000 nodes took a tenth longer).
const AT_ONCE: usize = 32;

/// What could not be applied.
#[derive(Debug)]
pub enum Failure {
    /// The pull secret, without which no Pod starts; its name.
    PullSecret(String, kernel::Error),
    /// Anything else.
    Other(kernel::Error),
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        Self::Other(error)
    }
}

/// Applies every planned object. Taken apart without `..`: an object that nobody applies does not compile.
pub async fn objects(context: &Context, resolved: &Resolved, seen: &Observed, planned: Objects<Planned>) -> Result<Objects<Applied>, Failure> {
    let Objects { pull_secret, daemonset, istio, state: PhantomData } = planned;
    // First: Pods pull with it.
    if let Some(secret) = &pull_secret {
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &resolved.namespace);
        let written = if secret.is_there {
            merge(&api, &secret.name, &secret.change()).await
        } else {
            apply(&api, &secret.object(&resolved.namespace), None).await.map(drop)
        };
        written.map_err(|error| Failure::PullSecret(secret.name.clone(), error))?;
        context.metrics.applied();
        tracing::info!(namespace = resolved.namespace, name = resolved.name, secret = secret.name, "pull secret applied");
    }
    if let Some(desired) = &daemonset {
        let api: Api<DaemonSet> = Api::namespaced(context.client.clone(), &resolved.namespace);
        let live = match &seen.daemonset {
            Some(live) => Some((live, typed(live)?)),
            None => None,
        };
        let stored = apply(&api, desired, live.as_ref().map(|(object, value)| (&***object, value))).await?;
        if let Some(stored) = stored {
            context.metrics.applied();
            tracing::info!(namespace = resolved.namespace, name = resolved.name, "DaemonSet applied");
            context.fleet.wrote(&(resolved.namespace.clone(), resolved.name.clone()), stored);
        }
    }
    if let Some(istio) = &istio {
        let owner = Owner { uid: &resolved.uid, namespace: &resolved.namespace, selector: &istio::selector(&resolved.name) };
        let writes = context.families.converge(&context.client, &ISTIO, owner, istio).await;
        if writes > 0 {
            tracing::info!(namespace = resolved.namespace, name = resolved.name, writes, "Istio's objects changed");
        }
    }
    Ok(Objects { pull_secret, daemonset, istio, state: PhantomData })
}

/// An object read through its type does not say its own kind.
fn typed(live: &DaemonSet) -> Result<serde_json::Value, kernel::Error> {
    Ok(serde_json::to_value(live)?)
}

/// Replaces Pods: deletes them, for the DaemonSet controller makes new ones. Returns whether one had changed meanwhile.
pub async fn recycle(context: &Context, resolved: &Resolved, steps: &[Step], budget: usize) -> Result<bool, kernel::Error> {
    let deletions: Vec<_> = steps.iter().map(|step| replace(context, resolved, step, budget)).collect();
    let outcomes: Vec<Result<Outcome, kernel::Error>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
    let mut changed = false;
    for outcome in outcomes {
        match outcome? {
            Outcome::Deleted => {}
            Outcome::Changed => changed = true,
            Outcome::OverBudget => tracing::error!(name = resolved.name, "the plan would have exceeded the budget; a defect"),
        }
    }
    Ok(changed)
}

async fn replace(context: &Context, resolved: &Resolved, step: &Step, budget: usize) -> Result<Outcome, kernel::Error> {
    let pod = &step.pod;
    let target = Target {
        namespace: &resolved.namespace,
        name: &pod.name,
        uid: &pod.uid,
        resource_version: &pod.resource_version,
        node: &pod.node,
        costs: step.costs,
    };
    let outcome = context.deletions.delete(&context.client, &resolved.uid, budget, target).await?;
    tracing::info!(namespace = resolved.namespace, name = resolved.name, pod = &*pod.name, node = &*pod.node, ?outcome, "Pod replaced");
    if outcome == Outcome::Deleted {
        context.metrics.replaced();
    }
    Ok(outcome)
}

/// Takes note of the nodes that are known, and says what the environment was told of those that are gone.
pub async fn note(context: &Context, object: &OneAgent, resolved: &Resolved, news: News) {
    let News { known, outcomes } = news;
    // Who is told is noted at once: a successor must not tell again.
    context.notes.set(&resolved.uid, known, !outcomes.is_empty());
    for (warning, message) in known::sentences(&outcomes) {
        tracing::info!(namespace = resolved.namespace, name = resolved.name, message, "nodes are gone");
        context.events.publish(&object.object_ref(&()), warning, "NodesGone", "NodesGone", &message).await;
    }
}

/// Writes that note, when it is time. Returns when to come again.
pub async fn write_note(context: &Context, resolved: &Resolved) -> Option<Duration> {
    let wait = context.notes.due(&resolved.uid)?;
    if !wait.is_zero() {
        return Some(wait);
    }
    let name = known::note(&resolved.name);
    let metadata = json!({ "ownerReferences": [owner(resolved)], "labels": { "dynatrace": "oneagent" } });
    context.notes.write(&context.client, &Place { uid: &resolved.uid, namespace: &resolved.namespace, name: &name, metadata }).await
}

/// What a status write needs to know of the last one.
#[derive(Debug, Clone)]
pub struct Written {
    /// The status.
    pub status: crate::api::oneagent::OneAgentStatus,
    /// When.
    pub at: std::time::Instant,
}
