//! JVMs that are left alone: each says why, and runs on.

use olm_tests::jvm::runtimes;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab};
use olm_tests::{eventually, run};
use serde_json::{Value, json};

fn options(options: &str) -> Value {
    json!({ "env": [{ "name": "JAVA_TOOL_OPTIONS", "value": options }] })
}

#[test]
fn a_jvm_that_is_left_alone_says_why_and_the_others_export() {
    run(async {
        let lab = Lab::of_jvms("jmx-reasons").await;
        let shell = |script: &str| json!({ "command": ["bash", "-c", script] });
        // Its file's name does not say what it is.
        let already = "echo 'rules: []' >/tmp/own.yaml; cp /dev/image/exporter.jar /tmp/exporter; \
            exec $JAVA -javaagent:/tmp/exporter=9500:/tmp/own.yaml -cp /dev/image Main";
        // As if a helper had been killed when it was about to have it load: a process keeps its start with `exec`.
        let loaded = "touch /tmp/.jmx-exporter-1-$(cut -d' ' -f22 /proc/1/stat); exec $JAVA -cp /dev/image Main";
        let two = "$JAVA -cp /dev/image Main & $JAVA -cp /dev/image Main & sleep 600";
        let all = [
            ("disabled", options("-XX:+DisableAttachMechanism"), "AttachDisabled"),
            ("dynamic", options("-XX:-EnableDynamicAgentLoading"), "AttachDisabled"),
            ("signals", options("-Xrs"), "SignalUnsafe"),
            ("busy", json!({ "args": [PORT.to_string()] }), "PortInUse"),
            ("none", shell("sleep 600"), "NoJvm"),
            ("several", shell(two), "SeveralJvms"),
            ("already", shell(already), "AlreadyExporting"),
            ("loaded", shell(loaded), "LoadedBefore"),
            ("mute", options("-Dsun.net.httpserver.maxReqHeaders=1"), "ScrapeFailed"),
            ("memory", json!({ "volumeMounts": [{ "name": "cgroup", "mountPath": "/sys/fs/cgroup" }] }), "LowMemory"),
            ("readonly", json!({ "securityContext": { "readOnlyRootFilesystem": true } }), "ReadOnlyTmp"),
        ];
        lab.config("cgroup", &json!({ "memory.max": "209715200", "memory.current": "157286400", "memory.stat": "" }));
        let volumes = json!([{ "name": "cgroup", "configMap": { "name": "cgroup" } },
            { "name": "scratch", "emptyDir": {} }]);
        let as_root = json!({ "securityContext": { "runAsUser": 0 }, "volumes": volumes });
        let scratch = json!({ "securityContext": { "readOnlyRootFilesystem": true },
            "volumeMounts": [{ "name": "scratch", "mountPath": "/tmp" }] });
        lab.jvm("scratch", "jvm:any", &scratch, &as_root);
        for (name, container, _) in &all {
            lab.jvm(name, "jvm:any", container, &as_root);
        }
        for version in runtimes().keys() {
            lab.jvm(&format!("java{version}"), &format!("jvm:{version}"), &json!({}), &as_root);
        }
        lab.exporter(&json!({ "rollout": { "maxConcurrent": "100%", "canary": { "soak": "0s" } } }));
        for (name, _, reason) in &all {
            let said = lab.exporter_refuses(name, reason).await;
            assert_eq!(lab.restarts(name).await, 0, "{said}");
            assert!(!lab.annotations(name).await.contains_key("jmx-prometheus-exporter"), "{said}");
        }
        let status = lab.exporter_settles("JvmsRefused").await;
        let jvms = status.jvms.expect("counts");
        let (refused, exporting) = (i32::try_from(all.len()).unwrap(), i32::try_from(runtimes().len()).unwrap() + 1);
        assert_eq!((jvms.refused, jvms.exporting, jvms.waiting), (refused, exporting, 0), "{jvms:#?}");
        lab.metrics("scratch", PORT).await.unwrap();
        for version in runtimes().keys() {
            lab.metrics(&format!("java{version}"), PORT).await.unwrap();
        }
        // Enough is left for an object that asks for less.
        lab.edit_exporter(json!({ "minFreeMemory": "32Mi" })).await;
        eventually("it exports", LONG, || async {
            let jvms = lab.exporter_status("exporter").await.jvms.unwrap_or_default();
            if jvms.exporting == exporting + 1 { Ok(()) } else { Err(format!("{jvms:#?}")) }
        })
        .await;
        for (name, ..) in &all {
            assert_eq!(lab.restarts(name).await, 0, "{name}");
        }
        lab.end().await;
    });
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_and_holds_a_place_until_it_can() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-image").await;
        lab.operators.clear();
        lab.start_operator(&[("OPERATOR_IMAGE", "registry.example/oneagent-operator:missing")]).await;
        for name in ["first", "second"] {
            lab.plain_jvm(name);
            lab.runs(name).await;
        }
        lab.exporter(&json!({}));
        let said = lab.exporter_refuses("first", "HelperImage").await;
        assert!(said.contains("registry.example/oneagent-operator:missing"), "{said}");
        assert!(lab.joined("second").await.is_empty(), "one at a time");
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.exporter_says("ImageUnknown").await;
        lab.end().await;
    });
}
