//! What must not be forgotten, nor believed for too long: an earlier good version, a trial that cannot end, a canary
//! whose Pod others delete, a place that was removed.
//!
//! Must not use a rule to judge another.

use super::apart_edges::with_canary;
use super::policies::{Drive, canary};
use super::*;
use crate::rollout::{BackPhase, Order, Who};

#[test]
fn what_only_its_canaries_proved_and_then_fails_gives_way_to_what_was_completed() {
    for by_hand in [false, true] {
        let mut drive = with_canary(10, 2);
        drive.evaluate(1, 0);
        drive.fleet.memory.rollout.last_good = Some(revision(1));
        // The canary of version 2 has soaked, and others follow.
        let mut now = 1;
        while drive.nodes().len() < 2 {
            drive.evaluate(2, now);
            now += 1;
        }
        assert!(drive.nodes().len() < 10 && now < 700, "{}", drive.waits());
        // Version 3 comes, and is taken back.
        drive.evaluate(3, now);
        assert_eq!(drive.fleet.memory.rollout.last_good, Some(revision(2)));
        assert_eq!(drive.fleet.memory.rollout.completed, Some(revision(1)));
        drive.evaluate(2, now + 1);
        if by_hand {
            drive.policy.word = Some(Word::Rejected);
        } else {
            drive.bad.insert(2);
        }
        drive.run(2, now + 2, 2_000);
        let memory = &drive.fleet.memory;
        assert_eq!((memory.rejected.as_slice(), &memory.rollout.last_good), (&[2][..], &Some(revision(1))));
        assert_eq!(drive.fleet.template, revision(1), "those that join get what was completed");
    }
}

#[test]
fn a_complete_rollout_leaves_no_proof_behind() {
    let mut drive = with_canary(3, 1);
    drive.run(2, 0, 3_000);
    let memory = &drive.fleet.memory.rollout;
    assert_eq!((&memory.last_good, &memory.proof), (&Some(revision(2)), &None));
}

#[test]
fn where_its_node_dies_another_one_is_tried_on_the_way_back() {
    let mut drive = super::back_edges::after_a_failure(3, 3);
    drive.evaluate(1, 100);
    let tried = drive.nodes()[0].to_owned();
    assert_eq!(drive.nodes().len(), 1);
    let number = drive.fleet.nodes.iter().position(|node| *node.name == *tried).unwrap();
    super::back_edges::is_lost(&mut drive, number, 101);
    drive.run(1, 102, 500);
    assert!(drive.nodes().len() > 1, "{}", drive.waits());
    assert_eq!(drive.fleet.memory.rollout.back.as_ref().map(|back| back.phase), Some(BackPhase::Going));
}

#[test]
fn a_canary_of_a_foreign_template_whose_pod_others_delete_stays_the_canary() {
    let mut drive = Drive::new(10, Policy { ..canary(Who::Some(Share::Count(1)), 600) });
    (drive.fleet.is_foreign, drive.fleet.template) = (true, revision(2));
    drive.run(2, 0, 100);
    assert_eq!(drive.nodes().len(), 1);
    let name = drive.nodes()[0].to_owned();
    drive.fleet.pods.retain(|pod| *pod.node != *name);
    let plan = drive.fleet.plan(&drive.policy, &desired(2), 101);
    assert_eq!(plan.steps.len(), 0, "it has the template again in a moment");
}

#[test]
fn a_place_that_was_removed_in_flight_is_named_and_asked_about_when_it_ceases_to_count() {
    let mut drive = Drive::new(4, policy(Share::Count(1)));
    drive.fleet.template = revision(2);
    drive.evaluate(2, 100);
    let name = drive.nodes()[0].to_owned();
    let number = drive.fleet.nodes.iter().position(|node| *node.name == *name).unwrap();
    super::back_edges::is_lost(&mut drive, number, 101);
    drive.evaluate(2, 102);
    drive.fleet.nodes.remove(number);
    drive.fleet.pods.retain(|pod| *pod.node != *name);
    let plan = drive.fleet.plan(&drive.policy, &desired(2), 200);
    assert_eq!(plan.steps.len(), 0);
    let waits: Vec<String> = plan.report.waiting_on.iter().map(|one| one.said(&WORDS)).collect();
    assert!(waits.iter().any(|one| one.contains(&format!("node {name}: removed while"))), "{waits:?}");
    assert_eq!(plan.next, Some(at(200 + 3_600)));
}

#[test]
fn the_last_zone_waits_for_the_one_before_it() {
    let mut drive = Drive::new(4, Policy { order: Order::ByZone, ..policy(Share::Count(3)) });
    for number in 0..4 {
        drive.fleet.node(number).zone = Some(if number < 2 { "a" } else { "b" }.to_owned());
    }
    drive.fleet.template = revision(2);
    let mut taken = Vec::new();
    for now in 100..103 {
        let plan = super::apart_edges::evaluate(&mut drive, now);
        taken.extend(plan.steps.iter().map(|step| step.pod.node.to_string()));
    }
    assert_eq!(taken, ["node-000", "node-001"], "none of the other zone while these are on their way");
}
