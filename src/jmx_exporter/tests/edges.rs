//! Outages and edits in the middle: helpers that are killed, images that are corrected, objects that become invalid.
//!
//! Must not repeat what `harm` tries.

use super::*;
use crate::jmx_exporter::marks::{differ, wanted};

/// A run that only brings another configuration.
fn rewrite(name: &str, asked: i64, sha256: &str, state: &Value) -> (Value, Value) {
    let mut run = run(name, asked, sha256, state);
    run.0["args"].as_array_mut().unwrap().push("--rewrite".into());
    run
}

fn said(reason: &str, from: i64) -> Value {
    ended(from, from + 1, 1, &json!({ "reason": reason, "message": "m" }).to_string())
}

#[test]
fn what_a_killed_helper_left_behind_is_unknown_and_written_again() {
    let mut world = World::new();
    let killed = rewrite("jmx-0-2", 60, "2", &ended(61, 62, 137, ""));
    world.see(pod("a", &[run("jmx-0-1", 10, "1", &exports(11)), killed]));
    world.now = 200;
    let plan = world.look();
    assert_eq!(plan.jvms[0].exports.as_ref().unwrap().sha256, "", "the first or the second");
    assert!(plan.jvms[0].next.as_ref().unwrap().rewrites);
}

#[test]
fn a_rewrite_that_fails_is_repeated_later_and_later() {
    for reason in ["ScrapeFailed", "ReadOnlyTmp"] {
        let mut world = World::new();
        world.content = Content::Found("2".to_owned());
        world.see(pod("a", &[run("jmx-0-1", 10, "1", &exports(11)), rewrite("jmx-0-2", 60, "2", &said(reason, 61))]));
        world.now = 70;
        let until = world.look().jvms[0].until;
        assert_eq!((until, world.joins()), (Some(at(62 + 120)), Vec::new()), "{reason}");
        world.now = 62 + 120;
        assert_eq!(world.joins(), ["a"]);
    }
}

#[test]
fn a_helper_that_had_not_touched_its_jvm_did_no_harm() {
    let mut world = World::new();
    let mut pod = pod("a", &[run("jmx-0-1", 99, "1", &said("Untouched", 100))]);
    let status = &mut pod["status"]["containerStatuses"][0];
    status["lastState"] = ended(50, 101, 1, "");
    status["lastState"]["terminated"]["containerID"] = format!("containerd://{ID}").into();
    (status["containerID"], status["restartCount"]) = (format!("containerd://{OTHER_ID}").into(), 1.into());
    world.see(pod);
    world.now = 1_000;
    assert_eq!(world.reason(), "Attaching");
}

#[test]
fn harm_is_heard_in_a_pod_that_ended_of_it() {
    let harmed = ended(100, 101, 1, &json!({ "reason": "Harmed", "message": "it ended" }).to_string());
    let mut world = World::new();
    let mut over = pod("a", &[run("jmx-0-1", 99, "1", &harmed)]);
    over["status"]["phase"] = "Failed".into();
    world.see(over.clone());
    world.see(pod("b", &[]));
    assert_eq!((world.reason(), world.joins()), ("AttachHarmful".to_owned(), Vec::new()));
    // An edit forgives it for good, while the Pod stays.
    world.generation = 2;
    assert_eq!(world.joins(), ["b"]);
    world.ledger = Ledger::default();
    assert_eq!((world.joins(), world.memory.harmed.clone()), (vec!["b".to_owned()], None));
    // Its node ended this one, for want of memory.
    let mut world = World::new();
    over["status"]["reason"] = "Evicted".into();
    world.see(over);
    world.see(pod("b", &[]));
    assert_eq!(world.joins(), ["b"]);
}

#[test]
fn a_job_that_is_done_while_a_helper_is_at_work_came_to_no_harm() {
    let harmed = json!({ "reason": "Harmed", "message": "it ended", "loadedAt": time(99) }).to_string();
    for (said, code, policy, wanted) in [
        (&*harmed, 0, "Never", "Attaching"),
        ("", 0, "OnFailure", "Attaching"),
        (&*harmed, 0, "Always", "AttachHarmful"),
        (&*harmed, 1, "Never", "AttachHarmful"),
        ("", 143, "Never", "AttachHarmful"),
    ] {
        let mut world = World::new();
        let mut over = pod("a", &[run("jmx-0-1", 90, "1", &ended(95, 101, 1, said))]);
        over["spec"]["restartPolicy"] = policy.into();
        over["status"]["phase"] = if code == 0 { "Succeeded" } else { "Failed" }.into();
        let status = &mut over["status"]["containerStatuses"][0];
        status["state"] = ended(50, 101, code, "");
        status["state"]["terminated"]["containerID"] = format!("containerd://{ID}").into();
        world.see(over);
        world.see(pod("b", &[]));
        assert_eq!(world.reason(), wanted, "{said:?} {code} {policy}");
    }
}

#[test]
fn a_rewrite_that_never_began_leaves_the_configuration_as_it_is() {
    let mut world = World::new();
    let held = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
    world.see(pod("a", &[run("jmx-0-1", 10, "1", &exports(11)), rewrite("jmx-0-2", 60, "2", &held)]));
    world.now = 60 + 600 + 180 + 1;
    assert_eq!((world.reason(), world.joins()), ("AllExporting".to_owned(), Vec::new()), "the edit was taken back");
}

#[test]
fn an_older_object_that_becomes_invalid_gives_its_pods_to_no_other() {
    let mut world = World::new();
    world.see(pod("a", &[]));
    let older = resolve(&world.object("other", -5)).unwrap();
    world.fleet.selects(&("n".to_owned(), "other".to_owned()), Some(older));
    world.fleet.selects(&("n".to_owned(), "other".to_owned()), None);
    assert_eq!((world.refused(), world.joins()), (vec!["OtherObject a".to_owned()], Vec::new()));
}

#[test]
fn an_object_that_becomes_invalid_is_not_what_a_reconcile_began_with() {
    let world = World::new();
    let (key, resolved) = (("n".to_owned(), "e".to_owned()), resolve(&world.object("e", 0)).unwrap());
    let is_still = || world.fleet.read().is_still(&key, &resolved);
    world.fleet.selects(&key, Some(resolved.clone()));
    assert!(is_still());
    world.fleet.selects(&key, None);
    assert!(!is_still());
    world.fleet.selects(&key, Some(resolved.clone()));
    assert!(is_still());
}

#[test]
fn a_run_whose_image_was_corrected_is_waited_for_no_longer_than_it_is_valid() {
    let held = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
    let mut world = World::new();
    world.image = "corrected".to_owned();
    world.see(pod("a", &[run("jmx-0-1", 99, "1", &held)]));
    world.now = 99 + 600 + 180 + 30;
    assert_eq!(world.joins(), ["a"]);
    world.image = "operator".to_owned();
    world.ledger = Ledger::default();
    assert_eq!((world.refused(), world.joins()), (vec!["HelperImage a".to_owned()], Vec::new()), "it fares no better");
    // Of what else keeps one from starting, such as a ConfigMap of another name, the next run may be rid.
    let mut world = World::new();
    let held = json!({ "waiting": { "reason": "CreateContainerConfigError", "message": "no such ConfigMap" } });
    world.see(pod("a", &[run("jmx-0-1", 99, "1", &held)]));
    world.now = 99 + 600 + 180 + 30;
    assert_eq!(world.joins(), ["a"]);
}

#[test]
fn twenty_containers_join_a_pod_and_no_more_however_often_its_container_restarts() {
    let mut world = World::new();
    let runs: Vec<_> = (1..=20)
        .map(|n| {
            let mut run = run(&format!("jmx-0-{n}"), 20 + n, "1", &ended(50, 51, 137, ""));
            // What these joined has ended.
            let id = if n <= 16 { OTHER_ID } else { ID };
            run.0["args"][3] = format!("--container={id}").into();
            run
        })
        .collect();
    world.see(pod("a", &runs[..19]));
    world.now = 100_000;
    assert_eq!(world.joins(), ["a"]);
    world.ledger = Ledger::default();
    world.see(pod("a", &runs));
    assert_eq!((world.refused(), world.joins()), (vec!["TooManyRuns a".to_owned()], Vec::new()));
    let example = &world.status.jvms.as_ref().unwrap().examples["TooManyRuns"][0];
    assert!(example.contains("4 containers joined container app, and 20 the Pod"), "{example}");
}

#[test]
fn a_status_lists_two_hundred_endpoints_and_counts_all() {
    let mut world = World::new();
    for number in 0..201 {
        world.see(pod(&format!("a-{number}"), &[run("jmx-0-1", 10, "1", &exports(11))]));
    }
    assert_eq!(world.reason(), "AllExporting");
    assert_eq!((world.status.metrics_endpoints.len(), world.status.jvms.as_ref().unwrap().exporting), (200, 201));
}

#[test]
fn an_annotation_whose_value_another_client_removed_is_set_again() {
    let (mut now, path) = (wanted(Some(9400)), "prometheus.io/path".to_owned());
    now.insert(path.clone(), "/own".to_owned());
    assert!(!differ(&now, Some(9400), std::slice::from_ref(&path)));
    now.remove(&path);
    assert!(differ(&now, Some(9400), &[path]));
}

#[test]
fn a_jvm_that_may_be_another_users_is_looked_for_at_once_as_that_user_and_once() {
    let said = |reason: &str, user: i64, from: i64| {
        let identity = json!({ "user": user, "group": 5, "capabilities": "0" });
        ended(from, from + 1, 1, &json!({ "reason": reason, "message": "m", "identity": identity }).to_string())
    };
    let user = |world: &World| world.fleet.read().identity("java").map(|identity| identity.user);
    let mut world = World::new();
    let first = run("jmx-0-1", 60, "1", &said("NoJvm", 1001, 99));
    world.see(pod("a", std::slice::from_ref(&first)));
    assert_eq!((world.joins(), user(&world)), (vec!["a".to_owned()], Some(1001)));
    world.ledger = Ledger::default();
    world.see(pod("a", &[first, run("jmx-0-2", 99, "1", &said("NoJvm", 0, 100))]));
    world.now = 102;
    assert_eq!((world.joins(), user(&world)), (Vec::new(), Some(1001)), "it is no JVM's");
    world.see(pod("b", &[run("jmx-0-1", 99, "1", &said("NotReachable", 1002, 100))]));
    assert_eq!(user(&world), Some(1002));
}

#[test]
fn a_group_belongs_to_the_user_with_whom_it_was_learned() {
    let mut world = World::new();
    let mut pod = pod("a", &[]);
    pod["spec"]["containers"][0]["securityContext"] = json!({ "runAsUser": 2000 });
    world.see(pod);
    let plan = world.look();
    let resolved = resolve(&world.object("e", 0)).unwrap();
    let (jvm, identity) = (&plan.jvms[0], Identity { user: 1000, group: 1000 });
    let place = (&*jvm.target, jvm.target.instance("app").unwrap());
    let asked =
        container(&resolved, plan.desired.as_ref().unwrap(), place, false, ("operator", Some(&identity)), at(100));
    let security = &asked["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(2000), &Value::Null));
}

#[test]
fn a_spec_that_means_nothing_names_each_field_and_the_remedy() {
    for (field, value, said) in [
        ("labelSelector", json!({}), "spec.labelSelector"),
        ("port", 0.into(), "spec.port is 0: use a number from 1 to 65535"),
        ("port", 65_536.into(), "spec.port is 65536"),
        ("config", json!({ "configMapName": "A", "configMapKey": "k" }), "spec.config.configMapName is \"A\""),
        ("config", json!({ "configMapName": "c", "configMapKey": "" }), "spec.config.configMapKey is \"\""),
        ("minFreeMemory", "much".into(), "spec.minFreeMemory is \"much\": use a quantity such as 96Mi, or 0"),
        ("rollout", json!({ "maxConcurrent": "x" }), "spec.rollout.maxConcurrent"),
        ("rollout", json!({ "canary": { "soak": "soon" } }), "spec.rollout.canary.soak is \"soon\""),
    ] {
        let mut world = World::new();
        world.spec[field] = value;
        let why = resolve(&world.object("e", 0)).unwrap_err();
        assert!(why.contains(said), "{field}: {why}");
    }
}

#[test]
fn whatever_keeps_a_jvm_from_exporting_its_example_says_what_helps() {
    for (reason, helps) in [
        ("NoJvm", "spec.container"),
        ("SeveralJvms", "as its process 1"),
        ("NotReachable", "-javaagent"),
        ("LoadFailed", "restart the Pod"),
        ("AlreadyExporting", "without that exporter"),
    ] {
        let mut world = World::new();
        world.see(pod("a", &[run("jmx-0-1", 99, "1", &said(reason, 100))]));
        world.look();
        let example = world.status.jvms.as_ref().unwrap().examples[reason][0].clone();
        assert!(example.starts_with("a: m; ") && example.contains(helps), "{example}");
    }
}
