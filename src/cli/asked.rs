//! What `explain` and `plan` may be asked, and of which kinds: those that replace the Pods of nodes.
//!
//! Data. Must not read anything.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::read::{Edited, objects};
use crate::fleet::finding::Finding;
use crate::k8s::facts::NodeFacts;
use crate::{daemonset_rollout, oneagent};

/// Kind of objects, as it is typed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PodKind {
    /// Agents of Dynatrace.
    #[default]
    Oneagent,
    /// Any DaemonSet.
    Daemonsetrollout,
}

impl PodKind {
    /// As manifests name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Oneagent => "OneAgent",
            Self::Daemonsetrollout => "DaemonSetRollout",
        }
    }

    /// The operator's name, which is that of its Lease.
    pub(super) fn operator(self) -> &'static str {
        match self {
            Self::Oneagent => oneagent::MANAGER,
            Self::Daemonsetrollout => daemonset_rollout::MANAGER,
        }
    }
}

/// What `explain` is asked.
pub(super) enum Question<'q> {
    /// How every object is.
    All,
    /// How the object of this name is.
    One(&'q str),
    /// What the objects have to do with a node.
    Node { name: &'q str, nodes: &'q [NodeFacts], now: DateTime<Utc> },
}

/// What there is to say of a kind; the error says why there is nothing: no object, or none that may be listed.
pub(super) type Said = Result<Vec<Finding>, String>;

/// That there is no object of a kind.
pub(super) fn none(kind: PodKind, namespace: Option<&str>) -> String {
    let place = namespace.map_or("any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    format!("there is no {} in {place}", kind.name())
}

/// What `plan` is asked about.
#[derive(Debug, clap::Args)]
pub(super) struct Subject {
    /// Name of an object. Default: the objects of the file, or without a file all of the namespace.
    pub(super) name: Option<String>,
    /// Namespace of the objects, where a file names none. Default: dynatrace for OneAgents, all namespaces for other
    /// kinds.
    #[arg(short, long)]
    pub(super) namespace: Option<String>,
    /// File with the edited objects, or with the DaemonSet of a DaemonSetRollout. - is standard input.
    #[arg(short, long)]
    pub(super) file: Option<PathBuf>,
    /// All namespaces, whatever is the default.
    #[arg(skip)]
    pub(super) all: bool,
}

impl Subject {
    /// What its file holds, if there is one.
    pub(super) fn edited(&self) -> Result<Option<Edited>, String> {
        let read = |path: &PathBuf| Ok(Edited { shown: path.display().to_string(), objects: objects(path)? });
        self.file.as_ref().map(read).transpose()
    }

    /// Where OneAgents are, if nothing is said.
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("dynatrace")
    }
}
