//! Steps: a Pod that a plan names is removed or changed, counted and logged, in one way for every kind.
//!
//! Must not choose a Pod, nor decide what follows.

use std::time::Duration;

use futures::{StreamExt, stream};

use super::Error;
use super::aside::Aside;
use super::kind::{Cx, Kind};
use super::pods::{Blocked, By, How, Outcome, Target};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

/// Deletions under way at once. While they are, nothing else is decided for this object: too few of them leave the
/// budget of a large fleet unused (with 8 a rollout of 1,000 nodes took a tenth longer).
const AT_ONCE: usize = 32;
/// What is refused is tried again after so long: no watch shows a policy that changes.
const AGAIN: Duration = Duration::from_secs(10);

/// What came of deletions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deleted {
    /// A Pod had changed meanwhile, or no more were to be deleted.
    pub has_changed: bool,
    /// The API server refused one: the next one has its turn.
    pub is_refused: bool,
}

impl<K: Kind> Cx<'_, K> {
    /// Deletes Pods, because the DaemonSet controller makes new ones. `may_go_on` is asked before each: the last of
    /// many is sent long after the first. What is refused steps `aside`, with the API server's words.
    pub async fn delete_all<R>(
        &self,
        guard: &Guard,
        steps: &[Step<R>],
        aside: &Aside<String>,
        may_go_on: impl Fn() -> bool + Sync,
    ) -> (Deleted, Option<Error>) {
        let one = async |step: &Step<R>| {
            if self.state.has_time() && may_go_on() && !self.is_stopped(self.key).await.unwrap_or(true) {
                self.take((&self.state.uid, &step.pod.id), guard, step, How::Delete).await
            } else {
                Ok(Outcome::Changed)
            }
        };
        let deletions: Vec<_> = steps.iter().map(&one).collect();
        let outcomes: Vec<Result<Outcome, Error>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
        // One that fails keeps what is known of the others.
        let (mut deleted, mut failed) = (Deleted::default(), None);
        for (outcome, step) in outcomes.into_iter().zip(steps) {
            match outcome {
                Ok(Outcome::Taken | Outcome::OverBudget) => {}
                Ok(Outcome::Changed | Outcome::Stale) => deleted.has_changed = true,
                Ok(Outcome::Blocked(blocked)) => {
                    deleted.is_refused = true;
                    let why = format!("the API server refuses to delete Pod {}: {}", step.pod.name, blocked.why);
                    aside.put(&step.pod.id, why, AGAIN, true);
                }
                Err(error) => failed = Some(error),
            }
        }
        (deleted, failed)
    }

    /// Takes a step, if the guard admits it and the Pod is still the one that was judged. `group`: under which name it
    /// is in flight; `uid`: of the Pod.
    pub async fn take<R>(
        &self,
        (group, uid): (&str, &str),
        guard: &Guard,
        step: &Step<R>,
        how: How<'_>,
    ) -> Result<Outcome, Error> {
        let (namespace, name) = self.key;
        let pod = &step.pod;
        let target = Target {
            namespace,
            name: &pod.name,
            uid,
            id: &pod.id,
            resource_version: &pod.resource_version,
            place: &step.place,
            how,
        };
        let outcome = self.in_flight.take(&self.client, group, guard, target, self.clock.now()).await?;
        let (pod, node) = (&*pod.name, &*pod.node);
        match &outcome {
            Outcome::Taken => {
                let what = match how {
                    How::Delete | How::Evict => "Pod removed: its successor gets the desired revision",
                    How::Join(_) => "a container joins the Pod, to bring it the desired revision",
                };
                tracing::info!(namespace, name, pod, node, "{what}");
                if matches!(how, How::Delete | How::Evict) {
                    self.metrics.replaced();
                }
            }
            Outcome::Blocked(Blocked { why, by: By::Budget | By::Budgets }) => {
                tracing::info!(namespace, name, pod, node, why, "a PodDisruptionBudget lets the Pod stay for now");
            }
            Outcome::Blocked(Blocked { why, by: By::Refusal }) => {
                tracing::warn!(namespace, name, pod, node, why, "the API server refuses that");
            }
            Outcome::Changed => tracing::info!(namespace, name, pod, node, "Pod changed before anything was done"),
            // It was said when the API server said so.
            Outcome::Stale => {}
            Outcome::OverBudget => {
                tracing::error!(namespace, name, pod, node, "the plan would have exceeded the budget; a defect");
            }
        }
        Ok(outcome)
    }
}
