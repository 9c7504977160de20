//! What is kept of one DaemonSetRollout between two reconciles.
//!
//! Must not decide anything.

use parking_lot::Mutex;

use super::revision::Listed;
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
}
