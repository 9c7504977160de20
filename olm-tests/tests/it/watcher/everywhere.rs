//! A cluster of its own: an operator for all namespaces, an API server that stops in the middle, rights that are taken
//! away, an object that does not read.

use std::time::Duration;

use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::{Value, json};

use super::{next_second, one_is_gone, webapp};

/// Puts another list of rules into the operator's role for all namespaces.
fn grant(lab: &Lab<'_>, rules: &Value) {
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "everywhere" }, "rules": rules });
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "everywhere" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everywhere" },
        "subjects": [{ "kind": "ServiceAccount", "name": PACKAGE.name, "namespace": lab.name }] });
    lab.cluster.apply(&format!("{role}\n---\n{binding}"));
}

#[test]
fn all_namespaces_an_api_server_that_stops_and_rights_that_are_removed() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::bare(&cluster, &PACKAGE, "cw-first", 3).await;
        let other = Lab::bare(&cluster, &PACKAGE, "cw-second", 3).await;
        let whole = lab.rights();
        grant(&lab, &whole);
        lab.start_operator(&[("WATCH_NAMESPACE", "")]).await;
        webapp(&lab).await;
        webapp(&other).await;
        for lab in [&lab, &other] {
            lab.behave(|b| b.ready_after = Duration::from_secs(2));
        }
        let eyes = (Eyes::on_replicas(&lab, "app=webapp", 4).await, Eyes::on_replicas(&other, "app=webapp", 4).await);
        lab.message("two");
        one_is_gone(&eyes.0).await;
        let began = chrono::Utc::now();
        cluster.plane.lock().await.kill_apiserver();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.plane.lock().await.start_apiserver().await;
        lab.all_updated("two").await;
        assert_eq!((eyes.0.seen().await.counts(), eyes.1.seen().await.counts()), ((1, 4), (0, 0)));

        // A right that is removed while it is used is missed when the watch is taken up again.
        let mut less = whole.clone();
        let lists_pods = |rule: &Value| rule["resources"].as_array().is_some_and(|all| all.contains(&json!("pods")));
        less.as_array_mut().unwrap().retain(|rule| !lists_pods(rule));
        let roles = |rules: &Value| {
            grant(&lab, rules);
            let patch = json!({ "rules": rules }).to_string();
            for namespace in [&lab.name, &other.name] {
                cluster.kubectl(&["-n", namespace, "patch", "role", PACKAGE.name, "--type=merge", "-p", &patch]);
            }
        };
        roles(&less);
        cluster.plane.lock().await.kill_apiserver();
        cluster.plane.lock().await.start_apiserver().await;
        other.message("two");
        for lab in [&lab, &other] {
            let said = lab.watcher_is("watcher", "Degraded", "True", "RightsMissing").await;
            assert!(said.contains("pods") && said.contains("grant the operator list and watch"), "{said}");
        }
        assert_eq!(eyes.1.seen().await.counts(), (0, 0), "nothing is decided from what is old");
        roles(&whole);
        other.all_say("webapp", "two", 4, LONG).await;
        other.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        assert_eq!((eyes.0.seen().await.counts(), eyes.1.seen().await.counts()), ((1, 4), (1, 4)));
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}

#[test]
fn an_object_that_does_not_read_is_named_and_keeps_what_it_remembers() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::bare(&cluster, &PACKAGE, "cw-unread", 3).await;
        lab.start_operator(&[]).await;
        webapp(&lab).await;
        let hash = lab.watcher_status("watcher").await.applied_hash;
        // As under a CRD that is older or newer than the operator.
        let loose = json!([{ "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/debounceSeconds",
            "value": { "x-kubernetes-preserve-unknown-fields": true } }]);
        let crd = "configwatchers.k8spatterns.io";
        cluster.kubectl(&["patch", "crd", crd, "--type=json", "-p", &loose.to_string()]);
        eventually("such an object is taken", SOON, || async {
            let patch = json!({ "spec": { "debounceSeconds": { "odd": 1 } } }).to_string();
            let args = ["-n", &lab.name, "patch", "configwatcher", "watcher", "--type=merge", "-p", &patch];
            cluster.try_kubectl(&args, None).map(drop)
        })
        .await;
        // Restarted it has never read it.
        lab.operators.clear();
        lab.start_operator(&[]).await;
        let degraded = async || {
            let path = "-o=jsonpath={.status.conditions[?(@.type=='Degraded')].message}";
            cluster.kubectl(&["-n", &lab.name, "get", "configwatcher", "watcher", path])
        };
        eventually("it is named", SOON, || async {
            let said = degraded().await;
            if said.contains("the object cannot be read") { Ok(()) } else { Err(said) }
        })
        .await;
        lab.message("two");
        next_second().await;
        cluster.kubectl(&[
            "-n",
            &lab.name,
            "patch",
            "configwatcher",
            "watcher",
            "--type=merge",
            "-p",
            r#"{"spec":{"debounceSeconds":3}}"#,
        ]);
        lab.all_updated("two").await;
        assert_ne!(lab.watcher_status("watcher").await.applied_hash, hash);
        lab.end().await;
    });
}
