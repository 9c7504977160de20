//! Telemetry: logs, metrics, probes. What looks at the operator from outside looks here.
//!
//! Must not influence what the operator does.

mod http;
mod logs;
mod metrics;
mod rollouts;
mod secure;

pub use http::{Health, serve};
pub use logs::{LogFormat, start as start_logs};
pub use metrics::{Metrics, States};
pub use rollouts::Rollouts;
pub use secure::{Admission, Gate, serve_securely};
