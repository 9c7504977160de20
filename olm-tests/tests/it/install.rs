//! A OneAgent becomes agents on the right nodes, and its edits reach them.

use std::time::Duration;

use olm_tests::cluster::{Cluster, repository};
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::{self, Shape};
use olm_tests::vendor::{api_token, paas_token};
use olm_tests::{audit, eventually};
use serde_json::json;

#[test]
fn a_oneagent_becomes_agents_on_selected_and_tolerated_nodes() {
    olm_tests::run(async {
        let mut lab = Lab::new("install", 3).await;
        let tainted = lab.add_nodes(1, &Shape::default().taint("infra", "", "NoSchedule")).await;
        let arm = lab.add_nodes(1, &Shape { arch: "arm64".into(), ..Shape::default() }).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let nodes = lab.status("agent").await.nodes.unwrap();
        assert_eq!((nodes.selected, nodes.untolerated, nodes.arch), (3, 1, 1));
        assert_eq!(nodes.examples["untolerated"], [format!("{} (infra:NoSchedule)", tainted[0])]);
        assert_eq!(nodes.examples["arch"], [format!("{} (arm64)", arm[0])]);

        // A toleration brings the tainted node in, and restarts no agent.
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "tolerations": [{ "key": "infra", "operator": "Exists" }] })).await;
        lab.all_at("agent", V1, 4, SOON).await;
        let after = lab.uids("agent").await;
        assert!(after.contains_key(&tainted[0]));
        assert!(before.iter().all(|(node, uid)| after.get(node) == Some(uid)), "a toleration restarted an agent");

        // Without it the agent there keeps running, counted apart, and the command that removes it is said and works.
        lab.edit("agent", json!({ "tolerations": null })).await;
        let said = lab.says("agent", "Ready", "1 agent runs on a node with a taint").await;
        assert_eq!(lab.uids("agent").await, after, "an agent was deleted for a taint");
        let nodes = lab.status("agent").await.nodes.unwrap();
        assert_eq!((nodes.selected, nodes.surplus, nodes.progress.as_str()), (3, 1, "3/3"));
        let command = said.split_once("by kubectl ").unwrap().1.to_owned();
        lab.cluster.kubectl(&command.split(' ').collect::<Vec<_>>());
        lab.pods_are("agent", &lab.nodes[..3]).await;
        // A taint that is lifted brings the node back in.
        nodes::patch(&lab.cluster.client, &tainted[0], &json!({ "spec": { "taints": [] } })).await;
        lab.all_at("agent", V1, 4, SOON).await;
        let last = lab.uids("agent").await;
        assert!(before.iter().all(|(node, uid)| last.get(node) == Some(uid)), "an agent that stayed was restarted");
        lab.end().await;
    });
}

#[test]
fn labels_decide_and_several_oneagents_stay_out_of_each_others_way() {
    olm_tests::run(async {
        let mut lab = Lab::new("install-labels", 0).await;
        let a = lab.add_nodes(2, &Shape::default().label("team", "a")).await;
        let b = lab.add_nodes(2, &Shape::default().label("team", "b")).await;
        lab.oneagent_named("one", &json!({ "nodeSelector": { "lab": lab.name, "team": "a" } }));
        lab.oneagent_named("two", &json!({ "nodeSelector": { "lab": lab.name, "team": "b" } }));
        lab.all_at("one", V1, 2, SOON).await;
        lab.all_at("two", V1, 2, SOON).await;
        let two = lab.uids("two").await;
        // A node changes sides: its agent is removed and the other's starts; no other agent moves.
        nodes::patch(&lab.cluster.client, &a[0], &json!({ "metadata": { "labels": { "team": "b" } } })).await;
        lab.pods_are("one", &a[1..]).await;
        lab.pods_are("two", &[a[0].clone(), b[0].clone(), b[1].clone()]).await;
        lab.all_at("two", V1, 3, SOON).await;
        // A selector that is narrowed removes agents and restarts none.
        lab.edit("two", json!({ "nodeSelector": { "kubernetes.io/hostname": b[0] } })).await;
        lab.pods_are("two", &b[..1]).await;
        assert_eq!(lab.uids("two").await[&b[0]], two[&b[0]]);
        lab.end().await;
    });
}

#[test]
fn deleting_a_oneagent_removes_its_agents_and_stopping_the_operator_does_not() {
    olm_tests::run(async {
        let mut lab = Lab::new("install-delete", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        lab.operators[0].process.signal("TERM");
        let operator = std::cell::RefCell::new(lab.operators.remove(0));
        eventually("the operator ends", SOON, || async {
            operator.borrow_mut().process.ended().map(drop).ok_or_else(|| "it runs".to_owned())
        })
        .await;
        drop(operator);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lab.uids("agent").await, before, "agents live on without an operator");
        lab.start_operator(&[]).await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "agent", "--wait=false"]);
        lab.pods_are("agent", &[]).await;
        assert!(lab.daemonset("agent").await.is_none());
        lab.end().await;
    });
}

#[test]
fn objects_as_the_original_and_its_oldest_releases_wrote_them_apply_and_run() {
    olm_tests::run(async {
        let lab = Lab::new("install-old", 1).await;
        let url = lab.cluster.vendor.url(&lab.name);
        // As the original's sample has it: many fields present and empty.
        lab.oneagent(&json!({
            "tokens": "tokens", "skipCertCheck": false, "enableIstio": false, "waitReadySeconds": 300,
            "useUnprivilegedMode": true, "image": "", "args": [], "env": [], "agentVersion": "",
            "customPullSecret": "", "dnsPolicy": "", "serviceAccountName": "", "priorityClassName": "", "labels": {},
            "networkZone": "", "trustedCAs": "", "proxy": { "value": "", "valueFrom": "" },
            "resources": { "requests": { "cpu": "100m", "memory": "512Mi" },
            "limits": { "cpu": "300m", "memory": "1.5Gi" } },
            "tolerations": [{ "effect": "NoSchedule", "key": "node-role.kubernetes.io/master", "operator": "Exists" }],
        }));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "agent"]);
        lab.pods_are("agent", &[]).await;
        // As v0.1 to v0.6 left it: defaults written into the spec, a status of other shapes.
        lab.oneagent_named(
            "old",
            &json!({
                "image": "docker.io/dynatrace/oneagent:latest", "tokens": "tokens", "waitReadySeconds": 300,
                "nodeSelector": { "lab": lab.name, "beta.kubernetes.io/os": "linux" },
                "env": [
                    { "name": "ONEAGENT_INSTALLER_TOKEN",
                        "valueFrom": { "secretKeyRef": { "name": "tokens", "key": "paasToken" } } },
                    { "name": "ONEAGENT_INSTALLER_SCRIPT_URL",
                        "value": format!("{url}/v1/deployment/installer/agent/unix/default/latest\
                    ?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)&arch=x86&flavor=default") },
                    { "name": "ONEAGENT_INSTALLER_SKIP_CERT_CHECK", "value": "false" },
                ],
            }),
        );
        lab.all_at("old", V1, 1, SOON).await;
        assert_eq!(lab.status("old").await.version_source.as_deref(), Some("Api"));
        let shown = lab.cluster.kubectl(&["-n", &lab.name, "get", "oa"]);
        assert!(
            shown
                .lines()
                .next()
                .unwrap()
                .split_whitespace()
                .eq(["NAME", "STATE", "UPDATED", "AGENTS", "FINISH", "REASON", "AGE"]),
            "{shown}"
        );
        assert!(shown.contains("Complete") && shown.contains("1/1"), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= 100), "{shown}");
        lab.end().await;
    });
}

#[test]
fn one_operator_can_watch_several_namespaces_or_all() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::without_operator(&cluster, "several", 2).await;
        let other = "several-other";
        cluster.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": other } }).to_string());
        cluster.apply(
            &json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "tokens", "namespace": other },
            "stringData": { "apiToken": api_token("several"), "paasToken": paas_token("several") } })
            .to_string(),
        );
        cluster.kubectl(&["-n", other, "create", "serviceaccount", "dynatrace-oneagent"]);
        // The same rights in the other namespace: as OLM gives them, one Role per watched namespace.
        let role: serde_json::Value = serde_json::from_str(&cluster.kubectl(&[
            "-n",
            &lab.name,
            "get",
            "role",
            "oneagent-operator",
            "-o",
            "json",
        ]))
        .unwrap();
        let account = json!([{ "kind": "ServiceAccount", "name": "oneagent-operator", "namespace": lab.name }]);
        let rbac = |kind: &str, namespace: Option<&str>| {
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind, "metadata": { "name": "several", "namespace": namespace } })
        };
        let mut there = rbac("Role", Some(other));
        there["rules"] = role["rules"].clone();
        let mut binding = rbac("RoleBinding", Some(other));
        binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "several" });
        binding["subjects"] = account.clone();
        cluster.apply(&format!("{there}\n---\n{binding}"));
        let agent = |node: &str| {
            json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "there", "namespace": other },
            "spec": { "apiUrl": cluster.vendor.url("several"), "tokens": "tokens",
            "nodeSelector": { "kubernetes.io/hostname": node } } })
        };
        cluster.apply(&agent(&lab.nodes[1]).to_string());
        lab.oneagent(&json!({ "nodeSelector": { "kubernetes.io/hostname": lab.nodes[0] } }));
        // A call that is due again, or that a busy machine lets time out, would be counted.
        let patient = [("VENDOR_TIMEOUT", "20s"), ("SLOW_POLL_INTERVAL", "1h")];
        lab.start_operator(&[&[("WATCH_NAMESPACE", format!("{}, {other}", lab.name).as_str())][..], &patient].concat())
            .await;
        let both_at = async |lab: &Lab<'_>, version: &str| {
            lab.all_at("agent", version, 1, SOON).await;
            eventually("the other namespace's agent runs it", SOON, || async {
                let shown = cluster.kubectl(&[
                    "-n",
                    other,
                    "get",
                    "oa",
                    "there",
                    "-o",
                    "jsonpath={.status.version} {.status.nodes.progress}",
                ]);
                if shown == format!("{version} 1/1") { Ok(()) } else { Err(shown) }
            })
            .await;
        };
        both_at(&lab, V1).await;
        assert_eq!(
            cluster.vendor.with("several", |e| e.calls["/v1/deployment/installer/agent/connectioninfo"]),
            1,
            "one poller for both"
        );
        // All namespaces: the same rights in the whole cluster.
        lab.operators.clear();
        let mut everywhere = rbac("ClusterRole", None);
        everywhere["rules"] = role["rules"].clone();
        let mut binding = rbac("ClusterRoleBinding", None);
        binding["roleRef"] =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "several" });
        binding["subjects"] = account;
        cluster.apply(&format!("{everywhere}\n---\n{binding}"));
        lab.start_operator(&[("WATCH_NAMESPACE", "")]).await;
        cluster.vendor.publish("several", V2);
        both_at(&lab, V2).await;
        lab.end().await;
    });
}

/// The installation in one file, on a cluster where the CRD was born as v1beta1, through the Deployment.
#[test]
fn the_installation_in_one_file_works_with_the_samples() {
    olm_tests::run(async {
        let settings = [
            ("POLL_INTERVAL", "500ms"),
            ("LEASE_DURATION", "5s"),
            ("LEASE_RENEW_DEADLINE", "3s"),
            ("LEASE_RETRY_PERIOD", "1s"),
        ];
        let cluster = Cluster::bare(settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()).await;
        nodes::create(
            &cluster.client,
            vec![
                nodes::node("worker", &Shape::default()),
                nodes::node(
                    "master",
                    &Shape::default().label("node-role.kubernetes.io/control-plane", "").taint(
                        "node-role.kubernetes.io/control-plane",
                        "",
                        "NoSchedule",
                    ),
                ),
                nodes::node(
                    "infra",
                    &Shape::default().label("node-role.kubernetes.io/infra", "").taint(
                        "node-role.kubernetes.io/infra",
                        "",
                        "NoSchedule",
                    ),
                ),
            ],
        )
        .await;
        // What a CRD that was created as v1beta1 looks like today: unknown fields preserved.
        let crd =
            std::fs::read_to_string(repository("config/oneagent-operator/crd/dynatrace.com_oneagents.yaml")).unwrap();
        let mut born: serde_json::Value = olm_tests::cluster::documents(&crd).remove(0);
        born["spec"].as_object_mut().unwrap().remove("preserveUnknownFields");
        born["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        cluster.try_kubectl(&["create", "-f", "-"], Some(&born.to_string())).unwrap();
        cluster.kubectl(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            &repository("config/oneagent-operator/install.yaml").display().to_string(),
        ]);
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", "crd/oneagents.dynatrace.com"]);
        cluster.kubectl(&["-n", "dynatrace", "rollout", "status", "deployment/oneagent-operator", "--timeout=240s"]);
        for (secret, sample) in [("oneagent", "oneagent-dynatrace.yaml"), ("desk", "oneagent-desk.yaml")] {
            cluster.vendor.add(secret, V1);
            cluster.apply(
                &json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": secret, "namespace": "dynatrace" },
                "stringData": { "apiToken": api_token(secret), "paasToken": paas_token(secret) } })
                .to_string(),
            );
            let text =
                std::fs::read_to_string(repository(&format!("config/oneagent-operator/samples/{sample}"))).unwrap();
            let address = text.lines().find_map(|line| line.trim().strip_prefix("apiUrl: ")).unwrap();
            cluster.apply(&text.replace(address, &cluster.vendor.url(secret)));
        }
        eventually("both samples are Ready", SOON, || async {
            let shown = cluster.kubectl(&["-n", "dynatrace", "get", "oa", "--no-headers"]);
            let ready = shown.lines().filter(|line| line.contains("AllUpdated")).count();
            if ready == 2 { Ok(()) } else { Err(shown) }
        })
        .await;
        let pods = cluster.kubectl(&[
            "-n",
            "dynatrace",
            "get",
            "pods",
            "-l",
            "dynatrace=oneagent",
            "-o",
            "wide",
            "--no-headers",
        ]);
        assert_eq!(pods.lines().filter(|l| l.contains("oneagent-")).count(), 2, "worker and control plane: {pods}");
        assert_eq!(pods.lines().filter(|l| l.contains("desk-") && l.contains("infra")).count(), 1, "{pods}");
        // A typo is refused now, also by a server that stored it in silence before.
        let typo = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "typo", "namespace": "dynatrace" },
            "spec": { "apiUrl": "https://e.example/api", "tolerations": [], "nodeSelektor": {} } });
        let refused = cluster
            .try_kubectl(&["apply", "--server-side", "--validate=strict", "-f", "-"], Some(&typo.to_string()))
            .unwrap_err();
        assert!(refused.contains("nodeSelektor"), "{refused}");
        // The operator is removed, the agents stay.
        cluster.kubectl(&["-n", "dynatrace", "delete", "deployment", "oneagent-operator", "--wait=true"]);
        cluster.vendor.publish("oneagent", V2);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let left = cluster.kubectl(&["-n", "dynatrace", "get", "pods", "-l", "dynatrace=oneagent", "--no-headers"]);
        assert_eq!(left.lines().count(), 3, "{left}");
        let forbidden =
            audit::forbidden(&audit::requests(&cluster.path("audit.log"), "dynatrace", "oneagent-operator"));
        assert!(forbidden.is_empty(), "{forbidden:?}");
    });
}
