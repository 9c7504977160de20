//! Whole plans as text: what the engine decides in situations that users meet, one golden file for all of them.
//!
//! A change here is a change of what the operator does to a fleet: read it as that. Beside them what a place counts for
//! that is gone.

use std::fmt::Write as _;

use super::*;

/// A plan as people read it.
fn text(plan: &Plan) -> String {
    let mut text = String::new();
    let report = &plan.report;
    let _ = writeln!(text, "  {}, template {:?}, budget {}", report.state, plan.template, plan.budget);
    let steps: Vec<String> =
        plan.steps.iter().map(|s| format!("{}{}", s.pod.node, if s.costs { "" } else { " (free)" })).collect();
    let _ = writeln!(text, "  replace: {}", if steps.is_empty() { "nothing".to_owned() } else { steps.join(", ") });
    let buckets: Vec<String> =
        report.buckets.iter().map(|(bucket, count)| format!("{bucket} {}", count.count)).collect();
    let _ = writeln!(
        text,
        "  {} selected, {} running, {} updated, {} outdated, {} unknown, {} held back, {} surplus{}{}",
        report.selected,
        report.running,
        report.updated,
        report.outdated,
        report.unknown.count,
        report.held_back.count,
        report.surplus.count,
        if buckets.is_empty() { "" } else { "; " },
        buckets.join(", ")
    );
    for waiting in &report.waiting_on {
        let _ = writeln!(text, "  waits: {}", waiting.said(&WORDS));
    }
    if let Some(failure) = &plan.memory.rollout.failure {
        let _ = writeln!(text, "  failed: {}", failure.message);
    }
    if let Some(stuck) = plan.memory.rollout.stall() {
        let _ = writeln!(text, "  stuck: {:?}", stuck.phase);
    }
    for (what, names) in [
        ("away", plan.memory.rollout.touched.away.keys().cloned().collect::<Vec<_>>()),
        ("broken before", plan.memory.rollout.touched.broken.iter().cloned().collect()),
    ] {
        if !names.is_empty() {
            let _ = writeln!(text, "  {what}: {}", names.join(", "));
        }
    }
    if plan.needs_proof {
        let _ = writeln!(text, "  asks: proof");
    }
    text
}

/// Ten nodes in the middle of a rollout from 1 to 2 that this process began; two of them are done.
fn halfway() -> Fleet {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    for done in [0, 1] {
        fleet.pods[done] = pod(100 + done, &fleet.nodes[done].name.clone(), 2, 1, true);
    }
    fleet
}

/// The replaced agent of the first node, as something that is not available.
fn broken(change: impl FnOnce(&mut Pod)) -> Fleet {
    let mut fleet = halfway();
    fleet.change(0, |pod| {
        pod.ready_since = None;
        change(pod);
    });
    fleet
}

#[test]
#[expect(clippy::too_many_lines, reason = "one after the other, each a line or two")]
fn what_is_decided_in_situations_that_users_meet() {
    let two = policy(Share::Count(2));
    let mut all = String::new();
    let mut say = |what: &str, fleet: &Fleet, policy: &Policy, wanted: &Desired, now: i64| {
        let _ = writeln!(all, "{what}\n{}", text(&fleet.plan(policy, wanted, now)));
    };
    let node = |fleet: &mut Fleet, number: usize, change: &dyn Fn(&mut Node)| change(fleet.node(number));

    say("nothing to do", &Fleet::new(10, 1), &two, &desired(1), 0);
    say("a new version", &Fleet::new(10, 1), &two, &desired(2), 0);
    say("the template is there", &Fleet::new(10, 2), &two, &desired(2), 0);
    say("in the middle", &halfway(), &two, &desired(2), 10);
    for (what, hold) in [("paused", PAUSED), ("stopped for the whole cluster", STOPPED), ("the source is away", AWAY)] {
        say(what, &halfway(), &Policy { hold: Some(hold), ..two.clone() }, &desired(2), 10);
    }

    say("a new agent starts", &broken(|_| {}), &two, &desired(2), 10);
    say("it is overdue", &broken(|_| {}), &two, &desired(2), 400);
    say(
        "it was Ready and is overdue now",
        &broken(|pod| pod.was_ready = Some(TimeDelta::seconds(30))),
        &two,
        &desired(2),
        400,
    );
    say(
        "it crashes",
        &broken(|pod| pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into()))),
        &two,
        &desired(2),
        10,
    );
    let crash = |number: usize, fleet: &mut Fleet| {
        fleet.change(number, |pod| {
            (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("CrashLoopBackOff".into())));
        });
    };
    let mut failed = halfway();
    crash(0, &mut failed);
    crash(1, &mut failed);
    say("as many crash as the budget", &failed, &two, &desired(2), 10);
    failed.source = Source::Away;
    say("they crash while the environment is away", &failed, &two, &desired(2), 10);
    failed.source = Source::Answers(at(5));
    say("they crash, and the environment answered just now", &failed, &two, &desired(2), 10);
    say("they crash, and it was asked long ago", &failed, &two, &desired(2), 300);
    say(
        "its image cannot be pulled",
        &broken(|pod| pod.trouble = Some(Trouble::Image("ImagePullBackOff".into()))),
        &two,
        &desired(2),
        10,
    );
    let mut stuck = broken(|pod| pod.trouble = Some(Trouble::Image("ImagePullBackOff".into())));
    stuck.stuck(Stall { revision: revision(2), phase: StallPhase::Waiting, since: at(10), tries: 0 });
    say("its image could not be pulled for too long", &stuck, &two, &desired(2), 310);
    say(
        "there is no room for it",
        &broken(|pod| pod.trouble = Some(Trouble::Capacity("0/10 nodes".into()))),
        &two,
        &desired(2),
        400,
    );

    let mut lost = halfway();
    node(&mut lost, 0, &|node| (node.ready, node.ready_since) = (false, Some(at(60))));
    lost.memory.rollout.touched.away = [("node-000".to_owned(), None)].into();
    say("a node went away after its agent was replaced", &lost, &two, &desired(2), 100);
    lost.nodes.remove(0);
    say("and was removed", &lost, &two, &desired(2), 100);
    let mut mass_outage = halfway();
    for number in 4..8 {
        node(&mut mass_outage, number, &|node| (node.ready, node.ready_since) = (false, Some(at(-50))));
    }
    say("a third of the nodes is NotReady", &mass_outage, &two, &desired(2), 10);
    let mut cordoned = halfway();
    node(&mut cordoned, 2, &|node| node.busy = Some("the node is cordoned"));
    say("a node is cordoned", &cordoned, &two, &desired(2), 10);
    let mut tainted = halfway();
    node(&mut tainted, 2, &|node| {
        node.taint = Some("x:NoSchedule".to_owned());
    });
    say("a node has a taint", &tainted, &two, &desired(2), 10);
    let mut blip = halfway();
    for number in 2..8 {
        blip.change(number, |pod| {
            (pod.ready_since, pod.unready_since, pod.was_ready) = (None, Some(at(8)), Some(TimeDelta::days(1)));
        });
    }
    say("most old agents are unready for a moment", &blip, &two, &desired(2), 10);
    say("and for longer than that", &blip, &two, &desired(2), 11);
    say("and for too long", &blip, &two, &desired(2), 400);

    let mut unheard = Fleet::new(10, 2);
    unheard.is_unheard = true;
    say("a start, before the host list was heard", &unheard, &two, &desired(2), 0);
    let mut newer = Fleet::new(4, 1);
    newer.change(0, |pod| pod.revision = Some(revision(5)));
    let edited = Desired { revision: Release { hash: "h2".into(), ..revision(1) }, ..desired(1) };
    newer.template = edited.revision.clone();
    say("an edit, with an agent that is newer than desired", &newer, &two, &edited, 0);
    let mut unmade = halfway();
    unmade.pods.remove(5);
    unmade.missing.insert("node-005".into(), at(0));
    say("nobody makes a Pod", &unmade, &two, &desired(2), 400);
    insta::assert_snapshot!(all);
}

#[test]
fn a_node_lost_because_of_us_counts_for_an_hour_after_its_removal() {
    let mut fleet = Fleet::new(3, 2);
    fleet.rolling_since(0);
    fleet.memory.rollout.touched.since = Some(at(0));
    fleet.memory.rollout.touched.away = [("gone".to_owned(), None)].into();
    let one = policy(Share::Count(1));
    let plan = fleet.plan(&one, &desired(2), 10);
    assert_eq!((plan.steps.len(), &plan.memory.rollout.touched.away["gone"]), (0, &Some(at(10))));
    fleet.memory = plan.memory;
    assert_eq!(fleet.plan(&one, &desired(2), 3600).steps.len(), 0);
    let later = fleet.plan(&one, &desired(2), 3611);
    assert_eq!((later.steps.len(), later.memory.rollout.touched.away.len()), (1, 0));
}
