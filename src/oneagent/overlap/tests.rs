//! What a OneAgent leaves to others, and what it waits for, node by node.

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
    Other { name: "n/other".into(), is_older, placement, serves: serves.iter().map(|name| (*name).into()).collect() }
}

fn selected(resolved: &Resolved, nodes: &[Arc<Node>]) -> Vec<String> {
    let placement = &resolved.placement;
    nodes.iter().filter(|node| placement.verdict(node) == Verdict::Selected).map(|node| node.name.to_string()).collect()
}

#[test]
fn the_younger_one_leaves_the_nodes_that_the_older_one_serves() {
    let nodes =
        [node("a", &[("team", "x"), ("disk", "ssd")]), node("b", &[("team", "x")]), node("c", &[("disk", "ssd")])];
    let older = other(json!({ "nodeSelector": { "disk": "ssd" } }), true, &[]);
    let younger =
        exclude_older(agent(json!({ "nodeSelector": { "team": "x" } })), &[older], &nodes, &[], &BTreeSet::new());
    assert_eq!(selected(&younger, &nodes), ["b"]);
    assert_eq!(younger.placement.verdict(&nodes[0]), Verdict::Overlap("n/other".into()));
    let [conflict] = younger.conflicts.as_slice() else { panic!("{:?}", younger.conflicts) };
    assert_eq!((conflict.nodes, &*conflict.example, conflict.outcome), (1, "a", Outcome::Yields));
    assert_eq!(
        younger.placement.yields_to[0].1,
        [[Requirement { of: Of::Label("disk".into()), must: Must::NotIn(vec!["ssd".into()]) }]]
    );
    let older = exclude_older(
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
    let apart_by_label = exclude_older(
        agent(json!({ "nodeSelector": { "team": "x" } })),
        &[other(json!({ "nodeSelector": { "team": "y" } }), true, &[])],
        &nodes,
        &[],
        &BTreeSet::new(),
    );
    assert!(apart_by_label.conflicts.is_empty() && apart_by_label.placement.yields_to.is_empty(), "nothing to negate");
}

#[test]
fn one_for_everything_without_tolerations_takes_no_tainted_node() {
    let mut infra = node("infra", &[("infra", "yes")]);
    Arc::make_mut(&mut infra).taints =
        vec![Taint { key: "infra".into(), value: String::new(), effect: "NoSchedule".into() }];
    let nodes = [node("worker", &[]), infra];
    let all = other(json!({}), true, &[]);
    let for_infra = agent(json!({ "nodeSelector": { "infra": "yes" }, "tolerations": [{ "operator": "Exists" }] }));
    let for_infra = exclude_older(for_infra, std::slice::from_ref(&all), &nodes, &[], &BTreeSet::new());
    assert_eq!((selected(&for_infra, &nodes), for_infra.conflicts.len()), (vec!["infra".to_owned()], 0));
    // Two for everything, one of them with tolerations: the negation would leave the infra node without an agent.
    let tolerant = exclude_older(
        agent(json!({ "tolerations": [{ "operator": "Exists" }] })),
        &[all],
        &nodes,
        &[],
        &BTreeSet::new(),
    );
    assert_eq!((selected(&tolerant, &nodes).len(), tolerant.conflicts[0].outcome), (2, Outcome::Reported));
}

#[test]
fn neither_yields_where_that_takes_the_only_agent() {
    let nodes = [node("a", &[("disk", "ssd")])];
    let pods = [Arc::new(Pod::named("p", "a"))];
    let younger = |serves: &[&str]| {
        let older = other(json!({ "nodeSelector": { "disk": "ssd" } }), true, serves);
        exclude_older(agent(json!({})), &[older], &nodes, &pods, &BTreeSet::new()).conflicts[0].outcome
    };
    assert_eq!(younger(&[]), Outcome::Reported, "the older one's agent does not run there");
    assert_eq!(younger(&["a"]), Outcome::Yields);
}

/// Another OneAgent's agents, as the doubt of one that is to select all nodes meets them.
struct Met<'a> {
    is_gone: bool,
    is_invalid: bool,
    yields: bool,
    /// Nodes with an agent of it, and whether that is being deleted.
    has: &'a [(&'a str, bool)],
    own: &'a [&'a str],
    yielded: &'a [&'a str],
    live: Option<serde_json::Value>,
}

const NOTHING: Met<'_> =
    Met { is_gone: false, is_invalid: false, yields: false, has: &[], own: &[], yielded: &[], live: None };

fn met(met: &Met<'_>) -> Option<Doubt> {
    let mut nodes = [node("a", &[]), node("b", &[]), node("dead", &[])];
    Arc::make_mut(&mut nodes[2]).ready = false;
    let pod = |node: &str, deleting| Arc::new(Pod { deleting, ..Pod::named(node, node) });
    let other = Agents {
        name: "n/other".into(),
        is_gone: met.is_gone,
        is_invalid: met.is_invalid,
        yields: met.yields,
        pods: Box::new(|| met.has.iter().map(|(node, deleting)| pod(node, *deleting)).collect()),
    };
    let own: Vec<Arc<Pod>> = met.own.iter().map(|node| pod(node, false)).collect();
    let yielded = met.yielded.iter().map(|name| (*name).to_owned()).collect();
    let live = met
        .live
        .as_ref()
        .map(|pod| serde_json::from_value(json!({ "spec": { "selector": {}, "template": { "spec": pod } } })).unwrap());
    doubt(&agent(json!({})), live.as_ref(), &[other], (&nodes, &own), &yielded, |_| false)
}

#[test]
fn pods_of_another_are_read_only_where_agents_would_come_to_nodes() {
    let reads = std::cell::Cell::new(0);
    let read = || {
        reads.set(reads.get() + 1);
        Vec::new()
    };
    let of = |name: &str, is_invalid| Agents {
        name: name.into(),
        is_gone: false,
        is_invalid,
        yields: false,
        pods: Box::new(read),
    };
    let others = [of("n/other", false), of("n/invalid", true)];
    let everywhere = serde_json::from_value(json!({ "spec": { "selector": {}, "template": { "spec": {} } } })).unwrap();
    let reads_for = |live: Option<&DaemonSet>, own: &[&str]| {
        let own: Vec<Arc<Pod>> = own.iter().map(|node| Arc::new(Pod::named(node, node))).collect();
        let before = reads.get();
        let found = doubt(&agent(json!({})), live, &others, (&[node("a", &[])], &own), &BTreeSet::new(), |_| false);
        assert_eq!(found, None);
        reads.get() - before
    };
    assert_eq!(reads_for(Some(&everywhere), &["a"]), 0, "it has our agent");
    assert_eq!(reads_for(Some(&everywhere), &[]), 1, "the DaemonSet brings one: only what nobody can say matters");
    assert_eq!(reads_for(None, &[]), 2);
}

#[test]
fn where_an_older_ones_nodes_are_unknown_its_agents_stay() {
    let invalid = || Some(Doubt::Invalid { older: "n/other".into() });
    let other = || Met { is_invalid: true, ..NOTHING };
    assert_eq!(met(&Met { yielded: &["n/other"], ..other() }), invalid(), "its nodes were left to it");
    assert_eq!(met(&Met { has: &[("b", false)], ..other() }), invalid(), "its agents are where ours would come");
    assert_eq!(met(&Met { has: &[("b", false)], own: &["b"], ..other() }), None, "both run there already");
}

#[test]
fn no_agent_comes_to_a_node_that_the_agent_of_another_has_not_left() {
    let doubt = |of: fn(String, Arc<str>) -> Doubt, node: &str| Some(of("n/other".into(), node.into()));
    let orphan = |older, node| Doubt::Orphan { older, node };
    let ends = |older, node| Doubt::Ends { older, node };
    let not_left = |older, node| Doubt::NotLeft { older, node };
    let gone = || Met { is_gone: true, ..NOTHING };
    assert_eq!(met(&Met { has: &[("a", false)], ..gone() }), doubt(orphan, "a"), "it was left behind");
    assert_eq!(met(&Met { has: &[("a", true)], ..gone() }), doubt(orphan, "a"), "it is being removed");
    assert_eq!(met(&Met { yielded: &["n/other"], ..gone() }), None, "its agents are gone, too");
    let a = [("a", false)];
    assert_eq!(met(&Met { has: &a, yielded: &["n/other"], ..NOTHING }), doubt(not_left, "a"), "it was left to it");
    assert_eq!(met(&Met { has: &a, yields: true, ..NOTHING }), doubt(not_left, "a"), "it leaves it to us");
    assert_eq!(met(&Met { has: &a, ..NOTHING }), None, "nobody yields, so nobody waits");
    assert_eq!(met(&Met { has: &[("a", true)], ..NOTHING }), doubt(ends, "a"), "it ends, for whatever cause");
    assert_eq!(met(&Met { has: &[("dead", true)], ..NOTHING }), None, "there nothing ends, nor begins");
    assert_eq!(met(&Met { has: &[("a", true)], own: &["a"], ..NOTHING }), None, "ours is there already");
    let live = |key: &str| {
        let requirement = json!({ "key": key, "operator": "Exists" });
        json!({ "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [requirement] }] } } } })
    };
    let had = Met { has: &[("a", true)], live: Some(live("kubernetes.io/os")), ..NOTHING };
    assert_eq!(met(&had), None, "the DaemonSet brings one there as it is");
    assert_eq!(met(&Met { live: Some(live("none")), ..had }), doubt(ends, "a"));
}

#[test]
fn more_older_ones_than_can_be_left_out_are_no_reason_for_two_agents_nor_for_a_large_daemonset() {
    let pool = |number: usize| Other {
        name: format!("n/pool{number:02}"),
        ..other(json!({ "nodeSelector": { format!("a{number}"): "x", format!("b{number}"): "y" } }), true, &[])
    };
    let pools: Vec<Other> = (0..16).map(pool).collect();
    let far = [node("far", &[])];
    let all = exclude_older(agent(json!({})), &pools, &far, &[], &BTreeSet::new());
    assert_eq!((all.placement.yields_to.len(), all.placement.outside.as_ref().unwrap().len()), (7, terms::TERMS));
    assert!(all.doubt.is_none() && all.conflicts.is_empty(), "nobody selects what another does");

    let near = [node("far", &[]), node("near", &[("a15", "x"), ("b15", "y")])];
    let all = exclude_older(agent(json!({})), &pools, &near, &[], &BTreeSet::new());
    assert_eq!(all.placement.yields_to[0].0, "n/pool15", "where nodes are shared comes first");
    assert_eq!((selected(&all, &near), all.doubt), (vec!["far".to_owned()], None));

    let each =
        |number: usize| node(&format!("{number}"), &[(&format!("a{number}"), "x"), (&format!("b{number}"), "y")]);
    let nodes: Vec<Arc<Node>> = (0..16).map(each).collect();
    let crowded = |pods: &[Arc<Pod>], yielded: &[&str]| {
        let yielded = yielded.iter().map(|name| (*name).to_owned()).collect();
        let all = exclude_older(agent(json!({})), &pools, &nodes, pods, &yielded);
        (all.doubt, all.conflicts.last().unwrap().outcome, all.placement.outside.unwrap().len())
    };
    let too_many = || Some(Doubt::TooMany { older: "n/pool07".into() });
    assert_eq!(crowded(&[], &[]), (too_many(), Outcome::Undecided, terms::TERMS), "no agent comes to any");
    let runs: Vec<Arc<Pod>> = nodes.iter().map(|node| Arc::new(Pod::named("p", &node.name))).collect();
    let pools_left: Vec<String> = (0..16).map(|number| format!("n/pool{number:02}")).collect();
    let pools_left: Vec<&str> = pools_left.iter().map(String::as_str).collect();
    assert_eq!(crowded(&runs, &pools_left).0, too_many(), "what was left stays left");
}

#[test]
fn many_pools_of_one_environment_are_left_out_by_two_terms() {
    let pool = |number: usize| Other {
        name: format!("n/pool{number:02}"),
        ..other(json!({ "nodeSelector": { "env": "prod", "pool": format!("p{number:02}") } }), true, &[])
    };
    let pools: Vec<Other> = (0..40).map(pool).collect();
    let nodes = [node("rest", &[("env", "prod")]), node("p07", &[("env", "prod"), ("pool", "p07")])];
    let all = exclude_older(agent(json!({})), &pools, &nodes, &[], &BTreeSet::new());
    assert_eq!((all.placement.yields_to.len(), all.placement.outside.as_ref().unwrap().len()), (40, 2));
    assert_eq!(selected(&all, &nodes), ["rest"]);
}

#[test]
fn what_was_left_to_the_older_one_stays_left_whatever_happens_to_one_node() {
    let mut nodes = [node("a", &[("disk", "ssd")]), node("b", &[("disk", "ssd")]), node("c", &[])];
    let older = || other(json!({ "nodeSelector": { "disk": "ssd" } }), true, &[]);
    let tolerant = || agent(json!({ "tolerations": [{ "operator": "Exists" }] }));
    Arc::make_mut(&mut nodes[0]).taints =
        vec![Taint { key: "x".into(), value: String::new(), effect: "NoSchedule".into() }];
    let first = exclude_older(tolerant(), &[older()], &nodes, &[], &BTreeSet::new());
    assert_eq!(selected(&first, &nodes).len(), 3, "the older one does not serve the tainted node: not exact");
    let before = exclude_older(tolerant(), &[older()], &nodes, &[], &["n/other".to_owned()].into());
    assert_eq!(selected(&before, &nodes), ["c"]);
}

#[test]
fn affinities_are_negated_as_a_whole_and_only_where_that_stays_readable() {
    let affinity = |terms: serde_json::Value| {
        json!({ "affinity": {
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
    };
    let of = |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
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
    let younger = exclude_older(agent(json!({})), std::slice::from_ref(&older), &nodes, &[], &BTreeSet::new());
    assert_eq!(younger.conflicts[0].outcome, Outcome::Yields);
    for node in &nodes {
        let outside = any_holds(&younger.placement.yields_to[0].1, node);
        assert_eq!(outside, older.placement.verdict(node) != Verdict::Selected, "{}", node.name);
    }
    let term = |term: i32| {
        let exist = |number: i32| of(&format!("k{term}{number}"), "Exists", &[]);
        json!({ "matchExpressions": (0..5).map(exist).collect::<Vec<_>>() })
    };
    let many = json!([0, 1, 2].map(term));
    let none = exclude_older(agent(json!({})), &[other(affinity(many), true, &[])], &nodes, &[], &BTreeSet::new());
    assert!(none.placement.yields_to.is_empty());
}

#[test]
fn a_daemonset_of_the_vendors_operator_on_the_same_nodes_is_said() {
    let nodes = [node("a", &[("disk", "ssd")]), node("b", &[]), node("c", &[])];
    let spec = |selector: serde_json::Value| {
        let spec = json!({ "containers": [], "nodeSelector": selector });
        (
            ("dynatrace".to_owned(), "dynakube-oneagent".to_owned()),
            Arc::new(of_template(&serde_json::from_value(spec).unwrap())),
        )
    };
    let own = agent(json!({})).placement;
    let [said] = &beside_vendors(&own, &[spec(json!({}))], &nodes)[..] else { panic!("silent") };
    assert!(said.contains("DaemonSet dynatrace/dynakube-oneagent") && said.contains("3 of these nodes too"), "{said}");
    assert_eq!(beside_vendors(&own, &[spec(json!({ "disk": "hdd" }))], &nodes), [""; 0]);
}
