//! The kernel: the only room that writes to Kubernetes, and the ways of reading it that every kind shares.
//!
//! Server-side apply with one field manager, status, Events, deletions within a budget, the lease, watches of named
//! objects, back-off. Must not know OneAgent or the vendor, nor decide what is written.

mod annotate;
pub mod apply;
pub mod aside;
mod chain;
mod client;
pub mod contact;
mod dry_run;
pub mod events;
pub mod feed;
pub mod kind;
pub mod lease;
pub mod named;
pub mod namespaces;
pub mod notes;
pub mod operator;
pub mod optional_api;
pub mod pods;
pub mod refused;
pub mod restore;
pub mod review;
mod rivals;
pub mod runtime;
#[cfg(test)]
pub(crate) mod scripted;
pub mod set;
pub mod singletons;
pub mod state;
pub mod status;
mod step;
pub mod sync;
pub mod triggers;
pub mod upgradeable;

use std::time::Duration;

pub use crate::k8s::watch::Key;
pub use annotate::annotate;
pub(crate) use chain::chain;
pub use client::{Access, Reached, connect, reach, server_time};
pub use contact::ApiContact;
pub use dry_run::dry_run;
pub use events::Events;
pub use named::{Data, Named, NamedKind, Reference};
pub use namespaces::NodeSelectors;
pub use notes::Notes;
pub use optional_api::OptionalApis;
pub use pods::InFlight;
pub use singletons::{Answer, Singletons};
pub use upgradeable::Upgradeable;

/// No single write waits longer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// What can go wrong with the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("cannot {action}")]
    Api {
        /// What was tried, with the object's name.
        action: String,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// A request got no answer.
    #[error("cannot {0}: no answer from the API server within {secs} s", secs = WRITE_TIMEOUT.as_secs())]
    Timeout(String),
    /// A reconcile lasted too long, each of its requests for itself did not.
    #[error(
        "the reconcile of {what} was ended after {secs} s: the API server answers slowly; the next one continues it"
    )]
    Overlong {
        /// Kind, namespace and name.
        what: String,
        /// How long it lasted.
        secs: u64,
    },
    /// Revisions went back: what watches wait for never comes.
    #[error("the cluster's database was restored to an older state (resourceVersion {now} after {before})")]
    Restored {
        /// The newest resourceVersion before.
        before: u64,
        /// The one that came after it.
        now: u64,
    },
    /// An object changed since it was read.
    #[error("cannot {0}: it changed since it was read")]
    Stale(String),
    /// An object could not be read, and nothing may be done without it.
    #[error("cannot read {0}")]
    Unread(String),
    /// An object does not serialise; a defect of ours.
    #[error("cannot serialise")]
    Serialise(#[from] serde_json::Error),
}

impl Error {
    /// Whether the API server says the object changed meanwhile: reconcile again, nothing is wrong.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Stale(_)) || self.has_code(&[409])
    }

    /// Whether the API server answered with one of these HTTP status codes.
    #[must_use]
    pub fn has_code(&self, codes: &[u16]) -> bool {
        let Self::Api { source, .. } = self else { return false };
        matches!(&**source, kube::Error::Api(status) if codes.contains(&status.code))
    }

    /// Whether the API server says that there is no such object, or no such kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.has_code(&[404])
    }

    /// The API server's own message, if it objects to the request: for its content, its rights, a quota, a policy. A
    /// conflict, a plea to come later or trouble of its own are none.
    #[must_use]
    pub fn objection(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) if (400..500).contains(&status.code) && ![409, 429].contains(&status.code) => {
                    Some(status.message.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The API server's own message, if it refuses what was sent for its content: retrying will not fix that.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => match &**source {
                // A policy that denies a request says Invalid, too; but its mind may change.
                kube::Error::Api(status) if status.message.contains(" is forbidden: ") => None,
                kube::Error::Api(status) if status.is_invalid() || status.code == 400 => Some(status.message.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The whole chain in one line, for a log.
    #[must_use]
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// Runs a request with a name and an end.
pub(crate) async fn call<T>(
    action: impl Fn() -> String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(WRITE_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Api { action: action(), source: Box::new(source) }),
        Err(_) => Err(Error::Timeout(action())),
    }
}
