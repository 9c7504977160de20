//! `explain`, as whoever is on call types it, with rights to read alone.

use std::process::Command;

use kube::ResourceExt;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::patch;
use olm_tests::operator::token;
use serde_json::{Value, json};

/// An account that may read what `explain` and `plan` read, and nothing else.
pub async fn on_call(lab: &Lab<'_>) -> String {
    let name = "on-call";
    let rule =
        |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["list"] });
    let mut namespaces = rule("", "namespaces");
    namespaces["verbs"] = json!(["get"]);
    let mut versions = rule("", "configmaps");
    (versions["verbs"], versions["resourceNames"]) = (json!(["get"]), json!(["versions"]));
    let rules = [
        rule("dynatrace.com", "oneagents"),
        rule("", "nodes"),
        rule("", "pods"),
        rule("apps", "daemonsets"),
        namespaces,
        versions,
    ];
    let rbac = "rbac.authorization.k8s.io";
    let bound = format!("{name}-{}", lab.name);
    let objects = [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": lab.name } }),
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": bound },
            "rules": rules }),
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": bound },
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": bound },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": lab.name }] }),
    ];
    lab.cluster.apply(&objects.map(|object| object.to_string()).join("\n---\n"));
    let file = lab.cluster.path(&format!("{}.on-call", lab.name));
    std::fs::write(&file, token(&lab.cluster.client, &lab.name, name, None).await).unwrap();
    let kubeconfig = lab.cluster.plane.lock().await.token_kubeconfig(&file);
    let path = lab.cluster.path(&format!("{}.on-call.kubeconfig", lab.name));
    std::fs::write(&path, kubeconfig).unwrap();
    path.display().to_string()
}

#[test]
fn whoever_is_on_call_is_told_why_a_node_has_no_agent_and_what_helps() {
    olm_tests::run(async {
        let lab = Lab::new("explained", 6).await;
        let kubeconfig = on_call(&lab).await;
        lab.behave(|b| {
            b.nodes.insert(lab.nodes[1].clone(), Fault::CrashLoop);
        });
        let change = async |node: &str, change: Value| patch(&lab.cluster.client, node, &change).await;
        change(&lab.nodes[2], json!({ "spec": { "taints": [{ "key": "team", "effect": "NoSchedule" }] } })).await;
        change(&lab.nodes[3], json!({ "metadata": { "labels": { "lab": "other" } } })).await;
        lab.oneagent(&json!({ "waitReadySeconds": 5 }));
        lab.shows("three run", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.running == 3)).await;
        lab.says("agent", "Ready", "CrashLoopBackOff").await;
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.shows("it is known who is outdated", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| nodes.version_unknown == 0 && nodes.outdated == 4)
        })
        .await;

        let explain = |what: &[&str]| {
            let mut command = Command::new(olm_tests::operator::binary());
            command.arg("explain").args(what).args(["-n", &lab.name]).env("KUBECONFIG", &kubeconfig);
            let output = command.output().unwrap();
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            (output.status.code(), said)
        };
        let node = |number: usize| {
            let (code, said) = explain(&["node", &lab.nodes[number]]);
            assert_eq!(code, Some(0), "{said}");
            said
        };
        let old = node(0);
        assert!(
            old.starts_with(&format!("{}/agent: runs agent {V1}; {V2} is desired, and its turn comes", lab.name)),
            "{old}"
        );
        assert!(old.contains("(rollout: Paused, rollout.paused is true)"), "{old}");
        let crashes = node(1);
        assert!(crashes.contains("no available agent: ") && crashes.contains("CrashLoopBackOff"), "{crashes}");
        let pod = lab.pods("agent").await[&lab.nodes[1]].name_any();
        let logs = format!("kubectl -n {} logs {pod} --previous", lab.name);
        assert!(crashes.contains(&logs), "{crashes}");
        let tainted = node(2);
        let mend = format!("kubectl taint node {} team:NoSchedule-", lab.nodes[2]);
        assert!(tainted.contains("taint team:NoSchedule is not tolerated") && tainted.contains(&mend), "{tainted}");
        let other = node(3);
        assert!(other.contains("spec.nodeSelector wants lab=explained, and the node is lab=other"), "{other}");
        change(&lab.nodes[4], json!({ "metadata": { "labels": { "oneagent.dynatrace.com/skip-update": "" } } })).await;
        let skipped = node(4);
        assert!(
            skipped.contains("the node is left alone: it has label oneagent.dynatrace.com/skip-update"),
            "{skipped}"
        );
        change(&lab.nodes[5], json!({ "spec": { "unschedulable": true } })).await;
        assert!(node(5).contains("the node is left alone: the node is cordoned"));
        let (code, said) = explain(&["node", &lab.nodes[0].replace("-0000", "-000")]);
        assert!(code == Some(1) && said.contains("the nearest name is explained-0"), "{said}");
        let (code, said) = explain(&["agnet"]);
        assert!(code == Some(1) && said.contains("the nearest name is agent"), "{said}");
        let (code, said) = explain(&["agent"]);
        assert!(code == Some(0) && said.contains("waits: rollout.paused is true"), "{said}");
        assert!(said.contains("explained/agent: Progressing False (Paused)"), "{said}");
        // As printed.
        let words: Vec<&str> = mend.split(' ').skip(1).collect();
        lab.cluster.kubectl(&words);
        lab.shows("the node has an agent", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| nodes.untolerated == 0)
        })
        .await;
        lab.end().await;
    });
}
