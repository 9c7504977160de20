//! Places: nodes with the DaemonSet's Pods, as the engine wants them.
//!
//! Pure. Must not choose a Pod to replace, nor know how fast any is replaced.

use std::borrow::Cow;
use std::collections::HashMap;

use super::memory::Memory;
use super::observe::Seen;
use super::revision::{Pod, Revision, Revisions};
use crate::fleet::closed;
use crate::fleet::daemonsets::{by_node, place};
use crate::fleet::was_there_before;
use crate::k8s::node::Node;
use crate::k8s::placement::{Verdict, has_labels};
use crate::rollout::{Occupant, Place, Selection, Standing, Words};

/// What is waited for, in this kind's words.
pub const WORDS: Words = Words {
    undecided: "the DaemonSet's controller has not written the revision of its template yet",
    authority: "",
    place: "node",
    places: "nodes",
    lacking: "without an available Pod",
    template: "the new Pod template",
    closes: "taint",
};

/// Label of a node that is left out: `true`, or the name of one DaemonSetRollout.
pub const SKIP: &str = "oneagent-operator.github.io/skip-update";

/// The places of a DaemonSet's Pods. Nodes that it does not select are none, except those that the engine remembers.
#[must_use]
pub fn places<'a>(seen: &'a Seen, memory: &Memory) -> Vec<Place<'a, Revision>> {
    let by_node = by_node(&seen.pods);
    let mut live: HashMap<&str, usize> = HashMap::new();
    for pod in seen.pods.iter().filter(|pod| !pod.deleting) {
        *live.entry(&pod.node).or_default() += 1;
    }
    let mut places = Vec::with_capacity(seen.nodes.len());
    for node in &seen.nodes {
        let pod = by_node.get(&*node.name).copied();
        let selection = match seen.placement.verdict(node) {
            Verdict::Selected => Selection::Selected,
            Verdict::Untolerated(taint) => Selection::Closed(closed::untolerated(taint.to_string())),
            Verdict::NotMatching if memory.engine.touched.away.contains_key(&*node.name) => Selection::NotSelected,
            Verdict::NotMatching | Verdict::Architecture(_) | Verdict::Overlap(_) => continue,
        };
        let is_selected = selection == Selection::Selected;
        let standing = |pod: &Pod| match seen.revisions.known() {
            // Where no new Pod may start, none is replaced.
            _ if !is_selected => Standing::Current,
            Some(revisions) => standing(pod, revisions, memory),
            None => Standing::Unknown,
        };
        let is_left_out = is_skipped(node, &seen.resolved.name);
        // A cordon keeps no Pod from being made: where they are refused it is not why one is missing.
        let busy = node.busy.filter(|_| pod.is_some() || seen.refused.is_none());
        let busy = busy.or(is_left_out.then_some("the node has label oneagent-operator.github.io/skip-update"));
        // Its controller keeps the older one.
        let has_two = live.get(&*node.name).is_some_and(|count| *count > 1);
        let busy = busy.or(has_two.then_some("two Pods of the DaemonSet are there, until its controller removes one"));
        places.push(Place {
            is_canary: !seen.resolved.canary.is_empty() && has_labels(node, &seen.resolved.canary),
            selection,
            busy: busy.map(Cow::Borrowed).or_else(|| seen.aside.get(&pod?.id).cloned().map(Cow::Owned)),
            is_left_out,
            loss: seen.losses.get(&node.name),
            ..place(node, pod.map(|pod| Occupant { pod, standing: standing(pod) }))
        });
    }
    places
}

/// How a Pod's revision relates to the template's.
fn standing(pod: &Pod, revisions: &Revisions, memory: &Memory) -> Standing {
    let Some(revision) = &pod.revision else { return Standing::Outdated };
    if !revisions.alike.contains(&revision.0) {
        return Standing::Outdated;
    }
    // What the user wants tried again is tried where it failed, too; the field stays in the spec when that is complete.
    let is_complete = memory.engine.last_good.as_ref() == Some(revision);
    let retried = memory.retried.as_ref().filter(|retried| retried.revision == revision.0 && !is_complete);
    let is_before =
        retried.is_some_and(|retried| was_there_before(pod.created, retried.at) && pod.ready_since.is_none());
    if is_before { Standing::Outdated } else { Standing::Current }
}

/// Whether a node is left out.
#[must_use]
pub fn is_skipped(node: &Node, name: &str) -> bool {
    node.labels.get(SKIP).is_some_and(|value| value == "true" || value == name)
}
