//! The vendor's REST API: what is asked, how answers and refusals read, and one shared poller per environment.
//!
//! Here so that nobody else knows a path, a scope or a status code of it. Must not know Kubernetes.

pub mod client;
pub mod environments;
pub mod error;
pub mod gone;
mod poller;
mod schedule;
pub mod types;

pub use client::{Client, Transport};
pub use environments::{Access, Environments, Interest, Periods, Snapshot, Subscriber, TokenState};
pub use error::Error;
pub use gone::{GoneNode, Told};
pub use types::Hosts;
