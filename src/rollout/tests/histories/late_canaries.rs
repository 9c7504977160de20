//! Canaries whose new Pods are made late, while other events happen.
//!
//! Must not use a rule to judge another.

use super::apart_edges::{crashing, evaluate, with_canary};
use super::world::World;
use super::*;
use crate::rollout::{Canary, Who};

/// A busy machine showed it: the DaemonSet controller was later than the operator.
#[test]
fn a_canary_that_gave_way_before_it_had_the_new_version_gets_the_old_one_however_late_its_pod_is() {
    let mut drive = with_canary(6, 2);
    (0..3).for_each(|now| drop(evaluate(&mut drive, now)));
    assert_eq!(drive.nodes(), ["node-000"]);
    drive.fleet.pods.remove(0);
    drive.fleet.missing.insert("node-000".into(), at(3));
    let taint = "x:NoSchedule".to_owned();
    drive.fleet.node(0).taint = Some(taint);
    (3..6).for_each(|now| drop(evaluate(&mut drive, now)));
    assert_eq!(drive.nodes(), ["node-000", "node-001"]);
    drive.fleet.pods[0] = pod(901, "node-001", 2, 6, true);
    (6..8).for_each(|now| drop(evaluate(&mut drive, now)));
    assert_eq!(drive.fleet.template, revision(1));
    drive.fleet.node(0).taint = None;
    for now in [8, 9, 30] {
        evaluate(&mut drive, now);
        assert_eq!((&drive.fleet.template, drive.nodes().len()), (&revision(1), 2), "after {now} s");
    }
    // What it has from before may be broken: that is not for the new version to fix while it is watched.
    let mut broken = drive.clone();
    let mut old = Arc::unwrap_or_clone(pod(902, "node-000", 1, 31, false));
    old.trouble = Some(crashing());
    broken.fleet.pods.insert(0, Arc::new(old));
    broken.fleet.missing.clear();
    for now in [32, 33, 400] {
        evaluate(&mut broken, now);
        assert_eq!((&broken.fleet.template, broken.nodes().len()), (&revision(1), 2), "after {now} s");
    }
    // Where no other has it, it is awaited.
    drive.fleet.pods.remove(0);
    drive.fleet.missing.insert("node-001".into(), at(31));
    evaluate(&mut drive, 60);
    assert_eq!(drive.fleet.template, revision(2));
}

#[test]
fn the_successor_of_a_canary_that_is_left_out_gets_the_new_version_however_late_its_pod_is() {
    let mut drive = with_canary(6, 2);
    (0..3).for_each(|now| drop(evaluate(&mut drive, now)));
    drive.fleet.pods[0] = pod(901, "node-000", 2, 3, true);
    (3..6).for_each(|now| drop(evaluate(&mut drive, now)));
    drive.fleet.node(0).is_left_out = true;
    (6..9).for_each(|now| drop(evaluate(&mut drive, now)));
    assert_eq!(drive.nodes(), ["node-000", "node-001"]);
    drive.fleet.pods.remove(1);
    drive.fleet.missing.insert("node-001".into(), at(9));
    for now in [9, 10, 30] {
        evaluate(&mut drive, now);
        assert_eq!((&drive.fleet.template, drive.nodes().len()), (&revision(2), 2), "after {now} s");
    }
}

/// More canaries than a status can name: 260 of 400, with room for more in the budget.
fn many_canaries(budget: u32) -> World {
    let canary = Canary { who: Who::Some(Share::Count(260)), soak: TimeDelta::seconds(60), by_hand: false };
    let mut world = World::new(400, Policy { canary: Some(canary), ..policy(Share::Count(budget)) });
    world.version = 2;
    world
}

#[test]
fn no_more_canaries_than_asked_for_and_none_is_replaced_twice() {
    for budget in [390, 20] {
        let mut world = many_canaries(budget);
        let mut went = 0;
        for _ in 0..6 {
            world.clock += 1;
            went += world.act().steps.len();
        }
        assert_eq!(went, 260.min(budget as usize), "while they terminate");
        // Their Pods come in their time, and a fifth of them late.
        for turn in 0..200 {
            let plan = world.round(2);
            went += plan.steps.len();
            let has_soaked = plan.memory.rollout.proof.is_none_or(|proof| proof.passed);
            assert!(has_soaked || went <= 260, "{went} after {turn} turns");
        }
        assert_eq!((went, world.act().report.state), (400, State::Complete), "each once");
    }
}

#[test]
fn an_operator_that_starts_while_many_canaries_terminate_takes_no_more_of_them() {
    let mut world = many_canaries(390);
    let mut went = 0;
    for _ in 0..3 {
        world.clock += 1;
        went += world.act().steps.len();
    }
    world.clock += 1;
    world.restart();
    for _ in 0..3 {
        world.clock += 1;
        went += world.act().steps.len();
    }
    assert_eq!(went, 260);
}
