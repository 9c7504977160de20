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
use super::plan::{Missing, Plan};
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
    /// Keeps what a plan found. `believed_after`: fewer Pods than there were are believed after so long.
    pub fn keep(&self, plan: &Plan, believed_after: Duration) {
        self.restless.lock().clone_from(&plan.restless);
        self.missing.lock().clone_from(&plan.missing);
        let (mut peaks, now) = (self.peaks.lock(), Instant::now());
        // Whoever was not seen for so long is gone.
        peaks.retain(|_, peak| peak.at.elapsed() <= believed_after.saturating_mul(2));
        for (uid, pods) in &plan.survey.counted {
            let peak = peaks.entry(uid.clone()).or_insert(Peak { pods: *pods, at: now });
            if *pods >= peak.pods || peak.at.elapsed() > believed_after {
                *peak = Peak { pods: *pods, at: now };
            }
        }
    }

    /// What is blocked now, and why.
    pub fn blocked(&self) -> HashMap<Arc<str>, String> {
        let mut blocked = self.blocked.lock();
        let now = Instant::now();
        blocked.retain(|_, block| block.until > now);
        blocked.iter().map(|(key, block)| (key.clone(), block.why.clone())).collect()
    }

    /// How long until something is not blocked any more.
    pub fn unblocked_in(&self) -> Option<Duration> {
        let until = self.blocked.lock().values().map(|block| block.until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// The most Pods that were seen of workloads of kinds that are not read.
    pub fn peaks(&self) -> HashMap<Arc<str>, usize> {
        self.peaks.lock().iter().map(|(uid, peak)| (uid.clone(), peak.pods)).collect()
    }
}
