//! Scenarios: what is refused, and that a seed decides everything.

use serde_json::{Value, json};

use super::*;
use crate::page;

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::read(serde_yaml::from_str(text).unwrap())
}

fn scenario(more: &Value) -> Scenario {
    let mut whole = json!({
        "pools": [
            { "name": "a", "count": 20, "timeToReady": { "median": "20s", "p95": "1m" } },
            { "name": "b", "count": 10, "taints": ["dedicated=db:NoSchedule"] },
        ],
        "timeline": [
            { "at": "0s", "do": { "publish": "1.300.0.20260101-000000" } },
            { "at": "1h", "do": { "publish": "1.301.0.20260201-000000" } },
        ],
    });
    crate::api::patch::merged(&mut whole, more);
    Scenario::read(whole).unwrap()
}

fn outcome(scenario: &Scenario) -> Outcome {
    simulate(scenario, scenario.seed).unwrap().0
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_field_and_what_may_have_been_meant() {
    let pools = "pools: [{ name: a, count: 3 }]\n";
    let entry = |act: &str| format!("{pools}timeline: [{{ at: 5m, do: {act} }}]");
    for (text, why) in [
        ("[1]".to_owned(), "a scenario is a mapping with pools and a timeline"),
        (pools.to_owned(), "timeline: is missing"),
        ("timeline: 3".to_owned(), "timeline: must be a list"),
        ("pools: []\ntimeline: []".to_owned(), "pools: there is no node"),
        ("pools: [{ name: a, count: 10000000 }]\ntimeline: []".to_owned(), "at most 20000"),
        ("pools: [{ name: a, count: 1 }, { name: a, count: 1 }]\ntimeline: []".to_owned(), "two are called a"),
        ("pools: [{ name: a, cont: 3 }]\ntimeline: []".to_owned(), "pools[0]: unknown field `cont`"),
        (
            format!("{pools}timeline: [{{ at: 5m, do: restart }}, {{ at: 2m, do: restart }}]"),
            "timeline[1].at: 2m is before the entry above it, 5m",
        ),
        (format!("{pools}timeline: [{{ at: 5m, do: restart }}]\nuntil: 1m"), "until: 1m is before the last entry"),
        (entry("{ join: { b: 1 } }"), "timeline[0].do: there is no pool b"),
        (entry("{ notReady: [a-4] }"), "timeline[0].do: there is no node a-4; the nearest name is a-0"),
        (entry("{ publishTo: { agnt: 1.300.0.20260101-000000 } }"), "no OneAgent agnt; the nearest name is agent"),
        (entry("{ publsh: x }"), "do: publsh is unknown; the nearest name is publish"),
        (entry("{ scale: { web: 1 } }"), "do: scale is unknown"),
        (entry("{ publish: soon }"), "do.publish: \"soon\" is not a version"),
        (format!("{pools}timeline: [{{ at: soon, do: restart }}]"), "\"soon\" is not a time such as 90s"),
        (format!("{pools}timeline: []\nexpect: {{ finishes: 1h }}"), "expect: unknown field `finishes`"),
        (format!("{pools}timeline: []\nseed: x"), "seed: "),
    ] {
        let said = read(&text).unwrap_err();
        assert!(said.contains(why), "{text}\n{said}");
        assert!(!said.contains("Error("), "{said}");
    }
}

#[test]
fn a_one_agent_that_the_operator_would_refuse_is_refused_by_name() {
    let one = json!({ "metadata": { "name": "mine" }, "spec": { "apiUrl": "https://environment.example/api",
        "rollout": { "windows": [{ "days": ["Mon"], "start": "02:00", "duration": "1h", "timeZone": "Nowhere" }] } } });
    let why = simulate(&scenario(&json!({ "objects": [one] })), 1).err().unwrap();
    assert!(why.starts_with("OneAgent mine: its spec is invalid: ") && why.contains("Nowhere"), "{why}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_another_fleet() {
    let all = |seed: u64| {
        let (outcome, operator) = simulate(&scenario(&json!({})), seed).unwrap();
        let records = operator.outcomes().map(|(_, record)| record);
        let drawn = chart(&outcome.one_agents.iter().zip(records).collect::<Vec<_>>());
        let page = page::document(&picture(&outcome, &operator)).unwrap();
        [outcome.to_string(), serde_json::to_string(&outcome).unwrap(), drawn, page]
    };
    assert_eq!(all(7), all(7));
    assert_ne!(all(7)[1].replace("\"seed\":7", ""), all(8)[1].replace("\"seed\":8", ""));
}

#[test]
fn a_good_version_reaches_every_node_that_is_selected_within_the_budget() {
    let agent = outcome(&scenario(&json!({ "expect": { "maxWithoutAgent": "10%", "finishesWithin": "1h" } })));
    assert!(agent.holds(), "{agent}");
    let agent = &agent.one_agents[0];
    assert_eq!(
        (agent.nodes, agent.state.as_str(), agent.without.most),
        (20, "Complete", 2),
        "the tainted pool has none"
    );
    assert_eq!(agent.batches.iter().map(|batch| batch.nodes.len()).sum::<usize>(), 20);
    assert_eq!((agent.without.still, agent.bad.len()), (0, 0));
}

/// A version that works, then one that crashes.
fn crashes() -> Value {
    json!([
        { "at": "0s", "do": { "publish": "1.300.0.20260101-000000" } },
        { "at": "1h", "do": { "fate": { "1.301.0.20260201-000000": "crashes" } } },
        { "at": "1h", "do": { "publish": "1.301.0.20260201-000000" } },
    ])
}

#[test]
fn the_page_counts_nodes_by_cause_and_names_those_that_are_left_out() {
    let scenario = scenario(&json!({ "timeline": crashes() }));
    let (outcome, operator) = simulate(&scenario, scenario.seed).unwrap();
    let objects = picture(&outcome, &operator).objects;
    let said: Vec<&String> = objects[0].wholes.iter().flat_map(|(_, whole)| &whole.causes).collect();
    for begins in ["without an available Pod: 2 crashing", "10 more nodes get no new Pod: a taint is not tolerated"] {
        assert!(said.iter().any(|said| said.starts_with(begins)), "{begins}: {said:#?}");
    }
}

#[test]
fn a_broken_expectation_is_named_and_one_that_holds_is_not_called_broken() {
    let expect = json!({ "badVersionReaches": 1, "finishesWithin": "1d", "maxWithoutAgent": 2, "state": "Failed" });
    let came = outcome(&scenario(&json!({ "timeline": crashes(), "expect": expect })));
    let broken: Vec<&str> =
        came.one_agents[0].expected.iter().filter(|one| !one.holds).map(|one| one.said.as_str()).collect();
    assert_eq!(broken, ["badVersionReaches 1: 2", "finishesWithin 1d: never, it is Failed"]);
    assert!(!came.holds() && came.to_string().contains("NOT AS EXPECTED: badVersionReaches 1: 2"), "{came}");
}

#[test]
fn an_older_one_agent_keeps_the_nodes_that_both_select() {
    let one = |name: &str| {
        json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent", "metadata": { "name": name },
            "spec": { "apiUrl": "https://environment.example/api" } })
    };
    let came = outcome(&scenario(&json!({ "objects": [one("first"), one("second")] })));
    let nodes: Vec<usize> = came.one_agents.iter().map(|agent| agent.nodes).collect();
    assert_eq!(nodes, [20, 0], "{came}");
}

#[test]
fn quantiles_are_of_all_runs_whatever_thread_made_them() {
    let all = || runs(&scenario(&json!({})), 6).unwrap();
    let quantiles = &all()[0];
    assert_eq!((quantiles.runs, quantiles.states["Complete"], quantiles.broken), (6, 6, 0));
    assert_eq!(serde_json::to_string(&all()).unwrap(), serde_json::to_string(&all()).unwrap());
    let took = quantiles.took.unwrap();
    assert!(took.p5 <= took.p50 && took.p50 <= took.p95 && took.p95 <= took.max, "{took:?}");
}
