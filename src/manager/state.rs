//! What is kept of one Manager between two reconciles.
//!
//! Must not decide anything.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::kernel::apply::Belief;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// What admission makes of each object, by its kind and name.
    beliefs: Mutex<HashMap<String, Arc<Belief>>>,
    /// UIDs of Pods that were deleted, until the watch shows that they go.
    pub deleted: Mutex<HashSet<String>>,
}

impl Kept {
    /// Of one object.
    pub fn belief(&self, of: &str) -> Arc<Belief> {
        self.beliefs.lock().entry(of.to_owned()).or_default().clone()
    }

    /// Drops what is kept of other objects than these.
    pub fn keep(&self, mut is_known: impl FnMut(&str) -> bool) {
        self.beliefs.lock().retain(|of, _| is_known(of));
    }
}
