//! The conditions of a PrometheusJmxExporter, and every reason that they can have. Each reason's doc line tells the
//! user what to do: the table of docs/jmx.md is made of these lines.
//!
//! Must not decide which one holds.

use crate::api::condition::{self, Weight};

/// What was found about one condition.
pub type Finding = condition::Finding<ConditionType, Reason>;

/// The conditions that every PrometheusJmxExporter has from the first visit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum ConditionType {
    /// Every selected JVM exports, with the configuration as it is.
    Ready,
    /// Something is under way.
    Progressing,
    /// Someone must act.
    Degraded,
}

impl condition::Type for ConditionType {
    condition::common_conditions!(Reason);
    const HALTED: &'static str = "no JVM is attached to until that is fixed; those that export go on";

    fn weight(self, holds: Option<bool>, reason: Reason) -> Weight {
        match (self, reason) {
            (_, Reason::AsExpected | Reason::NotYetReported) => Weight::Quiet,
            (Self::Degraded, _) if holds != Some(true) => Weight::Quiet,
            (Self::Degraded, _) => Weight::Warning,
            (Self::Ready | Self::Progressing, _) => Weight::Normal,
        }
    }
}

/// Every reason a condition can have. The doc line says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumIter, strum::EnumMessage)]
pub enum Reason {
    /// All is as it should be. Nothing to do.
    AsExpected,
    /// All selected JVMs export, with the configuration as it is.
    AllExporting,
    /// The operator attaches to JVMs. The message says how many are left and what it waits for.
    Attaching,
    /// JVMs do not export yet, and `rollout.windows` or `rollout.blackouts` let none be attached to now. The message
    /// says until when.
    Held,
    /// Some JVMs are left alone. The message counts them by reason and names up to five of each. `status.jvms.examples`
    /// says what helps. All others export.
    JvmsRefused,
    /// The selector matches no Pod that runs: check `labelSelector` against `kubectl get pods --show-labels`.
    NoPodsSelected,
    /// The ConfigMap does not exist: create it, or correct `config.configMapName`. JVMs that export continue.
    ConfigMapNotFound,
    /// The ConfigMap lacks the key: add it, or correct `config.configMapKey`. JVMs that export continue.
    ConfigKeyNotFound,
    /// The ConfigMap cannot be read: grant the operator list and watch on ConfigMaps of this namespace.
    ConfigMapUnreadable,
    /// The configuration could end a JVM, or is not YAML, or the exporter did not take it. The message names the key
    /// and its line. Correct the ConfigMap: the next one is tried. JVMs that export keep the previous one.
    ConfigRejected,
    /// `rollout.paused` is true: set it to false to continue.
    Paused,
    /// Key `stop` of ConfigMap `jmx-exporter-operator` in the operator's namespace stops everything: delete the key to
    /// continue.
    Stopped,
    /// A JVM, or its container, ended within ten seconds after it loaded the exporter, or its Pod ceased to be Ready.
    /// No other JVM is attached to. Look at its log. Then edit the spec to continue, such as a new text in
    /// `rollout.retry`.
    AttachHarmful,
    /// The spec is invalid. The message names the field and the remedy. JVMs that export continue.
    InvalidSpec,
    /// The operator may not read what it decides from. The message quotes the API server. Grant it that right.
    RightsMissing,
    /// The API server keeps rejecting or failing what the operator asks of it. The message quotes it. Fix the policy,
    /// webhook or server. The operator tries again.
    WriteRefused,
    /// The operator does not know its own image, which the containers that join Pods run: name it in variable
    /// `OPERATOR_IMAGE` of its Deployment.
    ImageUnknown,
    /// The operator has not looked at the object yet.
    NotYetReported,
}
