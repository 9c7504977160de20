//! The conditions of a OneAgent, and every reason that they can have. Each reason's doc line tells the user what to do:
//! the table of docs/status.md is made of these lines.
//!
//! Must not decide which one holds.

use crate::api::condition::{self, Weight};

/// What was found about one condition.
pub type Finding = condition::Finding<ConditionType, Reason>;

/// The conditions that every OneAgent has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum ConditionType {
    /// Every selected node that can run an agent runs the desired one.
    Ready,
    /// Agents run, whatever their version.
    Available,
    /// Something is under way.
    Progressing,
    /// Someone must act.
    Degraded,
    /// The token that reads hosts.
    #[strum(serialize = "APIToken")]
    ApiToken,
    /// The token that downloads installers.
    #[strum(serialize = "PaaSToken")]
    PaasToken,
    /// Another OneAgent selects nodes that this one selects.
    NodesConflict,
}

impl condition::Type for ConditionType {
    condition::common_conditions!(Reason);
    const HALTED: &'static str = "nothing is done until that is fixed; agents run on";

    fn weight(self, holds: Option<bool>, reason: Reason) -> Weight {
        match (self, reason) {
            (Self::Ready | Self::Available, Reason::AgentsUnavailable) => Weight::Warning,
            (Self::Ready, Reason::NoNodesSelected)
            | (Self::Progressing, Reason::Paused | Reason::Stopped | Reason::Held | Reason::AwaitingPromotion) => {
                Weight::Normal
            }
            // Of rollouts the milestones tell; and what Degraded warns of the others do not tell again.
            (_, Reason::RolloutFailed | Reason::RolledBack)
            | (Self::Ready | Self::Available | Self::Progressing, _) => Weight::Quiet,
            (Self::Degraded | Self::NodesConflict, _) if holds == Some(true) => Weight::Warning,
            (Self::ApiToken | Self::PaasToken, _) if holds == Some(false) => Weight::Warning,
            _ => Weight::Quiet,
        }
    }
}

/// Every reason a condition can have. The doc line says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumIter, strum::EnumMessage)]
pub enum Reason {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// Every selected node runs the desired agent. Nothing to do.
    AllUpdated,
    /// Agents are being replaced or started. The message says how many are left and what the operator waits for.
    RollingOut,
    /// The canaries have soaked, and `rollout.canary.promotion` is Manual. Name the version in `rollout.promote`, and
    /// others follow, or in `rollout.reject`.
    AwaitingPromotion,
    /// A node that joined has no Ready agent yet. Nothing to do within `waitReadySeconds`.
    Starting,
    /// Some selected nodes have no Ready agent. The message names up to five of them, with the cause of each.
    AgentsUnavailable,
    /// No node is selected: check `nodeSelector` and `tolerations` against `kubectl get nodes --show-labels`, and
    /// condition `NodesConflict`.
    NoNodesSelected,
    /// The environment has not yet said which version is the newest. See the token conditions.
    WaitingForVersion,
    /// `rollout.paused` holds updates (set it to false to continue), or they are held for what condition Degraded says.
    Paused,
    /// Updates of all watched OneAgents are held: delete key `stop` of ConfigMap `oneagent-operator`.
    Stopped,
    /// New agents failed and the update was stopped. Correct the cause and name the version in `rollout.retry` to try
    /// it again. The operator takes a newer version automatically, unless `update.version` pins one.
    RolloutFailed,
    /// New agents failed, and all nodes that had them run the last good version again. The operator takes a newer
    /// version automatically. To try this one again, correct the cause and name the version in `rollout.retry`.
    RolledBack,
    /// Agents run but some do not have the desired version or template. On nodes that are cordoned or being removed
    /// they wait for the node, and the message names such nodes.
    Outdated,
    /// The spec cannot be carried out. The message names the field and the remedy.
    InvalidSpec,
    /// A DaemonSet of this name has another owner: rename the OneAgent or delete the DaemonSet.
    NameTaken,
    /// A DaemonSet of this name was deleted, alone or with its OneAgent, and is being removed with its agents. New
    /// agents are installed when that is done, so that no node has two. Nothing to do.
    BeingRemoved,
    /// The original operator still runs in the namespace: remove it first.
    OtherOperatorRunning,
    /// The agents' ServiceAccount is missing: run the commands that the message names, or move the OneAgent to the
    /// operator's namespace.
    ServiceAccountMissing,
    /// The API server refuses the agents' Pods. The message quotes it. On OpenShift grant the SCC. On other clusters
    /// label the namespace `pod-security.kubernetes.io/enforce=privileged`.
    PodsRefused,
    /// The namespace's own node selector excludes nodes with a running agent, and any change would remove these. Remove
    /// the selector by the command that the message names.
    NamespaceSelector,
    /// The rollout waits for something outside, which the message names. It continues once that is fixed.
    Held,
    /// The API server refuses what the operator writes, by a policy or a webhook. The message quotes it.
    WriteRefused,
    /// The operator may not list or watch what it decides from. The message quotes the API server. Grant it that right.
    /// Agents keep running, and none is replaced meanwhile.
    RightsMissing,
    /// A pinned version is not offered by the environment: choose one it offers.
    VersionNotOffered,
    /// A pin or an image below a running version needs `update.allowDowngrade: true`.
    DowngradeNotAllowed,
    /// The rollback to the last good version failed where it was tried: the older agent does not run where the newer
    /// one was. Take a newer version, or remove the agent from the node with its uninstall script.
    DowngradeRefused,
    /// The running version is no longer offered. Pods that restart could not download it: update or pin another.
    VersionWithdrawn,
    /// The ConfigMap of `update.configMap` is missing, holds something other than versions, or nothing as new as what
    /// agents have. Agents keep their version.
    VersionListInvalid,
    /// The environment's API cannot be used. The message says what it answered. Agents keep running.
    EnvironmentUnreachable,
    /// A ConfigMap that the spec names is missing or lacks its key.
    TrustedCAsMissing,
    /// The proxy Secret that the spec names is missing, lacks its key, or holds no URL.
    ProxyInvalid,
    /// The pull secret that the spec names is missing or of another type, or the operator cannot create or write its
    /// own.
    PullSecretInvalid,
    /// Traffic to the environment cannot be let through Istio as `enableIstio` asks. The message says why.
    IstioUnusable,
    /// Another OneAgent selects the same nodes. The message names it, and the one that keeps them. Make their
    /// `nodeSelector`s disjoint.
    NodesConflict,
    /// The token works and has its scope. Nothing to do.
    TokenReady,
    /// The Secret is missing: create it.
    TokenSecretNotFound,
    /// The Secret lacks the key: add it.
    TokenMissing,
    /// The environment rejects the token, or the token has blanks around it: put a valid one into the Secret.
    TokenUnauthorized,
    /// The token lacks a scope: create one that has it.
    TokenScopeMissing,
    /// The token could not be tried. The message says why.
    TokenError,
    /// Not checked yet. Wait for the next reconcile.
    NotYetReported,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::{EnumMessage, IntoEnumIterator};

    #[test]
    fn every_reason_tells_what_to_do() {
        for reason in Reason::iter() {
            let doc = reason.get_documentation().unwrap_or_default().trim_end();
            assert!(doc.ends_with('.') && doc.len() > 20, "{reason}: {doc}");
        }
    }
}
