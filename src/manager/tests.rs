//! Looks from a spec and what the watches show to what is written and what the status says.
//!
//! Pure: nodes, workloads and Pods are values, and controllers do at once what they are asked.

mod certificates;
mod edges;
mod frozen;
mod order;
mod rollout;
mod stores;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::act::Done;
use super::fleet::Fleet;
use super::objects::recorded;
use super::observe::Seen;
use super::part::{Facts, Plan, State, Templates};
use super::plan::plan;
use super::resolve::{Resolved, resolve};
use super::status::{StatusFacts, status};
use crate::api::manager::package::PACKAGE;
use crate::api::manager::{Manager, ManagerStatus};
use crate::k8s::facts::ADDRESSES;
use crate::k8s::watch::Change;
use crate::stack::table::{Table, Workload};

/// The world, and a Manager in it.
struct World {
    fleet: Fleet,
    manager: Manager,
    version: u64,
    templates: BTreeMap<(usize, String), Templates>,
    /// When Pods become Ready; it is one minute after midnight now.
    ready_at: &'static str,
    now: DateTime<Utc>,
}

fn value<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl World {
    /// With the sample, and so many masters.
    fn new(masters: usize) -> Self {
        let sample: Value = serde_yaml::from_str(PACKAGE.samples[0].yaml).unwrap();
        let mut manager: Manager = value(sample);
        manager.metadata.uid = Some("manager".to_owned());
        manager.metadata.generation = Some(1);
        let world = Self {
            fleet: Fleet::default(),
            manager,
            version: 0,
            templates: BTreeMap::new(),
            ready_at: "1970-01-01T00:00:00Z",
            now: DateTime::UNIX_EPOCH + TimeDelta::minutes(1),
        };
        (0..masters).for_each(|number| world.node(&format!("m{number}"), &json!({})));
        world
    }

    /// With the sample, and masters of these names.
    fn of(masters: &[&str]) -> Self {
        let world = Self::new(0);
        for name in masters {
            world.node(name, &json!({}));
        }
        world
    }

    fn node(&self, name: &str, spec: &Value) {
        let node = json!({ "metadata": { "name": name, "labels": { "node-role.kubernetes.io/master": "" } },
            "spec": spec, "status": { "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": "1970-01-01T00:00:00Z" }],
                "addresses": [{ "type": "InternalIP", "address": format!("10.0.0.{}", name.len() + 1) }] } });
        self.fleet.node(&Change::Applied(value(node)));
    }

    fn resolved(&self) -> Resolved {
        resolve(&self.manager).unwrap()
    }

    fn plan(&self) -> Plan {
        let (resolved, all) = (self.resolved(), self.fleet.read());
        let (table, templates, now) = (Table::own(), &self.templates, self.now);
        plan(&Facts { table, resolved: &resolved, templates, all: &all, deleted: &HashSet::new(), now })
    }

    /// Writes down what identifies components. Returns of how many.
    fn enrol(&mut self) -> usize {
        self.enrol_those(|_| true)
    }

    /// The same, of some of them.
    fn enrol_those(&mut self, is_meant: impl Fn(&str) -> bool) -> usize {
        let mut enrolments = self.plan().enrolments;
        enrolments.retain(|((_, name), _)| is_meant(name));
        for (_, enrol) in &enrolments {
            self.version += 1;
            let entry = |text: &str| STANDARD.encode(text);
            let secrets = enrol.secrets.iter().map(|key| (key.clone(), entry(&format!("the secret {key}"))));
            let servers = (!enrol.members.0.is_empty()).then(|| enrol.members.to_string());
            let servers = servers.map(|servers| ("servers".to_owned(), entry(&servers)));
            let data: BTreeMap<String, String> = secrets.chain(servers).collect();
            let secret = json!({ "metadata": { "name": enrol.name, "namespace": "contrail", "labels": enrol.labels,
                "uid": enrol.name, "resourceVersion": self.version.to_string() }, "data": data });
            self.fleet.with(|all| drop(all.secrets.take(Change::Applied(value(secret)))));
        }
        enrolments.len()
    }

    /// Starts stores, and lets them grow as far as they may.
    fn stand_up(&mut self, stores: &[&str]) {
        self.write();
        let serve = |world: &Self| {
            for store in stores {
                world.serve(store, true);
            }
        };
        serve(self);
        while self.enrol_those(|name| stores.contains(&name)) > 0 {
            self.write();
            serve(self);
        }
    }

    /// Writes what may be written; every controller has seen it. Returns the names of the workloads.
    fn write(&mut self) -> Vec<String> {
        self.enrol();
        self.certify();
        let mut written = Vec::new();
        for part in self.plan().parts {
            let row = &Table::own().rows[part.row];
            let Some(mut object) = part.objects.last().cloned() else { continue };
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
            object["metadata"]["generation"] = 1.into();
            let own = json!({ "f:metadata": { "f:annotations": { format!("f:{ADDRESSES}"): {} } } });
            object["metadata"]["managedFields"] =
                json!([{ "manager": PACKAGE.name, "operation": "Apply", "fieldsV1": own }]);
            object["status"] = json!({ "observedGeneration": 1, "updateRevision": "newest", "replicas": 0,
                "currentNumberScheduled": 0,
                "numberMisscheduled": 0, "numberReady": 0, "desiredNumberScheduled": 0 });
            written.push(object["metadata"]["name"].as_str().unwrap().to_owned());
            match row.workload {
                Workload::StatefulSet => {
                    self.fleet.with(|all| drop(all.stateful_sets.take(Change::Applied(value(object)))));
                }
                Workload::DaemonSet => {
                    self.fleet.with(|all| drop(all.daemon_sets.take(Change::Applied(value(object)))));
                }
            }
        }
        written
    }

    /// A Pod of each server of a component, made from its present template.
    fn serve(&self, component: &str, is_ready: bool) {
        let sets = self.fleet.with(|all| all.stateful_sets.0.values().cloned().collect::<Vec<_>>());
        for set in sets.into_iter().filter(|set| set.name_any().starts_with(component)) {
            let set = serde_json::to_value(set).unwrap();
            for number in 0..set["spec"]["replicas"].as_u64().unwrap() {
                let node = &recorded(&set["spec"]["template"]["spec"]["affinity"])[number as usize];
                self.serve_on(node, &set, number, is_ready);
            }
        }
    }

    /// The Pod of a server, made from the present template of its workload.
    fn serve_on(&self, node: &str, set: &Value, number: u64, is_ready: bool) {
        let (metadata, spec) = (&set["spec"]["template"]["metadata"], &set["spec"]["template"]["spec"]);
        let mut pod = json!({ "metadata": metadata, "spec": { "nodeName": node, "containers": spec["containers"] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready",
                "lastTransitionTime": self.ready_at, "status": if is_ready { "True" } else { "False" } }] } });
        let name = format!("{}-{number}", set["metadata"]["name"].as_str().unwrap());
        let own = json!({ "name": name, "uid": name, "namespace": "contrail" });
        pod["metadata"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        pod["metadata"]["labels"]["controller-revision-hash"] = "newest".into();
        self.fleet.pod(&Change::Applied(value(pod)));
    }

    fn remove_node(&self, name: &str) {
        self.fleet.node(&Change::Deleted(value(json!({ "metadata": { "name": name }, "spec": {}, "status": {} }))));
    }

    fn remove_pod(&self, name: &str) {
        let pod = json!({ "metadata": { "name": name, "namespace": "contrail" }, "spec": {}, "status": {} });
        self.fleet.pod(&Change::Deleted(value(pod)));
    }

    fn state(&self, component: &str) -> State {
        self.plan().parts.into_iter().find(|part| part.name == component).unwrap().state
    }

    fn status(&self) -> ManagerStatus {
        let (seen, plan) =
            (Seen { resolved: self.resolved(), stopped: false, templates: BTreeMap::new() }, self.plan());
        let facts =
            StatusFacts { object: &self.manager, seen: &seen, plan: &plan, done: &Done::default(), complaint: None };
        status(Table::own(), &facts, &ManagerStatus::default(), DateTime::UNIX_EPOCH).0
    }

    fn says(&self, type_: &str) -> (String, String) {
        let status = self.status();
        let condition = status.conditions.into_iter().find(|one| one.type_ == type_).unwrap();
        (condition.reason, condition.message)
    }
}

#[test]
fn components_are_written_in_order_and_the_last_makes_it_ready() {
    let mut world = World::new(3);
    let stores =
        ["cassandra1-cassandra-statefulset", "zookeeper1-zookeeper-statefulset", "rabbitmq1-rabbitmq-statefulset"];
    assert_eq!(world.write(), stores);
    assert_eq!(world.state("config1"), State::Waiting("cassandra1, zookeeper1, rabbitmq1".to_owned()));
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    world.serve("rabbitmq1", false);
    assert_eq!(world.state("config1"), State::Waiting("rabbitmq1".to_owned()));
    assert_eq!(world.status().summary.unwrap().progress, "2/10");
    world.serve("rabbitmq1", true);
    assert_eq!(world.write().len(), 4);
    world.serve("config1", true);
    assert_eq!(world.write().len(), 8, "control, kubemanager, webui, provisionmanager; vRouters wait for control");
    for component in ["control1", "kubemanager1", "webui1", "provmanager1"] {
        world.serve(component, true);
    }
    assert_eq!(world.says("Ready").0, "StandingUp");
    assert_eq!(world.write().len(), 10);
    assert_eq!(world.says("Ready").0, "AllServing", "vRouters of which no node wants one hold nothing back");
    assert_eq!(world.plan().surplus, []);
}

#[test]
fn a_pod_of_another_template_does_not_serve_and_is_said_and_where_it_runs_is_no_other_template() {
    let mut world = World::new(3);
    world.write();
    world.serve("zookeeper1", true);
    assert_eq!(world.state("zookeeper1"), State::Serving);
    // Where its servers may run is no part of what they are.
    world.manager.spec.common_configuration.as_mut().unwrap().tolerations = Some(vec![value(json!({ "key": "a" }))]);
    assert_eq!(world.state("zookeeper1"), State::Starting, "it is not written yet");
    world.write();
    assert_eq!(world.state("zookeeper1"), State::Serving);
    let zookeepers = world.manager.spec.services.0.get_mut("zookeepers").unwrap();
    zookeepers[0]["spec"]["serviceConfiguration"]["containers"][2]["image"] = "zookeeper:3.9.3".into();
    world.write();
    let State::Updating(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert!(why.starts_with("3 of its Pods run an earlier template"), "{why}");
    assert_eq!((&*world.says("Ready").0, &*world.says("Degraded").0), ("StandingUp", "AsExpected"));
}

#[test]
fn what_cannot_be_told_is_not_taken_away() {
    let mut world = World::new(1);
    world.write();
    let stays = |world: &World| world.plan().surplus.is_empty();
    for services in [json!([{ "metadata": {} }]), json!("x"), json!([{ "metadata": { "name": 7 }, "spec": {} }])] {
        world.manager.spec.services.0.insert("zookeepers".to_owned(), services);
        assert!(stays(&world));
        assert_eq!(world.says("Degraded").0, "InvalidComponent");
    }
    // Left out, it is deleted; what another Manager has, or another table has made, is not.
    world.manager.spec.services.0.insert("zookeepers".to_owned(), json!([]));
    assert_eq!(world.plan().surplus.len(), 1);
    let owner =
        json!({ "apiVersion": "v1", "kind": "Manager", "name": "cluster1", "uid": "manager", "controller": true });
    for (kind, surplus) in [("zookeeper", 2), ("of-another-table", 1)] {
        let labels = json!({ Table::own().labels.kind.clone(): kind, kind: "one" });
        let map = json!({ "metadata": { "name": "one", "namespace": "contrail", "uid": "one", "labels": labels,
            "ownerReferences": [owner] } });
        world.fleet.with(|all| drop(all.config_maps.take(Change::Applied(value(map)))));
        assert_eq!(world.plan().surplus.len(), surplus, "{kind}");
    }
    world.manager.metadata.uid = Some("another".to_owned());
    assert!(stays(&world));
    let State::Waiting(why) = world.state("cassandra1") else { panic!("{:?}", world.state("cassandra1")) };
    assert!(why.contains("what the deleted Manager of this name has left"), "{why}");
    world.manager.metadata.name = Some("other".to_owned());
    let State::Refused(why) = world.state("cassandra1") else { panic!("{:?}", world.state("cassandra1")) };
    assert!(why.contains("belongs to Manager cluster1"), "{why}");
}

#[test]
fn nodes_that_are_cordoned_take_no_new_server_and_keep_those_they_have() {
    let mut world = World::new(3);
    world.node("m1", &json!({ "unschedulable": true }));
    world.write();
    let nodes = |world: &World| world.plan().parts.into_iter().find(|part| part.name == "zookeeper1").unwrap().placed;
    assert_eq!(nodes(&world), 1, "two nodes are open, and two is no odd number");
    world.node("m0", &json!({ "unschedulable": true }));
    world.node("m1", &json!({}));
    assert_eq!(nodes(&world), 1, "a store stays where it is, and as it is");
    let mut none = World::new(0);
    assert_eq!(none.write(), [] as [String; 0]);
    assert_eq!(none.says("Degraded").0, "NoNodes");
    assert!(none.says("Degraded").1.starts_with("cassandra1, zookeeper1,"), "{}", none.says("Degraded").1);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads the sources")]
fn no_file_of_the_kind_knows_a_component() {
    let kinds = Table::own().rows.iter().map(|row| &*row.kind);
    // These two are words of Kubernetes, too.
    let words: Vec<&str> =
        kinds.filter(|kind| !["config", "control"].contains(kind)).chain(["contrail", "sdn"]).collect();
    let source = |room: &str| format!("{}/src/{room}", env!("CARGO_MANIFEST_DIR"));
    let files = ["manager", "stack", "pki"].into_iter().flat_map(|room| std::fs::read_dir(source(room)).unwrap());
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    // The table is the one file that may, and this one.
    let is_meant = |file: &&PathBuf| file.extension() == Some("rs".as_ref()) && !file.ends_with("manager/tests.rs");
    let meant: Vec<&PathBuf> = files.iter().filter(is_meant).collect();
    assert!(meant.len() > 30, "{meant:?}");
    for file in meant {
        let text = std::fs::read_to_string(file).unwrap().to_lowercase();
        assert_eq!(words.iter().find(|word| text.contains(**word)), None, "in {}", file.display());
    }
}

#[test]
fn files_name_every_peer_and_no_other_and_one_that_does_not_render_changes_nothing() {
    let mut world = World::new(0);
    for (number, name) in ["a", "bb", "ccc", "dddd"].into_iter().enumerate() {
        world.node(name, &json!({ "unschedulable": number == 3 }));
    }
    let files = |world: &World| {
        let part = world.plan().parts.into_iter().find(|part| part.name == "zookeeper1").unwrap();
        part.objects.into_iter().find(|object| object["kind"] == "ConfigMap").map(|object| object["data"].clone())
    };
    world.enrol();
    let all = files(&world).unwrap();
    let line =
        |number: usize, address: &str| format!("server.{number}={address}:2888:3888:participant;{address}:2181\n");
    let peers: String = (1..=3).map(|number| line(number, &format!("10.0.0.{}", number + 1))).collect();
    assert_eq!(all["peers.10.0.0.3"].as_str().unwrap().trim_end(), peers.trim_end());
    assert_eq!(all["myid.10.0.0.4"], "3\n");
    assert_eq!(all.as_object().unwrap().len(), 10, "three files of three servers, and the mark of their revision");
    let zookeeper = Table::own().rows.iter().position(|row| row.kind == "zookeeper").unwrap();
    let key = (zookeeper, "zookeeper1".to_owned());
    let replace = |text: &str| Ok(BTreeMap::from([("zoo".to_owned(), text.to_owned())]));
    world.templates.insert(key.clone(), replace("tickTime={{ fields.tick }}"));
    let State::Invalid(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert!(why.starts_with("zookeeper1: template zoo: "), "{why}");
    assert_eq!(files(&world), None);
    world.templates.insert(key, replace("tickTime=1000"));
    assert_eq!(files(&world).unwrap()["zoo.10.0.0.2"], "tickTime=1000");
    let mark = |all: &Value| all.as_object().unwrap().keys().find(|key| key.starts_with("revision-")).cloned().unwrap();
    assert_ne!(mark(&files(&world).unwrap()), mark(&all));
}

#[test]
fn a_changed_template_reaches_one_server_at_a_time_while_all_others_serve() {
    let mut world = World::new(3);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    let pod = |world: &World| world.plan().replacement.map(|replacement| replacement.pod);
    assert_eq!(pod(&world), None);
    let zookeepers = world.manager.spec.services.0.get_mut("zookeepers").unwrap();
    zookeepers[0]["spec"]["serviceConfiguration"]["containers"][2]["image"] = "zookeeper:3.9.3".into();
    assert_eq!(pod(&world), None, "it is not written yet");
    world.write();
    assert_eq!(pod(&world).as_deref(), Some("zookeeper1-zookeeper-statefulset-2"));
    world.serve("cassandra1", false);
    assert_eq!(pod(&world), None, "another store is not whole");
    let State::Updating(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert!(why.ends_with("once Pod cassandra1-cassandra-statefulset-0 has been Ready for 10 s"), "{why}");
    world.ready_at = "1970-01-01T00:00:55Z";
    world.serve("cassandra1", true);
    let plan = world.plan();
    assert_eq!(plan.replacement, None, "it may crash in a moment");
    assert_eq!(plan.next, Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(65)));
}
