//! The operator in a small world: its own plan, carried out, and its own status, written down.
//!
//! What `observe`, `act` and the API server do is done at once. Must not judge anything.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::act::{self, Done};
use super::super::fleet::Fleet;
use super::super::memory;
use super::super::observe::Content;
use super::super::plan::{Facts, Plan, plan};
use super::super::resolve::{Resolved, resolve};
use super::super::revision::Config;
use super::super::state::Kept;
use super::super::status::{self, StatusFacts};
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherStatus};
use crate::k8s::watch::Change;
use crate::k8s::workload::ReplicaSetFacts;
use crate::kernel::pods::{Blocked, By};
use crate::rollout::ledger::Ledger;
use crate::sim::{self, Event, Script, Stage, edit, how};

const NAMESPACE: &str = "shop";
/// By which Pods differ: what the ConfigMap was when they were created.
const DATA: &str = "data";

/// An operator, its world, and what it keeps.
pub(super) struct Operator {
    stage: Stage,
    fleet: Fleet,
    watcher: ConfigWatcher,
    /// The status that this process wrote last.
    last: Option<ConfigWatcherStatus>,
    content: Content,
    kept: Kept,
    ledger: Ledger,
    stopped: bool,
    deciding_since: DateTime<Utc>,
}

/// What happens to the operator, and around it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Act {
    /// The ConfigMap gets this data.
    Data(String),
    /// A user deletes the ConfigMap.
    DeleteConfigMap,
    /// The API server does not let the operator read the ConfigMap, in these words.
    Forbid(String),
    /// A merge patch of the spec.
    Edit(Value),
    /// A user stops everything, or ends the stop.
    Stop(bool),
    /// The operator's process starts again.
    Restart,
    /// A user empties the status.
    WipeStatus,
    #[serde(untagged)]
    World(sim::Act),
}

impl sim::Tried for Operator {
    fn new(script: &Script<Act>, random: Option<u64>) -> Self {
        let mut spec = json!({ "configMap": "settings", "podSelector": { "app": "web" } });
        crate::api::patch::merged(&mut spec, &script.spec);
        let watcher = json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
            "metadata": { "name": "watcher", "namespace": NAMESPACE, "uid": "watcher", "generation": 1 },
            "spec": spec });
        let stage = Stage::new(script, NAMESPACE, DATA, random);
        Self {
            fleet: Fleet::new(stage.clock()),
            stage,
            watcher: serde_json::from_value(watcher).expect("a ConfigWatcher"),
            last: None,
            content: Content::Absent,
            kept: Kept::default(),
            ledger: Ledger::default(),
            stopped: false,
            deciding_since: script.begins,
        }
    }

    fn end(&self) -> String {
        let status = self.watcher.status.clone().unwrap_or_default();
        let conditions: Vec<String> =
            status.conditions.iter().map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect();
        let pods = status.pods.map(|pods| (pods.progress, pods.unavailable));
        format!("{:?} {pods:?} {conditions:#?}", status.rollout.map(|rollout| rollout.state))
    }
}

impl sim::Operator for Operator {
    type Act = Act;

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn pass(&mut self, by: TimeDelta) {
        sim::advance(by);
    }

    fn act(&mut self, act: &Act) -> Result<String, String> {
        Ok(match act {
            Act::World(act) => self.stage.world.act(act),
            Act::Data(data) => {
                self.content = Content::Found(Config { hash: data.clone(), changed_at: self.stage.world.now });
                self.stage.world.set_value(data);
                format!("the ConfigMap has {data}")
            }
            Act::DeleteConfigMap => {
                self.content = Content::Absent;
                "somebody deletes the ConfigMap".to_owned()
            }
            Act::Forbid(why) => {
                self.content = Content::Forbidden(why.clone());
                format!("the ConfigMap may not be read: {why}")
            }
            Act::Edit(patch) => edit(&mut self.watcher.spec, &mut self.watcher.metadata, patch)?,
            Act::Stop(stopped) => {
                self.stopped = *stopped;
                (if *stopped { "somebody stops everything" } else { "nothing is stopped any more" }).to_owned()
            }
            Act::Restart => {
                let now = self.stage.world.now;
                (self.kept, self.ledger, self.deciding_since) = (Kept::default(), Ledger::default(), now);
                self.fleet = Fleet::new(self.stage.clock());
                // A new process lists what is there.
                self.stage.world.list().into_iter().for_each(|event| show(&self.fleet, event));
                self.last = None;
                "the operator starts again".to_owned()
            }
            Act::WipeStatus => {
                self.watcher.status = None;
                "somebody empties the status".to_owned()
            }
        })
    }

    fn reconcile(&mut self) -> Result<(), String> {
        self.stage.world.control_replicas();
        for event in self.stage.world.take() {
            if let Event::Pod(pod) = &event
                && let Some(how) = how(pod)
            {
                let (name, data) = (&pod["metadata"]["name"], &pod["metadata"]["annotations"][DATA]);
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                self.stage.line("", &format!("{} with {}: {how}", text(name), text(data)));
            }
            show(&self.fleet, event);
        }
        let key = (NAMESPACE.to_owned(), "watcher".to_owned());
        let resolved = match resolve(&self.watcher) {
            Ok(resolved) => resolved,
            Err(why) => {
                self.stage.line("  ", &format!("refused: {why}"));
                self.stage.look_again([], TimeDelta::zero());
                return Ok(());
            }
        };
        self.fleet.watches(&key, Some(resolved.clone()));
        let before = self.last.clone().or_else(|| self.watcher.status.clone()).unwrap_or_default();
        let mut plan = self.plan(&resolved, &before, &memory::read(&before, &resolved.config_map));
        let done = self.evict(&plan);
        if done.is_blocked {
            plan = self.plan(&resolved, &before, &plan.memory);
        }
        self.say(&resolved, &before, &plan);
        let after = |wait: Duration| TimeDelta::from_std(wait).ok().map(|wait| self.stage.world.now + wait);
        let unblocked = self.kept.blocked.ends_in().and_then(after);
        self.stage.look_again([plan.next, unblocked], TimeDelta::zero());
        Ok(())
    }
}

impl Operator {
    fn plan(&mut self, resolved: &Resolved, before: &ConfigWatcherStatus, memory: &memory::Memory) -> Plan {
        let believed_after = resolved.policy.wait_ready.to_std().unwrap_or(Duration::MAX);
        let (debouncing, missing) = (self.kept.debouncing.lock().clone(), self.kept.missing.lock().clone());
        let generation = self.watcher.metadata.generation;
        let plan = plan(&Facts {
            resolved,
            memory,
            found: if let Content::Found(config) = &self.content { Some(config) } else { None },
            is_absent: self.content == Content::Absent,
            is_edited: before.observed_generation.is_some_and(|seen| Some(seen) != generation),
            stopped: self.stopped,
            fleet: &self.fleet.read(),
            ledger: &self.ledger,
            debouncing: debouncing.as_ref(),
            blocked: &self.kept.blocked.now(),
            peaks: &self.kept.peaks(believed_after),
            missing: &missing,
            deciding_since: self.deciding_since,
            in_contact_since: self.deciding_since,
            own: ("operators", "operator"),
            now: self.stage.world.now,
        });
        self.kept.keep(&plan);
        self.ledger = plan.ledger.clone();
        plan
    }

    fn evict(&mut self, plan: &Plan) -> Done {
        let mut done = Done::default();
        for step in &plan.decision.steps {
            let workload = plan.guard.workload(&step.pod.id);
            if workload.is_some_and(|name| self.kept.blocked.holds(name)) {
                continue;
            }
            let entry = self.ledger.begin(&plan.guard, &step.place, &step.pod.id, self.stage.world.now);
            let entry = entry.expect("the guard counts as the plan does");
            match self.stage.world.evict(&step.pod.name) {
                Ok(()) => {
                    self.stage.line("  ", &format!("evicts {}", step.pod.name));
                    self.kept.was_evicted(workload);
                }
                Err(why) => {
                    self.stage.line("  ", &format!("may not evict {}: {why}", step.pod.name));
                    self.ledger.undo(&entry);
                    done.is_blocked = true;
                    let blocked = Blocked { why, by: By::Budget };
                    act::step_aside(&self.kept, workload, (&step.pod, step.costs), &blocked);
                }
            }
        }
        done
    }

    fn say(&mut self, resolved: &Resolved, before: &ConfigWatcherStatus, plan: &Plan) {
        let facts = StatusFacts { object: &self.watcher, resolved, read: &self.content, plan, complaint: None };
        let (now, transitions) = status::status(&facts, before, self.stage.world.now).expect("a status");
        self.stage.events(&transitions, str::to_owned);
        let rollout = |status: &ConfigWatcherStatus| {
            let (rollout, pods) = (status.rollout.clone()?, status.pods.clone()?);
            Some(format!("{}: {} updated, {} unavailable", rollout.state, pods.progress, pods.unavailable))
        };
        if let Some(said) = rollout(&now).filter(|said| rollout(before).as_ref() != Some(said)) {
            self.stage.line("  ", &said);
        }
        self.stage.conditions(&before.conditions, &now.conditions, str::to_owned);
        self.watcher.status = Some(now.clone());
        self.last = Some(now);
    }
}

fn show(fleet: &Fleet, event: Event) {
    let read = "what a watch shows";
    match event {
        Event::Pod(pod) => drop(fleet.pod(&Change::Applied(serde_json::from_value(pod).expect(read)))),
        Event::PodGone(pod) => drop(fleet.pod(&Change::Deleted(serde_json::from_value(pod).expect(read)))),
        Event::ReplicaSet(set) => {
            let set: ReplicaSetFacts = serde_json::from_value(set).expect(read);
            drop(fleet.owner("ReplicaSet", &Change::Applied(set)));
        }
        Event::Node(_) | Event::NodeGone(_) => {}
    }
}
