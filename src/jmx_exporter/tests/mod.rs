//! Looks from what the watches show to what the status says: which Pods a container joins, which are left alone, and
//! why.
//!
//! Pure: a fleet, a configuration and a clock of its own stand in for the cluster.

mod edges;
mod harm;

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::memory::Memory;
use super::observe::Content;
use super::plan::{Facts, Plan, plan};
use super::request::container;
use super::resolve::resolve;
use super::run::Identity;
use super::status::{StatusFacts, status};
use crate::api::jmx_exporter::{PrometheusJmxExporter, PrometheusJmxExporterStatus};
use crate::k8s::containers::PodContainers;
use crate::k8s::watch::Change;
use crate::rollout::ledger::Ledger;

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER_ID: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
}

fn time(second: i64) -> String {
    at(second).format("%FT%TZ").to_string()
}

/// A run that was asked for at a second, with this state.
fn run(name: &str, asked: i64, sha256: &str, state: &Value) -> (Value, Value) {
    let until = time(asked + 600);
    let args = ["jmx-attach", "--port=9400", &format!("--sha256={sha256}"), &format!("--container={ID}")];
    let args: Vec<String> = args.into_iter().map(str::to_owned).chain([format!("--valid-until={until}")]).collect();
    let args: Vec<String> = args.into_iter().chain(["--min-free-memory=96Mi".to_owned()]).collect();
    (
        json!({ "name": name, "image": "operator", "targetContainerName": "app", "args": args }),
        json!({ "name": name, "state": state }),
    )
}

fn ended(from: i64, to: i64, code: i32, message: &str) -> Value {
    json!({ "terminated": { "startedAt": time(from), "finishedAt": time(to), "exitCode": code, "message": message } })
}

fn exports(from: i64) -> Value {
    let said = json!({ "result": "Exporting", "loadedAt": time(from) });
    ended(from, from + 11, 0, &said.to_string())
}

/// A Pod with one container, which runs, and what joined it.
fn pod(name: &str, runs: &[(Value, Value)]) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": { "app": "a" }, "creationTimestamp": time(0) },
        "spec": { "nodeName": "node", "containers": [{ "name": "app", "image": "java" }],
            "ephemeralContainers": runs.iter().map(|(spec, _)| spec).collect::<Vec<_>>() },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True",
            "lastTransitionTime": time(1) }],
            "containerStatuses": [{ "name": "app", "containerID": format!("containerd://{ID}"), "restartCount": 0,
                "ready": true, "state": { "running": { "startedAt": time(1) } } }],
            "ephemeralContainerStatuses": runs.iter().map(|(_, status)| status).collect::<Vec<_>>() },
    })
}

/// An object of Pods `app: a`, and all that is known.
struct World {
    fleet: Fleet,
    spec: Value,
    generation: i64,
    memory: Memory,
    status: PrometheusJmxExporterStatus,
    content: Content,
    blocked: HashMap<Arc<str>, String>,
    ledger: Ledger,
    image: String,
    now: i64,
}

impl World {
    fn new() -> Self {
        let config = json!({ "configMapName": "c", "configMapKey": "k" });
        let world = Self {
            fleet: Fleet::default(),
            spec: json!({ "labelSelector": { "app": "a" }, "port": 9400, "config": config }),
            generation: 1,
            memory: Memory::default(),
            status: PrometheusJmxExporterStatus::default(),
            content: Content::Found("1".to_owned()),
            blocked: HashMap::new(),
            ledger: Ledger::default(),
            image: "operator".to_owned(),
            now: 100,
        };
        world.fleet.listed("", true);
        world
    }

    fn see(&self, pod: Value) {
        let pod: PodContainers = serde_json::from_value(pod).unwrap();
        self.fleet.pod(&Change::Applied(pod), |_| {});
    }

    fn object(&self, name: &str, created: i64) -> PrometheusJmxExporter {
        serde_json::from_value(json!({ "apiVersion": "banzaicloud.com/v1alpha1", "kind": "PrometheusJmxExporter",
            "metadata": { "name": name, "namespace": "n", "generation": self.generation,
            "creationTimestamp": time(created) }, "spec": self.spec }))
        .unwrap()
    }

    fn look(&mut self) -> Plan {
        let object = self.object("e", 0);
        let resolved = resolve(&object).unwrap();
        self.fleet.selects(&("n".to_owned(), "e".to_owned()), Some(resolved.clone()));
        let plan = plan(&Facts {
            image: &self.image,
            resolved: &resolved,
            memory: &self.memory,
            content: &self.content,
            is_changing: false,
            is_edited: self.status.observed_generation.is_some_and(|seen| seen != self.generation),
            stopped: false,
            fleet: &self.fleet.read(),
            ledger: &self.ledger,
            blocked: &self.blocked,
            others: &HashMap::new(),
            deciding_since: at(0),
            in_contact_since: at(0),
            now: at(self.now),
        });
        self.memory = plan.memory.clone();
        self.ledger = plan.decision.ledger.clone();
        let facts =
            StatusFacts { object: &object, resolved: &resolved, content: &self.content, plan: &plan, complaint: None };
        self.status = status(&facts, &self.status, at(self.now)).unwrap().0;
        plan
    }

    /// The names of the Pods that a container joins at the next look.
    fn joins(&mut self) -> Vec<String> {
        self.look().decision.plan.steps.iter().map(|step| step.place.to_string()).collect()
    }

    /// Of condition Ready.
    fn reason(&mut self) -> String {
        self.look();
        self.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().reason.clone()
    }

    /// The reasons that are counted, with one Pod each.
    fn refused(&mut self) -> Vec<String> {
        self.look();
        let examples = &self.status.jvms.as_ref().unwrap().examples;
        let of = |(reason, pods): (&String, &Vec<String>)| {
            format!("{reason} {}", pods[0].split(':').next().unwrap_or_default())
        };
        examples.iter().map(of).collect()
    }
}

#[test]
fn one_is_first_and_the_others_follow_when_it_has_soaked() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.see(pod(name, &[]));
    }
    assert_eq!(world.joins(), ["a"]);
    let running = json!({ "running": { "startedAt": time(100) } });
    world.see(pod("a", &[run("jmx-0-1", 101, "1", &running)]));
    world.now = 105;
    assert_eq!(world.joins(), Vec::<String>::new(), "it is at work");
    world.see(pod("a", &[run("jmx-0-1", 101, "1", &exports(102))]));
    world.now = 114;
    assert_eq!(world.joins(), Vec::<String>::new(), "it soaks");
    world.now = 125;
    assert_eq!(world.joins(), ["b"]);
    assert_eq!(world.status.metrics_endpoints.len(), 1);
}

#[test]
fn a_refusal_lasts_as_long_as_its_cause_and_is_checked_less_and_less_often() {
    let said = |reason: &str| ended(100, 101, 1, &format!("{{\"reason\":\"{reason}\",\"message\":\"m\"}}"));
    for (reason, wait) in [("AttachDisabled", None), ("NoJvm", Some(30)), ("PortInUse", Some(30))] {
        let mut world = World::new();
        world.see(pod("a", &[run("jmx-0-1", 99, "1", &said(reason))]));
        assert_eq!(world.refused(), [format!("{reason} a")]);
        assert_eq!(world.reason(), "JvmsRefused");
        // It ended in the future, by its kubelet's clock: that ends no wait.
        world.now = 101;
        assert_eq!(world.look().jvms[0].until, wait.map(|wait| at(101 + wait)), "{reason}");
        world.now = 101 + 30;
        assert_eq!(world.joins().len(), usize::from(wait.is_some()), "{reason}");
    }
    // Another port is another question.
    let mut world = World::new();
    world.see(pod("a", &[run("jmx-0-1", 99, "1", &said("PortInUse"))]));
    world.spec["port"] = 9500.into();
    assert_eq!(world.joins(), ["a"]);
    // The second time it is asked about after two minutes.
    let mut world = World::new();
    world.see(pod("a", &[run("jmx-0-1", 60, "1", &said("NoJvm")), run("jmx-0-2", 99, "1", &said("NoJvm"))]));
    world.now = 101 + 119;
    assert_eq!(world.joins(), Vec::<String>::new());
    world.now = 101 + 120;
    assert_eq!(world.joins(), ["a"]);
}

#[test]
fn a_message_that_was_cut_says_its_reason_all_the_same_and_one_without_any_is_no_verdict() {
    for (message, wanted) in [
        ("{\"reason\":\"AttachDisabled\",\"message\":\"option -XX:+Dis", "AttachDisabled a"),
        ("{\"reason\":\"FromTheFuture\",\"message\":\"m\"}", "HelperFailed a"),
        ("", "HelperFailed a"),
    ] {
        let mut world = World::new();
        world.see(pod("a", &[run("jmx-0-1", 99, "1", &ended(100, 101, 137, message))]));
        // What its kubelet may say of the JVM's container a moment later is waited for.
        world.now = 107;
        assert_eq!(world.refused(), [wanted], "{message:?}");
        assert_eq!(world.memory.harmed, None);
    }
}

#[test]
fn a_kubelet_that_falls_silent_in_the_middle_frees_no_budget() {
    let mut world = World::new();
    world.see(pod("known", &[run("jmx-0-1", 10, "1", &exports(11))]));
    world.look();
    let mut silent = pod("a", &[run("jmx-0-1", 99, "1", &json!({ "running": { "startedAt": time(99) } }))]);
    silent["status"]["conditions"][0] = json!({ "type": "Ready", "status": "False", "lastTransitionTime": time(99) });
    world.see(silent);
    world.see(pod("b", &[]));
    assert_eq!(world.joins(), Vec::<String>::new());
}

#[test]
fn what_may_not_be_known_is_left_alone() {
    // A kubelet that is silent may have said something old.
    let mut world = World::new();
    let mut silent = pod("a", &[]);
    silent["status"]["conditions"][0] = json!({ "type": "Ready", "status": "False", "lastTransitionTime": time(50) });
    world.see(silent);
    assert_eq!(world.joins(), Vec::<String>::new());
    // A run that never ended holds its place until it may not begin any more.
    let mut world = World::new();
    world.see(pod("a", &[run("jmx-0-1", 99, "1", &json!({ "running": {} }))]));
    world.now = 99 + 600 + 179;
    assert_eq!(world.joins(), Vec::<String>::new());
    world.now += 1 + 30;
    assert_eq!(world.joins(), ["a"]);
    // Annotations go only where all objects are known.
    let world = World::new();
    let mut marked = pod("a", &[]);
    marked["metadata"]["annotations"] = json!({ "jmx-prometheus-exporter": "verified" });
    world.see(marked);
    assert_eq!(world.fleet.read().orphans().len(), 1);
    world.fleet.selects(&("n".to_owned(), "typo".to_owned()), None);
    assert!(world.fleet.read().orphans().is_empty(), "nobody can say what it selects");
    world.fleet.gone(&("n".to_owned(), "typo".to_owned()));
    world.fleet.listed("", false);
    assert!(world.fleet.read().orphans().is_empty(), "there may be others");
}

#[test]
fn a_jvm_that_was_started_again_in_its_container_is_another_one() {
    let mut world = World::new();
    let (first, mut second) = (run("jmx-0-1", 10, "0", &exports(11)), run("jmx-0-2", 60, "1", &Value::Null));
    let none = "{\"reason\":\"NoJvm\",\"message\":\"this JVM has no configuration of ours\"}";
    second.1["state"] = ended(61, 62, 1, none);
    world.see(pod("a", std::slice::from_ref(&first)));
    assert_eq!((world.joins(), world.status.metrics_endpoints.len()), (vec!["a".to_owned()], 1), "to be rewritten");
    world.ledger = Ledger::default();
    world.see(pod("a", &[first, second]));
    world.now = 62 + 120;
    let plan = world.look();
    assert_eq!(world.status.metrics_endpoints, []);
    assert!(!plan.jvms[0].next.as_ref().unwrap().rewrites);
}

#[test]
fn five_containers_join_one_and_no_more() {
    let mut world = World::new();
    let failed = ended(50, 51, 137, "");
    let runs: Vec<_> = (1..=5).map(|n| run(&format!("jmx-0-{n}"), 40 + n, "1", &failed)).collect();
    world.see(pod("a", &runs[..4]));
    world.now = 10_000;
    assert_eq!(world.joins(), ["a"]);
    world.see(pod("a", &runs));
    assert_eq!((world.refused(), world.joins()), (vec!["TooManyRuns a".to_owned()], Vec::new()));
    // Debug containers of others do not count.
    let mut foreign = pod("a", &runs[..4]);
    let all = foreign["spec"]["ephemeralContainers"].as_array_mut().unwrap();
    all.extend((0..20).map(|n| json!({ "name": format!("debugger-{n}"), "image": "busybox" })));
    world.see(foreign);
    assert_eq!(world.joins(), ["a"]);
}

#[test]
fn the_older_of_two_objects_keeps_a_pod() {
    let mut world = World::new();
    world.see(pod("a", &[]));
    let other = |created| resolve(&world.object("other", created)).unwrap();
    let (older, younger) = (other(-5), other(5));
    world.fleet.selects(&("n".to_owned(), "other".to_owned()), Some(younger));
    assert_eq!(world.joins(), ["a"]);
    world.fleet.selects(&("n".to_owned(), "other".to_owned()), Some(older));
    assert_eq!((world.refused(), world.joins()), (vec!["OtherObject a".to_owned()], Vec::new()));
}

#[test]
fn the_container_that_joins_runs_as_the_jvm_does_with_no_more_rights() {
    let mut world = World::new();
    let ask = |world: &mut World, pod: Value, identity: Option<&Identity>| {
        world.see(pod);
        let plan = world.look();
        let resolved = resolve(&world.object("e", 0)).unwrap();
        let jvm = &plan.jvms[0];
        let next = jvm.next.as_ref().unwrap();
        let desired = plan.desired.as_ref().unwrap();
        let place = (&*jvm.target, jvm.target.instance(&next.container).unwrap());
        container(&resolved, desired, place, next.rewrites, ("operator@sha256:1", identity), at(100))
    };
    let unknown = ask(&mut world, pod("a", &[]), None);
    assert_eq!((&unknown["name"], &unknown["image"]), (&json!("jmx-0-1"), &json!("operator@sha256:1")));
    let security = &unknown["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsNonRoot"]), (&json!(65_532), &json!(true)));
    assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(security["allowPrivilegeEscalation"], json!(false));
    let known = ask(&mut world, pod("a", &[]), Some(&Identity { user: 1001, group: 5 }));
    assert_eq!(
        (&known["securityContext"]["runAsUser"], &known["securityContext"]["runAsGroup"]),
        (&json!(1001), &json!(5))
    );
    // A name that is taken.
    let mut taken = pod("a", &[]);
    taken["spec"]["ephemeralContainers"] = json!([{ "name": "jmx-0-3", "image": "busybox" }]);
    assert_eq!(ask(&mut world, taken, None)["name"], json!("jmx-0-4"));
    let mut own = pod("a", &[]);
    own["spec"]["securityContext"] = json!({ "runAsUser": 7 });
    own["spec"]["containers"][0]["securityContext"] = json!({ "capabilities": { "add": ["SYS_TIME"] } });
    let own = ask(&mut world, own, Some(&Identity { user: 1001, group: 5 }));
    assert_eq!(own["securityContext"]["runAsUser"], json!(7));
    assert_eq!(own["securityContext"]["capabilities"], json!({ "add": ["SYS_TIME"], "drop": ["ALL"] }));
    let mut root = pod("a", &[]);
    root["spec"]["securityContext"] = json!({ "runAsUser": 0 });
    root["spec"]["containers"][0]["securityContext"] = json!({ "capabilities": { "drop": ["NET_RAW"] } });
    let root = ask(&mut world, root, None);
    assert_eq!(root["securityContext"]["capabilities"], json!({ "drop": ["NET_RAW"] }));
    assert!(root["securityContext"].get("runAsNonRoot").is_none());
}
