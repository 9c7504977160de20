//! What is kept of one ConfigWatcher between two looks at it: gone with the process, so nothing that must outlive one.
//!
//! Must not decide anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::change::Restless;
use super::observe::Content;
use super::places::Sign;
use crate::api::config_watcher::ConfigWatcherStatus;
use crate::kernel;
use crate::kernel::status::LastStatus;

/// The desk of a ConfigWatcher.
pub type Desk = kernel::desk::Desk<Kept>;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The last status written.
    pub status: LastStatus<ConfigWatcherStatus>,
    /// The ConfigMap as it was read last, and the number of its change.
    pub content: Mutex<Option<(Option<u64>, Content)>>,
    /// A change that may not be the last one.
    pub restless: Mutex<Option<Restless>>,
    /// Since when workloads lack the same replicas, and what they looked like then.
    pub missing: Mutex<Missing>,
    /// What may not be evicted, by workload or by UID of the Pod.
    pub blocked: Mutex<HashMap<Arc<str>, Block>>,
    /// When a Pod was evicted last.
    pub evicted_at: Mutex<Option<DateTime<Utc>>>,
    /// How many Pods workloads of kinds that are not read had, by the UID of their controller.
    pub peaks: Mutex<HashMap<Arc<str>, Peak>>,
}

/// By workload.
pub type Missing = HashMap<Arc<str>, (DateTime<Utc>, Sign)>;

/// Why something is not evicted, and until when nobody asks again.
#[derive(Debug, Clone)]
pub struct Block {
    pub why: String,
    pub until: Instant,
}

/// The most Pods that were seen of a workload, and when last.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    pub pods: usize,
    pub at: Instant,
}

impl Kept {
    /// Notes how many Pods there are; fewer are believed after a while.
    pub fn counted(&self, uid: &Arc<str>, pods: usize, believed_after: Duration) {
        let mut peaks = self.peaks.lock();
        // Whoever was not seen for so long is gone.
        peaks.retain(|_, peak| peak.at.elapsed() <= believed_after * 2);
        let now = Instant::now();
        let peak = peaks.entry(uid.clone()).or_insert(Peak { pods, at: now });
        if pods >= peak.pods || peak.at.elapsed() > believed_after {
            *peak = Peak { pods, at: now };
        }
    }

    /// What is blocked now.
    pub fn blocked(&self) -> HashMap<Arc<str>, Block> {
        let mut blocked = self.blocked.lock();
        let now = Instant::now();
        blocked.retain(|_, block| block.until > now);
        blocked.clone()
    }
}
