//! The engine against a world that does what worlds do: Pods late, broken or gone, nodes away, cordoned or tainted,
//! Pods said to be unready for a moment, a quota that refuses new ones, watches stale, operators killed.
//!
//! Random histories; what must hold in each is asserted at every step. Must not know how the engine decides.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::k8s::node::Taint;
use crate::rollout::calendar::Blackout;
use crate::rollout::rule::broken::none;
use crate::rollout::{Calendar, Canary, Order, Who};

/// A world to run the engine in: the truth, and what a watch that lags behind shows of it.
struct World {
    truth: Fleet,
    shown: Vec<Arc<Pod>>,
    version: u32,
    clock: i64,
    next: usize,
    bad: HashSet<u32>,
    /// Nodes that lost an available agent by us and have had none since.
    ours: HashSet<Arc<str>>,
    /// Whether this operator has looked since it started.
    has_looked: bool,
    policy: Policy,
}

impl World {
    fn new(size: usize, policy: Policy) -> Self {
        let mut truth = Fleet::new(size, 1);
        for (number, node) in truth.nodes.iter_mut().enumerate() {
            let zone = ["a", "b", "c"][number % 3].to_owned();
            Arc::make_mut(node).labels.insert("topology.kubernetes.io/zone".to_owned(), zone);
        }
        Self {
            shown: truth.pods.clone(),
            truth,
            version: 1,
            clock: 0,
            next: 1000,
            bad: HashSet::new(),
            ours: HashSet::new(),
            has_looked: true,
            policy,
        }
    }

    /// What resolve does: a version that failed is not wanted again by itself.
    fn wanted(&self) -> Desired {
        let memory = &self.truth.memory;
        let rejected = memory.rejected.contains(&v(self.version));
        let good = memory.rollout.last_good.as_ref().and_then(|g| g.version).filter(|_| rejected);
        Desired {
            revision: Revision { version: Some(good.unwrap_or(v(self.version))), hash: "h".into() },
            strict: false,
            keeps_versions: false,
        }
    }

    /// Where a node with this name stands, for an agent that is to start there.
    fn is_open(&self, name: &str) -> bool {
        self.truth
            .nodes
            .iter()
            .any(|node| &*node.name == name && node.ready && node.busy.is_none() && node.taints.is_empty())
    }

    /// Nodes that are without an agent because of us, as far as the budget speaks of them: one that somebody cordoned
    /// or tainted since is theirs.
    fn missing_because_of_us(&self) -> usize {
        let theirs = |node: &Node| node.busy.is_some() || !node.taints.is_empty();
        self.truth.nodes.iter().filter(|node| self.ours.contains(&node.name) && !theirs(node)).count()
    }

    /// Who has an available agent again is not without one because of us, whatever comes later.
    fn notice(&mut self) {
        let stays = at(self.clock) - self.policy.min_ready;
        let back = |pod: &&Arc<Pod>| !pod.deleting && pod.ready_since.is_some_and(|since| since <= stays);
        for pod in self.truth.pods.iter().filter(back) {
            self.ours.remove(&pod.node);
        }
    }

    fn act(&mut self) -> Plan {
        let gone = &self.truth.deleted;
        let stays = at(self.clock) - self.policy.min_ready;
        let available = |node: &Arc<str>| {
            let is_ready = |pod: &Arc<Pod>| pod.ready_since.is_some_and(|since| since <= stays);
            self.shown.iter().any(|p| p.node == *node && is_ready(p) && !p.deleting && !gone.contains(&p.uid))
        };
        self.truth.lost.retain(|node, _| !available(node));
        self.truth.deleted.retain(|uid| self.shown.iter().any(|pod| pod.uid == *uid && !pod.deleting));
        self.notice();
        if !std::mem::replace(&mut self.has_looked, true) {
            // Whether the agent of a node that was tainted or cordoned before this first look is missing because of us
            // nobody knows any more.
            let is_closed = |node: &Node| !node.taints.is_empty() || node.busy.is_some();
            let closed = |name: &Arc<str>| self.truth.nodes.iter().any(|node| node.name == *name && is_closed(node));
            self.ours.retain(|name| !closed(name));
        }
        let wanted = self.wanted();
        let inventory = Inventory { pods: &self.shown, ..self.truth.inventory() };
        let plan = plan(&self.policy, Some(&wanted), &inventory, at(self.clock));
        match plan.template {
            Template::Advance => self.truth.template = wanted.revision.clone(),
            Template::GoBack => self.truth.template = plan.memory.rollout.last_good.clone().unwrap(),
            Template::Keep => {}
        }
        let mut took = false;
        // Going back where no agent runs waits for nothing.
        let waits = |step: &crate::rollout::Step<Revision>| step.costs || !self.policy.rolls_back;
        let is_closed = self.policy.calendar.closed(at(self.clock)).is_some();
        assert!(!(is_closed && plan.steps.iter().any(waits)), "in a blackout");
        for step in &plan.steps {
            assert!(self.is_open(&step.pod.node), "the successor of {} could not start", step.pod.name);
            let for_a_moment = |pod: &Pod| {
                pod.trouble.is_none()
                    && pod.unready_since.is_some_and(|since| at(self.clock) - since < self.policy.wait_ready)
            };
            assert!(!for_a_moment(&step.pod), "{} is not Ready for a moment, and goes for it", step.pod.name);
            // The API server refuses to delete a Pod that changed since it was judged.
            let same = |pod: &&mut Arc<Pod>| {
                pod.uid == step.pod.uid && !pod.deleting && pod.ready_since == step.pod.ready_since
            };
            let Some(pod) = self.truth.pods.iter_mut().find(same) else { continue };
            let available = pod.ready_since.is_some();
            // Nobody wants any more what has just failed.
            let failed = plan.memory.rollout.failure.as_ref().map(|failure| &failure.revision);
            let is_wanted = pod.revision.as_ref() == Some(&wanted.revision) && failed != Some(&wanted.revision);
            assert!(!(available && is_wanted), "an up-to-date, available Pod is replaced");
            if available {
                self.ours.insert(pod.node.clone());
                self.truth.lost.insert(pod.node.clone(), at(self.clock));
                took = true;
            }
            Arc::make_mut(pod).deleting = true;
            self.truth.deleted.insert(pod.uid.clone());
        }
        let missing = self.missing_because_of_us();
        assert!(!took || missing <= plan.budget, "{missing} without an agent because of us, budget {}", plan.budget);
        let report = &plan.report;
        assert_eq!(
            report.running + report.buckets.values().map(|nodes| nodes.count).sum::<usize>(),
            report.selected,
            "every selected node is in one place: {report:?}"
        );
        for (place, since) in &plan.missing {
            self.truth.lost.entry(place.clone()).or_insert(*since);
        }
        self.truth.memory = plan.memory.clone();
        plan
    }

    /// So much later everything that was to come has come, and been seen.
    fn round(&mut self, seconds: i64) -> Plan {
        self.clock += seconds;
        self.truth.pods.retain(|pod| !pod.deleting);
        self.make_pods();
        for pick in 0..self.truth.nodes.len() {
            self.start(pick);
        }
        self.shown.clone_from(&self.truth.pods);
        self.act()
    }

    fn happen(&mut self, event: u8) {
        let pick = usize::from(event / 15);
        match event % 15 {
            0 => self.clock += 1 + i64::from(event),
            1 => {
                if pick % 5 == 4 {
                    self.join();
                }
                self.make_pods();
            }
            2 | 3 => self.start(pick),
            4 => self.truth.pods.retain(|pod| !pod.deleting),
            5 | 6 => self.shown.clone_from(&self.truth.pods),
            7 => {
                self.version += 1;
                if pick.is_multiple_of(2) {
                    self.bad.insert(self.version);
                }
            }
            8 => {
                // The operator dies: what it remembers is what the status has, and its watch begins with a list.
                self.truth.deleted.clear();
                self.truth.lost.clear();
                self.truth.deciding_since = self.clock;
                // Nobody remembers whether the agent of a node that joined meanwhile is missing because of us.
                let began = self.truth.memory.rollout.touched.joined_after;
                let joined = |name: &Arc<str>| {
                    self.truth.nodes.iter().any(|n| n.name == *name && began.is_some_and(|began| n.created > began))
                };
                self.ours.retain(|name| !joined(name));
                self.has_looked = false;
                self.shown.clone_from(&self.truth.pods);
            }
            9 => self.node_comes_or_goes(pick),
            10 => {
                let node = self.node(pick);
                node.busy = if node.busy.is_some() { None } else { Some("the node is cordoned") };
            }
            11 => {
                let node = self.node(pick);
                node.taints = if node.taints.is_empty() {
                    vec![Taint { key: "x".into(), value: String::new(), effect: "NoSchedule".into() }]
                } else {
                    Vec::new()
                };
            }
            12 => self.blip(pick),
            13 => self.truth.refused = if self.truth.refused.is_some() { None } else { Some("exceeded quota".into()) },
            _ => drop(self.act()),
        }
    }

    fn node(&mut self, pick: usize) -> &mut Node {
        let index = pick % self.truth.nodes.len();
        Arc::make_mut(&mut self.truth.nodes[index])
    }

    /// A kubelet falls silent, and its Pods are said to be unready; or it is heard again, which alone makes none Ready.
    fn node_comes_or_goes(&mut self, pick: usize) {
        self.notice();
        let now = at(self.clock);
        let node = self.node(pick);
        (node.ready, node.ready_since) = (!node.ready, Some(now));
        let (name, ready) = (node.name.clone(), node.ready);
        for pod in self.truth.pods.iter_mut().filter(|pod| pod.node == name && !ready) {
            unready(Arc::make_mut(pod), now);
        }
    }

    /// An agent is said to be unready though nothing is wrong with it.
    fn blip(&mut self, pick: usize) {
        self.notice();
        let now = at(self.clock);
        let index = pick % self.truth.pods.len().max(1);
        if let Some(pod) = self.truth.pods.get_mut(index) {
            unready(Arc::make_mut(pod), now);
        }
    }

    /// Whatever was wrong with the cluster is mended.
    fn mend(&mut self) {
        self.truth.refused = None;
        for node in &mut self.truth.nodes {
            let node = Arc::make_mut(node);
            (node.ready, node.busy, node.taints) = (true, None, Vec::new());
        }
    }

    fn join(&mut self) {
        let mut node = Node::named(&format!("joined-{:03}", self.truth.nodes.len()));
        node.created = at(self.clock);
        self.truth.nodes.push(Arc::new(node));
    }

    fn make_pods(&mut self) {
        if self.truth.refused.is_some() {
            return;
        }
        for node in self.truth.nodes.clone() {
            if node.taints.is_empty() && !self.truth.pods.iter().any(|pod| pod.node == node.name) {
                self.next += 1;
                let mut made = Arc::unwrap_or_clone(pod(self.next, &node.name, 1, self.clock, false));
                made.revision = Some(self.truth.template.clone());
                self.truth.pods.push(Arc::new(made));
            }
        }
    }

    fn start(&mut self, pick: usize) {
        let alive = |pod: &Pod| self.truth.nodes.iter().any(|node| node.name == pod.node && node.ready);
        let starts = |pod: &Pod| pod.ready_since.is_none() && !pod.deleting && alive(pod);
        let starting: Vec<usize> = (0..self.truth.pods.len()).filter(|i| starts(&self.truth.pods[*i])).collect();
        let Some(index) = starting.get(pick % starting.len().max(1)) else { return };
        let clock = self.clock;
        let version = self.truth.pods[*index].revision.as_ref().and_then(|r| r.version).map_or(0, |v| v.minor);
        let pod = Arc::make_mut(&mut self.truth.pods[*index]);
        if self.bad.contains(&version) {
            pod.trouble = Some(Trouble::Crash("bad version".into()));
        } else {
            (pod.ready_since, pod.unready_since) = (Some(at(clock)), None);
        }
    }
}

fn unready(pod: &mut Pod, now: DateTime<Utc>) {
    if let Some(since) = pod.ready_since.take() {
        (pod.was_ready, pod.unready_since) = (Some(now - since), Some(now));
    }
}

/// A count or a percentage.
fn shares() -> impl Strategy<Value = Share> {
    prop_oneof![(1u32..5).prop_map(Share::Count), (1u32..60).prop_map(Share::Percent)]
}

/// Who goes first, or nobody.
fn canaries() -> impl Strategy<Value = Option<Canary>> {
    let canary = |(share, soak)| Canary { who: Who::Some(share), soak: TimeDelta::seconds(soak) };
    proptest::option::of((shares(), 0i64..120).prop_map(canary))
}

fn policies() -> impl Strategy<Value = Policy> {
    let order = prop_oneof![Just(Order::Spread), Just(Order::ByZone)];
    let parts = (shares(), 0i64..40, canaries(), proptest::option::of(shares()), order, any::<bool>());
    parts.prop_map(|(budget, min_ready, canary, per_zone, order, rolls_back)| Policy {
        min_ready: TimeDelta::seconds(min_ready),
        canary,
        per_zone,
        order,
        rolls_back,
        ..policy(budget)
    })
}

/// Some time or other in which nothing may go.
fn calendars() -> impl Strategy<Value = Calendar> {
    let blackout = |(from, length)| Blackout { from: at(from), to: at(from + length), reason: None };
    let all = proptest::collection::vec((0i64..4_000, 1i64..2_000).prop_map(blackout), 0..3);
    all.prop_map(|blackouts| Calendar { windows: Vec::new(), blackouts })
}

pub(super) const WHATEVER_HAPPENS: fn() = whatever_happens_the_budget_holds_and_no_good_agent_is_touched;
pub(super) const A_BAD_VERSION: fn() = a_bad_version_reaches_no_more_nodes_than_budget_and_canaries;

/// More cases with PROPTEST_CASES=20000.
fn config() -> ProptestConfig {
    let (known, max_shrink_iters) = (ProptestConfig::default(), if none() { 3000 } else { 0 });
    ProptestConfig { cases: known.cases.max(400), max_shrink_iters, failure_persistence: None, ..known }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_budget_holds_and_no_good_agent_is_touched(size in 1usize..12, policy in policies(),
        calendar in calendars(), events in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut world = World::new(size, Policy { calendar, ..policy });
        for event in events {
            world.happen(event);
        }
    }

    #[test]
    fn in_a_fair_world_every_rollout_to_a_good_version_finishes(size in 1usize..30, policy in policies(),
        events in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut world = World::new(size, policy);
        for event in events {
            world.happen(event);
        }
        world.version += 1;
        world.bad.remove(&world.version);
        world.mend();
        let size = world.truth.nodes.len();
        for _ in 0..(20 * size + 50) {
            let plan = world.round(20);
            if plan.report.updated == world.truth.nodes.len() && plan.report.state == State::Complete {
                return Ok(());
            }
        }
        prop_assert!(false, "not finished: {:?}", world.act().report);
    }

    #[test]
    fn a_bad_version_reaches_no_more_nodes_than_budget_and_canaries(size in 2usize..40, budget in 1usize..6,
        canary in canaries()) {
        let mut world = World::new(size, Policy { canary, ..policy(Share::Count(budget as u32)) });
        world.version = 2;
        world.bad.insert(2);
        let mut after = 0;
        for _ in 0..(5 * size + 20) {
            world.round(1);
            // Once it is rejected it stays so.
            after += usize::from(!world.truth.memory.rejected.is_empty());
            if after > 20 {
                break;
            }
        }
        let is_new = |revision: &Revision| revision.version == Some(v(2));
        let reached = world.truth.pods.iter().filter(|pod| pod.revision.as_ref().is_some_and(is_new)).count();
        let canaries = canary.map_or(size, |canary| match canary.who {
            Who::Some(share) => share.of(size),
            Who::Marked => size,
        });
        prop_assert!(reached <= budget.min(size).min(canaries), "{reached} of {size} nodes, budget {budget}");
        prop_assert_eq!(world.truth.template.version, Some(v(1)));
        prop_assert_eq!(&world.truth.memory.rejected, &[v(2)]);
    }
}
