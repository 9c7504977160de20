//! Edits: of the configuration, the port, the selector; and objects that come and go.

use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::{eventually, run};
use serde_json::json;

/// Two JVMs that export.
async fn two(name: &str) -> Lab<'static> {
    let lab = Lab::of_jvms(name).await;
    for pod in ["first", "second"] {
        lab.plain_jvm(pod);
    }
    lab.exporter(&json!({ "rollout": { "canary": { "soak": "1s" } } }));
    lab.exporting(&["first", "second"]).await;
    for pod in ["first", "second"] {
        lab.is_annotated(pod).await;
    }
    lab
}

#[test]
fn a_good_configuration_reaches_all_jvms_and_a_bad_one_none_or_the_first_alone() {
    run(async {
        let lab = two("jmx-config").await;
        let runs = async || (lab.joined("first").await.len(), lab.joined("second").await.len());
        assert_eq!(runs().await, (1, 1));
        for (text, words) in [
            ("rules: []\nhostPort: a:1", "key hostPort (line 2)"),
            ("- rules", "not a mapping"),
            ("a: [", "not YAML"),
            ("", "not a mapping"),
        ] {
            lab.configuration(text);
            let status = lab.exporter_says_that("ConfigRejected", words).await;
            assert_eq!(status.metrics_endpoints.len(), 2);
        }
        assert_eq!(runs().await, (1, 1), "nobody was asked");
        lab.configuration("lowercaseOutputName: true\nrules: [{pattern: 'java.lang<type=Runtime>.*Uptime', name: up}]");
        lab.exporter_says("AllExporting").await;
        assert_eq!(runs().await, (2, 2));
        for pod in ["first", "second"] {
            assert!(lab.metrics(pod, PORT).await.expect("an answer").contains("\nup "), "{pod}");
        }
        lab.configuration("rules: [{pattern: '('}]");
        let status = lab.exporter_says("ConfigRejected").await;
        assert_eq!(status.metrics_endpoints.len(), 2, "both keep the previous one");
        let (first, second) = runs().await;
        assert_eq!(first + second, 5, "one of them was asked");
        lab.configuration("rules: [{pattern: 'java.lang<type=Runtime>.*Uptime', name: again}]");
        lab.exporter_says("AllExporting").await;
        for pod in ["first", "second"] {
            assert!(lab.metrics(pod, PORT).await.expect("an answer").contains("\nagain "), "{pod}");
            assert_eq!(lab.restarts(pod).await, 0);
        }
        lab.end().await;
    });
}

#[test]
fn a_configuration_that_keeps_changing_or_is_deleted_costs_no_run_too_many() {
    run(async {
        let lab = two("jmx-again-and-again").await;
        let runs = async || (lab.joined("first").await.len(), lab.joined("second").await.len());
        let named = |name: &str| format!("rules: [{{pattern: 'java.lang<type=Runtime>.*Uptime', name: {name}}}]");
        // The first of these reaches no JVM, unless the second takes its time.
        for name in ["a", "b", "c"] {
            lab.configuration(&named(name));
        }
        eventually("both take the last one", LONG, || async {
            let shown = async |pod| lab.metrics(pod, PORT).await.is_ok_and(|text| text.contains("\nc "));
            if shown("first").await && shown("second").await { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.exporter_says("AllExporting").await;
        let before = runs().await;
        assert!(before.0 <= 3 && before.1 <= 3, "{before:?}");
        let stays = async |reason: &str| {
            let status = lab.exporter_says(reason).await;
            assert_eq!(status.metrics_endpoints.len(), 2, "{reason}");
            assert!(lab.annotations("first").await.contains_key("prometheus.io/port"), "{reason}");
        };
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "exporter"]);
        stays("ConfigMapNotFound").await;
        lab.config("exporter", &json!({ "other.yaml": "rules: []" }));
        stays("ConfigKeyNotFound").await;
        lab.configuration(&named("c"));
        stays("AllExporting").await;
        lab.wipe_exporter().await;
        stays("AllExporting").await;
        assert_eq!(runs().await, before, "nothing was new to them");
        // Five containers may join one, and no more.
        for name in (0..4).map(|number| format!("n{number}")) {
            lab.configuration(&named(&name));
            eventually(&format!("{name} is there, or too much"), LONG, || async {
                let jvms = lab.exporter_status("exporter").await.jvms.unwrap_or_default();
                let shown = async |pod| lab.metrics(pod, PORT).await.is_ok_and(|t| t.contains(&format!("\n{name} ")));
                let is_there = shown("first").await && shown("second").await;
                if is_there || jvms.reasons.contains_key("TooManyRuns") { Ok(()) } else { Err(format!("{jvms:?}")) }
            })
            .await;
        }
        let said = lab.exporter_refuses("first", "TooManyRuns").await;
        assert!(said.contains("5 containers joined container app"), "{said}");
        assert_eq!(runs().await.0, 5);
        lab.metrics("first", PORT).await.unwrap();
        lab.end().await;
    });
}

#[test]
fn a_port_that_changes_needs_a_restart_and_annotations_go_with_the_selection() {
    run(async {
        let lab = two("jmx-edits").await;
        lab.edit_exporter(json!({ "port": 9500 })).await;
        let said = lab.exporter_refuses("first", "RestartNeeded").await;
        assert!(said.contains("port 9400"), "{said}");
        let status = lab.exporter_status("exporter").await;
        assert_eq!(status.metrics_endpoints.iter().map(|one| one.port).collect::<Vec<_>>(), [9400, 9400]);
        lab.edit_exporter(json!({ "port": 9400 })).await;
        lab.exporter_says("AllExporting").await;
        // An older object keeps its Pods; and one that is renamed continues with them.
        lab.exporter_named("younger", &json!({}));
        eventually("the younger one names the older", SOON, || async {
            let status = lab.exporter_status("younger").await;
            let said = format!("{:?}", status.jvms);
            if said.contains("PrometheusJmxExporter exporter is older") { Ok(()) } else { Err(said) }
        })
        .await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pje", "exporter"]);
        eventually("the younger one takes over", SOON, || async {
            let status = lab.exporter_status("younger").await;
            let jvms = status.jvms.clone().unwrap_or_default();
            if jvms.progress == "2/2" { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
        assert!(lab.annotations("first").await.contains_key("jmx-prometheus-exporter"), "somebody still selects it");
        lab.cluster.kubectl(&["-n", &lab.name, "label", "pod", "second", "app-", "--overwrite"]);
        unmarked(&lab, "second").await;
        assert!(lab.annotations("first").await.contains_key("jmx-prometheus-exporter"));
        lab.metrics("second", PORT).await.unwrap();
        assert_eq!((lab.joined("first").await.len(), lab.joined("second").await.len()), (1, 1));
        lab.end().await;
    });
}

#[test]
fn annotations_are_removed_also_where_the_object_was_deleted_without_an_operator() {
    run(async {
        let mut lab = two("jmx-away").await;
        lab.operators.clear();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pje", "exporter"]);
        lab.start_exporter_operator().await;
        unmarked(&lab, "first").await;
        unmarked(&lab, "second").await;
        lab.end().await;
    });
}

/// Waits until a Pod has none of our annotations.
async fn unmarked(lab: &Lab<'_>, pod: &str) {
    eventually(&format!("the annotations of {pod} are gone"), SOON, || async {
        let annotations = lab.annotations(pod).await;
        let is_there = annotations.keys().any(|key| key.contains("prometheus"));
        if is_there { Err(format!("{annotations:?}")) } else { Ok(()) }
    })
    .await;
}
