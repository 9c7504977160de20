//! Act: carries a plan out. Objects first, then the Pods, in the plan's order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Resource;
use kube::api::Api;
use serde_json::json;

use super::MANAGER;
use super::apply::{apply_objects, writes_over};
use super::context::{Cx, OneAgents};
use super::known::{self, News};
use super::observe::{Seen, selector_changed, subscriber};
use super::plan::Plan;
use super::resolve::Resolved;
use crate::fleet::gaps::gaps;
use crate::fleet::missing::Missing;
use crate::kernel;
use crate::kernel::apply::merge;
use crate::kernel::kind::{Acted, Prepared};
use crate::kernel::notes::Place;

/// A reconcile that learnt something while it acted is followed by another after this.
const FOLLOW_UP: Duration = Duration::from_millis(20);

/// Takes note of what was found, and writes the objects that Pods are made from.
pub async fn prepare(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan) -> Result<Prepared<OneAgents>, kernel::Error> {
    let Seen { resolved, observed } = seen;
    // First in memory, whatever becomes of the rest: a node that is gone stays gone since then.
    if let Some(news) = plan.known.take() {
        note(cx, resolved, news).await;
    }
    cx.kind.peers.remembers(cx.key, !plan.assessment.decision.memory.rollout.touched.away.is_empty());
    cx.state.own.refusals.record(observed.missing.clone(), observed.refused.clone());
    cx.named.keep(cx.key, &observed.named_objects);
    let subscriber = subscriber(resolved);
    if resolved.versions.is_some() {
        cx.kind.environments.forget(&subscriber);
    }
    cx.kind.environments.need(&subscriber, &plan.interest);
    // The cheap question first: within a rollout the namespace was looked at a moment ago.
    let selectors = &cx.kind.node_selectors;
    let known = selectors.known(&resolved.namespace);
    let is_another = known.is_some_and(|known| known.labels != observed.namespace_selector);
    if (is_another || selectors.is_old(&resolved.namespace))
        && (!plan.steps.is_empty() || writes_over(observed, &plan.objects)?)
        && selector_changed(cx, resolved, observed).await?
    {
        return Ok(Prepared::Again(FOLLOW_UP));
    }
    let done = match apply_objects(cx, resolved, observed, &plan.objects).await {
        Ok(done) => done,
        Err(failure) => return Ok(failure.refusal(cx)),
    };
    if let Some(message) = plan.edited.take().filter(|_| done.template_replaced) {
        tracing::warn!(namespace = resolved.namespace, name = resolved.name, message, "the DaemonSet was edited");
        cx.events.publish(&cx.object.object_ref(&()), true, "DaemonSetEdited", "Revert", &message).await;
    }
    Ok(Prepared::Done(done))
}

/// Replaces Pods, and has the DaemonSet controller look again.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &Plan) -> Acted {
    let Seen { resolved, observed } = seen;
    measure(cx, seen, plan);
    // An edit of the OneAgent in the middle is heard.
    let is_still = || cx.kind.peers.is_still(cx.key, cx.object);
    let (deleted, mut error) = cx.delete_all(&plan.guard, &plan.steps, &cx.state.own.aside, is_still).await;
    let nudged = if plan.nudge {
        nudge(cx, resolved, &observed.missing).await.map(Some)
    } else {
        cx.state.own.nudges.lock().forget();
        Ok(None)
    };
    let nudged = nudged.unwrap_or_else(|failure| {
        // Of two failures one is said: the one that there is something to say of.
        if error.as_ref().is_none_or(|first| cx.state.complaint(first).is_none()) {
            error = Some(failure);
        }
        None
    });
    let refused =
        if deleted.is_refused { Some(FOLLOW_UP) } else { cx.state.own.aside.ends_in().map(|left| left + FOLLOW_UP) };
    let follows = resolved.istio || resolved.cluster.proxy || resolved.cluster.pauses;
    let compared = follows.then(|| cx.kind.optional_apis.period());
    let changed = deleted.has_changed.then_some(Duration::from_secs(1));
    // While nothing may be replaced, nothing that OLM could interrupt is under way.
    let is_free = resolved.held(observed.stopped).is_none();
    let latest = cx.in_flight.ledger(&resolved.uid).latest().filter(|_| is_free);
    Acted {
        error,
        next: [plan.next, changed, refused, compared, nudged].into_iter().flatten().min(),
        busy_until: latest.map(|at| at + resolved.policy.wait_ready),
    }
}

/// Counts the rollout, and how long nodes were without an agent that have one again.
fn measure(cx: &Cx<'_>, seen: &Seen, plan: &Plan) {
    let decided = &plan.assessment.decision.plan;
    let counts = [decided.budget, plan.ledger.lost().len(), decided.report.outdated];
    let gaps = gaps(&seen.observed.ledger, &plan.ledger, &seen.observed.pods, cx.clock.now());
    cx.kind.metrics.rollouts.see(cx.key, counts, &gaps);
}

/// Has the DaemonSet controller look again: after refusals it waits for up to a quarter of an hour, and it hears of no
/// Namespace. Any write to the DaemonSet will do; this one is an annotation that means nothing else.
///
/// Says when to see to it again.
async fn nudge(cx: &Cx<'_>, resolved: &Resolved, missing: &Missing) -> Result<Duration, kernel::Error> {
    let now = cx.clock.now();
    let (left, is_due) = cx.state.own.nudges.lock().due(missing, now);
    if !is_due {
        return Ok(left);
    }
    let api: Api<DaemonSet> = Api::namespaced(cx.client.clone(), &resolved.namespace);
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

/// Takes note of the nodes that are known, and says what the environment was told of those that are gone.
async fn note(cx: &Cx<'_>, resolved: &Resolved, news: News) {
    let News { known, outcomes } = news;
    // What the environment was told is noted at once: a successor must not tell it again.
    cx.kind.notes.set(&resolved.uid, known, !outcomes.is_empty());
    for (warning, message) in known::sentences(&outcomes) {
        tracing::info!(namespace = resolved.namespace, name = resolved.name, message, "nodes are gone");
        cx.events.publish(&cx.object.object_ref(&()), warning, "NodesGone", "NodesGone", &message).await;
    }
}

/// Writes that note, when it is time. Returns when to come again.
pub async fn write_note(cx: &Cx<'_>, resolved: &Resolved) -> Option<Duration> {
    let wait = cx.kind.notes.due(&resolved.uid)?;
    if !wait.is_zero() {
        return Some(wait);
    }
    let name = known::note(&resolved.name);
    let metadata = json!({ "ownerReferences": [resolved.owner], "labels": { "dynatrace": "oneagent" } });
    cx.kind
        .notes
        .write(&cx.client, &Place { uid: &resolved.uid, namespace: &resolved.namespace, name: &name, metadata })
        .await
}
