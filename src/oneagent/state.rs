//! What is kept of one OneAgent between two reconciles.
//!
//! Must not decide anything.

use parking_lot::Mutex;

use crate::fleet::missing::Nudges;
use crate::kernel::apply::Belief;
use crate::kernel::aside::Aside;
use crate::kernel::refused::Refusals;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// What a webhook made of the DaemonSet.
    pub belief: Belief,
    /// When the DaemonSet was touched for its controller's sake.
    pub nudges: Mutex<Nudges>,
    /// Since when selected nodes have no Pod, and why.
    pub refusals: Refusals,
    /// Pods that the API server refused to delete, by UID, with its words.
    pub aside: Aside<String>,
}
