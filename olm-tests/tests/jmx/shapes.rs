//! JVMs in Pods of other shapes: below scripts, beside other containers, killed for memory, stalled. They export, or
//! say why not, and no other JVM pays for it.

use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::{eventually, run};
use serde_json::{Value, json};

/// A container that runs a script instead of its image's JVM.
fn script(text: &str) -> Value {
    json!({ "command": ["bash", "-c", text] })
}

/// A Pod's spec with two containers of JVMs, one of which runs a script instead.
fn beside(names: [&str; 2], scripted: Option<(&str, &str)>) -> Value {
    let containers = names.map(|name| {
        let mut container = json!({ "name": name, "image": "jvm:any" });
        if let Some((_, text)) = scripted.filter(|(whose, _)| *whose == name) {
            container["command"] = script(text)["command"].clone();
        }
        container
    });
    json!({ "containers": containers, "securityContext": { "runAsUser": 0 } })
}

/// All processes are in sight of what joins one container, and it takes the JVM of that one.
#[test]
fn containers_that_share_processes_have_the_right_jvm_load() {
    run(async {
        let lab = Lab::of_jvms("jmx-shared").await;
        let both = beside(["app", "other"], None);
        let second = beside(["other", "app"], Some(("other", "sleep 600")));
        for (pod, jvms, mut spec) in [("both", 2, both), ("second", 1, second)] {
            spec["shareProcessNamespace"] = true.into();
            lab.jvm(pod, "", &json!({}), &spec);
            lab.runs(pod).await;
            let now = lab.pod(pod).await;
            eventually("all of them are in sight", SOON, || async {
                let processes = lab.shell(&now, "other", "cat /proc/[0-9]*/comm 2>/dev/null; true").await?;
                if processes.matches("java").count() == jvms { Ok(()) } else { Err(processes) }
            })
            .await;
        }
        lab.exporter(&json!({ "rollout": { "maxConcurrent": "100%", "canary": { "soak": "0s" } } }));
        lab.exporting(&["both", "second"]).await;
        // What joined the first container of the second Pod saw the JVM of the other one, and let it be.
        for (pod, runs) in [("both", 1), ("second", 2)] {
            assert!(lab.is_touched(pod, "app").await && !lab.is_touched(pod, "other").await, "{pod}");
            assert!(lab.metrics(pod, PORT).await.expect("an answer").contains("jvm_"), "{pod}");
            assert_eq!((lab.joined(pod).await.len(), lab.restarts(pod).await), (runs, 0), "{pod}");
            assert!(lab.has_loaded_once(pod).await, "{pod}");
        }
        lab.end().await;
    });
}

/// As the kernel does it: it kills what takes most, which is the JVM, and the container ends with it.
#[test]
fn a_canary_killed_for_memory_stops_all_until_an_edit() {
    run(async {
        let lab = Lab::of_jvms("jmx-oom").await;
        let listens = format!("grep -qs ':{PORT:04X} [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6");
        let killed = format!(
            "$JAVA -cp /dev/image Main & until {listens}; do sleep 0.1; done; \
             touch /tmp/oomkilled; kill -KILL $!; wait $!"
        );
        lab.jvm("a", "jvm:any", &script(&killed), &json!({ "securityContext": { "runAsUser": 0 } }));
        for pod in ["b", "c"] {
            lab.plain_jvm(pod);
        }
        for pod in ["a", "b", "c"] {
            lab.runs(pod).await;
        }
        lab.exporter(&json!({}));
        lab.exporter_says("AttachHarmful").await;
        let ended = eventually("it is started again", SOON, || async {
            let status = lab.pod("a").await.status.and_then(|status| status.container_statuses).unwrap_or_default();
            let again = status.into_iter().find(|one| one.restart_count == 1 && one.ready);
            again.and_then(|one| one.last_state?.terminated).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("OOMKilled")));
        // A Pod that comes is seen, and so are the others; nothing joins any.
        lab.plain_jvm("d");
        lab.runs("d").await;
        lab.exporter_selects(4).await;
        lab.exporter_says("AttachHarmful").await;
        assert_eq!((lab.begun("a").await, lab.restarts("a").await), (1, 1));
        for pod in ["b", "c", "d"] {
            assert_eq!((lab.begun(pod).await, lab.restarts(pod).await), (0, 0), "{pod}");
        }
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", "a", "--wait=false"]);
        lab.edit_exporter(json!({ "rollout": { "retry": "it has more memory", "maxConcurrent": "100%" } })).await;
        lab.exporting(&["b", "c", "d"]).await;
        lab.end().await;
    });
}

/// Its script lives on, and starts another one: no restart of the container says that it ended.
#[test]
fn a_jvm_below_a_script_that_ends_of_the_load_stops_all() {
    run(async {
        let lab = Lab::of_jvms("jmx-below").await;
        let again = "$JAVA -cp /dev/image Main halt; exec $JAVA -cp /dev/image Main";
        lab.jvm("below", "jvm:any", &script(again), &json!({ "securityContext": { "runAsUser": 0 } }));
        lab.runs("below").await;
        lab.exporter(&json!({}));
        lab.exporter_says_that("AttachHarmful", "the JVM ended within ten seconds").await;
        lab.plain_jvm("other");
        lab.runs("other").await;
        lab.exporter_selects(2).await;
        lab.exporter_says("AttachHarmful").await;
        assert_eq!((lab.begun("below").await, lab.begun("other").await), (1, 0));
        assert_eq!(lab.restarts("below").await, 0);
        lab.edit_exporter(json!({ "rollout": { "retry": "it was the application" } })).await;
        // The script's second JVM is another one: nothing was loaded in it.
        lab.exporting(&["below", "other"]).await;
        assert_eq!((lab.begun("below").await, lab.begun("other").await), (2, 1));
        assert_eq!(lab.restarts("below").await + lab.restarts("other").await, 0);
        lab.end().await;
    });
}

#[test]
fn a_port_of_another_process_is_left_until_it_is_free() {
    run(async {
        let lab = Lab::of_jvms("jmx-taken").await;
        let listens = format!(
            "$JAVA -cp /dev/image Main {PORT} & until [ -e /tmp/free ]; do sleep 0.2; done; kill $!; exec sleep 600"
        );
        let mut other = script(&listens);
        (other["name"], other["image"]) = ("other".into(), "jvm:any".into());
        let both = json!([{ "name": "app", "image": "jvm:any" }, other]);
        let spec = json!({ "containers": both, "securityContext": { "runAsUser": 0 } });
        lab.jvm("first", "", &json!({}), &spec);
        lab.runs("first").await;
        let pod = lab.pod("first").await;
        eventually("the other one listens", SOON, || async {
            lab.shell(&pod, "app", &format!("exec 3<>/dev/tcp/127.0.0.1/{PORT}")).await
        })
        .await;
        lab.exporter(&json!({ "container": "app" }));
        let said = lab.exporter_refuses("first", "PortInUse").await;
        assert!(said.contains("port 9400"), "{said}");
        assert!(!lab.is_touched("first", "app").await && lab.loads("first").await == 0, "{said}");
        assert!(lab.exporter_status("exporter").await.metrics_endpoints.is_empty(), "{said}");
        // It is looked at again without an edit.
        lab.shell(&pod, "other", "touch /tmp/free").await.expect("a file");
        lab.exporting(&["first"]).await;
        assert!(lab.metrics("first", PORT).await.expect("an answer").contains("jvm_"));
        assert!(lab.begun("first").await > 1 && lab.is_touched("first", "app").await);
        assert!(!lab.is_touched("first", "other").await && lab.restarts("first").await == 0);
        assert!(lab.has_loaded_once("first").await);
        lab.end().await;
    });
}

/// It stops between the new file and the answer that would say that it was read.
#[test]
fn a_jvm_that_stalls_in_a_rewrite_takes_it_when_it_goes_on() {
    run(async {
        let lab = Lab::of_jvms("jmx-stalls").await;
        // The loop starts no program, so that it is quicker than a scrape.
        let stalls = "$JAVA -cp /dev/image Main & until [ -e /tmp/go ]; do sleep 0.2; done
            file=$(echo /tmp/.jmx-exporter-*.json); until [[ $(<$file) == *again* ]]; do :; done
            kill -STOP $!; until [ -e /tmp/continue ]; do sleep 0.2; done; kill -CONT $!; wait $!";
        lab.jvm("first", "jvm:any", &script(stalls), &json!({ "securityContext": { "runAsUser": 0 } }));
        lab.exporter(&json!({}));
        lab.exporting(&["first"]).await;
        let pod = lab.pod("first").await;
        lab.shell(&pod, "app", "touch /tmp/go").await.expect("a file");
        // Rules that match nothing, so that a scrape takes longer than the loop.
        let none: Vec<String> = (0..200).map(|number| format!("{{pattern: none{number}}}")).collect();
        let up = "{pattern: 'java.lang<type=Runtime>.*Uptime', name: again}";
        lab.configuration(&format!("rules: [{}, {up}]", none.join(", ")));
        eventually("what brings it has ended", LONG, || async {
            let joined = lab.joined("first").await;
            let ended = joined.iter().filter(|one| one.state.as_ref().is_some_and(|state| state.terminated.is_some()));
            if ended.count() == 2 { Ok(()) } else { Err(format!("{joined:#?}")) }
        })
        .await;
        lab.shell(&pod, "app", "touch /tmp/continue").await.expect("a file");
        // No one edits anything.
        lab.exporting(&["first"]).await;
        assert!(lab.metrics("first", PORT).await.expect("an answer").contains("\nagain "));
        assert!(lab.has_loaded_once("first").await && lab.restarts("first").await == 0);
        lab.end().await;
    });
}
