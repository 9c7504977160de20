//! A small fleet, and what may happen to it next, with the real ledger and the real guard.
//!
//! Here for those who search all its histories. Must not know how the engine decides.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::rollout::ledger::Ledger;

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The agent of a node becomes Ready.
    Starts(usize),
    /// The DaemonSet controller makes the Pod that a node lacks.
    Made(usize),
    /// Its node becomes unreachable, or comes back.
    NodeTurns(usize),
    /// A user cordons it, or lifts that.
    Cordon(usize),
    /// Another client deletes its Pod, and another is made.
    Evicted(usize),
    /// The operator dies, and another begins.
    Restart,
    /// Half of a deadline passes.
    TimePasses,
    /// A node joins, with a Pod from the template that is there.
    Joins,
    /// A newer version comes.
    Published,
    /// Who writes the template puts the previous one back.
    Reverted,
}

/// The depth of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) nodes: usize,
    /// The newest version that is published; agents begin with 1, and 2 is wanted at once.
    pub(super) newest: u32,
    /// How many nodes join.
    pub(super) joining: usize,
    pub(super) disturbances: usize,
    /// How many half deadlines pass.
    pub(super) waits: usize,
    /// Whether Pods are made at once, or some time or other.
    pub(super) late: bool,
    /// Whether it is the API server that refuses those which are not created yet.
    pub(super) refused: bool,
    /// Whether the template is another owner's, who has written the wanted version into it.
    pub(super) foreign: bool,
}

/// A fleet of a few nodes.
#[derive(Clone)]
pub(super) struct Small {
    fleet: Fleet,
    ledger: Ledger,
    policy: Policy,
    clock: i64,
    /// Which version is wanted.
    wanted: u32,
    /// What may happen yet.
    pub(super) left: Bounds,
    made: usize,
    /// Nodes that lost an available agent by us and have had none since.
    ours: HashSet<Arc<str>>,
}

impl Small {
    pub(super) fn new(policy: Policy, left: Bounds) -> Self {
        let mut fleet = Fleet::new(left.nodes, 1);
        for number in 0..left.nodes {
            let node = fleet.node(number);
            node.ready_since = Some(at(-1_000));
        }
        fleet.deciding_since = -1_000;
        fleet.is_foreign = left.foreign;
        if left.foreign {
            fleet.template = revision(2);
        }
        let (ledger, ours) = (Ledger::default(), HashSet::new());
        let mut small = Self { fleet, ledger, policy, clock: 0, wanted: 2, left, made: 100, ours };
        small.evaluate();
        small
    }

    /// Looks until nothing is to be done at once.
    fn evaluate(&mut self) {
        for _ in 0..4 {
            let lacks = self.fleet.pods.len() < self.fleet.nodes.len();
            self.fleet.refused = (self.left.refused && lacks).then(|| "it is forbidden".to_owned());
            let wanted = desired(self.wanted);
            let places = self.fleet.places(&wanted);
            let inventory = self.fleet.inventory(&places);
            let rollout::Decision { plan, guard, ledger } =
                rollout::decide(&self.policy, Some(&wanted), &inventory, &self.ledger, at(self.clock));
            let plan = Plan::of(plan, &self.fleet.memory);
            self.ledger = ledger;
            let before = self.fleet.template.clone();
            assert!(!self.left.foreign || plan.template == Template::Keep, "another owner's template is written");
            match plan.template {
                Template::Advance => self.fleet.template = revision(self.wanted),
                Template::GoBack => self.fleet.template = plan.memory.rollout.last_good.clone().unwrap(),
                Template::Keep => {}
            }
            self.fleet.memory = plan.memory;
            let mut acted = before != self.fleet.template;
            for step in &plan.steps {
                let place = self.pod(&step.pod.node).expect("a Pod that is there");
                let pod = &self.fleet.pods[place];
                let is_good = pod.ready_since.is_some() && pod.revision.as_ref() == Some(&revision(self.wanted));
                assert!(!is_good, "an up-to-date, available Pod is replaced");
                let is_current = pod.revision.as_ref() == Some(&self.fleet.template);
                assert!(!self.left.foreign || !is_current, "its owner would get the same Pod again");
                let noted = self.ledger.begin(&guard, &step.place, &step.pod.id, at(self.clock));
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

    /// The state of its Pod, if it has one.
    fn pod(&self, node: &str) -> Option<usize> {
        self.fleet.pods.iter().position(|pod| &*pod.node == node)
    }

    /// A Pod is gone; the DaemonSet controller makes another.
    fn replace(&mut self, place: usize) {
        let node = self.fleet.pods.remove(place).node.clone();
        self.fleet.missing.insert(node.clone(), at(self.clock));
        if !self.left.late {
            self.make(&node);
        }
    }

    /// The DaemonSet controller makes a Pod from its template.
    fn make(&mut self, node: &Arc<str>) {
        self.made += 1;
        let mut made = Arc::unwrap_or_clone(pod(self.made, node, 1, self.clock, false));
        made.revision = Some(self.fleet.template.clone());
        self.fleet.pods.push(Arc::new(made));
        self.fleet.pods.sort_by(|a, b| a.node.cmp(&b.node));
        self.fleet.missing.remove(node);
    }

    pub(super) fn may(&self, event: Event) -> bool {
        let count = self.fleet.nodes.len();
        let state = |node: usize| {
            let node = &self.fleet.nodes[node];
            let runs = self.pod(&node.name).map(|place| self.fleet.pods[place].ready_since.is_some());
            (node.ready, node.busy.is_some(), runs)
        };
        match event {
            Event::Starts(node)
            | Event::Made(node)
            | Event::Evicted(node)
            | Event::NodeTurns(node)
            | Event::Cordon(node)
                if node >= count =>
            {
                false
            }
            Event::Joins => self.left.joining > 0,
            Event::Published => self.wanted < self.left.newest,
            Event::Reverted => self.left.foreign && self.wanted > 1,
            Event::Starts(node) => matches!(state(node), (true, _, Some(false))),
            Event::Made(node) => matches!(state(node), (_, _, None)),
            Event::Evicted(node) => matches!(state(node), (true, false, Some(true))),
            Event::NodeTurns(_) | Event::Cordon(_) | Event::Restart | Event::TimePasses => true,
        }
    }

    /// What may happen yet after an event, if that may happen; what heals is free.
    pub(super) fn after(&self, event: Event) -> Option<Bounds> {
        let mut left = self.left;
        let counted = match event {
            Event::NodeTurns(node) if !self.fleet.nodes[node].ready => return Some(left),
            Event::Cordon(node) if self.fleet.nodes[node].busy.is_some() => return Some(left),
            Event::Starts(_) | Event::Made(_) | Event::Joins | Event::Published => return Some(left),
            Event::NodeTurns(_) | Event::Cordon(_) | Event::Evicted(_) | Event::Restart | Event::Reverted => {
                &mut left.disturbances
            }
            Event::TimePasses => &mut left.waits,
        };
        *counted = counted.checked_sub(1)?;
        Some(left)
    }

    pub(super) fn happen(&mut self, event: Event) {
        self.clock += 1;
        let now = at(self.clock);
        match event {
            Event::Starts(node) => {
                let place = self.pod(&self.fleet.nodes[node].name).expect("it may start");
                self.fleet.change(place, |pod| (pod.ready_since, pod.unready_since) = (Some(now), None));
            }
            Event::Made(node) => {
                let name = self.fleet.nodes[node].name.clone();
                self.make(&name);
            }
            Event::NodeTurns(node) => {
                let turned = self.fleet.node(node);
                (turned.ready, turned.ready_since) = (!turned.ready, Some(now));
                let (name, ready) = (turned.name.clone(), turned.ready);
                if let Some(place) = self.pod(&name).filter(|_| !ready) {
                    self.fleet.change(place, |pod| {
                        if let Some(since) = pod.ready_since.take() {
                            (pod.was_ready, pod.unready_since) = (Some(now - since), Some(now));
                        }
                    });
                }
            }
            Event::Cordon(node) => {
                let node = self.fleet.node(node);
                node.busy = if node.busy.is_some() { None } else { Some("the node is cordoned") };
            }
            Event::Evicted(node) => {
                let place = self.pod(&self.fleet.nodes[node].name).expect("it may be evicted");
                self.replace(place);
            }
            Event::Restart => {
                self.ledger = Ledger::default();
                self.fleet.deciding_since = self.clock;
                self.fleet.missing.values_mut().for_each(|since| *since = now);
            }
            Event::Joins => {
                self.left.joining -= 1;
                let mut node = Node::named(&format!("node-{:03}", self.fleet.nodes.len()));
                (node.created, node.ready_since) = (now, Some(now));
                self.fleet.missing.insert(node.name.clone(), now);
                let name = node.name.clone();
                self.fleet.nodes.push(Arc::new(node));
                if !self.left.late {
                    self.make(&name);
                }
            }
            Event::Published => self.wanted += 1,
            Event::Reverted => self.wanted -= 1,
            Event::TimePasses => self.clock += self.policy.wait_ready.num_seconds() / 2,
        }
        if self.left.foreign {
            self.fleet.template = revision(self.wanted);
        }
        for pod in self.fleet.pods.iter().filter(|pod| pod.ready_since.is_some()) {
            self.ours.remove(&pod.node);
        }
        self.evaluate();
    }

    /// The whole state, with times by their order and age, and Pods by their order.
    pub(super) fn key(&self) -> String {
        let mut ours: Vec<&Arc<str>> = self.ours.iter().collect();
        ours.sort_unstable();
        let memory = serde_json::to_string(&self.fleet.memory.rollout).unwrap();
        let mut lost: Vec<String> = self.ledger.lost().iter().map(|lost| format!("{lost:?}")).collect();
        lost.extend(self.ledger.freed().iter().map(|freed| format!("{freed:?}")));
        lost.extend(self.fleet.missing.iter().map(|missing| format!("without {missing:?}")));
        lost.sort_unstable();
        let since = at(self.fleet.deciding_since);
        let (left, wanted, template) = (self.left, self.wanted, &self.fleet.template);
        let pods = &self.fleet.pods;
        let all =
            format!("{left:?}{wanted}{:?}{pods:?}{template:?}{memory}{lost:?}{ours:?}{since:?}", self.fleet.nodes);
        let half = self.policy.wait_ready / 2;
        ranked(&all, |time| (at(self.clock) - time).num_seconds().div_euclid(half.num_seconds()).clamp(-OLD, OLD))
    }

    /// From here on everybody is well: whatever is left is done. A version that failed stays so where the Pods that
    /// failed were replaced by others: they cannot show any more that it was not its fault.
    pub(super) fn finishes(&self) {
        self.finishes_without(None);
        // One that is refused for good holds no other, where more than one may go.
        if self.left.refused && self.policy.budget.of(self.fleet.nodes.len()) > 1 {
            self.finishes_without(Some(0));
        }
    }

    fn finishes_without(&self, refused: Option<usize>) {
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
            for event in (0..nodes).flat_map(|node| [Event::Made(node), Event::Starts(node)]) {
                if fair.may(event) && refused.map(Event::Made) != Some(event) {
                    fair.happen(event);
                }
            }
            let wanted = revision(fair.wanted);
            let is_done = |pod: &Arc<Pod>| pod.revision.as_ref() == Some(&wanted) && pod.ready_since.is_some();
            let left_out = refused.map(|node| fair.fleet.nodes[node].name.clone());
            let counted = || fair.fleet.pods.iter().filter(|pod| left_out.as_ref() != Some(&pod.node));
            if counted().count() + refused.iter().len() == nodes && counted().all(is_done) {
                return;
            }
            fair.happen(Event::TimePasses);
        }
        let report = fair.fleet.plan(&fair.policy, &desired(fair.wanted), fair.clock).report;
        let failure = fair.fleet.memory.rollout.failure.clone();
        let has_it = |pod: &Pod| pod.revision.as_ref() == Some(&revision(fair.wanted));
        let lacks_it = |node: &String| fair.pod(node).is_none_or(|place| !has_it(&fair.fleet.pods[place]));
        let is_over = failure.is_some_and(|failure| failure.places.iter().any(lacks_it));
        assert!(is_over, "it does not finish: {report:?}");
    }
}

/// Beyond so many half deadlines all times are alike: crashes count for two deadlines, a soak here lasts less than one.
const OLD: i64 = 5;

/// A text in which times, and names of Pods that were made, are replaced by their order; times by their age, too.
fn ranked(text: &str, age: impl Fn(DateTime<Utc>) -> i64) -> String {
    let found = names(text);
    let mut names: Vec<&str> = found.iter().map(|(start, end)| &text[*start..*end]).collect();
    names.sort_unstable_by_key(|token| (token.len(), *token));
    names.dedup();
    let ranks: HashMap<&str, String> = (names.iter().enumerate())
        .map(|(rank, token)| match token.parse::<DateTime<Utc>>() {
            Ok(time) => (*token, format!("{rank}@{}", age(time))),
            Err(_) => (*token, rank.to_string()),
        })
        .collect();
    let (mut ranked, mut copied) = (String::with_capacity(text.len()), 0);
    for (start, end) in found {
        ranked.extend([&text[copied..start], &ranks[&text[start..end]]]);
        copied = end;
    }
    ranked.push_str(&text[copied..]);
    ranked
}

/// Where a text has a time or a Pod's name. Byte by byte: a search spends much of its time here, and tests are built
/// without optimization, in which iterators over characters cost twenty times as much.
fn names(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let is_name = |token: &[u8]| match token[0] {
        b'1' => token.starts_with(b"19") && token.ends_with(b"Z"),
        b'p' => token.starts_with(b"pod-"),
        b'u' => token.starts_with(b"uid-"),
        _ => false,
    };
    let (mut found, mut start, mut end) = (Vec::new(), 0, 0);
    while end <= bytes.len() {
        if end == bytes.len() || !IN_A_NAME[bytes[end] as usize] {
            if start < end && is_name(&bytes[start..end]) {
                found.push((start, end));
            }
            start = end + 1;
        }
        end += 1;
    }
    found
}

/// Which bytes a name or a time is made of.
static IN_A_NAME: [bool; 256] = {
    let (mut all, mut byte) = ([false; 256], 0);
    while byte < 256 {
        all[byte] = matches!(byte as u8, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b':' | b'_');
        byte += 1;
    }
    all
};
