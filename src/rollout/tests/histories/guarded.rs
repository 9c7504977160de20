//! Engine, ledger and guard together: what the plan wants the guard allows, or the rollout would stand still.
//!
//! Must not use a rule to judge another.

use super::*;
use crate::rollout::ledger::Ledger;

fn is_tainted(fleet: &mut Fleet, number: usize) {
    let taint = "dedicated=db:NoSchedule".to_owned();
    fleet.node(number).taint = Some(taint);
}

/// Ten nodes whose agents cannot be pulled, in a rollout.
fn all_broken() -> Fleet {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    for number in 0..10 {
        fleet.change(number, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Image("typo".into()))));
    }
    fleet
}

/// One look: which nodes' Pods are to go, and whether the guard lets them.
fn evaluate(fleet: &mut Fleet, ledger: &mut Ledger, policy: &Policy, now: i64) -> Vec<(String, bool)> {
    let wanted = desired(2);
    let places = fleet.places(&wanted);
    let inventory = fleet.inventory(&places);
    let rollout::Decision { plan, guard, ledger: settled } =
        rollout::decide(policy, Some(&wanted), &inventory, ledger, at(now));
    *ledger = settled;
    let Plan { memory, steps, .. } = Plan::of(plan, &fleet.memory);
    fleet.memory = memory;
    let mut begin = |step: &Step<Release>| ledger.begin(&guard, &step.place, &step.pod.id, at(now)).is_some();
    steps.iter().map(|step| (step.place.to_string(), begin(step))).collect()
}

/// So it is for an operator that begins meanwhile. The label that leaves a node alone does free it.
#[test]
fn a_cordon_frees_no_place_of_one_whose_next_pod_is_refused() {
    let mut fleet = Fleet::new(5, 2);
    fleet.rolling_since(0);
    let (policy, mut ledger) = (policy(Share::Count(1)), Ledger::default());
    let first = evaluate(&mut fleet, &mut ledger, &policy, 1);
    assert_eq!(first, [("node-000".to_owned(), true)]);
    fleet.pods.remove(0);
    fleet.missing.insert("node-000".into(), at(1));
    fleet.refused = Some("exceeded quota".into());
    assert_eq!(evaluate(&mut fleet, &mut ledger, &policy, 2), []);
    fleet.node(0).busy = Some("the node is cordoned");
    assert_eq!(evaluate(&mut fleet, &mut ledger, &policy, 3), []);
    fleet.deciding_since = 4;
    let mut ledger = Ledger::default();
    assert_eq!(evaluate(&mut fleet, &mut ledger, &policy, 5), []);
    let report = fleet.plan(&policy, &desired(2), 6).report;
    assert!(format!("{report:?}").contains("exceeded quota"), "{report:?}");
    fleet.node(0).is_left_out = true;
    assert_eq!(evaluate(&mut fleet, &mut ledger, &policy, 7).len(), 1);
}

#[test]
fn a_node_that_was_tainted_while_its_agent_was_replaced_fills_its_zone() {
    let mut fleet = Fleet::new(20, 2);
    fleet.rolling_since(0);
    for number in 0..20 {
        let zone = if number < 10 { "a" } else { "b" };
        fleet.node(number).zone = Some(zone.to_owned());
    }
    let zoned = Policy { per_zone: Some(Share::Count(1)), ..policy(Share::Count(2)) };
    let mut ledger = Ledger::default();
    let first = evaluate(&mut fleet, &mut ledger, &zoned, 1);
    assert_eq!(first, [("node-000".to_owned(), true), ("node-010".to_owned(), true)]);
    fleet.pods[10] = pod(110, "node-010", 2, 1, true);
    fleet.pods.remove(0);
    is_tainted(&mut fleet, 0);
    assert_eq!(evaluate(&mut fleet, &mut ledger, &zoned, 2), [("node-011".to_owned(), true)]);
    // So it is for an operator that restarts.
    fleet.deciding_since = 3;
    fleet.pods[10] = pod(111, "node-011", 2, 2, true);
    let restarted = evaluate(&mut fleet, &mut Ledger::default(), &zoned, 3);
    assert!(restarted.iter().all(|(node, _)| node.as_str() >= "node-010"), "{restarted:?}");
}

#[test]
fn a_node_that_is_tainted_while_its_broken_agent_is_replaced_holds_up_no_other() {
    let mut fleet = all_broken();
    let (mut ledger, one) = (Ledger::default(), policy(Share::Count(1)));
    assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 1), [("node-000".to_owned(), true)]);
    fleet.pods.remove(0);
    is_tainted(&mut fleet, 0);
    assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 2), [("node-001".to_owned(), true)]);
}

#[test]
fn the_label_releases_a_node_that_was_tainted_for_good_while_its_agent_was_replaced() {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    let (mut ledger, one) = (Ledger::default(), policy(Share::Count(1)));
    assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 1).len(), 1);
    fleet.pods.remove(0);
    is_tainted(&mut fleet, 0);
    assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 2), []);
    fleet.node(0).is_left_out = true;
    assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 3), [("node-001".to_owned(), true)]);
}

#[test]
fn the_plan_replaces_no_more_broken_agents_than_the_guard_admits() {
    let away: [fn(&mut Fleet); 3] =
        [|_| (), |fleet| fleet.refused = Some("exceeded quota".into()), |fleet| fleet.node(0).ready = false];
    for keep_away in away {
        let mut fleet = all_broken();
        let (mut ledger, one) = (Ledger::default(), policy(Share::Count(1)));
        assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 1), [("node-000".to_owned(), true)]);
        fleet.pods.remove(0);
        keep_away(&mut fleet);
        assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 2), []);
        // Nothing waits for a Ready node that is being worked on, where nothing else is known to keep its Pod away.
        fleet.refused = None;
        let node = fleet.node(0);
        (node.ready, node.busy) = (true, Some("cordoned"));
        assert_eq!(evaluate(&mut fleet, &mut ledger, &one, 3), [("node-001".to_owned(), true)]);
    }
}
