//! JVMs that run already serve metrics, and no JVM ends for it.

use olm_tests::lab::Lab;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::run;
use olm_tests::sandbox::has_users;
use serde_json::json;

#[test]
fn jvms_that_run_and_those_that_come_export_and_prometheus_finds_them() {
    run(async {
        let lab = Lab::of_jvms("jmx-basics").await;
        let as_root = json!({ "securityContext": { "runAsUser": 0 } });
        lab.jvm("first", "jvm:any", &as_root, &json!({}));
        lab.runs("first").await;
        lab.exporter(&json!({}));
        lab.exporter_says("AllExporting").await;
        assert!(lab.metrics("first", PORT).await.expect("an answer").contains("jvm_"));
        // Only their image knows their user, and the first of them says.
        lab.jvm("second", "jvm:17-user", &json!({}), &json!({}));
        lab.exporter_says("Attaching").await;
        lab.exporter_says("AllExporting").await;
        lab.jvm("third", "jvm:17-user", &json!({}), &json!({}));
        lab.exporter_says("Attaching").await;
        let status = lab.exporter_says("AllExporting").await;
        let endpoints: Vec<(String, i32)> =
            status.metrics_endpoints.into_iter().map(|endpoint| (endpoint.pod, endpoint.port)).collect();
        assert_eq!(endpoints, ["first", "second", "third"].map(|pod| (pod.to_owned(), 9400)));
        let unknown = if has_users() { 2 } else { 1 };
        for (pod, runs) in [("first", 1), ("second", unknown), ("third", 1)] {
            let annotations = lab.is_annotated(pod).await;
            let of = |key: &str| annotations.get(key).map_or("", String::as_str);
            assert_eq!(of("jmx-prometheus-exporter"), "verified");
            assert_eq!((of("prometheus.io/scrape"), of("prometheus.io/port")), ("true", "9400"));
            assert_eq!(of("prometheus.io/path"), "/metrics");
            lab.metrics(pod, PORT).await.unwrap();
            assert_eq!((lab.joined(pod).await.len(), lab.restarts(pod).await), (runs, 0), "{pod}");
        }
        lab.end().await;
    });
}

/// In the second container, as a child of a shell, later than the object, and beside the short-lived JVMs of a status
/// script.
#[test]
fn a_jvm_is_found_wherever_it_is_in_its_pod_and_whenever_it_comes() {
    run(async {
        let lab = Lab::of_jvms("jmx-found").await;
        lab.exporter(&json!({ "rollout": { "maxConcurrent": "100%", "canary": { "soak": "0s" } } }));
        let late = json!({ "command": ["bash", "-c", "sleep 20; exec $JAVA -cp /dev/image Main"] });
        lab.jvm("late", "jvm:any", &late, &json!({ "securityContext": { "runAsUser": 0 } }));
        let child = json!({ "command": ["bash", "-c", "$JAVA -XX:-UsePerfData -cp /dev/image Main; sleep 1"],
            "env": [{ "name": "JAVA_TOOL_OPTIONS", "value": "-Xmx64m" }] });
        lab.jvm("child", "jvm:any", &child, &json!({ "securityContext": { "runAsUser": 0 } }));
        let checked = "$JAVA -cp /dev/image Main & while sleep 1; do $JAVA -version; done";
        let checked = json!({ "command": ["bash", "-c", checked] });
        lab.jvm("checked", "jvm:any", &checked, &json!({ "securityContext": { "runAsUser": 0 } }));
        let sidecar = json!({ "name": "sidecar", "image": "jvm:any", "command": ["bash", "-c", "sleep 600"] });
        let main = json!({ "name": "main", "image": "jvm:any" });
        let both = json!({ "containers": [sidecar, main], "securityContext": { "runAsUser": 0 } });
        lab.jvm("second", "", &json!({}), &both);
        lab.exporting(&["checked", "child", "late", "second"]).await;
        for (pod, runs) in [("late", 1), ("child", 1), ("checked", 1), ("second", 2)] {
            lab.metrics(pod, PORT).await.unwrap();
            assert_eq!((lab.joined(pod).await.len(), lab.restarts(pod).await), (runs, 0), "{pod}");
        }
        assert!(lab.has_loaded_once("checked").await);
        lab.end().await;
    });
}
