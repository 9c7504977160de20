//! What ends: JVMs, operators, helpers. No JVM is made to load twice, and one that comes to harm stops all.

use std::collections::BTreeSet;

use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::{eventually, run};
use serde_json::json;

#[test]
fn a_jvm_that_ends_of_the_load_stops_all_until_the_object_is_edited() {
    run(async {
        let lab = Lab::of_jvms("jmx-harm").await;
        let as_root = json!({ "securityContext": { "runAsUser": 0 } });
        lab.jvm("halts", "jvm:any", &json!({ "args": ["halt"] }), &as_root);
        lab.runs("halts").await;
        lab.exporter(&json!({}));
        let status = lab.exporter_says("AttachHarmful").await;
        assert_eq!(status.rollout.expect("a rollout").state, "Failed");
        for name in ["b", "c"] {
            lab.plain_jvm(name);
            lab.runs(name).await;
        }
        // Another configuration is no reason to go on, nor is another operator.
        lab.configuration("lowercaseOutputName: true");
        let mut lab = lab;
        lab.operators.clear();
        lab.start_exporter_operator().await;
        lab.exporter_selects(3).await;
        lab.exporter_says("AttachHarmful").await;
        assert!(lab.joined("b").await.is_empty() && lab.joined("c").await.is_empty());
        let status = lab.pod("halts").await.status;
        assert_eq!((lab.joined("halts").await.len(), lab.restarts("halts").await), (1, 1), "{status:#?}");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", "halts", "--wait=false"]);
        lab.edit_exporter(json!({ "rollout": { "retry": "it was the application" } })).await;
        lab.exporter_says("AllExporting").await;
        assert_eq!(lab.restarts("b").await + lab.restarts("c").await, 0);
        lab.end().await;
    });
}

#[test]
fn a_pod_that_ceases_to_be_ready_stops_all_even_if_its_status_was_wiped() {
    run(async {
        let lab = Lab::of_jvms("jmx-unready").await;
        let as_root = json!({ "securityContext": { "runAsUser": 0 } });
        lab.jvm("ails", "jvm:any", &json!({ "args": ["unready"] }), &as_root);
        lab.runs("ails").await;
        lab.exporter(&json!({}));
        let status = lab.exporter_says("AttachHarmful").await;
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready").expect("Ready");
        assert!(ready.message.contains("ceased to be Ready"), "{ready:#?}");
        lab.plain_jvm("well");
        lab.runs("well").await;
        lab.wipe_exporter().await;
        lab.exporter_says("AttachHarmful").await;
        assert_eq!((lab.joined("well").await.len(), lab.restarts("ails").await), (0, 0));
        lab.end().await;
    });
}

#[test]
fn a_container_that_starts_again_is_another_jvm() {
    run(async {
        let lab = Lab::of_jvms("jmx-again").await;
        lab.plain_jvm("first");
        lab.exporter(&json!({}));
        lab.exporter_says("AllExporting").await;
        lab.is_annotated("first").await;
        // Paused, so that no helper ends what the test looks at.
        lab.exporter(&json!({ "rollout": { "paused": true } }));
        let pod = lab.pod("first").await;
        lab.cluster.kubelet.real.with(&pod, "app", |container| container.kill()).expect("a container");
        assert!(lab.exporter_says("Paused").await.metrics_endpoints.is_empty());
        eventually("the annotations are gone", SOON, || async {
            let annotations = lab.annotations("first").await;
            if annotations.contains_key("jmx-prometheus-exporter") { Err(format!("{annotations:?}")) } else { Ok(()) }
        })
        .await;
        lab.exporter(&json!({ "rollout": { "paused": false } }));
        lab.exporter_says("AllExporting").await;
        lab.metrics("first", PORT).await.unwrap();
        let names: BTreeSet<String> = lab.joined("first").await.into_iter().map(|one| one.name).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["jmx-0-1", "jmx-1-1"]);
        lab.end().await;
    });
}

#[test]
fn operators_and_helpers_that_are_killed_leave_each_jvm_with_one_load() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-killed").await;
        for name in ["a", "b", "c", "d"] {
            lab.plain_jvm(name);
            lab.runs(name).await;
        }
        lab.exporter(&json!({ "rollout": { "maxConcurrent": 2, "canary": { "soak": "1s" } } }));
        for _ in 0..4 {
            let before = joined(&lab).await;
            eventually("another container joins", LONG, || async {
                let now = joined(&lab).await;
                if now > before || now >= 4 { Ok(()) } else { Err(now.to_string()) }
            })
            .await;
            lab.operators.clear();
            lab.start_exporter_operator().await;
        }
        // A helper that is killed says nothing, and its JVM lives.
        let pod = lab.pod("d").await;
        lab.cluster.kubelet.real.with(&pod, "jmx-0-1", |container| container.kill());
        // One that ended within the load leaves a JVM that must start again, because a second load would end it.
        let is_half_loaded = eventually("its JVM exports, or was loaded before", LONG, || async {
            let status = lab.exporter_status("exporter").await;
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").cloned();
            match ready.map(|ready| (ready.reason, ready.message)) {
                Some((reason, _)) if reason == "AllExporting" => Ok(false),
                Some((_, message)) if message.contains("LoadedBefore (d)") => Ok(true),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        if is_half_loaded {
            lab.cluster.kubelet.real.with(&pod, "app", |container| container.kill()).expect("a container");
        }
        lab.exporter_says("AllExporting").await;
        for name in ["a", "b", "c", "d"] {
            let restarts = i32::from(is_half_loaded && name == "d");
            assert!(lab.has_loaded_once(name).await && lab.restarts(name).await == restarts, "{name}");
            lab.metrics(name, PORT).await.unwrap();
        }
        lab.end().await;
    });
}

async fn joined(lab: &Lab<'_>) -> usize {
    let mut all = 0;
    for name in ["a", "b", "c", "d"] {
        all += lab.joined(name).await.len();
    }
    all
}
