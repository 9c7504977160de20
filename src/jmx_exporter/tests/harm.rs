//! JVMs that come to harm, and those that only seem to.

use super::*;

#[test]
fn a_container_that_ended_with_a_helper_at_work_is_harm_until_an_edit() {
    let mut world = World::new();
    world.see(pod("b", &[]));
    world.see(restarted("a", (50, 101)));
    assert_eq!((world.reason(), world.joins()), ("AttachHarmful".to_owned(), Vec::new()));
    world.content = Content::Found("2".to_owned());
    assert_eq!((world.reason(), world.joins()), ("AttachHarmful".to_owned(), Vec::new()), "another configuration");
    // The Pod is deleted; what was seen stays.
    let gone: PodContainers = serde_json::from_value(pod("a", &[])).unwrap();
    world.fleet.pod(&Change::Deleted(gone), |_| {});
    assert_eq!((world.reason(), world.joins()), ("AttachHarmful".to_owned(), Vec::new()));
    world.generation = 2;
    assert_eq!(world.joins(), ["b"]);
}

#[test]
fn the_harm_of_a_pod_that_is_deleted_still_counts_where_several_are_allowed() {
    let mut world = World::new();
    world.spec["rollout"] = json!({ "maxFailures": 2 });
    world.see(pod("c", &[]));
    for (name, wanted) in [("a", "Attaching"), ("b", "AttachHarmful")] {
        world.see(restarted(name, (50, 101)));
        assert_eq!(world.reason(), wanted, "{name}");
        assert_eq!(world.reason(), wanted, "{name} is the same JVM at the second look");
        let gone: PodContainers = serde_json::from_value(pod(name, &[])).unwrap();
        world.fleet.pod(&Change::Deleted(gone), |_| {});
        assert_eq!(world.reason(), wanted, "{name} is deleted");
    }
    world.generation = 2;
    assert_eq!(world.reason(), "Attaching");
    assert_eq!(world.memory.harms.len(), 0, "an edit begins to count again");
}

#[test]
fn an_edit_has_a_harmed_jvm_tried_again_while_its_container_lives() {
    let mut world = World::new();
    let said = json!({ "reason": "Harmed", "message": "the JVM ended", "loadedAt": time(100) }).to_string();
    world.see(pod("a", &[run("jmx-0-1", 99, "1", &ended(100, 101, 1, &said))]));
    assert_eq!((world.reason(), world.joins()), ("AttachHarmful".to_owned(), Vec::new()));
    world.generation = 2;
    assert_eq!(world.joins(), ["a"], "its container may have started another JVM");
}

/// A Pod whose container was started again: the one before began and ended then. One of ours joined it, was killed at
/// second 101, and could say nothing.
fn restarted(name: &str, lived: (i64, i64)) -> Value {
    restarted_of(name, lived, &ended(100, 101, 137, ""))
}

/// The same, one of ours having ended so.
fn restarted_of(name: &str, (from, to): (i64, i64), joined: &Value) -> Value {
    let mut pod = pod(name, &[run("jmx-0-1", 99, "1", joined)]);
    let status = &mut pod["status"]["containerStatuses"][0];
    status["lastState"] = ended(from, to, 1, "");
    status["lastState"]["terminated"]["containerID"] = format!("containerd://{ID}").into();
    (status["containerID"], status["restartCount"]) = (format!("containerd://{OTHER_ID}").into(), 1.into());
    pod
}

#[test]
fn a_container_that_ends_long_after_a_helper_or_had_just_begun_came_to_no_harm() {
    for (from, to, wanted) in [(50, 101, "AttachHarmful"), (50, 900, "Attaching"), (98, 101, "Attaching")] {
        let mut world = World::new();
        world.see(restarted("a", (from, to)));
        world.now = 1000;
        assert_eq!(world.reason(), wanted, "{from} to {to}");
    }
}

#[test]
fn a_container_that_ends_with_one_of_ours_came_to_harm_whatever_that_could_still_say_of_it() {
    // Its files went a moment before it did; its port is another's, and nothing was touched.
    let torn = json!({ "reason": "ReadOnlyTmp", "message": "no such file", "loadedAt": time(100) }).to_string();
    let untouched = json!({ "reason": "PortInUse", "message": "taken" }).to_string();
    for (said, to, wanted) in [
        (&torn, 101, "AttachHarmful"),
        (&torn, 103, "AttachHarmful"),
        (&torn, 300, "Attaching"),
        (&untouched, 101, "Attaching"),
    ] {
        let mut world = World::new();
        world.see(restarted_of("a", (50, to), &ended(100, 101, 1, said)));
        world.now = 1000;
        assert_eq!(world.reason(), wanted, "{said} {to}");
    }
}

#[test]
fn a_pod_that_ceases_to_be_ready_while_its_jvm_loads_came_to_harm_and_one_that_does_later_did_not() {
    // A load alone may take half a minute, and what came of it does not matter.
    let slow = json!({ "result": "Exporting", "loadedAt": time(100) }).to_string();
    let failed = json!({ "reason": "ScrapeFailed", "message": "404", "loadedAt": time(100) }).to_string();
    let unloaded = json!({ "reason": "PortInUse", "message": "taken" }).to_string();
    for (second, state, wanted) in [
        (105, exports(100), "AttachHarmful"),
        (130, exports(100), "AllExporting"),
        (101, ended(90, 130, 0, &slow), "AttachHarmful"),
        (95, ended(90, 130, 0, &slow), "AllExporting"),
        (105, ended(90, 130, 1, &failed), "AttachHarmful"),
        (105, ended(90, 130, 1, &unloaded), "JvmsRefused"),
    ] {
        let mut world = World::new();
        let mut unready = pod("a", &[run("jmx-0-1", 89, "1", &state)]);
        let condition = &mut unready["status"]["conditions"][0];
        (condition["status"], condition["reason"]) = ("False".into(), "ContainersNotReady".into());
        condition["lastTransitionTime"] = time(second).into();
        world.see(unready);
        world.now = 140;
        assert_eq!(world.reason(), wanted, "{second}");
    }
}
