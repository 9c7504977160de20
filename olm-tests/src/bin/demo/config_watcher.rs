//! `make demo KIND=configwatcher`: a web application of four real processes gets a new ConfigMap, one Pod at a time,
//! while clients ask it.
//!
//! Installs from `config/configwatcher-operator/install.yaml`, and applies its samples. Must not claim anything that
//! the answers and the API server do not say.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use olm_tests::clients::Clients;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::nodes::{self, Shape};

use super::{PATIENCE, prepared, say};

const NAMESPACE: &str = "configwatcher";
const REPLICAS: usize = 4;
/// So old is the application when its ConfigMap changes: long enough to see it.
const OLD: Duration = Duration::from_secs(2);

pub(super) async fn demo() -> Result<Cluster, ExitCode> {
    prepared()?;
    let cluster = Cluster::bare(Vec::new()).await;
    let fleet = (0..3).map(|i| nodes::node(&format!("node-{i}"), &Shape::default()));
    nodes::create(&cluster.client, fleet.collect()).await;
    let file = |path: &str| repository(&format!("config/configwatcher-operator/{path}")).display().to_string();
    say("installing config/configwatcher-operator/install.yaml: CRD, rights, ServiceAccount, Deployment");
    cluster.kubectl(&["apply", "--server-side", "-f", &file("install.yaml")]);
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd/configwatchers.k8spatterns.io"]);
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/configwatcher-operator", "--timeout=60s"]);
    say("applying both samples: a web application of four processes, and a ConfigWatcher of its ConfigMap");
    cluster.kubectl(&["apply", "-f", &file("samples/webapp.yaml"), "-f", &file("samples/configwatcher.yaml")]);
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/webapp", "--timeout=60s"]);
    cluster.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=60s", "cw/webapp-config-watcher"]);
    let clients = Clients::of(&cluster.kubelet, NAMESPACE, "webapp");
    tokio::time::sleep(OLD).await;
    say(&format!("clients ask all the time: {}", counted(&clients.answers().said)));
    let patch = r#"{"data":{"message":"Hello"}}"#;
    say(&format!("kubectl patch configmap webapp-config --type=merge -p '{patch}'"));
    cluster.kubectl(&["-n", NAMESPACE, "patch", "configmap", "webapp-config", "--type=merge", "-p", patch]);
    if let Err(why) = until_all_say(&cluster, &clients, "Hello").await {
        eprintln!("\n{why}\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "cw", "-o", "yaml"]));
        return Err(ExitCode::FAILURE);
    }
    cluster.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=60s", "cw/webapp-config-watcher"]);
    let answers = clients.answers().clone();
    say(&format!("answers: {}; requests without one: {}", counted(&answers.said), answers.lost));
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "configwatchers", "-o", "wide"]));
    println!("{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pods"]));
    if answers.lost > 0 {
        eprintln!("a request was lost");
        return Err(ExitCode::FAILURE);
    }
    Ok(cluster)
}

/// A line for each change, until every Pod answers with the new value.
async fn until_all_say(cluster: &Cluster, clients: &Clients, message: &str) -> Result<(), String> {
    let (end, mut last) = (Instant::now() + PATIENCE, String::new());
    loop {
        let now = clients.answers().now.clone();
        let ready = cluster.kubelet.pods(NAMESPACE).iter().filter(|pod| olm_tests::lab::is_ready(pod)).count();
        let mut said: BTreeMap<String, usize> = BTreeMap::new();
        for message in now.values() {
            *said.entry(message.clone()).or_default() += 1;
        }
        let line = counted(&said);
        if line != last {
            println!("  Ready Pods answer: {line}");
            last = line;
        }
        if said.get(message) == Some(&REPLICAS) && said.len() == 1 && ready >= REPLICAS {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("after {} s not every Pod answers {message}", PATIENCE.as_secs()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn counted(said: &BTreeMap<String, usize>) -> String {
    said.iter().map(|(message, times)| format!("{times} × {message}")).collect::<Vec<_>>().join(", ")
}
