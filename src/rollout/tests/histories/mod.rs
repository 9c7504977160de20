//! Whole fleets, histories of which are tried: single rules, situations, random worlds.
//!
//! Here is what a kind does for the engine, as little of it as the histories need: places from nodes and Pods, releases
//! with their templates, and which of them failed. Must not test anything itself.

mod apart;
mod apart_edges;
mod back;
mod back_edges;
mod edges;
mod forecast;
mod foreign;
mod forgotten;
mod guarded;
mod late_canaries;
mod mutants;
mod one_refused;
mod outages;
mod policies;
mod properties;
mod rules;
mod search;
mod situations;
mod small;
mod standstill;
mod words;
mod world;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::at;
use crate::rollout::{
    self, Bucket, Closed, Failure, Hold, Inventory, Loss, Occupant, Phase, Place, Policy, Report, Rules, Share, Source,
    Stall, StallPhase, Standing, State, Step, Template, Trouble, WaitingOn, Withdrawn, Word, Words,
};

const WORDS: Words = Words {
    undecided: "nobody has said which release is the newest",
    authority: "the host list",
    place: "node",
    places: "nodes",
    lacking: "without an available agent",
    template: "the new Pod template",
    closes: "taint",
};

const PAUSED: Hold = Hold { state: State::Paused, why: Cow::Borrowed("rollout.paused is true") };
const STOPPED: Hold = Hold { state: State::Stopped, why: Cow::Borrowed("all is stopped") };
/// The source of what new agents need is unreachable.
const AWAY: Hold = Hold { state: State::Held, why: Cow::Borrowed("the source does not answer") };

/// Under which name a node with a taint is closed.
const TAINTED: &str = "untolerated";

/// A release, and the template that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Release {
    version: u32,
    hash: String,
}

impl rollout::Revision for Release {
    fn is_another_release(&self, than: &Self) -> bool {
        self.version != than.version
    }

    fn supersedes(&self, other: &Self) -> bool {
        other.version < self.version || (other.version == self.version && other.hash != self.hash)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.version)
    }
}

type Pod = rollout::Pod<Release>;
type Desired = rollout::Desired<Release>;

thread_local! {
    /// The rules to plan by; `None`: all of them.
    static RULES: Cell<Option<&'static Rules<Release>>> = const { Cell::new(None) };
}

fn plan(
    policy: &Policy,
    desired: Option<&Desired>,
    inventory: &Inventory<'_, Release>,
    now: DateTime<Utc>,
) -> rollout::Plan<Release> {
    rollout::decide::plan_by(RULES.get().unwrap_or(Rules::ALL), policy, desired, inventory, now)
}

/// Where an agent belongs.
#[derive(Debug, Clone)]
struct Node {
    name: Arc<str>,
    ready: bool,
    ready_since: Option<DateTime<Utc>>,
    busy: Option<&'static str>,
    /// No new Pod may start there.
    taint: Option<String>,
    is_left_out: bool,
    is_first: bool,
    zone: Option<String>,
    created: DateTime<Utc>,
    /// The newest version that ran there, where that is known.
    reported: Option<u32>,
}

impl Node {
    fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            ready: true,
            ready_since: None,
            busy: None,
            taint: None,
            is_left_out: false,
            is_first: false,
            zone: None,
            created: DateTime::UNIX_EPOCH,
            reported: None,
        }
    }
}

/// What a kind remembers: the engine's memory, and what failed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Memory {
    rollout: rollout::Memory<Release>,
    rejected: Vec<u32>,
    /// A version that is tried again, and since when.
    retried: Option<(u32, DateTime<Utc>)>,
}

impl Memory {
    fn retrying(&self, version: u32, now: DateTime<Utc>) -> Self {
        let mut memory = Self { retried: Some((version, now)), ..self.clone() };
        memory.rejected.retain(|rejected| *rejected != version);
        memory.rollout.failure = memory.rollout.failure.filter(|failure| failure.revision.version != version);
        memory.rollout.withdrawn = memory.rollout.withdrawn.filter(|known| known.revision.version != version);
        memory
    }

    /// What is remembered after a decision: a verdict rejects a version, its withdrawal takes that back.
    fn after(&self, rollout: rollout::Memory<Release>) -> Self {
        let mut rejected = self.rejected.clone();
        if let Some(withdrawn) = rollout.withdrawn.as_ref().filter(|_| rollout.withdrawn != self.rollout.withdrawn) {
            rejected.retain(|version| *version != withdrawn.revision.version);
        }
        let failed = rollout.failure.as_ref().filter(|failure| failure.rejects).map(|failure| failure.revision.version);
        rejected.extend(failed.filter(|version| !self.rejected.contains(version)));
        Self { rollout, rejected, retried: self.retried }
    }
}

/// A decision, laid open.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    template: Template,
    steps: Vec<Step<Release>>,
    budget: usize,
    needs_proof: bool,
    report: Report,
    memory: Memory,
    next: Option<DateTime<Utc>>,
    missing: Vec<(Arc<str>, DateTime<Utc>)>,
}

impl Plan {
    fn of(plan: rollout::Plan<Release>, before: &Memory) -> Self {
        let rollout::Plan { template, steps, budget, needs_proof, report, next, missing, memory, .. } = plan;
        Self { template, steps, budget, needs_proof, report, memory: before.after(memory), next, missing }
    }
}

fn revision(version: u32) -> Release {
    Release { version, hash: "h".to_owned() }
}

fn desired(version: u32) -> Desired {
    Desired { revision: revision(version), insists: false }
}

fn policy(budget: Share) -> Policy {
    Policy::plain(budget, TimeDelta::seconds(300))
}

fn pod(number: usize, node: &str, version: u32, created: i64, ready: bool) -> Arc<Pod> {
    Arc::new(Pod {
        id: format!("uid-{number}").into(),
        revision: Some(revision(version)),
        created: at(created),
        ready_since: ready.then(|| at(created)),
        ..Pod::named(&format!("pod-{number}"), node)
    })
}

/// A fleet at version 1 whose template is at `template`.
#[derive(Clone)]
struct Fleet {
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    template: Release,
    memory: Memory,
    deleted: HashSet<Arc<str>>,
    lost: HashMap<Arc<str>, DateTime<Utc>>,
    freed: HashSet<Arc<str>>,
    /// Pods that may not be deleted now, by UID, and why.
    aside: HashMap<Arc<str>, String>,
    losses: HashMap<Arc<str>, Loss>,
    missing: HashMap<Arc<str>, DateTime<Utc>>,
    deciding_since: i64,
    /// Whether it is still to be reported which agents updated themselves.
    is_unheard: bool,
    source: Source,
    refused: Option<String>,
    /// Whether the template is another owner's.
    is_foreign: bool,
}

impl Fleet {
    fn new(size: usize, template: u32) -> Self {
        let nodes: Vec<Arc<Node>> = (0..size).map(|i| Arc::new(Node::named(&format!("node-{i:03}")))).collect();
        let pods = nodes.iter().enumerate().map(|(i, node)| pod(i, &node.name, 1, i as i64 - 100_000, true)).collect();
        let rollout = rollout::Memory { last_good: Some(revision(1)), ..rollout::Memory::default() };
        Self {
            nodes,
            pods,
            template: revision(template),
            memory: Memory { rollout, ..Memory::default() },
            deleted: HashSet::new(),
            lost: HashMap::new(),
            freed: HashSet::new(),
            aside: HashMap::new(),
            losses: HashMap::new(),
            missing: HashMap::new(),
            deciding_since: -1_000_000,
            is_unheard: false,
            source: Source::NotNeeded,
            refused: None,
            is_foreign: false,
        }
    }

    fn plan(&self, policy: &Policy, desired: &Desired, now: i64) -> Plan {
        let places = self.places(desired);
        Plan::of(plan(policy, Some(desired), &self.inventory(&places), at(now)), &self.memory)
    }

    fn inventory<'a>(&'a self, places: &'a [Place<'a, Release>]) -> Inventory<'a, Release> {
        Inventory {
            template: Some(&self.template),
            writes_template: !self.is_foreign,
            deleted: &self.deleted,
            lost: &self.lost,
            freed: &self.freed,
            missing: &self.missing,
            source: self.source,
            refused: self.refused.as_deref(),
            in_contact_since: DateTime::UNIX_EPOCH,
            ..Inventory::plain(places, WORDS, &self.memory.rollout, at(self.deciding_since))
        }
    }

    fn places(&self, desired: &Desired) -> Vec<Place<'_, Release>> {
        self.places_of(&self.pods, desired, self.refused.is_some())
    }

    /// The places, of these Pods.
    fn places_of<'a>(&'a self, pods: &'a [Arc<Pod>], desired: &Desired, is_refused: bool) -> Vec<Place<'a, Release>> {
        let by_node: HashMap<&str, &Arc<Pod>> = pods.iter().map(|pod| (&*pod.node, pod)).collect();
        let place = |node: &'a Arc<Node>| {
            let pod = by_node.get(&*node.name).copied();
            let closed =
                |taint: &String| Closed { name: TAINTED, by: Some(taint.clone()), keeps_pods: true, may_open: true };
            let closed = node.taint.as_ref().map(closed);
            let standing = |pod: &Pod| {
                if closed.is_some() { Standing::Current } else { self.standing(node, pod, desired) }
            };
            // A cordon keeps no Pod from being made: where they are refused it is not why one is missing.
            let busy = node.busy.filter(|_| pod.is_some() || !is_refused);
            let busy = busy.or(node.is_left_out.then_some("it is left out"));
            let aside = || pod.and_then(|pod| self.aside.get(&pod.id)).cloned().map(Cow::Owned);
            Place {
                zone: node.zone.as_deref(),
                is_canary: node.is_first,
                is_ready: node.ready,
                ready_since: node.ready_since,
                busy: busy.map(Cow::Borrowed).or_else(aside),
                is_left_out: node.is_left_out,
                joined: node.created,
                loss: self.losses.get(&node.name),
                selection: closed.clone().map_or(rollout::Selection::Selected, rollout::Selection::Closed),
                ..Place::plain(&node.name, pod.map(|pod| Occupant { pod, standing: standing(pod) }))
            }
        };
        self.nodes.iter().map(place).collect()
    }

    /// Never a downgrade, unless a user insists.
    fn standing(&self, node: &Node, pod: &Pod, desired: &Desired) -> Standing {
        let Some(made_from) = &pod.revision else { return Standing::Unknown };
        let wanted = &desired.revision;
        if self.is_foreign {
            return if made_from == wanted { Standing::Current } else { Standing::Outdated };
        }
        let never_ran = pod.ready_since.is_none() && pod.was_ready.is_none();
        let of_before = self.memory.retried.is_some_and(|(version, since)| {
            (version, version) == (wanted.version, made_from.version)
                && pod.created < since
                && pod.ready_since.is_none()
        });
        let was_recalled = made_from.version > wanted.version
            && never_ran
            && !self.memory.rejected.contains(&made_from.version)
            && node.reported.is_none_or(|reported| reported < made_from.version);
        // What is reported of an agent that never ran is of the one before it.
        let reported = node.reported.filter(|reported| !never_ran || *reported > wanted.version);
        let version = reported.map_or(made_from.version, |reported| reported.max(made_from.version));
        let has_template = made_from.hash == wanted.hash;
        let is_newer = version > wanted.version && !desired.insists;
        let is_version = version == wanted.version || (made_from.version == wanted.version && desired.insists);
        match () {
            () if of_before => Standing::Outdated,
            () if made_from == wanted => Standing::Current,
            () if is_newer && !was_recalled && !has_template => Standing::HeldBack,
            () if (is_version || (is_newer && !was_recalled)) && has_template => Standing::Current,
            () if self.is_unheard => Standing::Unheard,
            () => Standing::Outdated,
        }
    }

    fn node(&mut self, number: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[number])
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Pod)) {
        change(Arc::make_mut(&mut self.pods[at]));
    }

    /// A rollout is under way since then.
    fn rolling_since(&mut self, second: i64) {
        self.memory.rollout.phase = Phase::Rolling { since: at(second), stall: None };
    }

    /// So much has come of what keeps Pods from starting.
    fn stuck(&mut self, stuck: Stall<Release>) {
        let since = self.memory.rollout.started().unwrap_or(at(0));
        self.memory.rollout.phase = Phase::Rolling { since, stall: Some(stuck) };
    }
}
