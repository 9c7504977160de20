//! What a mistake in the spec, a lost node or a reboot must not do to a stack.
//!
//! Pure. Must not repeat what `stores` and `certificates` try.

use chrono::{DateTime, TimeDelta};
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{World, value};
use crate::api::manager::package::PACKAGE;
use crate::k8s::drift::is_current;
use crate::k8s::facts::ADDRESSES;
use crate::k8s::watch::Change;
use crate::manager::part::State;
use crate::pki::{Authority, Period};

/// Another image for a container of the first entry of a service.
fn edit(world: &mut World, service: &str, container: usize, image: &str) {
    let entry = world.manager.spec.services.0.get_mut(service).unwrap();
    let entry = if entry.is_array() { &mut entry[0] } else { entry };
    entry["spec"]["serviceConfiguration"]["containers"][container]["image"] = image.into();
}

/// A component's object of a kind, as it is to be written.
fn drawn(world: &World, component: &str, kind: &str) -> Option<Value> {
    let part = world.plan().parts.into_iter().find(|part| part.name == component).unwrap();
    part.objects.into_iter().find(|object| object["kind"] == kind)
}

/// Puts an object that is to be written among those that are known, with what the API server adds.
fn put(world: &mut World, mut object: Value) {
    world.version += 1;
    object["metadata"]["resourceVersion"] = world.version.to_string().into();
    object["metadata"]["uid"] = object["metadata"]["name"].clone();
    world.fleet.with(|all| drop(all.config_maps.take(Change::Applied(value(object)))));
}

#[test]
fn a_misspelt_key_deletes_nothing_of_a_service_that_the_spec_does_not_name() {
    let mut world = World::new(1);
    world.write();
    let services = &mut world.manager.spec.services.0;
    let zookeepers = services.remove("zookeepers").unwrap();
    services.insert("zookeeper".to_owned(), zookeepers);
    assert_eq!(world.plan().surplus, []);
    assert_eq!(world.says("Degraded").0, "InvalidComponent");
    world.manager.spec.services.0.remove("zookeeper");
    assert_eq!(world.plan().surplus.len(), 1, "without it the service is not wanted any more");
}

#[test]
fn a_lost_server_is_replaced_although_a_change_of_the_store_is_held() {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.stand_up(&["zookeeper1"]);
    edit(&mut world, "zookeepers", 2, "zookeeper:3.9.3");
    world.write();
    world.node("dddd", &json!({}));
    world.remove_node("bb");
    world.remove_pod("zookeeper1-zookeeper-statefulset-1");
    let enrolments = world.plan().enrolments;
    let (_, enrol) = enrolments.iter().find(|(_, one)| one.name.starts_with("zookeeper1")).unwrap();
    assert_eq!(enrol.members.to_string(), "1 a\n4 dddd\n3 ccc\n");
}

#[test]
fn a_pod_of_an_earlier_template_finds_what_it_waits_for_when_it_starts_again() {
    let mut world = World::new(1);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    world.write();
    world.serve("config1", true);
    let before = drawn(&world, "config1", "ConfigMap").unwrap();
    let mark = |map: &Value| -> Vec<String> {
        let keys = map["data"].as_object().unwrap().keys();
        keys.filter(|key| key.starts_with("revision-")).cloned().collect()
    };
    assert_eq!(mark(&before).len(), 1);
    put(&mut world, before.clone());
    let config = world.manager.spec.services.0.get_mut("config").unwrap();
    config["spec"]["serviceConfiguration"]["logLevel"] = "SYS_ERR".into();
    let after = drawn(&world, "config1", "ConfigMap").unwrap();
    assert_eq!(mark(&after).len(), 2, "{:?}", mark(&after));
    assert!(mark(&after).contains(&mark(&before)[0]));
    put(&mut world, after);
    assert_eq!(mark(&drawn(&world, "config1", "ConfigMap").unwrap()).len(), 2, "it comes to rest");
    world.write();
    world.serve("config1", true);
    assert_eq!(mark(&drawn(&world, "config1", "ConfigMap").unwrap()).len(), 1, "no Pod waits for the other any more");
}

#[test]
fn an_address_that_a_component_does_not_read_holds_it_up_no_more() {
    let mut world = World::new(1);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    assert_eq!(world.state("zookeeper1"), State::Serving);
    // A virtual node, which vRouters select, has no address.
    let node = json!({ "metadata": { "name": "virtual", "labels": { "node-role.kubernetes.io/master": "" } },
        "spec": { "unschedulable": true }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    world.fleet.node(&Change::Applied(value(node)));
    assert_eq!(world.state("zookeeper1"), State::Serving);
    assert!(drawn(&world, "zookeeper1", "StatefulSet").is_some());
}

#[test]
fn a_server_on_a_node_that_was_not_chosen_is_replaced() {
    let mut world = World::of(&["a", "bb", "ccc", "dddd"]);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    world.write();
    world.serve("config1", true);
    assert_eq!((world.state("config1"), world.plan().replacement), (State::Serving, None));
    // Of the same template, where its workload may not put one any more.
    let all = world.fleet.with(|all| all.stateful_sets.0.values().cloned().collect::<Vec<_>>());
    let set = all.into_iter().find(|set| set.name_any().starts_with("config1")).unwrap();
    world.serve_on("dddd", &serde_json::to_value(set).unwrap(), 2, true);
    world.node("ccc", &json!({ "unschedulable": true }));
    assert_eq!((world.state("config1"), world.plan().replacement), (State::Serving, None), "no other would take it");
    world.node("ccc", &json!({}));
    let State::Updating(why) = world.state("config1") else { panic!("{:?}", world.state("config1")) };
    assert_eq!(why, "1 of its Pods run on other nodes than its own, and are replaced one at a time");
    assert_eq!(
        world.plan().replacement.map(|replacement| replacement.pod).as_deref(),
        Some("config1-config-statefulset-2")
    );
}

/// Another client changes the nodes that a workload names, the record of them, or both.
#[test]
fn no_server_moves_where_another_client_changes_the_nodes_of_a_workload() {
    let term = |node: &str| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    let terms =
        "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let name = |set: &mut Value, nodes: &[&str]| {
        *set.pointer_mut(terms).unwrap() = nodes.iter().map(|node| term(node)).collect();
    };
    let note = |set: &mut Value, record: Option<&str>, manager: &str| {
        set["metadata"]["managedFields"][0]["manager"] = manager.into();
        let annotations = set["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(ADDRESSES);
        annotations.extend(record.map(|record| (ADDRESSES.to_owned(), record.into())));
    };
    let ghosts = "a=10.0.0.2,bb=10.0.0.3,ghost=10.0.0.9";
    let edits: [&dyn Fn(&mut Value); 8] = [
        &|set| name(set, &["a", "bb", "ccc", "dddd"]),
        &|set| name(set, &["a", "bb", "ccc", "ghost"]),
        &|set| name(set, &["dddd", "ghost"]),
        &|set| drop(set["spec"]["template"]["spec"].as_object_mut().unwrap().remove("affinity")),
        &|set| note(set, Some(ghosts), "kubectl-edit"),
        // Its field was taken over, and what was to undo it failed.
        &|set| note(set, Some(ghosts), PACKAGE.name),
        &|set| {
            name(set, &["a", "ghost", "ccc", "dddd"]);
            note(set, Some(ghosts), "kubectl-edit");
        },
        &|set| {
            name(set, &["a", "bb", "ccc", "ghost"]);
            note(set, None, PACKAGE.name);
        },
    ];
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    world.write();
    world.serve("config1", true);
    world.node("dddd", &json!({}));
    for component in ["config1", "zookeeper1"] {
        let before = drawn(&world, component, "StatefulSet").unwrap();
        let key = ("contrail".to_owned(), before["metadata"]["name"].as_str().unwrap().to_owned());
        let whole = world.fleet.read().stateful_sets.0[&key].clone();
        for (number, edit) in edits.iter().enumerate() {
            let mut set = serde_json::to_value(&whole).unwrap();
            edit(&mut set);
            world.fleet.with(|all| drop(all.stateful_sets.0.insert(key.clone(), value(set))));
            assert_eq!(world.state(component), State::Serving, "{component}, edit {number}");
            assert_eq!(drawn(&world, component, "StatefulSet").as_ref(), Some(&before), "{component}, edit {number}");
            assert_eq!(world.plan().replacement, None, "{component}, edit {number}");
        }
        world.fleet.with(|all| drop(all.stateful_sets.0.insert(key, whole)));
    }
}

#[test]
fn an_authority_that_a_user_made_is_never_replaced_by_another() {
    let mut world = World::new(0);
    world.node("a", &json!({}));
    world.manager.spec.services.0.retain(|key, _| key == "rabbitmq");
    world.stand_up(&["rabbitmq1"]);
    let made = Authority::make("Company Root", Period::of(TimeDelta::days(20 * 365), world.now)).unwrap();
    let mut secret = world.fleet.read().secrets.get("contrail", "contrail-ca-certificate").cloned().unwrap();
    let data = secret.data.as_mut().unwrap();
    data.insert("ca.crt".to_owned(), ByteString(made.certificate.into_bytes()));
    data.insert("ca.key".to_owned(), ByteString(made.key.expose_secret().as_bytes().to_vec()));
    world.fleet.with(|all| drop(all.secrets.take(Change::Applied(secret))));
    let step = |world: &World| world.plan().authority.unwrap().step;
    assert_eq!(step(&world), None, "it lasts longer than one that the operator would make");
    world.now += TimeDelta::days(19 * 365);
    assert_eq!(step(&world), None);
    let (_, why) = world.plan().authority.unwrap().trouble.unwrap();
    assert!(why.contains("next.crt and next.key"), "{why}");
}

#[test]
fn a_first_template_that_never_started_is_corrected_on_every_server() {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.enrol();
    world.write();
    world.serve("zookeeper1", false);
    edit(&mut world, "zookeepers", 2, "zookeeper:3.9.3");
    world.write();
    let plan = world.plan();
    assert_eq!((plan.replacement, plan.next), (None, Some(DateTime::UNIX_EPOCH + TimeDelta::minutes(5))));
    world.now = DateTime::UNIX_EPOCH + TimeDelta::minutes(5);
    let set = drawn(&world, "zookeeper1", "StatefulSet").unwrap();
    for (number, node) in ["a", "bb", "ccc"].into_iter().enumerate() {
        let replaced = world.plan().replacement.map(|replacement| replacement.pod);
        assert_eq!(replaced, Some(format!("zookeeper1-zookeeper-statefulset-{number}")));
        // Without a quorum none serves.
        world.serve_on(node, &set, u64::try_from(number).unwrap(), false);
    }
    assert_eq!(world.plan().replacement, None);
}

#[test]
fn an_image_whose_version_is_unknown_gets_what_the_newest_takes() {
    for (image, wanted) in [
        ("cassandra:3.11.4", true),
        ("cassandra:5.0.5", false),
        ("r.example/cassandra@sha256:0123", false),
        ("cassandra:latest", false),
        ("cassandra", false),
    ] {
        let mut world = World::new(1);
        edit(&mut world, "cassandras", 2, image);
        world.write();
        let files = drawn(&world, "cassandra1", "ConfigMap").unwrap();
        let file = files["data"]["cassandra.10.0.0.3"].as_str().unwrap();
        assert_eq!(file.contains("start_rpc"), wanted, "{image}");
    }
}

#[test]
fn a_store_that_is_asked_to_shrink_and_a_name_that_is_taken_twice_are_reported() {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    let zookeepers = world.manager.spec.services.0.get_mut("zookeepers").unwrap();
    zookeepers[0]["spec"]["commonConfiguration"] = json!({ "replicas": 1 });
    let (reason, message) = world.says("Degraded");
    assert_eq!(reason, "NotChanged", "{message}");
    assert!(message.contains("a store never shrinks"), "{message}");
    assert_eq!(drawn(&world, "zookeeper1", "StatefulSet").unwrap()["spec"]["replicas"], 3);
    let zookeepers = world.manager.spec.services.0.get_mut("zookeepers").unwrap().as_array_mut().unwrap();
    zookeepers[0]["spec"]["commonConfiguration"] = json!({});
    zookeepers.push(zookeepers[0].clone());
    let (reason, message) = world.says("Degraded");
    assert_eq!(reason, "InvalidComponent", "{message}");
    assert!(message.contains("another entry has the name zookeeper1"), "{message}");
}

/// Both workloads, what belongs to a store, and values of its own in place of the common ones.
#[test]
fn the_objects_of_a_store_and_of_what_runs_on_every_node_are_these() {
    let mut world = World::new(1);
    let service = |world: &mut World, key: &str, own: Value| {
        let entry = &mut world.manager.spec.services.0.get_mut(key).unwrap()[0];
        entry["spec"]["commonConfiguration"] = own;
    };
    let own = json!({ "nodeSelector": { "node-role.kubernetes.io/master": "" }, "imagePullSecrets": ["own"],
        "tolerations": [{ "key": "own", "operator": "Exists" }] });
    service(&mut world, "zookeepers", own);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    for component in ["config1", "control1"] {
        world.write();
        world.serve(component, true);
    }
    assert_eq!(world.state("zookeeper1"), State::Serving);
    let mut all: Vec<Value> = ["PodDisruptionBudget", "StatefulSet"]
        .into_iter()
        .map(|kind| drawn(&world, "zookeeper1", kind).unwrap())
        .collect();
    world.write();
    all.push(drawn(&world, "vroutermasternodes", "DaemonSet").unwrap());
    for object in &mut all {
        // Commands are the table's, and hashes say nothing to a reader.
        for annotations in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
            if let Some(all) = object.pointer_mut(annotations).and_then(Value::as_object_mut) {
                all.values_mut().for_each(|value| *value = "…".into());
            }
        }
        for containers in ["initContainers", "containers"] {
            let path = format!("/spec/template/spec/{containers}");
            for container in object.pointer_mut(&path).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().unwrap().remove("command");
                container.as_object_mut().unwrap().remove("env");
                container.as_object_mut().unwrap().remove("readinessProbe");
            }
        }
    }
    insta::assert_yaml_snapshot!(all);
}

#[test]
fn an_ignored_container_changes_nothing_and_an_unknown_stops() {
    let mut world = World::new(1);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    for component in ["config1", "control1"] {
        world.write();
        world.serve(component, true);
    }
    world.write();
    let before = drawn(&world, "vroutermasternodes", "DaemonSet").unwrap();
    let containers = |world: &mut World, change: &dyn Fn(&mut Vec<Value>)| {
        let entry = &mut world.manager.spec.services.0.get_mut("vrouters").unwrap()[0];
        change(entry["spec"]["serviceConfiguration"]["containers"].as_array_mut().unwrap());
    };
    let another = |name: &str| json!({ "name": name, "image": "i" });
    containers(&mut world, &|all| all.push(another("vroutercni")));
    let (reason, message) = world.says("NotCarriedOut");
    assert_eq!(reason, "Ignored", "{message}");
    assert!(message.contains("spec.services.vrouters[0]: container vroutercni"), "{message}");
    assert_eq!(drawn(&world, "vroutermasternodes", "DaemonSet").as_ref(), Some(&before));
    containers(&mut world, &|all| *all.last_mut().unwrap() = another("vrouteragnt"));
    let State::Invalid(why) = world.state("vroutermasternodes") else { panic!("an unknown container") };
    assert!(why.contains("there is no container vrouteragnt; the nearest name is vrouteragent"), "{why}");
    assert_eq!(drawn(&world, "vroutermasternodes", "DaemonSet"), None);
    assert!(drawn(&world, "vrouterworkernodes", "DaemonSet").is_some(), "the other entry continues");
    assert_eq!(world.plan().surplus, []);
    containers(&mut world, &|all| drop(all.pop()));
    assert_eq!(drawn(&world, "vroutermasternodes", "DaemonSet"), Some(before));
}

#[test]
fn a_node_without_its_label_keeps_a_store_and_no_other() {
    let mut world = World::of(&["a", "bb", "ccc", "dddd"]);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    world.write();
    world.serve("config1", true);
    assert_eq!(world.state("config1"), State::Serving);
    let nodes = |world: &World, component: &str| {
        world.plan().parts.into_iter().find(|part| part.name == component).unwrap().nodes.join(" ")
    };
    let unlabelled = |world: &World, name: &str| {
        let address = format!("10.0.0.{}", name.len() + 1);
        let node = json!({ "metadata": { "name": name }, "spec": {}, "status": {
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z" }],
            "addresses": [{ "type": "InternalIP", "address": address }] } });
        world.fleet.node(&Change::Applied(value(node)));
    };
    unlabelled(&world, "bb");
    assert_eq!(nodes(&world, "zookeeper1"), "a bb ccc");
    assert_eq!(nodes(&world, "config1"), "a dddd ccc");
    assert_eq!(world.state("zookeeper1"), State::Serving);
    assert!(
        world.plan().enrolments.iter().all(|((_, name), _)| name != "zookeeper1"),
        "its servers stay where they are"
    );
    assert_eq!((world.plan().surplus, &*world.says("Degraded").0), (Vec::new(), "AsExpected"));
    unlabelled(&world, "dddd");
    assert_eq!(nodes(&world, "config1"), "a bb ccc", "no other one is free");
    assert_eq!(world.state("config1"), State::Serving);
}

/// A Pod that starts later waits for this entry, which has no content.
#[test]
fn a_mark_that_is_removed_from_files_is_put_back() {
    let mut world = World::new(1);
    world.enrol();
    world.stand_up(&["zookeeper1"]);
    let map = drawn(&world, "zookeeper1", "ConfigMap").unwrap();
    let mut live = map.clone();
    let entries = live["data"].as_object_mut().unwrap();
    entries.retain(|key, _| !key.starts_with("revision-"));
    assert!(!is_current("us", &map, &live, &[]), "it is no longer what was applied");
}
