//! Going back from a version that failed: one node is tried first, and what never had that version is left alone.
//!
//! Must not use a rule to judge another.

use super::policies::Drive;
use super::*;
use crate::rollout::calendar::Blackout;
use crate::rollout::{BackPhase, Calendar};

fn rolls_back(size: usize, budget: u32) -> Drive {
    Drive::new(size, Policy { rolls_back: true, ..policy(Share::Count(budget)) })
}

/// How many nodes run a minor version.
fn run(drive: &Drive, minor: u32) -> usize {
    let is_it = |pod: &&Arc<Pod>| pod.revision.as_ref().is_some_and(|r| r.version == minor);
    drive.fleet.pods.iter().filter(is_it).count()
}

#[test]
pub(super) fn agents_of_a_failed_version_are_rolled_back_one_first_and_the_others_stay() {
    let mut drive = rolls_back(10, 3);
    drive.bad.insert(2);
    drive.evaluate(2, 1);
    drive.evaluate(2, 2);
    assert_eq!(run(&drive, 2), 3, "as many as the budget");
    drive.evaluate(2, 3);
    assert_eq!((drive.state(), &drive.fleet.template), (State::Failed, &revision(1)));
    // What is resolved meanwhile wants the last good version.
    drive.evaluate(1, 4);
    assert_eq!((run(&drive, 2), drive.state()), (2, State::Failed), "one is tried");
    assert!(drive.waits().contains("going back to version 1"), "{}", drive.waits());
    drive.run(1, 5, 60);
    assert_eq!((run(&drive, 1), run(&drive, 2), drive.replaced.len()), (10, 0, 6), "nobody else was touched");
    assert_eq!(drive.state(), State::RolledBack);
    assert!(drive.fleet.memory.rejected.contains(&2), "it is not taken again");
    // A newer one is.
    drive.run(3, 60, 600);
    assert_eq!((run(&drive, 3), drive.state()), (10, State::Complete));
}

#[test]
pub(super) fn where_the_older_agent_does_not_run_any_more_it_ends_with_the_one_that_was_tried() {
    let mut drive = rolls_back(10, 3);
    drive.bad.insert(2);
    drive.evaluate(2, 1);
    drive.evaluate(2, 2);
    drive.evaluate(2, 3);
    drive.bad.insert(1);
    drive.run(1, 4, 4_000);
    assert_eq!((run(&drive, 2), drive.replaced.len()), (2, 4), "one was tried, and no other");
    assert_eq!(drive.fleet.memory.rollout.back.as_ref().unwrap().phase, BackPhase::Refused);
    assert!(drive.waits().contains("which it does not run on any more"), "{}", drive.waits());
    // An administrator fixes that node.
    let tried = drive.fleet.memory.rollout.back.clone().unwrap().place.unwrap();
    drive.bad.remove(&1);
    let at_it = drive.fleet.pods.iter().position(|pod| *pod.node == *tried).unwrap();
    drive.fleet.change(at_it, |pod| (pod.ready_since, pod.trouble) = (Some(at(4_000)), None));
    drive.run(1, 4_001, 4_200);
    assert_eq!((run(&drive, 1), run(&drive, 2)), (10, 0));
}

#[test]
fn only_a_node_without_an_agent_is_rolled_back_in_a_blackout_and_none_in_a_pause() {
    let reached = |change: fn(&mut Policy)| {
        let mut drive = rolls_back(10, 3);
        drive.bad.insert(2);
        drive.evaluate(2, 1);
        drive.evaluate(2, 2);
        // One of them got over it.
        let over_it = drive.fleet.pods.iter().position(|pod| pod.ready_since.is_none()).unwrap();
        drive.fleet.change(over_it, |pod| (pod.ready_since, pod.trouble) = (Some(at(2)), None));
        drive.policy.max_failures = Some(2);
        drive.evaluate(2, 3);
        assert_eq!(drive.state(), State::Failed);
        change(&mut drive.policy);
        drive.run(1, 4, 250);
        (run(&drive, 1), run(&drive, 2))
    };
    let blackout = |policy: &mut Policy| {
        let blackouts = vec![Blackout { from: at(0), to: at(10_000), reason: None }];
        policy.calendar = Calendar { windows: Vec::new(), blackouts };
    };
    assert_eq!(reached(|_| ()), (10, 0));
    assert_eq!(reached(blackout), (9, 1), "the one that runs waits");
    assert_eq!(reached(|policy| policy.hold = Some(PAUSED)), (7, 3));
}

#[test]
fn a_failed_template_is_put_back_too_and_not_taken_again() {
    let mut drive = rolls_back(6, 2);
    let typo = Desired { revision: Release { hash: "typo".to_owned(), ..revision(1) }, ..desired(1) };
    let evaluate = |drive: &mut Drive, now: i64| {
        let plan = drive.fleet.plan(&drive.policy, &typo, now);
        match plan.template {
            Template::Advance => drive.fleet.template = typo.revision.clone(),
            Template::GoBack => drive.fleet.template = plan.memory.rollout.last_good.clone().unwrap(),
            Template::Keep => {}
        }
        for step in &plan.steps {
            let place = drive.fleet.pods.iter().position(|pod| pod.id == step.pod.id).unwrap();
            let revision = drive.fleet.template.clone();
            let mut made = (*pod(1_000 + drive.replaced.len(), &step.pod.node, 1, now, true)).clone();
            if revision.hash == "typo" {
                (made.ready_since, made.trouble) = (None, Some(Trouble::Crash("CrashLoopBackOff".into())));
            }
            made.revision = Some(revision);
            drive.fleet.pods[place] = Arc::new(made);
            drive.replaced.push((now, step.pod.node.to_string()));
        }
        drive.fleet.memory = plan.memory.clone();
        plan
    };
    for now in 1..60 {
        evaluate(&mut drive, now);
    }
    let hashes: Vec<&str> = drive.fleet.pods.iter().map(|pod| &*pod.revision.as_ref().unwrap().hash).collect();
    assert_eq!(hashes, ["h"; 6]);
    assert_eq!(drive.replaced.len(), 4, "two got it, and went back");
    assert_eq!(evaluate(&mut drive, 61).report.state, State::RolledBack);
}
