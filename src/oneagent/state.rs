//! What is kept of one OneAgent between two reconciles.
//!
//! Must not decide anything.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fleet::missing::{Missing, Nudges};
use crate::kernel::apply::Belief;
use crate::kernel::aside::Aside;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// What a webhook made of the DaemonSet.
    pub belief: Belief,
    /// When the DaemonSet was touched for its controller's sake.
    pub nudges: Mutex<Nudges>,
    /// Since when selected nodes have no Pod.
    missing: Mutex<Missing>,
    /// Why the API server refused new Pods at the last look.
    refused: Mutex<Option<String>>,
    /// When that was asked.
    asked_why: Mutex<Option<Instant>>,
    /// Pods that the API server refused to delete, by UID, with its words.
    pub aside: Aside<String>,
}

impl Kept {
    /// Since when selected nodes have no Pod, as of the last look.
    pub fn missing(&self) -> Missing {
        self.missing.lock().clone()
    }

    /// Why the API server refused new Pods, as of the last look.
    pub fn refused(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    /// Whether it is time to ask why new Pods are refused, noted as done: looks follow one another quickly.
    pub fn asks_why(&self) -> bool {
        let (mut asked, now) = (self.asked_why.lock(), Instant::now());
        let is_time = asked.is_none_or(|asked| now - asked >= Duration::from_secs(1));
        if is_time {
            *asked = Some(now);
        }
        is_time
    }

    /// Since when selected nodes have no Pod, and why new ones are refused, as of this look.
    pub fn record(&self, missing: Missing, refused: Option<String>) {
        *self.missing.lock() = missing;
        *self.refused.lock() = refused;
    }
}
