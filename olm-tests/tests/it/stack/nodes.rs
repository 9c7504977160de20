//! Nodes that join, lose their label, are tainted or cordoned: which ones get servers, and which keep theirs.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_tests::lab::manager::volumes;
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use olm_tests::nodes::Shape;
use olm_tests::{eventually, run};
use serde_json::json;

use super::{looks_again, others, servers, standing, uids};

const MASTER: &str = "node-role.kubernetes.io/master";
const STORES: [&str; 3] = ["cassandra1", "zookeeper1", "rabbitmq1"];

/// The nodes of Pods whose names begin so.
async fn places(lab: &Lab<'_>, begin: &str) -> BTreeSet<String> {
    let pods = lab.stack_pods().await.into_iter().filter(|pod| pod.name_any().starts_with(begin));
    pods.filter_map(|pod| pod.spec?.node_name).collect()
}

/// The nodes of these numbers.
fn those(lab: &Lab<'_>, numbers: &[usize]) -> BTreeSet<String> {
    numbers.iter().map(|number| lab.nodes[*number].clone()).collect()
}

fn label(lab: &Lab<'_>, node: usize, is_master: bool) {
    let label = if is_master { format!("{MASTER}={}", lab.name) } else { format!("{MASTER}-") };
    lab.cluster.kubectl(&["label", "node", &lab.nodes[node], &label]);
}

#[test]
fn two_masters_have_one_server_and_four_have_three_of_each() {
    run(async {
        let mut lab = standing("stack-four", 2, 0).await;
        let further = lab.add_nodes(2, &Shape::default()).await;
        volumes(lab.cluster, &further);
        let all = ["config1", "webui1", STORES[0], STORES[1], STORES[2]];
        for begin in all {
            assert_eq!(places(&lab, begin).await, those(&lab, &[0]), "{begin}");
        }
        let before = uids(&lab).await;
        // Cordoned before they are masters: they take what runs on every node, and no server.
        for number in 2..4 {
            lab.cluster.kubectl(&["cordon", &lab.nodes[number]]);
            label(&lab, number, true);
        }
        eventually("what runs on every master runs on four", SOON, || async {
            let found = servers(&lab, "vroutermasternodes").await;
            if found == 4 { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        looks_again(&lab).await;
        lab.stack_says("Ready", "AllServing").await;
        for begin in all {
            assert_eq!(places(&lab, begin).await, those(&lab, &[0]), "{begin}");
        }
        for number in 2..4 {
            lab.cluster.kubectl(&["uncordon", &lab.nodes[number]]);
        }
        // Four is no odd number.
        eventually("three of each", LONG, || async {
            for begin in all {
                let found = servers(&lab, begin).await;
                if found != 3 || places(&lab, begin).await != those(&lab, &[0, 1, 2]) {
                    return Err(format!("{begin}: {found}"));
                }
            }
            Ok(())
        })
        .await;
        lab.component_is("zookeeper1", "Serving").await;
        let now = uids(&lab).await;
        let is_store = |name: &&String| STORES.iter().any(|store| name.starts_with(store));
        for name in before.keys().filter(is_store) {
            assert_eq!(now.get(name), before.get(name), "{name} was there before the store grew");
        }
        lab.end().await;
    });
}

#[test]
fn a_node_without_its_label_keeps_stores_and_loses_the_others() {
    run(async {
        let lab = Lab::of_stacks("stack-unlabelled", 4, 0).await;
        let mut services = lab.stack()["spec"]["services"].clone();
        let stays = ["cassandras", "zookeepers", "rabbitmq", "config"];
        services.as_object_mut().expect("services").retain(|key, _| stays.contains(&&**key));
        // One of each is enough here, and three take longer to start.
        let one = json!({ "replicas": 1 });
        services["cassandras"][0]["spec"]["commonConfiguration"] = one.clone();
        services["rabbitmq"]["spec"]["commonConfiguration"] = one;
        lab.cluster.apply(&lab.stack_of(services).to_string());
        lab.stack_says("Ready", "AllServing").await;
        for begin in ["zookeeper1", "config1"] {
            assert_eq!(places(&lab, begin).await, those(&lab, &[0, 1, 2]), "{begin}");
        }
        let begun = uids(&lab).await;
        let stores_stay = async || {
            let now = uids(&lab).await;
            let is_store = |name: &&String| !name.starts_with("config1");
            begun.keys().filter(is_store).all(|name| now.get(name) == begun.get(name))
        };
        label(&lab, 1, false);
        eventually("what keeps nothing has followed", LONG, || async {
            let found = places(&lab, "config1").await;
            if found == those(&lab, &[0, 2, 3]) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        lab.stack_says("Ready", "AllServing").await;
        assert!(stores_stay().await, "a store's data is where it is");
        assert_eq!(places(&lab, "zookeeper1").await, those(&lab, &[0, 1, 2]));
        // Back again, it is a spare node: nothing moves for it. Nor does anything where no other node is free.
        let before = uids(&lab).await;
        for (node, is_master) in [(1, true), (1, false), (3, false)] {
            label(&lab, node, is_master);
            looks_again(&lab).await;
            let status = lab.stack_says("Ready", "AllServing").await;
            let reasons: Vec<_> = status.conditions.iter().filter(|one| one.type_ == "Degraded").collect();
            assert!(reasons.iter().all(|one| one.reason == "AsExpected"), "{reasons:?}");
            assert_eq!(others(&before, &uids(&lab).await), [] as [String; 0], "node {node}, master: {is_master}");
        }
        assert_eq!(places(&lab, "config1").await, those(&lab, &[0, 2, 3]));
        lab.end().await;
    });
}

#[test]
fn pods_start_on_tainted_nodes_and_stay_and_return_to_cordoned() {
    run(async {
        let lab = Lab::of_stacks("stack-tainted", 1, 1).await;
        let taint = |taint: &str| {
            for node in &lab.nodes {
                lab.cluster.kubectl(&["taint", "node", node, taint]);
            }
        };
        taint("team=other:NoSchedule");
        lab.cluster.apply(&lab.stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        let before = uids(&lab).await;
        taint("repair=soon:NoExecute");
        for node in &lab.nodes {
            lab.cluster.kubectl(&["cordon", node]);
        }
        let killed = ["zookeeper1", "webui1", "vrouterworkernodes"];
        for pod in lab.stack_pods().await {
            if killed.iter().any(|begin| pod.name_any().starts_with(begin)) {
                lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pod.name_any()]);
            }
        }
        eventually("all are there, and three are others", LONG, || async {
            let pods = lab.stack_pods().await;
            let others = others(&before, &uids(&lab).await);
            if pods.len() == before.len() && pods.iter().all(is_ready) && others.len() == killed.len() {
                Ok(())
            } else {
                Err(format!("{} {others:?}", pods.len()))
            }
        })
        .await;
        looks_again(&lab).await;
        lab.stack_says("Ready", "AllServing").await;
        // The controller of taints evicts in a moment what does not tolerate them.
        let now = uids(&lab).await;
        let others = others(&before, &now);
        let is_killed = |name: &String| killed.iter().any(|begin| name.starts_with(begin));
        assert!(others.len() == killed.len() && others.iter().all(is_killed), "{others:?}");
        lab.end().await;
    });
}
