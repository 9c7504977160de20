//! Places and the Pods there: what the engine is handed of a fleet.
//!
//! A place is where one agent belongs. Which places there are, whether a Pod's revision is the desired one, and what a
//! revision is, the kind has judged before. Must not decide anything.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Policy;
use super::share::Share;

/// What a Pod was made from. Displays as a sentence names it.
pub trait Revision: Clone + Eq + Debug + Display + 'static {
    /// Whether it is another release than `than`, and not only the same one in another template.
    fn is_another_release(&self, than: &Self) -> bool {
        self != than
    }

    /// Whether what failed with `other` is history once this one runs.
    fn supersedes(&self, other: &Self) -> bool {
        self != other
    }
}

/// A hash, say.
impl Revision for String {}

/// Where one agent belongs.
#[derive(Debug, Clone)]
pub struct Place<'a, R> {
    pub name: &'a Arc<str>,
    /// Which of the inventory's workloads it is a replica of; without workloads it means nothing.
    pub workload: usize,
    /// Whose turn it is among the places of its workload: the lowest first, of equal ones the oldest Pod.
    pub rank: i64,
    /// The zone that it is in, where it is in any.
    pub zone: Option<&'a str>,
    /// Whether it is among those that go first, where places are named.
    pub is_canary: bool,
    /// Whether an agent should run there.
    pub selection: Selection,
    /// Whether it is Ready.
    pub is_ready: bool,
    /// Since when it is so.
    pub ready_since: Option<DateTime<Utc>>,
    /// Why it should not be touched now: it is cordoned, say, or about to go.
    pub busy: Option<Cow<'static, str>>,
    /// Whether a user excluded it.
    pub is_left_out: bool,
    /// When it joined.
    pub joined: DateTime<Utc>,
    /// That it lost its agent, as far as this process saw it.
    pub loss: Option<&'a Loss>,
    /// The Pod that is there.
    pub occupant: Option<Occupant<'a, R>>,
}

impl<'a, R> Place<'a, R> {
    /// A selected place that is Ready, in no zone, of which nothing else is known.
    #[must_use]
    pub fn plain(name: &'a Arc<str>, occupant: Option<Occupant<'a, R>>) -> Self {
        Self {
            name,
            workload: 0,
            rank: 0,
            zone: None,
            is_canary: false,
            selection: Selection::Selected,
            is_ready: true,
            ready_since: None,
            busy: None,
            is_left_out: false,
            joined: DateTime::UNIX_EPOCH,
            loss: None,
            occupant,
        }
    }
}

/// An agent that a place lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Since when it has no agent that is Ready.
    pub since: DateTime<Utc>,
    /// Whether a Pod came since, was never Ready and went.
    pub is_futile: bool,
    /// Why the last such Pod was ended, where its status said so.
    pub why: Option<String>,
}

/// A workload that creates its Pods again under other names: which of its replicas is missing is unknown, only how many
/// are. Budgets are per workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// As sentences name it.
    pub name: Arc<str>,
    /// How many of its replicas may be unavailable because of us.
    pub budget: Share,
    /// How many replicas it should have.
    pub expected: usize,
    /// How many of them are available.
    pub available: usize,
    /// Another controller is replacing its Pods: what it lacks is not ours.
    pub is_busy: bool,
    /// Why the API server refuses new Pods of it, if that is known.
    pub refused: Option<String>,
}

impl Workload {
    /// How many of its replicas are not available, for whatever cause.
    #[must_use]
    pub fn unavailable(&self) -> usize {
        self.expected.saturating_sub(self.available)
    }
}

/// Whether an agent should run at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// It should.
    Selected,
    /// It was asked for, and no new Pod may start there.
    Closed(Closed),
    /// It was not asked for; here because the engine remembers it.
    NotSelected,
}

/// Why no new Pod may start at a place, in the kind's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Under which name a status counts it.
    pub name: &'static str,
    /// What closed this one, where the name does not say it.
    pub by: Option<String>,
    /// Whether a Pod that is there runs on.
    pub keeps_pods: bool,
    /// Whether it may open again, so that an agent which we took there is still missing because of us.
    pub may_open: bool,
}

/// A Pod at its place.
#[derive(Debug)]
pub struct Occupant<'a, R> {
    pub pod: &'a Arc<Pod<R>>,
    /// How its revision relates to the desired one.
    pub standing: Standing,
}

// Derived, both would ask the same of the revision.
impl<R> Clone for Occupant<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Occupant<'_, R> {}

/// How a Pod's revision relates to the desired one, as the kind judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As desired, or newer.
    Current,
    /// To be replaced.
    Outdated,
    /// Unknown.
    Unknown,
    /// A report is expected, and has not come yet: it may have updated itself.
    Unheard,
    /// Newer than desired, and left alone: another template cannot be brought to it, or it was rejected.
    HeldBack,
}

/// A Pod of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod<R> {
    pub name: Arc<str>,
    /// What the kind tells it from every other by: its UID. A kind that changes a Pod in place adds what changes, so
    /// that the one that is being changed is another, which is not Ready yet.
    pub id: Arc<str>,
    /// Its resourceVersion: a deletion is refused when the Pod has changed since.
    pub resource_version: Arc<str>,
    /// The node it runs on or is made for.
    pub node: Arc<str>,
    /// What it was made from; `None`: no label says so.
    pub revision: Option<R>,
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
    /// What keeps it from being Ready, where its status says so; or that it crashes again and again, Ready in between.
    pub trouble: Option<Trouble>,
}

impl<R> Pod<R> {
    /// A Pod that was never Ready, made from something unknown.
    #[must_use]
    pub fn named(name: &str, node: &str) -> Self {
        Self {
            name: name.into(),
            id: name.into(),
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
    pub(super) fn was_available(&self, policy: &Policy) -> bool {
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
    /// No scheduler has bound it to a node, or said why not.
    Unbound,
    /// None of its containers was ever started, and nothing says that one failed.
    Unstarted(String),
    /// Its kubelet refused or ended it, and its controller makes another.
    Ended(String),
}
