//! The pipeline of kind ConfigWatcher: resolve → observe → plan → act → status, one file a step; `kind` puts them in.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
pub mod change;
mod context;
pub mod fleet;
#[cfg(test)]
mod goldens;
mod kind;
mod memory;
mod observe;
pub mod places;
mod plan;
pub mod resolve;
pub mod revision;
mod state;
mod status;
#[cfg(test)]
mod tests;
pub mod turns;
mod watch;

pub use context::ConfigWatchers;
