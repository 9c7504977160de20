//! What is kept of one OneAgent between two looks at it: gone with the process, so nothing that must outlive one.
//!
//! Must not decide anything.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::observe::Missing;
use crate::api::oneagent::OneAgentStatus;
use crate::kernel;
use crate::kernel::status::LastStatus;

/// The desk of a OneAgent.
pub type Desk = kernel::desk::Desk<Kept>;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// What a webhook made of the DaemonSet: what was applied, and the generation that came of it.
    believed: Mutex<Option<(String, Option<i64>)>>,
    /// When the DaemonSet was touched for its controller's sake.
    nudged: Mutex<Option<Instant>>,
    /// Since when selected nodes have no Pod.
    missing: Mutex<Missing>,
    /// Why the API server refused new Pods at the last look.
    refused: Mutex<Option<String>>,
    /// When that was asked.
    asked_why: Mutex<Option<Instant>>,
    /// The last status written.
    pub status: LastStatus<OneAgentStatus>,
}

impl Desk {
    /// What a webhook made of the DaemonSet, if that is believed.
    pub fn believed(&self) -> MutexGuard<'_, Option<(String, Option<i64>)>> {
        self.own.believed.lock()
    }

    /// Since when selected nodes have no Pod, as of the last look.
    pub fn missing(&self) -> Missing {
        self.own.missing.lock().clone()
    }

    /// Why the API server refused new Pods, as of the last look.
    pub fn refused(&self) -> Option<String> {
        self.own.refused.lock().clone()
    }

    /// Whether it is time to ask why new Pods are refused, noted as done: looks follow one another quickly.
    pub fn asks_why(&self) -> bool {
        let (mut asked, now) = (self.own.asked_why.lock(), Instant::now());
        let is_time = asked.is_none_or(|asked| now - asked >= Duration::from_secs(1));
        if is_time {
            *asked = Some(now);
        }
        is_time
    }

    /// Since when selected nodes have no Pod, and why new ones are refused, as of this look.
    pub fn saw(&self, missing: Missing, refused: Option<String>) {
        *self.own.missing.lock() = missing;
        *self.own.refused.lock() = refused;
    }

    /// How long to wait before the DaemonSet is touched again; `None`: it is time, and noted as done. Pods that have
    /// just begun to be missing have their time first.
    pub fn nudge(&self, every: Duration) -> Option<Duration> {
        let mut nudged = self.own.nudged.lock();
        let now = Instant::now();
        let left = every.checked_sub(now - *nudged.get_or_insert(now)).filter(|left| !left.is_zero());
        if left.is_none() {
            *nudged = Some(now);
        }
        left
    }

    /// No Pod is missing any more.
    pub fn forget_nudge(&self) {
        *self.own.nudged.lock() = None;
    }
}
