//! The stop for everything that an operator watches: seen at once, said to all, and no Pod is deleted after it.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, version_of};
use serde_json::json;

#[test]
fn the_stop_for_the_whole_cluster_holds_every_oneagent() {
    olm_tests::run(async {
        let lab = Lab::new("update-stopped", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let stop = |value: &str| {
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "oneagent-operator", "namespace": lab.name },
                "data": { "stop": value } })
                .to_string(),
            );
        };
        // A user in a hurry is understood, and sees that it is so though nothing was under way.
        for value in ["true", "True", "yes", ""] {
            stop(value);
            let said = lab.condition("agent", "Progressing", "False", "Stopped").await;
            assert!(said.contains("nothing will be: ConfigMap oneagent-operator"), "{said}");
            let waits = lab.status("agent").await.rollout.unwrap().waiting_on;
            assert!(waits.iter().any(|waits| waits.contains("to continue, delete the key")), "{waits:?}");
            stop("False");
            lab.condition("agent", "Progressing", "False", "AsExpected").await;
        }
        stop("true");
        lab.condition("agent", "Progressing", "False", "Stopped").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let message = lab.says("agent", "Progressing", "ConfigMap oneagent-operator").await;
        assert!(message.contains("to continue, delete the key"), "{message}");
        lab.is_polled().await;
        assert!(lab.pods("agent").await.values().all(|pod| version_of(pod).as_deref() == Some(V1)));
        stop("false");
        lab.all_at("agent", V2, 2, SOON).await;
        lab.end().await;
    });
}

#[test]
fn twenty_times_no_pod_is_deleted_once_the_stop_was_seen() {
    olm_tests::run(async {
        let lab = Lab::new("stop-twenty", 50).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(50));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 50, LONG).await;
        let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "stop": "true" },
            "metadata": { "name": "oneagent-operator", "namespace": lab.name } });
        let deletions = || lab.requests().iter().filter(|r| r.resource == "pods" && r.verb == "delete").count();
        lab.cluster.vendor.publish(&lab.name, V2);
        for turn in 1..=20 {
            let before = deletions();
            eventually("it goes on", SOON, || async {
                let now = deletions();
                if now > before { Ok(()) } else { Err(now.to_string()) }
            })
            .await;
            lab.cluster.apply(&stop.to_string());
            lab.condition("agent", "Progressing", "False", "Stopped").await;
            let then = deletions();
            lab.is_looked_at().await;
            assert_eq!(deletions(), then, "in turn {turn} a Pod was deleted after it had said that it is stopped");
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "oneagent-operator"]);
        }
        lab.all_at("agent", V2, 50, LONG).await;
        assert_eq!(deletions(), 50, "each once");
        lab.end().await;
    });
}
