//! What an administrator may ask of the rollout to JVMs: when, how many at once, which first, how many may fail. No
//! container joins a Pod against it.

use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab};
use olm_tests::{eventually, run};
use serde_json::json;

#[test]
fn nothing_joins_before_stop_pause_window_and_blackout_let_it() {
    run(async {
        let lab = Lab::of_jvms("jmx-when").await;
        lab.plain_jvm("first");
        lab.runs("first").await;
        lab.config("jmx-exporter-operator", &json!({ "stop": "true" }));
        lab.exporter(&json!({ "rollout": { "paused": true } }));
        lab.exporter_says("Stopped").await;
        assert_eq!(lab.begun("first").await, 0);
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "jmx-exporter-operator"]);
        lab.exporter_says("Paused").await;
        assert_eq!(lab.begun("first").await, 0);
        // A window that opens in half a day; and one that is always open, in a blackout.
        let start = (chrono::Utc::now() + chrono::TimeDelta::hours(12)).format("%H:00").to_string();
        let freeze = json!([{ "from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "reason": "a freeze" }]);
        let later = json!({ "paused": false, "windows": [{ "start": start, "duration": "1h" }] });
        let frozen = json!({ "windows": [{ "start": "00:00", "duration": "168h" }], "blackouts": freeze });
        let in_freeze = "in a blackout (a freeze) until 2100-01-01T00:00:00Z";
        for (rollout, words) in [(later, "outside of every window until 20"), (frozen, in_freeze)] {
            lab.edit_exporter(json!({ "rollout": rollout })).await;
            lab.exporter_says_that("Held", words).await;
            assert_eq!(lab.begun("first").await, 0, "{words}");
        }
        lab.edit_exporter(json!({ "rollout": { "blackouts": [] } })).await;
        lab.exporting(&["first"]).await;
        // A configuration waits for its end, too, and reaches the JVM without another edit of the ConfigMap.
        lab.edit_exporter(json!({ "rollout": { "blackouts": freeze } })).await;
        lab.exporter_is_seen().await;
        lab.configuration("rules: [{pattern: 'java.lang<type=Runtime>.*Uptime', name: up}]");
        let status = lab.exporter_says_that("Held", in_freeze).await;
        assert_eq!((status.metrics_endpoints.len(), lab.begun("first").await), (1, 1));
        lab.edit_exporter(json!({ "rollout": { "blackouts": [] } })).await;
        lab.exporting(&["first"]).await;
        assert!(lab.metrics("first", PORT).await.expect("an answer").contains("\nup "));
        assert_eq!((lab.begun("first").await, lab.restarts("first").await), (2, 0));
        lab.end().await;
    });
}

/// How many containers joined these Pods.
async fn begun(lab: &Lab<'_>, pods: &[&str]) -> usize {
    let mut all = 0;
    for pod in pods {
        all += lab.begun(pod).await;
    }
    all
}

#[test]
fn canaries_and_max_concurrent_bound_what_joins_at_once() {
    run(async {
        let lab = Lab::of_jvms("jmx-at-once").await;
        // No JVM is needed: what joins is never started, and so never ends.
        let pods = ["a", "b", "c", "d", "e", "f"];
        for pod in pods {
            lab.jvm(pod, "jvm:any", &json!({ "command": ["bash", "-c", "sleep 3600"] }), &json!({}));
        }
        for pod in pods {
            lab.runs(pod).await;
        }
        lab.behave(|behaviour| behaviour.is_silent = true);
        for (most, canaries, count) in [
            (json!("100%"), json!(1), 1),
            (json!("100%"), json!("30%"), 2),
            (json!("50%"), json!("100%"), 3),
            (json!(5), json!("100%"), 5),
        ] {
            let rollout = json!({ "maxConcurrent": most, "canary": { "pods": canaries, "soak": "1h" } });
            lab.exporter(&json!({ "rollout": rollout }));
            eventually(&format!("{count} are begun"), LONG, || async {
                let now = begun(&lab, &pods).await;
                if now >= count { Ok(()) } else { Err(now.to_string()) }
            })
            .await;
            // It is looked at once more, and no other is begun.
            lab.edit_exporter(json!({ "rollout": { "retry": format!("after {count}") } })).await;
            lab.exporter_is_seen().await;
            assert_eq!(begun(&lab, &pods).await, count, "{rollout}");
            for pod in pods {
                assert!(lab.begun(pod).await <= 1, "{pod}");
            }
        }
        lab.end().await;
    });
}

#[test]
fn as_many_jvms_may_come_to_harm_as_max_failures_says() {
    run(async {
        let lab = Lab::of_jvms("jmx-failures").await;
        let halts = json!({ "args": ["halt"] });
        for pod in ["a", "b"] {
            lab.jvm(pod, "jvm:any", &halts, &json!({ "securityContext": { "runAsUser": 0 } }));
            lab.runs(pod).await;
        }
        lab.exporter(&json!({ "rollout": { "maxFailures": 2 } }));
        lab.exporter_says("AttachHarmful").await;
        assert_eq!((lab.begun("a").await, lab.begun("b").await), (1, 1), "the first one stops nothing");
        lab.plain_jvm("c");
        lab.runs("c").await;
        lab.exporter_selects(3).await;
        lab.exporter_says("AttachHarmful").await;
        assert_eq!(lab.begun("c").await, 0, "the second one stops all");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", "a", "b", "--wait=false"]);
        lab.edit_exporter(json!({ "rollout": { "retry": "they are gone" } })).await;
        lab.exporting(&["c"]).await;
        lab.end().await;
    });
}
