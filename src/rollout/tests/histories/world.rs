//! The engine against a world that does what worlds do: Pods late, broken or gone, nodes away, cordoned or tainted,
//! Pods said to be unready for a moment, a quota that refuses new ones, watches stale, operators killed.
//!
//! What must hold at every step is asserted here. Must not know how the engine decides.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;

/// A world to run the engine in: the truth, and what a watch that lags behind shows of it.
pub(super) struct World {
    pub(super) truth: Fleet,
    shown: Vec<Arc<Pod>>,
    pub(super) version: u32,
    pub(super) clock: i64,
    next: usize,
    pub(super) bad: HashSet<u32>,
    /// Nodes that lost an available agent by us and have had none since.
    ours: HashSet<Arc<str>>,
    /// Whether this operator has looked since it started.
    has_looked: bool,
    pub(super) policy: Policy,
    /// The only node whose Pods are refused; `None`: where any are, all are.
    refused_on: Option<Arc<str>>,
}

impl World {
    pub(super) fn new(size: usize, policy: Policy) -> Self {
        let mut truth = Fleet::new(size, 1);
        for (number, node) in truth.nodes.iter_mut().enumerate() {
            let zone = ["a", "b", "c"][number % 3].to_owned();
            Arc::make_mut(node).zone = Some(zone);
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
            refused_on: None,
        }
    }

    /// One to which all that has happened.
    pub(super) fn after(size: usize, policy: Policy, events: Vec<u8>) -> Self {
        let mut world = Self::new(size, policy);
        for event in events {
            world.happen(event);
        }
        world
    }

    /// All is fixed, and a good version comes.
    pub(super) fn fix_and_publish(&mut self) {
        self.version += 1;
        self.bad.remove(&self.version);
        self.fix();
    }

    /// What resolve does: a version that failed is not desired again automatically.
    fn wanted(&self) -> Desired {
        let memory = &self.truth.memory;
        let rejected = memory.rejected.contains(&self.version);
        let good = memory.rollout.last_good.as_ref().map(|good| good.version).filter(|_| rejected);
        desired(good.unwrap_or(self.version))
    }

    /// The zone of a node with this name, for an agent that is to start there.
    fn is_open(&self, name: &str) -> bool {
        self.truth
            .nodes
            .iter()
            .any(|node| &*node.name == name && node.ready && node.busy.is_none() && node.taint.is_none())
    }

    /// Nodes that are without an agent because of us, as far as the budget counts them: one that was cordoned or
    /// tainted since is not ours.
    fn missing_because_of_us(&self) -> usize {
        let theirs = |node: &Node| node.busy.is_some() || node.taint.is_some();
        self.truth.nodes.iter().filter(|node| self.ours.contains(&node.name) && !theirs(node)).count()
    }

    /// A node that has an available agent again is not without one because of us, whatever comes later.
    fn notice(&mut self) {
        let stays = at(self.clock) - self.policy.min_ready;
        let back = |pod: &&Arc<Pod>| !pod.deleting && pod.ready_since.is_some_and(|since| since <= stays);
        for pod in self.truth.pods.iter().filter(back) {
            self.ours.remove(&pod.node);
        }
    }

    pub(super) fn act(&mut self) -> Plan {
        let gone = &self.truth.deleted;
        let stays = at(self.clock) - self.policy.min_ready;
        let available = |node: &Arc<str>| {
            let is_ready = |pod: &Arc<Pod>| pod.ready_since.is_some_and(|since| since <= stays);
            self.shown.iter().any(|p| p.node == *node && is_ready(p) && !p.deleting && !gone.contains(&p.id))
        };
        self.truth.lost.retain(|node, _| !available(node));
        // That an agent which was seen for long enough has failed since, unseen, cannot be known.
        self.ours.retain(|node| !available(node));
        self.truth.deleted.retain(|uid| self.shown.iter().any(|pod| pod.id == *uid && !pod.deleting));
        self.notice();
        if !std::mem::replace(&mut self.has_looked, true) {
            // Whether the agent of a node that was tainted or cordoned before this first look is missing because of us
            // is not known any more.
            let is_closed = |node: &Node| node.taint.is_some() || node.busy.is_some();
            let closed = |name: &Arc<str>| self.truth.nodes.iter().any(|node| node.name == *name && is_closed(node));
            self.ours.retain(|name| !closed(name));
        }
        let wanted = self.wanted();
        // No one is asked where every node has its Pod.
        let is_short = self.truth.nodes.iter().any(|node| !self.shown.iter().any(|pod| pod.node == node.name));
        let refused = self.truth.refused.as_deref().filter(|_| is_short);
        let places = self.truth.places_of(&self.shown, &wanted, refused.is_some());
        let inventory = Inventory { refused, ..self.truth.inventory(&places) };
        let plan = plan(&self.policy, Some(&wanted), &inventory, at(self.clock));
        let plan = Plan::of(plan, &self.truth.memory);
        match plan.template {
            Template::Advance => self.truth.template = wanted.revision.clone(),
            Template::GoBack => self.truth.template = plan.memory.rollout.last_good.clone().unwrap(),
            Template::Keep => {}
        }
        let mut took = false;
        // Going back where no agent runs waits for nothing.
        let waits = |step: &crate::rollout::Step<Release>| step.costs || !self.policy.rolls_back;
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
            let same =
                |pod: &&mut Arc<Pod>| pod.id == step.pod.id && !pod.deleting && pod.ready_since == step.pod.ready_since;
            let Some(pod) = self.truth.pods.iter_mut().find(same) else { continue };
            let available = pod.ready_since.is_some();
            // What has just failed is not desired any more.
            let failed = plan.memory.rollout.failure.as_ref().map(|failure| &failure.revision);
            let is_wanted = pod.revision.as_ref() == Some(&wanted.revision) && failed != Some(&wanted.revision);
            assert!(!(available && is_wanted), "an up-to-date, available Pod is replaced");
            if available {
                self.ours.insert(pod.node.clone());
                self.truth.lost.insert(pod.node.clone(), at(self.clock));
                took = true;
            }
            Arc::make_mut(pod).deleting = true;
            self.truth.deleted.insert(pod.id.clone());
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

    /// What would be decided so much later, had nothing happened meanwhile.
    pub(super) fn look_after(&self, seconds: i64) -> Plan {
        let wanted = self.wanted();
        let is_short = self.truth.nodes.iter().any(|node| !self.shown.iter().any(|pod| pod.node == node.name));
        let refused = self.truth.refused.as_deref().filter(|_| is_short);
        let places = self.truth.places_of(&self.shown, &wanted, refused.is_some());
        let inventory = Inventory { refused, ..self.truth.inventory(&places) };
        let plan = plan(&self.policy, Some(&wanted), &inventory, at(self.clock + seconds));
        Plan::of(plan, &self.truth.memory)
    }

    /// So much later everything that was to come has come, and been seen.
    pub(super) fn round(&mut self, seconds: i64) -> Plan {
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
            8 => self.restart(),
            9 => self.node_joins_or_leaves(pick),
            10 => {
                let node = self.node(pick);
                node.busy = if node.busy.is_some() { None } else { Some("the node is cordoned") };
            }
            11 => {
                let node = self.node(pick);
                node.taint = if node.taint.is_none() { Some("x:NoSchedule".to_owned()) } else { None };
            }
            12 => self.blip(pick),
            13 if self.truth.refused.is_some() => self.truth.refused = None,
            13 => self.refuse((pick % 2 == 1).then_some(pick)),
            _ => drop(self.act()),
        }
    }

    /// The operator dies: what it remembers is what the status has, and its watch begins with a list.
    pub(super) fn restart(&mut self) {
        self.truth.deleted.clear();
        self.truth.lost.clear();
        self.truth.deciding_since = self.clock;
        // It is not remembered whether the agent of a node that joined meanwhile is missing because of us.
        let began = self.truth.memory.rollout.touched.joined_after;
        let joined = |name: &Arc<str>| {
            self.truth.nodes.iter().any(|n| n.name == *name && began.is_some_and(|began| n.created > began))
        };
        self.ours.retain(|name| !joined(name));
        self.has_looked = false;
        self.shown.clone_from(&self.truth.pods);
    }

    /// The API server refuses Pods: those of one node, or all.
    pub(super) fn refuse(&mut self, node: Option<usize>) {
        self.refused_on = node.map(|pick| self.node(pick).name.clone());
        self.truth.refused = Some("it is forbidden".into());
    }

    fn node(&mut self, pick: usize) -> &mut Node {
        let index = pick % self.truth.nodes.len();
        Arc::make_mut(&mut self.truth.nodes[index])
    }

    /// A kubelet falls silent, and its Pods are said to be unready; or it is heard again, which alone makes none Ready.
    pub(super) fn node_joins_or_leaves(&mut self, pick: usize) {
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

    /// Whatever was wrong with the cluster is fixed.
    fn fix(&mut self) {
        self.truth.refused = None;
        for node in &mut self.truth.nodes {
            let node = Arc::make_mut(node);
            (node.ready, node.busy, node.taint) = (true, None, None);
        }
    }

    fn join(&mut self) {
        let mut node = Node::named(&format!("joined-{:03}", self.truth.nodes.len()));
        node.created = at(self.clock);
        self.truth.nodes.push(Arc::new(node));
    }

    fn make_pods(&mut self) {
        for node in self.truth.nodes.clone() {
            let is_this = self.refused_on.as_ref().is_none_or(|only| *only == node.name);
            if self.truth.refused.is_some() && is_this {
                continue;
            }
            if node.taint.is_none() && !self.truth.pods.iter().any(|pod| pod.node == node.name) {
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
        let version = self.truth.pods[*index].revision.as_ref().map_or(0, |release| release.version);
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
