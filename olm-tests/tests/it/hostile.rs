//! Outside events that hit a fleet: taints, outages, restarts, rotations, blips, dying nodes. No agent that should run
//! is lost by it, and no version is rejected for it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready, version_of};
use olm_tests::nodes;
use olm_tests::vendor::{Mood, api_token, paas_token};
use serde_json::json;

/// Waits until the operator has asked for the host list once more.
async fn hosts_are_asked(lab: &Lab<'_>) {
    let asked = || {
        lab.cluster
            .vendor
            .with(&lab.name, |e| e.calls.get("/v1/entity/infrastructure/hosts").copied().unwrap_or_default())
    };
    let before = asked();
    eventually("the host list is asked for", SOON, || async {
        if asked() > before { Ok(()) } else { Err(before.to_string()) }
    })
    .await;
}

#[test]
fn taints_that_forbid_new_pods_take_no_agent_and_a_rollout_leaves_these_nodes_out() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-taint", 20).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 5 } }));
        lab.all_at("agent", V1, 20, SOON).await;
        let before = lab.uids("agent").await;
        let tainted = lab.nodes[..5].to_vec();
        let taint = json!({ "spec": { "taints": [{ "key": "maintenance", "value": "x", "effect": "NoSchedule" }] } });
        for node in &tainted {
            nodes::patch(&lab.cluster.client, node, &taint).await;
        }
        lab.shows("the agents on tainted nodes are counted apart", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| (nodes.selected, nodes.surplus, nodes.untolerated) == (15, 5, 5))
        })
        .await;
        let said = lab.says("agent", "Ready", "5 agents run on nodes with a taint").await;
        assert!(
            said.contains("maintenance=x:NoSchedule") && said.contains("kubectl -n hostile-taint delete pod"),
            "{said}"
        );
        assert_eq!(lab.uids("agent").await, before, "an agent was deleted for a taint");
        // A rollout leaves them out, and completes.
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.shows("the other fifteen are updated", SOON, |status| {
            status.nodes.as_ref().is_some_and(|n| n.progress == "15/15")
        })
        .await;
        let now = lab.uids("agent").await;
        assert!(
            tainted.iter().all(|node| now[node] == before[node]),
            "an agent whose successor could not start was taken"
        );
        // Untainted, they are updated as well.
        for node in &tainted {
            nodes::patch(&lab.cluster.client, node, &json!({ "spec": { "taints": [] } })).await;
        }
        lab.all_at("agent", V2, 20, SOON).await;
        lab.end().await;
    });
}

#[test]
fn agents_that_updated_themselves_survive_restarts_rotations_outages_and_are_judged_by_their_pods_only_at_last() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-self", 4).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 4 } }));
        lab.all_at("agent", V1, 4, SOON).await;
        let before = lab.uids("agent").await;
        for node in lab.nodes.clone() {
            let ip = lab.ip(&node).await;
            lab.cluster.vendor.with(&lab.name, |e| drop(e.hosts.insert(ip, V2.into())));
        }
        lab.cluster.vendor.publish(&lab.name, V2);
        let at_rest = async |lab: &Lab<'_>| {
            lab.shows("all are at V2", SOON, |status| {
                let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
                ready
                    && status.desired_version.as_deref() == Some(V2)
                    && status.nodes.as_ref().is_some_and(|n| n.progress == "4/4")
            })
            .await;
        };
        at_rest(&lab).await;
        assert_eq!(lab.uids("agent").await, before, "they were restarted for nothing");
        // A new process knows nothing: it asks first.
        lab.operators[0].process.kill();
        lab.start_operator(&[]).await;
        hosts_are_asked(&lab).await;
        lab.is_looked_at().await;
        at_rest(&lab).await;
        assert_eq!(lab.uids("agent").await, before, "a restart deleted agents that updated themselves");
        // A new process while the environment is unreachable.
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Broken);
        lab.operators[1].process.kill();
        lab.start_operator(&[]).await;
        lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "an outage at the start deleted agents");
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Well);
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        at_rest(&lab).await;
        // A rotated token is a new poller.
        let (api, paas) = (api_token(&lab.name), paas_token(&lab.name));
        let new = "dt0c01.NEW.SECRETAPInew";
        lab.cluster.vendor.with(&lab.name, |e| {
            let scopes = e.tokens[&api].clone();
            e.tokens.insert(new.into(), scopes);
        });
        lab.secret(new, &paas);
        hosts_are_asked(&lab).await;
        lab.is_looked_at().await;
        at_rest(&lab).await;
        assert_eq!(lab.uids("agent").await, before, "a rotated token deleted agents that updated themselves");
        // The host list is refused for good: what is left to judge by are the Pods.
        lab.cluster.vendor.with(&lab.name, |e| drop(e.tokens.insert(new.into(), Vec::new())));
        lab.operators[2].process.kill();
        lab.start_operator(&[]).await;
        lab.all_at("agent", V2, 4, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_blip_in_which_half_of_the_pods_are_said_to_be_unready_costs_none_of_them() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-blip", 60).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(1500));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 6 } }));
        lab.all_at("agent", V1, 60, LONG).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 6).await;
        // Nothing is replaced while the blip is being made: what is deleted after it was deleted for it.
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        lab.is_observed("agent").await;
        let old: BTreeMap<String, _> = lab
            .pods("agent")
            .await
            .into_iter()
            .filter(|(_, p)| version_of(p).as_deref() == Some(V1))
            .take(30)
            .collect();
        assert_eq!(old.len(), 30, "the rollout was over before it was paused");
        futures::future::join_all(old.values().map(|pod| lab.cluster.kubelet.say_ready(pod, false))).await;
        lab.shows("the blip is seen", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.running <= 30))
            .await;
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let now = lab.pods("agent").await;
        let deleted = old
            .iter()
            .filter(|(node, pod)| now.get(*node).is_none_or(|now| now.metadata.uid != pod.metadata.uid))
            .count();
        assert_eq!(deleted, 0, "Pods were deleted for being unready for a moment");
        futures::future::join_all(old.values().map(|pod| lab.cluster.kubelet.say_ready(pod, true))).await;
        lab.all_at("agent", V2, 60, LONG).await;
        lab.end().await;
    });
}

#[test]
fn an_edit_while_all_must_still_stay_ready_takes_the_budget_and_no_more() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-minready", 8).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2, "minReadySeconds": 3600 } }));
        lab.all_pods_ready("agent", 8).await;
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "env": [{ "name": "A", "value": "1" }] })).await;
        lab.is_looked_at().await;
        lab.is_looked_at().await;
        let now = lab.uids("agent").await;
        let replaced = before.iter().filter(|(node, uid)| now.get(*node) != Some(uid)).count();
        assert!(replaced <= 2, "{replaced} agents were replaced at once");
        lab.end().await;
    });
}

#[test]
fn a_late_secret_costs_no_agent_and_touched_objects_restart_none() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-secret", 4).await;
        let put = |kind: &str, name: &str, note: &str, data: &serde_json::Value| {
            let metadata = json!({ "name": name, "namespace": lab.name, "annotations": { "note": note } });
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata,
                    if kind == "Secret" { "stringData" } else { "data" }: data })
                .to_string(),
            );
        };
        let (ca, proxy) = (json!({ "certs": lab.cluster.vendor_ca }), json!({ "proxy": "http://127.0.0.1:1" }));
        put("ConfigMap", "ca", "1", &ca);
        put("Secret", "proxy", "1", &proxy);
        let spec = json!({ "apiUrl": lab.cluster.vendor.tls_url(&lab.name), "trustedCAs": "ca",
            "proxy": { "valueFrom": "proxy", "noProxy": "127.0.0.1,localhost" } });
        lab.oneagent(&spec);
        lab.all_at("agent", V1, 4, SOON).await;
        let before = lab.uids("agent").await;
        // The Secret that the spec names now comes later.
        lab.edit("agent", json!({ "tokens": "late" })).await;
        lab.condition("agent", "PaaSToken", "False", "TokenSecretNotFound").await;
        lab.condition("agent", "Progressing", "True", "Held").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.is_polled().await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "agents were replaced by Pods that could not start");
        put("Secret", "late", "1", &json!({ "apiToken": api_token(&lab.name), "paasToken": paas_token(&lab.name) }));
        lab.all_at("agent", V2, 4, SOON).await;
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        // Annotated, or written once more: no agent restarts, in this process and in the next.
        let before = lab.uids("agent").await;
        put("ConfigMap", "ca", "2", &ca);
        put("Secret", "proxy", "2", &proxy);
        lab.is_looked_at().await;
        let mut lab = lab;
        lab.operators[0].process.kill();
        lab.start_operator(&[]).await;
        hosts_or_looked(&lab).await;
        assert_eq!(lab.uids("agent").await, before, "a touched object restarted agents");
        // Another content is another thing.
        let kind = json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "proxy", "namespace": lab.name }, "stringData": { "proxy": "http://127.0.0.1:2" } });
        lab.cluster.apply(&kind.to_string());
        eventually("every agent is replaced", SOON, || async {
            let now = lab.uids("agent").await;
            if now.len() == 4 && now.iter().all(|(node, uid)| before.get(node) != Some(uid)) {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await;
        lab.all_at("agent", V2, 4, SOON).await;
        lab.end().await;
    });
}

async fn hosts_or_looked(lab: &Lab<'_>) {
    lab.is_looked_at().await;
    lab.condition("agent", "Ready", "True", "AllUpdated").await;
}

#[test]
fn a_verdict_is_withdrawn_when_the_failed_agents_recover() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-withdraw", 10).await;
        lab.oneagent(&json!({ "waitReadySeconds": 4, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 10, SOON).await;
        lab.behave(|b| _ = b.versions.insert(V2.into(), Fault::CrashLoop));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        lab.shows("it is rejected", SOON, |status| status.rejected_versions == [V2]).await;
        lab.behave(|b| b.versions.clear());
        lab.all_at("agent", V2, 10, LONG).await;
        lab.shows("nothing is rejected", SOON, |status| status.rejected_versions.is_empty()).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn pods_of_an_edited_daemonset_without_an_operator_are_replaced_and_no_others() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-edit", 3).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let before = lab.uids("agent").await;
        lab.operators[0].process.kill();
        let edit = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "dynatrace-oneagent",
            "env": [{ "name": "EDITED", "value": "1" }] }] } } } });
        lab.cluster.kubectl(&["-n", &lab.name, "patch", "daemonset", "agent", "-p", &edit.to_string()]);
        let node = lab.nodes[1].clone();
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "delete",
            "pod",
            &lab.pods("agent").await[&node].metadata.name.clone().unwrap(),
        ]);
        let is_edited = |pod: &Pod| {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers.flat_map(|container| container.env.iter().flatten()).any(|variable| variable.name == "EDITED")
        };
        eventually("a Pod is born from the edit", SOON, || async {
            let pods = lab.pods("agent").await;
            let born = pods.get(&node).is_some_and(|pod| is_edited(pod) && is_ready(pod));
            if born { Ok(()) } else { Err(format!("{:?}", pods.keys())) }
        })
        .await;
        lab.start_operator(&[]).await;
        eventually("it is replaced", LONG, || async {
            let pods = lab.pods("agent").await;
            let good = pods.len() == 3 && pods.values().all(|pod| !is_edited(pod) && is_ready(pod));
            if good { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.all_at("agent", V1, 3, SOON).await;
        eventually("nothing of it is left", SOON, || async {
            let annotations =
                lab.daemonset("agent").await.and_then(|daemonset| daemonset.metadata.annotations).unwrap_or_default();
            let record = &annotations["oneagent.dynatrace.com/record"];
            if record.contains("edited") { Err(record.clone()) } else { Ok(()) }
        })
        .await;
        let after = lab.uids("agent").await;
        let kept = before.iter().filter(|(name, uid)| **name != node && after.get(*name) == Some(uid)).count();
        assert_eq!(kept, 2, "the others were not made from it");
        assert!(
            lab.events("agent").await.iter().any(|event| event.contains("DaemonSetEdited")),
            "{:?}",
            lab.events("agent").await
        );
        lab.operators.remove(0);
        lab.end().await;
    });
}

#[test]
fn a_status_that_was_edited_by_hand_is_written_again() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-status", 1).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "patch",
            "oneagent",
            "agent",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Mended","conditions":[]}}"#,
        ]);
        lab.shows("it is as it should be", SOON, |status| {
            status.phase.as_deref() == Some("Running") && !status.conditions.is_empty()
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn one_of_three_namespaces_that_is_deleted_does_not_keep_the_others_from_being_served() {
    olm_tests::run(async {
        let cluster = olm_tests::cluster::Cluster::shared().await;
        let mut lab = Lab::without_operator(cluster, "hostile-scope", 2).await;
        // Its rights are in its own namespace: of the other two it may read nothing, as after their deletion.
        let scopes = "hostile-gone-1,hostile-scope,hostile-gone-2";
        lab.unjudged = Some((chrono::DateTime::UNIX_EPOCH, chrono::DateTime::<chrono::Utc>::MAX_UTC));
        lab.start_operator(&[("WATCH_NAMESPACE", scopes)]).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.end().await;
    });
}
