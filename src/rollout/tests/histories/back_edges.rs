//! What an enemy thought of for going back: budgets that are used up, edits in the middle, a second bad version.
//!
//! Must not use a rule to judge another.

use super::policies::Drive;
use super::*;
use crate::rollout::calendar::Blackout;
use crate::rollout::{Back, BackPhase, Calendar};

/// Ten nodes; so many of the first have version 2 and run; it failed, and the template is at version 1 again.
pub(super) fn after_a_failure(bad: usize, budget: u32) -> Drive {
    let mut drive = Drive::new(10, Policy { rolls_back: true, ..policy(Share::Count(budget)) });
    drive.fleet.template = revision(1);
    for number in 0..bad {
        drive.fleet.pods[number] = pod(100 + number, &format!("node-{number:03}"), 2, 1, true);
    }
    drive.fleet.memory.rejected.push(2);
    drive.fleet.memory.rollout.failure = Some(Failure {
        revision: revision(2),
        rejects: true,
        insisted: false,
        message: "version 2 failed".to_owned(),
        places: Vec::new(),
        at: None,
        only_lost: false,
        by_hand: false,
        earlier: Vec::new(),
        workloads: Vec::new(),
        whole_since: None,
    });
    drive
}

/// How many nodes run a minor version.
fn run(drive: &Drive, minor: u32) -> usize {
    let is_it = |pod: &&Arc<Pod>| pod.revision.as_ref().is_some_and(|r| r.version == minor);
    drive.fleet.pods.iter().filter(is_it).count()
}

/// The node becomes unreachable.
pub(super) fn is_lost(drive: &mut Drive, number: usize, second: i64) {
    let node = drive.fleet.node(number);
    (node.ready, node.ready_since) = (false, Some(at(second)));
    drive.fleet.change(number, |pod| pod.ready_since = None);
}

#[test]
fn the_budget_holds_on_a_rollback_that_begins_at_rest() {
    let mut drive = after_a_failure(6, 2);
    drive.evaluate(1, 100);
    drive.evaluate(1, 101);
    assert_eq!(drive.replaced.len(), 3, "one was tried, and two follow");
    // These two do not start, and the operator restarts each time.
    for number in 1..3 {
        drive.fleet.change(number, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("1".into()))));
    }
    drive.run(1, 110, 2_000);
    assert_eq!(drive.replaced.len(), 3, "{}", drive.waits());
}

#[test]
fn the_first_one_is_rolled_back_within_the_budget_only() {
    let mut drive = after_a_failure(3, 2);
    drive.fleet.rolling_since(0);
    drive.fleet.memory.rollout.touched.since = Some(at(0));
    for number in 0..2 {
        is_lost(&mut drive, number, 5);
    }
    drive.run(1, 100, 400);
    assert_eq!(drive.replaced.len(), 0, "{}", drive.waits());
}

#[test]
fn a_place_that_was_chosen_before_is_chosen_again_by_present_facts() {
    let mut drive = after_a_failure(3, 2);
    let back = |phase| Back { from: revision(2), to: revision(1), place: Some("node-000".to_owned()), phase };
    drive.fleet.memory.rollout.back = Some(back(BackPhase::Trial));
    let blackouts = vec![Blackout { from: at(0), to: at(10_000), reason: None }];
    drive.policy.calendar = Calendar { windows: Vec::new(), blackouts };
    drive.evaluate(1, 100);
    assert_eq!(drive.replaced.len(), 0, "not in a blackout");
    drive.policy.calendar = Calendar::default();
    drive.fleet.change(0, |pod| (pod.ready_since, pod.created) = (None, at(200)));
    drive.evaluate(1, 201);
    assert_ne!(drive.nodes(), ["node-000"], "not one that starts");
    assert_eq!(drive.replaced.len(), 1);
}

#[test]
fn a_version_that_fails_again_is_tried_to_be_left_again() {
    let mut drive = Drive::new(10, Policy { rolls_back: true, ..policy(Share::Count(3)) });
    drive.bad.insert(2);
    drive.run(2, 0, 30);
    drive.run(1, 30, 100);
    assert_eq!((run(&drive, 1), drive.replaced.len()), (10, 6));
    drive.fleet.memory = drive.fleet.memory.retrying(2, at(100));
    drive.run(2, 100, 130);
    drive.bad.insert(1);
    let before = drive.replaced.len();
    drive.run(1, 130, 4_000);
    assert_eq!(drive.replaced.len() - before, 1, "the older one does not run any more, and one shows that");
}

#[test]
fn a_pin_of_the_last_good_version_brings_it_everywhere_although_one_did_not_go_back() {
    let mut drive = after_a_failure(3, 2);
    drive.bad.insert(1);
    drive.run(1, 100, 500);
    assert_eq!(run(&drive, 2), 2);
    let pin = Desired { insists: true, ..desired(1) };
    assert_eq!(drive.fleet.plan(&drive.policy, &pin, 510).steps.len(), 1, "{}", drive.waits());
}

#[test]
fn an_edit_in_the_middle_of_a_way_back_does_not_stop_it() {
    let mut drive = after_a_failure(4, 2);
    for number in 0..4 {
        drive.fleet.change(number, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("1".into()))));
    }
    drive.fleet.memory.rollout.touched.since = Some(at(0));
    drive.evaluate(1, 100);
    assert_eq!(drive.replaced.len(), 1);
    let edited = Desired { revision: Release { hash: "h2".to_owned(), ..revision(1) }, ..desired(1) };
    drive.run_to(&edited, 110, 1_000);
    let all = drive.fleet.pods.iter().all(|pod| pod.revision.as_ref() == Some(&edited.revision));
    assert!(all, "{}", drive.waits());
    assert_eq!(drive.fleet.memory.rollout.last_good, Some(edited.revision));
}

#[test]
fn agents_of_an_earlier_failed_version_are_rolled_back_too() {
    let mut drive = after_a_failure(1, 2);
    drive.bad.insert(3);
    drive.run(3, 100, 130);
    assert_eq!((run(&drive, 3), run(&drive, 2), drive.state()), (2, 1, State::Failed));
    drive.run(1, 130, 300);
    assert_eq!((run(&drive, 1), drive.state()), (10, State::RolledBack));
}

#[test]
fn where_the_download_cannot_be_checked_a_failure_stops_and_rejects_nothing() {
    let mut drive = Drive::new(10, Policy { rolls_back: true, ..policy(Share::Count(3)) });
    drive.fleet.source = Source::Unasked;
    drive.bad.insert(2);
    drive.evaluate(2, 1);
    drive.evaluate(2, 2);
    // One of them runs.
    let runs = drive.fleet.pods.iter().position(|pod| pod.ready_since.is_none()).unwrap();
    drive.fleet.change(runs, |pod| (pod.ready_since, pod.trouble) = (Some(at(2)), None));
    drive.policy.max_failures = Some(2);
    drive.bad.insert(1);
    drive.run(2, 3, 1_000);
    assert_eq!((drive.state(), &drive.fleet.template), (State::Failed, &revision(1)));
    assert!(drive.fleet.memory.rejected.is_empty());
    assert!(drive.fleet.memory.rollout.failure.as_ref().unwrap().message.starts_with("version 2"));
    assert_eq!((run(&drive, 2), drive.replaced.len()), (2, 4), "one of those that do not run is tried");
    assert_eq!(drive.fleet.memory.rollout.back.as_ref().unwrap().phase, BackPhase::Trial, "no verdict either");
    // Whatever it was is over.
    let at_it = drive.replaced.last().unwrap().1.clone();
    let at_it = drive.fleet.pods.iter().position(|pod| *pod.node == *at_it).unwrap();
    drive.bad.remove(&1);
    drive.fleet.change(at_it, |pod| (pod.ready_since, pod.trouble) = (Some(at(1_000)), None));
    drive.run(2, 1_001, 1_200);
    assert_eq!((run(&drive, 1), run(&drive, 2)), (9, 1), "an agent that runs is left alone");
}

#[test]
fn a_pause_in_the_middle_of_a_way_back_forgets_nothing_that_counts() {
    let mut drive = after_a_failure(6, 2);
    drive.fleet.memory.rollout.touched.since = Some(at(0));
    drive.policy.hold = Some(PAUSED);
    drive.evaluate(1, 100);
    assert_eq!(drive.fleet.memory.rollout.touched.since, Some(at(0)));
}

#[test]
fn those_that_follow_are_judged_too_though_each_is_ready_for_a_moment() {
    let mut drive = after_a_failure(10, 2);
    drive.evaluate(1, 100);
    for now in (101..700).step_by(10) {
        for number in 0..10 {
            if drive.fleet.pods[number].revision == Some(revision(1)) && drive.fleet.pods[number].created > at(100) {
                drive.fleet.change(number, |pod| {
                    (pod.ready_since, pod.restarts) = (Some(at(now)), 3);
                    pod.trouble = Some(Trouble::Crash("restarted 3 times".into()));
                });
            }
        }
        drive.evaluate(1, now);
    }
    assert!(drive.replaced.len() <= 5, "{}", drive.replaced.len());
    assert_eq!(drive.fleet.memory.rollout.back.as_ref().unwrap().phase, BackPhase::Refused);
    assert!(drive.waits().contains("which it does not run on any more"), "{}", drive.waits());
}

#[test]
fn those_that_follow_one_that_runs_are_judged_too() {
    let mut drive = after_a_failure(10, 2);
    let went = |drive: &Drive, number: usize| drive.fleet.pods[number].revision == Some(revision(1));
    let phase = |drive: &Drive| drive.fleet.memory.rollout.back.as_ref().map(|back| back.phase);
    drive.evaluate(1, 100);
    let tried: Vec<usize> = (0..10).filter(|number| went(&drive, *number)).collect();
    drive.evaluate(1, 101);
    assert_eq!((tried.len(), phase(&drive)), (1, Some(BackPhase::Going)));
    for now in (102..700).step_by(10) {
        for number in (0..10).filter(|number| !tried.contains(number)) {
            if went(&drive, number) {
                drive.fleet.change(number, |pod| {
                    (pod.ready_since, pod.restarts) = (Some(at(now)), 3);
                    pod.trouble = Some(Trouble::Crash("restarted 3 times".into()));
                });
            }
        }
        drive.evaluate(1, now);
    }
    assert_eq!(phase(&drive), Some(BackPhase::Refused), "{}", drive.waits());
    assert!(drive.replaced.len() <= 5, "{}", drive.replaced.len());
}

#[test]
fn a_node_whose_agent_never_ran_well_refuses_no_way_back() {
    let mut drive = Drive::new(20, Policy { rolls_back: true, ..policy(Share::Count(2)) });
    let crash = |pod: &mut Pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("1".into())));
    drive.fleet.change(19, |pod| {
        crash(pod);
        pod.restarts = 5_000;
    });
    drive.bad.insert(2);
    for second in 0..3 {
        drive.evaluate(2, second);
    }
    assert_eq!(drive.state(), State::Failed);
    for second in (4..4_000).step_by(10) {
        drive.evaluate(1, second);
        let at_it = drive.fleet.pods.iter().position(|pod| &*pod.node == "node-019").unwrap();
        drive.fleet.change(at_it, crash);
    }
    assert_eq!(run(&drive, 2), 0, "{}", drive.waits());
}
