//! What `KEEP=1` leaves: the cluster with three free nodes, an environment, and a OneAgent of one's own to begin with.
//!
//! Must not say that a command works which does not on nodes that are fake.

use std::path::Path;
use std::time::Duration;

use olm_tests::cluster::Cluster;
use olm_tests::lab::{V1, V2};
use olm_tests::nodes::{self, Shape};
use olm_tests::operator::binary;
use olm_tests::tools::tool;
use olm_tests::vendor::{api_token, paas_token};
use serde_json::{Value, json};

/// The environment of the OneAgent to begin with, and its name.
const MINE: &str = "mine";

/// Says how to look at it, and goes on until Ctrl-C.
pub(super) async fn running(cluster: &Cluster, namespace: &str, what: &str) -> ! {
    let folder = |of: &Path| of.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    println!("\nIt keeps running until Ctrl-C. In another shell:");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!("  export PATH={}:{}:$PATH     # kubectl, oneagent-operator", folder(&tool("kubectl")), folder(&binary()));
    println!("  kubectl -n {namespace} get {what} -o wide");
    println!("  kubectl -n {namespace} describe {}", what.split(',').next().unwrap_or_default());
    println!("Nodes are fake: kubectl logs and exec reach no Pod. Logs are {}", cluster.path("*.log").display());
    if !what.starts_with("oneagents") {
        std::future::pending::<()>().await;
    }
    let (file, publish) = (cluster.path("mine.yaml"), cluster.path("publish"));
    let spare = |number: usize| nodes::node(&format!("spare-{number}"), &Shape::default().label("tier", MINE));
    nodes::create(&cluster.client, (0..3).map(spare).collect()).await;
    cluster.vendor.add(MINE, V1);
    std::fs::write(&file, mine(cluster, namespace)).expect("a file");
    println!("\nThree nodes are free, and {} is a OneAgent for them:", file.display());
    println!("  oneagent-operator plan -n {namespace} -f {}", file.display());
    println!("  kubectl apply -f {}", file.display());
    println!("  oneagent-operator explain {MINE} -n {namespace}; oneagent-operator explain node spare-0");
    println!("  echo {V2} > {}     # its environment publishes that version", publish.display());
    println!(
        "  kubectl -n {namespace} create configmap oneagent-operator --from-literal=stop=true     # everything stops"
    );
    let mut published = String::new();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let version = std::fs::read_to_string(&publish).unwrap_or_default().trim().to_owned();
        if version.parse::<oneagent_operator::api::name::Version>().is_ok() && version != published {
            cluster.vendor.publish(MINE, &version);
            println!("the environment publishes {version}");
            published = version;
        }
    }
}

/// Secret and OneAgent.
fn mine(cluster: &Cluster, namespace: &str) -> String {
    let metadata = json!({ "name": MINE, "namespace": namespace });
    let tokens = json!({ "apiToken": api_token(MINE), "paasToken": paas_token(MINE) });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": tokens });
    let spec = json!({ "apiUrl": cluster.vendor.url(MINE), "nodeSelector": { "tier": MINE },
        "rollout": { "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "30s" } } });
    let agent =
        json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent", "metadata": metadata, "spec": spec });
    let yaml = |value: &Value| serde_yaml::to_string(value).expect("YAML");
    format!("{}---\n{}", yaml(&secret), yaml(&agent))
}
