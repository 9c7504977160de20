//! What identifies a store: it is made up once, stays, and is disclosed to no one.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use olm_tests::lab::entries::service;
use olm_tests::lab::{Lab, SOON};
use olm_tests::{eventually, run};
use serde_json::json;

use super::{others, standing, uids};

const IDENTITY: &str = "zookeeper1-zookeeper-identity";

#[test]
fn without_what_identifies_it_a_store_stays_as_it_is_until_that_is_restored() {
    run(async {
        let mut lab = standing("stack-identity", 1, 1).await;
        let before = uids(&lab).await;
        let api: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let mut kept = api.get(IDENTITY).await.expect("a Secret");
        assert!(kept.owner_references().is_empty(), "it stays when the Manager goes");
        api.delete(IDENTITY, &DeleteParams::default()).await.expect("deleted");
        let said = lab.component_is("zookeeper1", "Invalid").await;
        assert!(said.contains("Secret zookeeper1-zookeeper-identity is gone"), "{said}");
        lab.operators.clear();
        lab.start_operator(&[]).await;
        // Another store, and those that need both, go on.
        lab.edit_stack(json!({ "services": { "webui": null } })).await;
        eventually("the web UI is gone", SOON, || async {
            let now = uids(&lab).await.len();
            if now == before.len() - 1 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        lab.component_is("zookeeper1", "Invalid").await;
        assert_eq!(others(&before, &uids(&lab).await), [] as [String; 0], "none starts again");
        assert!(api.get_opt(IDENTITY).await.expect("an answer").is_none(), "it is not made up again");
        kept.metadata.resource_version = None;
        kept.metadata.uid = None;
        api.create(&PostParams::default(), &kept).await.expect("restored");
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(others(&before, &uids(&lab).await), [] as [String; 0], "none starts again");
        lab.end().await;
    });
}

#[test]
fn one_that_keeps_nothing_gets_new_passwords_and_restarts_alone() {
    run(async {
        let lab = standing("stack-passwords", 1, 1).await;
        let before = uids(&lab).await;
        let api: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let name = "config1-config-identity";
        let password = |secret: Secret| secret.data.expect("data")["redis"].0.clone();
        let first = password(api.get(name).await.expect("a Secret"));
        api.delete(name, &DeleteParams::default()).await.expect("deleted");
        eventually("there is another one, and one Pod has started again with it", SOON, || async {
            let now = uids(&lab).await;
            let others = others(&before, &now).len();
            let is_new = api.get_opt(name).await.ok().flatten().is_some_and(|secret| password(secret) != first);
            if is_new && others == 1 && now.len() == before.len() { Ok(()) } else { Err(format!("{others} {is_new}")) }
        })
        .await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(others(&before, &uids(&lab).await).len(), 1);
        lab.end().await;
    });
}

#[test]
fn a_pod_that_is_written_all_the_time_is_replaced_all_the_same() {
    run(async {
        let lab = standing("stack-touched", 1, 0).await;
        let pods: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let name = "zookeeper1-zookeeper-statefulset-0";
        let before = pods.get(name).await.expect("a Pod").uid();
        let writes = tokio::spawn({
            let pods = pods.clone();
            async move {
                for number in 0.. {
                    let touched = json!({ "metadata": { "annotations": { "touched": number.to_string() } } });
                    let _ = pods.patch(name, &PatchParams::default(), &Patch::Merge(touched)).await;
                }
            }
        });
        lab.edit_stack(json!({ "services": { "zookeepers": [service("zookeeper1", &json!([
            { "name": "init", "image": "python:3.8.2-alpine" }, { "name": "conf-init", "image": "zookeeper:3.9.3" },
            { "name": "zookeeper", "image": "zookeeper:3.9.3" }]))] } }))
            .await;
        eventually("there is another Pod", SOON, || async {
            let now = pods.get_opt(name).await.ok().flatten().and_then(|pod| pod.uid());
            if now.is_some() && now != before { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        writes.abort();
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn a_foreign_secret_is_not_overwritten_and_no_password_is_disclosed() {
    run(async {
        let lab = Lab::of_stacks("stack-secrets", 1, 1).await;
        let theirs = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": IDENTITY,
            "namespace": lab.name }, "stringData": { "super": "theirs" } });
        lab.cluster.apply(&theirs.to_string());
        lab.cluster.apply(&lab.stack().to_string());
        let said = lab.component_is("zookeeper1", "Refused").await;
        let (_, command) = said.split_once("to have it used, kubectl ").expect("a command");
        let command = command.split(';').next().expect("a command");
        // As it is said, it is typed.
        let words: Vec<&str> = ["-n", &lab.name].into_iter().chain(command.split(' ')).collect();
        lab.cluster.kubectl(&words);
        let said = lab.component_is("zookeeper1", "Invalid").await;
        assert!(said.contains("lacks servers"), "{said}");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", IDENTITY]);
        lab.stack_says("Ready", "AllServing").await;
        let api: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let secret = api.get(IDENTITY).await.expect("a Secret").data.expect("data");
        let password = String::from_utf8(secret["super"].0.clone()).expect("text");
        assert!(password.len() == 32 && password != "theirs", "{} characters", password.len());
        let kinds = "managers,configmaps,statefulsets,daemonsets,pods,services,poddisruptionbudgets,events";
        let all = lab.cluster.kubectl(&["-n", &lab.name, "get", kinds, "-o", "json"]);
        let printed = lab.operators[0].printed();
        assert!(all.contains("zookeeper1") && printed.contains("zookeeper1"), "{printed}");
        let secrets = api.list(&ListParams::default().labels("contrail_manager")).await.expect("Secrets").items;
        let confidential = confidential(&secrets);
        // Each has two forms. Seven passwords; keys of the authority, and of each server.
        let keys = confidential.iter().filter(|(key, _)| key.contains("key")).count();
        assert!(keys > 12 && confidential.len() >= keys + 14, "{keys} of {}", confidential.len());
        assert!(confidential.iter().any(|(_, text)| *text == password), "the first of them");
        for (key, text) in confidential {
            assert!(!all.contains(&text), "an object discloses {key}");
            assert!(!printed.contains(&text), "the log discloses {key}");
        }
        lab.end().await;
    });
}

/// What no other object and no log may contain, with its Secret and entry: all passwords, and the first line of each
/// private key; as text and as a Secret has it.
fn confidential(secrets: &[Secret]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for secret in secrets {
        let name = secret.name_any();
        for (key, bytes) in secret.data.iter().flatten() {
            let text = String::from_utf8(bytes.0.clone()).expect("text");
            let is_password = name.ends_with("-identity") && key != "servers";
            let is_key =
                key.rsplit_once('.').is_some_and(|(_, ending)| ending == "key") || key.starts_with("server-key-");
            if is_password || is_key {
                let said = if is_key { text.lines().nth(1).expect("a line") } else { text.trim() };
                let entry = format!("{name}/{key}");
                all.push((entry.clone(), said.to_owned()));
                all.push((entry, json!(bytes).as_str().expect("base64").to_owned()));
            }
        }
    }
    all
}
