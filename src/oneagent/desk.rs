//! What is kept of one OneAgent between two looks at it: gone with the process, so nothing that must outlive one.
//!
//! Must not decide anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::observe::Missing;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::kernel;

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
    /// The last status written.
    written: Mutex<Option<Written>>,
}

/// What a status write needs to know of the last one.
#[derive(Debug)]
pub struct Written {
    pub status: Arc<OneAgentStatus>,
    /// When.
    pub at: Instant,
    /// The object's resourceVersion after it.
    pub version: Option<String>,
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

    /// Since when selected nodes have no Pod, as of this look.
    pub fn saw_missing(&self, missing: Missing) {
        *self.own.missing.lock() = missing;
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

    /// When the status was written last.
    pub fn written_at(&self) -> Option<Instant> {
        self.own.written.lock().as_ref().map(|written| written.at)
    }

    /// A status was written.
    pub fn wrote(&self, written: Written) {
        *self.own.written.lock() = Some(written);
    }

    /// The last status that we know of: our own last write, else what is stored.
    pub fn last_status(&self, object: &OneAgent) -> Arc<OneAgentStatus> {
        let ours = self.own.written.lock().as_ref().map(|written| written.status.clone());
        ours.unwrap_or_else(|| Arc::new(object.status.clone().unwrap_or_default()))
    }

    /// Whether somebody else wrote the status after we did: it is ours alone, and written again.
    pub fn is_foreign(&self, object: &OneAgent) -> bool {
        let written = self.own.written.lock();
        let Some(ours) = &*written else { return false };
        let version = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        let is_newer = version(object.metadata.resource_version.as_deref()) > version(ours.version.as_deref());
        is_newer && object.status.as_ref() != Some(&*ours.status)
    }
}
