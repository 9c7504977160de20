//! Sequences of events that an enemy of the engine thought of: cordons, local trouble, typos, nodes that return.
//!
//! Must not use a rule to judge another.

use super::*;

/// Ten nodes in the middle of a rollout from 1 to 2; the first one's new agent crashes.
pub(super) fn halfway_with_a_crash() -> Fleet {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    fleet.pods[0] = pod(100, "node-000", 2, 1, false);
    fleet.change(0, |pod| pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into())));
    fleet
}

#[test]
fn a_cordon_of_nodes_with_crashing_agents_keeps_verdict_and_budget() {
    let mut fleet = halfway_with_a_crash();
    fleet.node(0).busy = Some("the node is cordoned");
    let plan = fleet.plan(&policy(Share::Count(2)), &desired(2), 10);
    assert_eq!(plan.steps.len(), 1);
    fleet.pods[1] = pod(101, "node-001", 2, 2, false);
    fleet.change(1, |pod| pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into())));
    fleet.node(1).busy = Some("the node is cordoned");
    assert_eq!(fleet.plan(&policy(Share::Count(2)), &desired(2), 11).report.state, State::Failed);
}

#[test]
fn trouble_of_a_node_that_had_no_agent_before_turns_no_template_back_nor_does_any_while_paused() {
    let stuck = |touched: bool, hold| {
        let mut fleet = Fleet::new(10, 2);
        fleet.rolling_since(0);
        (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
        fleet.pods[0] = pod(100, "node-000", 2, 1, false);
        fleet.change(0, |pod| pod.trouble = Some(Trouble::Image("ErrImagePull".into())));
        if !touched {
            fleet.memory.rollout.touched.broken.insert("node-000".to_owned());
        }
        let policy = Policy { hold, ..policy(Share::Count(1)) };
        for now in [10, 400, 401] {
            let plan = fleet.plan(&policy, &desired(2), now);
            fleet.memory = plan.memory;
            if plan.template == Template::GoBack {
                return true;
            }
        }
        false
    };
    assert!(stuck(true, None), "what the rollout took from a node does");
    assert!(!stuck(false, None));
    assert!(!stuck(true, Some(PAUSED)));
}

#[test]
fn a_mistake_in_the_template_rejects_no_version_that_runs_in_another() {
    let mut fleet = halfway_with_a_crash();
    let typo = Desired { revision: Release { hash: "typo".to_owned(), ..revision(2) }, ..desired(2) };
    fleet.template = typo.revision.clone();
    fleet.change(0, |pod| pod.revision = Some(typo.revision.clone()));
    let failed = fleet.plan(&policy(Share::Count(1)), &typo, 10);
    assert_eq!((failed.report.state, failed.memory.rejected.len()), (State::Failed, 1), "nothing says otherwise");
    fleet.pods[1] = pod(101, "node-001", 2, 1, true);
    let failed = fleet.plan(&policy(Share::Count(1)), &typo, 10);
    assert_eq!((failed.report.state, failed.memory.rejected.len()), (State::Failed, 0));
    assert!(failed.memory.rollout.failure.unwrap().message.starts_with("the new Pod template failed"));
}

#[test]
fn nodes_that_were_broken_before_a_rollout_began_neither_count_nor_speak() {
    let mut fleet = Fleet::new(10, 1);
    // One before it left a node behind, so that what it touched is still known.
    fleet.memory.rollout.touched.since = Some(at(-5_000));
    fleet.memory.rollout.touched.joined_after = Some(at(-5_000));
    for number in 0..3 {
        fleet.node(number).created = at(-1_000);
        fleet.change(number, |pod| {
            (pod.ready_since, pod.created) = (None, at(-900));
            pod.trouble = Some(Trouble::Capacity("no room".into()));
        });
    }
    let advanced = fleet.plan(&policy(Share::Count(3)), &desired(2), 0);
    (fleet.memory, fleet.template) = (advanced.memory, revision(2));
    let plan = fleet.plan(&policy(Share::Count(3)), &desired(2), 1);
    let costs = plan.steps.iter().filter(|step| step.costs).count();
    assert_eq!((costs, plan.steps.len()), (3, 6), "three that run, and the three that never did");
}

#[test]
fn a_node_that_was_lost_and_comes_back_under_its_name_is_lost_until_it_has_an_agent() {
    let mut fleet = halfway_with_a_crash();
    fleet.pods.remove(0);
    fleet.memory.rollout.touched.away.insert("node-000".to_owned(), Some(at(5)));
    fleet.node(0).created = at(6);
    fleet.missing.insert("node-000".into(), at(6));
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 10);
    assert_eq!(plan.steps.len(), 0, "it still counts");
    fleet.memory = plan.memory;
    fleet.pods.insert(0, pod(200, "node-000", 2, 11, true));
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 12).steps.len(), 1);
}

#[test]
fn a_taint_that_comes_after_a_restart_frees_no_budget_nor_does_another_restart() {
    let mut fleet = halfway_with_a_crash();
    // What took the agent of the first node ended since.
    fleet.pods.remove(0);
    fleet.deciding_since = 100;
    let one = policy(Share::Count(1));
    let plan = fleet.plan(&one, &desired(2), 101);
    assert_eq!((plan.steps.len(), plan.missing.len()), (0, 1));
    fleet.lost = plan.missing.into_iter().collect();
    fleet.memory = plan.memory;
    let taint = "network:NoSchedule".to_owned();
    fleet.node(0).taint = Some(taint);
    let plan = fleet.plan(&one, &desired(2), 102);
    assert_eq!(plan.steps.len(), 0, "nobody else goes while it is closed");
    fleet.memory = plan.memory;
    (fleet.lost, fleet.deciding_since) = (HashMap::new(), 200);
    assert_eq!(fleet.plan(&one, &desired(2), 201).steps.len(), 0);
    // It was opened, and has an agent again.
    fleet.node(0).taint = None;
    fleet.pods.insert(0, pod(300, "node-000", 2, 202, true));
    assert_eq!(fleet.plan(&one, &desired(2), 203).steps.len(), 1);
}

#[test]
fn a_node_lost_in_the_second_in_which_a_rollout_began_is_no_loss_of_ours() {
    let mut fleet = Fleet::new(5, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    for number in 0..5 {
        fleet.change(number, |pod| pod.created = at(0));
    }
    let node = fleet.node(2);
    (node.ready, node.ready_since) = (false, Some(at(0)));
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 10);
    assert_eq!(plan.steps.len(), 1, "{:?}", plan.report);
}

#[test]
fn a_cordon_of_a_node_lost_during_its_replacement_frees_no_budget() {
    let mut fleet = Fleet::new(3, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    fleet.pods[0] = pod(100, "node-000", 2, 1, false);
    fleet.lost = HashMap::from([("node-000".into(), at(1))]);
    let node = fleet.node(0);
    (node.ready, node.ready_since, node.busy) = (false, Some(at(2)), Some("the node is cordoned"));
    let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), 10);
    assert_eq!(plan.steps.len(), 0, "the guard would refuse it: {:?}", plan.report);
}

#[test]
fn a_taint_on_a_node_whose_agent_we_took_a_moment_ago_forgets_nothing() {
    let mut fleet = Fleet::new(3, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    // The watch still shows the Pod.
    fleet.deleted = HashSet::from([fleet.pods[0].id.clone()]);
    fleet.lost = HashMap::from([("node-000".into(), at(1))]);
    let taint = "network:NoSchedule".to_owned();
    fleet.node(0).taint = Some(taint.clone());
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 2).steps.len(), 0);
    // A Pod that we had made, and that is not Ready yet, shows it to an operator that restarts.
    let mut restarted = Fleet::new(3, 2);
    restarted.rolling_since(0);
    (restarted.memory.rollout.touched.since, restarted.deciding_since) = (Some(at(0)), 100);
    restarted.pods[0] = pod(100, "node-000", 2, 1, false);
    restarted.node(0).taint = Some(taint);
    assert_eq!(restarted.plan(&policy(Share::Count(1)), &desired(2), 101).steps.len(), 0);
}

#[test]
pub(super) fn no_running_agent_is_replaced_while_a_third_of_the_nodes_is_unreachable() {
    let mut fleet = Fleet::new(9, 2);
    fleet.rolling_since(0);
    for number in 0..3 {
        let node = fleet.node(number);
        (node.ready, node.ready_since) = (false, Some(at(-50)));
    }
    let plan = fleet.plan(&policy(Share::Count(5)), &desired(2), 10);
    assert_eq!(plan.steps.len(), 0, "{:?}", plan.report.waiting_on);
    // Those that are unreachable for hours are switched off, and the moment from which they are triggers a reconcile.
    let off = -50 + 6 * 3_600;
    assert_eq!(plan.next, Some(at(off)));
    assert_eq!(fleet.plan(&policy(Share::Count(5)), &desired(2), off - 1).steps.len(), 0);
    assert_eq!(fleet.plan(&policy(Share::Count(5)), &desired(2), off).steps.len(), 5);
    // With them gone for long, a third of the others is enough.
    for number in 3..6 {
        let node = fleet.node(number);
        (node.ready, node.ready_since) = (false, Some(at(off)));
    }
    let plan = fleet.plan(&policy(Share::Count(5)), &desired(2), off + 1);
    assert_eq!(plan.steps.len(), 0);
    assert!(plan.report.waiting_on.contains(&WaitingOn::MassOutage(3, 6)), "{:?}", plan.report.waiting_on);
}

#[test]
fn where_200_broken_agents_stay_broken_the_others_keep_their_turn_and_that_is_said() {
    let mut fleet = Fleet::new(300, 2);
    fleet.rolling_since(0);
    for number in 0..260 {
        fleet.change(number, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("exit 1".into()))));
    }
    fleet.memory.rollout.touched.broken = (0..200).map(|number| format!("node-{number:03}")).collect();
    let plan = fleet.plan(&policy(Share::Count(5)), &desired(2), 10);
    assert!(plan.report.waiting_on.contains(&WaitingOn::Broken(200)), "{:?}", plan.report.waiting_on);
    fleet.memory.rollout.touched.broken.pop_last();
    let plan = fleet.plan(&policy(Share::Count(5)), &desired(2), 10);
    assert!(!plan.report.waiting_on.contains(&WaitingOn::Broken(200)));
}

#[test]
pub(super) fn external_trouble_rejects_nothing() {
    for trouble in [Trouble::Image("ErrImagePull".into()), Trouble::Config("secret not found".into())] {
        let mut fleet = halfway_with_a_crash();
        fleet.change(0, |pod| pod.trouble = Some(trouble.clone()));
        for now in [10, 400, 4_000] {
            let plan = fleet.plan(&policy(Share::Count(1)), &desired(2), now);
            assert_eq!((plan.memory.rollout.failure.is_none(), plan.memory.rejected.len()), (true, 0));
            fleet.memory = plan.memory;
        }
    }
}

#[test]
fn the_time_of_a_node_without_an_agent_continues_while_pods_come_and_go() {
    let mut fleet = Fleet::new(4, 1);
    let policy = policy(Share::Count(1));
    fleet.pods[0] = pod(100, "node-000", 1, 900, false);
    fleet.change(0, |pod| pod.trouble = Some(Trouble::Unstarted("an image is being pulled".into())));
    let evaluate = |fleet: &Fleet, now: i64| fleet.plan(&policy, &desired(1), now);
    let report = evaluate(&fleet, 950).report;
    assert_eq!((report.joining, report.lacking), (1, 0), "nobody knows of another one before it");
    let why = Some("its kubelet refused or ended the Pod before: OutOfcpu".to_owned());
    fleet.losses.insert("node-000".into(), Loss { since: at(700), is_futile: true, why });
    let plan = evaluate(&fleet, 950);
    assert_eq!((plan.report.joining, plan.report.lacking, plan.next), (0, 1, Some(at(1_000))));
    let without = &plan.report.without[0];
    assert!(without.cause.to_string().contains("OutOfcpu"), "{}", without.cause);
    assert_eq!(without.since, Some(at(700)));
    assert_eq!(evaluate(&fleet, 999).report.bucket(Bucket::Starting), 1);
    assert_eq!(evaluate(&fleet, 1_000).report.bucket(Bucket::Pulling), 1);
    // While the Pod is taken away it is the same, also for the first that was refused.
    fleet.change(0, |pod| pod.deleting = true);
    assert_eq!(evaluate(&fleet, 1_000).report.bucket(Bucket::Pulling), 1);
    let known = fleet.losses.insert("node-000".into(), Loss { since: at(700), is_futile: false, why: None });
    fleet.change(0, |pod| pod.trouble = Some(Trouble::Ended("OutOfcpu".into())));
    let report = evaluate(&fleet, 950).report;
    assert!(report.without[0].cause.to_string().contains("OutOfcpu"), "{}", report.without[0].cause);
    fleet.losses.extend(known.map(|loss| ("node-000".into(), loss)));
    fleet.change(0, |pod| pod.deleting = false);
    // Without a Pod for the moment it is the same.
    let pod = fleet.pods.remove(0);
    assert_eq!(evaluate(&fleet, 1_000).report.bucket(Bucket::Pulling), 1);
    // One whose agent ran until a moment ago has all its time.
    fleet.pods.insert(0, pod);
    fleet.losses.insert("node-000".into(), Loss { since: at(899), is_futile: false, why: None });
    assert_eq!(evaluate(&fleet, 901).report.lacking, 1, "another Pod is no probe that failed");
    assert_eq!(evaluate(&fleet, 1_199).report.bucket(Bucket::Starting), 1);
    // Of the same Pod, a moment is no news.
    fleet.change(0, |pod| {
        (pod.was_ready, pod.unready_since, pod.trouble) = (Some(at(890) - at(0)), Some(at(899)), None);
    });
    let report = evaluate(&fleet, 901).report;
    assert_eq!((report.running, report.lacking), (4, 0));
    assert_eq!(evaluate(&fleet, 902).report.lacking, 1);
}
