//! The rules, one by one, on fleets made for each.
//!
//! Must not use a rule to judge another.

use super::*;

#[test]
pub(super) fn the_template_advances_before_the_first_deletion_and_only_then_do_pods_go() {
    let mut fleet = Fleet::new(20, 1);
    let first = fleet.plan(&policy(Share::Percent(10)), &desired(2), 0);
    assert_eq!((first.template, first.steps.len(), first.report.state), (Template::Advance, 0, State::Rolling));
    assert_eq!(first.memory.rollout.started(), Some(at(0)));
    fleet.template = revision(2);
    fleet.memory = first.memory;
    let second = fleet.plan(&policy(Share::Percent(10)), &desired(2), 1);
    let names: Vec<&str> = second.steps.iter().map(|s| &*s.pod.name).collect();
    assert_eq!(names, ["pod-0", "pod-1"], "the oldest first, as many as the budget");
    let places = fleet.places(&desired(2));
    let unseen = Inventory { settled: false, ..fleet.inventory(&places) };
    let unsettled = plan(&policy(Share::Percent(10)), Some(&desired(2)), &unseen, at(1));
    assert!(unsettled.steps.is_empty(), "the DaemonSet controller has not seen the template");
}

#[test]
fn the_same_facts_give_the_same_plan() {
    let fleet = Fleet::new(50, 2);
    let policy = policy(Share::Count(3));
    assert_eq!(fleet.plan(&policy, &desired(2), 5), fleet.plan(&policy, &desired(2), 5));
}

#[test]
pub(super) fn a_hold_keeps_template_and_pods_and_says_so() {
    let fleet = Fleet::new(4, 1);
    for (hold, state) in [(PAUSED, State::Paused), (STOPPED, State::Stopped)] {
        let held = fleet.plan(&Policy { hold: Some(hold.clone()), ..policy(Share::Count(1)) }, &desired(2), 0);
        assert_eq!((held.template, held.steps.len(), held.report.state), (Template::Keep, 0, state));
        assert_eq!(held.report.waiting_on, [WaitingOn::Hold(hold)]);
    }
    let places = fleet.places(&desired(2));
    let unborn = Inventory { template: None, ..fleet.inventory(&places) };
    let paused = Policy { hold: Some(PAUSED), ..policy(Share::Count(1)) };
    let first_install = plan(&paused, Some(&desired(2)), &unborn, at(0));
    assert_eq!(first_install.template, Template::Advance, "a first install replaces nothing, so nothing holds it");
}

#[test]
fn broken_outdated_pods_go_first_and_cost_nothing() {
    let mut fleet = Fleet::new(10, 2);
    for broken in [7, 8] {
        fleet.change(broken, |pod| {
            pod.ready_since = None;
            pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into()));
        });
    }
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 0);
    let steps: Vec<(&str, bool)> = plan.steps.iter().map(|s| (&*s.pod.name, s.costs)).collect();
    assert_eq!(steps, [("pod-7", false), ("pod-0", true)], "one at a time, and nobody of ours is missing there");
    assert!(plan.memory.rollout.touched.broken.contains("node-007"), "which is remembered");
}

#[test]
fn pods_that_we_deleted_and_that_the_watch_still_shows_occupy_the_budget() {
    let mut fleet = Fleet::new(10, 2);
    fleet.deleted.insert("uid-0".into());
    let plan = fleet.plan(&policy(Share::Count(2)), &desired(2), 0);
    let names: Vec<&str> = plan.steps.iter().map(|s| &*s.pod.name).collect();
    assert_eq!(names, ["pod-1"]);
}

#[test]
pub(super) fn as_many_failures_as_the_budget_stop_the_rollout_and_the_template_is_put_back() {
    let mut fleet = Fleet::new(20, 2);
    fleet.rolling_since(0);
    for failed in [0, 1] {
        fleet.pods[failed] = pod(100 + failed, &fleet.nodes[failed].name.clone(), 2, 1, false);
        fleet.change(failed, |pod| pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into())));
        let plan = fleet.plan(&policy(Share::Percent(10)), &desired(2), 2);
        if failed == 0 {
            assert_eq!((plan.template, plan.steps.len()), (Template::Keep, 1), "one failure only slows it");
        } else {
            assert_eq!((plan.template, plan.steps.len(), plan.report.state), (Template::GoBack, 0, State::Failed));
            assert_eq!(plan.memory.rejected, [2]);
            let message = plan.memory.rollout.failure.unwrap().message;
            assert_eq!(message, "version 2 failed on 2 of 2 nodes it reached (node-000, node-001): CrashLoopBackOff");
        }
    }
}

#[test]
fn a_failed_rollout_stays_failed_before_the_restored_template_is_seen() {
    let mut fleet = Fleet::new(10, 1);
    fleet.template = revision(2);
    fleet.rolling_since(0);
    for number in [0, 1] {
        fleet.pods[number] = pod(number, &format!("node-{number:03}"), 2, 10, false);
        fleet.change(number, |pod| pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into())));
    }
    fleet.memory.rollout.last_good = Some(revision(1));
    let failed = fleet.plan(&policy(Share::Count(2)), &desired(2), 20);
    assert_eq!((failed.template, failed.report.state), (Template::GoBack, State::Failed));
    (fleet.template, fleet.memory) = (revision(1), failed.memory);
    let places = fleet.places(&desired(1));
    for settled in [false, true] {
        let inventory = Inventory { settled, ..fleet.inventory(&places) };
        let plan = plan(&policy(Share::Count(2)), Some(&desired(1)), &inventory, at(21));
        assert_eq!((plan.report.state, plan.steps.len()), (State::Failed, 0), "settled: {settled}");
    }
}

#[test]
fn a_failure_on_a_node_that_joined_does_not_stop_a_rollout() {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    let mut joined = Node::named("joined");
    joined.created = at(5);
    fleet.nodes.push(Arc::new(joined));
    fleet.pods.push(pod(50, "joined", 2, 6, false));
    fleet.change(10, |pod| pod.trouble = Some(Trouble::Crash("bad host".into())));
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 10);
    assert!(plan.memory.rollout.failure.is_none());
}

#[test]
fn an_agent_that_must_stay_ready_occupies_the_budget_on_a_node_that_joined_too() {
    let mut fleet = Fleet::new(3, 2);
    fleet.rolling_since(0);
    fleet.node(0).created = at(5);
    fleet.pods[0] = pod(9, "node-000", 2, 10, true);
    let slow = Policy { min_ready: TimeDelta::seconds(30), ..policy(Share::Count(1)) };
    assert_eq!(fleet.plan(&slow, &desired(2), 20).steps.len(), 1, "it joined: nobody of ours is missing");
    fleet.lost.insert("node-000".into(), at(0));
    assert_eq!(fleet.plan(&slow, &desired(2), 20).steps.len(), 0, "we replaced its agent");
}

#[test]
fn every_selected_node_is_available_or_in_exactly_one_bucket() {
    let mut fleet = Fleet::new(9, 2);
    fleet.node(0).ready = false;
    fleet.node(1).busy = Some("the node is cordoned");
    for (number, trouble) in [
        (1, None),
        (2, Some(Trouble::Capacity("no room".into()))),
        (3, Some(Trouble::Image("i".into()))),
        (4, Some(Trouble::Crash("c".into()))),
    ] {
        fleet.change(number, |pod| {
            pod.ready_since = None;
            pod.trouble = trouble;
        });
    }
    fleet.change(5, |pod| pod.ready_since = None);
    fleet.change(6, |pod| pod.deleting = true);
    fleet.change(8, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Unstarted("it is pulled".into()))));
    fleet.pods.remove(7);
    let report = fleet.plan(&policy(Share::Count(1)), &desired(2), 0).report;
    assert_eq!(report.running + report.buckets.values().map(|nodes| nodes.count).sum::<usize>(), report.selected);
    let expected = [
        Bucket::NodeNotReady,
        Bucket::NodeBusy,
        Bucket::Capacity,
        Bucket::Image,
        Bucket::Crash,
        Bucket::Overdue,
        Bucket::Pulling,
        Bucket::Terminating,
        Bucket::Starting,
    ];
    for bucket in expected {
        assert_eq!(report.bucket(bucket), 1, "{bucket}: {:?}", report.buckets);
    }
    fleet.refused = Some("exceeded quota".into());
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 0).report.bucket(Bucket::Admission), 1);
}

#[test]
fn an_agent_must_stay_ready_for_as_long_as_asked() {
    let mut fleet = Fleet::new(2, 2);
    fleet.rolling_since(-10);
    fleet.pods[0] = pod(9, "node-000", 2, 0, true);
    let slow = Policy { min_ready: TimeDelta::seconds(30), ..policy(Share::Count(1)) };
    let early = fleet.plan(&slow, &desired(2), 29);
    assert_eq!((early.steps.len(), early.next), (0, Some(at(30))));
    assert_eq!(fleet.plan(&slow, &desired(2), 30).steps.len(), 1);
}

#[test]
fn an_old_agent_on_a_cordoned_node_keeps_no_rollout_alive() {
    let mut fleet = Fleet::new(3, 2);
    for number in [1, 2] {
        fleet.change(number, |pod| pod.revision = Some(revision(2)));
    }
    fleet.node(0).busy = Some("the node is cordoned");
    fleet.memory.rollout.phase = Phase::Complete { since: None, at: at(0) };
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 10);
    assert_eq!(
        (&plan.memory.rollout.phase, plan.steps.len()),
        (&Phase::Complete { since: None, at: at(0) }, 0),
        "nothing to write"
    );
    // Outside of a rollout an agent that breaks says nothing about the version.
    fleet.change(1, |pod| {
        pod.ready_since = None;
        pod.trouble = Some(Trouble::Crash("out of memory".into()));
    });
    assert!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).memory.rollout.failure.is_none());
    // Back again, it is replaced.
    fleet.change(1, |pod| {
        pod.ready_since = Some(at(0));
        pod.trouble = None;
    });
    fleet.node(0).busy = None;
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 20).steps.len(), 1);
}

#[test]
fn an_agent_that_was_ready_gets_its_time_again_and_a_drained_node_is_busy() {
    let mut fleet = Fleet::new(2, 2);
    fleet.rolling_since(-1000);
    fleet.pods = vec![pod(1, "node-000", 2, -900, false), pod(2, "node-001", 2, -900, true)];
    fleet.change(0, |pod| pod.unready_since = Some(at(0)));
    let node = fleet.node(1);
    (node.ready, node.ready_since, node.busy) = (false, Some(at(0)), Some("the node is cordoned"));
    let early = fleet.plan(&policy(Share::Count(1)), &desired(2), 299);
    assert_eq!((early.report.bucket(Bucket::Starting), early.report.bucket(Bucket::NodeBusy)), (1, 1));
    assert!(early.memory.rollout.failure.is_none());
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 300).report.bucket(Bucket::Overdue), 1);
}

#[test]
pub(super) fn an_agent_that_is_not_ready_or_finds_no_room_in_time_has_failed() {
    for trouble in [None, Some(Trouble::Capacity("Insufficient cpu".to_owned()))] {
        let mut fleet = Fleet::new(10, 2);
        fleet.rolling_since(-1_000);
        fleet.pods[0] = pod(100, "node-000", 2, 0, false);
        fleet.change(0, |pod| pod.trouble.clone_from(&trouble));
        let failure = |now| fleet.plan(&policy(Share::Count(1)), &desired(2), now).memory.rollout.failure;
        assert_eq!((failure(299).is_some(), failure(300).is_some()), (false, true), "{trouble:?}");
    }
}

#[test]
pub(super) fn an_old_agent_on_an_unreachable_node_keeps_no_rollout_alive() {
    let mut fleet = Fleet::new(2, 2);
    fleet.rolling_since(-10);
    fleet.pods[0] = pod(100, "node-000", 2, 0, true);
    let node = fleet.node(1);
    (node.ready, node.ready_since) = (false, Some(at(-1_000)));
    fleet.change(1, |pod| pod.ready_since = None);
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).report.state, State::Complete);
}

#[test]
fn an_agent_whose_node_gets_a_taint_is_left_running_and_counted_apart() {
    let mut fleet = Fleet::new(3, 2);
    for node in &mut fleet.nodes[..2] {
        Arc::make_mut(node).taint = Some("x:NoSchedule".to_owned());
    }
    let plan = fleet.plan(&policy(Share::Count(3)), &desired(2), 0);
    let names: Vec<&str> = plan.steps.iter().map(|step| &*step.pod.name).collect();
    assert_eq!(names, ["pod-2"], "their successors could not start");
    assert_eq!((plan.report.selected, plan.report.surplus.count, plan.report.closed(TAINTED)), (1, 2, 2));
    assert_eq!(plan.report.surplus.such_as(), "node-000 (x:NoSchedule), node-001 (x:NoSchedule)");
}

#[test]
pub(super) fn a_verdict_is_withdrawn_at_most_twice_when_the_failed_agents_stay_available() {
    let mut fleet = Fleet::new(10, 1);
    for number in [0, 1] {
        fleet.pods[number] = pod(100 + number, &fleet.nodes[number].name.clone(), 2, 0, true);
    }
    let failure = Failure {
        revision: revision(2),
        rejects: true,
        insisted: false,
        message: "it failed".into(),
        places: vec!["node-000".into(), "node-001".into()],
        at: None,
        only_lost: false,
        by_hand: false,
        earlier: Vec::new(),
        workloads: Vec::new(),
        whole_since: None,
    };
    (fleet.memory.rollout.failure, fleet.memory.rejected) = (Some(failure.clone()), vec![2]);
    let early = fleet.plan(&policy(Share::Count(2)), &desired(1), 299).memory;
    assert!(early.rollout.failure.is_some() && early.rejected == [2]);
    let late = fleet.plan(&policy(Share::Count(2)), &desired(1), 300).memory;
    assert_eq!(
        (late.rollout.failure.is_none(), late.rejected.as_slice(), late.rollout.withdrawn.as_ref().map(|w| w.times)),
        (true, &[][..], Some(1))
    );
    fleet.memory.rollout.withdrawn = Some(Withdrawn { revision: revision(2), times: 2 });
    assert!(
        fleet.plan(&policy(Share::Count(2)), &desired(1), 300).memory.rollout.failure.is_some(),
        "not a third time"
    );
    fleet.memory.rollout.withdrawn = None;
    fleet.nodes.remove(0);
    assert!(
        fleet.plan(&policy(Share::Count(2)), &desired(1), 300).memory.rollout.failure.is_some(),
        "a node that is gone did not recover"
    );
}

#[test]
pub(super) fn external_trouble_is_retried_one_by_one_where_nothing_retries() {
    let mut fleet = Fleet::new(10, 1);
    fleet.rolling_since(0);
    fleet.memory.rollout.touched.since = Some(at(0));
    let phase = |fleet: &Fleet, now| {
        let plan = fleet.plan(&policy(Share::Count(4)), &desired(2), now);
        (plan.memory.rollout.stall().map(|stuck| (stuck.phase, stuck.tries)), plan.template)
    };
    // All of them came back from the last good template: the first try is at once, the next after ten minutes.
    fleet.stuck(Stall { revision: revision(2), phase: StallPhase::Back, since: at(100), tries: 0 });
    assert_eq!(phase(&fleet, 101), (Some((StallPhase::Trial, 0)), Template::Advance));
    fleet.stuck(Stall { revision: revision(2), phase: StallPhase::Back, since: at(100), tries: 1 });
    assert_eq!(phase(&fleet, 699), (Some((StallPhase::Back, 1)), Template::Keep));
    assert_eq!(phase(&fleet, 700), (Some((StallPhase::Trial, 1)), Template::Advance));
    fleet.stuck(Stall { revision: revision(2), phase: StallPhase::Trial, since: at(700), tries: 1 });
    fleet.template = revision(2);
    assert_eq!(fleet.plan(&policy(Share::Count(4)), &desired(2), 701).steps.len(), 1, "one place is tried");
    fleet.pods[0] = pod(100, "node-000", 2, 702, false);
    fleet.change(0, |pod| pod.trouble = Some(Trouble::Config("secret not found".into())));
    assert_eq!(phase(&fleet, 1000).0, Some((StallPhase::Back, 2)));
    fleet.change(0, |pod| (pod.ready_since, pod.trouble) = (Some(at(1001)), None));
    assert_eq!(phase(&fleet, 1002).0, None, "it became available: the world is well again");
    assert!(fleet.plan(&policy(Share::Count(4)), &desired(2), 1002).steps.len() == 4);
}

#[test]
fn what_kept_one_template_from_starting_does_not_hold_the_one_that_mends_it() {
    let mut fleet = Fleet::new(10, 1);
    fleet.rolling_since(0);
    fleet.memory.rollout.touched.since = Some(at(0));
    let fixed = Desired { revision: Release { hash: "fixed".into(), ..revision(2) }, ..desired(2) };
    fleet.pods[0] = pod(100, "node-000", 2, 1, false);
    fleet.change(0, |pod| pod.trouble = Some(Trouble::Image("a typo in the image's name".into())));
    fleet.stuck(Stall { revision: revision(2), phase: StallPhase::Back, since: at(10), tries: 3 });
    assert_eq!(fleet.plan(&policy(Share::Count(2)), &desired(2), 20).template, Template::Keep, "it is stuck");
    let plan = fleet.plan(&policy(Share::Count(2)), &fixed, 20);
    assert_eq!((plan.template, plan.memory.rollout.stall()), (Template::Advance, None));
    (fleet.template, fleet.memory) = (fixed.revision.clone(), plan.memory);
    let steps: Vec<(String, bool)> = fleet
        .plan(&policy(Share::Count(2)), &fixed, 21)
        .steps
        .iter()
        .map(|s| (s.pod.node.to_string(), s.costs))
        .collect();
    assert_eq!(
        steps,
        [("node-000".to_owned(), false), ("node-001".to_owned(), true)],
        "the broken one first, for nothing"
    );
}

#[test]
pub(super) fn however_many_look_broken_no_more_than_the_budget_are_replaced_at_a_time() {
    let mut fleet = Fleet::new(20, 2);
    for number in 0..20 {
        fleet.change(number, |pod| {
            (pod.ready_since, pod.trouble) = (None, Some(Trouble::Image("registry away".into())));
        });
    }
    assert_eq!(fleet.plan(&policy(Share::Percent(10)), &desired(2), 0).steps.len(), 2);
}
