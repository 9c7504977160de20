//! The pipeline of kind OneAgent: resolve → observe → plan → act → status, one file a step; `kind` puts them in.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
mod admitted;
mod apply;
pub mod build;
mod conflict;
mod context;
mod done;
pub mod explain;
pub mod fleet;
pub mod from_cluster;
#[cfg(test)]
mod goldens;
mod hold;
mod kind;
pub mod known;
pub mod listed;
pub mod memory;
mod metrics;
pub mod observe;
pub mod overlap;
pub mod peers;
pub mod places;
pub mod plan;
pub mod preview;
mod problem;
pub mod rehearsal;
pub mod resolve;
pub mod revision;
mod state;
pub mod status;
#[cfg(test)]
mod tests;
pub mod version;
mod watch;

pub use context::{OneAgents, Settings};
pub use metrics::OwnMetrics;
pub use watch::LABEL;

/// The package's name: field manager, Event source, and name of Lease and stop ConfigMap.
pub const MANAGER: &str = crate::api::oneagent::package::PACKAGE.name;
