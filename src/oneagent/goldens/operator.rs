//! The operator in a small world: its own plan, carried out, and its own status, written down.
//!
//! What `act` and the API server do is done at once and without refusals. Must not judge anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use kube::runtime::watcher;
use serde_json::json;

use super::super::done::Done;
use super::super::fleet::Fleet;
use super::super::memory;
use super::super::observe::{Missing, Observed, able, missing};
use super::super::plan::{plan, template_revision};
use super::super::preview::{Surroundings, applied, observed};
use super::super::resolve::{Resolved, resolve};
use super::super::status::{self, Picture};
use super::script::{Script, time};
use super::text::{merge, short, shortened};
use crate::api::name::Version;
use crate::api::oneagent::{DEFAULT_IMAGE, OneAgent, OneAgentStatus};
use crate::clock::Clock;
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Hosts, Snapshot, TokenState};
use crate::k8s::facts::VERSION_ANNOTATION;
use crate::k8s::placement::Verdict;
use crate::rollout::ledger::Ledger;
use crate::sim::{Event, World, is_ready};

/// An operator, its world, and what it did and said.
pub(super) struct Operator {
    pub(super) log: String,
    pub(super) began: DateTime<Utc>,
    pub(super) world: World,
    pub(super) fleet: Fleet,
    pub(super) agent: OneAgent,
    pub(super) environment: Snapshot,
    pub(super) ledger: Ledger,
    pub(super) missing: Missing,
    pub(super) deciding_since: DateTime<Utc>,
    /// What hosts report, whatever runs there now.
    reported: BTreeMap<String, Version>,
    pub(super) joined: BTreeMap<String, usize>,
    /// When the plan wants to be made again.
    next: Option<DateTime<Utc>>,
    last_line: String,
}

impl Operator {
    pub(super) fn new(script: &Script, random: Option<u64>) -> Self {
        let began = script.begins;
        let owner = json!({ "kind": "DaemonSet", "name": "agent", "namespace": "dynatrace", "uid": "daemonset" });
        let mut spec = json!({ "apiUrl": "https://environment.example/api" });
        merge(&mut spec, &script.oneagent);
        let agent = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "agent", "namespace": "dynatrace", "uid": "oneagent", "generation": 1 },
            "spec": spec });
        let mut operator = Self {
            log: String::new(),
            began,
            world: World::new(began, owner, VERSION_ANNOTATION, random),
            fleet: Fleet::new(Clock::at(began)),
            agent: serde_json::from_value(agent).expect("a OneAgent"),
            environment: Snapshot {
                paas: TokenState::Ready,
                api: TokenState::Ready,
                answered_at: Some(began),
                hosts_at: Some(began),
                ..Snapshot::default()
            },
            ledger: Ledger::default(),
            missing: Missing::new(),
            deciding_since: began,
            reported: BTreeMap::new(),
            joined: BTreeMap::new(),
            next: Some(began),
            last_line: String::new(),
        };
        for (zone, count) in &script.nodes {
            operator.join(zone, *count);
        }
        operator
    }

    /// Lets everything happen until the script is over.
    pub(super) async fn run(&mut self, script: &Script) {
        let end = self.began + time(&script.until);
        let mut events = script.events.iter().peekable();
        let mut is_told = script.all;
        loop {
            let of_script = events.peek().map(|event| self.began + time(&event.at));
            let all = [of_script, self.world.due(), self.next];
            let Some(at) = all.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            let at = at.max(self.world.now);
            let passed = (at - self.world.now).to_std().unwrap_or_default();
            tokio::time::advance(passed).await;
            self.world.now = at;
            if of_script.is_some_and(|time| time <= at) {
                if let Some(event) = events.next() {
                    if !is_told && at > self.began {
                        (is_told, self.log) = (true, String::new());
                    }
                    self.act(&event.act);
                }
            } else if self.world.due().is_some_and(|due| due <= at) {
                self.world.happen();
            }
            self.look();
        }
    }

    /// What must not depend on the order in which things happened at one time.
    pub(super) fn end(&self) -> String {
        let status = self.agent.status.clone().unwrap_or_default();
        let conditions: BTreeMap<_, _> =
            status.conditions.iter().map(|c| (c.type_.clone(), format!("{} {}", c.status, c.reason))).collect();
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for node in self.world.nodes() {
            *runs.entry(self.world.runs(&node).unwrap_or_else(|| "nothing".to_owned())).or_default() += 1;
        }
        let rollout = status.rollout.map(|rollout| rollout.state);
        format!("{rollout:?} {conditions:#?} {runs:#?} rejected {:?}", status.rejected_versions)
    }

    pub(super) fn line(&mut self, indent: &str, line: &str) {
        let since = (self.world.now - self.began).num_seconds();
        let (hours, minutes, seconds) = (since / 3600, since / 60 % 60, since % 60);
        let at = format!("{hours:02}:{minutes:02}:{seconds:02}");
        let shown = if self.last_line == at { "        ".to_owned() } else { at.clone() };
        self.last_line = at;
        let _ = writeln!(self.log, "{shown} {indent}{line}");
    }

    /// What the watches brought, and what the operator makes of it.
    fn look(&mut self) {
        self.control();
        for event in self.world.take() {
            self.tell(&event);
            show(&self.fleet, event);
        }
        let resolved = match resolve(&self.agent) {
            Ok(resolved) => resolved,
            Err(refusals) => {
                let why: Vec<String> = refusals.into_iter().map(|refusal| refusal.0).collect();
                self.line("  ", &format!("refused: {}", why.join("; ")));
                self.next = None;
                return;
            }
        };
        let seen = self.observe(&resolved);
        let before = self.agent.status.clone().unwrap_or_default();
        let memory = memory::read(&before);
        let now = self.world.now;
        let mut plan = plan(&memory, &resolved, &seen, DEFAULT_IMAGE, now).expect("a plan");
        let mut done = Done::default();
        let mut wrote = false;
        if let Some(wanted) = plan.objects.daemonset.take() {
            let metadata = wanted["spec"]["template"]["metadata"].clone();
            let live = applied(wanted).expect("a DaemonSet");
            let (was, is) = (seen.daemonset.as_deref().and_then(template_revision), template_revision(&live));
            wrote = was != is;
            done.template_replaced = was.is_some() && wrote;
            if wrote {
                let version = is.and_then(|revision| revision.version).map(|version| version.to_string());
                let what = if was.is_some() { "now has" } else { "is created with" };
                self.line("  ", &format!("the DaemonSet {what} {}", short(&version.unwrap_or_default())));
            }
            self.world.set_template(metadata);
            self.fleet.daemonset_event("", watcher::Event::Apply(live));
        }
        let mut ledger = plan.ledger;
        for step in &plan.steps {
            if ledger.begin(&plan.guard, &step.place, &step.pod.uid, now).is_some() {
                let version = step.pod.revision.as_ref().and_then(|revision| revision.version);
                let version = version.map_or_else(|| "unknown".to_owned(), |version| short(&version.to_string()));
                self.line("  ", &format!("deletes the agent of {} ({version})", step.place));
                self.world.delete(&step.pod.name);
            }
        }
        self.ledger = ledger;
        self.missing = seen.missing.clone();
        let picture = Picture {
            object: &self.agent,
            before: &before,
            resolved: &resolved,
            seen: &seen,
            assessment: &plan.assessment,
            done: &done,
        };
        let (status, transitions) = status::status(&picture, now).expect("a status");
        for told in transitions {
            let kind = if told.warning { "Warning" } else { "Normal" };
            self.line("  ", &format!("Event {kind} {}: {}", told.reason, shortened(&told.message)));
        }
        self.say(&before, &status);
        self.agent.status = Some(status);
        self.next = plan.next.and_then(|next| TimeDelta::from_std(next).ok()).map(|next| whole(now + next));
        // What was just done is seen at once, and a second later that the DaemonSet's controller has seen it.
        let seen = self.world.has_news().then_some(now);
        let controlled = wrote.then(|| now + TimeDelta::seconds(1));
        self.next = [self.next, seen, controlled].into_iter().flatten().min();
    }

    fn control(&mut self) {
        let Ok(resolved) = resolve(&self.agent) else { return };
        let nodes: HashMap<Arc<str>, _> =
            self.fleet.nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        self.world.control(|node| {
            let node = nodes.get(node)?;
            match resolved.placement.verdict(node) {
                Verdict::Selected => Some(true),
                Verdict::Untolerated(taint) if taint.effect == "NoExecute" => Some(false),
                Verdict::Untolerated(_) => None,
                _ => Some(false),
            }
        });
    }

    fn observe(&mut self, resolved: &Resolved) -> Observed {
        let now = self.world.now;
        let status = self.agent.status.clone().unwrap_or_default();
        let mut seen = observed(&self.fleet, resolved, &status, &Surroundings::default(), now);
        for node in self.world.nodes() {
            if let Some(version) = self.world.runs(&node).and_then(|version| version.parse().ok()) {
                self.reported.insert(node, version);
            }
        }
        let zone = resolved.network_zone.as_deref();
        let mut hosts = Hosts::of_zones(&BTreeSet::from([zone_key(zone)]));
        for node in &seen.nodes {
            if let (Some(ip), Some(version)) = (node.ip, self.reported.get(&*node.name)) {
                hosts.add(zone, ip, *version);
            }
        }
        if !self.environment.away {
            (self.environment.answered_at, self.environment.hosts_at) = (Some(now), Some(now));
        }
        self.environment.hosts = Some(Arc::new(hosts));
        seen.environment = Some(Ok(Arc::new(self.environment.clone())));
        seen.known = Some(Arc::default());
        seen.cluster_id = "cluster".to_owned();
        seen.ledger = self.ledger.clone();
        seen.deciding_since = self.deciding_since;
        let able = able(resolved, &seen.nodes);
        seen.missing =
            if seen.daemonset.is_some() { missing(&self.missing, &able, &seen.pods, now) } else { Missing::new() };
        seen.refused = self.world.refuses.clone().filter(|_| !seen.missing.is_empty());
        seen.losses = self.fleet.losses(&key(), |node| resolved.placement.verdict(node) == Verdict::Selected);
        seen
    }

    /// What of the world somebody who watches would see.
    fn tell(&mut self, event: &Event) {
        let Event::Pod(pod) = event else { return };
        let status = &pod["status"];
        let container = &status["containerStatuses"][0];
        let waits = container["state"]["waiting"]["reason"].as_str();
        let how = match (status["reason"].as_str(), waits) {
            _ if !pod["metadata"]["deletionTimestamp"].is_null() => return,
            (Some(refused), _) => refused,
            (_, Some(reason)) => reason,
            _ if is_ready(pod) => "Ready",
            _ => return,
        };
        let version = pod["metadata"]["annotations"][VERSION_ANNOTATION].as_str().unwrap_or_default();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        self.line("", &format!("agent {} on {node}: {how}", short(version)));
    }

    fn say(&mut self, before: &OneAgentStatus, now: &OneAgentStatus) {
        let rollout = |status: &OneAgentStatus| {
            let (rollout, nodes) = (status.rollout.clone().unwrap_or_default(), status.nodes.clone()?);
            Some(format!("{}: {} updated, {} with an agent", rollout.state, nodes.progress, nodes.agents))
        };
        if let Some(said) = rollout(now).filter(|said| rollout(before).as_ref() != Some(said)) {
            self.line("  ", &said);
        }
        for condition in &now.conditions {
            let was = before.conditions.iter().find(|c| c.type_ == condition.type_);
            let is_other = |was: &crate::api::condition::Condition| {
                (&was.status, &was.reason, &was.message) != (&condition.status, &condition.reason, &condition.message)
            };
            if was.is_none_or(is_other) {
                let (type_, status, reason) = (&condition.type_, &condition.status, &condition.reason);
                self.line("  ", &format!("{type_}={status} {reason}: {}", shortened(&condition.message)));
            }
        }
        if before.rejected_versions != now.rejected_versions {
            self.line("  ", &format!("rejected: {}", shortened(&now.rejected_versions.join(", "))));
        }
    }
}

pub(super) fn key() -> (String, String) {
    ("dynatrace".to_owned(), "agent".to_owned())
}

/// A OneAgent is looked at in whole seconds here, as all of its world.
fn whole(time: DateTime<Utc>) -> DateTime<Utc> {
    let rest = time.timestamp_subsec_nanos();
    if rest == 0 { time } else { time + TimeDelta::nanoseconds(1_000_000_000 - i64::from(rest)) }
}

pub(super) fn show(fleet: &Fleet, event: Event) {
    let read = "what a watch shows";
    match event {
        Event::Node(node) => drop(fleet.node(&watcher::Event::Apply(serde_json::from_value(node).expect(read)))),
        Event::NodeGone(node) => drop(fleet.node(&watcher::Event::Delete(serde_json::from_value(node).expect(read)))),
        Event::Pod(pod) => drop(fleet.pod("", &watcher::Event::Apply(serde_json::from_value(pod).expect(read)))),
        Event::PodGone(pod) => drop(fleet.pod("", &watcher::Event::Delete(serde_json::from_value(pod).expect(read)))),
    }
}
