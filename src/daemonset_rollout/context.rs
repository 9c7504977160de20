//! What the kind is made of, and what a reconcile of a DaemonSetRollout may use.
//!
//! Data. Must not do anything.

use super::fleet::Fleet;
use crate::clock::Clock;
use crate::kernel::kind;
use crate::telemetry::Rollouts;

/// One reconcile of a DaemonSetRollout.
pub type Cx<'r> = kind::Cx<'r, DaemonSetRollouts>;

/// What the kind is made of.
#[derive(Debug)]
pub struct DaemonSetRollouts {
    pub fleet: Fleet,
    pub metrics: Rollouts,
}

impl DaemonSetRollouts {
    /// By this clock; nothing is known yet.
    #[must_use]
    pub fn new(clock: Clock, metrics: Rollouts) -> Self {
        Self { fleet: Fleet::new(clock), metrics }
    }
}
