//! Act: carries a plan out. Objects first, then the Pods, in the plan's order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::build::{ISTIO, istio};
use super::done::Done;
use super::edited;
use super::from_cluster::bundle_name;
use super::known::{self, News};
use super::observe::{Missing, Observed};
use super::plan::Objects;
use super::resolve::Resolved;
use super::revision::Revision;
use super::{Context, Desk, MANAGER};
use crate::api::oneagent::OneAgent;
use crate::k8s::api_group::Wanted;
use crate::k8s::drift::{APPLIED_ANNOTATION, is_current};
use crate::kernel::apply::{apply, apply_over, merge};
use crate::kernel::delete::{Blocked, How, Outcome, Target};
use crate::kernel::notes::Place;
use crate::kernel::optional_api::Owner;
use crate::kernel::{self, Reference};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

/// Deletions under way at once. While they are, nothing else is decided for this OneAgent: too few of them leave the
/// budget of a large fleet unused (with 8 a rollout of 1,000 nodes took a tenth longer).
const AT_ONCE: usize = 32;

/// What could not be applied.
#[derive(Debug)]
pub enum Failure {
    /// The pull secret, without which no Pod starts; its name.
    PullSecret(String, kernel::Error),
    /// The ConfigMap for the cluster's certificates; its name.
    Bundle(String, kernel::Error),
    /// Anything else.
    Other(kernel::Error),
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        Self::Other(error)
    }
}

/// Applies every planned object. Taken apart without `..`: an object that nobody applies does not compile.
pub async fn objects(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    seen: &Observed,
    planned: Objects,
) -> Result<Done, Failure> {
    let Objects { pull_secret, daemonset, istio, bundle } = planned;
    if let Some(bundle) = &bundle {
        let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &resolved.namespace);
        let written = apply(MANAGER, &api, bundle, None).await;
        written.map_err(|error| Failure::Bundle(bundle_name(&resolved.name), error))?;
        context.metrics.applied();
        tracing::info!(
            namespace = resolved.namespace,
            name = resolved.name,
            "the cluster's certificates are asked for"
        );
    }
    // First: Pods pull with it.
    if let Some(secret) = &pull_secret {
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &resolved.namespace);
        let written = if secret.is_there {
            merge(MANAGER, &api, &secret.name, &secret.change()).await
        } else {
            apply(MANAGER, &api, &secret.object(&resolved.namespace), None).await.map(drop)
        };
        written.map_err(|error| Failure::PullSecret(secret.name.clone(), error))?;
        context.metrics.applied();
        tracing::info!(
            namespace = resolved.namespace,
            name = resolved.name,
            secret = secret.name,
            "pull secret applied"
        );
    }
    let stored = match &daemonset {
        Some(desired) => apply_daemonset(context, desk, resolved, seen, desired).await?,
        None => None,
    };
    let istio = match &istio {
        Some(istio) => converge(context, resolved, istio).await,
        None => None,
    };
    let replaced = |stored: &Arc<DaemonSet>| {
        seen.daemonset.as_ref().is_some_and(|live| edited::generation(live) != edited::generation(stored))
    };
    Ok(Done { istio, template_replaced: stored.as_ref().is_some_and(replaced), ..Done::default() })
}

/// Makes Istio's objects what they should be. Nothing waits for them; returns why they are not, if somebody asks for
/// them.
async fn converge(context: &Context, resolved: &Resolved, wanted: &Wanted) -> Option<String> {
    let owner =
        Owner { uid: &resolved.uid, namespace: &resolved.namespace, selector: &istio::selector(&resolved.name) };
    match context.optional_apis.converge(&context.client, &ISTIO, owner, wanted).await {
        Ok(0) => None,
        Ok(writes) => {
            tracing::info!(namespace = resolved.namespace, name = resolved.name, writes, "Istio's objects changed");
            None
        }
        Err(trouble) => Some(trouble).filter(|_| resolved.istio),
    }
}

/// Applies the DaemonSet. Returns it as stored, `None` when nothing was written.
async fn apply_daemonset(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    seen: &Observed,
    desired: &Value,
) -> Result<Option<Arc<DaemonSet>>, kernel::Error> {
    let api: Api<DaemonSet> = Api::namespaced(context.client.clone(), &resolved.namespace);
    let live = match &seen.daemonset {
        Some(live) => Some((live, typed(live)?)),
        None => None,
    };
    // What a webhook makes of it is believed after one try, not fought for ever.
    let mark = |object: &DaemonSet| {
        (desired["metadata"]["annotations"][APPLIED_ANNOTATION].to_string(), object.metadata.generation)
    };
    if live.as_ref().is_some_and(|(object, _)| *desk.believed() == Some(mark(object))) {
        return Ok(None);
    }
    let written = apply(MANAGER, &api, desired, live.as_ref().map(|(object, value)| (&***object, value))).await?;
    let Some(mut stored) = written else { return Ok(None) };
    let differs = |stored: &DaemonSet| {
        Ok::<_, kernel::Error>(!is_current(MANAGER, desired, &typed(stored)?, stored.managed_fields()))
    };
    if differs(&stored)? {
        // A webhook, or an edit that came in between: over exactly this object only the former can differ.
        stored = apply_over(MANAGER, &api, desired, &stored).await?;
    }
    if !differs(&stored)? {
        *desk.believed() = None;
    } else if desk.believed().replace(mark(&stored)).is_none() {
        tracing::warn!(
            namespace = resolved.namespace,
            name = resolved.name,
            "a webhook changes the DaemonSet that is applied; that is left as it is"
        );
    }
    context.metrics.applied();
    tracing::info!(namespace = resolved.namespace, name = resolved.name, "DaemonSet applied");
    let stored = Arc::new(stored);
    context.fleet.wrote(&(resolved.namespace.clone(), resolved.name.clone()), stored.clone());
    Ok(Some(stored))
}

/// Whether the DaemonSet that is there will be written.
pub fn writes_over(seen: &Observed, planned: &Objects) -> Result<bool, kernel::Error> {
    let (Some(wanted), Some(live)) = (&planned.daemonset, &seen.daemonset) else { return Ok(false) };
    Ok(!is_current(MANAGER, wanted, &typed(live)?, live.managed_fields()))
}

/// Has the DaemonSet controller look again: after refusals it waits for up to a quarter of an hour, and it hears of no
/// Namespace. Any write to the DaemonSet will do; this one is an annotation that means nothing else.
///
/// Says when to see to it again.
pub async fn nudge(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    missing: &Missing,
) -> Result<Duration, kernel::Error> {
    let now = context.clock.now();
    let (left, is_due) = desk.nudge(missing, now);
    if !is_due {
        return Ok(left);
    }
    let api: Api<DaemonSet> = Api::namespaced(context.client.clone(), &resolved.namespace);
    let at = now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    merge(MANAGER, &api, &resolved.name, &json!({ "metadata": { "annotations": { NUDGED: at } } })).await?;
    tracing::info!(
        namespace = resolved.namespace,
        name = resolved.name,
        "Pods are missing: the DaemonSet controller is asked to look again"
    );
    Ok(left)
}

/// Annotation of the DaemonSet: when its controller was asked to look again.
const NUDGED: &str = "oneagent.dynatrace.com/nudged";

/// An object read through its type does not say its own kind.
fn typed(live: &DaemonSet) -> Result<serde_json::Value, kernel::Error> {
    Ok(serde_json::to_value(live)?)
}

/// What is refused is tried again after so long: no watch shows a policy that changes.
const AGAIN: Duration = Duration::from_secs(10);

/// What came of the deletions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recycled {
    /// A Pod had changed meanwhile.
    pub changed: bool,
    /// The API server refused one: the next one has its turn.
    pub refused: bool,
}

/// Replaces Pods: deletes them, because the DaemonSet controller makes new ones.
pub async fn recycle(
    context: &Context,
    desk: &Desk,
    (object, resolved): (&OneAgent, &Resolved),
    guard: &Guard,
    steps: &[Step<Revision>],
) -> Result<Recycled, kernel::Error> {
    let deletions: Vec<_> = steps.iter().map(|step| replace(context, desk, (object, resolved), step, guard)).collect();
    let outcomes: Vec<Result<Outcome, kernel::Error>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
    let mut recycled = Recycled::default();
    // One that fails keeps what is known of the others.
    let mut failed = None;
    for (outcome, step) in outcomes.into_iter().zip(steps) {
        match outcome {
            Ok(Outcome::Deleted) => {}
            Ok(Outcome::Changed) => recycled.changed = true,
            Ok(Outcome::Blocked(blocked)) => {
                recycled.refused = true;
                let why = format!("the API server refuses to delete Pod {}: {}", step.pod.name, blocked.why);
                desk.own.aside.put(&step.pod.uid, why, AGAIN, true);
            }
            Ok(Outcome::OverBudget) => {
                tracing::error!(name = resolved.name, "the plan would have exceeded the budget; a defect");
            }
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(recycled), Err)
}

/// Whether the look has time, and nobody has stopped everything, edited the OneAgent or deleted it since the look
/// began: the operator sends the last of many deletions long after the first.
async fn may_go_on(context: &Context, desk: &Desk, object: &OneAgent, resolved: &Resolved) -> bool {
    let key = (resolved.namespace.clone(), resolved.name.clone());
    let stop = Reference::stop(&context.settings.namespace, MANAGER);
    desk.has_time()
        && context.peers.is_still(&key, object)
        && !context.named.look(&key, &stop).await.is_stop(&stop).unwrap_or(true)
}

async fn replace(
    context: &Context,
    desk: &Desk,
    (object, resolved): (&OneAgent, &Resolved),
    step: &Step<Revision>,
    guard: &Guard,
) -> Result<Outcome, kernel::Error> {
    if !may_go_on(context, desk, object, resolved).await {
        return Ok(Outcome::Changed);
    }
    let pod = &step.pod;
    let target = Target {
        namespace: &resolved.namespace,
        name: &pod.name,
        uid: &pod.uid,
        resource_version: &pod.resource_version,
        place: &step.place,
        how: How::Delete,
    };
    let outcome = context.deletions.delete(&context.client, &resolved.uid, guard, target, context.clock.now()).await?;
    let (namespace, name, node, pod) = (&resolved.namespace, &resolved.name, &*pod.node, &*pod.name);
    match &outcome {
        Outcome::Deleted => {
            tracing::info!(namespace, name, pod, node, "Pod deleted: its node gets the desired agent");
            context.metrics.all.replaced();
        }
        Outcome::Blocked(Blocked { why, .. }) => {
            tracing::warn!(namespace, name, pod, node, why, "the API server refuses to delete the Pod");
        }
        Outcome::Changed => tracing::info!(namespace, name, pod, node, "Pod changed before it was deleted"),
        Outcome::OverBudget => {}
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
    let metadata = json!({ "ownerReferences": [resolved.owner], "labels": { "dynatrace": "oneagent" } });
    context
        .notes
        .write(&context.client, &Place { uid: &resolved.uid, namespace: &resolved.namespace, name: &name, metadata })
        .await
}
