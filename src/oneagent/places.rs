//! Places of agents: a DaemonSet's nodes and Pods as the engine wants them, and what this kind remembers beside it.
//!
//! Pure. Must not choose a Pod, nor know how fast anything is replaced.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::memory::Memory;
use super::revision::{Adopted, Desired, Judge, Pod, Reported, Revision};
use crate::api::name::Version;
use crate::api::rollout::REJECTED_AT_MOST;
use crate::fleet::closed;
use crate::fleet::daemonsets::{by_node, place};
use crate::k8s::node::Node;
use crate::k8s::placement::{Placement, Verdict, has_labels};
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Loss, Occupant, Place, Policy, Selection, Source, Standing, Trouble, Words};

/// What is waited for, in this kind's words.
pub const WORDS: Words = Words {
    undecided: "the environment has not said which version is the newest",
    authority: "the environment's host list",
    place: "node",
    places: "nodes",
    lacking: "without an available agent",
    template: "the new Pod template",
    closes: "taint",
};

/// All that a decision needs.
#[derive(Debug, Clone)]
pub struct Inventory<'a> {
    /// Every node of the cluster.
    pub nodes: &'a [Arc<Node>],
    /// Every Pod of the DaemonSet.
    pub pods: &'a [Arc<Pod>],
    /// Where agents should run.
    pub placement: &'a Placement,
    /// The revision of the DaemonSet's template; `None` without a DaemonSet.
    pub template: Option<&'a Revision>,
    /// Whether the DaemonSet controller has seen that template.
    pub settled: bool,
    /// UIDs of Pods that we deleted and that the watch still shows.
    pub deleted: &'a HashSet<Arc<str>>,
    /// Nodes that lost an available agent by us and have none yet, as far as this process knows, with the time of it.
    pub lost: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Nodes that lost a broken agent by us and have no Pod yet, as far as this process knows.
    pub freed: &'a HashSet<Arc<str>>,
    /// Nodes that lost their agent, as far as this process saw it.
    pub losses: &'a HashMap<Arc<str>, Loss>,
    /// Pods that may not be deleted now, by UID, and why.
    pub aside: &'a HashMap<Arc<str>, String>,
    /// Since when this process sees nodes without any Pod.
    pub missing: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Since when this process decides: what was done before it does not know.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break.
    pub in_contact_since: DateTime<Utc>,
    /// Versions that the vendor reports.
    pub reported: Reported<'a>,
    /// The environment that Pods download from.
    pub source: Source,
    /// Why the API server refuses new Pods, if it does.
    pub refused: Option<&'a str>,
    /// Labels that the namespace itself wants of nodes. Only the Pods tell whether that is enforced.
    pub namespace_selector: &'a BTreeMap<String, String>,
    /// Labels of the nodes that go first, where the spec names them so.
    pub canary: &'a BTreeMap<String, String>,
    /// What outlived the last call.
    pub memory: &'a Memory,
}

impl<'a> Inventory<'a> {
    /// As the engine wants it, of these places.
    #[must_use]
    pub fn for_engine(&self, places: &'a [Place<'a, Revision>]) -> rollout::Inventory<'a, Revision> {
        rollout::Inventory {
            places,
            workloads: &[],
            template: self.template,
            writes_template: true,
            settled: self.settled,
            deleted: self.deleted,
            lost: self.lost,
            freed: self.freed,
            missing: self.missing,
            deciding_since: self.deciding_since,
            in_contact_since: self.in_contact_since,
            source: self.source,
            refused: self.refused,
            words: WORDS,
            memory: &self.memory.rollout,
        }
    }
}

/// What the engine says, with what this kind remembers beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do now; what it remembers is below.
    pub plan: rollout::Plan<Revision>,
    /// What to remember of it.
    pub memory: Memory,
    /// Whether the vendor's host list is needed.
    pub needs_hosts: bool,
}

/// Asks the engine about the fleet as it is; what the inventory says of the ledger is how it stood at the last look.
/// Returns the present state, and what the steps are bounded by.
#[must_use]
pub fn rollout(
    policy: &Policy,
    desired: Option<&Desired>,
    inventory: &Inventory<'_>,
    ledger: &Ledger,
    now: DateTime<Utc>,
) -> (Decision, Guard, Ledger) {
    let places = places(desired, inventory);
    let wanted = desired.map(wanted);
    let decided = rollout::decide(policy, wanted.as_ref(), &inventory.for_engine(&places), ledger, now);
    (remembered(decided.plan, desired, inventory), decided.guard, decided.ledger)
}

/// Asks the engine.
#[must_use]
pub fn decide(
    policy: &Policy,
    desired: Option<&Desired>,
    inventory: &Inventory<'_>,
    places: &[Place<'_, Revision>],
    now: DateTime<Utc>,
) -> Decision {
    let wanted = desired.map(wanted);
    remembered(rollout::plan(policy, wanted.as_ref(), &inventory.for_engine(places), now), desired, inventory)
}

/// What is desired, as the engine takes it.
#[must_use]
pub fn wanted(desired: &Desired) -> rollout::Desired<Revision> {
    rollout::Desired { revision: desired.revision.clone(), insists: desired.strict }
}

/// A plan, with what this kind remembers beside it.
fn remembered(mut plan: rollout::Plan<Revision>, desired: Option<&Desired>, inventory: &Inventory<'_>) -> Decision {
    let before = inventory.memory;
    let has_originals = inventory.pods.iter().any(|pod| pod.revision.is_none());
    let adopts = desired.filter(|_| inventory.template.is_some() && has_originals);
    let adopt = |desired: &Desired| Adopted { hash: desired.revision.hash.clone(), version: desired.revision.version };
    let memory = Memory {
        rejected: rejected(before, &plan.memory),
        adopted: before.adopted.clone().or_else(|| adopts.map(adopt)),
        rollout: std::mem::take(&mut plan.memory),
        retried: before.retried,
        promoted: before.promoted.clone(),
        reported: before.reported,
    };
    let needs_hosts = has_originals || plan.report.outdated > 0 || plan.report.unknown.count > 0;
    Decision { plan, memory, needs_hosts }
}

/// Versions that failed: a verdict adds one, its withdrawal takes it out again.
fn rejected(before: &Memory, now: &rollout::Memory<Revision>) -> Vec<Version> {
    let mut rejected = before.rejected.clone();
    if let Some(withdrawn) = now.withdrawn.as_ref().filter(|_| now.withdrawn != before.rollout.withdrawn) {
        rejected.retain(|version| Some(*version) != withdrawn.revision.version);
    }
    let failed = now.failure.as_ref().filter(|failure| failure.rejects).and_then(|failure| failure.revision.version);
    if let Some(version) = failed.filter(|version| !rejected.contains(version)) {
        rejected.push(version);
    }
    let surplus = rejected.len().saturating_sub(REJECTED_AT_MOST);
    rejected.split_off(surplus)
}

/// The places of agents. Nodes that are not selected are none, except those that the engine remembers.
#[must_use]
pub fn places<'a>(desired: Option<&Desired>, inventory: &Inventory<'a>) -> Vec<Place<'a, Revision>> {
    let by_node = by_node(inventory.pods);
    let judge = desired.map(|desired| Judge {
        desired,
        reported: inventory.reported,
        adopted: inventory.memory.adopted.as_ref(),
        rejected: &inventory.memory.rejected,
        retried: inventory
            .memory
            .retried
            .filter(|retried| Some(retried.version) == desired.revision.version)
            // The field stays in the spec; what it asked for is over once the rollout is complete.
            .filter(|_| inventory.memory.rollout.last_good.as_ref() != Some(&desired.revision))
            .map(|retried| retried.at),
    });
    let mut places = Vec::with_capacity(inventory.nodes.len());
    for node in inventory.nodes {
        let pod = by_node.get(&*node.name).copied();
        let selection = match inventory.placement.verdict(node) {
            Verdict::Selected if is_excluded(inventory, node, pod) => Selection::Closed(closed::namespace_selector()),
            Verdict::Selected => Selection::Selected,
            Verdict::Untolerated(taint) => Selection::Closed(closed::untolerated(taint.to_string())),
            Verdict::Architecture(architecture) => Selection::Closed(closed::arch(architecture)),
            Verdict::Overlap(other) => Selection::Closed(closed::overlap(other)),
            Verdict::NotMatching if inventory.memory.rollout.touched.away.contains_key(&*node.name) => {
                Selection::NotSelected
            }
            Verdict::NotMatching => continue,
        };
        // Where no new Pod may start, none is replaced.
        let judged = judge.filter(|_| selection == Selection::Selected);
        let standing = |pod: &Pod| judged.map_or(Standing::Current, |judge| judge.standing(node, pod));
        // A cordon keeps no Pod from being made: where they are refused it is not why one is missing.
        let busy = node.busy.filter(|_| pod.is_some() || inventory.refused.is_none());
        places.push(Place {
            is_canary: !inventory.canary.is_empty() && has_labels(node, inventory.canary),
            selection,
            busy: busy.or_else(|| is_skipped(node)).map(Cow::Borrowed).or_else(|| refused(inventory, pod)),
            is_left_out: is_skipped(node).is_some(),
            loss: inventory.losses.get(&node.name),
            ..place(node, pod.map(|pod| Occupant { pod, standing: standing(pod) }))
        });
    }
    places
}

/// Why the Pod may not be deleted now.
fn refused(inventory: &Inventory<'_>, pod: Option<&Arc<Pod>>) -> Option<Cow<'static, str>> {
    inventory.aside.get(&pod?.id).cloned().map(Cow::Owned)
}

/// Label of a node whose agent must not be replaced, whatever its value is, except `false`.
pub const SKIP: &str = "oneagent.dynatrace.com/skip-update";

fn is_skipped(node: &Node) -> Option<&'static str> {
    let label = node.labels.get(SKIP).filter(|value| *value != "false");
    label.map(|_| "the node has label oneagent.dynatrace.com/skip-update")
}

/// Whether the namespace keeps agents off a node: it says so, and no Pod got there. Where it is not enforced, Pods
/// start.
fn is_excluded(inventory: &Inventory<'_>, node: &Node, pod: Option<&Arc<Pod>>) -> bool {
    !has_labels(node, inventory.namespace_selector)
        && !inventory.lost.contains_key(&node.name)
        && pod.is_none_or(|pod| matches!(pod.trouble, Some(Trouble::Capacity(_))))
}
