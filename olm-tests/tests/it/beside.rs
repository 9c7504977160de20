//! Beside OLM: kustomize and Argo CD, each by its own real program.

use std::process::{Command, Stdio};

use olm_tests::cluster::{documents, objects, repository, sorted};
use olm_tests::eventually;
use olm_tests::images::said;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::api::package::{Kind, Package};
use serde_json::{Value, json};

#[test]
fn kustomize_builds_what_config_installs_and_an_overlay_names_the_image() {
    for package in PACKAGES {
        let folder = format!("config/{}", package.name);
        let kustomize = |folder: &std::path::Path| {
            documents(&said(
                Command::new(tool("kubectl")).args(["kustomize", "--load-restrictor=LoadRestrictionsNone"]).arg(folder),
            ))
        };
        assert_eq!(sorted(kustomize(&repository(&folder))), sorted(objects(&format!("{folder}/install.yaml"))));
        let overlay = tempfile::tempdir().unwrap();
        // A base is named by a path from the overlay.
        std::os::unix::fs::symlink(repository(&folder), overlay.path().join("base")).unwrap();
        let text = format!(
            "resources: [base]\nimages:\n- name: registry.example/oneagent-operator/{}\n  newName: r.example/o\n  \
            newTag: mine\n",
            package.name
        );
        std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
        let made = kustomize(overlay.path());
        let deployment = made.iter().find(|o| o["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "r.example/o:mine");
    }
}

/// What an Application or a release brings, and every OneAgent would go with, neither Argo CD nor Helm takes away: by
/// Argo CD's own function.
#[test]
fn argo_cd_neither_prunes_nor_deletes_what_a_fleet_hangs_on() {
    for package in PACKAGES {
        for file in ["install.yaml", "olm/subscription.yaml"] {
            let all = objects(&format!("config/{}/{file}", package.name));
            let mut argo = Command::new(tool("argocd")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            serde_json::to_writer(argo.stdin.take().unwrap(), &all).unwrap();
            let kept: Vec<Vec<String>> = serde_json::from_slice(&argo.wait_with_output().unwrap().stdout).unwrap();
            for (object, kept) in all.iter().zip(kept) {
                let holds_fleet = ["Namespace", "CustomResourceDefinition"].contains(&object["kind"].as_str().unwrap());
                let wanted: &[&str] = if holds_fleet { &["Prune=false", "Delete=false", "keep"] } else { &[] };
                assert_eq!(kept, wanted, "{} of {file}", object["kind"]);
            }
        }
    }
}

/// JSON as a table of Lua.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".into(),
        Value::Array(list) => format!("{{{}}}", list.iter().map(lua).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let entry = |(key, inner): (&String, &Value)| format!("[{}]={}", Value::from(key.as_str()), lua(inner));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// What Argo CD would show of an object: the script of `config/`, run by a real Lua.
fn health(package: &Package, object: &Value) -> (String, String) {
    let map = &objects(&format!("config/{}/argocd-health.yaml", package.name))[0]["data"];
    let Kind { group, name, .. } = package.kinds[0];
    let script = map[format!("resource.customizations.health.{group}_{name}")].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("health.lua");
    let text = format!(
        "local obj = {}\nlocal function look()\n{script}\nend\nlocal h = look()\nprint(h.status)\nprint(h.message)\n",
        lua(object)
    );
    std::fs::write(&file, text).unwrap();
    let said = said(Command::new(tool("glua")).arg(&file));
    let (status, message) = said.split_once('\n').unwrap();
    (status.to_owned(), message.trim().to_owned())
}

#[test]
fn argo_cd_sees_a_oneagent_as_its_status_says() {
    olm_tests::run(async {
        let lab = Lab::new("argo", 3).await;
        let now = async || serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap();
        let becomes = async |wanted: &str, words: &str| {
            eventually(&format!("Argo CD shows {wanted}"), SOON, || async {
                let (status, message) = health(&PACKAGE, &now().await);
                if status == wanted && message.contains(words) { Ok(()) } else { Err(format!("{status}: {message}")) }
            })
            .await;
        };
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        lab.all_at("agent", V1, 3, SOON).await;
        becomes("Healthy", "").await;
        let mut edited = now().await;
        edited["metadata"]["generation"] = 99.into();
        assert_eq!(health(&PACKAGE, &edited), ("Progressing".into(), "the newest spec is not looked at yet".into()));
        edited["status"] = Value::Null;
        assert_eq!(health(&PACKAGE, &edited).0, "Progressing");
        lab.cluster.vendor.publish(&lab.name, V2);
        becomes("Suspended", "").await;
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.all_at("agent", V2, 3, SOON).await;
        becomes("Healthy", "").await;
        lab.edit("agent", json!({ "trustedCAs": "nowhere" })).await;
        becomes("Degraded", "nowhere").await;
        lab.end().await;
    });
}

#[test]
fn argo_cd_sees_each_kind_as_its_conditions_say() {
    let condition = |type_: &str, status: &str, reason: &str| {
        let message = format!("{type_} {reason}");
        json!({ "type": type_, "status": status, "reason": reason, "message": message })
    };
    let (ready, unready) = (condition("Ready", "True", "Done"), condition("Ready", "False", "Waiting"));
    let (fine, failed) = (condition("Degraded", "False", "AsExpected"), condition("Degraded", "True", "Failed"));
    let (works, paused) = (condition("Progressing", "True", "Waiting"), condition("Progressing", "False", "Paused"));
    for package in PACKAGES {
        for (generation, conditions, status, message) in [
            (1, json!([ready, fine]), "Progressing", "the newest spec is not looked at yet"),
            (2, json!([]), "Progressing", "not looked at yet"),
            (2, json!([ready, fine, works]), "Healthy", "Ready Done"),
            (2, json!([unready, fine, works]), "Progressing", "Ready Waiting"),
            (2, json!([unready, fine, paused]), "Suspended", "Progressing Paused"),
            (2, json!([unready, failed, paused]), "Degraded", "Degraded Failed"),
        ] {
            let object = json!({ "metadata": { "generation": 2 },
                "status": { "observedGeneration": generation, "conditions": conditions } });
            let wanted = (status.to_owned(), message.to_owned());
            assert_eq!(health(package, &object), wanted, "{} {object}", package.name);
        }
    }
}
