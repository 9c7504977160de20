//! What the kind is made of, and what a reconcile of a ConfigWatcher may use.
//!
//! Data. Must not do anything.

use std::sync::Arc;

use super::fleet::Fleet;
use super::turns::Turns;
use crate::clock::Clock;
use crate::kernel::kind;

/// One reconcile of a ConfigWatcher.
pub type Cx<'r> = kind::Cx<'r, ConfigWatchers>;

/// What the kind is made of.
#[derive(Debug)]
pub struct ConfigWatchers {
    pub fleet: Fleet,
    /// One reconcile at a time in each namespace: what one evicts the next must count.
    pub turns: Arc<Turns>,
}

impl ConfigWatchers {
    /// By this clock; nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { fleet: Fleet::new(clock), turns: Arc::default() }
    }
}
