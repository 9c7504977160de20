//! What holds the replacement of Pods: a pause all of them, windows and blackouts those that run on every node.
//!
//! Pure. Must not repeat the rules of `stack::turn`.

use chrono::{DateTime, TimeDelta};
use serde_json::json;

use super::{World, value};
use crate::k8s::watch::Change;
use crate::manager::part::State;
use crate::manager::resolve::resolve;
use crate::stack::table::Table;

#[test]
fn while_paused_no_pod_is_replaced_and_that_is_no_alarm() {
    let mut world = World::new(1);
    world.manager.spec.services.0.retain(|key, _| key == "zookeepers");
    world.stand_up(&["zookeeper1"]);
    let zookeepers = world.manager.spec.services.0.get_mut("zookeepers").unwrap();
    zookeepers[0]["spec"]["serviceConfiguration"]["containers"][2]["image"] = "zookeeper:3.9.3".into();
    world.manager.spec.rollout = Some(value(json!({ "paused": true })));
    world.write();
    assert_eq!(world.plan().replacement, None);
    let State::Held(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert_eq!(why, "none is replaced while rollout.paused is true");
    let reasons = ["Ready", "Progressing", "Degraded"].map(|condition| world.says(condition).0);
    assert_eq!(reasons, ["Held", "Held", "AsExpected"]);
    world.manager.spec.rollout = None;
    assert!(world.plan().replacement.is_some());
}

#[test]
fn windows_and_blackouts_hold_what_runs_on_every_node_alone_and_a_mistake_in_them_is_said() {
    let mut world = World::new(1);
    world.manager.spec.rollout = Some(value(json!({
        "windows": [{ "start": "02:00", "duration": "4h" }],
        "blackouts": [{ "from": "1970-01-02T00:00:00Z", "to": "1970-01-03T00:00:00Z", "reason": "a feast" }],
    })));
    let rollout = world.resolved().rollout;
    let said = |kind: &str, hour: i64| {
        let row = Table::own().rows.iter().find(|row| row.kind == kind).unwrap();
        rollout.hold(row, DateTime::UNIX_EPOCH + TimeDelta::hours(hour))
    };
    assert_eq!(
        said("vrouter", 1).as_deref(),
        Some("none is replaced outside of every window until 1970-01-01T02:00:00Z")
    );
    assert_eq!(said("vrouter", 3), None);
    assert_eq!(
        said("vrouter", 27).as_deref(),
        Some("none is replaced in a blackout (a feast) until 1970-01-03T02:00:00Z")
    );
    assert_eq!(said("config", 1), None);
    world.manager.spec.rollout =
        Some(value(json!({ "maxUnavailable": "x", "windows": [{ "start": "25:00", "duration": "4h" }] })));
    let why = resolve(&world.manager).unwrap_err();
    assert!(why.contains("spec.rollout.maxUnavailable") && why.contains("spec.rollout.windows[0].start"), "{why}");
}

/// While the operator does not run, another client changes an image, and Pods are created: they carry our hash.
#[test]
fn a_pod_with_an_image_of_another_clients_is_replaced_and_one_of_a_mirrors_is_not() {
    let mut world = World::new(3);
    world.manager.spec.services.0.retain(|key, _| key == "zookeepers");
    world.stand_up(&["zookeeper1"]);
    assert_eq!(world.plan().replacement, None);
    let set = world.fleet.read().stateful_sets.0.values().next().cloned().unwrap();
    let template = serde_json::to_value(set).unwrap()["spec"]["template"].clone();
    let own = template["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let runs = |world: &World, number: usize, image: &str, revision: &str| {
        let mut pod = json!({ "metadata": template["metadata"],
            "spec": { "nodeName": format!("m{number}"), "containers": template["spec"]["containers"] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": "1970-01-01T00:00:00Z" }] } });
        let name = format!("zookeeper1-zookeeper-statefulset-{number}");
        for (key, value) in [("name", &*name), ("uid", &name), ("namespace", "contrail")] {
            pod["metadata"][key] = value.into();
        }
        pod["metadata"]["labels"]["controller-revision-hash"] = revision.into();
        pod["spec"]["containers"][0]["image"] = image.into();
        world.fleet.pod(&Change::Applied(value(pod)));
    };
    for (image, revision, is_replaced) in [
        ("zookeeper:foreign", "another", true),
        // What admission made of a Pod of the present revision is right.
        ("zookeeper:foreign", "newest", false),
        (&*format!("mirror/{own}"), "another", false),
        // Its revision differs by where its Pods may run.
        (&*own, "another", false),
    ] {
        runs(&world, 0, image, revision);
        let replacement = world.plan().replacement.map(|one| one.pod);
        let wanted = is_replaced.then(|| "zookeeper1-zookeeper-statefulset-0".to_owned());
        assert_eq!(replacement, wanted, "{image} {revision}");
        let is_serving = world.state("zookeeper1") == State::Serving;
        assert_eq!(is_serving, !is_replaced, "{image} {revision}");
    }
    // Admission that renames images did so with every Pod: one of the present revision says it.
    for number in [0, 1] {
        runs(&world, number, "zookeeper:renamed", if number == 0 { "another" } else { "newest" });
    }
    assert_eq!(world.plan().replacement, None);
}
