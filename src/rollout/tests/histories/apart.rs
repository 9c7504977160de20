//! The template while canaries prove themselves: a node that joins, or loses its Pod, gets the last good version.
//!
//! Must not use a rule to judge another.

use super::policies::Drive;
use super::*;
use crate::rollout::{Canary, Who};

fn drive(nodes: usize, canaries: u32) -> Drive {
    let canary = Canary { who: Who::Some(Share::Count(canaries)), soak: TimeDelta::seconds(600), by_hand: false };
    Drive::new(nodes, Policy { canary: Some(canary), ..policy(Share::Count(2)) })
}

/// A node that joined, with a Pod from the template that is there.
fn joins(drive: &mut Drive, name: &str, second: i64) {
    let mut node = Node::named(name);
    (node.created, node.ready_since) = (at(second), Some(at(second)));
    drive.fleet.nodes.push(Arc::new(node));
    let mut made = (*pod(second as usize + 5_000, name, 1, second, true)).clone();
    made.revision = Some(drive.fleet.template.clone());
    drive.fleet.pods.push(Arc::new(made));
}

fn version_on(drive: &Drive, node: &str) -> u32 {
    let pod = drive.fleet.pods.iter().find(|pod| &*pod.node == node).unwrap();
    pod.revision.as_ref().unwrap().version
}

#[test]
pub(super) fn the_template_is_the_new_one_only_while_a_canary_gets_its_pod() {
    let mut drive = drive(6, 1);
    drive.evaluate(2, 0);
    assert_eq!((drive.nodes().len(), &drive.fleet.template), (0, &revision(2)));
    drive.evaluate(2, 1);
    assert_eq!(drive.nodes(), ["node-000"]);
    drive.evaluate(2, 2);
    assert_eq!(drive.fleet.template, revision(1), "its Pod is made");
    joins(&mut drive, "joined", 100);
    drive.run(2, 100, 590);
    assert_eq!((version_on(&drive, "joined"), drive.nodes().len()), (1, 1));
    assert!(drive.waits().contains("must stay available until"), "{}", drive.waits());
    drive.run(2, 600, 800);
    assert_eq!((drive.state(), drive.fleet.template.clone(), drive.nodes().len()), (State::Complete, revision(2), 7));
    assert_eq!(drive.fleet.memory.rollout.phase, Phase::Complete { since: Some(at(0)), at: at(650) });
}

#[test]
fn the_template_stays_while_the_new_pod_of_a_canary_is_not_made() {
    let mut drive = drive(6, 1);
    drive.evaluate(2, 0);
    let plan = drive.fleet.plan(&drive.policy, &desired(2), 1);
    assert_eq!(plan.steps.len(), 1);
    // It was deleted, and the DaemonSet controller is slow.
    let lost = plan.steps[0].place.clone();
    drive.fleet.memory = plan.memory;
    drive.fleet.pods.retain(|pod| pod.node != lost);
    drive.fleet.lost = HashMap::from([(lost.clone(), at(1))]);
    for second in [2, 100, 1_000] {
        assert_eq!(drive.fleet.plan(&drive.policy, &desired(2), second).template, Template::Keep);
    }
    // Where its node is gone for long, others that join are not to have it.
    let node = drive.fleet.nodes.iter_mut().find(|node| node.name == lost).unwrap();
    (Arc::make_mut(node).ready, Arc::make_mut(node).ready_since) = (false, Some(at(2)));
    assert_eq!(drive.fleet.plan(&drive.policy, &desired(2), 3).template, Template::GoBack);
}

#[test]
fn a_canary_that_is_evicted_is_taken_again_and_one_that_crashes_late_stops_it() {
    let mut drive = drive(6, 1);
    drive.run(2, 0, 100);
    assert_eq!((drive.nodes().len(), &drive.fleet.template), (1, &revision(1)));
    // Another client deletes the Pod of another node.
    drive.fleet.change(3, |pod| (pod.deleting, pod.gone_by) = (true, Some(at(130))));
    drive.evaluate(2, 100);
    assert_eq!(drive.fleet.template, revision(1));
    drive.fleet.pods[3] = pod(8_000, "node-003", 1, 100, true);
    // Another client deletes its Pod, which is born from the template that is there.
    drive.fleet.pods[0] = pod(9_000, "node-000", 1, 100, true);
    drive.run(2, 101, 300);
    assert_eq!((drive.nodes().len(), version_on(&drive, drive.nodes()[1])), (2, 2));
    assert_eq!(drive.fleet.template, revision(1));
    let canary = drive.nodes()[1].to_owned();
    let at_it = drive.fleet.pods.iter().position(|pod| *pod.node == *canary).unwrap();
    drive.fleet.change(at_it, |pod| {
        (pod.ready_since, pod.trouble, pod.restarts) = (None, Some(Trouble::Crash("CrashLoopBackOff".into())), 4);
    });
    drive.run(2, 300, 1_000);
    assert_eq!((drive.state(), drive.nodes().len()), (State::Failed, 2));
    assert_eq!(drive.fleet.memory.rejected, [2]);
}

#[test]
fn a_pause_keeps_the_template_and_nothing_is_waited_for_in_vain_where_all_are_canaries() {
    let mut paused = drive(6, 1);
    paused.evaluate(2, 0);
    paused.evaluate(2, 1);
    paused.policy.hold = Some(PAUSED);
    paused.run(2, 2, 100);
    assert_eq!(paused.fleet.template, revision(2));
    let mut all = drive(2, 2);
    all.run(2, 0, 700);
    assert_eq!((all.state(), &all.fleet.template), (State::Complete, &revision(2)));
}
