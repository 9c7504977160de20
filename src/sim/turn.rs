//! What happens in Pods whose containers run.
//!
//! Data. Must not let it happen.

use serde_json::Value;

/// What happens in a Pod whose containers run.
#[derive(Debug, Clone)]
pub enum Turn {
    /// The state of the container with this name, which joined.
    Joined(String, Value),
    /// Its own container ends and is started again.
    Restart,
    /// Its own container is Ready, or no longer.
    Ready(bool),
}
