//! The rollout engine: handed what is, it says which template the DaemonSet should have, which Pods to replace now,
//! and what everything else is waiting for.
//!
//! A pure function of its arguments, called on every change; it remembers nothing. What must outlive a call is
//! [`Memory`], which the caller keeps in the cluster. Must not know OneAgent, HTTP, a client, a clock or a log.
//!
//! ```text
//! Policy, Desired, Inventory, now ──▶ bucket::sort ──▶ cells ──▶ decide ──▶ Plan { template, steps, report, memory }
//! ```

mod bucket;
mod decide;
pub mod placement;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::api::name::{Share, Version};
pub use bucket::Bucket;
pub use decide::plan;
pub use placement::{Must, Of, Placement, Requirement, Taint, Toleration};
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
}

/// A node, as far as an agent on it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is Ready.
    pub ready: bool,
    /// Since when it is so.
    pub ready_since: Option<DateTime<Utc>>,
    /// Cordoned, or being deleted, or announced as leaving.
    pub busy: Option<&'static str>,
    /// When it joined.
    pub created: DateTime<Utc>,
    /// Its internal address.
    pub ip: Option<IpAddr>,
}

impl Node {
    /// A Ready node without labels or taints.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            ready: true,
            ready_since: None,
            busy: None,
            created: DateTime::UNIX_EPOCH,
            ip: None,
        }
    }
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
    /// When it was made.
    pub created: DateTime<Utc>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is Ready.
    pub ready_since: Option<DateTime<Utc>>,
    /// Since when it is not.
    pub unready_since: Option<DateTime<Utc>>,
    /// What keeps it from being Ready, where its status says so.
    pub trouble: Option<Trouble>,
}

/// What keeps a Pod from being Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It starts and fails.
    Crash(String),
    /// Its image cannot be pulled.
    Image(String),
    /// There is no room for it.
    Capacity(String),
}

/// What must outlive a call; kept in the status, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// When the rollout under way began.
    pub started: Option<DateTime<Utc>>,
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
    /// Nodes that lost an available agent by us and have none yet, as far as this process knows.
    pub lost: &'a HashSet<Arc<str>>,
    /// Versions that the vendor reports, by node address; `None` when it was not asked.
    pub reported: Option<&'a HashMap<IpAddr, Version>>,
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
    /// Whether it takes from the budget: an available Pod does, a broken or surplus one does not.
    pub costs: bool,
}

/// What to do now, and why nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The template.
    pub template: Template,
    /// Pods to replace, in order.
    pub steps: Vec<Step>,
    /// How many Pods may be unavailable because of us: the deleting room checks it again.
    pub budget: usize,
    /// What everything is waiting for.
    pub report: Report,
    /// What to remember.
    pub memory: Memory,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}
