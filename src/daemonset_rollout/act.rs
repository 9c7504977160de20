//! Act: replaces Pods, in the plan's order; choices were all made before.
//!
//! Writes only through `kernel`, and deletes Pods alone. Must not decide, nor wait for a Pod.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::time::Instant;

use super::MANAGER;
use super::context::Cx;
use super::observe::{Current, RETRY, Seen};
use super::plan::Plan;
use super::rollback::{self, Back};
use super::source::other_controller;
use super::verdict::strategy;
use crate::fleet::gaps::gaps;
use crate::k8s::source::owner;
use crate::kernel::kind::Acted;
use crate::kernel::refused::QUIET;
use crate::kernel::{self, Key, call, restore};
use crate::rollout::State;

/// What is due by the clock is done a moment later.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);
/// What was refused, or had changed meanwhile, is looked at again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// No watch shows that a revision was written, or that a right was granted.
const UNWRITTEN: Duration = Duration::from_secs(1);
const UNREAD: Duration = Duration::from_secs(15);

/// What a decision rests on. Who else acts on the Pods changes no generation.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    uid: Option<String>,
    generation: Option<i64>,
    strategy: String,
    is_ending: bool,
    owner: Option<String>,
    other: Option<String>,
}

fn basis(set: &DaemonSet) -> Basis {
    let metadata = &set.metadata;
    Basis {
        uid: metadata.uid.clone(),
        generation: metadata.generation,
        strategy: strategy(set).to_owned(),
        is_ending: metadata.deletion_timestamp.is_some(),
        owner: owner(metadata),
        other: other_controller(set),
    }
}

/// The DaemonSet as etcd has it. Its watch may be behind that of the Pods: what it takes for outdated may just have
/// been created from a newer template.
async fn stored(client: &Client, (namespace, name): &Key) -> Result<Option<DaemonSet>, kernel::Error> {
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = call(|| format!("read DaemonSet {namespace}/{name}"), api.list(&params)).await?;
    Ok(list.items.into_iter().next())
}

/// Carries a plan out.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &Plan) -> Acted {
    let (fleet, generation) = (&cx.kind.fleet, cx.object.metadata.generation);
    let key = (seen.resolved.namespace.clone(), seen.resolved.daemon_set.clone());
    let known = seen.set.as_deref().map(basis);
    let steps = &plan.decision.steps;
    let counts = [plan.decision.budget, plan.ledger.lost().len(), plan.decision.report.outdated];
    cx.kind.metrics.see(cx.key, counts, &gaps(&seen.ledger, &plan.ledger, &seen.pods, cx.clock.now()));
    let is_idle = steps.is_empty() && !matches!(plan.back, Back::Due(_));
    let stored = if is_idle { Ok(None) } else { stored(&cx.client, &key).await };
    let (stored, unread) = stored.map_or_else(|error| (None, Some(error)), |stored| (stored, None));
    let is_current = stored.as_ref().map(basis) == known;
    // An edit of the object or of the DaemonSet in the middle is heard: what was decided for another template, or while
    // its Pods are made again, is not done.
    let is_still =
        || is_current && fleet.is_still(cx.key, generation) && fleet.set(&key).as_deref().map(basis) == known;
    let (deleted, error) = cx.delete_all(&plan.guard, steps, &cx.state.own.aside, is_still).await;
    let live = stored.as_ref().filter(|_| is_still());
    let (is_put_back, unwritten) = put_back(cx, &key, live, &plan.back).await;
    let error = unread.or(error).or(unwritten).or(disown(cx, seen, &key).await.err());
    // While nothing may be replaced, nothing that OLM could interrupt is under way.
    let is_held = matches!(plan.decision.report.state, State::Held | State::Paused | State::Stopped);
    let latest = cx.in_flight.ledger(&cx.state.uid).latest().filter(|_| !is_held);
    let is_unwritten = seen.set.is_some() && seen.revisions == Current::Unwritten;
    let waits = [
        plan.next.map(|at| (at - cx.clock.now()).to_std().unwrap_or_default() + CLOCK_MARGIN),
        (deleted.has_changed || deleted.is_refused || is_put_back).then_some(AGAIN),
        seen.unrestorable.is_some().then_some(RETRY),
        cx.state.own.aside.ends_in().map(|left| left + CLOCK_MARGIN),
        is_unwritten.then_some(UNWRITTEN),
        matches!(seen.revisions, Current::Unread(_)).then_some(UNREAD),
        (!seen.missing.is_empty()).then_some(QUIET),
    ];
    let wait_ready = seen.resolved.policy.wait_ready;
    Acted { error, next: waits.into_iter().flatten().min(), busy_until: latest.map(|at| at + wait_ready) }
}

/// Puts the last good template back, if that is due; returns whether anything came of it that asks for another look.
async fn put_back(cx: &Cx<'_>, key: &Key, live: Option<&DaemonSet>, back: &Back) -> (bool, Option<kernel::Error>) {
    let kept = &cx.state.own;
    let (Back::Due(due), Some(live)) = (back, live) else { return (matches!(back, Back::Due(_)), None) };
    match rollback::put_back(cx, key, live, due).await {
        Ok(Ok(())) => {
            *kept.put_back.lock() = Some((due.failed.clone(), live.metadata.generation));
            (true, None)
        }
        Ok(Err(why)) => {
            *kept.unrestorable.lock() = Some((live.metadata.generation, why, Instant::now()));
            (true, None)
        }
        Err(error) => (false, Some(error)),
    }
}

/// Gives up what an operator that was killed owns of a DaemonSet that it wrote.
async fn disown(cx: &Cx<'_>, seen: &Seen, key: &Key) -> Result<(), kernel::Error> {
    let is_ours = seen.set.as_deref().is_some_and(|set| restore::owns(MANAGER, set));
    // The watch may be behind: what is stored counts.
    let live = if is_ours && seen.resolved.rolls_back { stored(&cx.client, key).await? } else { None };
    let Some(live) = live else { return Ok(()) };
    let api: Api<DaemonSet> = Api::namespaced(cx.client.clone(), &key.0);
    restore::disown(MANAGER, &api, live, &[]).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::scripted::{Answer, client};
    use serde_json::{Value, json};

    fn set(uid: &str, generation: i64, strategy: &str) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "agent", "namespace": "n", "uid": uid, "generation": generation },
            "spec": { "selector": {}, "template": { "spec": { "containers": [] } },
                "updateStrategy": { "type": strategy } } })
    }

    #[tokio::test]
    async fn what_was_decided_for_another_template_strategy_or_daemonset_is_not_what_is_stored() {
        let decided: DaemonSet = serde_json::from_value(set("d", 2, "OnDelete")).unwrap();
        let mut owned = set("d", 2, "OnDelete");
        owned["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Agent", "name": "a", "uid": "a", "controller": true }]);
        let mut driven = set("d", 2, "OnDelete");
        driven["metadata"]["annotations"] = json!({ "rollouts.kruise.io/x": "" });
        for (all, is_same) in [
            (vec![set("d", 2, "OnDelete")], true),
            (vec![set("d", 3, "OnDelete")], false),
            (vec![set("d", 2, "RollingUpdate")], false),
            (vec![set("e", 2, "OnDelete")], false),
            (vec![owned], false),
            (vec![driven], false),
            (vec![], false),
        ] {
            let list = json!({ "apiVersion": "apps/v1", "kind": "DaemonSetList", "metadata": {}, "items": all });
            let (client, asked) = client(move |_| Answer::Object(list.clone()));
            let found = stored(&client, &("n".to_owned(), "agent".to_owned())).await.unwrap();
            assert_eq!(found.as_ref().map(basis) == Some(basis(&decided)), is_same);
            // Without a resourceVersion it is etcd that answers.
            let path = &asked.lock().unwrap()[0].path;
            assert_eq!(path, "/apis/apps/v1/namespaces/n/daemonsets?&fieldSelector=metadata.name%3Dagent");
        }
    }
}
