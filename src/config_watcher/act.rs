//! Act: evicts the Pods of a plan, in its order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::sync::Arc;
use std::time::Duration;

use super::context::{ConfigWatchers, Cx};
use super::observe::{Content, Seen};
use super::places::{By, Obstacle};
use super::plan::Plan;
use super::resolve::Resolved;
use super::revision::Pod;
use super::state::Kept;
use crate::kernel;
use crate::kernel::kind::{Acted, Kind};
use crate::kernel::pods::{Blocked, By as ForbiddenBy, How, Outcome};

/// What is blocked is tried again after so long: no watch shows a PodDisruptionBudget or a policy that changes.
const AGAIN: Duration = Duration::from_secs(10);
/// A ConfigMap that may not be read is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// What is due by the clock is done a moment later.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);
/// A Pod that is blocked alone lets the others of its workload have their turn first.
const OTHERS_FIRST: u32 = 6;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// A Pod changed meanwhile.
    pub has_changed: bool,
    /// A Pod may not be evicted now.
    pub is_blocked: bool,
    /// The time of this reconcile was over before all of them were evicted.
    pub is_unfinished: bool,
}

/// Carries a plan out. Where a Pod was blocked the plan is made again: the status says what is known now.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &mut Plan, done: &mut Done) -> Acted {
    let mut error = evict(cx, &seen.resolved, plan, done).await.err();
    if done.is_blocked {
        match ConfigWatchers::plan(cx, &plan.memory, seen, cx.clock.now()) {
            Ok(again) => *plan = again,
            Err(defect) => error = Some(defect),
        }
    }
    let (kept, wait_ready) = (&cx.state.own, seen.resolved.policy.wait_ready);
    // While nothing may be replaced, nothing that OLM could interrupt is under way.
    let evicted_at = kept.evicted_at.lock().filter(|_| plan.is_in_flight);
    let is_others_turn = done.is_blocked && !plan.decision.steps.is_empty();
    let waits = [
        plan.next.map(|at| (at - cx.clock.now()).to_std().unwrap_or_default() + CLOCK_MARGIN),
        kept.blocked.ends_in().map(|wait| wait + CLOCK_MARGIN),
        kept.believed_in(seen.believed_after()).map(|wait| wait + CLOCK_MARGIN),
        done.is_unfinished.then_some(CLOCK_MARGIN),
        (done.has_changed || is_others_turn).then_some(Duration::from_secs(1)),
        matches!(seen.content, Content::Forbidden(_)).then_some(ASK_AGAIN),
    ];
    Acted { error, next: waits.into_iter().flatten().min(), busy_until: evicted_at.map(|at| at + wait_ready) }
}

/// Evicts Pods, one after the other: whether the next may go, the answer to the last one tells.
async fn evict(cx: &Cx<'_>, resolved: &Resolved, plan: &Plan, done: &mut Done) -> Result<(), kernel::Error> {
    let (guard, kept) = (&plan.guard, &cx.state.own);
    for step in &plan.decision.steps {
        // Where one was refused a moment ago the others of its workload are not tried.
        let workload = guard.workload(&step.pod.id);
        if workload.is_some_and(|name| kept.blocked.holds(name)) {
            continue;
        }
        if !cx.state.has_time() {
            done.is_unfinished = true;
            break;
        }
        // A pause, an edit or a deletion in the middle is heard, and a stop.
        if !cx.kind.fleet.is_still(cx.key, resolved) || cx.is_stopped(cx.key).await.unwrap_or(true) {
            done.has_changed = true;
            break;
        }
        match cx.take((&resolved.namespace, &step.pod.id), guard, step, How::Evict).await? {
            Outcome::Taken => {
                kept.was_evicted(workload);
                *kept.evicted_at.lock() = Some(cx.clock.now());
            }
            Outcome::Changed | Outcome::Stale => done.has_changed = true,
            Outcome::OverBudget => {}
            Outcome::Blocked(blocked) => {
                done.is_blocked = true;
                step_aside(kept, workload, (&step.pod, step.costs), &blocked);
            }
        }
    }
    Ok(())
}

/// One that may not be evicted now is not asked for again at once.
pub(super) fn step_aside(kept: &Kept, workload: Option<&Arc<str>>, (pod, costs): (&Pod, bool), blocked: &Blocked) {
    let obstacle = obstacle(&pod.name, !costs, blocked);
    if blocked.by != ForbiddenBy::Budget {
        kept.step_aside(&pod.id, obstacle.clone(), OTHERS_FIRST * AGAIN);
    }
    // Another Pod of its workload is most likely refused for the same cause, and not asked for at once.
    kept.step_aside(workload.unwrap_or(&pod.id), obstacle, AGAIN);
}

/// What kept a Pod from being evicted, in words. `is_broken`: it was not available itself.
fn obstacle(pod: &str, is_broken: bool, Blocked { why, by }: &Blocked) -> Obstacle {
    let (by, why) = match by {
        ForbiddenBy::Refusal => (By::Refusal, format!("the API server refuses to evict Pod {pod}: {why}")),
        ForbiddenBy::Budgets => (
            By::Budget,
            "more than one PodDisruptionBudget selects each, and the API server evicts no such Pod: let all but one of \
            them select other labels (kubectl get pdb)"
                .to_owned(),
        ),
        ForbiddenBy::Budget if is_broken => (
            By::Deadlock,
            format!(
                "{why}: the PodDisruptionBudget also protects Pods that are not Ready, which may need the change to \
                become Ready; set its spec.unhealthyPodEvictionPolicy to AlwaysAllow (kubectl get pdb)"
            ),
        ),
        ForbiddenBy::Budget => (
            By::Budget,
            format!(
                "{why}: nothing is evicted against a PodDisruptionBudget; the rollout continues when more Pods are \
                Ready, or when the budget's maxUnavailable or minAvailable allows it (kubectl get pdb)"
            ),
        ),
    };
    Obstacle { why, by }
}
