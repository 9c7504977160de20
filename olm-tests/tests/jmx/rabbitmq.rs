//! RabbitMQ of a stack: real servers, which find each other, use TLS only, and keep what they were told.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::Api;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab};
use olm_tests::{eventually, run};

async fn stands(masters: usize, name: &str) -> Lab<'static> {
    let lab = Lab::of_real_stacks(name, masters).await;
    lab.cluster.apply(&lab.real_queue().to_string());
    lab.stack_says("Ready", "AllServing").await;
    let pod = lab.stack_pods().await.remove(0);
    rabbitmqctl(&lab, &pod, "add_vhost kept").await.expect("a vhost");
    lab
}

/// What a server's own program says.
async fn rabbitmqctl(lab: &Lab<'_>, pod: &Pod, words: &str) -> Result<String, String> {
    let script = format!("HOME=/var/lib/rabbitmq RABBITMQ_USE_LONGNAME=true rabbitmqctl -q -n rabbit@$POD_IP {words}");
    lab.shell(pod, "rabbitmq", &script).await
}

/// The servers of its cluster, as it knows them, and those that run.
async fn members(lab: &Lab<'_>, pod: &Pod) -> Vec<String> {
    let said = rabbitmqctl(lab, pod, "cluster_status --formatter json").await.unwrap_or_default();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    let names = |key: &str| {
        let all = said[key].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> = all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        names.sort();
        names
    };
    assert!(said["partitions"].as_object().is_none_or(serde_json::Map::is_empty), "{said}");
    if names("running_nodes") == names("disk_nodes") { names("disk_nodes") } else { Vec::new() }
}

/// Waits until so many servers are one cluster that has what it was told.
async fn whole(lab: &Lab<'_>, count: usize) {
    // Which Pods there are may change until all are one cluster.
    let pods = eventually(&format!("{count} servers know each other"), LONG, || async {
        let pods = lab.stack_pods().await;
        let mut found = Vec::new();
        for pod in &pods {
            found.push((pod.name_any(), members(lab, pod).await));
        }
        let are_whole = pods.len() == count && found.iter().all(|(_, all)| all.len() == count);
        if are_whole { Ok(pods) } else { Err(format!("{found:?}")) }
    })
    .await;
    for pod in pods {
        let vhosts = rabbitmqctl(lab, &pod, "list_vhosts").await.expect("vhosts");
        assert!(vhosts.lines().any(|line| line == "kept"), "{vhosts}");
    }
    lab.stack_says("Ready", "AllServing").await;
}

#[test]
fn servers_find_each_other_one_by_one_speak_tls_and_come_back_with_their_data() {
    run(async {
        let mut lab = stands(1, "rabbit-three").await;
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=rabbitmq", 1).await;
        lab.add_real_masters(2).await;
        whole(&lab, 3).await;
        assert_eq!(eyes.seen().await.counts().1, 0, "nobody is replaced for that");
        uses_tls(&lab).await;
        lab.replaces_all(&[]).await;
        whole(&lab, 3).await;
        // One loses its disk.
        let last = lab.stack_pods().await.remove(2);
        lab.empties_disk(&last).await;
        whole(&lab, 3).await;
        // A master is removed for good, with its disk: the others forget that server.
        let gone = lab.stack_pods().await.remove(1);
        let address = gone.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address");
        lab.replaces_master(&gone).await;
        whole(&lab, 3).await;
        let first = lab.stack_pods().await.remove(0);
        assert!(!members(&lab, &first).await.iter().any(|one| one.ends_with(&format!("@{address}"))));
        lab.end().await;
    });
}

/// Each server admits clients with a certificate and its password, and no others.
async fn uses_tls(lab: &Lab<'_>) {
    let secrets: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let identity = secrets.get("rabbitmq1-rabbitmq-identity").await.expect("a Secret").data.expect("data");
    let password = String::from_utf8(identity["password"].0.clone()).expect("text");
    for server in lab.addresses().await {
        let address = format!("{server}:5673");
        let answer = lab.ask("rabbitmq1", &address, &["amqp", "stack", &password]).await.expect("a login");
        assert!(answer.contains("RabbitMQ"), "{answer}");
        let refused = lab.ask("rabbitmq1", &address, &["amqp", "stack", "another"]).await.expect_err("a refusal");
        assert!(refused.contains("refuses the login"), "{refused}");
    }
}
