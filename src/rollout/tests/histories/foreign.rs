//! A template that another client writes: nodes that join get it at once, whatever is decided here, and are heard.
//!
//! Must not test what holds for every template.

use super::policies::{Drive, canary};
use super::*;
use crate::rollout::Who;

/// A fleet at version 1 whose template has just become version 2.
fn drive(policy: Policy) -> Drive {
    let mut drive = Drive::new(10, policy);
    (drive.fleet.is_foreign, drive.fleet.template) = (true, revision(2));
    drive
}

/// A node that joins, with a Pod of the template.
fn joins(drive: &mut Drive, name: &str, second: i64, crashes: bool) {
    let mut node = Node::named(name);
    (node.created, node.ready_since) = (at(second), Some(at(second)));
    drive.fleet.nodes.push(Arc::new(node));
    let mut made = (*pod(second as usize + 5_000, name, 2, second, !crashes)).clone();
    made.trouble = crashes.then(|| Trouble::Crash("CrashLoopBackOff".into()));
    drive.fleet.pods.push(Arc::new(made));
}

#[test]
fn a_template_that_is_not_ours_is_never_written_and_reaches_every_node_once() {
    let mut drive = drive(policy(Share::Count(2)));
    drive.run(2, 0, 600);
    assert_eq!((drive.nodes().len(), drive.state()), (10, State::Complete));
    let mut bad = super::foreign::drive(policy(Share::Count(2)));
    bad.bad.insert(2);
    for now in (0..3_000).step_by(10) {
        bad.evaluate(2, now);
        assert_eq!(bad.fleet.template, revision(2));
    }
    assert_eq!((bad.nodes().len(), bad.state()), (2, State::Failed));
}

#[test]
pub(super) fn one_that_joined_and_crashes_begins_the_soak_again_and_two_are_a_verdict() {
    let mut drive = drive(canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 300);
    assert_eq!(drive.nodes().len(), 1);
    joins(&mut drive, "good", 300, false);
    joins(&mut drive, "first", 301, true);
    drive.run(2, 310, 2_000);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Rolling), "it may be that node alone");
    // Well again, it ends the wait: the whole soak begins.
    let crashed = drive.fleet.pods.len() - 1;
    drive.fleet.change(crashed, |pod| (pod.trouble, pod.ready_since) = (None, Some(at(2_000))));
    drive.run(2, 2_000, 2_500);
    assert_eq!(drive.nodes().len(), 1);
    let mut other = drive.clone();
    drive.run(2, 2_500, 3_500);
    assert_eq!((drive.nodes().len(), drive.state()), (10, State::Complete), "those that joined have it");
    joins(&mut other, "second", 2_500, true);
    joins(&mut other, "third", 2_501, true);
    other.run(2, 2_510, 2_600);
    assert_eq!((other.nodes().len(), other.state()), (1, State::Failed));
    assert!(other.waits().contains("second, third"), "{}", other.waits());
}

#[test]
pub(super) fn two_that_joined_and_crash_are_a_verdict_whatever_the_budget() {
    let mut drive = drive(policy(Share::Count(5)));
    drive.evaluate(2, 0);
    joins(&mut drive, "first", 5, true);
    joins(&mut drive, "second", 6, true);
    drive.evaluate(2, 10);
    assert_eq!(drive.state(), State::Failed);
}

#[test]
fn those_that_join_take_from_no_budget() {
    let mut drive = drive(policy(Share::Count(1)));
    drive.evaluate(2, 0);
    for number in 0..3 {
        joins(&mut drive, &format!("joined-{number}"), 5 + number, false);
        let last = drive.fleet.pods.len() - 1;
        drive.fleet.change(last, |pod| pod.ready_since = None);
    }
    drive.run(2, 10, 200);
    assert_eq!((drive.nodes().len(), drive.fleet.nodes.len()), (10, 13));
}
