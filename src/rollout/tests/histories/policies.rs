//! What an administrator may ask of a rollout: windows, canaries, zones, nodes that are left out.
//!
//! Must not use a rule to judge another.

use std::collections::BTreeSet;

use chrono::NaiveTime;

use super::edges::halfway_with_a_crash;
use super::*;
use crate::rollout::calendar::{Blackout, Calendar, Window, Zone};
use crate::rollout::{Canary, Order, Who};

/// A fleet whose new agents are there at once, driven until nothing happens any more.
#[derive(Clone)]
pub(super) struct Drive {
    pub(super) fleet: Fleet,
    pub(super) policy: Policy,
    /// Which versions do not start.
    pub(super) bad: BTreeSet<u32>,
    /// When which node got a new agent.
    pub(super) replaced: Vec<(i64, String)>,
    pub(super) last: Option<Plan>,
}

impl Drive {
    pub(super) fn new(size: usize, policy: Policy) -> Self {
        Self { fleet: Fleet::new(size, 1), policy, bad: BTreeSet::new(), replaced: Vec::new(), last: None }
    }

    pub(super) fn zone(&mut self, node: usize, zone: &str) {
        self.fleet.node(node).zone = Some(zone.to_owned());
    }

    /// One evaluation, and what follows from it at once.
    pub(super) fn evaluate(&mut self, version: u32, now: i64) {
        self.look_to(&desired(version), now);
    }

    fn look_to(&mut self, desired: &Desired, now: i64) {
        let plan = self.fleet.plan(&self.policy, desired, now);
        match plan.template {
            Template::Advance => self.fleet.template = desired.revision.clone(),
            Template::GoBack => self.fleet.template = plan.memory.rollout.last_good.clone().unwrap(),
            Template::Keep => {}
        }
        for step in &plan.steps {
            let place = self.fleet.pods.iter().position(|pod| pod.id == step.pod.id).unwrap();
            let node = step.pod.node.to_string();
            let minor = self.fleet.template.version;
            let number = 1_000 + self.replaced.len();
            let mut made = (*pod(number, &node, minor, now, true)).clone();
            made.revision = Some(self.fleet.template.clone());
            if self.bad.contains(&minor) {
                (made.ready_since, made.trouble) = (None, Some(Trouble::Crash("CrashLoopBackOff".into())));
            }
            self.fleet.pods[place] = Arc::new(made);
            self.replaced.push((now, node));
        }
        self.fleet.memory = plan.memory.clone();
        self.last = Some(plan);
    }

    /// Looks every ten seconds.
    pub(super) fn run(&mut self, version: u32, from: i64, to: i64) {
        self.run_to(&desired(version), from, to);
    }

    pub(super) fn run_to(&mut self, desired: &Desired, from: i64, to: i64) {
        for now in (from..to).step_by(10) {
            self.look_to(desired, now);
        }
    }

    pub(super) fn nodes(&self) -> Vec<&str> {
        self.replaced.iter().map(|(_, node)| &**node).collect()
    }

    pub(super) fn waits(&self) -> String {
        let report = &self.last.as_ref().unwrap().report;
        report.waiting_on.iter().map(|waiting| waiting.said(&WORDS)).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn state(&self) -> State {
        self.last.as_ref().unwrap().report.state
    }
}

pub(super) fn canary(who: Who, soak: i64) -> Policy {
    let canary = Canary { who, soak: TimeDelta::seconds(soak), by_hand: false };
    Policy { canary: Some(canary), ..policy(Share::Count(2)) }
}

#[test]
pub(super) fn a_canary_is_first_and_the_others_follow_when_it_stayed_available() {
    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 600);
    assert_eq!(drive.nodes(), ["node-000"]);
    assert!(drive.waits().contains("1 node must stay available until 1970-01-12T13:57:00Z"), "{}", drive.waits());
    assert_eq!(drive.last.as_ref().unwrap().next, Some(at(620)));
    // Another operator continues where this one was.
    let text = serde_json::to_string(&drive.fleet.memory.rollout).unwrap();
    drive.fleet.memory.rollout = serde_json::from_str(&text).unwrap();
    drive.run(2, 600, 620);
    assert_eq!(drive.nodes().len(), 1);
    drive.run(2, 620, 700);
    assert_eq!((drive.nodes().len(), drive.state()), (6, State::Complete));
    // The next version has to prove itself again, one that was good has not.
    drive.run(3, 700, 800);
    assert_eq!(drive.nodes().len(), 7);
}

#[test]
pub(super) fn a_bad_version_is_seen_by_the_canaries_alone() {
    let mut drive = Drive::new(40, canary(Who::Some(Share::Percent(5)), 600));
    drive.bad.insert(2);
    drive.run(2, 0, 3_000);
    assert_eq!((drive.nodes().len(), drive.state()), (2, State::Failed), "both went at once");
    assert_eq!(drive.fleet.template, revision(1));
    let mut one = Drive::new(40, Policy { max_failures: Some(2), ..canary(Who::Some(Share::Count(1)), 600) });
    one.bad.insert(2);
    one.run(2, 0, 290);
    assert_eq!((one.nodes().len(), one.state()), (1, State::Rolling), "one failure of two, and nobody follows");
    one.run(2, 290, 3_000);
    assert_eq!((one.nodes().len(), one.state()), (1, State::Failed), "nor would anybody ever");
}

#[test]
fn a_crash_restarts_a_canarys_soak_and_the_loss_of_its_node_does_not() {
    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 300);
    let ready = drive.fleet.pods[0].ready_since;
    drive.fleet.change(0, |pod| (pod.ready_since, pod.restarts, pod.unready_since) = (None, 1, Some(at(300))));
    drive.run(2, 300, 330);
    drive.fleet.change(0, |pod| pod.ready_since = ready.map(|_| at(330)));
    drive.run(2, 330, 900);
    assert_eq!(drive.nodes().len(), 1, "it restarted in between");
    drive.run(2, 900, 1_000);
    assert_eq!(drive.nodes().len(), 6);

    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 300);
    drive.fleet.nodes.remove(0);
    drive.fleet.pods.remove(0);
    drive.run(2, 300, 620);
    assert_eq!(drive.nodes(), ["node-000", "node-001"], "another takes its place");
    drive.run(2, 620, 700);
    assert_eq!(drive.nodes().len(), 6, "what was served counts");
}

#[test]
fn nothing_is_complete_before_the_only_canary_has_soaked() {
    let mut drive = Drive::new(3, canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 50);
    for number in [1, 2] {
        drive.fleet.node(number).busy = Some("the node is cordoned");
    }
    drive.run(2, 50, 300);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Rolling));
    assert_eq!(drive.fleet.memory.rollout.last_good, Some(revision(1)));
    for number in [1, 2] {
        drive.fleet.node(number).busy = None;
    }
    drive.run(2, 300, 600);
    assert_eq!(drive.nodes().len(), 1);
    drive.run(2, 600, 700);
    assert_eq!((drive.nodes().len(), drive.state()), (3, State::Complete));
}

#[test]
fn what_a_canary_does_while_the_rollout_is_paused_counts() {
    let mut drive = Drive::new(3, canary(Who::Some(Share::Count(1)), 600));
    drive.run(2, 0, 50);
    drive.policy.hold = Some(PAUSED);
    drive.fleet.change(0, |pod| (pod.ready_since, pod.restarts, pod.unready_since) = (None, 1, Some(at(60))));
    drive.run(2, 60, 80);
    drive.fleet.change(0, |pod| pod.ready_since = Some(at(80)));
    drive.run(2, 80, 640);
    drive.policy.hold = None;
    drive.run(2, 640, 670);
    assert_eq!(drive.nodes().len(), 1, "it restarted in the pause");
    drive.run(2, 670, 800);
    assert_eq!(drive.nodes().len(), 3);
}

#[test]
fn named_canaries_that_do_not_exist_hold_the_rollout_with_a_reason() {
    let mut drive = Drive::new(6, canary(Who::Marked, 60));
    drive.run(2, 0, 300);
    assert!(drive.nodes().is_empty());
    assert!(drive.waits().contains("no node can be a canary: rollout.canary matches none"), "{}", drive.waits());
    drive.fleet.node(4).is_first = true;
    drive.run(2, 300, 350);
    assert_eq!(drive.nodes(), ["node-004"]);
    drive.run(2, 350, 500);
    assert_eq!(drive.nodes().len(), 6);
}

#[test]
fn where_every_agent_is_broken_the_canary_is_one_of_them() {
    let mut drive = Drive::new(4, canary(Who::Some(Share::Count(1)), 60));
    for number in 0..4 {
        drive.fleet.change(number, |pod| {
            (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("CrashLoopBackOff".into())));
        });
    }
    drive.run(2, 0, 60);
    assert_eq!(drive.nodes().len(), 1);
    drive.run(2, 60, 200);
    assert_eq!((drive.nodes().len(), drive.state()), (4, State::Complete));
}

/// Open from 02:00 to 02:05 on every day; `at(0)` is 13:46:40.
fn window() -> Calendar {
    let start = NaiveTime::from_hms_opt(2, 0, 0).unwrap();
    let window = Window { days: Vec::new(), start, duration: TimeDelta::minutes(5), zone: Zone::named("UTC").unwrap() };
    Calendar { windows: vec![window], blackouts: Vec::new() }
}

const OPENS: i64 = 12 * 3600 + 13 * 60 + 20;

#[test]
fn outside_of_windows_nothing_begins_and_what_is_in_flight_finishes() {
    let mut drive = Drive::new(100, Policy { calendar: window(), ..policy(Share::Count(1)) });
    drive.run(2, 0, 1_000);
    let last = drive.last.as_ref().unwrap();
    assert_eq!((last.template, last.report.state, drive.nodes().len()), (Template::Keep, State::Held, 0));
    assert_eq!(drive.waits(), "none is replaced outside of every window until 1970-01-13T02:00:00Z");
    assert!(last.next.is_some_and(|next| next <= at(1_600)), "the clock may be set");
    drive.run(2, OPENS, OPENS + 600);
    let done = drive.nodes().len();
    assert!((20..40).contains(&done), "one each ten seconds, for five minutes: {done}");
    assert_eq!((drive.state(), &drive.fleet.template), (State::Held, &revision(2)), "the template stays");
    drive.run(2, OPENS + 24 * 3600, OPENS + 24 * 3600 + 310);
    assert!(drive.nodes().len() > done);
    // The last Pod becomes available after the window has closed: it is known that the rollout is complete.
    let mut few = Drive::new(3, Policy { calendar: window(), ..policy(Share::Count(3)) });
    few.evaluate(2, OPENS);
    few.evaluate(2, OPENS + 1);
    for number in 0..3 {
        few.fleet.change(number, |pod| pod.ready_since = None);
    }
    few.evaluate(2, OPENS + 299);
    assert_eq!(few.state(), State::Rolling);
    for number in 0..3 {
        few.fleet.change(number, |pod| pod.ready_since = Some(at(OPENS + 310)));
    }
    few.evaluate(2, OPENS + 310);
    assert_eq!((few.state(), &few.fleet.memory.rollout.last_good), (State::Complete, &Some(revision(2))));
}

#[test]
fn a_blackout_holds_and_says_why() {
    let blackout = Blackout { from: at(100), to: at(500), reason: Some("freeze".to_owned()) };
    let calendar = Calendar { windows: Vec::new(), blackouts: vec![blackout] };
    let mut drive = Drive::new(100, Policy { calendar, ..policy(Share::Count(1)) });
    drive.run(2, 0, 400);
    assert_eq!(drive.nodes().len(), 9);
    assert_eq!(drive.waits(), "none is replaced in a blackout (freeze) until 1970-01-12T13:55:00Z");
    drive.run(2, 500, 510);
    assert_eq!(drive.nodes().len(), 10);
}

#[test]
pub(super) fn zones_are_updated_alike_or_one_after_the_other_and_each_has_its_bound() {
    let zoned = |policy: Policy| {
        let mut drive = Drive::new(12, policy);
        // Of three zones the first has the oldest Pods, and half of the nodes.
        for node in 0..12 {
            drive.zone(
                node,
                if node < 6 {
                    "a"
                } else if node < 9 {
                    "b"
                } else {
                    "c"
                },
            );
        }
        drive
    };
    let zone = |name: &str| match name[5..].parse::<usize>().unwrap() {
        0..6 => 'a',
        6..9 => 'b',
        _ => 'c',
    };
    let order = |drive: &Drive| drive.nodes().into_iter().map(zone).collect::<String>();
    let mut spread = zoned(policy(Share::Count(1)));
    spread.run(2, 0, 300);
    assert_eq!(order(&spread), "abcaabcaabca");
    let mut by_zone = zoned(Policy { order: Order::ByZone, ..policy(Share::Count(4)) });
    by_zone.run(2, 0, 300);
    assert_eq!(order(&by_zone), "aaaaaabbbccc");
    let bounded = Policy { per_zone: Some(Share::Count(1)), order: Order::ByZone, ..policy(Share::Count(4)) };
    let mut by_zone = zoned(bounded);
    by_zone.evaluate(2, 0);
    by_zone.evaluate(2, 10);
    assert_eq!(order(&by_zone), "a", "never more than one of a zone");
    by_zone.fleet.change(0, |pod| pod.ready_since = None);
    by_zone.run(2, 20, 100);
    assert_eq!(order(&by_zone), "a", "and its agent is not back");
    let mut spread = zoned(Policy { per_zone: Some(Share::Percent(34)), ..policy(Share::Count(12)) });
    spread.evaluate(2, 0);
    spread.evaluate(2, 10);
    let first = order(&spread);
    let of = |zone| first.chars().filter(|other| *other == zone).count();
    assert_eq!((of('a'), of('b'), of('c')), (3, 2, 2), "a share of each zone, rounded up");
}

#[test]
fn a_node_that_is_left_out_is_named() {
    let mut drive = Drive::new(4, policy(Share::Count(1)));
    drive.fleet.node(1).is_left_out = true;
    drive.run(2, 0, 100);
    assert_eq!(drive.nodes(), ["node-000", "node-002", "node-003"]);
    let report = &drive.last.as_ref().unwrap().report;
    assert_eq!(report.postponed[0].0, "node-001");
    // It releases what a place took of the budget that will not come back.
    let mut fleet = halfway_with_a_crash();
    let one = policy(Share::Count(2));
    assert_eq!(fleet.plan(&one, &desired(2), 10).steps.len(), 1);
    fleet.node(0).is_left_out = true;
    assert_eq!(fleet.plan(&one, &desired(2), 10).steps.len(), 2);
}
