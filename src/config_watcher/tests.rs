//! Looks from what the watches show to what the status says: which Pods go, which are left alone, and why.
//!
//! Pure: a fleet, a ConfigMap and a clock of its own stand in for the cluster.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::memory::Memory;
use super::observe::Content;
use super::places::{By, Obstacle};
use super::plan::{self, Facts, Missing, Plan};
use super::resolve::resolve;
use super::revision::Config;
use super::status::{StatusFacts, status};
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherStatus};
use crate::k8s::facts::PodFacts;
use crate::k8s::watch::Change;
use crate::k8s::workload::{DaemonSetFacts, ReplicaSetFacts, StatefulSetFacts};
use crate::rollout::ledger::Ledger;
use crate::rollout::{Failure, Phase, Withdrawn};

/// When the ConfigMap changed.
const CHANGED: i64 = 1000;

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A watcher of ConfigMap `c` and Pods `app: a`.
struct World {
    fleet: Fleet,
    spec: Value,
    generation: i64,
    memory: Memory,
    status: ConfigWatcherStatus,
    content: Content,
    blocked: HashMap<Arc<str>, Obstacle>,
    missing: Missing,
    now: i64,
}

impl World {
    /// One that has seen the ConfigMap as it was before.
    fn new() -> Self {
        let mut world = Self {
            fleet: Fleet::new(crate::clock::Clock::at(at(CHANGED + 7))),
            spec: json!({ "configMap": "c", "podSelector": { "app": "a" } }),
            generation: 1,
            memory: Memory::default(),
            status: ConfigWatcherStatus::default(),
            content: Content::Found(Config { hash: "1".to_owned(), changed_at: at(0) }),
            blocked: HashMap::new(),
            missing: Missing::new(),
            now: 500,
        };
        world.reconcile();
        world
    }

    /// The ConfigMap changes, and stays so for long enough.
    fn change(&mut self) {
        self.content = Content::Found(Config { hash: "2".to_owned(), changed_at: at(CHANGED) });
        self.now = CHANGED + 5;
        let tracked = self.memory.tracked.take().unwrap();
        let Content::Found(config) = &self.content else { return };
        let follow = |debouncing: Option<&_>, now| {
            super::change::follow(Some(&tracked), debouncing, "c", config, TimeDelta::seconds(5), at(now))
        };
        let debouncing = follow(None, CHANGED).debouncing;
        self.memory.tracked = Some(follow(debouncing.as_ref(), self.now).tracked);
    }

    fn reconcile(&mut self) -> (Plan, ConfigWatcherStatus) {
        let object: ConfigWatcher = read(json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
            "metadata": { "name": "w", "namespace": "n", "generation": self.generation }, "spec": self.spec }));
        let resolved = resolve(&object).unwrap();
        let found = if let Content::Found(config) = &self.content { Some(config) } else { None };
        let plan = plan::plan(&Facts {
            resolved: &resolved,
            memory: &self.memory,
            found,
            is_absent: self.content == Content::Absent,
            is_edited: self.status.observed_generation.is_some_and(|seen| seen != self.generation),
            stopped: false,
            fleet: &self.fleet.read(),
            ledger: &Ledger::default(),
            debouncing: None,
            blocked: &self.blocked,
            peaks: &HashMap::new(),
            missing: &self.missing,
            deciding_since: at(0),
            in_contact_since: at(0),
            own: ("operator", "configwatcher-operator"),
            now: at(self.now),
        });
        self.memory = plan.memory.clone();
        self.missing = plan.missing.clone();
        let facts =
            StatusFacts { object: &object, resolved: &resolved, read: &self.content, plan: &plan, complaint: None };
        self.status = status(&facts, &self.status, at(self.now)).unwrap().0;
        (plan, self.status.clone())
    }

    /// What a look says of a condition: its reason and message.
    fn says(&mut self, condition: &str) -> (String, String, String) {
        let status = self.reconcile().1;
        let it = status.conditions.into_iter().find(|one| one.type_ == condition).unwrap();
        (it.status, it.reason, it.message)
    }

    /// The names of the Pods that the next look evicts.
    fn goes(&mut self) -> Vec<String> {
        self.reconcile().0.decision.steps.iter().map(|step| step.pod.name.to_string()).collect()
    }

    /// Shows a Pod that is Ready since a second, with more on top.
    fn pod(&self, name: &str, owner: (&str, &str, &str), ready: Option<i64>, more: &Value) {
        let (api, kind, uid) = owner;
        let time = |second| at(second).to_rfc3339();
        let (state, since) = ready.map_or(("False", 100), |since| ("True", since));
        let mut pod = json!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
                "creationTimestamp": time(100), "labels": { "app": "a" },
                "ownerReferences": [{ "apiVersion": api, "kind": kind, "name": "o", "uid": uid, "controller": true }] },
            "spec": { "nodeName": "node", "restartPolicy": "Always" },
            "status": { "phase": "Running", "startTime": time(100),
                "conditions": [{ "type": "Ready", "status": state, "lastTransitionTime": time(since) }] } });
        merge(&mut pod, more);
        self.fleet.pod(&Change::Applied(read::<PodFacts>(pod)));
    }

    /// Shows a Deployment `web` of so many Pods, each Ready.
    fn deployment(&self, size: usize) {
        self.replica_set("r", ("apps/v1", "Deployment", "web"), size);
        (0..size).for_each(|number| self.pod(&format!("web-{number}"), RS, Some(101), &json!({})));
    }

    fn replica_set(&self, uid: &str, above: (&str, &str, &str), size: usize) {
        let (api, kind, name) = above;
        let set = json!({ "metadata": { "name": uid, "namespace": "n", "uid": uid, "ownerReferences":
                [{ "apiVersion": api, "kind": kind, "name": name, "uid": name, "controller": true }] },
            "spec": { "replicas": size, "template": { "metadata": { "labels": { "app": "a" } } } }, "status": {} });
        self.fleet.owner("ReplicaSet", &Change::Applied(read::<ReplicaSetFacts>(set)));
    }

    fn stateful_set(&self, strategy: &Value) {
        let set = json!({ "metadata": { "name": "db", "namespace": "n", "uid": "db" },
            "spec": { "replicas": 3, "template": { "metadata": { "labels": { "app": "a" } } },
                "updateStrategy": strategy },
            "status": { "currentRevision": "db-1", "updateRevision": "db-2", "currentReplicas": 2 } });
        self.fleet.owner("StatefulSet", &Change::Applied(read::<StatefulSetFacts>(set)));
    }

    /// An edit of the spec.
    fn edit(&mut self, edit: &Value) {
        merge(&mut self.spec, edit);
        self.generation += 1;
    }
}

const RS: (&str, &str, &str) = ("apps/v1", "ReplicaSet", "r");

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

#[test]
fn only_pods_that_a_known_controller_recreates_are_evicted() {
    let mut world = World::new();
    world.replica_set("r", ("argoproj.io/v1alpha1", "Rollout", "shop"), 1);
    world.pod("good", RS, Some(101), &json!({}));
    for (name, owner, policy) in [
        ("job", ("batch/v1", "Job", "o1"), "Never"),
        ("workflow", ("argoproj.io/v1alpha1", "Workflow", "o2"), "Never"),
        ("taskrun", ("tekton.dev/v1", "TaskRun", "o3"), "Never"),
        ("runner", ("actions.github.com/v1alpha1", "EphemeralRunner", "o4"), "OnFailure"),
        ("odd", ("v1", "ConfigMap", "o5"), "Always"),
        ("clone", ("apps.kruise.io/v1alpha1", "CloneSet", "o6"), "Always"),
        ("advanced", ("apps.kruise.io/v1beta1", "StatefulSet", "o7"), "Always"),
    ] {
        world.pod(name, owner, Some(101), &json!({ "spec": { "restartPolicy": policy } }));
    }
    world.change();
    assert_eq!(world.goes(), ["good"]);
    let pods = world.status.pods.clone().unwrap();
    assert_eq!((pods.selected, pods.skipped), (1, 7));
    let named = pods.examples["skipped"].join("; ");
    assert!(named.contains("its owner is a CloneSet.apps.kruise.io; if that creates it again, name it in"), "{named}");
    world.edit(&json!({ "ownerKinds": ["CloneSet.apps.kruise.io", "Workflow.argoproj.io"] }));
    assert_eq!((world.reconcile().1.pods.unwrap().selected), 2, "one that ends is left alone, whatever is named");
    let wrong: ConfigWatcher = read(json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
        "metadata": { "name": "w" },
        "spec": { "configMap": "c", "podSelector": { "app": "a" }, "ownerKinds": ["CloneSet"] } }));
    assert!(resolve(&wrong).unwrap_err().contains("spec.ownerKinds has \"CloneSet\": write kind and API group"));
}

#[test]
fn a_held_template_is_not_rolled_out_by_an_eviction() {
    let hash = |revision: &str| json!({ "metadata": { "labels": { "controller-revision-hash": revision } } });
    let goes = |strategy: &Value| {
        let mut world = World::new();
        world.spec["rollout"] = json!({ "maxUnavailable": 3 });
        world.stateful_set(strategy);
        for (name, revision) in [("db-0", "db-1"), ("db-1", "db-1"), ("db-2", "db-2")] {
            world.pod(name, ("apps/v1", "StatefulSet", "db"), Some(101), &hash(revision));
        }
        world.change();
        (world.goes(), world.says("Ready").2)
    };
    let (gone, said) = goes(&json!({ "type": "OnDelete" }));
    assert_eq!(gone, ["db-2"]);
    assert!(said.contains("Pods db-0, db-1: StatefulSet db holds another template back"), "{said}");
    // Below the partition the controller makes them from the old one.
    let partition = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    assert_eq!(goes(&partition).0.len(), 3);

    let mut world = World::new();
    world.spec["rollout"] = json!({ "maxUnavailable": 2 });
    let set = json!({ "metadata": { "name": "ds", "namespace": "n", "uid": "ds",
            "annotations": { "deprecated.daemonset.template.generation": "2" } },
        "spec": { "updateStrategy": { "type": "OnDelete" }, "template": { "metadata": { "labels": { "app": "a" } } } },
        "status": { "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 1 } });
    world.fleet.owner("DaemonSet", &Change::Applied(read::<DaemonSetFacts>(set)));
    for (name, generation) in [("ds-a", "1"), ("ds-b", "2")] {
        let labels = json!({ "metadata": { "labels": { "pod-template-generation": generation } } });
        world.pod(name, ("apps/v1", "DaemonSet", "ds"), Some(101), &labels);
    }
    world.change();
    assert_eq!(world.goes(), ["ds-b"]);
}

#[test]
fn a_configmap_that_was_absent_and_comes_is_a_change_for_pods_that_ran_without_it() {
    let mut world = World::new();
    (world.memory, world.content) = (Memory::default(), Content::Absent);
    world.deployment(2);
    world.replica_set("r", ("apps/v1", "Deployment", "web"), 3);
    world.pod("web-2", RS, None, &json!({}));
    assert_eq!(world.says("Degraded").1, "ConfigMapNotFound");
    assert_eq!((world.status.applied_hash.clone(), world.status.changed_at.clone()), (None, None));
    world.change();
    world.reconcile();
    assert_eq!(world.goes(), ["web-0"], "web-2 was not Ready before");
    let pods = world.status.pods.clone().unwrap();
    assert_eq!((pods.outdated, pods.selected), (2, 3));
    world.pod("web-2", RS, Some(CHANGED + 7), &json!({}));
    assert_eq!(world.goes(), ["web-0"]);
    assert_eq!(world.status.pods.clone().unwrap().outdated, 2, "it waited for what is there now");
}

#[test]
fn a_rollout_of_a_foreign_kind_is_not_ended_with_kubectl() {
    for (kind, is_named) in [("Deployment", true), ("Rollout", false)] {
        let mut world = World::new();
        for set in ["r1", "r2"] {
            world.replica_set(set, ("x/v1", kind, "shop"), 1);
            world.pod(&format!("{set}-a"), ("apps/v1", "ReplicaSet", set), Some(101), &json!({}));
        }
        world.change();
        let (_, reason, said) = world.says("Ready");
        assert_eq!((reason.as_str(), said.contains("kubectl rollout resume")), ("Blocked", is_named), "{said}");
        assert!(said.contains(&format!("{kind} shop: it is rolling out a template of its own")), "{said}");
    }
}

#[test]
fn a_budget_that_protects_broken_pods_is_degraded_and_a_refusal_holds_no_other_workload() {
    let mut world = World::new();
    world.deployment(2);
    world.stateful_set(&json!({ "type": "OnDelete" }));
    world.pod("db-0", ("apps/v1", "StatefulSet", "db"), Some(101), &json!({}));
    world.change();
    let obstacle = |by| Obstacle { why: "not now".to_owned(), by };
    for (by, degraded, reason) in [
        (By::Budget, "False", "AsExpected"),
        (By::Deadlock, "True", "Blocked"),
        (By::Refusal, "True", "EvictionRefused"),
    ] {
        world.blocked = [("Deployment web".into(), obstacle(by))].into();
        let (status, said, message) = world.says("Degraded");
        assert_eq!((status.as_str(), said.as_str()), (degraded, reason), "{message}");
    }
    world.blocked.insert("web-0".into(), obstacle(By::Refusal));
    assert_eq!(world.goes(), Vec::<String>::new(), "the StatefulSet lacks two");
    for name in ["db-1", "db-2"] {
        world.pod(name, ("apps/v1", "StatefulSet", "db"), Some(101), &json!({}));
    }
    assert_eq!(world.goes(), ["db-2"]);
    let (status, reason, _) = world.says("Progressing");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "RollingOut"));
}

/// One Pod is new and was not Ready in time, twice before, too: the verdict stays.
fn failed_for_good() -> World {
    let mut world = World::new();
    world.deployment(3);
    world.change();
    let created =
        json!({ "metadata": { "uid": "web-0-made-again", "creationTimestamp": at(CHANGED + 6).to_rfc3339() } });
    world.pod("web-0", RS, None, &created);
    let revision = world.memory.tracked.as_ref().unwrap().desired().clone();
    world.memory.engine.phase = Phase::Idle;
    world.memory.engine.touched.since = Some(at(CHANGED + 5));
    world.memory.engine.withdrawn = Some(Withdrawn { revision: revision.clone(), times: 2 });
    world.memory.engine.failure = Some(Failure {
        revision,
        rejects: false,
        insisted: false,
        message: "it failed".to_owned(),
        places: vec!["web-0".to_owned()],
        at: None,
        only_lost: false,
        by_hand: false,
        workloads: vec!["Deployment web".to_owned()],
        whole_since: None,
        earlier: Vec::new(),
    });
    world.now = CHANGED + 400;
    world
}

#[test]
fn the_third_verdict_says_what_lifts_it_and_an_edit_of_the_spec_does() {
    let mut world = failed_for_good();
    let (_, reason, said) = world.says("Degraded");
    assert_eq!(reason, "RolloutFailed");
    assert!(said.contains("recovered twice before") && !said.contains("it continues once"), "{said}");
    assert!(said.contains("a longer spec.rollout.waitReadySeconds (now 300)"), "{said}");
    world.pod(
        "web-0",
        RS,
        Some(world.now),
        &json!({ "metadata": { "creationTimestamp": at(CHANGED + 6).to_rfc3339() } }),
    );
    world.now += 1000;
    assert_eq!(world.says("Degraded").1, "RolloutFailed", "all are Ready, and it stays");
    world.edit(&json!({ "rollout": { "retry": "again" } }));
    assert_eq!(world.goes(), ["web-1"]);
    assert_eq!(world.says("Degraded").1, "AsExpected");
}

#[test]
fn who_is_not_ready_has_its_time_again_once_the_spec_was_edited() {
    let mut world = failed_for_good();
    world.memory.engine.withdrawn = None;
    let (_, _, said) = world.says("Degraded");
    assert!(said.contains("it continues once all Pods of Deployment web have been available for 300 s"), "{said}");
    world.edit(&json!({ "rollout": { "waitReadySeconds": 600 } }));
    let plan = world.reconcile().0;
    assert_eq!((plan.memory.engine.failure, plan.next), (None, Some(at(world.now + 600))));
    world.now += 599;
    assert_eq!(world.reconcile().0.memory.engine.failure, None);
    world.now += 1;
    assert!(world.reconcile().0.memory.engine.failure.is_some());
}
