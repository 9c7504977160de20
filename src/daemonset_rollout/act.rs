//! Act: replaces Pods, in the plan's order; choices were all made before.
//!
//! Writes only through `kernel`, and deletes Pods alone. Must not decide, nor wait for a Pod.

use std::time::Duration;

use super::context::Cx;
use super::observe::{Current, Seen};
use super::plan::Plan;
use super::verdict::strategy;
use crate::kernel::kind::Acted;

/// What is due by the clock is done a moment later.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);
/// What was refused, or had changed meanwhile, is looked at again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// No watch shows that a revision was written, or that a right was granted.
const UNWRITTEN: Duration = Duration::from_secs(1);
const UNREAD: Duration = Duration::from_secs(15);

/// Carries a plan out.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &Plan) -> Acted {
    let (fleet, generation) = (&cx.kind.fleet, cx.object.metadata.generation);
    let key = (seen.resolved.namespace.clone(), seen.resolved.daemon_set.clone());
    let of = |set: &k8s_openapi::api::apps::v1::DaemonSet| {
        let metadata = &set.metadata;
        (metadata.uid.clone(), metadata.generation, strategy(set).to_owned(), metadata.deletion_timestamp.is_some())
    };
    let known = seen.set.as_deref().map(of);
    // An edit of the object or of the DaemonSet in the middle is heard: what was decided for another template, or while
    // its Pods are made again, is not done.
    let is_still = || fleet.is_still(cx.key, generation) && fleet.set(&key).as_deref().map(of) == known;
    let (deleted, error) = cx.delete_all(&plan.guard, &plan.decision.steps, &cx.state.own.aside, is_still).await;
    let latest = plan_is_free(plan).then(|| cx.in_flight.ledger(&cx.state.uid).latest()).flatten();
    let is_unwritten = seen.set.is_some() && seen.revisions == Current::Unwritten;
    let waits = [
        plan.next.map(|at| (at - cx.clock.now()).to_std().unwrap_or_default() + CLOCK_MARGIN),
        (deleted.has_changed || deleted.is_refused).then_some(AGAIN),
        cx.state.own.aside.ends_in().map(|left| left + CLOCK_MARGIN),
        is_unwritten.then_some(UNWRITTEN),
        matches!(seen.revisions, Current::Unread(_)).then_some(UNREAD),
        (!seen.missing.is_empty()).then_some(crate::kernel::refused::QUIET),
    ];
    let wait_ready = seen.resolved.policy.wait_ready;
    Acted { error, next: waits.into_iter().flatten().min(), busy_until: latest.map(|at| at + wait_ready) }
}

/// While nothing may be replaced, nothing that OLM could interrupt is under way.
fn plan_is_free(plan: &Plan) -> bool {
    use crate::rollout::State;
    !matches!(plan.decision.report.state, State::Held | State::Paused | State::Stopped)
}
