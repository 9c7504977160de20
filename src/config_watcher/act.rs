//! Act: evicts the Pods of a plan, in its order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::sync::Arc;
use std::time::Duration;

use super::places::{By, Obstacle};
use super::resolve::Resolved;
use super::revision::{Config, Pod};
use super::{Context, Desk, Kept};
use crate::kernel;
use crate::kernel::delete::{Blocked, By as ForbiddenBy, How, Outcome, Target};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

/// What is blocked is tried again after so long: no watch shows a PodDisruptionBudget or a policy that changes.
const AGAIN: Duration = Duration::from_secs(10);
/// A Pod that is blocked alone lets the others of its workload have their turn first.
const OTHERS_FIRST: u32 = 6;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// A Pod changed meanwhile.
    pub has_changed: bool,
    /// A Pod may not be evicted now.
    pub is_blocked: bool,
    /// The time of this look was over before all of them were evicted.
    pub is_unfinished: bool,
    /// Why evictions go on failing.
    pub refused: Option<String>,
}

/// Evicts Pods, one after the other: whether the next may go, the answer to the last one tells.
pub async fn evict(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    guard: &Guard,
    steps: &[Step<Config>],
) -> Result<Done, (Done, kernel::Error)> {
    let mut done = Done::default();
    for Step { pod, place, costs } in steps {
        // Where one was refused a moment ago the others of its workload are not tried.
        let workload = guard.workload(&pod.uid);
        if workload.is_some_and(|name| desk.own.blocked.holds(name)) {
            continue;
        }
        if !desk.has_time() {
            done.is_unfinished = true;
            break;
        }
        // A pause, an edit or a deletion in the middle is heard, and a stop.
        let key = (resolved.namespace.clone(), resolved.name.clone());
        if !context.fleet.is_still(&key, resolved) || context.is_stopped(&key).await.unwrap_or(true) {
            done.has_changed = true;
            break;
        }
        let target = Target {
            namespace: &resolved.namespace,
            name: &pod.name,
            uid: &pod.uid,
            resource_version: &pod.resource_version,
            place,
            how: How::Evict,
        };
        let outcome =
            context.deletions.delete(&context.client, &resolved.namespace, guard, target, context.clock.now()).await;
        let (namespace, name, pod_name) = (&resolved.namespace, &resolved.name, &*pod.name);
        match outcome {
            Ok(Outcome::Deleted) => {
                tracing::info!(namespace, name, pod = pod_name, "Pod evicted: its successor reads the changed data");
                desk.own.was_evicted(workload);
                *desk.own.evicted_at.lock() = Some(context.clock.now());
                context.metrics.all.replaced();
            }
            Ok(Outcome::Changed) => done.has_changed = true,
            Ok(Outcome::OverBudget) => tracing::error!(name = resolved.name, "the plan exceeds the budget; a defect"),
            Ok(Outcome::Blocked(blocked)) => {
                tracing::info!(namespace, name, pod = pod_name, why = blocked.why, "Pod may not be evicted now");
                done.is_blocked = true;
                step_aside(&desk.own, workload, (pod, *costs), &blocked);
            }
            Err(error) => {
                done.refused = desk.complaint(&error);
                return Err((done, error));
            }
        }
    }
    Ok(done)
}

/// One that may not be evicted now is not asked for again at once.
pub(super) fn step_aside(kept: &Kept, workload: Option<&Arc<str>>, (pod, costs): (&Pod, bool), blocked: &Blocked) {
    let obstacle = obstacle(&pod.name, !costs, blocked);
    if blocked.by != ForbiddenBy::Budget {
        kept.step_aside(&pod.uid, obstacle.clone(), OTHERS_FIRST * AGAIN);
    }
    // Another Pod of its workload is most likely refused for the same cause, and not asked for at once.
    kept.step_aside(workload.unwrap_or(&pod.uid), obstacle, AGAIN);
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
                "{why}: nothing is evicted against a PodDisruptionBudget; it goes on when more Pods are Ready, or when \
                its maxUnavailable or minAvailable lets one be away (kubectl get pdb)"
            ),
        ),
    };
    Obstacle { why, by }
}
