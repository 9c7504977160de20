//! What a plan is made from, and what it says of each component.
//!
//! Data. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::authority::AuthorityPlan;
use super::fleet::Inner;
use super::identity::Enrol;
use super::leaves::Issue;
use super::pods::Server;
use super::resolve::Resolved;
use crate::kernel::kind::Planned;
use crate::rollout::ledger::Ledger;
use crate::stack::table::Table;

/// The state of a component.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display)]
pub enum State {
    /// All its servers serve, as the spec has them.
    Serving,
    /// It exists, and its servers do not all serve yet, or not any more.
    Starting,
    /// What it needs does not serve yet: these.
    Waiting(String),
    /// Some of its servers run an earlier template, and are replaced in turn.
    Updating(String),
    /// Some of its servers run an earlier template, and none may be replaced now.
    Held(String),
    /// It has so many servers, and further ones join one at a time.
    Growing(String),
    /// Its servers are not as many as asked for.
    Outdated(String),
    /// No node matches.
    Unplaced(String),
    /// An object of its name is another owner's.
    Refused(String),
    /// Its entry in the spec has a mistake.
    Invalid(String),
}

/// A component, by its row of the table and its name.
pub type Of = (usize, String);

/// A component as it was found, and what of it is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its row of the table.
    pub row: usize,
    pub name: String,
    pub version: Option<String>,
    /// Hash of what its Pods are to be created from; empty where unknown.
    pub template: String,
    /// UIDs of Pods that carry it, and were created while another client had changed their workload.
    pub strangers: BTreeSet<String>,
    pub state: State,
    /// How many of its servers serve, how many there should be, and how many of those there are nodes for now.
    pub ready: usize,
    pub desired: usize,
    pub placed: usize,
    /// The nodes of its servers; of one that runs on each node, none.
    pub nodes: Vec<String>,
    /// Its objects, where they may be written.
    pub objects: Vec<Value>,
    /// Whether its workload exists.
    pub exists: bool,
    /// What keeps one of its Pods from starting.
    pub trouble: Option<String>,
    /// Which of its Pods should have been Ready long ago.
    pub overdue: Option<String>,
    /// Why one of its Pods is bound to no node.
    pub unbound: Option<String>,
    /// Why it is high time that its Pods get other certificates.
    pub late: Option<String>,
    /// Components that need it and exist, where it does not serve.
    pub left: Vec<String>,
}

impl Part {
    /// Whether a server is as those that are created now.
    #[must_use]
    pub fn is_current(&self, server: &Server) -> bool {
        server.template == self.template && !self.strangers.contains(&server.uid)
    }
}

/// A server to replace by one of the present template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Its component.
    pub of: Of,
    pub pod: String,
    pub uid: String,
}

/// An object that is not wanted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surplus {
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
}

#[derive(Default)]
pub struct Plan {
    pub parts: Vec<Part>,
    pub surplus: Vec<Surplus>,
    pub replacement: Option<Replacement>,
    /// What identifies components, where it is new or changes.
    pub enrolments: Vec<(Of, Enrol)>,
    /// What the authorities of certificates need, where any component has some.
    pub authority: Option<AuthorityPlan>,
    /// Certificates of components whose servers lack some, or whose own run out.
    pub issues: Vec<(Of, Issue)>,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}

impl Planned for Plan {
    type Memory = ();

    fn memory(&self) -> &() {
        &()
    }

    fn ledger(&self) -> Ledger {
        Ledger::default()
    }

    fn has_steps(&self) -> bool {
        self.replacement.is_some() || !self.enrolments.is_empty() || !self.issues.is_empty()
    }
}

/// All that a plan is made from.
#[derive(Clone, Copy)]
pub struct Facts<'f> {
    pub table: &'f Table,
    pub resolved: &'f Resolved,
    /// Templates that replace those of the table, by row and component; or why that is unknown.
    pub templates: &'f BTreeMap<Of, Templates>,
    pub all: &'f Inner,
    /// UIDs of Pods that were deleted a moment ago: the watch may still show them.
    pub deleted: &'f HashSet<String>,
    pub now: DateTime<Utc>,
}

/// Templates by name.
pub type Templates = Result<BTreeMap<String, String>, String>;
