//! When a rollout will have finished: what is said on the way beside what came about.
//!
//! Must not know how it is reckoned.

use super::*;
use crate::rollout::calendar::Blackout;
use crate::rollout::{Calendar, Canary, Who};

/// What was said at a time, if anything, and when all was done. Each agent is missing for so many seconds.
fn said_and_done(size: usize, policy: &Policy, away: i64) -> (Vec<(i64, i64)>, i64) {
    let mut fleet = Fleet::new(size, 1);
    let mut said = Vec::new();
    let mut due: Vec<(i64, Arc<str>)> = Vec::new();
    for now in (10..100_000).step_by(3) {
        for (_, uid) in due.extract_if(.., |(at, _)| *at <= now) {
            let place = fleet.pods.iter().position(|pod| pod.id == uid).unwrap();
            fleet.change(place, |pod| pod.ready_since = Some(at(now)));
            fleet.lost.remove(&fleet.pods[place].node.clone());
        }
        let plan = fleet.plan(policy, &desired(2), now);
        if plan.template == Template::Advance {
            fleet.template = revision(2);
        }
        for step in &plan.steps {
            let place = fleet.pods.iter().position(|pod| pod.id == step.pod.id).unwrap();
            let made = pod(10_000 + place, &step.pod.node, 2, now + away / 4, false);
            due.push((now + away + (place as i64 % 5) * away / 20, made.id.clone()));
            fleet.lost.insert(step.pod.node.clone(), at(now));
            fleet.pods[place] = made;
        }
        fleet.memory = plan.memory;
        if let Some(finish) = plan.report.finish {
            said.push((now, (finish - at(0)).num_seconds()));
        }
        if plan.report.state == State::Complete {
            return (said, now);
        }
    }
    panic!("it did not finish");
}

/// A user who asks while there is something to say learns the end to a quarter of what is left, and one replacement.
fn is_near(size: usize, policy: &Policy, away: i64) -> usize {
    let (said, done) = said_and_done(size, policy, away);
    for (now, finish) in &said {
        let off = (finish - done).abs();
        assert!(off * 4 <= (done - now) + 4 * away * 3 / 2, "at {now} of {done}: {finish}");
    }
    said.len()
}

#[test]
fn the_expected_finish_is_near_the_one_that_comes() {
    for (size, budget, away) in [(40, 4, 45), (100, 10, 60), (12, 1, 90), (30, 30, 20)] {
        is_near(size, &policy(Share::Count(budget)), away);
    }
    assert!(is_near(200, &policy(Share::Percent(5)), 40) > 50, "it is said for most of the time");
}

#[test]
fn it_knows_of_blackouts_and_canaries() {
    let blackouts = vec![Blackout { from: at(200), to: at(5_000), reason: None }];
    let calendar = Calendar { windows: Vec::new(), blackouts };
    is_near(40, &Policy { calendar, ..policy(Share::Count(4)) }, 45);
    let canary = Some(Canary { who: Who::Some(Share::Count(2)), soak: TimeDelta::seconds(600), by_hand: false });
    is_near(40, &Policy { canary, ..policy(Share::Count(4)) }, 45);
}

#[test]
fn what_nothing_shows_is_not_said() {
    let mut fleet = Fleet::new(10, 2);
    fleet.rolling_since(0);
    (fleet.memory.rollout.touched.since, fleet.deciding_since) = (Some(at(0)), -10);
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).report.finish, None, "no new agent yet");
    fleet.pods[0] = pod(100, "node-000", 2, 1, true);
    fleet.change(0, |pod| pod.ready_since = Some(at(8)));
    assert!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).report.finish.is_some());
    fleet.pods[1] = pod(101, "node-001", 2, 9, false);
    fleet.change(1, |pod| pod.trouble = Some(Trouble::Image("ErrImagePull".into())));
    assert_eq!(fleet.plan(&policy(Share::Count(1)), &desired(2), 10).report.finish, None, "nothing goes on");
    let paused = Policy { hold: Some(PAUSED), ..policy(Share::Count(2)) };
    assert_eq!(fleet.plan(&paused, &desired(2), 10).report.finish, None);
}
