//! Buckets: every selected node has an available agent, or is in exactly one bucket that says why not.
//!
//! Here because the budget, the failures and the status must come from one reading of the fleet. Must not decide
//! what to do about it.

use std::collections::HashMap;
use std::fmt;

use chrono::{DateTime, Utc};

use super::placement::{Verdict, has_labels};
use super::{Desired, Inventory, Node, Pod, Policy, Trouble};

/// Why a selected node has no available agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// In the order of the status.
    pub const ALL: [Self; 10] = [
        Self::NodeNotReady,
        Self::NodeLost,
        Self::NodeBusy,
        Self::Capacity,
        Self::Admission,
        Self::Image,
        Self::Crash,
        Self::Starting,
        Self::Overdue,
        Self::Terminating,
    ];

    /// Whether an outdated Pod in this bucket may be replaced at once, for it costs nothing.
    pub(super) fn replaceable(self) -> bool {
        matches!(self, Self::Capacity | Self::Image | Self::Crash | Self::Starting | Self::Overdue)
    }

    /// Whether it speaks against a new revision when its Pod has it.
    fn blames_revision(self) -> bool {
        matches!(self, Self::NodeLost | Self::Admission | Self::Image | Self::Crash | Self::Overdue)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeNotReady => "nodeNotReady",
            Self::NodeLost => "nodeLost",
            Self::NodeBusy => "nodeBusy",
            Self::Capacity => "capacity",
            Self::Admission => "admission",
            Self::Image => "image",
            Self::Crash => "crash",
            Self::Starting => "starting",
            Self::Overdue => "overdue",
            Self::Terminating => "terminating",
        })
    }
}

/// How a Pod's revision relates to the desired one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Currency {
    /// As desired, or newer.
    Updated,
    /// To be replaced.
    Outdated,
    /// A Pod of the original operator whose version nobody reports.
    Unknown,
}

/// One selected node.
#[derive(Debug)]
pub(super) struct Cell<'a> {
    pub(super) node: &'a Node,
    pub(super) pod: Option<&'a std::sync::Arc<Pod>>,
    pub(super) currency: Option<Currency>,
    /// `None`: available.
    pub(super) bucket: Option<Bucket>,
    /// Whether it takes from the budget.
    pub(super) counts: bool,
    /// Whether it speaks against the desired revision.
    pub(super) failure: bool,
    /// Born by itself from a template that is not the desired one.
    pub(super) unplanned: bool,
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
    /// Pods on nodes that they no longer tolerate.
    pub(super) surplus: Vec<&'a std::sync::Arc<Pod>>,
}

/// Reads the fleet.
pub(super) fn sort<'a>(policy: &Policy, desired: Option<&Desired>, inventory: &Inventory<'a>, rolling: bool, now: DateTime<Utc>) -> Sorted<'a> {
    let mut by_node: HashMap<&str, &std::sync::Arc<Pod>> = HashMap::with_capacity(inventory.pods.len());
    for pod in inventory.pods {
        // A terminating Pod and its replacement can share a node for a moment: the replacement is the agent.
        let slot = by_node.entry(&pod.node).or_insert(pod);
        if (slot.deleting, pod.created) > (pod.deleting, slot.created) && (slot.deleting || !pod.deleting) {
            *slot = pod;
        }
    }
    let mut sorted = Sorted::default();
    for node in inventory.nodes {
        let pod = by_node.get(&*node.name).copied();
        match policy.placement.verdict(node) {
            Verdict::Selected if is_excluded(inventory, node, pod) => sorted.excluded.push(node),
            Verdict::Selected => sorted.cells.push(cell(policy, desired, inventory, rolling, now, node, pod)),
            Verdict::NotMatching => {}
            Verdict::Untolerated(taint) => {
                sorted.surplus.extend(pod.filter(|pod| !pod.deleting && node.busy.is_none()));
                sorted.untolerated.push((node, taint.to_string()));
            }
            Verdict::Architecture(architecture) => sorted.architecture.push((node, architecture)),
        }
    }
    sorted
}

/// Whether the namespace keeps agents off a node: it says so, and no Pod got there. Where nobody enforces it Pods do.
fn is_excluded(inventory: &Inventory<'_>, node: &Node, pod: Option<&std::sync::Arc<Pod>>) -> bool {
    !has_labels(node, inventory.namespace_selector)
        && !inventory.lost.contains(&node.name)
        && pod.is_none_or(|pod| matches!(pod.trouble, Some(Trouble::Capacity(_))))
}

fn currency(desired: Option<&Desired>, inventory: &Inventory<'_>, node: &Node, pod: &Pod) -> Currency {
    let Some(desired) = desired else { return Currency::Updated };
    let reported = node.ip.and_then(|ip| inventory.reported?.get(&ip)).copied();
    let (hash, made_from) = match &pod.revision {
        Some(revision) => (revision.hash.as_str(), revision.version),
        None => (inventory.memory.adopted_hash.as_deref().unwrap_or(&desired.revision.hash), None),
    };
    let Some(wanted) = desired.revision.version else {
        return if hash == desired.revision.hash { Currency::Updated } else { Currency::Outdated };
    };
    // An agent that updated itself is judged by what it is, not by what its Pod was made from.
    let version = match (made_from, reported) {
        // A host goes on to report what it had until its new agent runs: a Pod made as pinned gets its time.
        (Some(made), _) if desired.strict && made == wanted => Some(made),
        (Some(made), Some(reported)) => Some(made.max(reported)),
        (Some(version), None) | (None, Some(version)) => Some(version),
        (None, None) => None,
    };
    match version {
        // Automatic update never goes backwards, not even to bring in another template.
        Some(version) if version > wanted && !desired.strict => Currency::Updated,
        _ if hash != desired.revision.hash => Currency::Outdated,
        None => Currency::Unknown,
        Some(version) if version == wanted => Currency::Updated,
        Some(_) => Currency::Outdated,
    }
}

fn cell<'a>(
    policy: &Policy,
    desired: Option<&Desired>,
    inventory: &Inventory<'a>,
    rolling: bool,
    now: DateTime<Utc>,
    node: &'a Node,
    pod: Option<&'a std::sync::Arc<Pod>>,
) -> Cell<'a> {
    let currency = pod.map(|pod| currency(desired, inventory, node, pod));
    let made_from_desired = pod.is_some_and(|pod| pod.revision.is_some() && pod.revision.as_ref() == desired.map(|d| &d.revision));
    // Whether a Pod missing or starting here is our doing. Without a remembered beginning we assume so: that only slows us.
    // The API's times are whole seconds, so within the same second too.
    let was_there = inventory.memory.started.is_none_or(|started| node.created <= started);
    // A node that joined may still have got a Pod of the old template, which we replaced.
    let ours = rolling && (was_there || inventory.lost.contains(&node.name));
    let deleted_by_us = pod.is_some_and(|pod| inventory.deleted.contains(&pod.uid));
    let mut cell = Cell { node, pod, currency, bucket: None, counts: false, failure: false, unplanned: false, detail: String::new(), until: None };
    let template = inventory.template;
    cell.unplanned = desired.is_some()
        && template.is_some()
        && template != desired.map(|d| &d.revision)
        && pod.is_some_and(|pod| pod.revision.as_ref() == template && inventory.memory.started.is_some_and(|s| pod.created > s));
    let (bucket, detail) = if let (false, Some(why)) = (node.ready, node.busy) {
        (Bucket::NodeBusy, why.to_owned())
    } else if !node.ready {
        let replaced_before = ours && made_from_desired && pod.is_some_and(|pod| node.ready_since.is_some_and(|since| since > pod.created));
        (if replaced_before { Bucket::NodeLost } else { Bucket::NodeNotReady }, "the node is NotReady".to_owned())
    } else if let Some(pod) = pod {
        if deleted_by_us || pod.deleting {
            (Bucket::Terminating, "the Pod is being deleted".to_owned())
        } else if let Some(since) = pod.ready_since {
            let available = since + policy.min_ready;
            // Without a wait the clocks of two machines need not agree.
            if policy.min_ready.is_zero() || available <= now {
                return cell;
            }
            cell.until = Some(available);
            (Bucket::Starting, format!("Ready, and must stay so for {} s", policy.min_ready.num_seconds()))
        } else if let Some(why) = node.busy {
            (Bucket::NodeBusy, why.to_owned())
        } else {
            unready(policy, node, pod, now, &mut cell.until)
        }
    } else if let Some(why) = node.busy {
        (Bucket::NodeBusy, why.to_owned())
    } else if let Some(refused) = inventory.refused {
        (Bucket::Admission, refused.to_owned())
    } else {
        (Bucket::Starting, "the Pod is not made yet".to_owned())
    };
    cell.counts = match bucket {
        Bucket::NodeNotReady | Bucket::NodeBusy | Bucket::Capacity => false,
        Bucket::NodeLost | Bucket::Admission | Bucket::Image | Bucket::Crash | Bucket::Overdue => true,
        Bucket::Starting => ours,
        Bucket::Terminating => deleted_by_us || (rolling && currency == Some(Currency::Outdated)),
    };
    cell.failure = ours && bucket.blames_revision() && (made_from_desired || pod.is_none());
    (cell.bucket, cell.detail) = (Some(bucket), detail);
    cell
}

fn unready(policy: &Policy, node: &Node, pod: &Pod, now: DateTime<Utc>, until: &mut Option<DateTime<Utc>>) -> (Bucket, String) {
    match &pod.trouble {
        Some(Trouble::Crash(why)) => (Bucket::Crash, why.clone()),
        Some(Trouble::Image(why)) => (Bucket::Image, why.clone()),
        Some(Trouble::Capacity(why)) => (Bucket::Capacity, why.clone()),
        None => {
            // An agent that was Ready, or whose node was away, gets its time anew.
            let since = [pod.unready_since, node.ready_since].into_iter().flatten().fold(pod.created, DateTime::max);
            let deadline = since + policy.wait_ready;
            if deadline <= now {
                return (Bucket::Overdue, format!("not Ready within {} s", policy.wait_ready.num_seconds()));
            }
            *until = Some(deadline);
            (Bucket::Starting, "not Ready yet".to_owned())
        }
    }
}
