//! `explain`, as a person on call types it, with rights to read alone.

use std::process::Command;

use kube::ResourceExt;
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SHORT_LEASE, SOON, V1, V2};
use olm_tests::nodes::patch;
use olm_tests::operator::token;
use serde::Deserialize;
use serde_json::{Value, json};

/// An account that may read what `explain` and `plan` read, and nothing else.
pub async fn on_call(lab: &Lab<'_>) -> String {
    // What a ConfigMap of versions says is no part of it.
    let versions = json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["versions"],
        "verbs": ["get"] });
    on_call_with(lab, "oneagent-operator", versions).await
}

/// An account with the rights of an operator's ClusterRole `observe`, and one more rule.
pub async fn on_call_with(lab: &Lab<'_>, operator: &str, more: Value) -> String {
    let name = "on-call";
    let file = olm_tests::cluster::repository(&format!("config/{operator}/user-roles.yaml"));
    let roles = std::fs::read_to_string(file).unwrap();
    let mut observe = serde_yaml::Deserializer::from_str(&roles).map(|role| Value::deserialize(role).unwrap());
    let observe = observe.find(|role| role["metadata"]["name"] == format!("{operator}-observe")).unwrap();
    let rights = [observe["rules"].as_array().unwrap().clone(), vec![more]].concat();
    let rbac = "rbac.authorization.k8s.io";
    let bound = format!("{name}-{}", lab.name);
    let objects = [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": lab.name } }),
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": bound },
            "rules": rights }),
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

fn ask(lab: &Lab<'_>, kubeconfig: &str, what: &[&str]) -> (Option<i32>, String) {
    typed(lab, kubeconfig, &[&["explain"], what].concat())
}

/// Exit code and words of a command in the test's namespace.
pub fn typed(lab: &Lab<'_>, kubeconfig: &str, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(olm_tests::operator::binary());
    let output = command.args(words).args(["-n", &lab.name]).env("KUBECONFIG", kubeconfig).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.code(), said)
}

#[test]
fn a_person_on_call_is_told_why_a_node_has_no_agent_and_what_helps() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "explained", 6).await;
        lab.start_operator(&SHORT_LEASE).await;
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

        let explain = |what: &[&str]| ask(&lab, &kubeconfig, what);
        let looked = |number: usize, expected: i32| {
            let (code, said) = explain(&["node", &lab.nodes[number]]);
            assert_eq!(code, Some(expected), "{said}");
            said
        };
        let node = |number: usize| looked(number, 0);
        let old = node(0);
        assert!(
            old.starts_with(&format!("{}/agent: runs agent {V1}; {V2} is desired, and its turn comes", lab.name)),
            "{old}"
        );
        assert!(old.contains("(rollout: Paused, rollout.paused is true;"), "{old}");
        let crashes = looked(1, 1);
        assert!(crashes.contains("no available agent") && crashes.contains("CrashLoopBackOff"), "{crashes}");
        let pod = lab.pods("agent").await[&lab.nodes[1]].name_any();
        let logs = format!("kubectl -n {} logs {pod} --previous", lab.name);
        assert!(crashes.contains(&logs), "{crashes}");
        let tainted = node(2);
        let fix = format!("kubectl taint node {} team:NoSchedule-", lab.nodes[2]);
        assert!(tainted.contains("taint team:NoSchedule is not tolerated") && tainted.contains(&fix), "{tainted}");
        let other = node(3);
        assert!(other.starts_with(&format!("node {}: no OneAgent selects it: ", lab.nodes[3])), "{other}");
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
        assert!(code == Some(2) && said.contains("the nearest name is explained-0"), "{said}");
        let (code, said) = explain(&["agnet"]);
        assert!(code == Some(2) && said.contains("the nearest name is agent"), "{said}");
        let (_, said) = explain(&["agent"]);
        assert!(said.starts_with("explained/agent: Paused"), "{said}");
        assert!(said.contains("rollout.paused is true") && said.lines().count() <= 5, "{said}");
        let (_, fleet) = explain(&[]);
        assert_eq!(fleet.lines().collect::<Vec<_>>(), [said.lines().next().unwrap()]);
        // As printed.
        let words: Vec<&str> = fix.split(' ').skip(1).collect();
        lab.cluster.kubectl(&words);
        lab.shows("the node has an agent", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| nodes.untolerated == 0)
        })
        .await;
        // What the status says may be old once no operator runs.
        lab.operators[0].process.kill();
        eventually("no one holds the lease", LONG, || async {
            let (code, said) = ask(&lab, &kubeconfig, &["agent"]);
            let is_said =
                said.starts_with("the operator: does not run: Lease explained/oneagent-operator was renewed at ");
            if is_said && code == Some(1) { Ok(()) } else { Err(said) }
        })
        .await;
        // Without rights the answer is not that there is nothing.
        lab.cluster.kubectl(&["delete", "clusterrolebinding", "on-call-explained"]);
        eventually("it says what cannot be listed", SOON, || async {
            let (code, said) = ask(&lab, &kubeconfig, &[]);
            let is_said = said.contains("cannot list oneagents: ") && !said.contains("there is no");
            if is_said && code == Some(2) { Ok(()) } else { Err(said) }
        })
        .await;
        lab.end().await;
    });
}

/// What keeps a Pod from being made is neither in a Pod nor in a list.
#[test]
fn a_person_on_call_is_told_what_refuses_a_pod_or_keeps_it_off_a_node() {
    olm_tests::run(async {
        let lab = Lab::new("refused-and-explained", 2).await;
        let kubeconfig = on_call(&lab).await;
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "small", "namespace": lab.name }, "spec": { "hard": { "pods": "0" } } });
        lab.cluster.apply(&quota.to_string());
        let used = "jsonpath={.status.used.pods}=0";
        lab.cluster.kubectl(&["-n", &lab.name, "wait", "--for", used, "resourcequota", "small"]);
        lab.oneagent(&json!({}));
        lab.says("agent", "Degraded", "exceeded quota").await;
        let (there, lacking) = (0, 1);
        let node = |number: usize| ask(&lab, &kubeconfig, &["node", &lab.nodes[number]]).1;
        let said = node(lacking);
        assert!(said.contains("no available agent: a quota refuses the Pod"), "{said}");
        assert!(said.contains("raise the quota"), "{said}");
        // A node selector of the namespace, which the admission plugin enforces.
        let label = json!({ "metadata": { "labels": { "explained": "yes" } } });
        patch(&lab.cluster.client, &lab.nodes[there], &label).await;
        let annotation = "scheduler.alpha.kubernetes.io/node-selector=explained=yes";
        lab.cluster.kubectl(&["annotate", "namespace", &lab.name, annotation]);
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "resourcequota", "small"]);
        lab.shows("it is excluded", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| (nodes.namespace_selector, nodes.running) == (1, 1))
        })
        .await;
        assert!(node(there).contains(": runs agent"));
        let said = node(lacking);
        let fix = format!("kubectl annotate namespace {} --overwrite", lab.name);
        assert!(said.contains("node selector") && said.contains(&fix), "{said}");
        // Who may not read it is told that there may be more.
        let rules = json!([{ "op": "replace", "path": "/rules/1/resources", "value": ["nodes", "pods", "events"] }])
            .to_string();
        let role = format!("on-call-{}", lab.name);
        lab.cluster.kubectl(&["patch", "clusterrole", &role, "--type=json", "-p", &rules]);
        let words: Vec<&str> = said.lines().nth(1).unwrap().trim().split(' ').skip(1).collect();
        eventually("the right is gone", SOON, || async {
            let said = node(lacking);
            if said.contains("cannot get Namespace ") && said.contains("so more is not known") {
                return Ok(());
            }
            Err(said)
        })
        .await;
        lab.cluster.kubectl(&words);
        // The Pod keeps what it was made with; only the API server knows that the namespace changed since.
        lab.shows("it is not excluded", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| (nodes.namespace_selector, nodes.capacity) == (0, 1))
        })
        .await;
        let said = node(lacking);
        let words: Vec<&str> = said.lines().nth(1).unwrap().split('#').next().unwrap().trim().split(' ').collect();
        assert_eq!(words[3..5], ["delete", "pod"], "{said}");
        lab.cluster.kubectl(&words[1..]);
        lab.all_at("agent", V1, 2, LONG).await;
        lab.end().await;
    });
}
