//! What becomes of Pods.
//!
//! Data. Must not let it happen.

use schemars::JsonSchema;
use serde::Deserialize;

/// What becomes of a Pod that a kubelet starts; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is Ready after so long.
    Ready(i64),
    /// It is Ready soon, and crashes again and again after so long.
    CrashesAfter(i64),
    /// It crashes again and again from the start.
    Crashes,
    /// Its image is pulled, and that takes so long; then it is Ready.
    Pulls(i64),
    /// Its image cannot be pulled.
    NoImage,
    /// Its kubelet has no room for it.
    Refused,
    /// Its node falls silent.
    KillsNode,
}

impl Fate {
    /// Whether no Pod with it stays Ready.
    #[must_use]
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Ready(_) | Self::Pulls(_))
    }
}
