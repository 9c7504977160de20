//! Steps: a Pod that a plan names is removed or changed, counted and logged, in one way for every kind.
//!
//! Must not choose a Pod, nor decide what follows.

use super::Error;
use super::kind::{Cx, Kind};
use super::pods::{Blocked, By, How, Outcome, Target};
use crate::rollout::Step;
use crate::rollout::guard::Guard;

impl<K: Kind> Cx<'_, K> {
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
            Outcome::OverBudget => {
                tracing::error!(namespace, name, pod, node, "the plan would have exceeded the budget; a defect");
            }
        }
        Ok(outcome)
    }
}
