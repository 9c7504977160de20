//! The conditions of a DaemonSetRollout, and every reason that they can have. Each reason's doc line tells the user
//! what to do: the table of docs/daemonsetrollout.md is made of these lines.
//!
//! Must not decide which one holds.

use crate::api::condition::{self, Weight};

/// What was found about one condition.
pub type Finding = condition::Finding<ConditionType, Reason>;

/// The conditions that every DaemonSetRollout has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum ConditionType {
    /// Every node that must run a Pod, and can, has an available one of the current revision.
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
            (Self::Ready, Reason::PodsUnavailable) => Weight::Warning,
            (Self::Ready, Reason::NoNodesSelected)
            | (Self::Progressing, Reason::Paused | Reason::Stopped | Reason::Held | Reason::AwaitingPromotion) => {
                Weight::Normal
            }
            // Of rollouts the milestones tell; and what Degraded warns of the others do not tell again.
            (_, Reason::RolloutFailed) | (Self::Ready | Self::Progressing, _) => Weight::Quiet,
            (Self::Degraded, _) if holds == Some(true) => Weight::Warning,
            (Self::Degraded, _) => Weight::Quiet,
        }
    }
}

/// Every reason a condition can have. The doc line says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumIter, strum::EnumMessage)]
pub enum Reason {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// Every node that can run a Pod has an available one of the current revision.
    AllUpdated,
    /// Pods are being replaced. The message says how many are left and what the operator waits for.
    RollingOut,
    /// The DaemonSet's first Pods start, or those of nodes that joined.
    Starting,
    /// Pods of an earlier revision wait for their node, which is cordoned, NotReady, about to be removed, or left
    /// out. The message says which.
    Outdated,
    /// Nodes have no available Pod, though none is being replaced. The message names up to five, with the cause of
    /// each.
    PodsUnavailable,
    /// No node matches the DaemonSet's node selector, affinity and tolerations: correct its template.
    NoNodesSelected,
    /// `rollout.paused` is true: set it to false to continue.
    Paused,
    /// Key `stop` of ConfigMap `daemonset-rollout-operator` in the operator's namespace stops everything: delete the
    /// key to continue.
    Stopped,
    /// Pods of an earlier revision wait for a window, the end of a blackout, or for what condition Degraded says.
    Held,
    /// The current revision fails, so no further Pod gets it from the operator. Nodes that join get it, because the
    /// DaemonSet has it. Correct or revert the template where it comes from, by the command in the message. Or name the
    /// revision in `rollout.retry`.
    RolloutFailed,
    /// A revision failed, and the operator put the last good template back, as `rollout.onFailure: Rollback` asks.
    /// Correct the template where it comes from before the next deployment. The next template ends this state.
    RolledBack,
    /// The last good template was put back, and its Pod does not run where it was tried. The other Pods stay as they
    /// are. Correct what the message names, or roll a newer template out.
    DowngradeRefused,
    /// A revision failed, and the operator does not put the last good template back. The message says why. Revert it
    /// where it comes from, by the command in the message.
    RollbackRefused,
    /// The operator put the last good template back, and a field manager, which the message names, wrote the failed one
    /// again. Revert it there: the operator does not try that twice.
    RollbackUndone,
    /// New Pods cannot start: the API server, a registry, a quota or a missing Secret refuses them. Fix what the
    /// message names. Then the rollout continues.
    PodsRefused,
    /// The DaemonSet does not exist, or is being deleted: create it, or correct `daemonSet`. The message has the
    /// nearest name that exists.
    DaemonSetNotFound,
    /// The DaemonSet's strategy is RollingUpdate, so Kubernetes replaces the Pods itself: set `updateStrategy.type:
    /// OnDelete` where the DaemonSet comes from, which the message names, or delete this object.
    NotOnDelete,
    /// An operator, which the message names, controls the DaemonSet. If it leaves the Pods of an OnDelete DaemonSet
    /// alone, set `acceptOwner: true`. Otherwise delete this object.
    OwnerNotAccepted,
    /// Another controller, which the message names, replaces the Pods of this DaemonSet: remove one of the two.
    OtherController,
    /// An older DaemonSetRollout, which the message names, has the DaemonSet: delete one of the two.
    Duplicate,
    /// The template changed a moment ago, or the DaemonSet's controller has not written its revision yet. Nothing to
    /// do: Pods are replaced once it has stayed the same for `debounceSeconds`.
    TemplateSettling,
    /// The template changes again and again. The message names who writes it. Let only one of them write. With Flux,
    /// see what docs/daemonsetrollout.md says about its remediation.
    TemplateUnstable,
    /// The canaries have soaked, and `canary.promotion` is Manual. Name the revision in `rollout.promote`, and others
    /// follow, or in `rollout.reject`. The message has both commands.
    AwaitingPromotion,
    /// The API server refuses the deletion of a Pod: grant the operator delete on Pods there, or fix the policy or
    /// webhook that the message quotes. Other Pods are tried meanwhile, and that one again.
    DeletionRefused,
    /// The spec is invalid. The message names the field and the remedy. No Pod is replaced meanwhile.
    InvalidSpec,
    /// The operator may not read what it decides from. The message quotes the API server. Grant it that right. No Pod
    /// is replaced meanwhile.
    RightsMissing,
    /// The API server keeps rejecting or failing what the operator asks of it. The message quotes it. Fix the policy,
    /// webhook or server. The operator tries again.
    WriteRefused,
    /// The operator has not looked at the object yet.
    NotYetReported,
}
