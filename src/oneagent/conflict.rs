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

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Keeps => "this one is older and keeps them",
            Outcome::Yields => "that one is older and keeps them",
            Outcome::Reported => {
                "that one is older, but what it selects cannot be left out here without losing agents: both run \
                there, which harms the hosts"
            }
            Outcome::Undecided => {
                "that one is older, and the node affinity that leaves its nodes out grows too large: the DaemonSet \
                stays as it is"
            }
        };
        let Self { other, nodes, example, .. } = self;
        write!(f, "OneAgent {other} selects {nodes} of these nodes too, such as {example}: {outcome}")
    }
}

/// What comes of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This one, which is older, keeps them.
    Keeps,
    /// The other one, which is older, keeps them.
    Yields,
    /// Neither yields: both run there.
    Reported,
    /// Nothing is written, so no agent starts on a node of the other.
    Undecided,
}

/// Why it is unknown yet which nodes are left to another OneAgent, or has left them: until then nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Of the older one nothing is known.
    Unread { older: String, namespace: String },
    /// Its spec is invalid, and has been since the operator started: its agents run on, on nodes of their own.
    Invalid { older: String },
    /// Its agent still runs on a node that it is to leave.
    NotLeft { older: String, node: Arc<str> },
    /// Its agent still ends on a node.
    Ends { older: String, node: Arc<str> },
    /// It takes too many terms to leave its nodes out.
    TooMany { older: String },
    /// It was deleted, and its agent still runs.
    Orphan { older: String, node: Arc<str> },
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
            Self::Invalid { older } => write!(
                f,
                "OneAgent {older} is older, and its spec is invalid, so the operator cannot tell which nodes are its \
                own: correct it (its conditions say what is wrong), or delete it. Until then the DaemonSet stays as it \
                is"
            ),
            Self::Orphan { older, node } => {
                let (namespace, name) = older.split_once('/').unwrap_or_default();
                write!(
                    f,
                    "OneAgent {older} was deleted, and its agent on node {node} still runs: the DaemonSet stays as it \
                    is until that is gone; if it was left behind on purpose, run kubectl -n {namespace} delete \
                    daemonset {name}"
                )
            }
            Self::NotLeft { older, node } => write!(
                f,
                "OneAgent {older} leaves node {node} to this one, and its agent still runs there: the DaemonSet stays \
                as it is until that is gone; if it does not go, see what the conditions of {older} say"
            ),
            Self::Ends { older, node } => write!(
                f,
                "the agent of OneAgent {older} on node {node} is still ending: the DaemonSet stays as it is until \
                that is gone"
            ),
            Self::TooMany { older } => write!(
                f,
                "OneAgent {older} is older and selects some of these nodes, and the node affinity that leaves out \
                its nodes and those of other older OneAgents grows too large: make their spec.nodeSelector disjoint \
                by one label that all of them name, or merge some of them. Until then the DaemonSet stays as it is"
            ),
        }
    }
}
