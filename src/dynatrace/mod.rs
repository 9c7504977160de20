//! The vendor's REST API: what is asked, how answers and refusals read, and one shared poller per environment.
//!
//! Here so that no other room knows a path, a scope or a status code of it. Must not know Kubernetes.

pub mod client;
pub mod environments;
pub mod error;
pub mod gone;
pub mod needs;
mod poller;
mod schedule;
pub mod snapshot;
pub mod types;

pub use client::{Client, Transport};
pub use environments::Environments;
pub use error::Error;
pub use gone::{GoneNode, Told};
pub use needs::{Access, Interest, Periods, Subscriber};
pub use snapshot::{Snapshot, TokenState};
pub use types::Hosts;
