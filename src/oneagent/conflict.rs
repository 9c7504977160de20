//! A conflict of two OneAgents about nodes, as `overlap` finds it and the status words it.
//!
//! Pure. Must not decide who keeps a node.

use std::sync::Arc;

/// A conflict with another OneAgent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Namespace and name of the other.
    pub other: String,
    /// How many nodes both select.
    pub nodes: usize,
    pub example: Arc<str>,
    /// Who keeps the nodes.
    pub outcome: Outcome,
}

/// What comes of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This one, which is older, keeps them.
    Keeps,
    /// The other one, which is older, keeps them.
    Yields,
    /// Nobody yields: both run there.
    Reported,
}
