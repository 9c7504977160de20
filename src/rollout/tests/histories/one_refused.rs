//! A few nodes whose Pods the API server refuses (a policy, a webhook), while all others take theirs: they hold no one
//! for good.
//!
//! Must not use a rule to judge another.

use std::collections::BTreeSet;

use super::*;
use crate::rollout::calendar::{Blackout, Calendar};

/// A fleet of which some nodes get no new Pod.
struct Refusing {
    fleet: Fleet,
    policy: Policy,
    refused: BTreeSet<String>,
    /// Versions that the API server lets through everywhere.
    let_through: BTreeSet<u32>,
    /// How often the template changed.
    changes: usize,
    made: usize,
    last: Option<Plan>,
}

impl Refusing {
    fn new(size: usize, refused: &[usize], policy: Policy) -> Self {
        let refused = refused.iter().map(|node| format!("node-{node:03}")).collect();
        let (fleet, let_through) = (Fleet::new(size, 1), BTreeSet::new());
        Self { fleet, policy, refused, let_through, changes: 0, made: 0, last: None }
    }

    /// Evaluates every ten seconds; Pods are made after each, and at once Ready.
    fn run(&mut self, from: i64, to: i64) {
        for now in (from..to).step_by(10) {
            let lacking = self.fleet.nodes.len() - self.fleet.pods.len();
            self.fleet.refused = (lacking > 0).then(|| "a policy refuses the Pod".to_owned());
            let plan = self.fleet.plan(&self.policy, &desired(2), now);
            let template = match plan.template {
                Template::Advance => revision(2),
                Template::GoBack => plan.memory.rollout.last_good.clone().unwrap(),
                Template::Keep => self.fleet.template.clone(),
            };
            self.changes += usize::from(template != self.fleet.template);
            self.fleet.template = template;
            for step in &plan.steps {
                assert!(step.costs, "none was broken");
                self.fleet.pods.retain(|pod| pod.id != step.pod.id);
                self.fleet.lost.insert(step.place.clone(), at(now));
                self.fleet.missing.insert(step.place.clone(), at(now));
            }
            assert!(self.fleet.nodes.len() - self.fleet.pods.len() <= plan.budget, "beyond the budget");
            self.fleet.memory = plan.memory.clone();
            self.last = Some(plan);
            self.make(now + 1);
        }
    }

    fn make(&mut self, now: i64) {
        let minor = self.fleet.template.version;
        for node in self.fleet.nodes.clone() {
            let is_refused = self.refused.contains(&*node.name) && !self.let_through.contains(&minor);
            if is_refused || self.fleet.pods.iter().any(|pod| pod.node == node.name) {
                continue;
            }
            self.made += 1;
            self.fleet.pods.push(pod(1_000 + self.made, &node.name, minor, now, true));
            self.fleet.lost.remove(&node.name);
            self.fleet.missing.remove(&node.name);
        }
    }

    fn at_version(&self, minor: u32) -> usize {
        self.fleet.pods.iter().filter(|pod| pod.revision == Some(revision(minor))).count()
    }

    fn state(&self) -> State {
        self.last.as_ref().unwrap().report.state
    }
}

#[test]
pub(super) fn one_refused_node_does_not_hold_the_others_for_good_and_they_are_tried_one_by_one_first() {
    // Nothing moves for so long that the template is put back: a blackout, with one node's Pod refused.
    let blackouts = vec![Blackout { from: at(15), to: at(5_000), reason: None }];
    let calendar = Calendar { windows: Vec::new(), blackouts };
    let mut fleet = Refusing::new(10, &[0], Policy { calendar, ..policy(Share::Count(3)) });
    fleet.run(0, 1_000);
    assert_eq!((fleet.at_version(2), fleet.fleet.template.clone()), (2, revision(1)), "it went back");
    fleet.run(1_000, 5_000);
    assert_eq!((fleet.at_version(2), fleet.changes), (2, 2), "while nothing may go, nothing is tried");
    fleet.run(5_000, 5_020);
    assert_eq!((fleet.at_version(2), fleet.fleet.template.clone()), (3, revision(2)), "one is tried");
    fleet.run(5_020, 6_000);
    assert_eq!((fleet.at_version(2), fleet.state()), (9, State::Rolling));
    // That all others run it is nothing to go back from.
    fleet.run(6_000, 9_000);
    assert_eq!((fleet.at_version(2), fleet.changes, fleet.fleet.template.clone()), (9, 3, revision(2)));
    fleet.refused.clear();
    fleet.run(9_000, 9_100);
    assert_eq!((fleet.at_version(2), fleet.state()), (10, State::Complete));
}

#[test]
fn that_others_may_go_and_when_the_next_is_tried_is_said() {
    let blackouts = vec![Blackout { from: at(15), to: at(400), reason: None }];
    let calendar = Calendar { windows: Vec::new(), blackouts };
    let mut fleet = Refusing::new(10, &[0], Policy { calendar, ..policy(Share::Count(3)) });
    fleet.run(0, 410);
    let plan = fleet.last.as_ref().unwrap();
    let waits = plan.report.waiting_on.iter().map(|waiting| waiting.said(&WORDS)).collect::<Vec<_>>().join("; ");
    assert!(waits.starts_with("node node-000: "), "{waits}");
    assert!(waits.ends_with("; another node is tried at 14:02:00Z, and the rest follow it"), "{waits}");
    assert_eq!(plan.next, Some(at(920)));
    fleet.run(410, 920);
    assert_eq!(fleet.at_version(2), 2);
    fleet.run(920, 940);
    assert_eq!(fleet.at_version(2), 3);
}

#[test]
fn where_nothing_may_be_replaced_nothing_is_tried_and_the_template_stays() {
    // The refused one is the whole budget.
    let mut one = Refusing::new(10, &[0], policy(Share::Count(1)));
    one.run(0, 10_000);
    assert_eq!((one.at_version(1), one.at_version(2), one.changes), (9, 0, 2));
    one.refused.clear();
    one.run(10_000, 10_500);
    assert_eq!((one.at_version(2), one.state()), (10, State::Complete));
    // Canaries prove themselves first.
    let canary =
        rollout::Canary { who: rollout::Who::Some(Share::Count(1)), soak: TimeDelta::seconds(60), by_hand: false };
    let mut one = Refusing::new(10, &[0], Policy { canary: Some(canary), ..policy(Share::Count(4)) });
    one.run(0, 10_000);
    assert_eq!((one.at_version(1), one.at_version(2)), (9, 0));
    assert!(one.changes <= 2, "{}", one.changes);
}

#[test]
fn what_every_node_refuses_takes_the_budget_and_is_rolled_back() {
    let all: Vec<usize> = (0..10).collect();
    let mut quota = Refusing::new(10, &all, policy(Share::Count(3)));
    quota.run(0, 20_000);
    assert_eq!((quota.at_version(1), quota.fleet.pods.len(), quota.changes), (7, 7, 2));
    // A webhook that refuses the new image only: the previous agents come back, and one is tried now and then.
    let mut image = Refusing::new(10, &all, policy(Share::Count(3)));
    image.let_through.insert(1);
    image.run(0, 330);
    assert_eq!((image.at_version(1), image.fleet.template.clone()), (10, revision(1)));
    for until in (350..10_010).step_by(20) {
        image.run(until - 20, until);
        assert!(image.at_version(1) >= 9, "one at a time: {}", image.at_version(1));
    }
    image.let_through.insert(2);
    image.run(10_010, 12_000);
    assert_eq!((image.at_version(2), image.state()), (10, State::Complete));
}

#[test]
fn an_agent_that_may_not_be_deleted_lets_the_next_one_go_and_comes_last() {
    let mut fleet = Fleet::new(4, 2);
    let policy = policy(Share::Count(1));
    let of = |fleet: &Fleet, node: usize| fleet.pods[node].id.clone();
    let first = fleet.plan(&policy, &desired(2), 0).steps[0].pod.id.clone();
    assert_eq!(first, of(&fleet, 0));
    fleet.aside.insert(first, "the API server refuses to delete Pod a: protected".to_owned());
    let plan = fleet.plan(&policy, &desired(2), 1);
    assert_eq!(plan.steps.iter().map(|step| step.pod.id.clone()).collect::<Vec<_>>(), [of(&fleet, 1)]);
    for node in 1..4 {
        fleet.pods[node] = pod(100 + node, &fleet.nodes[node].name, 2, 10, true);
    }
    let plan = fleet.plan(&policy, &desired(2), 1_000);
    let postponed = ("node-000".to_owned(), "the API server refuses to delete Pod a: protected".into());
    let said = plan.report.postponed.clone();
    assert_eq!((plan.steps.len(), said), (0, vec![postponed]));
    fleet.aside.clear();
    assert_eq!(fleet.plan(&policy, &desired(2), 1_010).steps.len(), 1);
}
