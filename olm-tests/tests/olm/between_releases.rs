//! One release after the other, under running agents.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use olm_tests::cluster::documents;
use olm_tests::eventually;
use olm_tests::images::{home, said};
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2, is_ready, version_of};
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish, releases};
use olm_tests::tools::tool;
use oneagent_operator::api::oneagent::package;
use oneagent_operator::olm::catalog::catalog;
use oneagent_operator::olm::release::Released;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(180);
/// What comes after the present code.
const AFTER: &str = "0.9.0";

/// Image of the operator's Pods.
async fn operator_images(olm: &Olm, namespace: &str) -> Vec<String> {
    let pods = olm.list("Pod", namespace).await;
    let ours = pods.iter().filter(|p| p["metadata"]["labels"]["app.kubernetes.io/name"] == PACKAGE);
    ours.map(|p| p["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Approves the InstallPlan that waits (as the console: not before OLM says that it waits), once it is there; returns
/// what it would install.
async fn approve(olm: &Olm, namespace: &str, version: &str) {
    let wanted = json!([format!("{PACKAGE}.v{version}")]);
    let find = async || {
        let plans = olm.list("InstallPlan", namespace).await;
        plans
            .into_iter()
            .find(|p| p["status"]["phase"] == "RequiresApproval" && p["spec"]["clusterServiceVersionNames"] == wanted)
    };
    eventually(&format!("an InstallPlan for {version} waits for approval"), PATIENCE, || async {
        if find().await.is_some() {
            Ok(())
        } else {
            Err(format!(
                "{:?}",
                olm.list("InstallPlan", namespace).await.iter().map(|p| p["spec"].clone()).collect::<Vec<_>>()
            ))
        }
    })
    .await;
    let plan = find().await.unwrap();
    olm.merge(
        "InstallPlan",
        namespace,
        plan["metadata"]["name"].as_str().unwrap(),
        &json!({ "spec": { "approved": true } }),
    )
    .await;
}

/// Channel, entry and what it replaces, of a catalog.
fn edges(catalog: &str) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let channels = documents(catalog).into_iter().filter(|blob| blob["schema"] == "olm.channel");
    let entries = channels.flat_map(|c| {
        c["entries"].as_array().cloned().unwrap_or_default().into_iter().map(move |e| (c["name"].clone(), e))
    });
    entries.map(|(channel, entry)| (text(&channel), text(&entry["name"]), text(&entry["replaces"]))).collect()
}

/// The same, as opm's semver template makes it from the pushed bundle images.
fn of_template(all: &[Released]) -> BTreeSet<(String, String, String)> {
    let home = home();
    let bundles: Vec<Value> = all.iter().map(|r| json!({ "image": r.image })).collect();
    let template = json!({ "schema": "olm.semver", "generateMajorChannels": true, "generateMinorChannels": false,
        "candidate": { "bundles": bundles }, "stable": { "bundles": bundles } });
    let file = home.path().join("template.yaml");
    std::fs::write(&file, template.to_string()).unwrap();
    edges(&said(
        Command::new(tool("opm"))
            .args(["alpha", "render-template", "semver", "--use-http", "-o", "yaml"])
            .arg(&file)
            .env("HOME", home.path()),
    ))
}

/// Every release of the list, then the present code.
#[test]
fn one_release_replaces_the_other_under_running_agents_and_never_the_other_way() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let mut versions: Vec<String> =
            releases().releases.into_iter().map(|release| release.version).filter(|version| version != NEXT).collect();
        versions.push(NEXT.to_owned());
        let all: Vec<Released> = versions.iter().map(|version| olm.release(version)).collect();
        let images: BTreeSet<&str> = all.iter().map(|r| r.release.operator_image.as_str()).collect();
        assert_eq!(images.len(), all.len(), "two releases have one operator");
        let runs_alone = async |image: &str| {
            eventually(&format!("the operator of {image} alone is there"), PATIENCE, || async {
                let now = operator_images(&olm, "dynatrace").await;
                if now == [image] { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
        };
        olm.publish(&all[..1]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", &versions[0]).await;
        runs_alone(&all[0].release.operator_image).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 5).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 5, PATIENCE).await;
        let before = lab.uids("agent").await;

        for at in 1..all.len() {
            olm.publish(&all[..=at]).await;
            olm.installed("dynatrace", &versions[at]).await;
            runs_alone(&all[at].release.operator_image).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(
                lab.uids("agent").await,
                before,
                "an agent restarted because the operator was upgraded to {}",
                versions[at]
            );
        }
        // And the newest continues where the others were.
        olm.cluster.vendor.publish("dynatrace", V2);
        lab.all_at("agent", V2, 5, PATIENCE).await;

        // A catalog that knows only the oldest release does not bring it back.
        olm.publish(&all[..1]).await;
        tokio::time::sleep(Duration::from_secs(12)).await;
        olm.installed("dynatrace", NEXT).await;
        runs_alone(&all[all.len() - 1].release.operator_image).await;
        olm.judge("dynatrace");
    });
}

#[test]
fn an_administrator_approves_and_a_release_may_be_jumped_over() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let all = [olm.release("0.1.0"), olm.release(NEXT), olm.release(AFTER)];
        assert_eq!(
            edges(&catalog(&package::PACKAGE, &all, &[]).unwrap()[0].content),
            of_template(&all),
            "opm's own template makes other edges of the same releases"
        );
        olm.publish(&all).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish { manual: true, ..Wish::own("dynatrace", &["dynatrace"]).starting("0.1.0") });
        approve(&olm, "dynatrace", "0.1.0").await;
        eventually("the first release is installed", PATIENCE, || async {
            let csv =
                olm.get("ClusterServiceVersion", "dynatrace", &format!("{PACKAGE}.v0.1.0")).await.unwrap_or_default();
            if csv["status"]["phase"] == "Succeeded" {
                return Ok(());
            }
            let plans = olm.list("InstallPlan", "dynatrace").await;
            Err(format!("{}; {plans:?}", csv["status"]))
        })
        .await;
        // skipRange: from the first to the last, without the one between.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let csvs = olm.list("ClusterServiceVersion", "dynatrace").await;
        assert_eq!(csvs.len(), 1, "nothing is upgraded without approval");
        approve(&olm, "dynatrace", AFTER).await;
        olm.installed("dynatrace", AFTER).await;
        let planned: Vec<Value> = olm
            .list("InstallPlan", "dynatrace")
            .await
            .into_iter()
            .map(|p| p["spec"]["clusterServiceVersionNames"][0].clone())
            .collect();
        assert!(!planned.contains(&format!("{PACKAGE}.v{NEXT}").into()), "{planned:?}");
        olm.judge("dynatrace");
    });
}

/// What the operator of the present release says of being upgraded.
async fn says_upgradeable(olm: &Olm) -> Value {
    let condition = olm.get("OperatorCondition", "dynatrace", &format!("{PACKAGE}.v{NEXT}")).await.unwrap_or_default();
    let said = &condition["spec"]["conditions"][0];
    if said["type"] == "Upgradeable" { said["status"].clone() } else { Value::Null }
}

async fn upgradeable(olm: &Olm, wanted: &str) {
    eventually(&format!("Upgradeable={wanted}"), SOON, || async {
        let now = says_upgradeable(olm).await;
        if now == wanted { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

#[test]
fn an_upgrade_waits_while_an_agent_is_between_deletion_and_replacement() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let next = olm.release(NEXT);
        olm.publish(std::slice::from_ref(&next)).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 3).await;
        lab.oneagent(&json!({ "waitReadySeconds": 600 }));
        lab.all_at("agent", V1, 3, PATIENCE).await;
        upgradeable(&olm, "True").await;
        // The first replacement never becomes Ready: the operator is in the middle of something.
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::NeverReady);
        });
        olm.cluster.vendor.publish("dynatrace", V2);
        upgradeable(&olm, "False").await;
        olm.publish(&[next, olm.release(AFTER)]).await;
        let newer = format!("{PACKAGE}.v{AFTER}");
        eventually("OLM waits for the operator", PATIENCE, || async {
            let csv = olm.get("ClusterServiceVersion", "dynatrace", &newer).await.unwrap_or_default();
            let status = &csv["status"];
            let says = status["message"].as_str().unwrap_or_default().contains("OneAgent dynatrace/agent");
            if status["phase"] == "Pending" && status["reason"] == "OperatorConditionNotUpgradeable" && says {
                Ok(())
            } else {
                Err(status.to_string())
            }
        })
        .await;
        // A pause is an administrator's word that nothing is under way; then OLM continues at once.
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        olm.installed("dynatrace", AFTER).await;
        lab.behave(|b| b.versions.clear());
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        let stuck = lab.pods("agent").await.into_values().find(|p| !is_ready(p)).unwrap();
        olm.delete("Pod", "dynatrace", stuck.metadata.name.as_deref().unwrap()).await;
        lab.all_at("agent", V2, 3, PATIENCE).await;
        olm.judge("dynatrace");
    });
}

#[test]
fn an_upgrade_while_a_canary_is_watched_takes_no_other_one() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let next = olm.release(NEXT);
        olm.publish(std::slice::from_ref(&next)).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 4).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } } }));
        lab.all_at("agent", V1, 4, PATIENCE).await;
        olm.cluster.vendor.publish("dynatrace", V2);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        let before = lab.uids("agent").await;
        let after = olm.release(AFTER);
        let image = after.release.operator_image.clone();
        olm.publish(&[next, after]).await;
        olm.installed("dynatrace", AFTER).await;
        eventually("the new operator alone is there", PATIENCE, || async {
            let now = operator_images(&olm, "dynatrace").await;
            if now == [image.as_str()] { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        for _ in 0..3 {
            lab.is_looked_at().await;
        }
        assert_eq!(lab.uids("agent").await, before, "an agent was replaced");
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        lab.edit("agent", json!({ "rollout": { "canary": null } })).await;
        lab.all_at("agent", V2, 4, PATIENCE).await;
        olm.judge("dynatrace");
    });
}

#[test]
fn an_upgrade_does_not_wait_for_an_agent_that_only_has_to_stay_ready_nor_beyond_its_deadline() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 3).await;
        lab.oneagent(&json!({ "waitReadySeconds": 20, "rollout": { "minReadySeconds": 12 } }));
        lab.all_at("agent", V1, 3, PATIENCE).await;
        upgradeable(&olm, "True").await;
        let updated = async || {
            let pods = lab.pods("agent").await;
            let at = |version: &str| {
                pods.values().filter(|p| version_of(p).as_deref() == Some(version)).cloned().collect::<Vec<_>>()
            };
            at(V2)
        };
        olm.cluster.vendor.publish("dynatrace", V2);
        upgradeable(&olm, "False").await;
        upgradeable(&olm, "True").await;
        // The first agent is Ready but not for long enough: the rollout is stopped, and OLM may continue.
        for _ in 0..16 {
            let now = updated().await;
            assert!(
                now.len() == 1 && is_ready(&now[0]),
                "the next agent was replaced before the first had stayed Ready"
            );
            assert_eq!(says_upgradeable(&olm).await, "True");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // The second never becomes Ready: OLM waits for as long as an agent may take, and no longer.
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::NeverReady);
        });
        upgradeable(&olm, "False").await;
        let began = std::time::Instant::now();
        eventually("the deadline is over", PATIENCE, || async {
            let now = says_upgradeable(&olm).await;
            if now == "True" { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        // No earlier than that; how much later is the machine's.
        assert!(began.elapsed().as_secs() >= 15);
        assert!(updated().await.iter().any(|p| !is_ready(p)), "the agent is still not Ready");
        olm.judge("dynatrace");
    });
}
