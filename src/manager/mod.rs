//! The pipeline of kind Manager: resolve → observe → plan → act → status, one file a step; `kind` puts them in. What
//! may exist when, room `stack` says.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
mod authority;
mod blueprint;
mod certificates;
mod contents;
mod context;
mod enrol;
pub mod fleet;
mod identity;
mod issue;
mod kind;
mod leaves;
mod live;
mod objects;
mod observe;
mod part;
mod place;
mod plan;
mod pods;
mod reads;
mod replace;
pub mod resolve;
mod state;
mod status;
mod store;
mod strangers;
#[cfg(test)]
mod tests;
mod watch;

pub use context::Managers;
