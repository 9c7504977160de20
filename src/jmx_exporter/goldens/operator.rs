//! The operator in a small world: its own plan, carried out, and its own status, written down.
//!
//! What `observe`, `act` and the API server do is done at once. Must not judge anything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::act::AGAIN;
use super::super::fleet::Fleet;
use super::super::marks::{ANNOTATIONS, wanted};
use super::super::memory::{self, Memory};
use super::super::observe::Content;
use super::super::plan::{Facts, Plan, plan};
use super::super::request::container;
use super::super::resolve::{Resolved, resolve};
use super::super::state::Kept;
use super::super::status::{self, StatusFacts};
use super::helper::Fate;
use crate::api::jmx_exporter::{PrometheusJmxExporter, PrometheusJmxExporterStatus};
use crate::k8s::watch::Change;
use crate::rollout::ledger::Ledger;
use crate::sim::{self, Event, Script, Stage, edit, how};

const NAMESPACE: &str = "shop";
/// By which Pods could differ; these do not.
const IMAGE: &str = "image";

/// An operator, its world, and what it keeps.
pub(super) struct Operator {
    stage: Stage,
    fleet: Fleet,
    exporter: PrometheusJmxExporter,
    /// The status that this process wrote last.
    last: Option<PrometheusJmxExporterStatus>,
    content: Content,
    kept: Kept,
    ledger: Ledger,
    stopped: bool,
    deciding_since: DateTime<Utc>,
    /// What becomes of helpers: by configuration, or by node.
    fates: BTreeMap<String, Fate>,
    /// Why the API server lets no container join.
    refuses: Option<String>,
    /// What was last told of each Pod.
    told: BTreeMap<String, String>,
}

/// What happens to the operator, and around it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Act {
    /// The ConfigMap's key has this configuration.
    Config(String),
    /// A user deletes the ConfigMap.
    DeleteConfigMap,
    /// The configuration could end a JVM, for this reason.
    Reject(String),
    /// The API server does not let the operator read the ConfigMap, in these words.
    Forbid(String),
    /// What becomes of helpers with a configuration, or on a node.
    Helper(BTreeMap<String, Fate>),
    /// The images that helpers on nodes lack are pulled; they are too old by then.
    Pulled(Vec<String>),
    /// The API server lets no container join a Pod, in these words; none: it does.
    RefuseContainers(Option<String>),
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
        let config = json!({ "configMapName": "settings", "configMapKey": "config.yaml" });
        let mut spec = json!({ "labelSelector": { "app": "web" }, "port": 9400, "config": config });
        crate::api::patch::merged(&mut spec, &script.spec);
        let exporter = json!({ "apiVersion": "banzaicloud.com/v1alpha1", "kind": "PrometheusJmxExporter",
            "metadata": { "name": "exporter", "namespace": NAMESPACE, "uid": "exporter", "generation": 1 },
            "spec": spec });
        let operator = Self {
            stage: Stage::new(script, NAMESPACE, IMAGE, random),
            fleet: Fleet::default(),
            exporter: serde_json::from_value(exporter).expect("a PrometheusJmxExporter"),
            last: None,
            content: Content::Found("one".to_owned()),
            kept: Kept::default(),
            ledger: Ledger::default(),
            stopped: false,
            deciding_since: script.begins,
            fates: BTreeMap::new(),
            refuses: None,
            told: BTreeMap::new(),
        };
        operator.fleet.listed("", true);
        operator
    }

    fn end(&self) -> String {
        let status = self.exporter.status.clone().unwrap_or_default();
        let conditions: Vec<String> =
            status.conditions.iter().map(|one| format!("{} {} {}", one.type_, one.status, one.reason)).collect();
        let jvms = status.jvms.map(|jvms| (jvms.progress, jvms.reasons));
        format!("{:?} {jvms:?} {conditions:#?}", status.rollout.map(|rollout| rollout.state))
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
            Act::Config(config) => {
                self.content = Content::Found(config.clone());
                format!("the ConfigMap has {config}")
            }
            Act::DeleteConfigMap => {
                self.content = Content::Absent;
                "somebody deletes the ConfigMap".to_owned()
            }
            Act::Reject(why) => {
                self.content = Content::Rejected(why.clone());
                format!("the ConfigMap has what is rejected: {why}")
            }
            Act::Forbid(why) => {
                self.content = Content::Unread(why.clone());
                format!("the ConfigMap may not be read: {why}")
            }
            Act::Helper(fates) => {
                self.fates.extend(fates.clone());
                format!("helpers from now on: {fates:?}")
            }
            Act::Pulled(nodes) => {
                let now = self.stage.world.now;
                for node in nodes {
                    self.stage.world.turn_waiting(node, |name| Fate::Says("Expired".to_owned()).turns(name, now));
                }
                format!("images are pulled on {}", nodes.join(", "))
            }
            Act::RefuseContainers(why) => {
                self.refuses.clone_from(why);
                let why = why.as_deref().unwrap_or("none any more");
                format!("the API server refuses containers that join: {why}")
            }
            Act::Edit(patch) => edit(&mut self.exporter.spec, &mut self.exporter.metadata, patch)?,
            Act::Stop(stopped) => {
                self.stopped = *stopped;
                (if *stopped { "somebody stops everything" } else { "nothing is stopped any more" }).to_owned()
            }
            Act::Restart => {
                let now = self.stage.world.now;
                (self.kept, self.ledger, self.deciding_since) = (Kept::default(), Ledger::default(), now);
                self.fleet = Fleet::default();
                self.fleet.listed("", true);
                // A new process lists what is there.
                self.stage.world.list().into_iter().for_each(|event| show(&self.fleet, event));
                self.last = None;
                "the operator starts again".to_owned()
            }
            Act::WipeStatus => {
                self.exporter.status = None;
                "somebody empties the status".to_owned()
            }
        })
    }

    fn reconcile(&mut self) -> Result<(), String> {
        self.stage.world.control_replicas();
        for event in self.stage.world.take() {
            self.tell(&event);
            show(&self.fleet, event);
        }
        let resolved = match resolve(&self.exporter) {
            Ok(resolved) => resolved,
            Err(why) => {
                self.stage.line("  ", &format!("refused: {why}"));
                self.stage.look_again([], TimeDelta::zero());
                return Ok(());
            }
        };
        self.fleet.selects(&(NAMESPACE.to_owned(), "exporter".to_owned()), Some(resolved.clone()));
        let before = self.last.clone().or_else(|| self.exporter.status.clone()).unwrap_or_default();
        let mut plan = self.plan(&resolved, &before, &memory::read(&before));
        if self.attach(&resolved, &plan) {
            plan = self.plan(&resolved, &before, &plan.memory);
        }
        self.say(&resolved, &before, &plan);
        if !self.stopped {
            self.mark(&plan);
        }
        let after = |wait: Duration| TimeDelta::from_std(wait).ok().map(|wait| self.stage.world.now + wait);
        let unblocked = self.kept.blocked.ends_in().and_then(after);
        let settled = self.kept.settles_in(&self.content).and_then(after);
        self.stage.look_again([plan.next, unblocked, settled], TimeDelta::zero());
        Ok(())
    }
}

impl Operator {
    fn plan(&mut self, resolved: &Resolved, before: &PrometheusJmxExporterStatus, memory: &Memory) -> Plan {
        let generation = self.exporter.metadata.generation;
        let plan = plan(&Facts {
            image: "",
            resolved,
            memory,
            content: &self.content,
            is_changing: self.kept.settles_in(&self.content).is_some(),
            is_edited: before.observed_generation.is_some_and(|seen| Some(seen) != generation),
            stopped: self.stopped,
            fleet: &self.fleet.read(),
            ledger: &self.ledger,
            blocked: &self.kept.blocked.now(),
            others: &self.kept.others.lock(),
            deciding_since: self.deciding_since,
            in_contact_since: self.deciding_since,
            now: self.stage.world.now,
        });
        self.ledger = plan.decision.ledger.clone();
        plan
    }

    /// Has containers join; returns whether the API server refused one.
    fn attach(&mut self, resolved: &Resolved, plan: &Plan) -> bool {
        let Some(desired) = &plan.desired else { return false };
        let mut is_blocked = false;
        for step in &plan.decision.plan.steps {
            let jvm = plan.jvms.iter().find(|jvm| jvm.target.name == step.place).expect("a JVM");
            let next = jvm.next.as_ref().expect("a container to join");
            let target = &jvm.target;
            let (now, guard) = (self.stage.world.now, &plan.decision.guard);
            let entry =
                self.ledger.begin(guard, &step.place, &step.pod.id, now).expect("the guard counts as the plan does");
            let instance = target.instance(&next.container).expect("a container that runs");
            let request = container(resolved, desired, (target, instance), next.rewrites, ("operator", None), now);
            if let Some(why) = &self.refuses {
                self.stage.line("  ", &format!("may not join {}: {why}", target.name));
                self.ledger.undo(&entry);
                self.kept.blocked.put(&target.uid, why.clone(), AGAIN, true);
                is_blocked = true;
                continue;
            }
            let fate = self.fates.get(&*target.node).or_else(|| self.fates.get(&desired.sha256));
            let turns = fate.unwrap_or(&Fate::Exports).turns(request["name"].as_str().expect("a name"), now);
            let brings = if next.rewrites { "brings" } else { "loads" };
            self.stage.line(
                "  ",
                &format!("{} joins {} and {brings} {}", text(&request["name"]), target.name, desired.sha256),
            );
            if !self.stage.world.join_pod(&target.name, &target.resource_version, &request, turns) {
                self.stage.line("  ", "which has changed meanwhile");
                self.ledger.undo(&entry);
            }
        }
        is_blocked
    }

    /// Annotates Pods, also those that no object selects any more.
    fn mark(&mut self, plan: &Plan) {
        let orphans = self.fleet.read().orphans().into_iter().map(|(_, target)| (target, None));
        let all: Vec<_> = plan.marks.iter().cloned().chain(orphans).collect();
        for (target, port) in all {
            let wanted = wanted(port);
            let what = port.map_or_else(|| "for no port".to_owned(), |port| format!("for port {port}"));
            self.stage.line("  ", &format!("annotates {} {what}", target.name));
            self.stage.world.annotate(&target.name, &ANNOTATIONS.map(|key| (key, wanted.get(key).cloned())));
        }
    }

    fn say(&mut self, resolved: &Resolved, before: &PrometheusJmxExporterStatus, plan: &Plan) {
        let facts = StatusFacts { object: &self.exporter, resolved, content: &self.content, plan, complaint: None };
        let (now, transitions) = status::status(&facts, before, self.stage.world.now).expect("a status");
        self.stage.events(&transitions, str::to_owned);
        let rollout = |status: &PrometheusJmxExporterStatus| {
            let (rollout, jvms) = (status.rollout.clone()?, status.jvms.clone()?);
            let endpoints: Vec<String> =
                status.metrics_endpoints.iter().map(|one| format!("{}:{}", one.pod, one.port)).collect();
            Some(format!("{}: {} export: {}", rollout.state, jvms.progress, endpoints.join(" ")))
        };
        if let Some(said) = rollout(&now).filter(|said| rollout(before).as_ref() != Some(said)) {
            self.stage.line("  ", &said);
        }
        self.stage.conditions(&before.conditions, &now.conditions, str::to_owned);
        self.exporter.status = Some(now.clone());
        self.last = Some(now);
    }

    /// What an observer would say of a Pod, where that has changed.
    fn tell(&mut self, event: &Event) {
        let (Event::Pod(pod) | Event::PodGone(pod)) = event else { return };
        let name = text(&pod["metadata"]["name"]);
        let mut said = match event {
            Event::PodGone(_) => "gone".to_owned(),
            _ => how(pod).unwrap_or("not Ready").to_owned(),
        };
        if let Some(one) = pod["status"]["ephemeralContainerStatuses"].as_array().and_then(|all| all.last()) {
            let state = one["state"].as_object().and_then(|state| state.iter().next());
            let (state, what) = state.map_or(("unknown", &Value::Null), |(state, what)| (state.as_str(), what));
            let code = what["exitCode"].as_i64().map(|code| format!(" {code}")).unwrap_or_default();
            let _ = write!(said, ", {} {state}{code}", text(&one["name"]));
        }
        if self.told.insert(name.clone(), said.clone()).as_ref() != Some(&said) {
            self.stage.line("", &format!("{name} on {}: {said}", text(&pod["spec"]["nodeName"])));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn show(fleet: &Fleet, event: Event) {
    let read = "what a watch shows";
    match event {
        Event::Pod(pod) => drop(fleet.pod(&Change::Applied(serde_json::from_value(pod).expect(read)), |_| {})),
        Event::PodGone(pod) => drop(fleet.pod(&Change::Deleted(serde_json::from_value(pod).expect(read)), |_| {})),
        Event::ReplicaSet(_) | Event::Node(_) | Event::NodeGone(_) => {}
    }
}
