//! The engine where places are replicas of workloads: budgets of each, a slow start over many, what was missing before.
//!
//! A small world plays the workloads' controllers: a deleted Pod is created again under another name.

use proptest::prelude::*;

use super::*;

/// A workload and its Pods.
struct World {
    workloads: Vec<(usize, Share)>,
    /// Of which workload, and the Pod.
    pods: Vec<(usize, Arc<Pod<Number>>)>,
    memory: Memory<Number>,
    ledger: Ledger,
    clock: i64,
    born: usize,
    /// The most that a workload lacked because of us.
    worst: Vec<usize>,
    /// Whether new Pods crash.
    is_bad: bool,
    /// A workload that another controller is replacing.
    busy: Option<usize>,
    /// Whether nothing more may go.
    is_held: bool,
    policy: Policy,
    /// A workload whose new Pods are refused.
    refused: Option<usize>,
}

impl World {
    fn new(workloads: &[(usize, Share)]) -> Self {
        let mut world = Self {
            workloads: workloads.to_vec(),
            pods: Vec::new(),
            memory: Memory::default(),
            ledger: Ledger::default(),
            clock: 100,
            born: 0,
            worst: vec![0; workloads.len()],
            is_bad: false,
            busy: None,
            is_held: false,
            policy: policy(1),
            refused: None,
        };
        for (at, (size, _)) in workloads.iter().enumerate() {
            (0..*size).for_each(|_| world.make(at, 1, true));
        }
        world
    }

    fn make(&mut self, workload: usize, revision: u32, ready: bool) {
        self.born += 1;
        let named = Pod::named(&format!("p{}", self.born), "");
        let trouble = (revision == 2 && self.is_bad).then(|| Trouble::Crash("it crashes".into()));
        let pod = Pod {
            revision: Some(Number(revision)),
            created: at(self.clock),
            ready_since: ready.then(|| at(self.clock)),
            trouble,
            ..named
        };
        self.pods.push((workload, Arc::new(pod)));
    }

    fn sizes(&self) -> Vec<Workload> {
        let is_available = |pod: &Pod<Number>| pod.ready_since.is_some() && !self.ledger.deleted().contains(&pod.id);
        let size = |(at, (expected, budget)): (usize, &(usize, Share))| Workload {
            name: format!("w{at}").into(),
            budget: *budget,
            expected: *expected,
            available: self.pods.iter().filter(|(of, pod)| *of == at && is_available(pod)).count(),
            is_busy: self.busy == Some(at),
            refused: (self.refused == Some(at)).then(|| "exceeded quota".into()),
        };
        self.workloads.iter().enumerate().map(size).collect()
    }

    /// One look; carries its steps out behind the guard, and returns the plan.
    fn look(&mut self) -> Plan<Number> {
        self.clock += 1;
        let now = at(self.clock);
        let pods = self.pods.clone();
        self.ledger = self.ledger.shown(|uid| pods.iter().any(|(_, pod)| *pod.id == *uid), now);
        let workloads = self.sizes();
        let place = |(workload, pod): &'_ (usize, Arc<Pod<Number>>)| (*workload, pod.revision == Some(Number(1)));
        let places: Vec<Place<'_, Number>> = pods
            .iter()
            .map(|entry| {
                let (workload, is_old) = place(entry);
                let standing = if is_old { Standing::Outdated } else { Standing::Current };
                let occupant = Some(Occupant { pod: &entry.1, standing });
                let is_busy = self.busy == Some(workload) || (self.is_held && is_old);
                let busy = is_busy.then(|| "not now".into());
                Place { workload, busy, occupant, ..Place::plain(&entry.1.name, None) }
            })
            .collect();
        let (lost, missing) = (HashMap::new(), HashMap::new());
        let desired = Desired { revision: Number(2), insists: false };
        let inventory = Inventory {
            places: &places,
            workloads: &workloads,
            writes_template: false,
            template: Some(&Number(2)),
            settled: true,
            deleted: &self.ledger.deleted(),
            lost: &lost,
            freed: &HashSet::new(),
            missing: &missing,
            deciding_since: at(0),
            in_contact_since: chrono::DateTime::UNIX_EPOCH,
            source: Source::NotNeeded,
            refused: None,
            words: WORDS,
            memory: &self.memory,
        };
        let plan = plan(&self.policy, Some(&desired), &inventory, now);
        let before = &plan.memory.touched.lacking;
        let in_flight = |name: &str| self.ledger.in_flight(name);
        let guard = Guard::count_replicas(&self.policy, &workloads, &places, before, in_flight, at(0));
        self.memory = plan.memory.clone();
        for step in &plan.steps {
            let admitted = self.ledger.begin(&guard, &step.place, &step.pod.id, now);
            assert!(admitted.is_some(), "the guard counts as the plan does: {step:?}");
        }
        for (at, workload) in self.sizes().iter().enumerate() {
            let before = self.memory.touched.lacking.get(&*workload.name).copied().unwrap_or_default();
            self.worst[at] = self.worst[at].max(workload.unavailable().saturating_sub(before));
        }
        plan
    }

    /// The controllers do their work: what was removed is gone, `made` of those missing are made, `ready` become Ready.
    fn turn(&mut self, made: usize, ready: usize) {
        let gone = self.ledger.deleted();
        self.pods.retain(|(_, pod)| !gone.contains(&pod.id));
        let lacks =
            |world: &Self, at: usize| world.workloads[at].0 - world.pods.iter().filter(|(of, _)| *of == at).count();
        let missing: Vec<usize> = (0..self.workloads.len()).flat_map(|at| vec![at; lacks(self, at)]).collect();
        missing.into_iter().take(made).for_each(|at| self.make(at, 2, false));
        let clock = self.clock;
        let waits = self.pods.iter_mut().filter(|(_, pod)| pod.ready_since.is_none() && pod.trouble.is_none());
        for (_, pod) in waits.take(ready) {
            Arc::make_mut(pod).ready_since = Some(at(clock));
        }
    }

    fn old(&self) -> usize {
        self.pods.iter().filter(|(_, pod)| pod.revision == Some(Number(1))).count()
    }
}

fn canary_of(pods: u32, soak: i64) -> Canary {
    Canary { who: Who::Some(Share::Count(pods)), soak: TimeDelta::seconds(soak), by_hand: false }
}

proptest! {
    #[test]
    fn each_workload_keeps_its_budget_and_all_are_done(
        sizes in prop::collection::vec((1usize..6, 1u32..4), 1..5),
        turns in prop::collection::vec((0usize..4, 0usize..4), 40..80),
        canary in prop::option::of((1u32..5, 0i64..60)),
    ) {
        let workloads: Vec<(usize, Share)> =
            sizes.iter().map(|(size, budget)| (*size, Share::Count(*budget))).collect();
        let mut world = World::new(&workloads);
        let pods = world.pods.len();
        world.policy.canary = canary.map(|(pods, soak)| canary_of(pods, soak));
        for (made, ready) in turns {
            world.look();
            world.turn(made, ready);
            let is_watched = world.memory.proof.as_ref().is_some_and(|proof| !proof.passed);
            if let Some((canaries, _)) = canary.filter(|_| is_watched) {
                prop_assert!(world.old() + canaries as usize >= pods, "{} of {pods} went", pods - world.old());
            }
        }
        for _ in 0..130 {
            if world.look().report.state == State::Complete {
                break;
            }
            world.turn(9, 9);
        }
        for ((_, budget), worst) in sizes.iter().zip(&world.worst) {
            prop_assert!(*worst <= *budget as usize, "{worst} of {budget}");
        }
        let last = world.look();
        prop_assert_eq!(world.old(), 0);
        prop_assert_eq!(last.report.state, State::Complete);
    }
}

#[test]
pub(super) fn of_many_workloads_one_begins_and_each_success_admits_one_more() {
    let mut world = World::new(&[(2, Share::Count(1)); 10]);
    let mut in_flight = Vec::new();
    for _ in 0..5 {
        in_flight.push(world.look().steps.len());
        world.turn(9, 9);
    }
    assert_eq!(in_flight, [1, 2, 4, 8, 5], "of twenty Pods");
}

#[test]
fn a_change_that_crashes_meets_one_budgets_worth_whatever_the_number_of_workloads() {
    let mut world = World::new(&[(2, Share::Count(1)); 10]);
    world.is_bad = true;
    for _ in 0..10 {
        world.look();
        world.turn(9, 9);
    }
    assert_eq!(world.old(), 19);
    assert_eq!(world.look().report.state, State::Failed);
}

#[test]
fn a_change_that_crashes_meets_the_canary_alone() {
    let mut world = World::new(&[(6, Share::Count(3)); 3]);
    (world.is_bad, world.policy.canary) = (true, Some(canary_of(1, 60)));
    for _ in 0..100 {
        world.look();
        world.turn(9, 9);
    }
    assert_eq!((world.old(), world.look().report.state), (17, State::Failed));
}

#[test]
fn what_was_broken_before_hinders_no_one_and_proves_nothing() {
    let mut world = World::new(&[(3, Share::Count(1)), (2, Share::Count(1))]);
    // One of the first workload has crashed for weeks, and its successor will, too.
    let broken = Arc::make_mut(&mut world.pods[0].1);
    (broken.ready_since, broken.trouble) = (None, Some(Trouble::Crash("it crashes".into())));
    for _ in 0..12 {
        world.look();
        world.turn(9, 9);
        for (of, pod) in &mut world.pods {
            if *of == 0 && pod.revision == Some(Number(2)) && *pod.name == *"p6" {
                let pod = Arc::make_mut(pod);
                (pod.ready_since, pod.trouble) = (None, Some(Trouble::Crash("it crashes".into())));
            }
        }
    }
    assert_eq!(world.old(), 0);
    assert_eq!(world.worst, [1, 1]);
    assert!(world.memory.failure.is_none());
}

#[test]
fn a_pod_that_another_client_just_replaced_counts() {
    let mut world = World::new(&[(4, Share::Count(1))]);
    // Another object's rollout took one, whose successor is not there yet.
    world.pods.remove(0);
    assert_eq!(world.look().steps, []);
    world.turn(9, 9);
    assert_eq!(world.look().steps.len(), 1);
}

#[test]
fn what_a_change_before_achieved_admits_nothing_of_the_next() {
    let mut world = World::new(&[(1, Share::Count(1)); 10]);
    for _ in 0..6 {
        world.look();
        world.turn(9, 9);
    }
    assert_eq!(world.old(), 0);
    // All of them are old again: another change, in the middle of the first one's rollout.
    for (_, pod) in &mut world.pods {
        Arc::make_mut(pod).revision = Some(Number(1));
    }
    world.memory.phase = Phase::Rolling { since: at(world.clock), stall: None };
    world.memory.touched.since = Some(at(0));
    assert_eq!(world.look().steps.len(), 1);
}

#[test]
fn a_workload_that_others_are_replacing_stops_no_other() {
    let mut world = World::new(&[(2, Share::Count(1)), (2, Share::Count(1))]);
    world.busy = Some(0);
    let (_, pod) = &mut world.pods[0];
    Arc::make_mut(pod).ready_since = None;
    for _ in 0..6 {
        world.look();
        world.turn(0, 0);
        world.turn(9, 0);
        let clock = world.clock;
        for (_, pod) in world.pods.iter_mut().filter(|(of, pod)| *of == 1 && pod.ready_since.is_none()) {
            Arc::make_mut(pod).ready_since = Some(at(clock));
        }
    }
    assert_eq!(world.old(), 2, "those of the busy one, and no other");
}

#[test]
pub(super) fn a_successor_that_crashes_where_no_other_may_go_is_a_failure_whatever_the_budget() {
    let mut world = World::new(&[(4, Share::Count(2))]);
    world.is_bad = true;
    world.look();
    world.turn(9, 9);
    // Two went; a budget of the cluster's holds the others.
    world.pods.remove(world.pods.iter().position(|(_, pod)| pod.trouble.is_some()).unwrap());
    (world.is_bad, world.is_held) = (false, true);
    world.make(0, 2, true);
    assert_eq!(world.look().report.state, State::Failed);
}

#[test]
fn a_fix_of_a_crashing_canary_reaches_it_first() {
    let mut world = World::new(&[(4, Share::Count(1))]);
    (world.is_bad, world.policy.canary) = (true, Some(canary_of(1, 60)));
    for _ in 0..5 {
        world.look();
        world.turn(9, 9);
    }
    assert_eq!(world.look().report.state, State::Failed);
    // The owner writes again: what crashes is as old as the others now.
    for (_, pod) in &mut world.pods {
        Arc::make_mut(pod).revision = Some(Number(1));
    }
    (world.is_bad, world.memory.failure) = (false, None);
    let steps = world.look().steps;
    assert_eq!(steps.len(), 1);
    assert!(steps[0].pod.ready_since.is_none(), "the one that crashes costs nothing");
}

#[test]
fn a_workload_whose_pods_are_refused_keeps_no_canary_of_another_from_going() {
    let mut world = World::new(&[(4, Share::Count(2)), (4, Share::Count(2))]);
    world.policy.canary = Some(canary_of(1, 60));
    world.refused = Some(1);
    world.pods.pop();
    assert_eq!(world.look().steps.len(), 1);
}

#[test]
fn replicas_without_room_wait_for_the_cluster_to_grow_and_reject_nothing() {
    let mut world = World::new(&[(3, Share::Count(1))]);
    world.look();
    world.turn(9, 0);
    let late = world.pods.len() - 1;
    Arc::make_mut(&mut world.pods[late].1).trouble = Some(Trouble::Capacity("no room".into()));
    world.clock += 5_000;
    let plan = world.look();
    assert_eq!((plan.report.state, plan.memory.failure, world.old()), (State::Rolling, None, 2), "it fills the budget");
    let (late, bound_at) = (Arc::make_mut(&mut world.pods[late].1), at(world.clock));
    (late.trouble, late.unready_since) = (None, Some(bound_at));
    (0..20).for_each(|_| {
        world.look();
        world.turn(9, 9);
    });
    assert_eq!((world.old(), world.look().report.state), (0, State::Complete));
}

/// A Pod of the first workload failed; what its controller makes next, under another name, is well.
fn failed_and_remade() -> World {
    let mut world = World::new(&[(4, Share::Count(1))]);
    world.is_bad = true;
    for _ in 0..5 {
        world.look();
        world.turn(9, 9);
    }
    assert_eq!(world.look().report.state, State::Failed);
    world.is_bad = false;
    world.pods.retain(|(_, pod)| pod.trouble.is_none());
    assert!(world.look().memory.failure.is_some(), "it lacks a replica");
    world.turn(9, 9);
    world
}

#[test]
fn a_verdict_is_withdrawn_when_its_workload_is_whole_for_long_enough_whatever_its_pods_are_named() {
    let mut world = failed_and_remade();
    let plan = world.look();
    let whole_at = at(world.clock);
    assert_eq!((plan.report.state, plan.next), (State::Failed, Some(whole_at + world.policy.wait_ready)));
    // A replica that is missing for a moment begins it again.
    let pod = Arc::make_mut(&mut world.pods[0].1);
    let since = pod.ready_since.take();
    world.look();
    Arc::make_mut(&mut world.pods[0].1).ready_since = since;
    world.look();
    world.clock += world.policy.wait_ready.num_seconds() - 2;
    assert_eq!(world.look().report.state, State::Failed);
    let plan = world.look();
    assert_eq!((plan.report.state, plan.memory.failure.is_none(), plan.steps.len()), (State::Rolling, true, 1));
}

#[test]
fn the_third_verdict_is_final_until_a_user_lifts_it() {
    let mut world = failed_and_remade();
    world.memory.withdrawn = Some(Withdrawn { revision: Number(2), times: 2 });
    world.look();
    world.clock += world.policy.wait_ready.num_seconds() + 1;
    let plan = world.look();
    assert_eq!((plan.report.state, plan.memory.is_final(), plan.next), (State::Failed, true, None));
    assert!(world.memory.lift() && !world.memory.lift());
    let plan = world.look();
    assert_eq!((plan.report.state, plan.steps.len()), (State::Rolling, 1));
}
