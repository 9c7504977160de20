//! Every field of a spec that changes the Pods, edited one after the other.

use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, is_ready};
use oneagent_operator::k8s::facts::HASH_ANNOTATION;
use serde_json::json;

#[test]
#[expect(clippy::too_many_lines, reason = "one after the other, each a line or two")]
fn every_edit_of_the_pods_reaches_every_pod_within_the_budget() {
    olm_tests::run(async {
        let lab = Lab::new("install-edit", 3).await;
        let text = |kind: &str, name: &str, key: &str, value: &str| {
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": kind,
                "metadata": { "name": name, "namespace": lab.name },
                if kind == "Secret" { "stringData" } else { "data" }: { key: value } })
                .to_string(),
            );
        };
        text("Secret", "proxy", "proxy", "http://127.0.0.1:1");
        text("ConfigMap", "ca", "certs", &lab.cluster.vendor_ca);
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        lab.edit(
            "agent",
            json!({
                "apiUrl": lab.cluster.vendor.tls_url(&lab.name), "trustedCAs": "ca",
                "args": ["--set-host-group=prod"],
                "env": [{ "name": "X", "value": "y" }, { "name": "DT_K8S_CLUSTER_ID", "value": "mine" }],
                "labels": { "team": "ops", "dynatrace": "not-yours" },
                "annotations": { "note": "kept", "oneagent.dynatrace.com/template-hash": "not-yours" },
                "priorityClassName": "system-node-critical", "dnsPolicy": "Default",
                "resources": { "limits": { "memory": "1.5Gi" } }, "useUnprivilegedMode": true,
                "webhookInjection": true, "image": "registry.example/agent:7",
            }),
        )
        .await;
        eventually("every Pod has the new template", SOON, || async {
            let pods = lab.pods("agent").await;
            let new =
                pods.values().filter(|p| p.labels().get("team").is_some_and(|t| t == "ops") && is_ready(p)).count();
            if new == 3 { Ok(()) } else { Err(format!("{new}: {:#?}", lab.status("agent").await.conditions)) }
        })
        .await;
        let pod = lab.pods("agent").await.into_values().next().unwrap();
        let spec = pod.spec.clone().unwrap();
        let container = &spec.containers[0];
        let env = |name: &str| {
            container.env.iter().flatten().find(|e| e.name == name).unwrap_or_else(|| panic!("no {name}")).clone()
        };
        assert_eq!(pod.labels()["dynatrace"], "oneagent", "the selector's labels win");
        assert_eq!(
            (pod.annotations()["note"].as_str(), pod.annotations()[HASH_ANNOTATION] == "not-yours"),
            ("kept", false)
        );
        assert_eq!(env("DT_K8S_CLUSTER_ID").value.as_deref(), Some("mine"));
        assert_eq!(env("X").value.as_deref(), Some("y"));
        assert_eq!(env("ONEAGENT_DISABLE_CONTAINER_INJECTION").value.as_deref(), Some("true"));
        assert!(
            env("ONEAGENT_INSTALLER_SCRIPT_URL")
                .value
                .unwrap()
                .ends_with(&format!("/version/{V1}?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)&arch=x86&flavor=default"))
        );
        assert_eq!(container.args.as_ref().unwrap(), &["--set-host-group=prod", "--set-host-id-source=k8s-node-name"]);
        assert_eq!(container.image.as_deref(), Some("registry.example/agent:7"));
        assert_eq!(
            (spec.dns_policy.as_deref(), spec.priority_class_name.as_deref()),
            (Some("Default"), Some("system-node-critical"))
        );
        assert_eq!(spec.service_account_name.as_deref(), Some("dynatrace-oneagent-unprivileged"));
        assert_eq!(container.security_context.as_ref().unwrap().privileged, None);
        assert_eq!(
            container.security_context.as_ref().unwrap().capabilities.as_ref().unwrap().add.as_ref().unwrap().len(),
            15
        );
        assert_eq!(container.resources.as_ref().unwrap().limits.as_ref().unwrap()["memory"].0, "1536Mi");
        assert!(spec.volumes.unwrap().iter().any(|v| v.config_map.as_ref().is_some_and(|c| c.name == "ca")));
        assert!(spec.host_network.unwrap() && spec.host_pid.unwrap() && spec.host_ipc.unwrap());

        // The content of a ConfigMap or a proxy Secret reaches the Pods, too.
        let before = lab.uids("agent").await;
        text("ConfigMap", "ca", "certs", &format!("{}\n# newer", lab.cluster.vendor_ca));
        eventually("every Pod is replaced", SOON, || async {
            let now = lab.uids("agent").await;
            if now.len() == 3 && now.iter().all(|(node, uid)| before.get(node) != Some(uid)) {
                Ok(())
            } else {
                Err("not all".to_owned())
            }
        })
        .await;
        // The proxy is dead, for the operator too: nothing is replaced that could not download its agent. Around it the
        // environment is reached again, and agents are told.
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "proxy": { "valueFrom": "proxy" } })).await;
        lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        lab.condition("agent", "Progressing", "True", "Held").await;
        assert_eq!(lab.uids("agent").await, before);
        lab.edit("agent", json!({ "proxy": { "noProxy": "localhost,.example" } })).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        eventually("every Pod has the proxy", SOON, || async {
            let pods = lab.pods("agent").await;
            let new = pods
                .values()
                .filter(|p| {
                    p.spec.as_ref().unwrap().containers[0]
                        .args
                        .iter()
                        .flatten()
                        .any(|a| a == "--set-proxy=$(https_proxy)")
                        && is_ready(p)
                })
                .count();
            if new == 3 { Ok(()) } else { Err(format!("{new}")) }
        })
        .await;
        eventually("every Pod goes around the proxy", SOON, || async {
            let pods = lab.pods("agent").await;
            let told = |p: &&k8s_openapi::api::core::v1::Pod| {
                let env = p.spec.as_ref().unwrap().containers[0].env.iter().flatten();
                env.filter(|e| e.name == "no_proxy").any(|e| e.value.as_deref() == Some("localhost,.example"))
            };
            let count = pods.values().filter(told).count();
            if count == 3 { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn a_proxy_secret_that_is_created_again_with_the_same_value_restarts_no_agent() {
    olm_tests::run(async {
        let mut lab = Lab::new("same-proxy", 2).await;
        let secret = |lab: &Lab<'_>, port: u16| {
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "proxy", "namespace": lab.name },
                    "stringData": { "proxy": format!("http://127.0.0.1:{port}") } })
                .to_string(),
            );
        };
        let again = |lab: &Lab<'_>| {
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", "proxy"]);
            secret(lab, 1);
        };
        secret(&lab, 1);
        lab.oneagent(&json!({ "proxy": { "valueFrom": "proxy", "noProxy": "localhost,127.0.0.1" } }));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        let hash = async |lab: &Lab<'_>| {
            let template = lab.daemonset("agent").await.unwrap().spec.unwrap().template.metadata.unwrap();
            template.annotations.unwrap()[HASH_ANNOTATION].clone()
        };
        let first = hash(&lab).await;
        again(&lab);
        lab.is_looked_at().await;
        assert_eq!((hash(&lab).await, lab.uids("agent").await), (first.clone(), before.clone()), "while it watches");
        lab.operators.clear();
        again(&lab);
        lab.start_operator(&[]).await;
        lab.is_looked_at().await;
        assert_eq!((hash(&lab).await, lab.uids("agent").await), (first, before.clone()), "while it is away");
        secret(&lab, 2);
        eventually("another value reaches every Pod", SOON, || async {
            let now = lab.uids("agent").await;
            let are_new = now.len() == 2 && now.iter().all(|(node, uid)| before.get(node) != Some(uid));
            if are_new { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn a_restart_of_the_daemonset_by_hand_is_undone_said_and_costs_no_agent() {
    olm_tests::run(async {
        let lab = Lab::new("edits-restart", 3).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let before = lab.uids("agent").await;
        lab.cluster.kubectl(&["-n", &lab.name, "rollout", "restart", "daemonset", "agent"]);
        eventually("the restart is undone, and said", SOON, || async {
            let (events, daemonset) = (lab.events("agent").await, lab.daemonset("agent").await.expect("a DaemonSet"));
            let is_said =
                events.iter().any(|event| event.contains("DaemonSetEdited") && event.contains("delete its Pod"));
            let is_there = json!(daemonset).to_string().contains("restartedAt\":");
            if is_said && !is_there { Ok(()) } else { Err(format!("{is_there} {events:?}")) }
        })
        .await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before);
        lab.end().await;
    });
}
