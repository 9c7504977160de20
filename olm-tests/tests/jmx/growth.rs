//! Stores that grow, and whose servers are replaced: real ZooKeeper servers, with data in them from the first one on.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::zookeeper::{answers, members};
use olm_tests::{eventually, run};

const IDENTITY: &str = "zookeeper1-zookeeper-identity";

async fn stands(masters: usize, name: &str) -> Lab<'static> {
    let lab = Lab::of_real_stacks(name, masters).await;
    lab.cluster.apply(&lab.real_stack().to_string());
    lab.stack_says("Ready", "AllServing").await;
    answers(&lab.addresses().await[0], &["create", "/key", "a value"]).await;
    lab
}

/// What identifies the store.
async fn identity(lab: &Lab<'_>) -> (String, String, String) {
    let api: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let secret = api.get(IDENTITY).await.expect("a Secret");
    let entry = |key: &str| {
        let bytes = secret.data.as_ref().expect("data")[key].0.clone();
        String::from_utf8(bytes).expect("text")
    };
    (secret.uid().expect("a UID"), entry("super"), entry("servers"))
}

/// Waits until so many servers serve, of an ensemble of these numbers, each with the data.
async fn whole(lab: &Lab<'_>, numbers: &[u32]) {
    eventually(&format!("servers {numbers:?} are the ensemble"), LONG, || async {
        let servers = lab.addresses().await;
        let Some(first) = servers.first() else { return Err("no server".to_owned()) };
        let found = members(first).await;
        let known: Vec<u32> = found.iter().filter_map(|one| one.split('=').next()?.parse().ok()).collect();
        if known == numbers && servers.len() == numbers.len() { Ok(()) } else { Err(format!("{found:?} {servers:?}")) }
    })
    .await;
    lab.stack_says("Ready", "AllServing").await;
    for server in lab.addresses().await {
        assert_eq!(answers(&server, &["get", "/key"]).await, "a value");
        assert_eq!(members(&server).await.len(), numbers.len(), "{server}");
    }
}

#[test]
fn a_store_grows_from_one_to_three_with_its_data_and_a_new_manager_takes_it_up() {
    run(async {
        let mut lab = stands(1, "zoo-grows").await;
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=zookeeper", 1).await;
        lab.add_real_masters(2).await;
        whole(&lab, &[1, 2, 3]).await;
        assert_eq!(eyes.seen().await.counts().1, 0, "nobody is replaced for that");
        let before = identity(&lab).await;
        assert_eq!(before.2.lines().count(), 3);
        // The Manager is deleted and made again: numbers and passwords fit, and the data is there.
        lab.stacks().delete("cluster1", &DeleteParams::default()).await.expect("deleted");
        lab.has_pods(0).await;
        lab.cluster.apply(&lab.real_stack().to_string());
        whole(&lab, &[1, 2, 3]).await;
        assert_eq!(identity(&lab).await, before);
        lab.end().await;
    });
}

#[test]
fn masters_that_come_one_by_one_while_the_operator_is_killed_lose_nothing() {
    run(async {
        let mut lab = stands(1, "zoo-killed").await;
        for count in [2, 3] {
            lab.add_real_masters(1).await;
            for _ in 0..3 {
                lab.operators.clear();
                lab.start_operator(&[]).await;
                eventually("it has acted", SOON, || async {
                    if lab.operators[0].printed().contains("leading") { Ok(()) } else { Err("not yet".to_owned()) }
                })
                .await;
            }
            if count == 2 {
                whole(&lab, &[1]).await;
            }
        }
        whole(&lab, &[1, 2, 3]).await;
        lab.end().await;
    });
}

#[test]
fn a_master_that_is_gone_is_replaced_by_another_and_an_empty_disk_is_filled_again() {
    run(async {
        let mut lab = stands(3, "zoo-replaced").await;
        let first = lab.stack_pods().await.remove(0);
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=zookeeper", 3).await;
        lab.empties_disk(&first).await;
        whole(&lab, &[1, 2, 3]).await;
        assert_eq!(eyes.seen().await.counts().1, 1, "nobody else is touched");
        // A master is removed for good, with its disk.
        let last = lab.stack_pods().await.remove(2);
        let node = last.spec.as_ref().and_then(|spec| spec.node_name.clone()).expect("a node");
        let number =
            |servers: &str| servers.lines().find_map(|line| line.strip_suffix(&format!(" {node}")).map(str::to_owned));
        let number: u32 = number(&identity(&lab).await.2).expect("a number").parse().expect("a number");
        lab.replaces_master(&last).await;
        let numbers: Vec<u32> = (1..=4).filter(|one| *one != number).collect();
        whole(&lab, &numbers).await;
        lab.end().await;
    });
}
