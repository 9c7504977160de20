//! What a helper says when it ends: that a JVM exports, or why it does not.
//!
//! One line of JSON, which the kubelet hands on as the termination message. Must not touch a process.

use std::fmt;

use serde::Serialize;

/// A termination message has so many bytes at most: the containers of a Pod share twelve KiB.
pub const LONGEST: usize = 400;

/// Why a JVM does not export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumIter)]
pub enum Reason {
    /// There is no JVM that has lived for eight seconds.
    NoJvm,
    /// There are several, and none is process 1.
    SeveralJvms,
    /// It is OpenJ9.
    NotHotSpot,
    /// Its command line or environment switches attaching off, or it answers so.
    AttachDisabled,
    /// The signal that asks it for a socket would end it: `-Xrs`.
    SignalUnsafe,
    /// Its runtime lacks a module that the exporter needs.
    ModuleMissing,
    /// The container has too little memory left.
    LowMemory,
    /// Its `/tmp` cannot be written.
    ReadOnlyTmp,
    /// Its files cannot be reached: another user, more capabilities, another user namespace.
    NotReachable,
    /// A process listens on the port.
    PortInUse,
    /// An exporter is in it already.
    AlreadyExporting,
    /// It was made to load one before, whatever came of it.
    LoadedBefore,
    /// It refused the load.
    LoadFailed,
    /// The endpoint does not answer, or is another process's.
    ScrapeFailed,
    /// The configuration could end the JVM, or cannot be read.
    ConfigRejected,
    /// The JVM did not take the configuration; the previous one is in force.
    ConfigNotTaken,
    /// The kubelet's copy of the configuration is another one than was meant.
    ConfigStale,
    /// The order is too old.
    Expired,
    /// The JVM ended while it was made to load the exporter, or within ten seconds after it.
    Harmed,
    /// Said before anything is done: a helper that ends with its JVM leaves no other word.
    Untouched,
}

/// What a helper says before it does anything.
#[must_use]
pub fn untouched() -> String {
    Refusal::of(Reason::Untouched, "it ended before it touched the JVM").line()
}

/// Why a JVM does not export, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
    /// The user for the next run, where the user is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// When the JVM was touched, if it was all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_at: Option<String>,
}

/// A JVM exports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all_fields = "camelCase")]
pub enum Done {
    Exporting {
        /// When it was asked to load the exporter, if it was now.
        #[serde(skip_serializing_if = "Option::is_none")]
        loaded_at: Option<String>,
    },
}

/// Whose files a process's are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    pub user: u32,
    pub group: u32,
    /// Its effective capabilities, a bit each, as hexadecimal digits.
    pub capabilities: String,
}

impl Refusal {
    pub(super) fn of(reason: Reason, message: impl fmt::Display) -> Self {
        Self { reason, message: message.to_string(), identity: None, loaded_at: None }
    }

    /// As a termination message says it.
    #[must_use]
    pub fn line(&self) -> String {
        let mut said = self.clone();
        let line = |said: &Self| serde_json::to_string(said).unwrap_or_default();
        while line(&said).len() > LONGEST && said.message.len() > 1 {
            said.message.truncate(said.message.trim_end_matches('…').len());
            said.message.pop();
            said.message.push('…');
        }
        line(&said)
    }
}

impl Done {
    /// As a termination message says it.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
