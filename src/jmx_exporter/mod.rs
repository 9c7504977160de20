//! The pipeline of kind PrometheusJmxExporter: resolve → observe → plan → act → status, one file a step; `kind` puts
//! them in.
//!
//! Here is its table of contents. Must not hold logic of its own.

mod act;
mod again;
mod context;
mod export;
pub mod fleet;
#[cfg(test)]
mod goldens;
mod harm;
mod judge;
mod kind;
mod marks;
mod memory;
pub mod metrics;
mod observe;
mod plan;
mod pool;
mod request;
pub mod resolve;
mod run;
mod standing;
mod state;
mod status;
mod target;
#[cfg(test)]
mod tests;

mod watch;

pub use context::JmxExporters;
