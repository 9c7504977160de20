//! Outside events while canaries are watched: taints, restarts, wiped memory, edits, lists that cannot be read. No
//! other agent gets the new version, and it continues on its own.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SHORT_LEASE, SOON, V1, V2, is_ready, version_of};
use olm_tests::nodes::{patch, set_ready};
use olm_tests::vendor::{api_token, paas_token};
use serde_json::{Value, json};

/// Nodes with a Ready agent of a version.
async fn at(lab: &Lab<'_>, version: &str) -> Vec<String> {
    let pods = lab.pods("agent").await;
    let is_at = |pod: &_| version_of(pod).as_deref() == Some(version) && is_ready(pod);
    pods.iter().filter(|(_, pod)| is_at(pod)).map(|(node, _)| node.clone()).collect()
}

/// Waits until so many agents are at the old version and so many at the new one, and a look later still are; returns
/// the nodes of the new one.
async fn are(lab: &Lab<'_>, old: usize, new: usize) -> Vec<String> {
    eventually(&format!("{old} agents at {V1}, {new} at {V2}"), SOON, || async {
        let now = (at(lab, V1).await, at(lab, V2).await);
        if (now.0.len(), now.1.len()) == (old, new) {
            return Ok(());
        }
        let status = lab.status("agent").await;
        Err(format!("{now:?} {:?} {:#?}", status.rollout, status.conditions))
    })
    .await;
    lab.is_looked_at().await;
    let now = (at(lab, V1).await, at(lab, V2).await);
    assert_eq!((now.0.len(), now.1.len()), (old, new), "a look later: {now:?}");
    now.1
}

/// Six nodes, of which one is watched as a canary for an hour; and which one.
async fn soaking(name: &str) -> (Lab<'static>, String) {
    soaks(Lab::new(name, 6).await).await
}

/// The same in a corner that is there.
async fn soaks(lab: Lab<'static>) -> (Lab<'static>, String) {
    let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } });
    lab.oneagent(&json!({ "rollout": rollout }));
    lab.all_at("agent", V1, 6, SOON).await;
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.says("agent", "Progressing", "1 node must stay available until").await;
    let canary = are(&lab, 5, 1).await.remove(0);
    (lab, canary)
}

/// The version of a DaemonSet's template.
fn made_from(daemonset: &DaemonSet) -> Option<String> {
    let template = daemonset.spec.as_ref()?.template.metadata.as_ref()?;
    template.annotations.as_ref()?.get("oneagent.dynatrace.com/agent-version").cloned()
}

async fn taint(lab: &Lab<'_>, node: &str, effect: Option<&str>) {
    let taints: Vec<Value> = effect.map(|effect| json!({ "key": "broken", "effect": effect })).into_iter().collect();
    patch(&lab.cluster.client, node, &json!({ "spec": { "taints": taints } })).await;
}

/// No canary is watched any more.
async fn ends(lab: Lab<'_>, count: usize) {
    lab.edit("agent", json!({ "rollout": { "canary": null } })).await;
    lab.all_at("agent", V2, count, LONG).await;
    assert!(lab.status("agent").await.rejected_versions.is_empty());
    lab.end().await;
}

#[test]
fn a_canary_on_a_tainted_node_is_replaced_by_another_and_comes_back_as_it_was() {
    olm_tests::run(async {
        let (mut lab, canary) = soaking("soak-taints").await;
        taint(&lab, &canary, Some("NoExecute")).await;
        let second = are(&lab, 4, 1).await.remove(0);
        assert_ne!(second, canary);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        // It gets the previous version, which its host refuses.
        taint(&lab, &canary, None).await;
        assert!(are(&lab, 4, 2).await.contains(&canary));
        // NoSchedule takes no agent, and so no canary.
        taint(&lab, &second, Some("NoSchedule")).await;
        lab.shows("the taint is seen", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.surplus == 1))
            .await;
        taint(&lab, &second, None).await;
        lab.shows("and gone", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.surplus == 0)).await;
        are(&lab, 4, 2).await;
        // Others delete a canary's Pod, under the operator's eyes and in its absence.
        for away in [false, true] {
            if away {
                lab.operators.clear();
            }
            let pod = lab.pods("agent").await.remove(&canary).unwrap().name_any();
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pod]);
            if away {
                lab.start_operator(&[]).await;
            }
            assert!(are(&lab, 4, 2).await.contains(&canary));
        }
        ends(lab, 6).await;
    });
}

#[test]
fn a_canary_that_is_tainted_between_its_old_pod_and_its_new_one_gives_way_to_another() {
    olm_tests::run(async {
        let lab = Lab::new("soak-between", 6).await;
        let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } });
        lab.oneagent(&json!({ "rollout": rollout }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.behave(|b| b.gone_after = LONG);
        lab.cluster.vendor.publish(&lab.name, V2);
        let going = async || {
            let pods = lab.pods("agent").await;
            lab.nodes.iter().find(|node| !pods.contains_key(*node)).cloned()
        };
        eventually("a canary goes", SOON, || async { going().await.map(|_| ()).ok_or("not yet".to_owned()) }).await;
        let first = going().await.unwrap();
        taint(&lab, &first, Some("NoSchedule")).await;
        lab.wants("agent", 5).await;
        lab.behave(|b| b.gone_after = Duration::from_millis(50));
        let second = are(&lab, 4, 1).await.remove(0);
        assert_ne!(first, second);
        lab.daemonset_is("agent", "its template is the old one again", |d| made_from(d).as_deref() == Some(V1)).await;
        taint(&lab, &first, None).await;
        assert_eq!(are(&lab, 5, 1).await, [second], "it never had the new version, and needs it no more");
        ends(lab, 6).await;
    });
}

#[test]
fn no_new_leader_wiped_status_or_outage_of_half_takes_another_canary() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "soak-leaders", 6).await;
        lab.start_operator(&SHORT_LEASE).await;
        let (mut lab, canary) = soaks(lab).await;
        let eyes = Eyes::on(&lab, "agent", 6).await;
        lab.start_operator(&SHORT_LEASE).await;
        lab.operators[0].process.kill();
        lab.operators.remove(0);
        lab.is_looked_at().await;
        let wipe = json!([{ "op": "replace", "path": "/status", "value": {} }]).to_string();
        let of = ["-n", &lab.name, "patch", "oneagent", "agent", "--subresource=status", "--type=json", "-p", &wipe];
        lab.cluster.kubectl(&of);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        assert_eq!(are(&lab, 5, 1).await, std::slice::from_ref(&canary));
        // The canary itself is among those that are unreachable.
        let away: Vec<&String> = lab
            .nodes
            .iter()
            .filter(|node| **node == canary)
            .chain(lab.nodes.iter().filter(|n| **n != canary))
            .take(3)
            .collect();
        for ready in [false, true, false, true] {
            for node in &away {
                set_ready(&lab.cluster.client, node, ready).await;
            }
            lab.is_looked_at().await;
        }
        assert_eq!(are(&lab, 5, 1).await, std::slice::from_ref(&canary));
        assert!(eyes.seen().await.deletions.is_empty(), "somebody was replaced");
        ends(lab, 6).await;
    });
}

#[test]
fn a_status_that_cannot_be_written_takes_no_other_canary_across_restarts() {
    olm_tests::run(async {
        let mut lab = Lab::new("soak-status", 6).await;
        let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } });
        lab.oneagent(&json!({ "rollout": rollout }));
        lab.all_at("agent", V1, 6, SOON).await;
        let rights = lab.rights();
        let mut less = rights.clone();
        let is_status =
            |rule: &Value| rule["resources"].as_array().is_some_and(|r| r.contains(&json!("oneagents/status")));
        assert!(less.as_array().unwrap().iter().any(is_status));
        less.as_array_mut().unwrap().retain(|rule| !is_status(rule));
        let began = chrono::Utc::now();
        // Nothing is begun that could not be noted.
        lab.set_rights(&less);
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.is_polled().await;
        assert_eq!(lab.pods("agent").await.len(), 6);
        assert!(at(&lab, V2).await.is_empty());
        // Between its two turns of the template.
        lab.behave(|b| b.gone_after = LONG);
        lab.set_rights(&rights);
        eventually("a canary goes", SOON, || async {
            let now = lab.pods("agent").await.len();
            if now == 5 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        lab.set_rights(&less);
        lab.behave(|b| b.gone_after = Duration::from_millis(50));
        let at_v2 = async || at(&lab, V2).await.len();
        eventually("a canary", SOON, || async {
            let now = at_v2().await;
            if now == 1 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        for _ in 0..3 {
            lab.is_polled().await;
            assert_eq!(at_v2().await, 1, "nobody could note it");
        }
        lab.operators[0].process.kill();
        lab.operators.clear();
        lab.start_operator(&[]).await;
        for _ in 0..3 {
            lab.is_polled().await;
            assert_eq!(at(&lab, V2).await.len(), 1, "nobody could note it, and who did it is gone");
        }
        lab.set_rights(&rights);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        are(&lab, 5, 1).await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        ends(lab, 6).await;
    });
}

#[test]
fn what_is_edited_while_canaries_are_watched_counts_at_once() {
    olm_tests::run(async {
        let (lab, canary) = soaking("soak-edits").await;
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 1 } })).await;
        assert_eq!(are(&lab, 5, 1).await, std::slice::from_ref(&canary));
        lab.edit("agent", json!({ "rollout": { "canary": { "nodes": 2 } } })).await;
        let two = are(&lab, 4, 2).await;
        lab.edit("agent", json!({ "rollout": { "canary": { "nodes": 1 } } })).await;
        assert_eq!(are(&lab, 4, 2).await, two, "nobody goes back");
        // Others are canaries now.
        let marked = lab.nodes.iter().find(|node| !two.contains(node)).unwrap().clone();
        patch(&lab.cluster.client, &marked, &json!({ "metadata": { "labels": { "ring": "first" } } })).await;
        let selector = json!({ "nodes": null, "selector": { "ring": "first" } });
        lab.edit("agent", json!({ "rollout": { "canary": selector } })).await;
        assert!(are(&lab, 3, 3).await.contains(&marked));
        // The list instead of the environment, then none that can be read.
        let list = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "versions", "namespace": lab.name }, "data": { "versions": format!("{V1}\n{V2}") } });
        lab.cluster.apply(&list.to_string());
        let source = json!({ "source": "ConfigMap", "configMap": { "name": "versions" } });
        lab.edit("agent", json!({ "update": source })).await;
        are(&lab, 3, 3).await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "versions"]);
        lab.condition("agent", "Degraded", "True", "VersionListInvalid").await;
        are(&lab, 3, 3).await;
        lab.cluster.apply(&list.to_string());
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.edit("agent", json!({ "update": null })).await;
        are(&lab, 3, 3).await;
        lab.edit("agent", json!({ "rollout": { "canary": { "soak": "1s" } } })).await;
        lab.all_at("agent", V2, 6, LONG).await;
        lab.end().await;
    });
}

#[test]
fn an_image_of_the_users_own_and_a_template_too_large_to_be_remembered_meet_a_canary_first() {
    olm_tests::run(async {
        let lab = Lab::new("soak-image", 4).await;
        let image = |version: &str| format!("registry.example/agent:{version}");
        let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } });
        lab.oneagent(&json!({ "useImmutableImage": true, "image": image(V1), "rollout": rollout }));
        lab.all_at("agent", V1, 4, SOON).await;
        lab.edit("agent", json!({ "image": image(V2) })).await;
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        are(&lab, 3, 1).await;
        lab.edit("agent", json!({ "rollout": { "canary": { "soak": "1s" } } })).await;
        lab.all_at("agent", V2, 4, LONG).await;
        // What is remembered of a template is bounded: this one cannot be gone back to.
        let large = |letter: &str| json!([{ "name": "LARGE", "value": letter.repeat(200_000) }]);
        lab.edit("agent", json!({ "env": large("a"), "rollout": { "canary": null } })).await;
        let has = async |letter: &str| {
            let value = |pod: &k8s_openapi::api::core::v1::Pod| {
                let env = pod.spec.as_ref().and_then(|spec| spec.containers[0].env.clone()).unwrap_or_default();
                env.into_iter().any(|e| e.value.is_some_and(|value| value.starts_with(letter) && value.len() > 9_999))
            };
            lab.pods("agent").await.values().filter(|pod| value(pod) && is_ready(pod)).count()
        };
        let reaches = async |letter: &str, count: usize| {
            eventually(&format!("{count} agents have it"), SOON, || async {
                let now = has(letter).await;
                let status = lab.status("agent").await;
                let said = status.conditions.iter().map(|c| format!("{} {}: {}", c.type_, c.status, c.message));
                if now == count { Ok(()) } else { Err(format!("{now} {:#?}", said.collect::<Vec<_>>())) }
            })
            .await;
        };
        reaches("aa", 4).await;
        lab.edit("agent", json!({ "env": large("b"), "rollout": { "canary": { "nodes": 1, "soak": "1h" } } })).await;
        reaches("bb", 1).await;
        lab.is_looked_at().await;
        assert_eq!((has("aa").await, has("bb").await), (3, 1));
        lab.edit("agent", json!({ "rollout": { "canary": { "soak": "1s" } } })).await;
        reaches("bb", 4).await;
        lab.end().await;
    });
}

#[test]
fn a_secret_deleted_during_a_soak_completes_no_rollout() {
    olm_tests::run(async {
        let lab = Lab::new("soak-secret", 3).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1, "canary": { "soak": "6s" } } }));
        lab.all_at("agent", V1, 3, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Progressing", "must stay available until").await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", "tokens"]);
        lab.condition("agent", "Degraded", "True", "TokenSecretNotFound").await;
        // Well beyond the soak.
        for _ in 0..40 {
            let status = lab.status("agent").await;
            let rollout = status.rollout.unwrap_or_default();
            assert_ne!(rollout.state, "Complete", "{rollout:#?}");
            assert_eq!(status.desired_version.as_deref(), Some(V2));
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        lab.secret(&api_token(&lab.name), &paas_token(&lab.name));
        lab.all_at("agent", V2, 3, LONG).await;
        let history = lab.status("agent").await.rollout.unwrap_or_default().history;
        assert!(history.iter().all(|past| past.from != past.to), "{history:#?}");
        lab.end().await;
    });
}
