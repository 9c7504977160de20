//! Cassandra of a stack: real servers, which replicate data, use TLS only, and come back with it.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eyes::Eyes;
use olm_tests::lab::entries::{real_cassandra, service};
use olm_tests::lab::{LONG, Lab};
use olm_tests::sandbox::Container;
use olm_tests::{eventually, run};
use serde_json::json;

/// What a query comes to on a server.
async fn cql(lab: &Lab<'_>, server: &str, consistency: &str, query: &str) -> Result<String, String> {
    lab.ask("cassandra1", &format!("{server}:9042"), &["cql", consistency, query]).await
}

/// The servers of its ring that serve, as it knows them.
async fn ring(lab: &Lab<'_>, pod: &Pod) -> Vec<String> {
    let script =
        "cd /var/lib/cassandra; HOME=$PWD nodetool --ssl -u stack -pwf conf/jmxremote.password -h $POD_IP status";
    let said = lab.shell(pod, "cassandra", script).await.unwrap_or_default();
    let lines = said.lines().filter(|line| line.get(2..3) == Some(" ") && line.starts_with(['U', 'D']));
    let mut all: Vec<String> =
        lines.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    all.sort();
    all
}

/// Waits until so many servers are one ring, each with the data.
async fn whole(lab: &Lab<'_>, count: usize) {
    let pods = eventually(&format!("{count} servers are one ring"), LONG * 2, || async {
        let pods = lab.stack_pods().await;
        let mut expected: Vec<String> = lab.addresses().await.iter().map(|address| format!("UN {address}")).collect();
        expected.sort();
        for pod in &pods {
            let found = ring(lab, pod).await;
            if found != expected || found.len() != count {
                return Err(format!("{}: {found:?} instead of {expected:?}", pod.name_any()));
            }
        }
        if pods.len() == count { Ok(pods) } else { Err(format!("{} Pods", pods.len())) }
    })
    .await;
    lab.stack_says("Ready", "AllServing").await;
    for pod in pods {
        let server = pod.status.and_then(|status| status.pod_ip).expect("an address");
        let said = cql(lab, &server, "ALL", "SELECT value FROM kept.kept WHERE key = 'key'").await;
        assert!(said.as_ref().is_ok_and(|said| said.contains("a value")), "{server}: {said:?}");
    }
}

/// The server in place of one that is gone ends in the middle of taking its data.
async fn killed_while_joining(lab: &Lab<'_>, gone: &Pod) {
    eventually("it has begun to join", LONG, || async {
        let pods = lab.stack_pods().await;
        let joins = pods.into_iter().find(|pod| pod.name_any() == gone.name_any() && pod.uid() != gone.uid());
        let kill = |container: &mut Container| {
            let has_begun = container.log().contains("JOINING");
            if has_begun {
                container.kill();
            }
            has_begun
        };
        let killed = joins.and_then(|pod| lab.cluster.kubelet.real.with(&pod, "cassandra", kill));
        if killed == Some(true) { Ok(()) } else { Err(format!("{killed:?}")) }
    })
    .await;
}

#[test]
fn servers_join_one_by_one_take_their_data_speak_tls_and_come_back_with_it() {
    run(async {
        let mut lab = Lab::of_real_stacks("cassandra", 1).await;
        let mut entry = service("cassandra1", &real_cassandra());
        entry["spec"]["serviceConfiguration"]["maxHeapSize"] = "384M".into();
        lab.cluster.apply(&lab.stack_of(json!({ "cassandras": [entry] })).to_string());
        lab.stack_says("Ready", "AllServing").await;
        let server = lab.addresses().await.remove(0);
        for query in [
            "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "CREATE TABLE kept.kept (key text PRIMARY KEY, value text)",
            "INSERT INTO kept.kept (key, value) VALUES ('key', 'a value')",
        ] {
            cql(&lab, &server, "ONE", query).await.expect("done");
        }
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=cassandra", 1).await;
        lab.add_real_masters(2).await;
        whole(&lab, 3).await;
        assert_eq!(eyes.seen().await.counts().1, 0, "nobody is replaced for that");
        lab.replaces_all(&[]).await;
        whole(&lab, 3).await;
        // One loses its disk, and takes its data from the others.
        let last = lab.stack_pods().await.remove(2);
        lab.empties_disk(&last).await;
        whole(&lab, 3).await;
        // A master is removed for good, with its disk: another server takes its place.
        let gone = lab.stack_pods().await.remove(1);
        lab.replaces_master(&gone).await;
        killed_while_joining(&lab, &gone).await;
        whole(&lab, 3).await;
        lab.end().await;
    });
}
