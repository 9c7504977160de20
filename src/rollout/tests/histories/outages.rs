//! Outages of nodes in the middle of a rollout: they are no verdict, and cost no running agent.
//!
//! Must not use a rule to judge another.

use super::policies::{Drive, canary};
use super::world::World;
use super::*;
use crate::rollout::{Order, Who};

/// Twelve nodes of which six run version 2 and three start it, with the node controller and kubelets as `away` says.
fn halfway(policy: Policy) -> Drive {
    let mut drive = Drive::new(12, policy);
    (drive.fleet.template, drive.fleet.deciding_since) = (revision(2), -1_000);
    drive.fleet.rolling_since(0);
    for number in 0..9 {
        let ready = number < 6;
        let node = drive.fleet.nodes[number].name.clone();
        drive.fleet.pods[number] = pod(100 + number, &node, 2, if ready { 10 } else { 100 }, ready);
        if !ready {
            drive.fleet.lost.insert(node, at(100));
        }
    }
    drive
}

/// The nodes go away, or are back.
fn set(drive: &mut Drive, nodes: impl Iterator<Item = usize>, ready: bool, now: i64) {
    for number in nodes {
        let node = drive.fleet.node(number);
        (node.ready, node.ready_since) = (ready, Some(at(now)));
        let name = node.name.clone();
        for pod in drive.fleet.pods.iter_mut().filter(|pod| pod.node == name) {
            let pod = Arc::make_mut(pod);
            if ready && pod.was_ready.is_some() {
                (pod.ready_since, pod.unready_since) = (Some(at(now + 1)), None);
            } else if let Some(since) = pod.ready_since.take() {
                (pod.was_ready, pod.unready_since) = (Some(at(now) - since), Some(at(now)));
            }
        }
    }
}

fn failure(drive: &Drive) -> Option<&Failure<Release>> {
    drive.fleet.memory.rollout.failure.as_ref()
}

/// Those that start become available.
fn start(drive: &mut Drive, now: i64) {
    for number in 6..9 {
        drive.fleet.change(number, |pod| (pod.ready_since, pod.unready_since) = (Some(at(now)), None));
    }
    drive.fleet.lost.clear();
}

#[test]
pub(super) fn while_all_nodes_are_unreachable_nothing_is_rejected_or_rolled_back() {
    for rolls_back in [false, true] {
        let mut drive = halfway(Policy { rolls_back, max_failures: Some(1), ..policy(Share::Count(3)) });
        set(&mut drive, 0..12, false, 110);
        drive.run(2, 110, 2_000);
        assert_eq!((drive.state(), failure(&drive)), (State::Rolling, None), "however long it lasts");
        // They are back one by one, those in flight last: each has its time from then on.
        set(&mut drive, 9..12, true, 2_000);
        set(&mut drive, 0..6, true, 2_010);
        drive.evaluate(2, 2_010);
        set(&mut drive, 6..8, true, 2_050);
        drive.run(2, 2_050, 2_300);
        assert_eq!(failure(&drive), None);
        assert_eq!(drive.last.as_ref().unwrap().next, Some(at(2_310)), "the last one is asked about without an event");
        set(&mut drive, 8..9, true, 2_305);
        start(&mut drive, 2_308);
        drive.run(2, 2_310, 2_800);
        assert_eq!((drive.state(), failure(&drive)), (State::Complete, None));
        assert_eq!(drive.nodes().len(), 3, "nobody is replaced twice");
    }
}

#[test]
pub(super) fn a_node_lost_alone_after_an_outage_counts_as_before() {
    let mut drive = halfway(Policy { max_failures: Some(1), ..policy(Share::Count(3)) });
    set(&mut drive, 6..9, false, 110);
    drive.run(2, 110, 410);
    assert_eq!(drive.state(), State::Rolling, "each has its time from when its node went");
    drive.evaluate(2, 410);
    assert_eq!(drive.state(), State::Failed, "only those that it was brought to went away");
    // After an outage, too, once the others have been back for as long.
    let mut drive = halfway(Policy { max_failures: Some(1), ..policy(Share::Count(3)) });
    set(&mut drive, 0..12, false, 110);
    drive.run(2, 110, 600);
    set(&mut drive, (0..6).chain(9..12), true, 600);
    drive.run(2, 600, 900);
    assert_eq!(failure(&drive), None);
    drive.evaluate(2, 900);
    assert_eq!(drive.state(), State::Failed);
}

#[test]
fn an_unbound_agent_has_its_time_from_when_its_node_is_back() {
    let mut drive = halfway(Policy { max_failures: Some(1), rolls_back: true, ..policy(Share::Count(3)) });
    // What the scheduler says of a node that is tainted because it is NotReady; it is old for a moment afterwards.
    let refused = Trouble::Capacity("0/12 nodes are available: 1 node(s) had untolerated taint(s)".into());
    drive.fleet.change(8, |pod| pod.trouble = Some(refused.clone()));
    set(&mut drive, 0..12, false, 110);
    drive.run(2, 110, 600);
    set(&mut drive, 0..12, true, 600);
    drive.run(2, 600, 890);
    assert_eq!(failure(&drive), None);
    assert_eq!(drive.last.as_ref().unwrap().next, Some(at(900)));
    drive.evaluate(2, 900);
    assert_eq!(drive.state(), State::Failed, "the node has no room");
}

#[test]
fn an_outage_that_reaches_one_node_after_another_is_one() {
    let mut drive = halfway(Policy { max_failures: Some(1), ..policy(Share::Count(3)) });
    // Those in flight are late already: the first of them to go away is not the last word.
    for node in 0..12_i64 {
        let now = if node < 3 { 390 + 3 * node } else { 360 + 20 * node };
        set(&mut drive, std::iter::once((6 + node as usize) % 12), false, now);
        drive.evaluate(2, now);
        assert_eq!(failure(&drive), None, "{now}");
    }
    drive.run(2, 700, 2_000);
    assert_eq!((failure(&drive), drive.state()), (None, State::Rolling));
}

#[test]
fn an_unreachable_zone_is_an_outage_though_the_rest_of_the_fleet_is_well() {
    let zones = Policy { order: Order::ByZone, max_failures: Some(1), ..policy(Share::Count(2)) };
    let mut drive = Drive::new(40, zones);
    for node in 0..40 {
        drive.zone(node, ["a", "b", "c", "d"][node / 10]);
    }
    drive.evaluate(2, 0);
    drive.fleet.template = revision(2);
    for number in 0..2 {
        let node = drive.fleet.nodes[number].name.clone();
        drive.fleet.pods[number] = pod(100 + number, &node, 2, 10, false);
    }
    set(&mut drive, 0..10, false, 15);
    drive.run(2, 20, 1_000);
    assert_eq!((failure(&drive), drive.state()), (None, State::Rolling));
    // Nodes that were unreachable long before, and as many as usual, are none.
    let mut drive = halfway(Policy { max_failures: Some(1), ..policy(Share::Count(3)) });
    set(&mut drive, 9..11, false, -50_000);
    set(&mut drive, 6..9, false, 110);
    drive.run(2, 110, 411);
    assert_eq!(drive.state(), State::Failed);
}

#[test]
fn a_canary_that_reboots_with_others_ends_no_soak_for_good() {
    let mut drive = Drive::new(12, Policy { rolls_back: true, ..canary(Who::Some(Share::Count(1)), 3_600) });
    drive.run(2, 0, 100);
    assert_eq!(drive.nodes(), ["node-000"]);
    set(&mut drive, 0..12, false, 100);
    drive.run(2, 100, 1_000);
    assert_eq!(failure(&drive), None);
    set(&mut drive, 0..12, true, 1_000);
    drive.run(2, 1_010, 6_000);
    assert_eq!((drive.nodes().len(), drive.state()), (12, State::Complete));
}

#[test]
pub(super) fn a_running_agent_does_not_go_back_while_the_verdict_may_yet_be_withdrawn() {
    // A single node is unreachable for ten minutes: that stops the rollout, because it cannot be told from a bad
    // version.
    let one = Policy { rolls_back: true, ..policy(Share::Count(1)) };
    let mut drive = Drive::new(12, one);
    drive.run(2, 0, 60);
    let before = drive.nodes().len();
    assert!(before > 3);
    let (_, last) = drive.replaced.last().cloned().unwrap();
    let number = drive.fleet.nodes.iter().position(|node| *node.name == *last).unwrap();
    drive.fleet.change(number, |pod| pod.ready_since = None);
    drive.fleet.lost.insert(last.as_str().into(), at(55));
    set(&mut drive, number..=number, false, 58);
    drive.run(2, 60, 370);
    assert_eq!(drive.state(), State::Failed);
    let failed = drive.fleet.memory.rollout.failure.clone().unwrap();
    assert!(failed.only_lost && failed.at.is_some(), "{failed:?}");
    // It is back in time, and its agent becomes available: no agent is rolled back meanwhile.
    set(&mut drive, number..=number, true, 500);
    drive.fleet.change(number, |pod| (pod.ready_since, pod.unready_since) = (Some(at(505)), None));
    drive.fleet.lost.clear();
    drive.run(1, 510, 800);
    assert_eq!(drive.nodes().len(), before, "no running agent went back");
    assert_eq!(drive.last.as_ref().unwrap().next, Some(at(805)), "it is looked at when that is over");
    drive.evaluate(1, 810);
    assert!(failure(&drive).is_none(), "withdrawn");
    drive.run(2, 820, 1_200);
    assert_eq!(drive.state(), State::Complete);
}

#[test]
pub(super) fn what_was_never_started_fills_the_budget_and_rejects_nothing_however_long_it_takes() {
    for rolls_back in [false, true] {
        let mut drive = halfway(Policy { rolls_back, max_failures: Some(1), ..policy(Share::Count(3)) });
        let pulls = |pod: &mut Pod| pod.trouble = Some(Trouble::Unstarted("its image is being pulled".into()));
        for number in 6..9 {
            drive.fleet.change(number, pulls);
        }
        drive.run(2, 110, 390);
        assert_eq!(drive.last.as_ref().unwrap().report.bucket(Bucket::Starting), 3);
        drive.run(2, 390, 3_000);
        let report = &drive.last.as_ref().unwrap().report;
        assert_eq!((report.bucket(Bucket::Pulling), failure(&drive), drive.nodes().len()), (3, None, 0));
        assert!(drive.waits().contains("never started within 300 s: its image is being pulled"), "{}", drive.waits());
        assert_eq!(drive.fleet.template, revision(1), "nodes that join get what works meanwhile");
        for number in 6..9 {
            drive.fleet.change(number, |pod| pod.trouble = None);
        }
        start(&mut drive, 3_000);
        drive.run(2, 3_000, 4_000);
        assert_eq!((drive.state(), failure(&drive), drive.nodes().len()), (State::Complete, None, 3));
    }
    // An edit reaches what waits for a volume that will never come.
    let mut stuck = halfway(policy(Share::Count(3)));
    for number in 6..9 {
        stuck.fleet.change(number, |pod| pod.trouble = Some(Trouble::Unstarted("a volume".into())));
    }
    stuck.run(3, 500, 700);
    assert_eq!(stuck.nodes()[..3], ["node-006", "node-007", "node-008"]);
}

#[test]
pub(super) fn an_agent_that_ran_and_is_not_ready_is_lacking_after_a_moment_and_joins_nothing() {
    let mut fleet = Fleet::new(20, 1);
    for number in 0..19 {
        fleet.change(number, |pod| {
            (pod.ready_since, pod.unready_since, pod.was_ready) = (None, Some(at(0)), Some(TimeDelta::days(1)));
        });
    }
    fleet.nodes.push(Arc::new(Node { created: at(0), ..Node::named("joined") }));
    let evaluate = |now: i64| {
        let plan = fleet.plan(&policy(Share::Count(1)), &desired(1), now);
        (plan.report.running, plan.report.lacking, plan.report.joining, plan.report.updated, plan.next)
    };
    assert_eq!(evaluate(1), (20, 0, 1, 20, Some(at(3))), "one probe that fails is no news, and is asked about again");
    let (running, lacking, joining, updated, _) = evaluate(3);
    assert_eq!((running, lacking, joining, updated), (1, 19, 1, 1));
    let report = fleet.plan(&policy(Share::Count(1)), &desired(1), 3).report;
    assert_eq!((report.ceased.len(), report.troubled.len(), report.bucket(Bucket::Starting)), (5, 0, 20));
    assert_eq!(report.ceased[0].1.to_string(), "not Ready any more");
}

/// In the middle of a rollout of a good version these nodes go away, and are back after so long. Who was replaced, in
/// order.
fn through(policy: &Policy, away: &[usize], seconds: i64) -> Vec<Arc<str>> {
    let (mut world, mut replaced) = (World::new(12, policy.clone()), Vec::new());
    let mut go = |world: &mut World, step: i64| {
        let plan = world.round(step);
        replaced.extend(plan.steps.iter().map(|step| step.pod.node.clone()));
        let failure = &world.truth.memory.rollout.failure;
        assert!(failure.is_none() || away.len() == 1, "{policy:?}: {away:?} away for {seconds} s: {failure:?}");
        plan.report.state
    };
    go(&mut world, 10);
    world.version = 2;
    while world.truth.deleted.is_empty() {
        go(&mut world, 10);
    }
    for node in away {
        world.node_joins_or_leaves(*node);
    }
    for _ in 0..seconds / 10 {
        go(&mut world, 10);
        let running = world.truth.pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.deleting).count();
        assert!(running + away.len() + 3 >= 12, "{policy:?}: {running} agents run");
    }
    for node in away {
        world.node_joins_or_leaves(*node);
    }
    let mut looks = 0;
    let has_it = |pod: &Arc<Pod>| pod.revision == Some(revision(2)) && pod.ready_since.is_some() && !pod.deleting;
    // A verdict on a node that went away alone is withdrawn.
    while go(&mut world, 10) != State::Complete || !world.truth.pods.iter().all(has_it) {
        looks += 1;
        assert!(looks < 500, "{policy:?}: {away:?} away for {seconds} s: it does not complete");
    }
    assert!(world.truth.memory.rejected.is_empty() && world.truth.memory.rollout.failure.is_none());
    replaced
}

#[test]
fn with_every_policy_a_good_version_completes_after_an_outage_once_per_node() {
    let policies = [
        policy(Share::Count(1)),
        policy(Share::Count(3)),
        Policy { order: Order::ByZone, ..policy(Share::Count(2)) },
        Policy { budget: Share::Count(3), ..canary(Who::Some(Share::Count(2)), 60) },
    ];
    let (all, zone): (Vec<usize>, Vec<usize>) = ((0..12).collect(), (0..12).step_by(3).collect());
    for (policy, rolls_back) in policies.iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        for (max_failures, seconds) in [(None, 20), (None, 600), (Some(1), 20), (Some(1), 600)] {
            for away in [&all[..], &zone[..], &all[..1]] {
                let policy = Policy { max_failures, rolls_back, ..policy.clone() };
                let mut replaced = through(&policy, away, seconds);
                let count = replaced.len();
                replaced.sort();
                replaced.dedup();
                let case = format!("{policy:?}: {away:?} away for {seconds} s");
                assert_eq!(replaced.len(), 12, "{case}");
                // A node that alone is unreachable for longer than twice its time is a verdict, and has agents go back.
                let goes_back = rolls_back && away.len() == 1 && seconds == 600;
                assert!(count == 12 || goes_back, "{case}: {count} replacements");
            }
        }
    }
}
