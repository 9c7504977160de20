//! What the API server refuses, Pods and DaemonSets, is said with its words and holds nothing else up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready};
use olm_tests::webhook::Webhook;
use serde_json::json;

#[test]
fn pods_that_the_api_server_refuses_are_said_with_its_words() {
    olm_tests::run(async {
        let lab = Lab::new("fail-refused", 1).await;
        lab.cluster.kubectl(&["label", "namespace", &lab.name, "pod-security.kubernetes.io/enforce=baseline"]);
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "Degraded", "True", "PodsRefused").await;
        assert!(message.contains("PodSecurity"), "{message}");
        assert_eq!(lab.status("agent").await.nodes.unwrap().admission, 1);
        lab.cluster.kubectl(&["label", "namespace", &lab.name, "pod-security.kubernetes.io/enforce-"]);
        lab.condition_within(SOON, "agent", "Degraded", "False", "AsExpected").await;
        // A ServiceAccount that is not there: both remedies are printed.
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "agent"]);
        lab.pods_are("agent", &[]).await;
        lab.oneagent(&json!({ "serviceAccountName": "not-there" }));
        let message = lab.condition("agent", "Degraded", "True", "ServiceAccountMissing").await;
        assert!(message.contains("oc -n fail-refused create serviceaccount not-there"), "{message}");
        lab.cluster.kubectl(&["-n", &lab.name, "create", "serviceaccount", "not-there"]);
        lab.condition_within(SOON, "agent", "Degraded", "False", "AsExpected").await;
        lab.all_at("agent", V1, 1, SOON).await;
        // The same as an edit of what runs: that is external trouble, and no reason to reject anything.
        lab.edit("agent", json!({ "serviceAccountName": "not-there-either" })).await;
        let message = lab.condition("agent", "Degraded", "True", "ServiceAccountMissing").await;
        assert!(message.contains("not-there-either"), "{message}");
        lab.cluster.kubectl(&["-n", &lab.name, "create", "serviceaccount", "not-there-either"]);
        eventually("the new agent runs", SOON, || async {
            let pods = lab.pods("agent").await;
            let new = |p: &Pod| {
                is_ready(p) && p.spec.as_ref().unwrap().service_account_name.as_deref() == Some("not-there-either")
            };
            if pods.values().filter(|p| new(p)).count() == 1 {
                Ok(())
            } else {
                Err(format!("{:#?}", lab.status("agent").await.conditions))
            }
        })
        .await;
        assert!(lab.status("agent").await.rollout.unwrap().failure.is_none());
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

/// As OpenShift and the admission plugin `PodNodeSelector` do it, the latter for real.
#[test]
fn nodes_that_the_namespace_itself_excludes_are_named_and_hold_nothing_up() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(olm_tests::cluster::Cluster::shared().await, "fail-namespace", 3).await;
        let label =
            |key: &'static str, node: &str| (node.to_owned(), json!({ "metadata": { "labels": { key: "yes" } } }));
        for (node, patch) in [label("inside", &lab.nodes[0]), label("inside", &lab.nodes[1])] {
            olm_tests::nodes::patch(&lab.cluster.client, &node, &patch).await;
        }
        let (cluster, namespace) = (lab.cluster, lab.name.clone());
        let annotate = |value: &str| {
            cluster.kubectl(&[
                "annotate",
                "namespace",
                &namespace,
                "--overwrite",
                &format!("scheduler.alpha.kubernetes.io/node-selector={value}"),
            ])
        };
        annotate("inside=yes");
        lab.start_operator(&[]).await;
        lab.oneagent(&json!({}));
        let said = lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert!(
            said.contains("all 2 nodes")
                && said.contains("fail-namespace-0002")
                && said.contains("kubectl annotate namespace fail-namespace"),
            "{said}"
        );
        let nodes = lab.status("agent").await.nodes.unwrap();
        assert_eq!((nodes.selected, nodes.running, nodes.namespace_selector, nodes.capacity), (2, 2, 1, 0));
        assert_eq!(nodes.examples["namespaceSelector"], ["fail-namespace-0002"]);
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        eventually("the two are updated", SOON, || async {
            let nodes = lab.status("agent").await.nodes.unwrap();
            let version = lab.status("agent").await.version;
            if nodes.updated == 2 && version.as_deref() == Some(V2) { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
        // The remedy, word by word: Pods that were made under the old rule must be created again.
        let said = lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let remedy = said.split_once("to let them in: ").unwrap().1;
        for command in remedy.split(" && ") {
            let words: Vec<&str> = command.split(' ').skip(1).collect();
            lab.cluster.kubectl(&words);
        }
        lab.all_at("agent", V2, 3, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_policy_that_refuses_the_daemonset_is_said_and_over_once_it_is_mended() {
    olm_tests::run(async {
        let lab = Lab::new("hostile-policy", 1).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "hostile-policy" },
            "spec": {
                "matchConstraints": { "resourceRules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["daemonsets"] }] },
                "validations": [{ "expression": "!has(object.spec.template.spec.containers[0].args)",
                "message": "arguments are forbidden by the platform" }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": "hostile-policy" },
            "spec": { "policyName": "hostile-policy", "validationActions": ["Deny"],
            "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": lab.name } } } },
        });
        lab.cluster.apply(&format!("{policy}\n---\n{binding}"));
        // A policy takes a moment to be enforced.
        eventually("the policy is enforced", SOON, || async {
            let refused = lab.cluster.try_kubectl(
                &[
                    "-n",
                    &lab.name,
                    "patch",
                    "daemonset",
                    "agent",
                    "--dry-run=server",
                    "--type=json",
                    "-p",
                    r#"[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["x"]}]"#,
                ],
                None,
            );
            if refused.is_err() { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "args": ["--set-host-group=x"] })).await;
        let said = lab.says("agent", "Degraded", "arguments are forbidden by the platform").await;
        assert!(said.contains("hostile-policy/agent"), "{said}");
        assert_eq!(lab.uids("agent").await, before);
        lab.cluster.kubectl(&[
            "delete",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            "hostile-policy",
        ]);
        eventually("the edit arrives", LONG, || async {
            let now = lab.uids("agent").await;
            if now.len() == 1 && now != before {
                Ok(())
            } else {
                Err(format!("{:#?}", lab.status("agent").await.conditions))
            }
        })
        .await;
        lab.all_at("agent", V1, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_pod_that_may_not_be_deleted_steps_aside_and_is_named_until_deleted() {
    olm_tests::run(async {
        let lab = Lab::new("refused-deletion", 4).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 4, SOON).await;
        let kept: Vec<String> = lab.pods("agent").await.into_values().take(2).map(|pod| pod.name_any()).collect();
        let holds = Arc::new(AtomicBool::new(true));
        let (still, protected) = (holds.clone(), kept.clone());
        let webhook = Webhook::of_deletions(&lab.cluster.client, &lab.name, move |_, pod| {
            let refused = still.load(Ordering::SeqCst) && protected.contains(&pod);
            async move { if refused { Err(format!("{pod} is under protection")) } else { Ok(()) } }
        })
        .await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 2).await;
        let said = lab.says("agent", "Degraded", "is under protection (and 1 more)").await;
        assert!(said.starts_with("the API server refuses to delete Pod "), "{said}");
        let left: Vec<_> = lab.pods("agent").await.into_values().map(|pod| pod.name_any()).collect();
        assert!(kept.iter().all(|pod| left.contains(pod)), "{left:?}");
        holds.store(false, Ordering::SeqCst);
        lab.all_at("agent", V2, 4, LONG).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        webhook.end().await;
        lab.end().await;
    });
}
