//! Outside events in the middle of an attach: Pods that go, operators that stop, kubelets that fall silent, rights that
//! are taken away, containers of others.

use olm_tests::jvm::OPERATOR;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{LONG, Lab};
use olm_tests::{eventually, run};
use serde_json::{Value, json};

/// A Pod is deleted while its JVM loads, and another of its name comes; another client has joined one before.
#[test]
fn a_pod_deleted_in_the_middle_is_replaced_and_foreign_containers_do_not_matter() {
    run(async {
        let lab = Lab::of_jvms("jmx-middle").await;
        lab.plain_jvm("first");
        lab.plain_jvm("theirs");
        for pod in ["first", "theirs"] {
            lab.runs(pod).await;
        }
        // Twenty of them, and one has the name that ours would have.
        let one = |name: &str| json!({ "name": name, "image": "busybox", "targetContainerName": "app" });
        let all: Vec<Value> = (0..20).map(|n| one(&format!("debug-{n}"))).chain([one("jmx-0-1")]).collect();
        let patch = json!({ "spec": { "ephemeralContainers": all } }).to_string();
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "patch",
            "pod",
            "theirs",
            "--subresource=ephemeralcontainers",
            "-p",
            &patch,
        ]);
        lab.exporter(&json!({ "rollout": { "canary": { "soak": "1s" } } }));
        eventually("a container joins it", LONG, || async {
            if lab.begun("first").await > 0 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", "first", "--grace-period=0", "--force"]);
        lab.plain_jvm("first");
        lab.exporting(&["first", "theirs"]).await;
        for pod in ["first", "theirs"] {
            lab.metrics(pod, PORT).await.unwrap();
            assert!(lab.has_loaded_once(pod).await && lab.restarts(pod).await == 0, "{pod}");
        }
        let ours = lab.joined("theirs").await.into_iter().filter(|one| one.image == OPERATOR);
        assert_eq!(ours.map(|one| one.name).collect::<Vec<_>>(), ["jmx-0-2"]);
        lab.end().await;
    });
}

/// One that is stopped while it leads, and wakes up when another one does.
#[test]
fn an_operator_that_wakes_up_beside_its_successor_has_no_jvm_load_twice() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-wakes").await;
        let pods = ["a", "b", "c"];
        for pod in pods {
            lab.plain_jvm(pod);
            lab.runs(pod).await;
        }
        lab.exporter(&json!({ "rollout": { "canary": { "soak": "1s" } } }));
        eventually("a container joins one of them", LONG, || async {
            let mut all = 0;
            for pod in pods {
                all += lab.joined(pod).await.len();
            }
            if all > 0 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.operators[0].process.signal("STOP");
        lab.start_exporter_operator().await;
        eventually("the other one leads", LONG, || async {
            let said = lab.operators[1].printed();
            if said.contains("\"leading\"") { Ok(()) } else { Err(said) }
        })
        .await;
        lab.operators[0].process.signal("CONT");
        lab.exporting(&pods).await;
        for pod in pods {
            assert_eq!((lab.joined(pod).await.len(), lab.restarts(pod).await), (1, 0), "{pod}");
            assert!(lab.has_loaded_once(pod).await, "{pod}");
        }
        lab.end().await;
    });
}

/// Its node is gone, or seems so: nothing is known, so nothing is done, and nothing is taken back.
#[test]
fn while_a_kubelet_is_silent_its_pods_keep_what_they_have_and_no_other_is_begun() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-silent").await;
        lab.plain_jvm("known");
        let rollout = |paused: bool| json!({ "rollout": { "canary": { "soak": "1s" }, "paused": paused } });
        lab.exporter(&rollout(false));
        lab.exporting(&["known"]).await;
        lab.is_annotated("known").await;
        lab.exporter(&rollout(true));
        for pod in ["new", "newer"] {
            lab.plain_jvm(pod);
            lab.runs(pod).await;
        }
        lab.behave(|behaviour| behaviour.is_silent = true);
        lab.exporter(&rollout(false));
        eventually("one is begun", LONG, || async {
            let begun = lab.begun("new").await + lab.begun("newer").await;
            if begun > 0 { Ok(()) } else { Err("none".to_owned()) }
        })
        .await;
        // As the node lifecycle controller does.
        for pod in ["known", "new", "newer"] {
            let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": null,
                "lastTransitionTime": chrono::Utc::now().format("%FT%TZ").to_string() }] } });
            let unready = unready.to_string();
            lab.cluster.kubectl(&["-n", &lab.name, "patch", "pod", pod, "--subresource=status", "-p", &unready]);
        }
        lab.operators.clear();
        lab.start_exporter_operator().await;
        lab.edit_exporter(json!({ "rollout": { "retry": "looked at" } })).await;
        let status = lab.exporter_is_seen().await;
        assert_eq!(status.metrics_endpoints.iter().map(|one| &*one.pod).collect::<Vec<_>>(), ["known"]);
        assert_eq!(lab.annotations("known").await["jmx-prometheus-exporter"], "verified");
        let begun = lab.begun("new").await + lab.begun("newer").await;
        assert_eq!(begun, 1, "what is under way takes its place");
        lab.configuration("lowercaseOutputName: true");
        lab.behave(|behaviour| behaviour.is_silent = false);
        lab.exporting(&["known", "new", "newer"]).await;
        for pod in ["known", "new", "newer"] {
            assert_eq!(lab.restarts(pod).await, 0, "{pod}");
            assert!(lab.has_loaded_once(pod).await, "{pod}");
        }
        lab.end().await;
    });
}

#[test]
fn missing_rights_are_named_and_once_granted_it_continues() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-forbidden").await;
        let began = chrono::Utc::now();
        let all = lab.rights();
        let without = |resource: &str| {
            let rules = all.as_array().expect("rules").iter();
            let rules = rules.filter(|rule| rule["resources"] != json!([resource]));
            Value::from(rules.cloned().collect::<Vec<_>>())
        };
        lab.set_rights(&without("pods/ephemeralcontainers"));
        lab.plain_jvm("first");
        lab.runs("first").await;
        lab.exporter(&json!({}));
        let said = lab.exporter_refuses("first", "NotAdmitted").await;
        assert!(said.contains("pods/ephemeralcontainers"), "{said}");
        // A quota that lets no other Pod in counts no container that joins one.
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few",
            "namespace": lab.name }, "spec": { "hard": { "pods": "1", "limits.memory": "1Mi" } } });
        lab.cluster.apply(&quota.to_string());
        lab.set_rights(&all);
        lab.exporting(&["first"]).await;
        lab.is_annotated("first").await;
        // What is known stays, whatever cannot be read any more.
        lab.set_rights(&without("configmaps"));
        lab.operators.clear();
        lab.start_exporter_operator().await;
        let status = lab.exporter_says("RightsMissing").await;
        assert_eq!(status.metrics_endpoints.len(), 1);
        assert!(lab.annotations("first").await.contains_key("prometheus.io/port"));
        lab.set_rights(&all);
        lab.exporting(&["first"]).await;
        assert_eq!((lab.joined("first").await.len(), lab.restarts("first").await), (1, 0));
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}
