//! The operator in a small world: its own plan, carried out, and its own status, written down.
//!
//! What `act` and the API server do is done at once and without refusals. Must not judge anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::done::Done;
use super::super::fleet::Fleet;
use super::super::memory;
use super::super::observe::{Observed, able};
use super::super::plan::{plan, template_revision};
use super::super::preview::{Surroundings, applied, observed};
use super::super::resolve::{Resolved, resolve};
use super::super::status::{self, StatusFacts};
use super::text::{short, shortened};
use crate::api::name::Version;
use crate::api::oneagent::{DEFAULT_IMAGE, OneAgent, OneAgentStatus};
use crate::clock::Clock;
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Hosts, Snapshot, TokenState};
use crate::fleet::missing::{Missing, missing};
use crate::k8s::facts::VERSION_ANNOTATION;
use crate::k8s::placement::Verdict;
use crate::k8s::watch::Change;
use crate::kernel::kind::Kind;
use crate::oneagent::OneAgents;
use crate::rollout::ledger::Ledger;
use crate::sim::{self, Event, Script, Stage, edit, how};

const NAMESPACE: &str = "dynatrace";

/// An operator, its world, and what it keeps.
pub(super) struct Operator {
    stage: Stage,
    fleet: Fleet,
    agent: OneAgent,
    stopped: bool,
    /// When the environment answers this process.
    answers_at: DateTime<Utc>,
    /// The status that this process wrote last.
    last: Option<OneAgentStatus>,
    environment: Snapshot,
    ledger: Ledger,
    missing: Missing,
    deciding_since: DateTime<Utc>,
    /// What hosts report, whatever runs there now.
    reported: BTreeMap<String, Version>,
}

/// What happens to the operator, and to the world.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Act {
    /// The environment offers a version, as the newest.
    Publish(String),
    /// The environment stops answering, or answers again.
    EnvironmentAway(bool),
    /// A merge patch of the spec.
    Edit(Value),
    /// Somebody stops everything, or no longer.
    Stop(bool),
    /// The operator's process starts again.
    Restart,
    /// Somebody empties the status.
    WipeStatus,
    #[serde(untagged)]
    World(sim::Act),
}

impl sim::Operator for Operator {
    type Act = Act;

    fn new(script: &Script<Act>, random: Option<u64>) -> Self {
        let mut spec = json!({ "apiUrl": "https://environment.example/api" });
        crate::api::patch::merged(&mut spec, &script.spec);
        let agent = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "agent", "namespace": NAMESPACE, "uid": "oneagent", "generation": 1 },
            "spec": spec });
        Self {
            stage: Stage::new(script, NAMESPACE, VERSION_ANNOTATION, random),
            fleet: Fleet::new(Clock::at(script.begins)),
            agent: serde_json::from_value(agent).expect("a OneAgent"),
            stopped: false,
            answers_at: script.begins,
            last: None,
            environment: Snapshot {
                paas: TokenState::Ready,
                api: TokenState::Ready,
                answered_at: Some(script.begins),
                hosts_at: Some(script.begins),
                ..Snapshot::default()
            },
            ledger: Ledger::default(),
            missing: Missing::new(),
            deciding_since: script.begins,
            reported: BTreeMap::new(),
        }
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn act(&mut self, act: &Act) -> String {
        match act {
            Act::World(act) => self.stage.world.act(act),
            Act::Publish(version) => {
                self.environment.latest = version.parse().ok();
                let offered = self.environment.offered.iter().flat_map(|offered| offered.iter().copied());
                let offered: Vec<Version> = self.environment.latest.into_iter().chain(offered).collect();
                self.environment.offered = Some(Arc::new(offered));
                self.environment.latest_at = Some(self.stage.world.now);
                format!("the environment offers {version}")
            }
            Act::EnvironmentAway(away) => {
                self.environment.away = *away;
                self.environment.trouble = away.then(|| "connection refused".to_owned());
                (if *away { "the environment is away" } else { "the environment answers again" }).to_owned()
            }
            Act::Edit(patch) => edit(&mut self.agent.spec, &mut self.agent.metadata, patch),
            Act::Stop(stopped) => {
                self.stopped = *stopped;
                (if *stopped { "somebody stops everything" } else { "nothing is stopped any more" }).to_owned()
            }
            Act::Restart => {
                let now = self.stage.world.now;
                (self.ledger, self.missing, self.deciding_since) = (Ledger::default(), Missing::new(), now);
                let before = std::mem::replace(&mut self.fleet, Fleet::new(Clock::at(now)));
                // A new process lists what is there.
                self.stage.world.list().into_iter().for_each(|event| show(&self.fleet, event));
                if let Some(daemonset) = before.daemonset(&key()) {
                    self.fleet.daemonset_change(Change::Applied((*daemonset).clone()));
                }
                self.last = None;
                self.answers_at = now + TimeDelta::seconds(1);
                "the operator starts again".to_owned()
            }
            Act::WipeStatus => {
                self.agent.status = None;
                "somebody empties the status".to_owned()
            }
        }
    }

    fn end(&self) -> String {
        let status = self.agent.status.clone().unwrap_or_default();
        let conditions: BTreeMap<_, _> =
            status.conditions.iter().map(|c| (c.type_.clone(), format!("{} {}", c.status, c.reason))).collect();
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for node in self.stage.world.nodes() {
            *runs.entry(self.stage.world.runs(&node).unwrap_or_else(|| "nothing".to_owned())).or_default() += 1;
        }
        let rollout = status.rollout.map(|rollout| rollout.state);
        format!("{rollout:?} {conditions:#?} {runs:#?} rejected {:?}", status.rejected_versions)
    }

    fn reconcile(&mut self) {
        self.control();
        for event in self.stage.world.take() {
            self.tell(&event);
            show(&self.fleet, event);
        }
        let resolved = match OneAgents::resolve(&self.agent) {
            Ok(resolved) => resolved,
            Err(why) => {
                self.stage.line("  ", &format!("refused: {why}"));
                self.stage.look_again([]);
                return;
            }
        };
        let before = self.last.clone().or_else(|| self.agent.status.clone()).unwrap_or_default();
        let seen = self.observe(&resolved, &before);
        let memory = memory::read(&before);
        let now = self.stage.world.now;
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
                self.stage.line("  ", &format!("the DaemonSet {what} {}", short(&version.unwrap_or_default())));
            }
            self.stage.world.set_template(metadata);
            self.fleet.daemonset_change(Change::Applied(live));
        }
        let mut ledger = plan.ledger;
        for step in &plan.steps {
            if ledger.begin(&plan.guard, &step.place, &step.pod.id, now).is_some() {
                let version = step.pod.revision.as_ref().and_then(|revision| revision.version);
                let version = version.map_or_else(|| "unknown".to_owned(), |version| short(&version.to_string()));
                self.stage.line("  ", &format!("deletes the agent of {} ({version})", step.place));
                self.stage.world.delete(&step.pod.name);
            }
        }
        self.ledger = ledger;
        self.missing = seen.missing.clone();
        let facts = StatusFacts {
            object: &self.agent,
            before: &before,
            resolved: &resolved,
            seen: &seen,
            assessment: &plan.assessment,
            done: &done,
            complaint: None,
        };
        let (status, transitions) = status::status(&facts, now).expect("a status");
        self.stage.events(&transitions, shortened);
        self.say(&before, &status);
        self.agent.status = Some(status.clone());
        self.last = Some(status);
        let next = plan.next.and_then(|next| TimeDelta::from_std(next).ok()).map(|next| now + next);
        // A second later the DaemonSet's controller has seen it.
        let controlled = wrote.then(|| now + TimeDelta::seconds(1));
        let answered = Some(self.answers_at).filter(|at| *at > now);
        self.stage.look_again([next, controlled, answered]);
    }
}

impl Operator {
    fn control(&mut self) {
        let Ok(resolved) = resolve(&self.agent) else { return };
        let nodes: HashMap<Arc<str>, _> =
            self.fleet.nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        self.stage.world.control(|node| {
            let node = nodes.get(node)?;
            match resolved.placement.verdict(node) {
                Verdict::Selected => Some(true),
                Verdict::Untolerated(taint) if taint.effect == "NoExecute" => Some(false),
                Verdict::Untolerated(_) => None,
                _ => Some(false),
            }
        });
    }

    fn observe(&mut self, resolved: &Resolved, status: &OneAgentStatus) -> Observed {
        let now = self.stage.world.now;
        let mut seen = observed(&self.fleet, resolved, status, &Surroundings::default(), now);
        for node in self.stage.world.nodes() {
            if let Some(version) = self.stage.world.runs(&node).and_then(|version| version.parse().ok()) {
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
        // A new process has asked nobody yet.
        let known = if now < self.answers_at { Snapshot::default() } else { self.environment.clone() };
        seen.environment = Some(Ok(Arc::new(known)));
        seen.known = Some(Arc::default());
        seen.cluster_id = "cluster".to_owned();
        seen.stopped = self.stopped;
        seen.ledger = self.ledger.clone();
        seen.deciding_since = self.deciding_since;
        let able = able(resolved, &seen.nodes);
        seen.missing =
            if seen.daemonset.is_some() { missing(&self.missing, &able, &seen.pods, now) } else { Missing::new() };
        seen.refused = self.stage.world.refuses.clone().filter(|_| !seen.missing.is_empty());
        seen.losses = self.fleet.losses(&key(), |node| resolved.placement.verdict(node) == Verdict::Selected);
        seen
    }

    /// What of the world somebody who watches would see.
    fn tell(&mut self, event: &Event) {
        let Event::Pod(pod) = event else { return };
        let Some(how) = how(pod) else { return };
        let version = pod["metadata"]["annotations"][VERSION_ANNOTATION].as_str().unwrap_or_default();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        self.stage.line("", &format!("agent {} on {node}: {how}", short(version)));
    }

    fn say(&mut self, before: &OneAgentStatus, now: &OneAgentStatus) {
        let rollout = |status: &OneAgentStatus| {
            let (rollout, nodes) = (status.rollout.clone().unwrap_or_default(), status.nodes.clone()?);
            Some(format!("{}: {} updated, {} with an agent", rollout.state, nodes.progress, nodes.agents))
        };
        if let Some(said) = rollout(now).filter(|said| rollout(before).as_ref() != Some(said)) {
            self.stage.line("  ", &said);
        }
        self.stage.conditions(&before.conditions, &now.conditions, shortened);
        if before.rejected_versions != now.rejected_versions {
            self.stage.line("  ", &format!("rejected: {}", shortened(&now.rejected_versions.join(", "))));
        }
    }
}

fn key() -> (String, String) {
    (NAMESPACE.to_owned(), "agent".to_owned())
}

fn show(fleet: &Fleet, event: Event) {
    let read = "what a watch shows";
    match event {
        Event::Node(node) => drop(fleet.node(&Change::Applied(serde_json::from_value(node).expect(read)))),
        Event::NodeGone(node) => drop(fleet.node(&Change::Deleted(serde_json::from_value(node).expect(read)))),
        Event::Pod(pod) => drop(fleet.pod(&Change::Applied(serde_json::from_value(pod).expect(read)))),
        Event::ReplicaSet(_) => {}
        Event::PodGone(pod) => drop(fleet.pod(&Change::Deleted(serde_json::from_value(pod).expect(read)))),
    }
}
