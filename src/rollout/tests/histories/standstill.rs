//! Rollouts that cannot fail as often as `maxFailures` allows, and stood still for ever; those that crash by turns.
//!
//! Must not use a rule to judge another.

use super::policies::{Drive, canary};
use super::*;
use crate::rollout::calendar::{Blackout, Calendar};
use crate::rollout::{Order, Who};

/// 20 nodes in two zones, one zone after the other, one node at a time; version 2 crashes.
fn zoned() -> Drive {
    let order = Policy { order: Order::ByZone, per_zone: Some(Share::Count(1)), ..policy(Share::Count(4)) };
    let mut drive = Drive::new(20, order);
    for node in 0..20 {
        drive.zone(node, if node < 10 { "a" } else { "b" });
    }
    drive.bad.insert(2);
    drive
}

#[test]
pub(super) fn where_nothing_moves_but_what_fails_the_rollout_has_failed() {
    let mut drive = zoned();
    drive.evaluate(2, 0);
    drive.run(2, 10, 100);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Rolling), "the budget is four, and one fails");
    let made = drive.replaced[0].0;
    assert_eq!(drive.last.as_ref().unwrap().next, Some(at(made + 300)), "it is asked again without an event");
    drive.run(2, 100, made + 300);
    assert_eq!(drive.state(), State::Rolling);
    drive.evaluate(2, made + 300);
    assert_eq!((drive.state(), drive.fleet.memory.rejected.len()), (State::Failed, 1));
    let message = drive.fleet.memory.rollout.failure.clone().unwrap().message;
    let fewer = "; fewer than maxFailures, but nothing more can be replaced until they recover";
    assert!(message.ends_with(fewer), "{message}");
    // Withdrawn like any other, when what failed has stayed well for as long.
    drive.bad.clear();
    let at_it = drive.fleet.pods.iter().position(|pod| pod.ready_since.is_none()).unwrap();
    drive.fleet.change(at_it, |pod| (pod.ready_since, pod.trouble) = (Some(at(400)), None));
    drive.run(2, 400, 1_500);
    assert_eq!((drive.nodes().len(), drive.state()), (20, State::Complete));
}

#[test]
fn while_others_are_on_their_way_or_can_be_replaced_it_is_no_standstill() {
    // Others go, as the budget is larger.
    let mut drive = Drive::new(20, Policy { max_failures: Some(3), ..policy(Share::Count(2)) });
    drive.bad.insert(2);
    drive.evaluate(2, 0);
    drive.fleet.template = revision(2);
    drive.evaluate(2, 1);
    drive.bad.clear();
    let broken: Vec<usize> = (0..20).filter(|i| drive.fleet.pods[*i].ready_since.is_none()).collect();
    drive.fleet.change(broken[0], |pod| (pod.ready_since, pod.trouble) = (Some(at(5)), None));
    drive.run(2, 10, 1_000);
    assert_eq!((drive.nodes().len(), drive.state()), (20, State::Complete), "one that fails is no obstacle");

    // What is on its way may be well: its time is not up.
    let mut drive = zoned();
    drive.evaluate(2, 0);
    drive.run(2, 10, 200);
    drive.fleet.change(0, |pod| (pod.trouble, pod.unready_since) = (None, Some(at(200))));
    drive.run(2, 200, 490);
    assert_eq!(drive.state(), State::Rolling, "it gets its time again");
}

#[test]
fn a_blackout_a_mass_outage_and_a_lost_download_are_no_standstill() {
    let blackouts = vec![Blackout { from: at(50), to: at(5_000), reason: None }];
    let mut held = Drive::new(20, Policy { max_failures: Some(9), ..policy(Share::Count(2)) });
    held.bad.insert(2);
    held.evaluate(2, 0);
    held.evaluate(2, 1);
    let broken: Vec<usize> = (0..20).filter(|i| held.fleet.pods[*i].ready_since.is_none()).collect();
    held.fleet.change(broken[0], |pod| (pod.ready_since, pod.trouble) = (Some(at(5)), None));
    let mut mass_outage = Drive { fleet: held.fleet.clone(), ..Drive::new(20, held.policy.clone()) };
    let mut away = zoned();
    held.policy.calendar = Calendar { windows: Vec::new(), blackouts };
    held.run(2, 50, 2_000);
    assert_eq!((held.state(), held.fleet.memory.rollout.failure.is_none()), (State::Held, true));

    let free: Vec<usize> = (0..20).filter(|i| !broken.contains(i)).take(8).collect();
    for node in free {
        let node = mass_outage.fleet.node(node);
        (node.ready, node.ready_since) = (false, Some(at(-5_000)));
    }
    mass_outage.run(2, 50, 2_000);
    assert_eq!((mass_outage.state(), mass_outage.fleet.memory.rollout.failure.is_none()), (State::Rolling, true));

    away.evaluate(2, 0);
    away.evaluate(2, 1);
    away.fleet.source = Source::Away;
    away.run(2, 10, 2_000);
    assert_eq!((away.nodes().len(), away.state()), (1, State::Rolling), "an outage is not a verdict");
}

#[test]
fn a_canary_that_fails_alone_and_recovers_in_time_restarts_its_soak() {
    let mut drive = Drive::new(20, Policy { max_failures: Some(2), ..canary(Who::Some(Share::Count(1)), 600) });
    drive.bad.insert(2);
    drive.run(2, 0, 200);
    drive.bad.clear();
    drive.fleet.change(0, |pod| (pod.ready_since, pod.trouble) = (Some(at(200)), None));
    drive.run(2, 200, 790);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Rolling));
    drive.run(2, 790, 1_500);
    assert_eq!((drive.nodes().len(), drive.state()), (20, State::Complete));
}

/// 40 nodes, four at a time; every agent of version 2 that was made by `now` crashes, and only one of them is down.
fn crash_by_turns(drive: &mut Drive, now: i64) {
    let made = (0..40).filter(|i| drive.fleet.pods[*i].revision == Some(revision(2))).collect::<Vec<_>>();
    for (turn, number) in made.into_iter().enumerate() {
        drive.fleet.change(number, |pod| {
            pod.trouble = Some(Trouble::Crash("restarted 3 times".into()));
            pod.restarts = 3;
            pod.ready_since = (turn > 0).then(|| at(now));
        });
    }
}

#[test]
pub(super) fn those_that_crash_are_counted_together_though_each_is_ready_in_between() {
    let mut drive = Drive::new(40, policy(Share::Count(4)));
    drive.run(2, 0, 20);
    assert_eq!(drive.nodes().len(), 4);
    crash_by_turns(&mut drive, 20);
    drive.evaluate(2, 20);
    assert_eq!((drive.nodes().len(), drive.state()), (4, State::Failed), "only one of them is not Ready");
    let message = drive.fleet.memory.rollout.failure.clone().unwrap().message;
    assert!(message.starts_with("version 2 failed on 4 of 4 nodes"), "{message}");
    // They had flapped with the old agent, too.
    let mut drive = Drive::new(40, policy(Share::Count(4)));
    for number in 0..40 {
        drive.fleet.change(number, |pod| pod.restarts = 1_000);
    }
    drive.run(2, 0, 20);
    crash_by_turns(&mut drive, 20);
    drive.run(2, 20, 600);
    assert_eq!(drive.state(), State::Complete);
}

#[test]
fn an_agent_that_crashed_and_stays_well_counts_no_more() {
    let mut drive = Drive::new(40, Policy { max_failures: Some(5), ..policy(Share::Count(4)) });
    drive.run(2, 0, 20);
    crash_by_turns(&mut drive, 20);
    drive.evaluate(2, 20);
    assert_eq!((drive.nodes().len(), drive.state()), (7, State::Rolling), "four speak, five are allowed");
    drive.fleet.change(0, |pod| pod.ready_since = Some(at(30)));
    drive.policy.hold = Some(PAUSED);
    drive.evaluate(2, 330);
    assert!(drive.fleet.memory.rollout.failure.is_none());
    drive.policy.hold = None;
    drive.policy.max_failures = Some(1);
    drive.evaluate(2, 330);
    assert_eq!(drive.state(), State::Rolling, "nobody speaks any more");
    // Pods of another version never do.
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    fleet.change(0, |pod| (pod.trouble, pod.ready_since) = (Some(Trouble::Crash("x".into())), Some(at(9))));
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).report.state, State::Rolling);
}

/// 20 nodes, two at a time, of which one fails and one is well.
fn one_of_two_fails(policy: Policy) -> Drive {
    let mut drive = Drive::new(20, policy);
    drive.bad.insert(2);
    drive.evaluate(2, 0);
    drive.evaluate(2, 1);
    drive.bad.clear();
    let broken: Vec<usize> = (0..20).filter(|i| drive.fleet.pods[*i].ready_since.is_none()).collect();
    drive.fleet.change(broken[0], |pod| (pod.ready_since, pod.trouble) = (Some(at(5)), None));
    drive
}

#[test]
fn agents_that_are_not_ready_for_a_moment_are_no_standstill() {
    let mut drive = one_of_two_fails(Policy { max_failures: Some(9), ..policy(Share::Count(2)) });
    let blackouts = vec![Blackout { from: at(50), to: at(5_000), reason: None }];
    drive.policy.calendar = Calendar { windows: Vec::new(), blackouts };
    drive.run(2, 50, 400);
    for number in (0..20).filter(|i| drive.fleet.pods[*i].revision == Some(revision(1))).collect::<Vec<_>>() {
        drive.fleet.change(number, |pod| {
            (pod.ready_since, pod.unready_since) = (None, Some(at(1_000)));
            pod.was_ready = Some(TimeDelta::days(1));
        });
    }
    drive.evaluate(2, 1_010);
    assert_eq!((drive.state(), drive.fleet.memory.rollout.failure.is_none()), (State::Held, true));
}

#[test]
fn a_canary_that_ran_for_hours_has_its_time_from_when_it_ceased_to() {
    let mut drive = Drive::new(20, Policy { max_failures: Some(2), ..canary(Who::Some(Share::Count(1)), 36_000) });
    drive.run(2, 0, 1_000);
    drive.fleet.change(0, |pod| {
        (pod.ready_since, pod.unready_since) = (None, Some(at(1_000)));
        (pod.was_ready, pod.restarts) = (Some(TimeDelta::seconds(990)), 3);
        pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into()));
    });
    drive.run(2, 1_010, 1_300);
    assert_eq!(drive.state(), State::Rolling);
    drive.evaluate(2, 1_300);
    assert_eq!(drive.state(), State::Failed);
}

#[test]
fn a_crash_during_a_lost_download_counts_no_more_once_ready() {
    let slow = Policy { max_failures: Some(1), wait_ready: TimeDelta::seconds(600), ..policy(Share::Count(1)) };
    let mut drive = Drive::new(20, slow);
    drive.bad.insert(2);
    drive.evaluate(2, 0);
    drive.fleet.source = Source::Away;
    drive.run(2, 1, 1_000);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Rolling));
    let at_it = drive.fleet.pods.iter().position(|pod| pod.ready_since.is_none()).unwrap();
    for now in (1_000..1_900).step_by(10) {
        if now == 1_200 {
            drive.fleet.change(at_it, |pod| (pod.ready_since, pod.restarts) = (Some(at(now)), 5));
            drive.policy.hold = Some(PAUSED);
        }
        drive.fleet.source = Source::Answers(at(now));
        drive.evaluate(2, now);
        assert!(drive.fleet.memory.rollout.failure.is_none(), "at {now}");
    }
}

#[test]
fn a_node_that_flapped_and_was_caught_in_its_back_off_rejects_nothing() {
    let mut drive = Drive::new(10, Policy { max_failures: Some(1), ..policy(Share::Count(2)) });
    let crash = |pod: &mut Pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("1".into())));
    drive.fleet.change(7, |pod| {
        crash(pod);
        pod.restarts = 1_000;
    });
    drive.run(2, 0, 3);
    drive.evaluate(2, 1);
    drive.evaluate(2, 2);
    let at_it = drive.fleet.pods.iter().position(|pod| &*pod.node == "node-007").unwrap();
    assert_eq!(drive.fleet.pods[at_it].revision, Some(revision(2)));
    drive.fleet.change(at_it, |pod| {
        crash(pod);
        pod.restarts = 3;
    });
    drive.run(2, 10, 600);
    let at_two = drive.fleet.pods.iter().filter(|pod| pod.revision == Some(revision(2))).count();
    assert_eq!((at_two, drive.fleet.memory.rollout.failure.is_none()), (10, true), "{}", drive.waits());
}

#[test]
fn a_retry_is_not_answered_by_what_was_before_it() {
    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 600));
    let pinned = Desired { insists: true, ..desired(2) };
    drive.bad.insert(2);
    drive.run_to(&pinned, 0, 60);
    assert_eq!(drive.state(), State::Failed);
    drive.fleet.change(0, |pod| (pod.ready_since, pod.restarts) = (Some(at(500)), 3));
    drive.bad.clear();
    drive.fleet.memory = drive.fleet.memory.clone().retrying(2, at(520));
    drive.run_to(&pinned, 520, 600);
    assert_eq!((drive.state(), drive.fleet.memory.rollout.failure.is_none()), (State::Rolling, true));
}

#[test]
fn a_version_that_is_tried_again_and_crashes_again_fails_again() {
    let mut drive = Drive::new(6, policy(Share::Count(1)));
    let crash = |drive: &mut Drive| {
        let at_it = drive.fleet.pods.iter().position(|pod| pod.ready_since.is_none()).unwrap();
        drive.fleet.change(at_it, |pod| pod.restarts = 5);
    };
    drive.bad.insert(2);
    drive.run(2, 0, 60);
    assert_eq!(drive.state(), State::Failed);
    crash(&mut drive);
    drive.fleet.memory = drive.fleet.memory.retrying(2, at(60));
    drive.run(2, 60, 300);
    assert_eq!((drive.state(), drive.nodes().len()), (State::Failed, 2), "{}", drive.waits());
}

#[test]
fn a_bad_version_after_a_bad_version_is_judged_too() {
    let mut drive = Drive::new(20, policy(Share::Count(2)));
    drive.bad.extend([2, 3]);
    drive.run(2, 0, 60);
    assert_eq!(drive.state(), State::Failed);
    for number in (0..20).filter(|i| drive.fleet.pods[*i].ready_since.is_none()).collect::<Vec<_>>() {
        drive.fleet.change(number, |pod| pod.restarts = 5);
    }
    drive.run(1, 60, 100);
    drive.run(3, 100, 1_000);
    assert_eq!((drive.state(), &drive.fleet.template), (State::Failed, &revision(1)), "{}", drive.waits());
    assert_eq!(drive.fleet.memory.rejected, [2, 3]);
}
