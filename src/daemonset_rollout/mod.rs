//! The pipeline of kind DaemonSetRollout: resolve → observe → plan → act → status, one file a step; `kind` puts them
//! in.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
mod context;
pub mod fleet;
mod kind;
mod memory;
mod observe;
pub mod places;
mod plan;
pub mod resolve;
pub mod revision;
mod source;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod verdict;
mod watch;

pub use context::DaemonSetRollouts;
