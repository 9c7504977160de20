//! Steps: a Pod that a plan names is removed, counted and logged, in one way for every kind.
//!
//! Must not choose a Pod, nor decide what follows.

use super::Error;
use super::delete::{Blocked, By, How, Outcome, Target};
use super::kind::{Cx, Kind};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

impl<K: Kind> Cx<'_, K> {
    /// Removes a Pod, if the guard admits it and the Pod is still the one that was judged. `group`: under which name it
    /// is in flight.
    pub async fn remove<R>(&self, group: &str, guard: &Guard, step: &Step<R>, how: How) -> Result<Outcome, Error> {
        let (namespace, name) = self.key;
        let pod = &step.pod;
        let target = Target {
            namespace,
            name: &pod.name,
            uid: &pod.id,
            resource_version: &pod.resource_version,
            place: &step.place,
            how,
        };
        let outcome = self.deletions.delete(&self.client, group, guard, target, self.clock.now()).await?;
        let (pod, node) = (&*pod.name, &*pod.node);
        match &outcome {
            Outcome::Deleted => {
                tracing::info!(namespace, name, pod, node, "Pod removed: its successor gets the desired revision");
                self.metrics.replaced();
            }
            Outcome::Blocked(Blocked { why, by: By::Budget | By::Budgets }) => {
                tracing::info!(namespace, name, pod, node, why, "a PodDisruptionBudget lets the Pod stay for now");
            }
            Outcome::Blocked(Blocked { why, by: By::Refusal }) => {
                tracing::warn!(namespace, name, pod, node, why, "the API server refuses to remove the Pod");
            }
            Outcome::Changed => tracing::info!(namespace, name, pod, node, "Pod changed before it was removed"),
            Outcome::OverBudget => {
                tracing::error!(namespace, name, pod, node, "the plan would have exceeded the budget; a defect");
            }
        }
        Ok(outcome)
    }
}
