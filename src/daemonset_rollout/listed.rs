//! A cluster as a user's lists show it, for commands that read once and judge by the operator's own code.
//!
//! Pure: it is handed the lists. Must not judge anything itself.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use kube::ResourceExt;
use kube::core::DeserializeGuard;

use super::context::DaemonSetRollouts;
use super::memory::{self, Memory};
use super::observe::{Current, Seen, Shown};
use super::resolve::{Resolved, resolve};
use super::revision::{Own, Pod, foreseen, own, revisions};
use crate::api::condition::has;
use crate::api::daemonset_rollout::condition::{ConditionType, Reason};
use crate::api::daemonset_rollout::{DaemonSetRollout, DaemonSetRolloutStatus};
use crate::clock::Clock;
use crate::fleet::missing::Missing;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::k8s::watch::{Id, list};
use crate::kernel::Key;
use crate::kernel::kind::Kind;
use crate::rollout::ledger::Ledger;
use crate::telemetry::Rollouts;

/// What a cluster says.
#[derive(Debug)]
pub struct Listed {
    kind: DaemonSetRollouts,
    objects: Vec<DaemonSetRollout>,
    revisions: Vec<ControllerRevision>,
}

/// Everything that was listed.
#[derive(Debug, Default)]
pub struct Lists {
    pub objects: Vec<DaemonSetRollout>,
    pub nodes: Vec<NodeFacts>,
    pub pods: Vec<PodFacts>,
    pub sets: Vec<DaemonSet>,
    pub revisions: Vec<ControllerRevision>,
}

impl Listed {
    /// Of everything that was listed.
    #[must_use]
    pub fn of(lists: Lists) -> Self {
        let Lists { objects, nodes, pods, sets, revisions } = lists;
        let kind = DaemonSetRollouts::new(Clock::default(), Rollouts::default());
        for object in &objects {
            kind.seen(&DeserializeGuard(Ok(object.clone())));
        }
        list(Id::Name, nodes).for_each(|change| drop(kind.fleet.node(&change)));
        list(Id::Name, pods).for_each(|change| drop(kind.fleet.pod(&change)));
        list(Id::Name, sets).for_each(|change| drop(kind.fleet.daemonset(change)));
        Self { kind, objects, revisions }
    }

    /// The DaemonSetRollouts.
    #[must_use]
    pub fn objects(&self) -> &[DaemonSetRollout] {
        &self.objects
    }

    /// The names of all nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<str>> {
        self.kind.fleet.nodes().iter().map(|node| node.name.clone()).collect()
    }

    /// DaemonSet and Pods of a DaemonSetRollout.
    #[must_use]
    pub fn workload(&self, object: &DaemonSetRollout) -> (Option<Arc<DaemonSet>>, Vec<Arc<Pod>>) {
        let shown = Shown::of(&self.kind.fleet, &of(object), &Memory::default());
        (shown.set, shown.pods)
    }

    /// The revisions of its DaemonSet.
    pub(super) fn own(&self, set: &DaemonSet) -> Vec<Own> {
        own(set, &self.revisions)
    }

    /// What the operator would see of a DaemonSetRollout, and what it remembers; or why its spec is invalid.
    /// `is_edited`: its DaemonSet is one that no controller has seen yet.
    pub(super) fn seen(
        &self,
        object: &DaemonSetRollout,
        is_edited: bool,
        refused: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<(Seen, Memory), String> {
        let resolved: Resolved = resolve(object)?;
        let (key, own_key) = (of(object), (resolved.namespace.clone(), resolved.name.clone()));
        let memory = object.status.as_ref().map(memory::read).unwrap_or_default();
        let fleet = &self.kind.fleet;
        let Shown { set, placement, nodes, pods } = Shown::of(fleet, &key, &memory);
        let resolved = resolved.beside(set.as_deref());
        let known = set.as_ref().and_then(|set| {
            let made = is_edited.then(|| foreseen(set, &self.revisions, &resolved.ignore));
            made.or_else(|| revisions(set, &self.revisions, &resolved.ignore))
        });
        let seen = Seen {
            names: if set.is_none() { fleet.sets(&resolved.namespace) } else { Vec::new() },
            older: fleet.older(&own_key),
            revisions: known.map_or(Current::Unwritten, Current::Known),
            set,
            placement,
            nodes,
            pods,
            ledger: Ledger::default(),
            losses: Arc::default(),
            aside: HashMap::new(),
            undeletable: Vec::new(),
            missing: Missing::new(),
            refused,
            miscounted: None,
            put_back: None,
            unrestorable: None,
            deciding_since: now,
            in_contact_since: DateTime::UNIX_EPOCH,
            stopped: object.status.as_ref().is_some_and(is_stopped),
            resolved,
        };
        Ok((seen, memory))
    }
}

/// The DaemonSet that it names.
fn of(object: &DaemonSetRollout) -> Key {
    (object.namespace().unwrap_or_default(), object.spec.daemon_set.clone())
}

/// Whether the operator was stopped when it looked last.
fn is_stopped(status: &DaemonSetRolloutStatus) -> bool {
    has(&status.conditions, ConditionType::Progressing, Reason::Stopped)
}
