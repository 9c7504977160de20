//! Act: evicts the Pods of a plan, in its order; choices were all made before.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::time::Duration;

use tokio::time::Instant;

use super::desk::Block;
use super::resolve::Resolved;
use super::revision::Config;
use super::{Context, Desk};
use crate::kernel;
use crate::kernel::delete::{Blocked, How, Outcome, Target};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

/// What is blocked is tried again after so long: no watch shows a PodDisruptionBudget that changes.
const AGAIN: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// A Pod changed meanwhile.
    pub has_changed: bool,
    /// A Pod may not be evicted now.
    pub is_blocked: bool,
    /// Why the API server refuses evictions.
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
    for Step { pod, place, .. } in steps {
        // Where one was refused a moment ago the others of its workload are not tried.
        let workload = guard.workload(&pod.uid);
        if workload.is_some_and(|name| desk.own.blocked.lock().contains_key(name)) {
            continue;
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
        tracing::info!(namespace = resolved.namespace, name = resolved.name, pod = &*pod.name, ?outcome, "eviction");
        match outcome {
            Ok(Outcome::Deleted) => {
                // What forbade one may forbid none any more.
                desk.own.blocked.lock().clear();
                *desk.own.evicted_at.lock() = Some(context.clock.now());
                context.metrics.all.replaced();
            }
            Ok(Outcome::Changed) => done.has_changed = true,
            Ok(Outcome::OverBudget) => tracing::error!(name = resolved.name, "the plan exceeds the budget; a defect"),
            Ok(Outcome::Blocked(Blocked { why, is_its_own })) => {
                done.is_blocked = true;
                let block = Block { why: sentence(&why, is_its_own), until: Instant::now() + AGAIN };
                let mut blocked = desk.own.blocked.lock();
                if is_its_own {
                    // The next time others have their turn.
                    let until = block.until + 5 * AGAIN;
                    blocked.insert(pod.uid.clone(), Block { until, ..block.clone() });
                }
                // Who else is of its workload is most likely behind the same budget, and not asked for one by one.
                blocked.insert(workload.unwrap_or(&pod.uid).clone(), block);
            }
            Err(error) => {
                done.refused = desk.complaint(&error);
                return Err((done, error));
            }
        }
    }
    Ok(done)
}

fn sentence(why: &str, is_its_own: bool) -> String {
    if is_its_own {
        "more than one PodDisruptionBudget selects each, and the API server evicts no such Pod: let all but one of \
        them select other labels (kubectl get pdb)"
            .to_owned()
    } else {
        format!(
            "{why}: nothing is evicted against a PodDisruptionBudget; it goes on when more Pods are Ready, or when its \
            maxUnavailable or minAvailable lets one be away (kubectl get pdb)"
        )
    }
}
