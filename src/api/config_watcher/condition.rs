//! The conditions of a ConfigWatcher, and every reason that they can have. Each reason's doc line tells the user what
//! to do: the table of docs/configwatcher.md is made of these lines.
//!
//! Must not decide which one holds.

use crate::api::condition::{self, Weight};

/// What was found about one condition.
pub type Finding = condition::Finding<ConditionType, Reason>;

/// The conditions that every ConfigWatcher has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum ConditionType {
    /// Every selected Pod is newer than the change, and available.
    Ready,
    /// Something is under way.
    Progressing,
    /// Someone must act.
    Degraded,
}

impl condition::Type for ConditionType {
    condition::common_conditions!(Reason);
    const HALTED: &'static str = "no Pod is replaced until that is fixed";

    fn weight(self, holds: Option<bool>, reason: Reason) -> Weight {
        match (self, reason) {
            (_, Reason::AsExpected | Reason::NotYetReported) => Weight::Quiet,
            (Self::Degraded, _) => {
                if holds == Some(true) {
                    Weight::Warning
                } else {
                    Weight::Quiet
                }
            }
            (Self::Ready | Self::Progressing, _) => Weight::Normal,
        }
    }
}

/// Every reason a condition can have. The doc line says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumIter, strum::EnumMessage)]
pub enum Reason {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// No selected Pod is older than the last change that was seen, and all are available. A change from before the
    /// ConfigWatcher was created, or before `configMap` was edited, reached no Pod: `kubectl rollout restart`.
    AllUpdated,
    /// The data changed a moment ago. Pods are replaced once it has stayed the same for `debounceSeconds`.
    Debouncing,
    /// Pods are being replaced. The message says how many are left and what the operator waits for.
    RollingOut,
    /// Pods are older than the change, and `rollout.windows` or `rollout.blackouts` let none be replaced now. The
    /// message says until when.
    Held,
    /// Pods are not available, though none is older than the change. The message names up to five of them, with the
    /// cause of each.
    PodsUnavailable,
    /// Pods are older than the change and may not be replaced now. A PodDisruptionBudget forbids it, or their workload
    /// is rolling out, paused, or holds another template back. The message names which. The rollout continues when that
    /// ends. If it lasts: `kubectl get pdb`, `kubectl rollout status`. As Degraded: a PodDisruptionBudget keeps broken
    /// Pods from being replaced. Set its `unhealthyPodEvictionPolicy` to `AlwaysAllow`.
    Blocked,
    /// The selector matches no Pod that could be replaced: check `podSelector` against `kubectl get pods
    /// --show-labels`.
    NoPodsSelected,
    /// The ConfigMap does not exist: create it, or correct `configMap`. No Pod is replaced meanwhile.
    ConfigMapNotFound,
    /// The ConfigMap cannot be read: grant the operator get, list and watch on ConfigMaps of this namespace.
    ConfigMapUnreadable,
    /// `rollout.paused` is true: set it to false to continue.
    Paused,
    /// Key `stop` of ConfigMap `configwatcher-operator` in the operator's namespace stops everything: delete the key to
    /// continue.
    Stopped,
    /// New Pods do not become available, so the rollout was stopped. Correct the data: the next change is tried. Or
    /// edit the spec to have this data tried again: a longer `waitReadySeconds`, or a new text in `rollout.retry`. Once
    /// all Pods of the workload have been available for `waitReadySeconds`, the rollout continues, but only twice.
    RolloutFailed,
    /// New Pods cannot start: a registry, a quota, a webhook, a missing Secret, or a key that is missing from the
    /// ConfigMap. Correct what the message names. Then the rollout continues.
    PodsRefused,
    /// The spec is invalid. The message names the field and the remedy. No Pod is replaced meanwhile.
    InvalidSpec,
    /// The API server refuses to evict the Pod that the message names: grant the operator create on `pods/eviction` in
    /// this namespace, or change the policy or webhook. Other Pods are tried meanwhile, and that one again.
    EvictionRefused,
    /// The operator may not read what it decides from. The message quotes the API server. Grant it that right. No Pod
    /// is replaced meanwhile.
    RightsMissing,
    /// The API server keeps rejecting or failing what the operator asks of it. The message quotes it. Fix the policy,
    /// webhook or server. The operator tries again.
    WriteRefused,
    /// The operator has not looked at the object yet.
    NotYetReported,
}
