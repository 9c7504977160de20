//! A stack of real programs: ZooKeeper servers in the networks of their nodes, with volumes that outlive their Pods.

use k8s_openapi::api::core::v1::ConfigMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::ResourceExt;
use kube::api::Api;
use olm_tests::eyes::Eyes;
use olm_tests::jvm::ask_zookeeper;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::zookeeper::{answers, configuration};
use olm_tests::{eventually, run};
use serde_json::json;

#[test]
fn servers_start_together_and_after_an_outage_of_all_their_data_is_there() {
    run(async {
        let mut lab = Lab::of_real_stacks("zoo-three", 3).await;
        lab.cluster.apply(&lab.real_stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        let servers = lab.addresses().await;
        assert_eq!(servers.len(), 3);
        answers(&servers[0], &["create", "/key", "a value"]).await;
        assert_eq!(answers(&servers[2], &["get", "/key"]).await, "a value");
        // Every file names every peer and no other.
        let maps: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let files = maps.get("zookeeper1-zookeeper-configmap").await.expect("files").data.expect("data");
        for server in &servers {
            let peers = &files[&format!("peers.{server}")];
            let named: Vec<&str> = peers.lines().filter_map(|line| line.split(['=', ':']).nth(1)).collect();
            let mut expected: Vec<&str> = servers.iter().map(String::as_str).collect();
            expected.sort_unstable();
            assert_eq!(
                {
                    let mut named = named;
                    named.sort_unstable();
                    named
                },
                expected,
                "{peers}"
            );
        }
        lab.replaces_all(&[]).await;
        lab.stack_says("Ready", "AllServing").await;
        for server in &servers {
            assert_eq!(answers(server, &["get", "/key"]).await, "a value");
        }
        lab.end().await;
    });
}

#[test]
fn a_wrong_first_command_is_corrected_on_all_servers_and_no_one_deletes_a_pod() {
    run(async {
        let lab = Lab::of_real_stacks("zoo-typo", 3).await;
        let right = lab.real_stack();
        let mut wrong = right.clone();
        let entry = &mut wrong["spec"]["services"]["zookeepers"][0]["spec"]["serviceConfiguration"]["containers"][2];
        entry["command"] = json!(["bash", "-c", "exit 3"]);
        lab.cluster.apply(&wrong.to_string());
        lab.stack_says("Degraded", "PodsFailing").await;
        lab.has_pods(3).await;
        // One alone has no quorum, and is not Ready before the others are corrected, too.
        lab.cluster.apply(&right.to_string());
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn a_server_that_has_lost_its_quorum_does_not_serve_and_a_template_of_the_users_is_taken() {
    run(async {
        let lab = Lab::of_real_stacks("zoo-quorum", 3).await;
        lab.config("zookeeper1-zookeeper-templates", &json!({ "zo": "tickTime=1000" }));
        lab.cluster.apply(&lab.real_stack().to_string());
        let said = lab.component_is("zookeeper1", "Invalid").await;
        assert!(said.contains("there is no template zo; the nearest name is zoo"), "{said}");
        let text = "tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir=/var/lib/zookeeper/data\nstandaloneEnabled=false\n\
            admin.enableServer=false\n4lw.commands.whitelist=srvr,conf\n\
            dynamicConfigFile=/var/lib/zookeeper/conf/zoo.cfg.dynamic\n";
        lab.config("zookeeper1-zookeeper-templates", &json!({ "zoo": text }));
        lab.stack_says("Ready", "AllServing").await;
        let maps: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let files = maps.get("zookeeper1-zookeeper-configmap").await.expect("files").data.expect("data");
        assert!(files.iter().any(|(name, text)| name.starts_with("zoo.") && text.contains("tickTime=500")));
        // Two of three are gone for good: the third answers no client, and says so.
        let sets = lab.stack_pods().await;
        // A cordon would keep no Pod out: these Pods tolerate every taint.
        for node in &lab.nodes[..2] {
            lab.cluster.kubectl(&["label", "node", node, "node-role.kubernetes.io/master-"]);
        }
        for pod in sets.iter().filter(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            node != lab.nodes[2]
        }) {
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pod.name_any(), "--grace-period=0", "--force"]);
        }
        eventually("no server serves", SOON, || async {
            let status = lab.stack_status().await;
            let ready = status.components.first().map(|one| one.ready.clone()).unwrap_or_default();
            if ready == "0/3" { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
        for node in &lab.nodes[..2] {
            let label = format!("node-role.kubernetes.io/master={}", lab.name);
            lab.cluster.kubectl(&["label", "node", node, &label]);
        }
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn a_changed_file_reaches_one_server_at_a_time_and_clients_are_answered_all_the_while() {
    run(async {
        let lab = Lab::of_real_stacks("zoo-change", 3).await;
        lab.cluster.apply(&lab.real_stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        let servers = lab.addresses().await;
        answers(&servers[0], &["create", "/key", "a value"]).await;
        let all = servers.iter().map(|server| format!("{server}:2181")).collect::<Vec<_>>().join(",");
        let (client, is_over) = (all.clone(), Arc::new(AtomicBool::new(false)));
        let ends = is_over.clone();
        let client = tokio::task::spawn_blocking(move || {
            let mut asked = 0;
            while !ends.load(Ordering::Relaxed) {
                let answer = ask_zookeeper(&client, &["get", "/key"]);
                assert_eq!(answer.as_deref(), Ok("a value"), "after {asked} answers");
                asked += 1;
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            asked
        });
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=zookeeper", 3).await;
        let text = "tickTime=1500\ninitLimit=10\nsyncLimit=5\ndataDir=/var/lib/zookeeper/data\n\
            standaloneEnabled=false\nreconfigEnabled=true\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,conf\n\
            dynamicConfigFile=/var/lib/zookeeper/conf/zoo.cfg.dynamic\n";
        lab.config("zookeeper1-zookeeper-templates", &json!({ "zoo": text }));
        for server in &servers {
            eventually(&format!("{server} has it"), LONG, || async {
                let said = configuration(server).await;
                if said.contains("tickTime=1500") { Ok(()) } else { Err(said) }
            })
            .await;
        }
        lab.stack_says("Ready", "AllServing").await;
        // When the leader stops, the others do not serve either until they have elected another.
        assert_eq!(eyes.seen().await.others_ready, [2, 2, 2], "one at a time, each once");
        is_over.store(true, Ordering::Relaxed);
        assert!(client.await.expect("no answer was wrong") > 3);
        assert_eq!(answers(&servers[1], &["get", "/key"]).await, "a value");
        lab.end().await;
    });
}
