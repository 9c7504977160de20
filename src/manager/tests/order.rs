//! The order for every component of the table: what each one holds back, and what follows when it is lost.
//!
//! Pure. Must not repeat the rules of `stack::order`.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta};
use kube::ResourceExt;

use super::World;
use crate::stack::table::Table;

/// Components of the sample whose Pods a test makes.
const WITH_SERVERS: [&str; 8] =
    ["cassandra1", "zookeeper1", "rabbitmq1", "config1", "control1", "kubemanager1", "webui1", "provmanager1"];
/// As many rounds as there are levels, and some.
const ROUNDS: usize = 7;

/// A stack on one master that was written for as long as there was something to write. `held`: what does not serve.
fn written(held: Option<&str>) -> World {
    let mut world = World::new(1);
    for _ in 0..ROUNDS {
        world.write();
        for name in WITH_SERVERS {
            world.serve(name, Some(name) != held);
        }
        if held.is_some() {
            assert_ne!(world.says("Ready").0, "AllServing", "while {held:?} does not serve");
        }
    }
    world
}

/// Components that have a workload.
fn existing(world: &World) -> BTreeSet<String> {
    let all = world.fleet.read();
    let sets = all.stateful_sets.0.values().map(ResourceExt::name_any);
    let names = sets.chain(all.daemon_sets.0.values().map(ResourceExt::name_any));
    names.map(|name| name.split_once('-').unwrap().0.to_owned()).collect()
}

/// Components that need one, directly or, if `all`, through others; in the order of the table.
fn needing(world: &World, of: &str, all: bool) -> Vec<String> {
    let components = world.resolved().components;
    let row = |at: usize| &Table::own().rows[at];
    let kind = |name: &str| &*row(components.iter().find(|one| one.name == name).unwrap().row).kind;
    let mut kinds = BTreeSet::from([kind(of)]);
    let mut found = Vec::new();
    for component in &components {
        let own = row(component.row);
        if own.needs.iter().any(|need| kinds.contains(&**need)) {
            found.push(component.name.clone());
            if all {
                kinds.insert(&own.kind);
            }
        }
    }
    found
}

#[test]
fn each_component_holds_back_those_that_need_it_and_no_more() {
    let whole = written(None);
    assert_eq!((existing(&whole).len(), &*whole.says("Ready").0), (10, "AllServing"));
    for held in WITH_SERVERS {
        let world = written(Some(held));
        let mut expected = existing(&whole);
        for name in needing(&world, held, true) {
            assert!(expected.remove(&name), "{name}");
        }
        assert_eq!(existing(&world), expected, "while {held} does not serve");
    }
}

#[test]
fn each_lost_component_is_named_and_nothing_is_changed() {
    let world = written(None);
    for lost in WITH_SERVERS {
        let dependants = needing(&world, lost, false);
        if dependants.is_empty() {
            continue;
        }
        world.serve(lost, false);
        let (reason, message) = world.says("Degraded");
        assert_eq!(reason, "ComponentsUnavailable", "{message}");
        let named = format!("{lost} does not serve (0/1), and {} need it", dependants.join(", "));
        assert!(message.contains(&named), "{message}");
        let plan = world.plan();
        assert_eq!((plan.surplus, plan.replacement, plan.enrolments), (Vec::new(), None, Vec::new()), "{lost}");
        let stopped = plan.parts.iter().find(|part| part.objects.is_empty());
        assert_eq!(stopped.map(|part| &part.name), None, "drift is put back without {lost}, too");
        world.serve(lost, true);
        assert_eq!(world.says("Ready").0, "AllServing", "{lost}");
    }
}

#[test]
fn a_server_that_is_not_ready_for_ten_minutes_is_named_also_where_no_component_needs_it() {
    for lost in WITH_SERVERS {
        let mut world = written(None);
        world.serve(lost, false);
        let early = world.says("Degraded");
        let due = DateTime::UNIX_EPOCH + TimeDelta::minutes(10);
        assert!(!early.1.contains("has not been Ready"), "{early:?}");
        assert!(world.plan().next.is_some_and(|at| at <= due), "it is looked at again by then");
        world.now = due;
        let (reason, message) = world.says("Degraded");
        let named = format!("{lost}: Pod {lost}-");
        assert!(
            message.contains(&named) && message.contains("has not been Ready since 1970-01-01T00:00:00Z"),
            "{message}"
        );
        let is_needed = !needing(&world, lost, false).is_empty();
        assert_eq!(reason, if is_needed { "ComponentsUnavailable" } else { "PodsFailing" }, "{message}");
        let plan = world.plan();
        assert_eq!((plan.surplus, plan.replacement), (Vec::new(), None), "{lost}: nothing follows of it");
    }
}
