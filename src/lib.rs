//! wip
pub mod api;
pub mod cli;
pub mod dynatrace;
pub mod kernel;
pub mod olm;
pub mod oneagent;
pub mod rollout;
pub mod telemetry;
