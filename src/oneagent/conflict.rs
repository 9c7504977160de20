//! A conflict of two OneAgents about nodes, as `overlap` finds it and the status words it.
//!
//! Pure. Must not decide who keeps a node.

use std::fmt;
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

/// Why nobody can say yet which nodes are left to an older OneAgent: until then nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Of the older one nothing is known.
    Unread { older: String, namespace: String },
    /// Its agent still runs on a node that it does not select any more.
    NotLeft { older: String, node: Arc<str> },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread { older, namespace } => write!(
                f,
                "nodes are left to OneAgent {older}, of which nothing is known: the operator cannot read OneAgents in \
                namespace {namespace}; give it back its Role and RoleBinding there, or take the namespace out of \
                WATCH_NAMESPACE. Until then the DaemonSet stays as it is"
            ),
            Self::NotLeft { older, node } => write!(
                f,
                "OneAgent {older} does not select node {node} any more, and its agent still runs there: the DaemonSet \
                stays as it is until that is gone; if it does not go, see what the conditions of {older} say"
            ),
        }
    }
}
