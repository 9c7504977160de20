//! Pods that are not to be evicted, each for its own cause, hold back no other Pod.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

use super::{allow_evictions, forbid_evictions, lab, next_second};

#[test]
fn one_protected_workload_of_three_holds_back_no_other() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-protected", 3).await;
        lab.message("one");
        let all = ["a", "b", "c"];
        for name in all {
            let mut object = lab.workload_of("Deployment", name, &json!({ "replicas": 2 }));
            object["spec"]["template"]["metadata"]["labels"]["group"] = "all".into();
            lab.cluster.apply(&object.to_string());
            lab.all_say(name, "one", 2, SOON).await;
            // The oldest Pods have the first turn.
            next_second().await;
        }
        lab.watcher(&json!({ "podSelector": { "group": "all" } }));
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        let before = lab.uids_of("a").await;
        let one = lab.labelled("app=a").await.into_keys().next().unwrap();
        forbid_evictions(&lab, "!request.name.startsWith('a-')", &one).await;
        lab.message("two");
        for name in ["b", "c"] {
            lab.all_say(name, "two", 2, LONG).await;
        }
        let said = lab.watcher_is("watcher", "Degraded", "True", "EvictionRefused").await;
        assert!(said.contains("refuses to evict Pod a-") && said.contains("no evictions at night"), "{said}");
        assert_eq!(lab.uids_of("a").await, before);
        allow_evictions(&lab);
        lab.all_say("a", "two", 2, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        lab.watcher_is("watcher", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn pods_of_other_controllers_that_run_to_an_end_are_left_alone_and_named() {
    olm_tests::run(async {
        let lab = lab("cw-runners").await;
        // The garbage collector removes what an owner that is not there owns: the test plays one.
        let owner = lab.watchers().get("watcher").await.unwrap().uid().unwrap();
        let foreign = [
            ("step", "argoproj.io/v1alpha1", "Workflow", "Never"),
            ("task", "tekton.dev/v1", "TaskRun", "Never"),
            ("executor", "sparkoperator.k8s.io/v1beta2", "SparkApplication", "Never"),
            ("runner", "actions.github.com/v1alpha1", "EphemeralRunner", "OnFailure"),
            ("machine", "kubevirt.io/v1", "VirtualMachineInstance", "Always"),
        ];
        for (name, version, kind, policy) in foreign {
            let reference = json!({ "apiVersion": version, "kind": kind, "name": "o", "uid": owner,
                "controller": true });
            let pod = json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": lab.name, "labels": { "app": "webapp" },
                    "ownerReferences": [reference] },
                "spec": { "nodeSelector": { "lab": lab.name }, "restartPolicy": policy,
                    "containers": [{ "name": "c", "image": "webapp:1" }] } });
            lab.cluster.apply(&pod.to_string());
        }
        lab.watcher_shows("watcher", "five Pods are left alone, and named", |status| {
            let pods = status.pods.clone().unwrap_or_default();
            let named = pods.examples.get("skipped").map(|all| all.join("; ")).unwrap_or_default();
            pods.skipped == 5
                && named.contains("step (its restartPolicy is not Always")
                && named.contains("machine (its owner is a VirtualMachineInstance.kubevirt.io")
        })
        .await;
        let uids = |pods: std::collections::BTreeMap<String, Pod>| {
            foreign.map(|(name, ..)| pods.get(name).and_then(ResourceExt::uid))
        };
        let before = uids(lab.labelled("app=webapp").await);
        next_second().await;
        lab.message("two");
        olm_tests::eventually("the four of the Deployment are updated", LONG, || async {
            let status = lab.watcher_status("watcher").await;
            let is_done = status.pending.is_none() && status.pods.as_ref().is_some_and(|pods| pods.progress == "4/4");
            let says = lab.labelled("app=webapp").await.into_values().filter(|pod| {
                lab.cluster.kubelet.environment(pod).is_some_and(|all| all.get("MESSAGE").is_some_and(|m| m == "two"))
            });
            if is_done && says.count() == 4 { Ok(()) } else { Err(format!("{:?}", status.pods)) }
        })
        .await;
        assert_eq!(uids(lab.labelled("app=webapp").await), before);
        lab.end().await;
    });
}

/// The image of each Pod of `db`, by ordinal.
async fn images(lab: &Lab<'_>) -> Vec<String> {
    let pods = lab.labelled("app=db").await;
    pods.values().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect()
}

/// A StatefulSet `db` of three with a template that its strategy holds back, as far as it does.
async fn held_back(name: &str, kind: &str, strategy: serde_json::Value, updated: &[&str]) -> Lab<'static> {
    let lab = Lab::of(&PACKAGE, name, 3).await;
    lab.message("one");
    let parallel = json!({ "updateStrategy": strategy });
    lab.workload(kind, "db", &parallel);
    if kind == "StatefulSet" {
        lab.cluster.kubectl(&["-n", name, "scale", "statefulset", "db", "--replicas=3"]);
    }
    lab.all_say("db", "one", 3, SOON).await;
    lab.watcher(&json!({ "podSelector": { "app": "db" } }));
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    lab.cluster.kubectl(&["-n", name, "set", "image", &format!("{kind}/db"), "webapp=webapp:2"]);
    olm_tests::eventually("its controller has seen the new image", SOON, || async {
        let object = lab.cluster.kubectl(&["-n", name, "get", kind, "db", "-o", "json"]);
        let object: serde_json::Value = serde_json::from_str(&object).unwrap();
        let status = &object["status"];
        let is_seen = status["observedGeneration"] == object["metadata"]["generation"]
            && (kind == "DaemonSet" || status["currentRevision"] != status["updateRevision"]);
        let now = images(&lab).await;
        if is_seen && now == updated { Ok(()) } else { Err(format!("{now:?} {status}")) }
    })
    .await;
    lab.all_say("db", "one", 3, SOON).await;
    next_second().await;
    lab
}

#[test]
fn an_image_that_waits_for_a_human_is_not_brought_by_an_eviction() {
    olm_tests::run(async {
        for kind in ["StatefulSet", "DaemonSet"] {
            let name = format!("cw-on-delete-{}", kind.to_lowercase());
            let lab = held_back(&name, kind, json!({ "type": "OnDelete" }), &["webapp:1"; 3]).await;
            let before = lab.uids_of("db").await;
            lab.message("two");
            let said = lab.watcher_is("watcher", "Ready", "False", "Blocked").await;
            assert!(said.contains(&format!("{kind} db holds another template back")), "{said}");
            assert_eq!((lab.uids_of("db").await, images(&lab).await), (before, vec!["webapp:1".to_owned(); 3]));
            // Undone, the Pods come back as they are.
            lab.cluster.kubectl(&["-n", &name, "set", "image", &format!("{kind}/db"), "webapp=webapp:1"]);
            lab.all_say("db", "two", 3, LONG).await;
            lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
            assert_eq!(images(&lab).await, ["webapp:1"; 3]);
            lab.end().await;
        }
    });
}

#[test]
fn below_a_partition_pods_are_replaced_and_come_back_as_they_were() {
    olm_tests::run(async {
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
        let images_then = ["webapp:1", "webapp:1", "webapp:2"];
        let lab = held_back("cw-partition", "StatefulSet", strategy, &images_then).await;
        let eyes = Eyes::on_replicas(&lab, "app=db", 3).await;
        lab.message("two");
        lab.all_say("db", "two", 3, LONG).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!(images(&lab).await, images_then);
        assert_eq!(eyes.seen().await.counts(), (1, 3));
        lab.watchers().delete("watcher", &DeleteParams::default()).await.unwrap();
        lab.end().await;
    });
}
