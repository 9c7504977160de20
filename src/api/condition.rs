//! Conditions: the sentences of a status, their types and every reason they can have.
//!
//! Here because status, Events, metrics and the README must use the same words. Each reason's doc line tells the
//! user what to do. Must not decide anything: rooms hand in findings, this file only gives them their shape.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One condition in a status. Old objects may lack any field but `type`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, such as Ready.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
    pub status: String,
    /// One word for the cause.
    #[serde(default)]
    pub reason: String,
    /// The cause in a sentence, and what to do about it.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed (RFC 3339).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    /// The generation of the object that this condition was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The conditions that every OneAgent has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// Every selected node that can run an agent runs the desired one.
    Ready,
    /// Agents run, whatever their version.
    Available,
    /// Something is under way.
    Progressing,
    /// Something needs a human.
    Degraded,
    /// The token that reads hosts.
    ApiToken,
    /// The token that downloads installers.
    PaasToken,
    /// Another OneAgent selects nodes that this one selects.
    NodesConflict,
}

impl ConditionType {
    /// In the order in which a status lists them.
    pub const ALL: [Self; 7] =
        [Self::Ready, Self::Available, Self::Progressing, Self::Degraded, Self::ApiToken, Self::PaasToken, Self::NodesConflict];
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "Ready",
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::ApiToken => "APIToken",
            Self::PaasToken => "PaaSToken",
            Self::NodesConflict => "NodesConflict",
        })
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Every reason a condition can have. The doc line says what to do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[doc = $doc])+ $name),+ }
        impl Reason {
            /// All reasons with their documentation, for the README's table and its test.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, concat!($($doc),+))),+];
        }
        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => stringify!($name)),+ })
            }
        }
    };
}

reasons! {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// Every selected node runs the desired agent. Nothing to do.
    AllUpdated,
    /// Agents are being replaced or started; the message says how many are left and what is waited for.
    RollingOut,
    /// A node that joined has no Ready agent yet. Nothing to do within `waitReadySeconds`.
    Starting,
    /// Some selected nodes have no Ready agent; the message names up to five of them, with the cause of each.
    AgentsUnavailable,
    /// No node is selected: check `nodeSelector` and `tolerations` against `kubectl get nodes --show-labels`.
    NoNodesSelected,
    /// The vendor has not yet said which version is the newest; see the token conditions.
    WaitingForVersion,
    /// Updates are held by `rollout.paused` (set it to false to go on), or for what condition Degraded says.
    Paused,
    /// Updates are held for the whole cluster: delete key `stop` of ConfigMap `oneagent-operator`.
    Stopped,
    /// New agents failed and the update was stopped. Mend the cause and pin the version (`update.version`) to try it again; a newer one is taken by itself.
    RolloutFailed,
    /// Agents run but some do not have the desired version or template; on cordoned or leaving nodes they wait for the node, and the message names such nodes.
    Outdated,
    /// The spec cannot be carried out; the message names the field and the remedy.
    InvalidSpec,
    /// A DaemonSet of this name belongs to someone else: rename the OneAgent or delete the DaemonSet.
    NameTaken,
    /// The original operator still runs in the namespace: remove it first.
    OtherOperatorRunning,
    /// The agents' ServiceAccount is missing: apply the installation manifests, or move the OneAgent.
    ServiceAccountMissing,
    /// The API server refuses the agents' Pods; the message quotes it. On OpenShift grant the SCC, elsewhere label the namespace `pod-security.kubernetes.io/enforce=privileged`.
    PodsRefused,
    /// The namespace's own node selector excludes nodes with a running agent, and any change would remove these: lift it by the command that the message names.
    NamespaceSelector,
    /// The rollout waits for something outside, which the message names; it goes on by itself once that is mended.
    Held,
    /// The API server refuses what the operator writes, by a policy or a webhook; the message quotes it.
    WriteRefused,
    /// A pinned version is not offered by the environment: choose one it offers.
    VersionNotOffered,
    /// A pin or an image below a running version needs `update.allowDowngrade: true`.
    DowngradeNotAllowed,
    /// The running version is no longer offered; Pods that restart could not download it: update or pin another.
    VersionWithdrawn,
    /// The vendor's API cannot be used; agents run on, the message says what it answered.
    EnvironmentUnreachable,
    /// A ConfigMap that the spec names is missing or lacks its key.
    TrustedCAsMissing,
    /// The proxy Secret that the spec names is missing, lacks its key, or holds no URL.
    ProxyInvalid,
    /// The pull secret that the spec names is missing or of another type, or the operator's own cannot be made or written.
    PullSecretInvalid,
    /// Traffic to the environment cannot be let through Istio as `enableIstio` asks; the message says why.
    IstioUnusable,
    /// Another OneAgent selects the same nodes; the message names it, and who keeps them. Make their `nodeSelector`s disjoint.
    NodesConflict,
    /// The token works and has its scope. Nothing to do.
    TokenReady,
    /// The Secret is missing: create it.
    TokenSecretNotFound,
    /// The Secret lacks the key: add it.
    TokenMissing,
    /// The vendor refuses the token, or it has blanks around it: put a valid one into the Secret.
    TokenUnauthorized,
    /// The token lacks a scope: create one that has it.
    TokenScopeMissing,
    /// The token could not be tried; the message says why.
    TokenError,
    /// Not looked at yet; wait for the next look.
    NotYetReported,
}

/// A condition before it is merged into a status: what was found, without times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which condition.
    pub type_: ConditionType,
    /// Its status; `None` is Unknown.
    pub holds: Option<bool>,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(type_: ConditionType, holds: impl Into<Option<bool>>, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, holds: holds.into(), reason, message: message.into() }
    }

    fn status(&self) -> &'static str {
        match self.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// One condition that changed, for an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// What was found.
    pub finding: Finding,
    /// Whether it is worth a Warning.
    pub warning: bool,
}

/// Merges findings into what the status had: a transition time changes only with the condition's status.
/// Entries of types that we do not know are dropped: the status is ours alone.
#[must_use]
pub fn merge(old: &[Condition], findings: &[Finding], generation: Option<i64>, now: DateTime<Utc>) -> (Vec<Condition>, Vec<Transition>) {
    let mut transitions = Vec::new();
    let merged = ConditionType::ALL
        .iter()
        .map(|type_| {
            let name = type_.to_string();
            let before = old.iter().find(|c| c.type_ == name);
            let unknown = || Finding::new(*type_, None, Reason::NotYetReported, "not looked at yet");
            let finding = findings.iter().find(|f| f.type_ == *type_).cloned().unwrap_or_else(unknown);
            let same_status = before.is_some_and(|b| b.status == finding.status());
            let since = before.filter(|b| same_status && !b.last_transition_time.is_empty()).map(|b| b.last_transition_time.clone());
            let changed = !same_status || before.is_some_and(|b| b.reason != finding.reason.to_string());
            if changed && finding.reason != Reason::NotYetReported {
                let bad_when = matches!(type_, ConditionType::Degraded | ConditionType::NodesConflict);
                let warning =
                    finding.holds == Some(bad_when) && !matches!(type_, ConditionType::Progressing | ConditionType::Ready | ConditionType::Available);
                transitions.push(Transition { finding: finding.clone(), warning });
            }
            Condition {
                type_: name,
                status: finding.status().to_owned(),
                reason: finding.reason.to_string(),
                message: finding.message,
                last_transition_time: since.unwrap_or_else(|| timestamp(now)),
                observed_generation: generation,
            }
        })
        .collect();
    (merged, transitions)
}

/// A time as the API server writes it.
#[must_use]
pub fn timestamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn every_condition_exists_from_the_first_visit_on() {
        let (conditions, _) = merge(&[], &[], Some(1), at(0));
        assert_eq!(conditions.len(), ConditionType::ALL.len());
        assert!(conditions.iter().all(|c| c.status == "Unknown" && c.reason == "NotYetReported" && !c.message.is_empty()));
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let ready = |holds, reason| vec![Finding::new(ConditionType::Ready, holds, reason, "m")];
        let (first, events) = merge(&[], &ready(false, Reason::Starting), None, at(0));
        assert_eq!(events.len(), 1);
        let (second, events) = merge(&first, &ready(false, Reason::AgentsUnavailable), None, at(10));
        assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
        assert_eq!(events.len(), 1, "a new reason is an event");
        let (third, events) = merge(&second, &ready(true, Reason::AllUpdated), None, at(20));
        assert_ne!(third[0].last_transition_time, second[0].last_transition_time);
        assert_eq!(events.len(), 1);
        let (_, events) = merge(&third, &ready(true, Reason::AllUpdated), None, at(30));
        assert!(events.is_empty(), "nothing changed, nothing to say");
    }

    #[test]
    fn a_condition_of_the_original_without_a_time_gets_one() {
        let old = Condition { type_: "APIToken".into(), status: "True".into(), reason: "TokenReady".into(), ..Condition::default() };
        let (merged, _) = merge(&[old], &[Finding::new(ConditionType::ApiToken, true, Reason::TokenReady, "m")], None, at(5));
        let api = merged.iter().find(|c| c.type_ == "APIToken").unwrap();
        assert_eq!(api.last_transition_time, "1970-01-01T00:00:05Z");
    }

    #[test]
    fn every_reason_tells_what_to_do() {
        for (reason, doc) in Reason::ALL {
            assert!(doc.trim().ends_with('.') && doc.len() > 20, "{reason}: {doc}");
        }
    }
}
