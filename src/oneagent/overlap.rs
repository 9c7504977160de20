//! Overlap: nodes that more than one OneAgent selects. Two agents on one host harm it, so the older OneAgent keeps the
//! node.
//!
//! Pure. The younger one's affinity takes the negation of what the older one selects, so that a node which is
//! relabelled needs no write; but only where that leaves out just the nodes that the older one serves, and takes no
//! agent from a node on which the older one's does not run. Else the conflict is only reported. Must not decide what
//! runs on a node.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::conflict::{Conflict, Doubt, Outcome};
use super::resolve::Resolved;
use super::revision::Pod;
use crate::k8s::node::Node;
use crate::k8s::placement::{Must, Of, Placement, Requirement, Verdict, any_holds};

/// More alternatives than these are no affinity that anybody could read: then it is only reported.
const TERMS: usize = 64;

/// Another OneAgent, as far as its nodes are concerned.
#[derive(Debug, Clone)]
pub struct Other {
    /// Namespace and name, as people write them.
    pub name: String,
    /// Whether it is older than the one in question.
    pub is_older: bool,
    /// What it selects.
    pub placement: Arc<Placement>,
    /// Nodes on which an agent of it is available.
    pub serves: HashSet<Arc<str>>,
}

/// An older OneAgent of which nobody knows what it selects: its spec makes no sense, or it was deleted.
#[derive(Debug, Clone)]
pub struct Stranger {
    /// Namespace and name, as people write them.
    pub name: String,
    /// Whether it was deleted.
    pub is_gone: bool,
    /// Nodes on which an agent of it is.
    pub has: HashSet<Arc<str>>,
}

/// A OneAgent that stays out of the way of older ones; `yielded` are those to whom it left their nodes before.
#[must_use]
pub fn apart(
    mut resolved: Resolved,
    others: &[Other],
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    yielded: &BTreeSet<String>,
) -> Resolved {
    let own = resolved.placement.clone();
    let selects = |node: &&Arc<Node>| own.verdict(node) == Verdict::Selected;
    let has_pod: HashSet<&str> = pods.iter().filter(|pod| !pod.deleting).map(|pod| &*pod.node).collect();
    for other in others.iter().filter(|other| !are_disjoint(&own, &other.placement)) {
        let is_shared = |node: &&Arc<Node>| other.placement.verdict(node) == Verdict::Selected;
        let shared: Vec<&Arc<Node>> = nodes.iter().filter(selects).filter(is_shared).collect();
        let mut outcome = if other.is_older { Outcome::Reported } else { Outcome::Keeps };
        if other.is_older
            && let Some(terms) = negation(&other.placement, &own)
        {
            // Just the nodes that the other one serves are left out, and nobody loses an agent.
            let is_exact = nodes.iter().filter(selects).all(|node| any_holds(&terms, node) != is_shared(&node));
            let takes_none =
                shared.iter().all(|node| !has_pod.contains(&*node.name) || other.serves.contains(&node.name));
            // What selects everything would leave nothing to nodes that may yet come.
            let is_good = is_exact && takes_none && !(terms.is_empty() && shared.is_empty());
            // What was left to the other stays left: one node that is relabelled or tainted must not bring two agents
            // to all.
            if is_good || yielded.contains(&other.name) {
                resolved.placement.yields_to.push((other.name.clone(), terms));
                outcome = Outcome::Yields;
            }
        }
        if let Some(first) = shared.first() {
            resolved.conflicts.push(Conflict {
                other: other.name.clone(),
                nodes: shared.len(),
                example: first.name.clone(),
                outcome,
            });
        }
    }
    resolved
}

/// Why nobody can say yet which nodes are left to an older one: it cannot be read, or has not left a node that it gave
/// up. `is_unread`: whether nothing was ever known of a namespace.
#[must_use]
pub fn doubt(
    own: &Placement,
    (others, strangers): (&[Other], &[Stranger]),
    (nodes, pods): (&[Arc<Node>], &[Arc<Pod>]),
    yielded: &BTreeSet<String>,
    is_unread: impl Fn(&str) -> bool,
) -> Option<Doubt> {
    let namespace = |older: &str| older.split('/').next().unwrap_or_default().to_owned();
    if let Some(older) = yielded.iter().find(|older| is_unread(&namespace(older))) {
        return Some(Doubt::Unread { older: older.clone(), namespace: namespace(older) });
    }
    let selects = |node: &&Arc<Node>| own.verdict(node) == Verdict::Selected;
    // One that is being replaced is ours, too.
    let ours: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    let unknown = strangers.iter().find_map(|stranger| {
        let older = stranger.name.clone();
        let is_here = |node: &&Arc<Node>| stranger.has.contains(&node.name) && !ours.contains(&*node.name);
        let shared = nodes.iter().filter(selects).find(is_here);
        match shared {
            Some(node) if stranger.is_gone => Some(Doubt::Orphan { older, node: node.name.clone() }),
            shared if !stranger.is_gone && (shared.is_some() || yielded.contains(&older)) => {
                Some(Doubt::Senseless { older })
            }
            _ => None,
        }
    });
    let known = || {
        others.iter().filter(|other| other.is_older && yielded.contains(&other.name)).find_map(|other| {
            let stays = |node: &&Arc<Node>| {
                other.serves.contains(&node.name) && other.placement.verdict(node) == Verdict::NotMatching
            };
            let node = nodes.iter().filter(selects).find(stays)?;
            Some(Doubt::NotLeft { older: other.name.clone(), node: node.name.clone() })
        })
    };
    unknown.or_else(known)
}

/// Whether no node can ever match both: they want other values of one label.
fn are_disjoint(a: &Placement, b: &Placement) -> bool {
    a.selector.iter().any(|(key, value)| b.selector.get(key).is_some_and(|other| other != value))
}

/// What a node must be like that a placement does not select, as alternatives; `None`: they are too many. What `own`
/// asks of a node itself is left aside, and so are taints, which no affinity can name.
fn negation(placement: &Placement, own: &Placement) -> Option<Vec<Vec<Requirement>>> {
    let of = |key: &str, must: Must| Requirement { of: Of::Label(key.to_owned()), must };
    let needed = placement.selector.iter().filter(|(key, value)| own.selector.get(*key) != Some(value));
    let mut terms: Vec<Vec<Requirement>> =
        needed.map(|(key, value)| vec![of(key, Must::NotIn(vec![value.clone()]))]).collect();
    let serves_all = placement.architectures.is_empty()
        || (!own.architectures.is_empty() && own.architectures.iter().all(|a| placement.architectures.contains(a)));
    if !serves_all {
        terms.push(vec![of("kubernetes.io/arch", Must::NotIn(placement.architectures.clone()))]);
    }
    if !placement.terms.is_empty() {
        let mut none_holds: Vec<Vec<Requirement>> = vec![Vec::new()];
        for term in &placement.terms {
            let broken: Vec<Requirement> = term.iter().flat_map(opposites).collect();
            none_holds = none_holds
                .iter()
                .flat_map(|so_far| broken.iter().map(|one| [so_far.as_slice(), std::slice::from_ref(one)].concat()))
                .collect();
            if none_holds.len() > TERMS {
                return None;
            }
        }
        terms.extend(none_holds);
    }
    (terms.len() <= TERMS).then_some(terms)
}

/// One of these holds where a requirement does not.
fn opposites(requirement: &Requirement) -> Vec<Requirement> {
    let with = |must: Must| Requirement { of: requirement.of.clone(), must };
    match &requirement.must {
        Must::In(values) => vec![with(Must::NotIn(values.clone()))],
        Must::NotIn(values) => vec![with(Must::In(values.clone()))],
        Must::Exist => vec![with(Must::NotExist)],
        Must::NotExist => vec![with(Must::Exist)],
        Must::Exceed(bound) => vec![with(Must::FallBelow(bound.saturating_add(1))), with(Must::NotExist)],
        Must::FallBelow(bound) => vec![with(Must::Exceed(bound.saturating_sub(1))), with(Must::NotExist)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::oneagent::OneAgent;
    use crate::k8s::node::Taint;
    use crate::oneagent::resolve::resolve;
    use serde_json::json;

    fn agent(spec: serde_json::Value) -> Resolved {
        let mut spec = spec;
        spec["apiUrl"] = "https://e.example/api".into();
        resolve(&OneAgent::new("agent", serde_json::from_value(spec).unwrap())).unwrap()
    }

    fn node(name: &str, labels: &[(&str, &str)]) -> Arc<Node> {
        let usual = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
        let labels = usual.iter().chain(labels).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Arc::new(Node { labels, ..Node::named(name) })
    }

    fn other(spec: serde_json::Value, is_older: bool, serves: &[&str]) -> Other {
        let placement = Arc::new(agent(spec).placement);
        Other {
            name: "n/other".into(),
            is_older,
            placement,
            serves: serves.iter().map(|name| (*name).into()).collect(),
        }
    }

    fn selected(resolved: &Resolved, nodes: &[Arc<Node>]) -> Vec<String> {
        let placement = &resolved.placement;
        nodes
            .iter()
            .filter(|node| placement.verdict(node) == Verdict::Selected)
            .map(|node| node.name.to_string())
            .collect()
    }

    #[test]
    fn the_younger_one_leaves_the_nodes_that_the_older_one_serves() {
        let nodes =
            [node("a", &[("team", "x"), ("disk", "ssd")]), node("b", &[("team", "x")]), node("c", &[("disk", "ssd")])];
        let older = other(json!({ "nodeSelector": { "disk": "ssd" } }), true, &[]);
        let younger = apart(agent(json!({ "nodeSelector": { "team": "x" } })), &[older], &nodes, &[], &BTreeSet::new());
        assert_eq!(selected(&younger, &nodes), ["b"]);
        assert_eq!(younger.placement.verdict(&nodes[0]), Verdict::Overlap("n/other".into()));
        let [conflict] = younger.conflicts.as_slice() else { panic!("{:?}", younger.conflicts) };
        assert_eq!((conflict.nodes, &*conflict.example, conflict.outcome), (1, "a", Outcome::Yields));
        assert_eq!(
            younger.placement.yields_to[0].1,
            [[Requirement { of: Of::Label("disk".into()), must: Must::NotIn(vec!["ssd".into()]) }]]
        );
        let older = apart(
            agent(json!({ "nodeSelector": { "disk": "ssd" } })),
            &[other(json!({ "nodeSelector": { "team": "x" } }), false, &[])],
            &nodes,
            &[],
            &BTreeSet::new(),
        );
        assert_eq!(
            (selected(&older, &nodes), older.conflicts[0].outcome),
            (vec!["a".to_owned(), "c".to_owned()], Outcome::Keeps)
        );
        let apart_by_label = apart(
            agent(json!({ "nodeSelector": { "team": "x" } })),
            &[other(json!({ "nodeSelector": { "team": "y" } }), true, &[])],
            &nodes,
            &[],
            &BTreeSet::new(),
        );
        assert!(
            apart_by_label.conflicts.is_empty() && apart_by_label.placement.yields_to.is_empty(),
            "nothing to negate"
        );
    }

    #[test]
    fn one_for_everything_without_tolerations_pushes_nobody_off_tainted_nodes() {
        let mut infra = node("infra", &[("infra", "yes")]);
        Arc::make_mut(&mut infra).taints =
            vec![Taint { key: "infra".into(), value: String::new(), effect: "NoSchedule".into() }];
        let nodes = [node("worker", &[]), infra];
        let all = other(json!({}), true, &[]);
        let for_infra = agent(json!({ "nodeSelector": { "infra": "yes" }, "tolerations": [{ "operator": "Exists" }] }));
        let for_infra = apart(for_infra, std::slice::from_ref(&all), &nodes, &[], &BTreeSet::new());
        assert_eq!((selected(&for_infra, &nodes), for_infra.conflicts.len()), (vec!["infra".to_owned()], 0));
        // Two for everything, one of them with tolerations: the negation would leave the infra node to nobody.
        let tolerant =
            apart(agent(json!({ "tolerations": [{ "operator": "Exists" }] })), &[all], &nodes, &[], &BTreeSet::new());
        assert_eq!((selected(&tolerant, &nodes).len(), tolerant.conflicts[0].outcome), (2, Outcome::Reported));
    }

    #[test]
    fn nobody_yields_where_that_takes_the_only_agent() {
        let nodes = [node("a", &[("disk", "ssd")])];
        let pods = [Arc::new(Pod::named("p", "a"))];
        let younger = |serves: &[&str]| {
            let older = other(json!({ "nodeSelector": { "disk": "ssd" } }), true, serves);
            apart(agent(json!({})), &[older], &nodes, &pods, &BTreeSet::new()).conflicts[0].outcome
        };
        assert_eq!(younger(&[]), Outcome::Reported, "the older one's agent does not run there");
        assert_eq!(younger(&["a"]), Outcome::Yields);
    }

    #[test]
    fn where_nobody_knows_what_an_older_one_selects_nothing_is_written_over_its_agents() {
        let nodes = [node("a", &[]), node("b", &[])];
        let own = agent(json!({})).placement;
        let doubt = |name: &str, is_gone: bool, has: &[&str], own_pods: &[Arc<Pod>], yielded: &[&str]| {
            let has = has.iter().map(|node| (*node).into()).collect();
            let strangers = [Stranger { name: name.into(), is_gone, has }];
            let yielded = yielded.iter().map(|name| (*name).to_owned()).collect();
            doubt(&own, (&[], &strangers), (&nodes, own_pods), &yielded, |_| false)
        };
        let senseless = Some(Doubt::Senseless { older: "n/other".into() });
        assert_eq!(doubt("n/other", false, &[], &[], &["n/other"]), senseless, "its nodes were left to it");
        assert_eq!(doubt("n/other", false, &["b"], &[], &[]), senseless, "its agents are where ours would come");
        let pod = [Arc::new(Pod::named("p", "b"))];
        assert_eq!(doubt("n/other", false, &["b"], &pod, &[]), None, "both run there already");
        let orphan = Some(Doubt::Orphan { older: "n/other".into(), node: "a".into() });
        assert_eq!(doubt("n/other", true, &["a"], &[], &["n/other"]), orphan);
        assert_eq!(doubt("n/other", true, &[], &[], &["n/other"]), None, "it was deleted, and so were its agents");
    }

    #[test]
    fn what_was_left_to_the_older_one_stays_left_whatever_happens_to_one_node() {
        let mut nodes = [node("a", &[("disk", "ssd")]), node("b", &[("disk", "ssd")]), node("c", &[])];
        let older = || other(json!({ "nodeSelector": { "disk": "ssd" } }), true, &[]);
        let tolerant = || agent(json!({ "tolerations": [{ "operator": "Exists" }] }));
        Arc::make_mut(&mut nodes[0]).taints =
            vec![Taint { key: "x".into(), value: String::new(), effect: "NoSchedule".into() }];
        let anew = apart(tolerant(), &[older()], &nodes, &[], &BTreeSet::new());
        assert_eq!(selected(&anew, &nodes).len(), 3, "the older one does not serve the tainted node: not exact");
        let before = apart(tolerant(), &[older()], &nodes, &[], &["n/other".to_owned()].into());
        assert_eq!(selected(&before, &nodes), ["c"]);
    }

    #[test]
    fn affinities_are_negated_as_a_whole_and_only_where_that_stays_readable() {
        let affinity = |terms: serde_json::Value| {
            json!({ "affinity": {
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
        };
        let of =
            |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
        let nodes: Vec<Arc<Node>> = (0..16u32)
            .map(|bits| {
                let labels: Vec<(&str, &str)> = ["a", "b", "c", "d"]
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| bits & (1 << bit) != 0)
                    .map(|(_, key)| (*key, "5"))
                    .collect();
                node(&format!("n{bits}"), &labels)
            })
            .collect();
        let older = other(
            affinity(json!([{ "matchExpressions": [of("a", "In", &["5"]), of("b", "Exists", &[])] },
                    { "matchExpressions": [of("c", "Gt", &["4"])] }])),
            true,
            &[],
        );
        let younger = apart(agent(json!({})), std::slice::from_ref(&older), &nodes, &[], &BTreeSet::new());
        assert_eq!(younger.conflicts[0].outcome, Outcome::Yields);
        for node in &nodes {
            let outside = any_holds(&younger.placement.yields_to[0].1, node);
            assert_eq!(outside, older.placement.verdict(node) != Verdict::Selected, "{}", node.name);
        }
        let many = json!([0, 1, 2].map(
            |_| json!({ "matchExpressions": (0..5).map(|n| of(&format!("k{n}"), "Exists", &[])).collect::<Vec<_>>() })
        ));
        let none = apart(agent(json!({})), &[other(affinity(many), true, &[])], &nodes, &[], &BTreeSet::new());
        assert!(none.placement.yields_to.is_empty());
    }
}
