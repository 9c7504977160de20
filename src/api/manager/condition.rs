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
    /// Something needs a human.
    Degraded,
    /// The spec has services that this operator does not carry out.
    NotCarriedOut,
}

impl condition::Type for ConditionType {
    condition::common_conditions!(Reason);
    const HALTED: &'static str = "nothing is changed until that is fixed; what runs goes on";

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
    /// Components are being created, start, or get a changed template, one Pod at a time; the message says which, and
    /// what is waited for. `status.components` has them all.
    StandingUp,
    /// Pods run an earlier template, and `rollout.windows`, `rollout.blackouts` or `rollout.paused` let none of them be
    /// replaced now; the message says which, and until when.
    Held,
    /// Components that served do not; the message names them, and those that need them. See
    /// `kubectl describe pod` of their Pods.
    ComponentsUnavailable,
    /// A Pod cannot start, or crashes; the message quotes its kubelet. Correct the image or command in the spec, or
    /// what the message names.
    PodsFailing,
    /// An entry of `services` is incomplete or unknown, or the Secret that identifies a store is gone or damaged; the
    /// message names which, and the remedy. Others proceed, and what runs of this one goes on.
    InvalidComponent,
    /// No node matches a component's `nodeSelector`, or a node where one of its servers is has gone; the message says
    /// which. Label nodes, or correct the selector: Kubernetes has not set the label of masters since 1.24.
    NoNodes,
    /// An object that a component would have belongs to somebody else, which the message names: rename the component,
    /// or remove the other one.
    NameTaken,
    /// A store has more servers than the spec asks for, and never shrinks; or there are too few nodes for all that it
    /// asks for. Correct `replicas`, or label more nodes.
    NotChanged,
    /// The Secret with the authority of all certificates is gone or damaged; the message says how to restore it. What
    /// runs goes on, until its certificates end.
    AuthorityUnusable,
    /// Certificates end soon, and their renewal is held up; the message says when, and by what.
    CertificatesExpiring,
    /// The services are known, and not carried out by this operator; the message says why.
    Ignored,
    /// Everything is stopped by key `stop` of ConfigMap `tf-operator` in the operator's namespace: delete the key to go
    /// on.
    Stopped,
    /// The spec is invalid; the message names the field and the remedy. What runs goes on.
    InvalidSpec,
    /// The operator may not read what it decides from; the message quotes the API server. Grant it that right.
    RightsMissing,
    /// The API server goes on refusing or failing what the operator asks of it; the message quotes it. Fix the policy,
    /// webhook or server; it is tried again.
    WriteRefused,
    /// Nobody has looked yet.
    NotYetReported,
}
