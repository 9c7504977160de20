//! The conditions of a Manager, and every reason that they can have. Each reason's doc line tells the user what to do:
//! the table of docs/manager.md is made of these lines.
//!
//! Must not decide which one holds.

use crate::api::condition::{self, Weight};

/// What was found about one condition.
pub type Finding = condition::Finding<ConditionType, Reason>;

/// The conditions that every Manager has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum ConditionType {
    /// All that the spec asks for exists and serves.
    Ready,
    /// Something is under way.
    Progressing,
    /// Someone must act.
    Degraded,
    /// The spec has services that this operator does not carry out.
    NotCarriedOut,
}

impl condition::Type for ConditionType {
    condition::common_conditions!(Reason);
    const HALTED: &'static str = "nothing is changed until that is fixed; running Pods stay as they are";

    fn weight(self, holds: Option<bool>, reason: Reason) -> Weight {
        match (self, reason) {
            (_, Reason::AsExpected | Reason::NotYetReported) => Weight::Quiet,
            (Self::Degraded | Self::NotCarriedOut, _) if holds != Some(true) => Weight::Quiet,
            (Self::Degraded, _) => Weight::Warning,
            (Self::Ready | Self::Progressing | Self::NotCarriedOut, _) => Weight::Normal,
        }
    }
}

/// Every reason a condition can have. The doc line says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumIter, strum::EnumMessage)]
pub enum Reason {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// Every component serves.
    AllServing,
    /// Components are being created, start, or get a changed template, one Pod at a time. The message says which, and
    /// what the operator waits for. `status.components` has them all.
    StandingUp,
    /// Pods run an earlier template, and `rollout.windows`, `rollout.blackouts` or `rollout.paused` let none of them be
    /// replaced now. The message says which, and until when.
    Held,
    /// Components that served do not serve any more. The message names them, and those that need them. See `kubectl
    /// describe pod` of their Pods.
    ComponentsUnavailable,
    /// A Pod cannot start, crashes, or has not been Ready for ten minutes. The message quotes its kubelet, or says
    /// since when. Correct the image or command in the spec, or what the message names.
    PodsFailing,
    /// An entry of `services` is incomplete or unknown, or the Secret that identifies a store is gone or damaged. The
    /// message names which, and the remedy. Other components proceed, and running Pods of this one stay as they are.
    InvalidComponent,
    /// No node matches a component's `nodeSelector`, or the node of one of its servers is gone. The message says which.
    /// Label nodes, or correct the selector: Kubernetes has not set the label of masters since 1.24.
    NoNodes,
    /// An object of a component has a name that another owner's object already has. The message names it. Rename the
    /// component, or remove the other object.
    NameTaken,
    /// A store has more servers than the spec asks for, and never shrinks. Or there are too few nodes for all servers
    /// that the spec asks for. Correct `replicas`, or label more nodes.
    NotChanged,
    /// The Secret with the authority of all certificates is gone or damaged, or is immutable and must change. The
    /// message says the remedy. Running Pods keep running until their certificates end.
    AuthorityUnusable,
    /// Certificates end soon, and their renewal is held up. The message says when they end, and what holds it up.
    CertificatesExpiring,
    /// This operator knows the services and does not carry them out. The message says why.
    Ignored,
    /// Key `stop` of ConfigMap `tf-operator` in the operator's namespace stops everything: delete the key to continue.
    Stopped,
    /// The spec is invalid. The message names the field and the remedy. Running Pods stay as they are.
    InvalidSpec,
    /// The operator may not read what it decides from. The message quotes the API server. Grant it that right.
    RightsMissing,
    /// The API server keeps rejecting or failing what the operator asks of it. The message quotes it. Fix the policy,
    /// webhook or server. The operator tries again.
    WriteRefused,
    /// The operator has not looked at the object yet.
    NotYetReported,
}
