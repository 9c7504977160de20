//! The agent as an image of its own: from the environment's registry with a pull secret made for it, or the user's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::Shape;
use olm_tests::vendor::{api_token, paas_token};
use serde_json::{Value, json};

const PULL: &str = "agent-pull-secret";

fn secrets(lab: &Lab<'_>) -> Api<Secret> {
    Api::namespaced(lab.cluster.client.clone(), &lab.name)
}

/// What a pull secret says of the environment's registry: user and password.
async fn credentials(lab: &Lab<'_>) -> Option<(String, String)> {
    let secret = secrets(lab).get_opt(PULL).await.unwrap()?;
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/dockerconfigjson"));
    assert_eq!(secret.owner_references()[0].kind, "OneAgent");
    let config: Value = serde_json::from_slice(&secret.data.as_ref()?[".dockerconfigjson"].0).unwrap();
    let (host, entry) = config["auths"].as_object().unwrap().iter().next().unwrap();
    assert!(lab.cluster.vendor.url("x").contains(&format!("//{host}/")), "{host}");
    Some((entry["username"].as_str()?.to_owned(), entry["password"].as_str()?.to_owned()))
}

fn images(pods: &BTreeMap<String, Pod>) -> Vec<String> {
    let mut all: Vec<String> = pods.values().filter_map(|p| p.spec.as_ref()?.containers[0].image.clone()).collect();
    all.dedup();
    all
}

fn registry(lab: &Lab<'_>) -> String {
    lab.cluster.vendor.url(&lab.name).trim_start_matches("http://").trim_end_matches("/api").to_owned()
}

#[test]
fn an_image_of_the_environments_registry_is_rolled_out_with_a_pull_secret_that_follows_its_token() {
    olm_tests::run(async {
        let lab = Lab::new("image-tenant", 3).await;
        lab.oneagent(&json!({ "useImmutableImage": true }));
        lab.all_at("agent", V1, 3, SOON).await;
        let pods = lab.pods("agent").await;
        assert_eq!(images(&pods), [format!("{}/linux/oneagent:1.300.10", registry(&lab))]);
        let spec = pods.values().next().unwrap().spec.clone().unwrap();
        assert_eq!(spec.image_pull_secrets.unwrap()[0].name, PULL);
        assert!(!spec.containers[0].env.iter().flatten().any(|e| e.name.starts_with("ONEAGENT_INSTALLER")));
        assert_eq!(credentials(&lab).await, Some((lab.name.clone(), paas_token(&lab.name))));
        assert_eq!(lab.status("agent").await.use_immutable_image, Some(true));

        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 3, SOON).await;
        assert_eq!(images(&lab.pods("agent").await), [format!("{}/linux/oneagent:1.301.20", registry(&lab))]);

        // A new token, and a pull secret that a user deletes: both fixed, and no agent restarts for it.
        let before = lab.uids("agent").await;
        let next = "dt0c01.NEXT.SECRETPAASnext";
        lab.cluster.vendor.with(&lab.name, |e| drop(e.tokens.insert(next.into(), vec!["InstallerDownload".into()])));
        lab.secret(&api_token(&lab.name), next);
        let has = async |token: &str| {
            eventually("the pull secret has the token", SOON, || async {
                let found = credentials(&lab).await;
                if found.as_ref().is_some_and(|(_, password)| password == token) {
                    Ok(())
                } else {
                    Err("another, or none".to_owned())
                }
            })
            .await;
        };
        has(next).await;
        secrets(&lab).delete(PULL, &DeleteParams::default()).await.unwrap();
        has(next).await;
        assert_eq!(lab.uids("agent").await, before);

        // Back to the installer: a rollout like any other.
        lab.edit("agent", json!({ "useImmutableImage": false })).await;
        eventually("every agent comes by the installer", SOON, || async {
            let pods = lab.pods("agent").await;
            let installs = |p: &&Pod| {
                p.spec.as_ref().is_some_and(|s| {
                    s.containers[0].env.iter().flatten().any(|e| e.name == "ONEAGENT_INSTALLER_SCRIPT_URL")
                })
            };
            let count = pods.values().filter(installs).count();
            if count == 3 { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        lab.all_at("agent", V2, 3, SOON).await;
        lab.agents().delete("agent", &DeleteParams::background()).await.unwrap();
        eventually("the pull secret goes with the OneAgent", SOON, || async {
            if secrets(&lab).get_opt(PULL).await.unwrap().is_none() { Ok(()) } else { Err("still there".to_owned()) }
        })
        .await;
        for log in lab.operators.iter().map(olm_tests::operator::Operator::printed) {
            assert!(!log.contains("SECRETPAAS"), "{log}");
        }
        lab.end().await;
    });
}

#[test]
fn a_pull_secret_of_the_users_is_checked_before_anything_is_touched() {
    olm_tests::run(async {
        let lab = Lab::new("image-custom", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "useImmutableImage": true, "customPullSecret": "mine" })).await;
        let said = lab.condition("agent", "Degraded", "True", "PullSecretInvalid").await;
        assert!(said.contains("mine does not exist") && said.contains("create secret docker-registry mine"), "{said}");
        lab.cluster.kubectl(&["-n", &lab.name, "create", "secret", "generic", "mine", "--from-literal=a=b"]);
        lab.says("agent", "Degraded", "is no pull secret").await;
        assert_eq!(lab.uids("agent").await, before, "agents were touched");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", "mine"]);
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "create",
            "secret",
            "docker-registry",
            "mine",
            "--docker-server=r.example",
            "--docker-username=u",
            "--docker-password=p",
        ]);
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        eventually("every agent is pulled with it", SOON, || async {
            let pods = lab.pods("agent").await;
            let with = |p: &&Pod| {
                p.spec.as_ref().and_then(|s| s.image_pull_secrets.as_ref()).is_some_and(|s| s[0].name == "mine")
            };
            let count = pods.values().filter(with).count();
            if count == 2 { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        lab.all_at("agent", V1, 2, SOON).await;
        assert!(secrets(&lab).get_opt(PULL).await.unwrap().is_none(), "one of ours was made beside the user's");
        // A registry that cannot be one.
        let now = lab.uids("agent").await;
        lab.edit("agent", json!({ "apiUrl": "http://[::1]:9/e/UPPER/api" })).await;
        let said = lab.condition("agent", "Degraded", "True", "InvalidSpec").await;
        assert!(said.contains("name the image in spec.image"), "{said}");
        assert_eq!(lab.uids("agent").await, now);
        lab.end().await;
    });
}

#[test]
fn an_image_of_the_users_has_the_version_of_its_tag_and_no_other() {
    olm_tests::run(async {
        let lab = Lab::new("image-own", 2).await;
        lab.oneagent(&json!({ "useImmutableImage": true, "image": format!("registry.example/agent:{V1}") }));
        lab.all_at("agent", V1, 2, SOON).await;
        let status = lab.status("agent").await;
        assert_eq!((status.version_source.as_deref(), status.version.as_deref()), (Some("Image"), Some(V1)));
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        // Looked at since, and given the time in which an environment is asked again.
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.is_observed("agent").await;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert_eq!(lab.uids("agent").await, before, "a newer version moved an agent whose image is the user's");
        // An older one only where that is allowed.
        let tagged = |version: &str| json!({ "image": format!("registry.example/agent:{version}") });
        lab.edit("agent", tagged(V2)).await;
        lab.all_at("agent", V2, 2, SOON).await;
        let before = lab.uids("agent").await;
        lab.edit("agent", tagged(V1)).await;
        let said = lab.condition("agent", "Degraded", "True", "DowngradeNotAllowed").await;
        assert!(said.contains("of version") && said.contains("spec.update.allowDowngrade"), "{said}");
        assert_eq!(lab.uids("agent").await, before, "an older image was rolled out");
        lab.edit("agent", json!({ "update": { "allowDowngrade": true } })).await;
        lab.all_at("agent", V1, 2, SOON).await;
        // A tag that is no version: the image is what it is.
        let digest = "0".repeat(64);
        lab.edit("agent", json!({ "image": format!("registry.example/agent@sha256:{digest}") })).await;
        eventually("every agent runs the image", SOON, || async {
            let images = images(&lab.pods("agent").await);
            if images.len() == 1 && images[0].contains("@sha256:") { Ok(()) } else { Err(format!("{images:?}")) }
        })
        .await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert!(lab.pods("agent").await.values().all(|p| p.spec.as_ref().unwrap().image_pull_secrets.is_none()));
        lab.end().await;
    });
}

#[test]
fn a_pull_secret_that_the_original_left_is_used_and_stays_unowned() {
    olm_tests::run(async {
        let lab = Lab::new("image-left", 1).await;
        let registry = ["--docker-server=old.example", "--docker-username=u", "--docker-password=p"];
        lab.cluster.kubectl(&[&["-n", &lab.name, "create", "secret", "docker-registry", PULL][..], &registry].concat());
        lab.oneagent(&json!({ "useImmutableImage": true }));
        lab.all_at("agent", V1, 1, SOON).await;
        let secret = secrets(&lab).get(PULL).await.unwrap();
        let content = String::from_utf8(secret.data.clone().unwrap()[".dockerconfigjson"].0.clone()).unwrap();
        assert!(content.contains(&paas_token(&lab.name)) && secret.owner_references().is_empty());
        lab.end().await;
    });
}

#[test]
fn a_pull_secret_that_cannot_be_written_is_said_and_agents_stay() {
    olm_tests::run(async {
        let lab = Lab::new("image-refused", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        // Of another type, which is immutable.
        lab.cluster.kubectl(&["-n", &lab.name, "create", "secret", "generic", PULL, "--from-literal=a=b"]);
        lab.edit("agent", json!({ "useImmutableImage": true })).await;
        let said = lab.condition("agent", "Degraded", "True", "PullSecretInvalid").await;
        assert!(said.contains(PULL) && said.contains("immutable") && said.contains("customPullSecret"), "{said}");
        assert_eq!(lab.uids("agent").await, before, "agents were touched");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", PULL]);
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.all_at("agent", V1, 2, SOON).await;
        assert_eq!(credentials(&lab).await, Some((lab.name.clone(), paas_token(&lab.name))));
        lab.end().await;
    });
}

/// Mode, network zone, proxy, and a new version in between: each reaches every agent, once, a tenth at a time.
#[test]
fn a_switch_of_mode_zone_or_proxy_replaces_every_agent_once_and_within_the_budget() {
    olm_tests::run(async {
        let lab = Lab::new("image-once", 20).await;
        lab.behave(|b| b.ready_after = std::time::Duration::from_millis(300));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 3 } }));
        lab.all_at("agent", V1, 20, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 20).await;
        for (turn, change) in [
            json!({ "useImmutableImage": true }),
            json!({ "networkZone": "other" }),
            json!({ "proxy": { "value": "http://proxy.example:3128", "noProxy": "127.0.0.1" } }),
            json!({ "proxy": null, "useImmutableImage": false }),
        ]
        .into_iter()
        .enumerate()
        {
            // The environment is not reached through that proxy: the version stays, and yet agents get it.
            lab.edit("agent", change.clone()).await;
            eventually(&format!("every agent was replaced for {change}"), SOON * 2, || async {
                let seen = eyes.seen().await;
                assert!(seen.most_unready <= 3, "{} nodes without an agent at once", seen.most_unready);
                let others = seen.without(turn + 2);
                if others.is_empty() { Ok(()) } else { Err(format!("{others:?}")) }
            })
            .await;
            lab.condition("agent", "Ready", "True", "AllUpdated").await;
        }
        lab.is_looked_at().await;
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready > 0 && seen.without(5).is_empty(), "{seen:?}");
        }
        lab.end().await;
    });
}

/// The spec is ahead of what runs: nodes are selected for what runs.
#[test]
fn while_a_switch_of_modes_is_held_no_agent_comes_to_a_node_of_another_architecture() {
    olm_tests::run(async {
        let mut lab = Lab::new("image-arch", 1).await;
        lab.add_nodes(1, &Shape { arch: "arm64".into(), ..Shape::default() }).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.edit("agent", json!({ "useImmutableImage": true, "rollout": { "paused": true } })).await;
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        lab.pods_are("agent", &lab.nodes[..1]).await;
        let status = lab.status("agent").await;
        assert_eq!(status.nodes.map(|nodes| (nodes.selected, nodes.arch)), Some((1, 1)));
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.pods_are("agent", &lab.nodes).await;
        lab.all_at("agent", V1, 2, SOON).await;
        lab.end().await;
    });
}
