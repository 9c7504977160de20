//! Outside events in the middle: another leader, a ConfigMap that is deleted, rights and quotas that are missing,
//! broken Pods behind a budget.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use olm_tests::cluster::Cluster;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SHORT_LEASE};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{lab, next_second, one_is_gone, webapp};

#[test]
fn another_leader_continues_where_the_first_was_killed() {
    olm_tests::run(async {
        let mut lab = Lab::bare(Cluster::shared().await, &PACKAGE, "cw-leader", 3).await;
        lab.start_operator(&SHORT_LEASE).await;
        webapp(&lab).await;
        lab.start_operator(&SHORT_LEASE).await;
        lab.behave(|b| b.ready_after = Duration::from_secs(1));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        one_is_gone(&eyes).await;
        lab.operators[0].process.signal("KILL");
        drop(lab.operators.remove(0));
        lab.all_updated("two").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4));
        lab.end().await;
    });
}

#[test]
fn a_configmap_deleted_in_the_middle_holds_everything_until_it_is_back() {
    olm_tests::run(async {
        let lab = lab("cw-gone").await;
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        lab.message("two");
        one_is_gone(&eyes).await;
        let api: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        api.delete("config", &DeleteParams::default()).await.unwrap();
        lab.watcher_is("watcher", "Degraded", "True", "ConfigMapNotFound").await;
        let gone = eyes.seen().await.deletions.len();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(eyes.seen().await.deletions.len(), gone, "a successor could not start");
        lab.message("two");
        lab.all_updated("two").await;
        assert_eq!(eyes.seen().await.most_unready, 1);
        lab.end().await;
    });
}

#[test]
fn a_missing_right_is_named_and_a_quota_takes_one_pod_and_no_more() {
    olm_tests::run(async {
        let mut lab = lab("cw-rightless").await;
        let whole = lab.rights();
        let mut less = whole.clone();
        let evicts = |rule: &Value| rule["resources"][0] == "pods/eviction";
        less.as_array_mut().unwrap().retain(|rule| !evicts(rule));
        let began = chrono::Utc::now();
        lab.set_rights(&less);
        let before = lab.uids_of("webapp").await;
        lab.message("two");
        let said = lab.watcher_is("watcher", "Degraded", "True", "EvictionRefused").await;
        assert!(said.contains("cannot create resource \"pods/eviction\""), "{said}");
        assert_eq!(lab.uids_of("webapp").await, before);
        // As many Pods as there may be are there: no successor can be made.
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "few", "namespace": lab.name }, "spec": { "hard": { "pods": "3" } } });
        lab.cluster.apply(&quota.to_string());
        lab.set_rights(&whole);
        let said = lab.watcher_is("watcher", "Degraded", "True", "PodsRefused").await;
        assert!(said.contains("Deployment webapp") && said.contains("exceeded quota"), "{said}");
        assert_eq!(lab.uids_of("webapp").await.intersection(&before).count(), 3);
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "resourcequota", "few"]);
        lab.all_updated("two").await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}

#[test]
fn broken_pods_behind_a_budget_are_named_with_it() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-broken", 3).await;
        lab.behave(|b| {
            b.versions.insert("bad".to_owned(), Fault::CrashLoop);
        });
        lab.message("bad");
        lab.workload("Deployment", "webapp", &json!({}));
        let budget = |policy: &str| {
            let spec = json!({ "minAvailable": 2, "selector": { "matchLabels": { "app": "webapp" } },
                "unhealthyPodEvictionPolicy": policy });
            let object = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": "two", "namespace": lab.name }, "spec": spec });
            lab.cluster.apply(&object.to_string());
        };
        budget("IfHealthyBudget");
        lab.watcher(&json!({}));
        let said = lab.watcher_is("watcher", "Ready", "False", "PodsUnavailable").await;
        assert!(said.contains("4 of 4 Pods are not available"), "{said}");
        next_second().await;
        lab.message("good");
        let said = lab.watcher_is("watcher", "Ready", "False", "Blocked").await;
        assert!(said.contains("disruption budget two"), "{said}");
        budget("AlwaysAllow");
        lab.all_updated("good").await;
        lab.end().await;
    });
}
