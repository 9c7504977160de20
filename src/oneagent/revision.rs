//! What an agent was made from, and whether that is what is wanted: the versions, hosts and rules of this kind, which
//! the engine does not know.
//!
//! Pure. Must not know how fast anything is replaced.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::api::name::Version;
use crate::fleet::was_there_before;
use crate::k8s::node::Node;
use crate::rollout::{self, Standing};

/// What a Pod was made from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revision {
    /// The agent's version; `None` where the template does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Hash of the template without the version and without placement.
    pub hash: String,
}

/// An agent's Pod; without a revision it is one of the original operator.
pub type Pod = rollout::Pod<Revision>;

impl Revision {
    /// What a Pod was made from whose DaemonSet another client had edited: nothing that we ever made.
    #[must_use]
    pub fn of_an_edit(&self) -> Self {
        Self { hash: "edited".to_owned(), ..self.clone() }
    }
}

impl rollout::Revision for Revision {
    fn is_another_release(&self, than: &Self) -> bool {
        self.version.is_some() && self.version != than.version
    }

    fn supersedes(&self, other: &Self) -> bool {
        other.version < self.version || (other.version == self.version && other.hash != self.hash)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "version {version}"),
            None => f.write_str("the new Pod template"),
        }
    }
}

/// What the fleet is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The revision every Pod should have.
    pub revision: Revision,
    /// Whether any other version is wrong, not only an older one.
    pub strict: bool,
    /// Whether running agents keep their version: the desired one is for Pods that are created again.
    pub keeps_versions: bool,
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

/// What a Pod of the original operator counts as made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    pub hash: String,
    /// Its version, where it will never be reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
}

/// What agents are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// What is wanted.
    pub desired: &'a Desired,
    /// What the vendor reports.
    pub reported: Reported<'a>,
    /// What Pods of the original operator count as.
    pub adopted: Option<&'a Adopted>,
    /// Versions that failed.
    pub rejected: &'a [Version],
    /// Since when the desired version is tried again.
    pub retried: Option<DateTime<Utc>>,
}

impl Judge<'_> {
    /// How an agent's revision relates to the desired one.
    #[must_use]
    pub fn standing(&self, node: &Node, pod: &Pod) -> Standing {
        let desired = self.desired;
        let (hash, made_from) = match &pod.revision {
            Some(revision) => (revision.hash.as_str(), revision.version),
            None => (self.adopted.map_or(desired.revision.hash.as_str(), |adopted| &adopted.hash), None),
        };
        let same_hash = hash == desired.revision.hash;
        // What the user wants tried again is tried where it failed, too.
        let is_before = |retried: DateTime<Utc>| was_there_before(pod.created, retried) && pod.ready_since.is_none();
        if made_from.is_some() && made_from == desired.revision.version && self.retried.is_some_and(is_before) {
            return Standing::Outdated;
        }
        let Some(wanted) = desired.revision.version else {
            return if same_hash { Standing::Current } else { Standing::Outdated };
        };
        // A host still reports what it had until its new agent runs: a Pod made as pinned gets its time.
        if made_from == Some(wanted) && (same_hash || desired.strict) {
            return if same_hash { Standing::Current } else { Standing::Outdated };
        }
        // Where versions are kept they need not be known.
        if desired.keeps_versions && same_hash {
            return Standing::Current;
        }
        // An agent that updated itself is judged by what it is, not by what its Pod was made from.
        let reported = match self.reported {
            Reported::Answered(hosts) => {
                let reported = node.ip.and_then(|ip| hosts.get(&ip)).copied();
                // Of a host whose agent never ran that is reported which ran before: it may refuse an older one.
                let ran_before = is_older(made_from, wanted) && never_ran(pod) && reported <= Some(wanted);
                reported.filter(|_| !ran_before)
            }
            Reported::NotYet | Reported::Silent => None,
        };
        let is_silent = matches!(self.reported, Reported::Silent);
        let adopted = self.adopted.and_then(|adopted| adopted.version);
        let made_from = made_from.or(adopted.filter(|_| is_silent && pod.revision.is_none()));
        // `None` is less than any version.
        let Some(version) = made_from.max(reported) else {
            return match (self.reported, same_hash) {
                (Reported::NotYet, _) => Standing::Unheard,
                (_, true) => Standing::Unknown,
                (_, false) => Standing::Outdated,
            };
        };
        let may_be_newer = matches!(self.reported, Reported::NotYet);
        if self.never_ran_and_was_recalled(pod, made_from, reported) {
            return if may_be_newer { Standing::Unheard } else { Standing::Outdated };
        }
        if desired.strict {
            return match (version == wanted, same_hash) {
                (true, true) => Standing::Current,
                _ if may_be_newer && version < wanted => Standing::Unheard,
                _ => Standing::Outdated,
            };
        }
        match (version.cmp(&wanted), same_hash) {
            // Automatic update never downgrades, not even to bring in another template.
            (Ordering::Greater, false) => Standing::HeldBack,
            // One that was rejected keeps running, and is not what is desired.
            (Ordering::Greater, true) if self.is_rejected(made_from) => Standing::HeldBack,
            (Ordering::Greater | Ordering::Equal, true) => Standing::Current,
            _ if may_be_newer => Standing::Unheard,
            _ => Standing::Outdated,
        }
    }

    fn is_rejected(&self, version: Option<Version>) -> bool {
        self.rejected.iter().any(|rejected| Some(*rejected) == version)
    }

    /// Whether a Pod was made from a newer version than is wanted now, and its agent never ran: that version was
    /// recalled before it could be downloaded. What failed is another matter: there a downgrade needs a user's word.
    fn never_ran_and_was_recalled(&self, pod: &Pod, made_from: Option<Version>, reported: Option<Version>) -> bool {
        let is_recalled = made_from > self.desired.revision.version && !self.is_rejected(made_from);
        let never_had_it = never_ran(pod) && reported < made_from;
        !self.desired.strict && pod.revision.is_some() && is_recalled && never_had_it
    }
}

fn is_older(made_from: Option<Version>, wanted: Version) -> bool {
    made_from.is_some_and(|made_from| made_from < wanted)
}

fn never_ran(pod: &Pod) -> bool {
    pod.ready_since.is_none() && pod.was_ready.is_none()
}
