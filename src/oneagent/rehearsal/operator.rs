//! The operator in a small world: its own plan, carried out, and its own status, written down.
//!
//! Must not judge anything.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use kube::core::DeserializeGuard;
use serde_json::json;

use super::super::context::OneAgents;
use super::super::done::Done;
use super::super::explain::Around;
use super::super::listed::Cluster;
use super::super::memory;
use super::super::observe::{Observed, able};
use super::super::plan::{Plan, plan, template_revision};
use super::super::preview::{Surroundings, applied, observed};
use super::super::resolve::Resolved;
use super::super::status::{self, StatusFacts};
use super::act::Act;
use super::kept::{Kept, NAMESPACE};
use super::record::{Record, Step};
use super::shown::show;
use super::text::{short, shortened};
use crate::api::oneagent::{DEFAULT_IMAGE, OneAgent, OneAgentStatus};
use crate::dynatrace::Snapshot;
use crate::fleet::missing::{Missing, missing};
use crate::k8s::facts::VERSION_ANNOTATION;
use crate::k8s::placement::Verdict;
use crate::k8s::watch::Change;
use crate::kernel::kind::Kind;
use crate::sim::{self, Event, Script, Stage, World, how};

/// Nothing happens any more once nothing has happened for so long: windows open again within it.
const IDLE: TimeDelta = TimeDelta::days(35);
/// A verdict is withdrawn within so long, if it is.
const WITHDRAWN: TimeDelta = TimeDelta::hours(1);

/// An operator, its world, and what it keeps.
pub struct Operator {
    pub(super) stage: Stage,
    pub(super) cluster: Cluster,
    pub(super) all: Vec<Kept>,
    pub(super) stopped: bool,
    /// When the environments answer this process.
    pub(super) answers_at: DateTime<Utc>,
    pub(super) deciding_since: DateTime<Utc>,
    /// Whether what becomes of each node is recorded, and not each event looked at.
    records: bool,
    /// Whether the watches have shown something since the last look.
    is_news: bool,
}

impl Operator {
    /// One with the OneAgents of a script; or why one of them is none.
    pub fn new(script: &Script<Act>, random: Option<u64>, records: bool) -> Result<Self, String> {
        let mut objects = script.objects.clone();
        if objects.is_empty() {
            let mut spec = json!({ "apiUrl": "https://environment.example/api" });
            crate::api::patch::merged(&mut spec, &script.spec);
            objects.push(json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "agent" }, "spec": spec }));
        }
        let objects = objects.into_iter().enumerate();
        let all: Result<Vec<Kept>, String> =
            objects.map(|(number, object)| Kept::new(object, number, script.begins)).collect();
        let all = all?;
        for kept in &all {
            let name = kept.name();
            OneAgents::resolve(&kept.agent).map_err(|why| format!("OneAgent {name}: its spec is invalid: {why}"))?;
        }
        let stage = Stage::new(script, NAMESPACE, VERSION_ANNOTATION, random);
        let operator = Self {
            cluster: Cluster::new(stage.clock()),
            all,
            stopped: false,
            answers_at: script.begins,
            deciding_since: script.begins,
            stage,
            records,
            is_news: true,
        };
        operator.note();
        Ok(operator)
    }

    /// The OneAgents, each with what came of it.
    pub fn outcomes(&self) -> impl Iterator<Item = (&OneAgent, &Record)> {
        self.all.iter().map(|kept| (&kept.agent, &kept.record))
    }

    /// What it has seen, and the OneAgents, each with what came of it.
    #[must_use]
    pub fn into_parts(self) -> (Cluster, Vec<(OneAgent, Record)>) {
        (self.cluster, self.all.into_iter().map(|kept| (kept.agent, kept.record)).collect())
    }

    /// The simulated cluster.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.stage.world
    }

    /// The OneAgents know of one another.
    pub(super) fn note(&self) {
        for kept in &self.all {
            self.cluster.note(&DeserializeGuard(Ok(kept.agent.clone())));
        }
    }

    /// What the DaemonSet controller makes of what is there.
    fn control(&mut self) {
        let stale = self.stage.world.take_stale();
        if stale.is_empty() {
            return;
        }
        let nodes = self.cluster.fleet.nodes();
        let named = |name: &str| nodes.binary_search_by(|node| (*node.name).cmp(name)).ok().map(|at| &nodes[at]);
        for kept in &self.all {
            let Ok(resolved) = self.cluster.resolved(&kept.agent, &nodes) else { continue };
            self.stage.world.control(&kept.name(), &stale, |node| {
                let node = named(node)?;
                match resolved.placement.verdict(node) {
                    Verdict::Selected => Some(true),
                    Verdict::Untolerated(taint) if taint.effect == "NoExecute" => Some(false),
                    Verdict::Untolerated(_) => None,
                    _ => Some(false),
                }
            });
        }
    }

    /// Looks at one OneAgent; returns when to look again.
    fn look(&mut self, at: usize) -> Result<Vec<Option<DateTime<Utc>>>, String> {
        let nodes = self.cluster.fleet.nodes();
        let kept = &self.all[at];
        let resolved = match self.cluster.resolved(&kept.agent, &nodes) {
            Ok(resolved) => resolved,
            Err(why) => {
                self.stage.line("  ", &format!("refused: {why}"));
                return Ok(Vec::new());
            }
        };
        let before = kept.last.clone().or_else(|| kept.agent.status.clone()).unwrap_or_default();
        let seen = self.observe(at, &resolved, &before);
        let memory = memory::read(&before);
        let now = self.stage.world.now;
        let failed = |error: serde_json::Error| format!("the Pod template cannot be made: {error}");
        let mut plan = plan(&memory, &resolved, &seen, DEFAULT_IMAGE, now).map_err(failed)?;
        let mut done = Done::default();
        let wrote = self.write(&mut plan, &seen, &mut done).map_err(failed)?;
        self.replace(at, &plan);
        self.all[at].missing.clone_from(&seen.missing);
        let facts = StatusFacts {
            object: &self.all[at].agent,
            before: &before,
            resolved: &resolved,
            seen: &seen,
            assessment: &plan.assessment,
            done: &done,
            complaint: None,
        };
        let (status, told) = status::status(&facts, now).map_err(failed)?;
        if !self.records {
            self.stage.events(&told, shortened);
            self.say(&before, &status);
        }
        let seconds = self.stage.seconds();
        let kept = &mut self.all[at];
        kept.agent.status = Some(status.clone());
        if self.records {
            kept.record.say(seconds, &status, told);
        }
        // Where nothing was shown or done, and every node is counted as before, each is as before.
        let is_other = self.is_news || wrote || !plan.steps.is_empty() || before.nodes != status.nodes;
        if self.records && is_other {
            kept.record.see(seconds, &self.cluster.looks(&kept.agent, &Around::default(), now).unwrap_or_default());
        }
        kept.last = Some(status);
        let next = plan.next.and_then(|next| TimeDelta::from_std(next).ok()).map(|next| now + next);
        // The engine looks again and again while a window is closed, in case the clock was set; here it never is.
        let closed = resolved.policy.calendar.closed(now).filter(|_| self.records && self.stage.world.due().is_none());
        let next = closed.and_then(|closed| closed.opens).or(next);
        // A second later the DaemonSet's controller has seen it.
        let controlled = wrote.then(|| now + TimeDelta::seconds(1));
        let answered = Some(self.answers_at).filter(|at| *at > now);
        Ok(vec![next, controlled, answered])
    }

    /// Writes the DaemonSet; returns whether its template is another one now.
    fn write(&mut self, plan: &mut Plan, seen: &Observed, done: &mut Done) -> Result<bool, serde_json::Error> {
        let Some(wanted) = plan.objects.daemonset.take() else { return Ok(false) };
        let metadata = wanted["spec"]["template"]["metadata"].clone();
        let live = applied(wanted)?;
        let (was, is) = (seen.daemonset.as_deref().and_then(template_revision), template_revision(&live));
        let wrote = was != is;
        done.template_replaced = was.is_some() && wrote;
        if wrote {
            let version = is.and_then(|revision| revision.version).map(|version| version.to_string());
            let what = if was.is_some() { "now has" } else { "is created with" };
            self.stage.line("  ", &format!("the DaemonSet {what} {}", short(&version.unwrap_or_default())));
        }
        self.stage.world.set_template(live.metadata.name.as_deref().unwrap_or_default(), metadata);
        self.cluster.fleet.daemonset_change(Change::Applied(live));
        Ok(wrote)
    }

    /// Deletes the Pods whose turn it is.
    fn replace(&mut self, at: usize, plan: &Plan) {
        let (now, seconds) = (self.stage.world.now, self.stage.seconds());
        let mut ledger = plan.ledger.clone();
        for step in &plan.steps {
            if ledger.begin(&plan.guard, &step.place, &step.pod.id, now).is_some() {
                let version = step.pod.revision.as_ref().and_then(|revision| revision.version);
                let from = version.map(|version| version.to_string());
                let version = from.as_deref().map_or_else(|| "unknown".to_owned(), short);
                self.stage.line("  ", &format!("deletes the agent of {} ({version})", step.place));
                self.stage.world.delete(&step.pod.name);
                self.all[at].record.steps.push(Step { at: seconds, node: step.pod.node.to_string(), from });
            }
        }
        self.all[at].ledger = ledger;
    }

    fn observe(&mut self, at: usize, resolved: &Resolved, status: &OneAgentStatus) -> Observed {
        let now = self.stage.world.now;
        let mut seen = observed(&self.cluster.fleet, resolved, status, &Surroundings::default(), now);
        let kept = &mut self.all[at];
        let known = kept.answer(resolved.network_zone.as_deref(), &seen.nodes, now);
        // A new process has asked no environment yet.
        let known = if now < self.answers_at { Snapshot::default() } else { known };
        seen.environment = Some(Ok(Arc::new(known)));
        seen.known = Some(Arc::default());
        "cluster".clone_into(&mut seen.cluster_id);
        seen.stopped = self.stopped;
        seen.ledger = kept.ledger.clone();
        seen.deciding_since = self.deciding_since;
        let able = able(resolved, &seen.nodes);
        seen.missing =
            if seen.daemonset.is_some() { missing(&kept.missing, &able, &seen.pods, now) } else { Missing::new() };
        seen.refused = self.stage.world.refuses.clone().filter(|_| !seen.missing.is_empty());
        let is_selected = |node: &_| resolved.placement.verdict(node) == Verdict::Selected;
        seen.losses = self.cluster.fleet.losses(&kept.key(), is_selected);
        seen
    }

    /// Takes note of what the watches show, and of what hosts report then.
    fn tell(&mut self, event: &Event) {
        let Event::Pod(pod) = event else {
            if let Event::Node(_) | Event::NodeGone(_) = event {
                self.all.iter_mut().for_each(|kept| kept.is_news = true);
            }
            return;
        };
        let version = pod["metadata"]["annotations"][VERSION_ANNOTATION].as_str().unwrap_or_default();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let set = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
        let is_bad = self.stage.world.fates.get(version).is_some_and(|fate| fate.is_bad());
        let runs = self.stage.world.runs(set, node).and_then(|version| version.parse().ok());
        self.named(set, |kept| {
            if let Some(version) = runs
                && kept.reported.insert(node.to_owned(), version) != Some(version)
            {
                kept.is_news = true;
            }
            if is_bad {
                kept.record.bad.entry(version.to_owned()).or_default().insert(node.to_owned());
            }
        });
        if let Some(how) = how(pod).filter(|_| !self.records) {
            self.stage.line("", &format!("agent {} on {node}: {how}", short(version)));
        }
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

impl sim::Operator for Operator {
    type Act = Act;

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn act(&mut self, act: &Act) -> Result<String, String> {
        match act {
            Act::World(act) => Ok(self.stage.world.act(act)),
            Act::Own(own) => self.own(own),
        }
    }

    fn reconcile(&mut self) -> Result<(), String> {
        self.control();
        let events = self.stage.world.take();
        // What a Pod or node is belongs to a second look, once the watches have shown it.
        for event in &events {
            if let Event::Node(node) | Event::NodeGone(node) = event {
                self.stage.world.reconsider_node(node["metadata"]["name"].as_str().unwrap_or_default());
            }
        }
        self.is_news = !events.is_empty();
        for event in events {
            self.tell(&event);
            show(&self.cluster.fleet, event);
        }
        let mut times = Vec::new();
        for at in 0..self.all.len() {
            times.extend(self.look(at)?);
        }
        // The real one waits a moment for more, too.
        let pause = TimeDelta::seconds(i64::from(self.records));
        self.stage.look_again(times, pause);
        Ok(())
    }

    fn looks_once(&self) -> bool {
        self.records
    }

    fn is_at_rest(&self) -> bool {
        if !self.records || self.stage.world.due().is_some() {
            return false;
        }
        let now = self.stage.seconds();
        self.all.iter().all(|kept| {
            let idle = now - kept.record.changed_at();
            let state = kept.record.heads.last().map(|(_, head)| head.state.as_str()).unwrap_or_default();
            match state {
                "Complete" | "Paused" | "Stopped" => idle > 0,
                "Failed" | "RolledBack" => idle > WITHDRAWN.num_seconds(),
                _ => idle > IDLE.num_seconds(),
            }
        })
    }
}
