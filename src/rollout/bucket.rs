//! Buckets: every selected node has an available agent, or is in exactly one bucket that says why not.
//!
//! Here because the budget, the failures and the status must come from one reading of the fleet. Must not decide
//! what to do about it.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Desired, Inventory, Pod, Policy, Reported, Source, Trouble};
use crate::api::name::Version;
use crate::k8s::node::Node;
use crate::k8s::placement::{Verdict, has_labels};

/// A Pod whose deletion takes longer than its grace period by so much is said to be stuck.
const STUCK: TimeDelta = TimeDelta::seconds(60);
/// An answer of the environment is a proof that it was there for so long.
const PROOF: TimeDelta = TimeDelta::seconds(120);
/// A Pod that fell into its back-off while the environment was away may stay there for so long afterwards.
const EXCUSED: TimeDelta = TimeDelta::minutes(10);

/// Why a selected node has no available agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumIter)]
#[strum(serialize_all = "camelCase")]
pub enum Bucket {
    /// NotReady before its Pod was touched.
    NodeNotReady,
    /// NotReady after its Pod was replaced.
    NodeLost,
    /// Cordoned, draining or being deleted.
    NodeBusy,
    /// No room.
    Capacity,
    /// The API server refuses the Pod.
    Admission,
    /// The image cannot be pulled.
    Image,
    /// A Secret or ConfigMap that the Pod names is missing.
    Config,
    /// It crashes.
    Crash,
    /// Within its time.
    Starting,
    /// Beyond its time.
    Overdue,
    /// Being deleted.
    Terminating,
}

impl Bucket {
    /// Whether an outdated Pod in this bucket may be replaced without a cost: no agent runs there. Never one that only
    /// starts: it may be Ready in a moment.
    pub(super) fn is_broken(self) -> bool {
        matches!(self, Self::Capacity | Self::Image | Self::Config | Self::Crash | Self::Overdue)
    }

    /// Whether the cause lies outside of any revision and ends by itself once it is mended.
    pub(super) fn is_the_worlds(self) -> bool {
        matches!(self, Self::Admission | Self::Image | Self::Config)
    }
}

/// How a Pod's revision relates to the desired one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// As desired, or newer.
    Current,
    /// To be replaced.
    Outdated,
    /// Nobody reports its version.
    Unknown,
    /// The vendor was not heard yet: the agent may have updated itself.
    Unheard,
    /// Newer than desired, so that another template cannot be brought to it.
    HeldBack,
}

/// One selected node.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent findings about one node")]
pub(super) struct Cell<'a> {
    pub(super) node: &'a Node,
    pub(super) pod: Option<&'a Arc<Pod>>,
    pub(super) standing: Option<Standing>,
    /// `None`: available.
    pub(super) bucket: Option<Bucket>,
    /// Whether this rollout touched it.
    pub(super) touched: bool,
    /// Whether it takes from the budget.
    pub(super) counts: bool,
    /// Whether it speaks against the desired revision.
    pub(super) speaks: bool,
    /// Whether what would speak is only waited with: its deadline, or a proof that the environment was there.
    pub(super) suspect: bool,
    /// Whether it may yet speak against it.
    pub(super) pending: bool,
    /// Born by itself from a template that is not the desired one.
    pub(super) unplanned: bool,
    /// Whether it needs somebody to look.
    pub(super) troubled: bool,
    /// The cause, in the words of whoever knows it.
    pub(super) detail: String,
    /// When this may change without an event.
    pub(super) until: Option<DateTime<Utc>>,
}

/// The fleet, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted<'a> {
    pub(super) cells: Vec<Cell<'a>>,
    pub(super) untolerated: Vec<(&'a Node, String)>,
    pub(super) architecture: Vec<(&'a Node, String)>,
    /// Nodes that the namespace's own node selector excludes.
    pub(super) excluded: Vec<&'a Node>,
    /// Nodes that another OneAgent keeps, and its name.
    pub(super) overlap: Vec<(&'a Node, String)>,
    /// Pods on nodes that no new Pod may start on: the node, and the taint.
    pub(super) surplus: Vec<(&'a Node, String)>,
    /// Nodes whose agent we took and that a taint, which is named, keeps from getting another.
    pub(super) outside: Vec<(&'a Node, String)>,
    /// Whether agents are being replaced.
    pub(super) rolling: bool,
}

/// A selected node, its Pod, and how that stands.
type Place<'a> = (&'a Node, Option<&'a Arc<Pod>>, Option<Standing>);

/// What every cell is judged by.
struct Judge<'p, 'a> {
    policy: &'p Policy,
    desired: Option<&'p Desired>,
    inventory: &'p Inventory<'a>,
    rolling: bool,
    now: DateTime<Utc>,
}

/// Reads the fleet.
pub(super) fn sort<'a>(policy: &Policy, desired: Option<&Desired>, inventory: &Inventory<'a>, now: DateTime<Utc>) -> Sorted<'a> {
    let mut by_node: HashMap<&str, &Arc<Pod>> = HashMap::with_capacity(inventory.pods.len());
    for pod in inventory.pods {
        let slot = by_node.entry(&pod.node).or_insert(pod);
        // A terminating Pod and its replacement can share a node for a moment: the replacement is the agent.
        let is_replacement = slot.deleting && !pod.deleting;
        let is_newer = slot.deleting == pod.deleting && pod.created > slot.created;
        if is_replacement || is_newer {
            *slot = pod;
        }
    }
    let mut sorted = Sorted::default();
    let mut open: Vec<Place<'a>> = Vec::with_capacity(inventory.nodes.len());
    for node in inventory.nodes {
        let pod = by_node.get(&*node.name).copied();
        let has_agent = || pod.is_some_and(|pod| !pod.deleting && pod.ready_since.is_some());
        match policy.placement.verdict(node) {
            Verdict::Selected if is_excluded(inventory, node, pod) => sorted.excluded.push(node),
            Verdict::Selected => open.push((node, pod, pod.map(|pod| standing(desired, inventory, node, pod)))),
            Verdict::NotMatching => {}
            Verdict::Untolerated(taint) => {
                if inventory.lost.contains_key(&node.name) && !has_agent() {
                    sorted.outside.push((node, taint.to_string()));
                }
                if pod.is_some_and(|pod| !pod.deleting && node.busy.is_none()) {
                    sorted.surplus.push((node, taint.to_string()));
                }
                sorted.untolerated.push((node, taint.to_string()));
            }
            Verdict::Architecture(architecture) => sorted.architecture.push((node, architecture)),
            Verdict::Overlap(other) => sorted.overlap.push((node, other)),
        }
    }
    let advanced = inventory.template.is_some() && inventory.template == desired.map(|d| &d.revision);
    let some_outdated = || open.iter().any(|(_, _, standing)| *standing == Some(Standing::Outdated));
    let memory = inventory.memory;
    sorted.rolling = memory.began().is_some() || (advanced && some_outdated());
    let judge = Judge { policy, desired, inventory, rolling: sorted.rolling, now };
    sorted.cells = open.into_iter().map(|(node, pod, standing)| judge.cell(node, pod, standing)).collect();
    sorted
}

/// Whether the namespace keeps agents off a node: it says so, and no Pod got there. Where nobody enforces it Pods do.
fn is_excluded(inventory: &Inventory<'_>, node: &Node, pod: Option<&Arc<Pod>>) -> bool {
    !has_labels(node, inventory.namespace_selector)
        && !inventory.lost.contains_key(&node.name)
        && pod.is_none_or(|pod| matches!(pod.trouble, Some(Trouble::Capacity(_))))
}

fn standing(desired: Option<&Desired>, inventory: &Inventory<'_>, node: &Node, pod: &Pod) -> Standing {
    let Some(desired) = desired else { return Standing::Current };
    let (hash, made_from) = match &pod.revision {
        Some(revision) => (revision.hash.as_str(), revision.version),
        None => (inventory.memory.adopted_hash.as_deref().unwrap_or(&desired.revision.hash), None),
    };
    let same_hash = hash == desired.revision.hash;
    let Some(wanted) = desired.revision.version else {
        return if same_hash { Standing::Current } else { Standing::Outdated };
    };
    // A host goes on to report what it had until its new agent runs: a Pod made as pinned gets its time.
    if made_from == Some(wanted) && (same_hash || desired.strict) {
        return if same_hash { Standing::Current } else { Standing::Outdated };
    }
    // Where versions are kept nobody need know them.
    if desired.keeps_versions && same_hash {
        return Standing::Current;
    }
    // An agent that updated itself is judged by what it is, not by what its Pod was made from.
    let reported = match inventory.reported {
        Reported::Answered(hosts) => node.ip.and_then(|ip| hosts.get(&ip)).copied(),
        Reported::NotYet | Reported::Silent => None,
    };
    let is_silent = matches!(inventory.reported, Reported::Silent);
    let made_from = made_from.or(inventory.memory.adopted_version.filter(|_| is_silent && pod.revision.is_none()));
    // `None` is less than any version.
    let Some(version) = made_from.max(reported) else {
        return match (inventory.reported, same_hash) {
            (Reported::NotYet, _) => Standing::Unheard,
            (_, true) => Standing::Unknown,
            (_, false) => Standing::Outdated,
        };
    };
    let may_be_newer = matches!(inventory.reported, Reported::NotYet);
    if never_ran_and_was_recalled(desired, inventory, pod, made_from, reported) {
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
        // Automatic update never goes backwards, not even to bring in another template.
        (std::cmp::Ordering::Greater, false) => Standing::HeldBack,
        (std::cmp::Ordering::Greater | std::cmp::Ordering::Equal, true) => Standing::Current,
        _ if may_be_newer => Standing::Unheard,
        _ => Standing::Outdated,
    }
}

/// Whether a Pod was made from a newer version than is wanted now, and its agent never ran: that version was recalled before
/// it could be downloaded. What failed is another matter: there going back needs somebody's word.
fn never_ran_and_was_recalled(
    desired: &Desired,
    inventory: &Inventory<'_>,
    pod: &Pod,
    made_from: Option<Version>,
    reported: Option<Version>,
) -> bool {
    let is_recalled = made_from > desired.revision.version && !inventory.memory.rejected.iter().any(|rejected| Some(*rejected) == made_from);
    let never_ran = pod.ready_since.is_none() && pod.was_ready.is_none() && reported < made_from;
    !desired.strict && pod.revision.is_some() && is_recalled && never_ran
}

/// Whether a node that is NotReady became so after a moment. Both times are whole seconds, or of two machines: at the same
/// moment it did.
fn went_since(node: &Node, moment: DateTime<Utc>) -> bool {
    node.ready_since.is_none_or(|since| since.timestamp() >= moment.timestamp())
}

impl<'a> Judge<'_, 'a> {
    fn cell(&self, node: &'a Node, pod: Option<&'a Arc<Pod>>, standing: Option<Standing>) -> Cell<'a> {
        let inventory = self.inventory;
        let mut cell = Cell {
            node,
            pod,
            standing,
            bucket: None,
            touched: false,
            counts: false,
            speaks: false,
            suspect: false,
            pending: false,
            unplanned: self.is_unplanned(pod),
            troubled: false,
            detail: String::new(),
            until: None,
        };
        let touched_at = self.touched_at(node, pod, standing);
        cell.touched = touched_at.is_some();
        let Some((bucket, detail)) = self.bucket(node, pod, touched_at, &mut cell.until) else { return cell };
        (cell.bucket, cell.detail) = (Some(bucket), detail);
        cell.troubled = match bucket {
            Bucket::Starting | Bucket::NodeBusy | Bucket::NodeNotReady => false,
            Bucket::Terminating => pod.and_then(|pod| pod.gone_by).is_some_and(|by| by + STUCK <= self.now),
            _ => true,
        };
        let memory = inventory.memory;
        // Where no agent was available before, none is missing because of us.
        let was_broken = memory.broken.contains(&*node.name);
        cell.counts = cell.touched && !was_broken && bucket != Bucket::NodeBusy;
        if let Some(touched_at) = touched_at.filter(|_| !was_broken) {
            self.verdict(&mut cell, bucket, touched_at);
        }
        cell
    }

    /// Whether the place speaks against the desired revision: at its deadline, or when it crashes again and again.
    fn verdict(&self, cell: &mut Cell<'a>, bucket: Bucket, touched_at: DateTime<Utc>) {
        let memory = self.inventory.memory;
        let made_from_desired = cell.pod.is_none_or(|pod| self.is_from_desired(pod));
        let was_available = cell.pod.is_some_and(|pod| pod.was_available(self.policy));
        let deadline = touched_at + self.policy.wait_ready;
        let overdue = deadline <= self.now;
        let (speaks, needs_proof) = match bucket {
            Bucket::Crash => (!memory.flapping.contains(&*cell.node.name), true),
            Bucket::Overdue => (cell.pod.is_some() && !was_available, true),
            // Where it is not known which came first, the node or the agent, nobody is blamed.
            Bucket::NodeLost => (overdue && !was_available && went_since(cell.node, touched_at), false),
            Bucket::Capacity => (overdue, false),
            _ => (false, false),
        };
        if matches!(bucket, Bucket::NodeLost | Bucket::Capacity) && !overdue {
            cell.until = Some(cell.until.map_or(deadline, |until| until.min(deadline)));
        }
        let proven = !needs_proof || cell.pod.is_none_or(|pod| self.source_was_there(pod));
        cell.speaks = speaks && made_from_desired && proven;
        let has_time = matches!(bucket, Bucket::NodeLost | Bucket::Capacity) && !overdue;
        cell.pending = made_from_desired && (has_time || (speaks && !proven));
        // Long before its time is up it is asked whether the environment is there.
        let half_way = bucket == Bucket::Starting && touched_at + self.policy.wait_ready / 2 <= self.now;
        cell.suspect = (speaks && needs_proof) || half_way;
        if bucket == Bucket::Starting && !half_way {
            let half = touched_at + self.policy.wait_ready / 2;
            cell.until = Some(cell.until.map_or(half, |until| until.min(half)));
        }
    }

    /// Whether the environment that a Pod downloads from was there for it: what it does during an outage, or in the
    /// back-off that follows, is no fault of its version.
    fn source_was_there(&self, pod: &Pod) -> bool {
        let excused = self
            .inventory
            .memory
            .outage
            .is_some_and(|(_, until)| until.is_none_or(|until| pod.created <= until && self.now < until + self.policy.wait_ready.max(EXCUSED)));
        match self.inventory.source {
            Source::NotNeeded => true,
            Source::Away => false,
            Source::Answers(at) => !excused && at >= pod.created && at + PROOF >= self.now,
        }
    }

    fn is_from_desired(&self, pod: &Pod) -> bool {
        pod.revision.is_some() && pod.revision.as_ref() == self.desired.map(|desired| &desired.revision)
    }

    fn is_unplanned(&self, pod: Option<&Arc<Pod>>) -> bool {
        let template = self.inventory.template;
        let elsewhere = template.is_some() && self.desired.is_some_and(|desired| template != Some(&desired.revision));
        let began = self.inventory.memory.started;
        elsewhere && pod.is_some_and(|pod| pod.revision.as_ref() == template && began.is_some_and(|began| pod.created > began))
    }

    /// When this rollout touched a place. What this process did it knows; what was done before it is read from the cluster,
    /// and where that does not say, the place counts as touched: that only slows us.
    fn touched_at(&self, node: &Node, pod: Option<&Arc<Pod>>, standing: Option<Standing>) -> Option<DateTime<Utc>> {
        if let Some(at) = self.inventory.lost.get(&node.name) {
            return Some(*at);
        }
        if pod.is_some_and(|pod| self.inventory.deleted.contains(&pod.uid)) {
            return Some(self.now);
        }
        let began = self.inventory.memory.began();
        // The API's times are whole seconds, so within the same second too.
        let was_there = self.inventory.memory.joined_after.or(began).is_none_or(|last| node.created <= last);
        if !self.rolling || !was_there {
            return None;
        }
        let Some(pod) = pod else {
            let known = began.is_some_and(|began| began > self.inventory.deciding_since);
            let since = self.inventory.missing.get(&node.name).copied().unwrap_or(self.now);
            return (!known).then_some(since);
        };
        if began.map_or_else(|| self.is_from_desired(pod), |began| pod.created >= began) {
            return Some(pod.created);
        }
        (pod.deleting && standing == Some(Standing::Outdated)).then(|| pod.gone_by.unwrap_or(self.now))
    }

    /// Why a place has no available agent; `None`: it has.
    fn bucket(
        &self,
        node: &Node,
        pod: Option<&Arc<Pod>>,
        touched_at: Option<DateTime<Utc>>,
        until: &mut Option<DateTime<Utc>>,
    ) -> Option<(Bucket, String)> {
        if !node.ready {
            return Some(self.away(node, touched_at));
        }
        let Some(pod) = pod else { return Some(self.without_pod(node, until)) };
        if pod.deleting || self.inventory.deleted.contains(&pod.uid) {
            let stuck = pod.gone_by.map(|by| by + STUCK);
            if stuck.is_some_and(|stuck| stuck <= self.now) {
                let why = "the Pod should be gone by now and is not: is its node's kubelet at work, and its container not stuck in a system call?";
                return Some((Bucket::Terminating, why.to_owned()));
            }
            *until = stuck;
            return Some((Bucket::Terminating, "the Pod is being deleted".to_owned()));
        }
        if let Some(since) = pod.ready_since {
            let available = since + self.policy.min_ready;
            // Without a wait the clocks of two machines need not agree.
            if self.policy.min_ready.is_zero() || available <= self.now {
                return None;
            }
            *until = Some(available);
            return Some((Bucket::Starting, format!("Ready, and must stay so for {} s", self.policy.min_ready.num_seconds())));
        }
        if let Some(why) = node.busy {
            return Some((Bucket::NodeBusy, why.to_owned()));
        }
        Some(self.unready(node, pod, until))
    }

    /// A node that is NotReady.
    fn away(&self, node: &Node, touched_at: Option<DateTime<Utc>>) -> (Bucket, String) {
        let lost = (Bucket::NodeLost, "the node became NotReady after its agent was replaced".to_owned());
        if self.inventory.memory.away.contains_key(&*node.name) {
            return lost;
        }
        if let Some(why) = node.busy {
            return (Bucket::NodeBusy, why.to_owned());
        }
        if touched_at.is_some_and(|touched| went_since(node, touched)) { lost } else { (Bucket::NodeNotReady, "the node is NotReady".to_owned()) }
    }

    fn without_pod(&self, node: &Node, until: &mut Option<DateTime<Utc>>) -> (Bucket, String) {
        if let Some(why) = node.busy {
            return (Bucket::NodeBusy, why.to_owned());
        }
        if let Some(refused) = self.inventory.refused {
            return (Bucket::Admission, refused.to_owned());
        }
        let since = self.inventory.missing.get(&node.name).copied().unwrap_or(self.now);
        let deadline = node.ready_since.map_or(since, |ready| since.max(ready)) + self.policy.wait_ready;
        if deadline <= self.now {
            let why = "nobody has made the Pod: does kube-controller-manager run, and is the DaemonSet not being deleted?";
            return (Bucket::Overdue, why.to_owned());
        }
        *until = Some(deadline);
        (Bucket::Starting, "the Pod is not made yet".to_owned())
    }

    fn unready(&self, node: &Node, pod: &Pod, until: &mut Option<DateTime<Utc>>) -> (Bucket, String) {
        let said = match &pod.trouble {
            Some(Trouble::Crash(why)) => return (Bucket::Crash, why.clone()),
            Some(Trouble::Image(why)) => return (Bucket::Image, why.clone()),
            Some(Trouble::Config(why)) => return (Bucket::Config, why.clone()),
            Some(Trouble::Capacity(why)) => return (Bucket::Capacity, why.clone()),
            Some(Trouble::Start(why)) => format!(": {why}"),
            None => String::new(),
        };
        // An agent that was Ready, or whose node was away, gets its time anew.
        let since = [pod.unready_since, node.ready_since].into_iter().flatten().fold(pod.created, DateTime::max);
        let deadline = since + self.policy.wait_ready;
        if deadline <= self.now {
            return (Bucket::Overdue, format!("not Ready within {} s{said}", self.policy.wait_ready.num_seconds()));
        }
        *until = Some(deadline);
        (Bucket::Starting, format!("not Ready yet{said}"))
    }
}
