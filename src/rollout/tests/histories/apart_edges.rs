//! Hostile cases for canaries and the template that is put back meanwhile.
//!
//! Must not use a rule to judge another.

use super::policies::Drive;
use super::*;
use crate::rollout::{Canary, Proof, Who};

pub(super) fn with_canary(nodes: usize, budget: u32) -> Drive {
    let canary = Canary { who: Who::Some(Share::Count(1)), soak: TimeDelta::seconds(600), by_hand: false };
    Drive::new(nodes, Policy { canary: Some(canary), ..policy(Share::Count(budget)) })
}

/// The first canary of six nodes lost its Pod to a taint that is gone again, and another one is watched.
fn canary_that_was_tainted_away() -> Drive {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    let taint = "broken:NoExecute".to_owned();
    drive.fleet.node(0).taint = Some(taint);
    drive.fleet.pods.remove(0);
    drive.run(2, 100, 200);
    drive.fleet.node(0).taint = None;
    drive
}

pub(super) fn crashing() -> Trouble {
    Trouble::Crash("CrashLoopBackOff".into())
}

/// A look whose deletions are carried out, and whose successors are made later.
pub(super) fn evaluate(drive: &mut Drive, now: i64) -> Plan {
    let plan = drive.fleet.plan(&drive.policy, &desired(2), now);
    match plan.template {
        Template::Advance => drive.fleet.template = revision(2),
        Template::GoBack => drive.fleet.template = revision(1),
        Template::Keep => {}
    }
    for step in &plan.steps {
        let at_it = drive.fleet.pods.iter().position(|pod| pod.id == step.pod.id).unwrap();
        drive.fleet.change(at_it, |pod| (pod.deleting, pod.gone_by) = (true, Some(at(now + 30))));
        drive.replaced.push((now, step.pod.node.to_string()));
    }
    drive.fleet.memory = plan.memory.clone();
    plan
}

#[test]
fn a_canary_that_was_broken_before_gets_the_new_version() {
    for nodes in [1, 3] {
        let mut drive = with_canary(nodes, 1);
        for number in 0..nodes {
            drive.fleet.change(number, |pod| (pod.ready_since, pod.trouble) = (None, Some(crashing())));
        }
        for now in 0..5 {
            evaluate(&mut drive, now);
        }
        assert_eq!((drive.nodes().len(), &drive.fleet.template), (1, &revision(2)), "it is awaited");
        let node = drive.nodes()[0].to_owned();
        drive.fleet.pods.retain(|pod| *pod.node != *node);
        evaluate(&mut drive, 6);
        assert_eq!(drive.fleet.template, revision(2), "its Pod is not created yet");
        drive.fleet.pods.push(pod(900, &node, 2, 7, true));
        evaluate(&mut drive, 8);
        assert_eq!(drive.nodes().len(), 1, "one is watched");
        assert_eq!(drive.fleet.template, if nodes == 1 { revision(2) } else { revision(1) });
    }
}

#[test]
fn a_canary_that_crashes_after_its_verdict_was_withdrawn_is_judged_again() {
    let mut drive = with_canary(6, 1);
    drive.run(2, 0, 30);
    let crash = |drive: &mut Drive, crashes: bool, now: i64| {
        let at_it = drive.fleet.pods.iter().position(|pod| *pod.node == *"node-000").unwrap();
        drive.fleet.change(at_it, |pod| {
            pod.ready_since = (!crashes).then(|| at(now));
            pod.trouble = crashes.then(crashing);
        });
    };
    crash(&mut drive, true, 40);
    drive.run(2, 40, 60);
    assert_eq!(drive.state(), State::Failed);
    crash(&mut drive, false, 60);
    drive.run(2, 60, 400);
    assert_eq!(drive.state(), State::Rolling, "withdrawn");
    crash(&mut drive, true, 400);
    drive.run(2, 400, 430);
    assert_eq!((drive.state(), drive.nodes().len()), (State::Failed, 1));
}

#[test]
fn an_edit_reaches_every_node_although_a_canary_failed_and_is_to_roll_back() {
    let mut drive = with_canary(6, 1);
    drive.policy.rolls_back = true;
    drive.bad.insert(2);
    drive.run(2, 0, 20);
    drive.policy.rolls_back = false;
    drive.run(2, 20, 60);
    assert_eq!((drive.state(), drive.nodes().len()), (State::Failed, 1));
    drive.policy.rolls_back = true;
    let edited = Desired { revision: Release { hash: "h2".to_owned(), ..revision(1) }, ..desired(1) };
    drive.run_to(&edited, 60, 2_000);
    let all = drive.fleet.pods.iter().all(|pod| pod.revision.as_ref() == Some(&edited.revision));
    assert!(all, "{}", drive.waits());
}

#[test]
fn an_unfinished_soak_is_forgotten_once_another_rollout_completes() {
    let mut drive = with_canary(6, 1);
    drive.run(2, 0, 100);
    assert!(drive.fleet.memory.rollout.proof.as_ref().unwrap().since.is_some());
    drive.run(1, 100, 200);
    assert_eq!((drive.state(), drive.fleet.memory.rollout.proof.clone()), (State::Complete, None));
}

#[test]
fn agents_roll_back_to_what_had_soaked_and_was_on_its_way() {
    let mut drive = with_canary(8, 1);
    drive.run(2, 0, 660);
    assert!(drive.fleet.memory.rollout.proof.as_ref().unwrap().passed);
    assert!(drive.nodes().len() > 2 && drive.nodes().len() < 8);
    drive.run(3, 670, 900);
    assert_eq!(drive.fleet.template, revision(2), "and not what the fewer have");
}

#[test]
fn where_more_than_the_canaries_have_it_the_template_stays() {
    let mut drive = with_canary(8, 2);
    drive.policy.canary = None;
    drive.run(2, 0, 30);
    assert_eq!(drive.nodes().len(), 4);
    drive.policy.canary = with_canary(1, 1).policy.canary;
    drive.run(2, 30, 100);
    assert_eq!(drive.fleet.template, revision(2));
}

#[test]
fn a_canary_is_watched_although_the_other_agents_versions_are_unknown() {
    let mut drive = with_canary(4, 1);
    drive.run(2, 0, 100);
    assert_eq!((drive.nodes().len(), &drive.fleet.template), (1, &revision(1)));
    drive.fleet.is_unheard = true;
    drive.run(2, 100, 200);
    assert_eq!((drive.nodes().len(), &drive.fleet.template), (1, &revision(1)));
}

#[test]
fn an_agent_that_ran_and_was_evicted_by_a_taint_takes_nothing_from_the_budget() {
    let mut fleet = Fleet::new(4, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    fleet.pods[0] = pod(100, "node-000", 2, 1, true);
    fleet.change(0, |pod| (pod.deleting, pod.gone_by) = (true, Some(at(4_000))));
    let taint = "dedicated=db:NoExecute".to_owned();
    fleet.node(0).taint = Some(taint);
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 3_900).steps.len(), 1);
}

#[test]
fn a_proof_outlives_an_operator_with_the_places_that_it_is_of() {
    let mut drive = with_canary(6, 1);
    drive.run(2, 0, 30);
    let text = serde_json::to_string(&drive.fleet.memory.rollout.proof).unwrap();
    let proof: Option<Proof<Release>> = serde_json::from_str(&text).unwrap();
    assert_eq!(proof.unwrap().places, ["node-000".to_owned()].into());
}

#[test]
fn a_canary_that_comes_back_gets_what_its_host_has_had() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    let taint = "broken:NoExecute".to_owned();
    drive.fleet.node(0).taint = Some(taint);
    let evicted = drive.fleet.pods.remove(0);
    drive.run(2, 100, 200);
    assert_eq!((drive.nodes(), &drive.fleet.template), (vec!["node-000", "node-001"], &revision(1)));
    drive.fleet.node(0).taint = None;
    drive.fleet.missing = HashMap::from([(evicted.node.clone(), at(200))]);
    drive.evaluate(2, 200);
    assert_eq!(drive.fleet.template, revision(1), "it may be made in this moment");
    drive.evaluate(2, 210);
    assert_eq!(drive.fleet.template, revision(2), "its Pod is not created yet");
    drive.fleet.missing.clear();
    drive.fleet.pods.push(pod(900, &evicted.node, 2, 211, true));
    drive.run(2, 212, 300);
    assert_eq!((drive.nodes().len(), &drive.fleet.template), (2, &revision(1)));
}

#[test]
fn a_canary_created_from_the_previous_version_is_the_next_one() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    // The host refuses it.
    drive.fleet.pods[0] = pod(900, "node-000", 1, 100, false);
    drive.fleet.change(0, |pod| pod.trouble = Some(crashing()));
    drive.run(2, 100, 200);
    assert_eq!(drive.nodes(), ["node-000", "node-000"], "and no other");
    drive.run(2, 200, 900);
    assert_eq!(drive.state(), State::Complete);
}

#[test]
fn what_is_lost_of_the_memory_takes_no_other_canary() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    drive.fleet.memory = Memory::default();
    drive.fleet.deciding_since = 100;
    drive.run(2, 100, 690);
    assert_eq!((drive.nodes(), &drive.fleet.template), (vec!["node-000"], &revision(1)));
    drive.run(2, 690, 900);
    assert_eq!((drive.nodes().len(), drive.state()), (6, State::Complete));
}

#[test]
fn a_canary_that_comes_back_with_what_its_host_refuses_gets_the_new_version_though_there_is_another() {
    let mut drive = canary_that_was_tainted_away();
    drive.fleet.pods.push(pod(900, "node-000", 1, 200, true));
    drive.run(2, 200, 300);
    assert_eq!(drive.nodes().len(), 2, "what runs is left alone");
    // The environment still reports what ran there before.
    drive.fleet.node(0).reported = Some(2);
    drive.fleet.change(5, |pod| (pod.ready_since, pod.trouble) = (None, Some(crashing())));
    drive.run(2, 300, 400);
    assert_eq!(drive.nodes(), ["node-000", "node-001", "node-000"]);
}

#[test]
fn a_version_that_is_tried_again_is_tried_on_the_canary_that_failed() {
    let mut drive = with_canary(6, 2);
    drive.bad.insert(2);
    drive.run(2, 0, 100);
    assert_eq!((drive.nodes(), drive.state()), (vec!["node-000"], State::Failed));
    drive.bad.clear();
    drive.fleet.memory = drive.fleet.memory.retrying(2, at(100));
    drive.run(2, 100, 200);
    assert_eq!((drive.nodes(), drive.state()), (vec!["node-000", "node-000"], State::Rolling));
}

#[test]
fn a_soak_counts_only_while_a_canary_runs_and_restarts_with_a_new_node() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    drive.policy.hold = Some(PAUSED);
    drive.fleet.nodes.remove(0);
    drive.fleet.pods.remove(0);
    drive.run(2, 100, 650);
    drive.policy.hold = None;
    drive.run(2, 650, 1_100);
    assert_eq!(drive.nodes().len(), 2, "100 s of 600 were served");
    drive.run(2, 1_100, 1_300);
    assert_eq!(drive.state(), State::Complete);

    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 300);
    let node = drive.fleet.node(0);
    (node.ready, node.ready_since) = (false, Some(at(300)));
    let ready = drive.fleet.pods[0].ready_since;
    drive.fleet.change(0, |pod| (pod.ready_since, pod.was_ready) = (None, Some(TimeDelta::seconds(290))));
    drive.run(2, 300, 350);
    let node = drive.fleet.node(0);
    (node.ready, node.ready_since) = (true, Some(at(350)));
    drive.fleet.change(0, |pod| pod.ready_since = ready.map(|_| at(350)));
    drive.run(2, 350, 940);
    assert_eq!(drive.nodes().len(), 1, "the whole time again");
    drive.run(2, 940, 1_100);
    assert_eq!(drive.state(), State::Complete);
}

#[test]
fn a_canary_that_comes_back_broken_does_not_keep_the_soak_of_another_from_ending() {
    let mut drive = canary_that_was_tainted_away();
    drive.fleet.pods.push(pod(900, "node-000", 2, 200, false));
    drive.fleet.change(5, |pod| pod.trouble = Some(crashing()));
    drive.run(2, 202, 260);
    assert_eq!(drive.state(), State::Failed, "it is a canary, and crashes with what it had");
}

#[test]
fn a_canary_that_flapped_before_or_is_left_out_gives_way_to_another() {
    for label in [false, true] {
        let mut drive = with_canary(6, if label { 1 } else { 2 });
        drive.fleet.change(0, |pod| pod.restarts = if label { 0 } else { 1_000 });
        drive.policy.max_failures = Some(9);
        drive.run(2, 0, 20);
        assert_eq!(drive.nodes(), ["node-000"]);
        drive.fleet.change(0, |pod| {
            (pod.ready_since, pod.restarts) = (None, 5);
            pod.trouble = (!label).then(crashing);
        });
        if label {
            drive.fleet.node(0).is_left_out = true;
        }
        drive.run(2, 20, 2_000);
        assert!(drive.nodes().len() > 1, "{label}: {}", drive.waits());
    }
}

#[test]
fn the_template_is_not_written_for_each_pod_of_a_canary_that_the_kubelet_refuses() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    let mut writes = 0;
    for turn in 0..50 {
        let (now, before) = (100 + turn * 4, drive.fleet.template.clone());
        drive.fleet.pods.retain(|pod| *pod.node != *"node-000");
        drive.fleet.missing = HashMap::from([("node-000".into(), at(now))]);
        drive.evaluate(2, now);
        let mut made = (*pod(2_000 + turn as usize, "node-000", 1, now + 2, false)).clone();
        (made.revision, made.trouble) = (Some(drive.fleet.template.clone()), Some(Trouble::Start("Evicted".into())));
        drive.fleet.missing.clear();
        drive.fleet.pods.push(Arc::new(made));
        drive.evaluate(2, now + 2);
        writes += usize::from(drive.fleet.template != before);
    }
    assert!(writes <= 2, "{writes}");
}

#[test]
fn after_a_lost_memory_there_is_something_to_roll_back_to() {
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    drive.fleet.memory = Memory::default();
    drive.fleet.deciding_since = 100;
    drive.run(2, 100, 690);
    drive.bad.insert(2);
    drive.run(2, 690, 1_000);
    assert_eq!((drive.state(), &drive.fleet.template), (State::Failed, &revision(1)), "{}", drive.waits());
}

#[test]
fn a_canary_whose_node_stays_unreachable_counts_as_failed_until_it_is_back() {
    let turn = |drive: &mut Drive, ready: bool, now: i64| {
        let node = drive.fleet.node(0);
        (node.ready, node.ready_since) = (ready, Some(at(now)));
        drive.fleet.change(0, |pod| {
            pod.was_ready = pod.ready_since.map(|since| at(now) - since).or(pod.was_ready);
            (pod.ready_since, pod.unready_since) = if ready { (Some(at(now)), None) } else { (None, Some(at(now))) };
        });
    };
    let mut drive = with_canary(6, 2);
    drive.run(2, 0, 100);
    assert_eq!(drive.nodes(), ["node-000"]);
    turn(&mut drive, false, 100);
    drive.run(2, 100, 390);
    assert_ne!(drive.state(), State::Failed, "it has as long as one that starts: {}", drive.waits());
    drive.run(2, 390, 410);
    assert_eq!((drive.state(), drive.nodes().len()), (State::Failed, 1), "{}", drive.waits());
    turn(&mut drive, true, 500);
    drive.run(2, 500, 790);
    assert_eq!(drive.state(), State::Failed, "{}", drive.waits());
    drive.run(2, 790, 1_090);
    assert_ne!(drive.state(), State::Failed, "it was not the version: {}", drive.waits());
    assert_eq!(drive.nodes().len(), 1, "the soak began again");
    drive.run(2, 1_090, 3_000);
    assert_eq!(drive.state(), State::Complete, "{}", drive.waits());
}
