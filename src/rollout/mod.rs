//! The rollout engine: handed what is, it says which template the DaemonSet should have, which Pods to replace now,
//! and what everything else is waiting for.
//!
//! A pure function of its arguments, called on every change; it remembers nothing. What must outlive a call is
//! [`Memory`], which the caller keeps in the cluster. Must not know OneAgent, HTTP, a client, a clock or a log.
//!
//! ```text
//! Policy, Desired, Inventory, now ──▶ bucket::sort ──▶ cells ──▶ decide ──▶ Plan { template, steps, report, memory }
//! Policy, nodes, Pods ──▶ guard: the last word before a Pod goes
//! ```

mod bucket;
mod decide;
pub mod guard;
mod report;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::api::name::{Share, Version};
use crate::k8s::node::Node;
use crate::k8s::placement::Placement;
pub use bucket::Bucket;
pub use decide::plan;
pub use report::{Report, State, WaitingOn};

/// What a Pod was made from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision {
    /// The agent's version; `None` where the template does not say it.
    pub version: Option<Version>,
    /// Hash of the template without the version and without placement.
    pub hash: String,
}

/// What the fleet shall become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The revision every Pod shall have.
    pub revision: Revision,
    /// Whether any other version is wrong, not only an older one.
    pub strict: bool,
    /// Whether running agents keep their version: the desired one is for Pods that are made anew.
    pub keeps_versions: bool,
}

/// How fast, and whether at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many selected nodes may be without an available Pod because of us.
    pub budget: Share,
    /// How long a Pod must be Ready to count as available.
    pub min_ready: TimeDelta,
    /// Within which time a Pod must become available.
    pub wait_ready: TimeDelta,
    /// Why nothing may be replaced.
    pub hold: Option<Hold>,
    /// Where Pods run.
    pub placement: Placement,
}

/// Why nothing may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// `rollout.paused`.
    Paused,
    /// The stop for the whole cluster.
    Stopped,
    /// An older agent is wanted, and that is not allowed.
    Downgrade,
    /// The Secret with the tokens is not there as Pods need it.
    Tokens,
    /// The environment that Pods download from does not answer, refuses the token or does not offer the version.
    Environment,
    /// The namespace's own node selector excludes nodes with a running agent: a write would take these.
    NamespaceSelector,
}

/// A Pod of the DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion: a deletion is refused when the Pod has changed since.
    pub resource_version: Arc<str>,
    /// The node it runs on or is made for.
    pub node: Arc<str>,
    /// What it was made from; `None` for a Pod of the original operator.
    pub revision: Option<Revision>,
    /// Which of the templates that its controller has had it was made from, where the controller says so.
    pub template_generation: Option<u32>,
    /// When it was made.
    pub created: DateTime<Utc>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When its grace period ends, if it is being deleted.
    pub gone_by: Option<DateTime<Utc>>,
    /// Since when it is Ready.
    pub ready_since: Option<DateTime<Utc>>,
    /// Since when it is not.
    pub unready_since: Option<DateTime<Utc>>,
    /// For how long it was Ready before it ceased to be, as far as is known; `None`: it never was.
    pub was_ready: Option<TimeDelta>,
    /// Restarts of its containers.
    pub restarts: i32,
    /// What keeps it from being Ready, where its status says so.
    pub trouble: Option<Trouble>,
}

impl Pod {
    /// A Pod that was never Ready, of the original operator.
    #[must_use]
    pub fn named(name: &str, node: &str) -> Self {
        Self {
            name: name.into(),
            uid: name.into(),
            resource_version: "1".into(),
            node: node.into(),
            revision: None,
            template_generation: None,
            created: DateTime::UNIX_EPOCH,
            deleting: false,
            gone_by: None,
            ready_since: None,
            unready_since: None,
            was_ready: None,
            restarts: 0,
            trouble: None,
        }
    }

    /// Whether it was available once, though it is not Ready now.
    fn was_available(&self, policy: &Policy) -> bool {
        self.was_ready.is_some_and(|ready| ready >= policy.min_ready)
    }
}

/// What keeps a Pod from being Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It starts and fails, again and again.
    Crash(String),
    /// Its image cannot be pulled.
    Image(String),
    /// A Secret or ConfigMap that it names is missing.
    Config(String),
    /// There is no room for it.
    Capacity(String),
    /// It does not start, which is not held against it before its time is up.
    Start(String),
}

/// What must outlive a call; kept in the status, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// When the rollout under way began.
    pub started: Option<DateTime<Utc>>,
    /// Since when places may lack an agent because of us: for longer than one rollout, where that failed.
    pub touched_since: Option<DateTime<Utc>>,
    /// Nodes that are younger than this joined since the last rollout began.
    pub joined_after: Option<DateTime<Utc>>,
    /// When the last one was completed.
    pub finished: Option<DateTime<Utc>>,
    /// Where the rollout began.
    pub from: Option<Version>,
    /// The last revision with which a rollout was completed.
    pub last_good: Option<Revision>,
    /// The failure that stopped a rollout.
    pub failure: Option<Failure>,
    /// Versions that failed.
    pub rejected: Vec<Version>,
    /// Hash that Pods of the original operator count as having.
    pub adopted_hash: Option<String>,
    /// Version that they count as having where nobody will ever report it.
    pub adopted_version: Option<Version>,
    /// Nodes that went away after this rollout touched them, and since when those are gone that were removed.
    pub away: BTreeMap<String, Option<DateTime<Utc>>>,
    /// Nodes without an available agent when this rollout touched them.
    pub broken: BTreeSet<String>,
    /// Nodes whose agent restarted again and again before this rollout touched them.
    pub flapping: BTreeSet<String>,
    /// What the world keeps from starting.
    pub stuck: Option<Stuck>,
    /// When the environment that Pods download from was away the last time: since when, and until when.
    pub outage: Option<(DateTime<Utc>, Option<DateTime<Utc>>)>,
    /// A verdict that was withdrawn, and how often.
    pub withdrawn: Option<(Revision, u32)>,
}

impl Memory {
    /// Since when places may lack an agent because of us.
    fn began(&self) -> Option<DateTime<Utc>> {
        self.touched_since.or(self.started)
    }

    /// Nothing that happened before matters any more.
    fn forget_places(&mut self) {
        (self.touched_since, self.joined_after) = (None, None);
        self.away.clear();
        self.broken.clear();
        self.flapping.clear();
    }
}

/// New Pods do not start for a cause that is not the revision's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Which revision's Pods: another one may well start.
    pub revision: Revision,
    /// How far that has come.
    pub phase: StuckPhase,
    /// Since when.
    pub since: DateTime<Utc>,
    /// How often a single place was tried in vain.
    pub tries: u32,
}

/// How far it has come with Pods that do not start for a cause that is not the revision's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckPhase {
    /// They have their time.
    Waiting,
    /// The template went back, so that nodes which join have an agent.
    Back,
    /// One place is tried.
    Trial,
}

/// The failure that stopped a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub revision: Revision,
    /// Whether it had been pinned: pinning a version that failed is the user's word to try again.
    pub strict: bool,
    /// How, and where.
    pub message: String,
    /// The nodes that spoke against it, bounded.
    pub nodes: Vec<String>,
}

/// What the vendor's host list says.
#[derive(Debug, Clone, Copy)]
pub enum Reported<'a> {
    /// Versions by node address, from an answer newer than what is desired.
    Answered(&'a HashMap<IpAddr, Version>),
    /// No such answer yet.
    NotYet,
    /// None will come: it was refused for good, or failed for too long.
    Silent,
}

/// The environment that Pods download from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They download from none.
    NotNeeded,
    /// It answered well at this time, the last time that it was asked.
    Answers(DateTime<Utc>),
    /// It is away, or refuses.
    Away,
}

/// All that a decision needs.
#[derive(Debug, Clone)]
pub struct Inventory<'a> {
    /// Every node of the cluster.
    pub nodes: &'a [Arc<Node>],
    /// Every Pod of the DaemonSet.
    pub pods: &'a [Arc<Pod>],
    /// The revision of the DaemonSet's template; `None` without a DaemonSet.
    pub template: Option<&'a Revision>,
    /// Whether the DaemonSet controller has seen that template.
    pub settled: bool,
    /// UIDs of Pods that we deleted and that the watch still shows.
    pub deleted: &'a HashSet<Arc<str>>,
    /// Nodes that lost an available agent by us and have none yet, as far as this process knows, with the time of it.
    pub lost: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Since when this process sees nodes without any Pod.
    pub missing: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Since when this process decides: what was done before it does not know.
    pub deciding_since: DateTime<Utc>,
    /// Versions that the vendor reports.
    pub reported: Reported<'a>,
    /// The environment that Pods download from.
    pub source: Source,
    /// Why the API server refuses new Pods, if it does.
    pub refused: Option<&'a str>,
    /// Labels that the namespace itself wants of nodes. Whether anybody enforces that only the Pods tell.
    pub namespace_selector: &'a BTreeMap<String, String>,
    /// What outlived the last call.
    pub memory: &'a Memory,
}

/// Which template the DaemonSet shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// The one it has.
    Keep,
    /// The desired one.
    Advance,
    /// The last good one.
    GoBack,
}

/// One Pod to replace now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// Whether it takes from the budget: an available Pod does, a broken one does not.
    pub costs: bool,
}

/// What to do now, and why nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The template.
    pub template: Template,
    /// Pods to replace, in order.
    pub steps: Vec<Step>,
    /// How many Pods may be unavailable because of us.
    pub budget: usize,
    /// Whether the vendor's host list is needed.
    pub needs_hosts: bool,
    /// Whether it must be known soon that the environment is there.
    pub needs_proof: bool,
    /// What everything is waiting for.
    pub report: Report,
    /// What to remember.
    pub memory: Memory,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}
