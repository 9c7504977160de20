//! The pipeline of kind DaemonSetRollout: resolve → observe → plan → act → status, one file a step; `kind` puts them
//! in.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
mod context;
pub mod explain;
pub mod fleet;
mod kind;
pub mod listed;
mod memory;
mod observe;
pub mod places;
mod plan;
pub mod preview;
pub mod resolve;
pub mod revision;
mod rollback;
mod source;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod verdict;
mod watch;

pub use context::DaemonSetRollouts;

/// The package's name.
pub const MANAGER: &str = crate::api::daemonset_rollout::package::PACKAGE.name;
