//! What comes of the engine and this kind together: single rules, whole situations, random histories.
//!
//! Here are the fleets that they are tried on. Must not test anything itself.

mod apart;
mod apart_edges;
mod back;
mod back_edges;
mod edges;
mod forecast;
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
mod world;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::hold::{ENVIRONMENT, NAMESPACE_SELECTOR, PAUSED, STOPPED, TOKENS};
use super::memory::Memory;
use super::places::{Inventory, WORDS, decide, places};
use super::revision::{Desired, Pod, Reported, Revision};
use crate::api::name::Version;
use crate::k8s::node::Node;
use crate::k8s::placement::Placement;
use crate::rollout::{
    self, Bucket, Failure, Loss, Phase, Policy, Report, Share, Source, Stall, StallPhase, State, Step, Template,
    Trouble, WaitingOn, Withdrawn,
};

/// A decision, laid open.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    template: Template,
    steps: Vec<Step<Revision>>,
    budget: usize,
    needs_hosts: bool,
    needs_proof: bool,
    report: Report,
    memory: Memory,
    next: Option<DateTime<Utc>>,
    missing: Vec<(Arc<str>, DateTime<Utc>)>,
}

fn plan(policy: &Policy, desired: Option<&Desired>, inventory: &Inventory<'_>, now: DateTime<Utc>) -> Plan {
    let decision = decide(policy, desired, inventory, &places(desired, inventory), now);
    let rollout::Plan { template, steps, budget, needs_proof, report, next, missing, .. } = decision.plan;
    Plan {
        template,
        steps,
        budget,
        needs_hosts: decision.needs_hosts,
        needs_proof,
        report,
        memory: decision.memory,
        next,
        missing,
    }
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + second, 0).unwrap()
}

fn v(minor: u32) -> Version {
    Version { major: 1, minor, revision: 0, day: 20_250_101, time: 0 }
}

fn revision(minor: u32) -> Revision {
    Revision { version: Some(v(minor)), hash: "h".to_owned() }
}

fn desired(minor: u32) -> Desired {
    Desired { revision: revision(minor), strict: false, keeps_versions: false }
}

fn policy(budget: Share) -> Policy {
    Policy::plain(budget, TimeDelta::seconds(300))
}

fn pod(number: usize, node: &str, minor: u32, created: i64, ready: bool) -> Arc<Pod> {
    Arc::new(Pod {
        uid: format!("uid-{number}").into(),
        revision: Some(revision(minor)),
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
    template: Revision,
    placement: Placement,
    memory: Memory,
    deleted: HashSet<Arc<str>>,
    lost: HashMap<Arc<str>, DateTime<Utc>>,
    freed: HashSet<Arc<str>>,
    aside: HashMap<Arc<str>, String>,
    losses: HashMap<Arc<str>, Loss>,
    missing: HashMap<Arc<str>, DateTime<Utc>>,
    deciding_since: i64,
    /// `None`: the host list was refused for good.
    reported: Option<HashMap<IpAddr, Version>>,
    asked: bool,
    source: Source,
    refused: Option<String>,
    namespace_selector: BTreeMap<String, String>,
    canary: BTreeMap<String, String>,
}

impl Fleet {
    fn new(size: usize, template: u32) -> Self {
        let nodes: Vec<Arc<Node>> = (0..size).map(|i| Arc::new(Node::named(&format!("node-{i:03}")))).collect();
        let pods = nodes.iter().enumerate().map(|(i, node)| pod(i, &node.name, 1, i as i64 - 100_000, true)).collect();
        let memory = Memory {
            rollout: rollout::Memory { last_good: Some(revision(1)), ..rollout::Memory::default() },
            ..Memory::default()
        };
        Self {
            nodes,
            pods,
            template: revision(template),
            placement: Placement::default(),
            memory,
            deleted: HashSet::new(),
            lost: HashMap::new(),
            freed: HashSet::new(),
            aside: HashMap::new(),
            losses: HashMap::new(),
            missing: HashMap::new(),
            deciding_since: -1_000_000,
            reported: None,
            asked: true,
            source: Source::NotNeeded,
            refused: None,
            namespace_selector: BTreeMap::new(),
            canary: BTreeMap::new(),
        }
    }

    fn plan(&self, policy: &Policy, desired: &Desired, now: i64) -> Plan {
        plan(policy, Some(desired), &self.inventory(), at(now))
    }

    fn inventory(&self) -> Inventory<'_> {
        Inventory {
            nodes: &self.nodes,
            pods: &self.pods,
            placement: &self.placement,
            template: Some(&self.template),
            settled: true,
            deleted: &self.deleted,
            lost: &self.lost,
            freed: &self.freed,
            aside: &self.aside,
            losses: &self.losses,
            missing: &self.missing,
            deciding_since: at(self.deciding_since),
            in_contact_since: chrono::DateTime::UNIX_EPOCH,
            reported: match &self.reported {
                _ if !self.asked => Reported::NotYet,
                Some(hosts) => Reported::Answered(hosts),
                None => Reported::Silent,
            },
            source: self.source,
            refused: self.refused.as_deref(),
            namespace_selector: &self.namespace_selector,
            canary: &self.canary,
            memory: &self.memory,
        }
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Pod)) {
        change(Arc::make_mut(&mut self.pods[at]));
    }

    /// A rollout is under way since then.
    fn rolling_since(&mut self, second: i64) {
        self.memory.rollout.phase = Phase::Rolling { since: at(second), stall: None };
    }

    /// So much has come of what keeps Pods from starting.
    fn stuck(&mut self, stuck: Stall<Revision>) {
        let since = self.memory.rollout.started().unwrap_or(at(0));
        self.memory.rollout.phase = Phase::Rolling { since, stall: Some(stuck) };
    }
}
