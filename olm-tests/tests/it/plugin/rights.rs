//! Rights: ClusterRole `observe` has none that nothing reads; `steer` with its policy lets people change four fields,
//! and nothing else of a OneAgent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use olm_tests::audit;
use olm_tests::cluster::{documents, repository};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V3};
use olm_tests::operator::token;
use serde_json::{Value, json};

use super::{Came, Person};

/// Some value that a field may have.
fn value(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(7);
    }
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.last()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer") => json!(100),
        Some("string") => json!("x"),
        Some("array") => json!([]),
        _ => json!({}),
    }
}

/// What verbs and namespaces there are is left out: people type kubectl, too, and that gets, lists and watches.
#[test]
fn each_resource_that_observers_may_read_is_read() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-reads", 1).await;
        lab.oneagent(&json!({ "openshift": { "pauseDuringClusterUpdate": true } }));
        lab.all_at("agent", V1, 1, SOON).await;
        let person = Person::who_observes(&lab).await;
        let bundle = lab.cluster.path("plugin-reads.tar.gz").display().to_string();
        for words in [
            &["status", "agent"][..],
            &["explain", "agent"],
            &["explain", "node", &lab.nodes[0]],
            &["history"],
            &["plan"],
            &["version"],
            &["support-bundle", "-f", &bundle],
        ] {
            let Came { code, said, noted } = person.types(words);
            assert_ne!(code, Some(2), "{words:?}: {said}{noted}");
        }
        let requests = audit::requests(&lab.cluster.path("audit.log"), &lab.name, "on-call");
        let read: BTreeSet<(String, String)> = requests.into_iter().map(|one| (one.group, one.resource)).collect();
        let roles = std::fs::read_to_string(repository("config/oneagent-operator/user-roles.yaml")).unwrap();
        let observe = documents(&roles)
            .into_iter()
            .find(|role| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-observe")));
        let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
        for rule in observe.unwrap()["rules"].as_array().unwrap() {
            for resource in texts(&rule["resources"]) {
                // Only `check` reads a proxy, after a Secret that an observer may not read, or a token of the shell's.
                let is_of_check = resource == "proxies";
                let right = (texts(&rule["apiGroups"])[0].clone(), resource);
                assert!(is_of_check || read.contains(&right), "{right:?} is never read: {read:?}");
            }
        }
        lab.end().await;
    });
}

#[test]
fn who_steers_changes_four_fields_and_no_other() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-steer", 1).await;
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.cluster.apply(&std::fs::read_to_string(repository("config/oneagent-operator/steer.yaml")).unwrap());
        let bind = |role: &str| {
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": format!("plugin-steer-{role}") },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": format!("oneagent-operator-{role}") },
                "subjects": [{ "kind": "ServiceAccount", "name": "on-call", "namespace": lab.name }] })
        };
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "on-call", "namespace": lab.name } });
        let roles = std::fs::read_to_string(repository("config/oneagent-operator/user-roles.yaml")).unwrap();
        lab.cluster.apply(&roles);
        for object in [account, bind("steer"), bind("observe")] {
            lab.cluster.apply(&object.to_string());
        }
        let file = lab.cluster.path("plugin-steer.token");
        std::fs::write(&file, token(&lab.cluster.client, &lab.name, "on-call", None).await).unwrap();
        let kubeconfig = lab.cluster.plane.lock().await.token_kubeconfig(&file);
        let config = lab.cluster.path("plugin-steer.kubeconfig");
        std::fs::write(&config, kubeconfig).unwrap();
        let person = Person { lab: &lab, kubeconfig: config.display().to_string() };
        let patch = |body: &Value| {
            let text = body.to_string();
            let words = ["patch", "oneagent", "agent", "--type=merge", "-p", &text, "-n", &lab.name];
            olm_tests::cluster::kubectl_as(&person.kubeconfig, &words)
        };
        // The policy is in force a moment after it was written.
        let asked = AtomicUsize::new(0);
        eventually("the policy is in force", SOON, || async {
            let other = format!("https://{}.example/api", asked.fetch_add(1, Ordering::Relaxed));
            match patch(&json!({ "spec": { "apiUrl": other } })) {
                Err(why) if why.contains("your role may change") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        let crd = serde_json::to_value(<oneagent_operator::api::oneagent::OneAgent as kube::CustomResourceExt>::crd())
            .unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let mut tried = 0;
        let mut refused = |field: &str, body: &Value| {
            tried += 1;
            match patch(body) {
                Err(why) => {
                    assert!(why.contains("your role may change") || why.contains("is invalid"), "{field}: {why}");
                }
                Ok(said) => assert!(said.contains("no change"), "{field}: {said}"),
            }
        };
        for (field, of) in schema.as_object().unwrap() {
            if field == "rollout" || field == "update" {
                for (inner, of) in of["properties"].as_object().unwrap() {
                    let is_ours = ["paused", "retry", "version", "allowDowngrade"].contains(&inner.as_str());
                    if !is_ours {
                        refused(inner, &json!({ "spec": { field: { inner: value(of) } } }));
                    }
                }
                continue;
            }
            refused(field, &json!({ "spec": { field: value(of) } }));
        }
        refused("labels", &json!({ "metadata": { "labels": { "a": "b" } } }));
        refused("annotations", &json!({ "metadata": { "annotations": { "a": "b" } } }));
        refused("finalizers", &json!({ "metadata": { "finalizers": ["a.example/b"] } }));
        refused("nodeSelector, away", &json!({ "spec": { "nodeSelector": null } }));
        assert!(tried > 40, "{tried}");
        let before = person.spec().await;
        assert_eq!(before["rollout"], json!({ "paused": true }), "nothing came through");
        // What the role is for.
        person.says(0, &["pin", "agent", V3, "--allow-downgrade", "--yes"]);
        person.says(0, &["retry", "agent", V3, "--yes"]);
        person.says(0, &["unpin", "agent", "--yes"]);
        person.says(0, &["resume", "agent", "--yes"]);
        person.says(0, &["pause", "agent"]);
        lab.end().await;
    });
}
