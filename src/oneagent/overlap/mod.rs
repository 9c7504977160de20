//! Overlap: nodes that more than one OneAgent selects. Two agents on one host harm it, so the older OneAgent keeps the
//! node.
//!
//! Pure. The younger one's affinity takes the negation of what the older one selects, so that a node which is
//! relabelled needs no write; but only where that leaves out just the nodes that the older one serves, and takes no
//! agent from a node on which the older one's does not run. Otherwise the conflict is only reported. Must not decide
//! what runs on a node.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;

use super::conflict::{Conflict, Doubt, Outcome};
use super::resolve::Resolved;
use super::revision::Pod;
use crate::k8s::affinity::of_template;
use crate::k8s::node::Node;
use crate::k8s::placement::{Must, Of, Placement, Requirement, Verdict, any_holds};
use crate::k8s::terms::{self, Term};
use crate::kernel::Key;

/// What one OneAgent selects takes so many alternatives to leave out at most.
const ALTERNATIVES: usize = 64;
/// So many older ones that are gone are remembered at most.
const REMEMBERED: usize = 64;

/// Another OneAgent, as far as its nodes are concerned.
#[derive(Debug, Clone)]
pub struct Other {
    /// Namespace and name, as people write them.
    pub name: String,
    /// Whether it is older than the one in question.
    pub is_older: bool,
    /// What it selects.
    pub placement: Arc<Placement>,
    /// Nodes on which an agent of it is available; none are named where no node can ever match both.
    pub serves: HashSet<Arc<str>>,
}

/// The agents of another OneAgent, which may have been deleted.
pub struct Agents<'a> {
    /// Namespace and name, as people write them.
    pub name: String,
    /// Whether the OneAgent was deleted.
    pub is_gone: bool,
    /// Whether it is older, and what it selects is unknown: its spec is invalid.
    pub is_invalid: bool,
    /// Whether it leaves nodes to the one in question.
    pub yields: bool,
    /// Its Pods. Read only where agents would come to nodes: a look must not cost more the more Pods others have.
    pub pods: Box<dyn Fn() -> Vec<Arc<Pod>> + 'a>,
}

/// Whether an older one's nodes can be left to it.
enum Left {
    /// With these alternatives, and these for all that nodes are left to.
    By(Vec<Term>, Vec<Term>),
    /// They are too many, or too large.
    TooMany,
    /// It would leave out other nodes, or take agents.
    Inexact,
}

/// A OneAgent that stays out of the way of older ones; `yielded` are those to which it left their nodes before.
#[must_use]
pub fn exclude_older(
    mut resolved: Resolved,
    others: &[Other],
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    yielded: &BTreeSet<String>,
) -> Resolved {
    let own = resolved.placement.clone();
    let is_among = |other: &str| others.iter().any(|another| another.name == other);
    resolved.remembers = yielded.iter().filter(|older| !is_among(older)).take(REMEMBERED).cloned().collect();
    let rivals: Vec<&Other> = others.iter().filter(|other| !are_disjoint(&own, &other.placement)).collect();
    if rivals.is_empty() {
        return resolved;
    }
    let selected: Vec<&Arc<Node>> = nodes.iter().filter(|node| own.verdict(node) == Verdict::Selected).collect();
    let has_pod: HashSet<&str> = pods.iter().filter(|pod| !pod.deleting).map(|pod| &*pod.node).collect();
    let mut rivals: Vec<(&Other, Vec<&Arc<Node>>)> = rivals
        .into_iter()
        .map(|other| {
            let is_shared = |node: &&&Arc<Node>| other.placement.verdict(node) == Verdict::Selected;
            (other, selected.iter().copied().filter(|node| is_shared(&node)).collect())
        })
        .collect();
    // There is room for so many terms only: whose nodes are shared now comes first.
    rivals.sort_by_key(|(other, shared)| (shared.is_empty(), !yielded.contains(&other.name)));
    let mut outside = vec![Term::new()];
    for (other, shared) in rivals {
        let was_left = yielded.contains(&other.name);
        let left = if other.is_older {
            leave(other, &own, (&selected, &shared), (&has_pod, was_left), &outside)
        } else {
            Left::Inexact
        };
        let outcome = match left {
            Left::By(terms, all) => {
                resolved.placement.yields_to.push((other.name.clone(), terms));
                outside = all;
                Outcome::Yields
            }
            Left::TooMany if shared.is_empty() => continue,
            // Both run there already.
            Left::TooMany if !was_left && shared.iter().any(|node| has_pod.contains(&*node.name)) => Outcome::Reported,
            Left::TooMany => {
                resolved.doubt = resolved.doubt.or(Some(Doubt::TooMany { older: other.name.clone() }));
                Outcome::Undecided
            }
            Left::Inexact if other.is_older => Outcome::Reported,
            Left::Inexact => Outcome::Keeps,
        };
        if let Some(first) = shared.first() {
            resolved.conflicts.push(Conflict {
                other: other.name.clone(),
                nodes: shared.len(),
                example: first.name.clone(),
                outcome,
            });
        }
    }
    resolved.placement.outside = (!resolved.placement.yields_to.is_empty()).then_some(outside);
    resolved
}

/// Leaves an older one its nodes, beside those that are left already.
fn leave(
    other: &Other,
    own: &Placement,
    (selected, shared): (&[&Arc<Node>], &[&Arc<Node>]),
    (has_pod, was_left): (&HashSet<&str>, bool),
    outside: &[Term],
) -> Left {
    let Some(terms) = negation(&other.placement, own) else { return Left::TooMany };
    let is_shared = |node: &Node| other.placement.verdict(node) == Verdict::Selected;
    // Just the nodes that the other one serves are left out, and no node loses its agent.
    let is_exact = selected.iter().all(|node| any_holds(&terms, node) != is_shared(node));
    let takes_none = shared.iter().all(|node| !has_pod.contains(&*node.name) || other.serves.contains(&node.name));
    // What selects everything would leave nothing to nodes that may yet come.
    let is_good = is_exact && takes_none && !(terms.is_empty() && shared.is_empty());
    // What was left to the other stays left: one node that is relabelled or tainted must not bring two agents to all.
    if !is_good && !was_left {
        return Left::Inexact;
    }
    match terms::both(outside, &terms).filter(|all| terms::fit(&own.terms, all)) {
        Some(all) => Left::By(terms, all),
        None => Left::TooMany,
    }
}

/// Why it is unknown yet which nodes are left to another, or why agents would come to nodes that the agents of another
/// have not left. `resolved` is apart from the others; `is_unread`: whether nothing was ever known of a namespace.
#[must_use]
pub fn doubt(
    resolved: &Resolved,
    live: Option<&DaemonSet>,
    others: &[Agents<'_>],
    (nodes, pods): (&[Arc<Node>], &[Arc<Pod>]),
    yielded: &BTreeSet<String>,
    is_unread: impl Fn(&str) -> bool,
) -> Option<Doubt> {
    let namespace = |older: &str| older.split('/').next().unwrap_or_default().to_owned();
    if let Some(older) = yielded.iter().find(|older| is_unread(&namespace(older))) {
        return Some(Doubt::Unread { older: older.clone(), namespace: namespace(older) });
    }
    // One that is being replaced is ours, too.
    let ours: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    let free = nodes.iter().filter(|node| !ours.contains(&*node.name));
    let free: BTreeMap<&str, (&Arc<Node>, Verdict)> =
        free.map(|node| (&*node.name, (node, resolved.placement.verdict(node)))).collect();
    let before = live.and_then(|live| Some(of_template(live.spec.as_ref()?.template.spec.as_ref()?)));
    // Where the DaemonSet brings agents already, leaving it as it is keeps none away.
    let is_gained = |node: &Node| before.as_ref().is_none_or(|before| before.verdict(node) != Verdict::Selected);
    let is_next = |(node, verdict): &(&Arc<Node>, Verdict)| *verdict == Verdict::Selected && is_gained(node);
    let gained: BTreeMap<&str, &Arc<Node>> =
        free.iter().filter(|(_, next)| is_next(next)).map(|(name, (node, _))| (*name, *node)).collect();
    let of_one = |other: &Agents<'_>| {
        let older = other.name.clone();
        if other.is_invalid {
            let is_selected = |pod: &Arc<Pod>| {
                let verdict = free.get(&*pod.node).map(|(_, verdict)| verdict);
                !pod.deleting && matches!(verdict, Some(Verdict::Selected | Verdict::Overlap(_)))
            };
            let is_here = || !free.is_empty() && (other.pods)().iter().any(is_selected);
            return (yielded.contains(&older) || is_here()).then_some(Doubt::Invalid { older });
        }
        if gained.is_empty() {
            return None;
        }
        let leaves = other.yields || other.is_gone || yielded.contains(&older);
        // On a node that does not answer nothing ends, nor begins.
        let stays = |pod: &Pod, node: &Node| if pod.deleting { node.ready } else { leaves };
        let on = |pod: Arc<Pod>| {
            let node = gained.get(&*pod.node)?;
            stays(&pod, node).then(|| (pod.deleting, node.name.clone()))
        };
        let (deleting, node) = (other.pods)().into_iter().find_map(on)?;
        Some(match (other.is_gone, deleting) {
            (true, _) => Doubt::Orphan { older, node },
            (false, true) => Doubt::Ends { older, node },
            (false, false) => Doubt::NotLeft { older, node },
        })
    };
    others.iter().find_map(of_one)
}

/// What is said of the DaemonSets of the vendor's present operator that select the same nodes: of two agents on a host
/// one does not start.
#[must_use]
pub fn beside_vendors(own: &Placement, vendors: &[(Key, Arc<Placement>)], nodes: &[Arc<Node>]) -> Vec<String> {
    if vendors.is_empty() {
        return Vec::new();
    }
    let selected: Vec<&Arc<Node>> = nodes.iter().filter(|node| own.verdict(node) == Verdict::Selected).collect();
    let said = |((namespace, name), placement): &(Key, Arc<Placement>)| {
        let mut shared = selected.iter().filter(|node| placement.verdict(node) == Verdict::Selected);
        let first = shared.next()?;
        Some(format!(
            "DaemonSet {namespace}/{name} of Dynatrace Operator selects {} of these nodes too, such as {}: of two \
            agents on a host one does not start; delete its DynaKube, or exclude its nodes by spec.nodeSelector or \
            spec.affinity",
            shared.count() + 1,
            first.name
        ))
    };
    vendors.iter().filter_map(said).take(3).collect()
}

/// Whether no node can ever match both: they want other values of one label.
#[must_use]
pub fn are_disjoint(a: &Placement, b: &Placement) -> bool {
    a.selector.iter().any(|(key, value)| b.selector.get(key).is_some_and(|other| other != value))
}

/// What a node must be like that a placement does not select, as alternatives; `None`: they are too many, or too large.
/// What `own` asks of a node itself is left aside, and so are taints, which no affinity can name.
fn negation(placement: &Placement, own: &Placement) -> Option<Vec<Term>> {
    let of = |key: &str, must: Must| Requirement { of: Of::Label(key.to_owned()), must };
    let needed = placement.selector.iter().filter(|(key, value)| own.selector.get(*key) != Some(value));
    // One more tells that they are too many.
    let needed = needed.take(ALTERNATIVES + 1).map(|(key, value)| vec![of(key, Must::NotIn(vec![value.clone()]))]);
    let mut terms: Vec<Term> = needed.collect();
    let serves_all = placement.architectures.is_empty()
        || (!own.architectures.is_empty() && own.architectures.iter().all(|a| placement.architectures.contains(a)));
    if !serves_all {
        terms.push(vec![of("kubernetes.io/arch", Must::NotIn(placement.architectures.clone()))]);
    }
    if !placement.terms.is_empty() {
        terms.extend(terms::none_of(&placement.terms)?);
    }
    (terms.len() <= ALTERNATIVES && terms::size(&terms) <= terms::BYTES).then_some(terms)
}
