//! Every history of a small fleet, not a random one: all interleavings of agents that start, nodes that go away, come
//! back and are cordoned, evictions by others, and operators that die, with the real ledger and the real guard.
//!
//! Two histories are one where everything stands alike and happened in the same order. Must not know how the engine
//! decides.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::*;
use crate::oneagent::places::rollout;
use crate::rollout::ledger::Ledger;
use crate::rollout::{Canary, Who};

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The agent of a node becomes Ready.
    Starts(usize),
    /// Its node goes away, or comes back.
    NodeTurns(usize),
    /// Somebody cordons it, or lifts that.
    Cordon(usize),
    /// Somebody else deletes its Pod, and another is made.
    Evicted(usize),
    /// The operator dies, and another begins.
    Restart,
    /// Half of a deadline passes.
    TimePasses,
    /// A node joins, with a Pod from the template that is there.
    Joins,
    /// A newer version comes.
    Published,
}

/// A fleet of a few nodes.
#[derive(Clone)]
struct Small {
    fleet: Fleet,
    ledger: Ledger,
    policy: Policy,
    clock: i64,
    /// Which version is wanted, and up to which one there will be some.
    wanted: u32,
    newest: u32,
    /// How many nodes may join.
    joining: usize,
    made: usize,
    /// Nodes that lost an available agent by us and have had none since.
    ours: HashSet<Arc<str>>,
}

impl Small {
    /// Agents of version 1, and 2 is wanted; versions up to `newest` follow, and so many nodes join.
    fn new(nodes: usize, policy: Policy, (newest, joining): (u32, usize)) -> Self {
        let mut fleet = Fleet::new(nodes, 1);
        for number in 0..nodes {
            let node = Arc::make_mut(&mut fleet.nodes[number]);
            node.ready_since = Some(at(-1_000));
        }
        fleet.deciding_since = -1_000;
        let (ledger, ours) = (Ledger::default(), HashSet::new());
        let mut small = Self { fleet, ledger, policy, clock: 0, wanted: 2, newest, joining, made: 100, ours };
        small.look();
        small
    }

    /// Looks until nothing is to be done at once.
    fn look(&mut self) {
        for _ in 0..4 {
            let inventory = self.fleet.inventory();
            let (decision, guard, ledger) =
                rollout(&self.policy, Some(&desired(self.wanted)), &inventory, &self.ledger, at(self.clock));
            let plan = decision.plan;
            self.ledger = ledger;
            let before = self.fleet.template.clone();
            match plan.template {
                Template::Advance => self.fleet.template = revision(self.wanted),
                Template::GoBack => self.fleet.template = decision.memory.rollout.last_good.clone().unwrap(),
                Template::Keep => {}
            }
            self.fleet.memory = decision.memory;
            let mut acted = before != self.fleet.template;
            for step in &plan.steps {
                let (_, place) = self.pod(&step.pod.node);
                let pod = &self.fleet.pods[place];
                let is_good = pod.ready_since.is_some() && pod.revision.as_ref() == Some(&revision(self.wanted));
                assert!(!is_good, "an up-to-date, available Pod is replaced");
                let noted = self.ledger.begin(&guard, &step.place, &step.pod.uid, at(self.clock));
                assert!(noted.is_some(), "the guard forbids what the engine wants: {step:?}\n{:?}", plan.report);
                if self.fleet.pods[place].ready_since.is_some() {
                    self.ours.insert(step.pod.node.clone());
                }
                self.replace(place);
                acted = true;
            }
            let theirs = |node: &Node| node.busy.is_some();
            let missing =
                self.fleet.nodes.iter().filter(|node| self.ours.contains(&node.name) && !theirs(node)).count();
            let took = plan.steps.iter().any(|step| step.costs);
            assert!(
                !took || missing <= plan.budget,
                "{missing} without an agent because of us, budget {}",
                plan.budget
            );
            if !acted {
                return;
            }
        }
    }

    fn pod(&self, node: &str) -> (Arc<Pod>, usize) {
        let place = self.fleet.pods.iter().position(|pod| &*pod.node == node).unwrap();
        (self.fleet.pods[place].clone(), place)
    }

    /// The DaemonSet controller makes a Pod from its template at once.
    fn replace(&mut self, place: usize) {
        self.made += 1;
        let node = self.fleet.pods[place].node.clone();
        let mut made = Arc::unwrap_or_clone(pod(self.made, &node, 1, self.clock, false));
        made.revision = Some(self.fleet.template.clone());
        self.fleet.pods[place] = Arc::new(made);
    }

    fn may(&self, event: Event) -> bool {
        let count = self.fleet.nodes.len();
        let state = |node: usize| {
            let node = &self.fleet.nodes[node];
            (node.ready, node.busy.is_some(), self.pod(&node.name).0.ready_since.is_some())
        };
        match event {
            Event::Starts(node) | Event::Evicted(node) | Event::NodeTurns(node) | Event::Cordon(node)
                if node >= count =>
            {
                false
            }
            Event::Joins => self.joining > 0,
            Event::Published => self.wanted < self.newest,
            Event::Starts(node) => matches!(state(node), (true, _, false)),
            Event::Evicted(node) => matches!(state(node), (true, false, true)),
            Event::NodeTurns(_) | Event::Cordon(_) | Event::Restart | Event::TimePasses => true,
        }
    }

    fn happen(&mut self, event: Event) {
        self.clock += 1;
        let now = at(self.clock);
        match event {
            Event::Starts(node) => {
                let (_, place) = self.pod(&self.fleet.nodes[node].name);
                self.fleet.change(place, |pod| (pod.ready_since, pod.unready_since) = (Some(now), None));
            }
            Event::NodeTurns(node) => {
                let turned = Arc::make_mut(&mut self.fleet.nodes[node]);
                (turned.ready, turned.ready_since) = (!turned.ready, Some(now));
                let (name, ready) = (turned.name.clone(), turned.ready);
                let (_, place) = self.pod(&name);
                if !ready {
                    self.fleet.change(place, |pod| {
                        if let Some(since) = pod.ready_since.take() {
                            (pod.was_ready, pod.unready_since) = (Some(now - since), Some(now));
                        }
                    });
                }
            }
            Event::Cordon(node) => {
                let node = Arc::make_mut(&mut self.fleet.nodes[node]);
                node.busy = if node.busy.is_some() { None } else { Some("the node is cordoned") };
            }
            Event::Evicted(node) => {
                let (_, place) = self.pod(&self.fleet.nodes[node].name);
                self.replace(place);
            }
            Event::Restart => {
                self.ledger = Ledger::default();
                self.fleet.deciding_since = self.clock;
            }
            Event::Joins => {
                self.joining -= 1;
                let mut node = Node::named(&format!("node-{:03}", self.fleet.nodes.len()));
                (node.created, node.ready_since) = (now, Some(now));
                self.fleet.pods.push(pod(self.made, &node.name, 1, self.clock, false));
                self.fleet.nodes.push(Arc::new(node));
                self.replace(self.fleet.pods.len() - 1);
            }
            Event::Published => self.wanted += 1,
            Event::TimePasses => self.clock += self.policy.wait_ready.num_seconds() / 2,
        }
        for pod in self.fleet.pods.iter().filter(|pod| pod.ready_since.is_some()) {
            self.ours.remove(&pod.node);
        }
        self.look();
    }

    /// How everything stands, with times and Pods by their order alone.
    fn key(&self) -> String {
        let mut ours: Vec<&Arc<str>> = self.ours.iter().collect();
        ours.sort_unstable();
        let memory = serde_json::to_string(&self.fleet.memory.rollout).unwrap();
        let pods: Vec<String> = self.fleet.pods.iter().map(|pod| format!("{pod:?}")).collect();
        let nodes: Vec<String> = self.fleet.nodes.iter().map(|node| format!("{node:?}")).collect();
        let mut lost: Vec<String> = self.ledger.lost().iter().map(|lost| format!("{lost:?}")).collect();
        lost.sort_unstable();
        let since = at(self.fleet.deciding_since);
        let wanted = self.wanted;
        ranked(&format!("{wanted}{nodes:?}{pods:?}{:?}{memory}{lost:?}{ours:?}{since:?}", self.fleet.template))
    }

    /// From here on everybody is well: whatever is left is done.
    fn finishes(&self) {
        let mut fair = self.clone();
        let nodes = fair.fleet.nodes.len();
        for node in 0..nodes {
            if fair.fleet.nodes[node].busy.is_some() {
                fair.happen(Event::Cordon(node));
            }
            if !fair.fleet.nodes[node].ready {
                fair.happen(Event::NodeTurns(node));
            }
        }
        for _ in 0..(8 * nodes + 8) {
            for node in 0..nodes {
                if fair.may(Event::Starts(node)) {
                    fair.happen(Event::Starts(node));
                }
            }
            let wanted = revision(fair.wanted);
            let is_done = |pod: &Arc<Pod>| pod.revision.as_ref() == Some(&wanted) && pod.ready_since.is_some();
            if fair.fleet.pods.iter().all(is_done) {
                return;
            }
            fair.happen(Event::TimePasses);
        }
        panic!("it does not finish: {:?}", fair.fleet.plan(&fair.policy, &desired(fair.wanted), fair.clock).report);
    }
}

/// A text in which times, and names of Pods that were made, are replaced by their order.
fn ranked(text: &str) -> String {
    let is_token = |character: char| character.is_ascii_alphanumeric() || "-:_".contains(character);
    let mut tokens: Vec<&str> = text.split(|c: char| !is_token(c)).filter(|token| is_a_name(token)).collect();
    tokens.sort_unstable_by_key(|token| (token.len(), *token));
    tokens.dedup();
    let ranks: BTreeMap<&str, usize> = tokens.iter().enumerate().map(|(rank, token)| (*token, rank)).collect();
    let mut ranked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        match ranks.get(token) {
            Some(rank) => ranked.push_str(&rank.to_string()),
            None => ranked.push_str(token),
        }
        let next = after.chars().next().map_or(0, char::len_utf8);
        ranked.push_str(&after[..next]);
        rest = &after[next..];
    }
    ranked
}

fn is_a_name(token: &str) -> bool {
    token.starts_with("19") && token.ends_with('Z') || token.starts_with("pod-") || token.starts_with("uid-")
}

/// Searches all histories until nothing new is found, or `most` states were; returns how many there are.
fn search(nodes: usize, policy: &Policy, most: usize) -> usize {
    search_with(nodes, policy, (2, 0), most)
}

/// The same, with versions that follow and nodes that join.
fn search_with(nodes: usize, policy: &Policy, (newest, joining): (u32, usize), most: usize) -> usize {
    let mut events = vec![Event::Restart, Event::TimePasses, Event::Joins, Event::Published];
    for node in 0..nodes + joining {
        events.extend([Event::Starts(node), Event::NodeTurns(node), Event::Cordon(node), Event::Evicted(node)]);
    }
    let first = Small::new(nodes, policy.clone(), (newest, joining));
    let mut known: HashSet<String> = HashSet::from([first.key()]);
    let mut open: VecDeque<(Small, Vec<Event>)> = VecDeque::from([(first, Vec::new())]);
    while let Some((state, history)) = open.pop_front() {
        for event in events.iter().copied().filter(|event| state.may(*event)) {
            let mut next = state.clone();
            let history = [history.clone(), vec![event]].concat();
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                next.happen(event);
                next.finishes();
            }));
            assert!(told.is_ok(), "after {history:?}");
            if known.len() < most && known.insert(next.key()) {
                open.push_back((next, history));
            }
        }
    }
    known.len()
}

/// More with STATES=200000.
fn most() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let states = std::env::var("STATES").ok();
    states.and_then(|states| states.parse().ok()).unwrap_or(200)
}

#[test]
fn in_every_history_of_two_nodes_the_budget_holds_and_the_rollout_finishes() {
    assert!(search(2, &policy(Share::Count(1)), most()) > 100);
}

#[test]
fn in_every_history_of_three_nodes_the_budget_holds_and_the_rollout_finishes() {
    assert!(search(3, &policy(Share::Count(1)), most()) > 100);
    assert!(search(3, &policy(Share::Count(2)), most()) > 100);
}

#[test]
fn in_every_history_with_a_canary_the_budget_holds_and_the_rollout_finishes() {
    let canary = Canary { who: Who::Some(Share::Count(1)), soak: TimeDelta::seconds(100) };
    let policy = Policy { canary: Some(canary), max_failures: Some(3), ..policy(Share::Count(1)) };
    assert!(search(3, &policy, most()) > 100);
}

#[test]
fn with_nodes_that_join_and_versions_that_follow_the_budget_holds_and_the_rollout_finishes() {
    assert!(search_with(2, &policy(Share::Count(1)), (3, 1), most()) > 100);
    assert!(search_with(4, &policy(Share::Count(2)), (3, 1), most()) > 100);
    let canary = Canary { who: Who::Some(Share::Count(1)), soak: TimeDelta::seconds(100) };
    let policy = Policy { canary: Some(canary), max_failures: Some(3), ..policy(Share::Count(1)) };
    assert!(search_with(2, &policy, (3, 1), most()) > 100);
}
