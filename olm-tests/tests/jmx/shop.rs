//! A second stack, from a table of its own: the same program starts it, and knows none of its names.

use kube::ResourceExt;
use olm_tests::cluster::Cluster;
use olm_tests::lab::entries::{real_rabbitmq, real_zookeeper, service};
use olm_tests::lab::{LONG, Lab};
use olm_tests::operator::binary;
use olm_tests::zookeeper::answers;
use olm_tests::{eventually, run};
use oneagent_operator::api::manager::package::PACKAGE;
use serde_json::{Value, json};

/// The rows of the shop, after those of the other table that it shares.
fn table() -> Value {
    let read = |text: &str| serde_yaml::from_str::<Value>(text).expect("a table");
    let other = read(include_str!("../../../src/stack/stack.yaml"));
    let mut table = read(include_str!("../../src/shop.yaml"));
    let is_shared = |row: &&Value| ["zookeeper", "rabbitmq"].iter().any(|kind| row["kind"] == *kind);
    let mut rows: Vec<Value> = other["rows"].as_array().expect("rows").iter().filter(is_shared).cloned().collect();
    rows.extend(table["rows"].as_array().expect("rows").iter().cloned());
    table["rows"] = rows.into();
    table
}

fn containers(name: &str, image: &str) -> Value {
    json!([{ "name": "init", "image": "rig/shell:1" }, { "name": name, "image": image }])
}

/// Each store has what the shop wrote.
async fn has_all(lab: &Lab<'_>) {
    let at = async |component: &str| {
        let pods = lab.stack_pods().await;
        let of = pods.iter().find(|pod| pod.name_any().starts_with(component)).expect("a Pod");
        (of.clone(), of.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address"))
    };
    assert_eq!(answers(&at("ensemble-").await.1, &["get", "/kept"]).await, "a value");
    let (queue, _) = at("queue-").await;
    let list = "HOME=/var/lib/rabbitmq RABBITMQ_USE_LONGNAME=true rabbitmqctl -q -n rabbit@$POD_IP list_queues";
    eventually("the queue is there", LONG, || async {
        let said = lab.shell(&queue, "rabbitmq", list).await?;
        if said.contains("kept") { Ok(()) } else { Err(said) }
    })
    .await;
    let (cache, address) = at("cache-").await;
    let password = lab.shell(&cache, "redis", "grep requirepass /run/stack/redis.$POD_IP").await.expect("a file");
    let password = password.split_whitespace().last().expect("a password");
    let said = lab.ask("cache", &format!("{address}:6379"), &["redis", password, "GET", "kept"]).await;
    assert!(said.as_ref().is_ok_and(|said| said.contains("a value")), "{said:?}");
    let refused = lab.ask("cache", &format!("{address}:6379"), &["redis", "another", "GET", "kept"]).await;
    assert!(refused.is_err(), "{refused:?}");
}

/// Waits until so many Pods are there, and all serve.
async fn stands(lab: &Lab<'_>, count: usize) {
    eventually(&format!("all {count} Pods serve"), LONG, || async {
        let (status, found) = (lab.stack_status().await, lab.stack_pods().await.len());
        let summary = status.summary.clone().unwrap_or_default();
        if summary.progress == "4/4" && found == count { Ok(()) } else { Err(format!("{found} {status:#?}")) }
    })
    .await;
}

#[test]
fn a_stack_of_another_table_starts_in_order_grows_and_keeps_its_data() {
    run(async {
        let mut lab = Lab::bare(Cluster::shared().await, &PACKAGE, "shop", 0).await;
        lab.add_real_masters(1).await;
        let file = lab.cluster.path("shop-table.json");
        std::fs::write(&file, table().to_string()).expect("a file");
        let file = file.display().to_string();
        let checked = std::process::Command::new(binary()).args(["table", &file]).output().expect("the program");
        assert!(checked.status.success(), "{checked:?}");
        lab.start_operator(&[("TABLE", &file)]).await;
        let mut cache = service("cache", &containers("redis", "rig/redis:7.0"));
        cache["spec"]["commonConfiguration"] = json!({ "replicas": 1 });
        let services = json!({
            "zookeepers": [service("ensemble", &real_zookeeper())],
            "rabbitmq": service("queue", &real_rabbitmq()),
            "caches": [cache],
            "shop": service("shop", &containers("web", "rig/shop:1")),
        });
        lab.cluster.apply(&lab.stack_of(services).to_string());
        stands(&lab, 4).await;
        has_all(&lab).await;
        // The web application follows its stores, one Pod after the other.
        lab.add_real_masters(2).await;
        stands(&lab, 10).await;
        lab.replaces_all(&[("TABLE", &file)]).await;
        stands(&lab, 10).await;
        has_all(&lab).await;
        lab.end().await;
    });
}
