//! What is kept of one DaemonSetRollout between two reconciles.
//!
//! Must not decide anything.

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::revision::{Listed, Revision};
use crate::kernel::aside::Aside;
use crate::kernel::refused::Refusals;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// Since when selected nodes have no Pod, and why.
    pub refusals: Refusals,
    /// Pods that the API server refused to delete, by UID, with its words.
    pub aside: Aside<String>,
    /// The DaemonSet's revisions as they were listed last.
    pub listed: Mutex<Option<Listed>>,
    /// Since when the DaemonSet's controller has counted other nodes than this process.
    pub miscounted: Mutex<Option<DateTime<Utc>>>,
    /// The revision that failed and whose template this process replaced, with the generation that had it.
    pub put_back: Mutex<Option<(Revision, Option<i64>)>>,
    /// Why its template could not be replaced, for which generation, and when that was tried.
    pub unrestorable: Mutex<Option<(Option<i64>, String, Instant)>>,
}
