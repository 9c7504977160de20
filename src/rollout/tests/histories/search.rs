//! Every history of a small fleet, not a random one: all interleavings of agents that start, nodes that go away, come
//! back and are cordoned, evictions by others, Pods that are made late, and operators that die, with the real ledger
//! and the real guard.
//!
//! Exhaustive up to a number of disturbances (a node that becomes unreachable or is cordoned, an eviction, an operator
//! that dies) and of half deadlines that pass; what heals, and agents that start, are not counted. Two histories are
//! one where every state is alike, happened in the same order and as many half deadlines ago. Must not know how the
//! engine decides.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::small::{Bounds, Event, Small};
use super::*;
use crate::rollout::{Canary, Who};

/// More with DISTURBANCES=1, NODES=1, VERSIONS=1, JOINING=1: so many in addition to each test's, and half deadlines as
/// many as disturbances. A release build sees some 20,000 states a second.
fn bounds(nodes: usize, newest: u32, joining: usize, disturbances: usize) -> Bounds {
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let more = |name: &str| std::env::var(name).ok().and_then(|more| more.parse().ok()).unwrap_or(0_usize);
    let disturbances = disturbances + more("DISTURBANCES");
    let newest = newest + u32::try_from(more("VERSIONS")).expect("a few versions");
    let (nodes, joining) = (nodes + more("NODES"), joining + more("JOINING"));
    let (late, refused, foreign) = (false, false, false);
    Bounds { nodes, newest, joining, disturbances, waits: disturbances, late, refused, foreign }
}

/// Searches all histories within these bounds; returns how many states there are.
fn search(policy: &Policy, bounds: Bounds) -> usize {
    let mut events = vec![Event::Restart, Event::TimePasses, Event::Joins, Event::Published, Event::Reverted];
    for node in 0..bounds.nodes + bounds.joining {
        events.extend([Event::Starts(node), Event::Made(node), Event::NodeTurns(node)]);
        events.extend([Event::Cordon(node), Event::Evicted(node)]);
    }
    let first = Small::new(policy.clone(), bounds);
    let mut known: HashSet<u64> = HashSet::from([hash(&first.key())]);
    // The event that led to a state, and to the one before it.
    let mut ways: Vec<(usize, Option<Event>)> = vec![(0, None)];
    // The deepest first: of many millions only few are kept whole.
    let mut open: Vec<(Small, usize)> = vec![(first, 0)];
    while let Some((state, way)) = open.pop() {
        for event in events.iter().copied().filter(|event| state.may(*event)) {
            let Some(left) = state.after(event) else { continue };
            let mut next = state.clone();
            next.left = left;
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                next.happen(event);
                let is_new = known.insert(hash(&next.key()));
                if is_new {
                    next.finishes();
                }
                is_new
            }));
            let Ok(is_new) = told else { panic!("after {:?}, {event:?}", history(&ways, way)) };
            if is_new {
                ways.push((way, Some(event)));
                open.push((next, ways.len() - 1));
            }
        }
    }
    eprintln!("{bounds:?}: {} states", known.len());
    known.len()
}

/// The events up to a state.
fn history(ways: &[(usize, Option<Event>)], mut way: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while let (before, Some(event)) = ways[way] {
        events.push(event);
        way = before;
    }
    events.reverse();
    events
}

/// States by the million are known by their hashes.
fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn canary() -> Policy {
    let canary = Canary { who: Who::Some(Share::Count(1)), soak: TimeDelta::seconds(100), by_hand: false };
    Policy { canary: Some(canary), max_failures: Some(3), ..policy(Share::Count(1)) }
}

#[test]
fn in_every_history_of_two_nodes_the_budget_holds_and_the_rollout_finishes() {
    assert!(search(&policy(Share::Count(1)), bounds(2, 2, 0, 1)) > 100);
}

#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn in_every_history_of_three_nodes_the_budget_holds_and_the_rollout_finishes() {
    assert!(search(&policy(Share::Count(1)), bounds(3, 2, 0, 1)) > 100);
    assert!(search(&policy(Share::Count(2)), bounds(3, 2, 0, 1)) > 100);
}

/// A quota, a webhook, a DaemonSet controller that is unreachable.
#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn in_every_history_in_which_pods_are_made_some_time_or_other_the_budget_holds_and_the_rollout_finishes() {
    for (policy, nodes) in [(policy(Share::Count(1)), 2), (canary(), 2)] {
        assert!(search(&policy, Bounds { late: true, ..bounds(nodes, 2, 0, 1) }) > 100);
    }
}

/// One node's Pod that is refused for good holds no other, where two may go at a time.
#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn in_every_history_in_which_pods_are_refused_the_budget_holds_and_the_rollout_finishes() {
    let [one, two] = [1, 2].map(|budget| policy(Share::Count(budget)));
    // So long that the template is put back.
    for (policy, nodes) in [(one, 2), (two, 3), (canary(), 2)] {
        let bounds = bounds(nodes, 2, 0, 0);
        let bounds = Bounds { late: true, refused: true, waits: bounds.waits + 2, ..bounds };
        assert!(search(&policy, bounds) > 30);
    }
}

#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn in_every_history_with_a_canary_the_budget_holds_and_the_rollout_finishes() {
    assert!(search(&canary(), bounds(3, 2, 0, 1)) > 100);
}

#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn with_nodes_that_join_and_versions_that_follow_the_budget_holds_and_the_rollout_finishes() {
    let [one, two] = [1, 2].map(|budget| policy(Share::Count(budget)));
    for (policy, bounds) in [
        (&one, bounds(2, 3, 1, 0)),
        (&two, bounds(3, 3, 1, 0)),
        (&two, bounds(5, 2, 0, 0)),
        (&canary(), bounds(2, 3, 1, 0)),
    ] {
        assert!(search(policy, bounds) > 40);
    }
}

#[test]
fn in_every_history_of_a_template_of_another_owner_it_is_never_written_and_no_pod_goes_twice() {
    assert!(search(&policy(Share::Count(1)), Bounds { foreign: true, ..bounds(2, 2, 0, 1) }) > 100);
}

#[test]
#[ignore = "takes seconds: make test runs it apart"]
fn with_joins_canaries_and_reverts_of_a_template_of_another_owner_the_same_holds() {
    let [one, two] = [1, 2].map(|budget| policy(Share::Count(budget)));
    for (policy, bounds) in [
        (&one, bounds(3, 2, 0, 1)),
        (&two, bounds(2, 3, 1, 0)),
        (&canary(), bounds(2, 3, 1, 0)),
        (&canary(), bounds(2, 2, 0, 1)),
    ] {
        assert!(search(policy, Bounds { foreign: true, ..bounds }) > 40);
    }
}

/// Both were found by the search, with two disturbances.
#[test]
fn a_cordon_that_is_lifted_before_the_agent_is_back_does_not_free_its_place_in_the_budget() {
    let [away, cordon, made] = [Event::NodeTurns(1), Event::Cordon(0), Event::Made(0)];
    for history in [&[away, cordon, away, cordon][..], &[away, cordon, made, away, cordon]] {
        let mut small = Small::new(policy(Share::Count(1)), Bounds { late: true, ..bounds(2, 2, 0, 1) });
        for event in history.iter().chain(&[Event::Starts(1)]) {
            small.happen(*event);
        }
    }
}
