//! `make demo KIND=jmx`: real JVMs begin to serve metrics, one after the other, without a restart; one cannot be
//! attached to and says so, and a configuration that no exporter takes changes nothing.
//!
//! Installs from `config/jmx-exporter-operator/install.yaml`, and applies its samples. Must not claim anything that the
//! endpoints and the API server do not say.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::nodes::{self, Shape};
use olm_tests::sandbox::scrape;
use serde_json::{Value, json};

use super::{PATIENCE, prepared, say};

const NAMESPACE: &str = "jmx-exporter";
const NAME: &str = "example-prom-jmx-exp";
const PORT: u16 = 9400;

pub(super) async fn demo() -> Result<Cluster, ExitCode> {
    prepared()?;
    let cluster = Cluster::bare(Vec::new()).await;
    let fleet = (0..3).map(|i| nodes::node(&format!("node-{i}"), &Shape::default()));
    nodes::create(&cluster.client, fleet.collect()).await;
    let file = |path: &str| repository(&format!("config/jmx-exporter-operator/{path}")).display().to_string();
    say("installing config/jmx-exporter-operator/install.yaml: CRD, rights, ServiceAccount, Deployment; and the \
        admission policy, which confines the operator");
    cluster.kubectl(&["apply", "--server-side", "-f", &file("install.yaml")]);
    cluster.kubectl(&["apply", "-f", &file("admission-policy.yaml")]);
    let crd = "crd/prometheusjmxexporters.banzaicloud.com";
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", crd]);
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/jmx-exporter-operator", "--timeout=60s"]);
    say(
        "applying the sample's application: four JVMs; and a fifth, which was started with -XX:+DisableAttachMechanism",
    );
    cluster.kubectl(&["apply", "-f", &file("samples/dummyapp.yaml")]);
    cluster.apply(&closed().to_string());
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/dummyapp", "--timeout=60s"]);
    say("they run: none of them serves metrics. Applying the sample's PrometheusJmxExporter");
    cluster.kubectl(&["apply", "-f", &file("samples/jmx-exporter.yaml")]);
    let shown = async {
        until(&cluster, "4/5", "JvmsRefused").await?;
        say("the ConfigMap gets a pattern that no exporter takes: rules: [{pattern: '('}]");
        configure(&cluster, "rules: [{pattern: '('}]");
        until(&cluster, "/5", "ConfigRejected").await?;
        say("and a good one again: lowercaseOutputName: true");
        configure(&cluster, "lowercaseOutputName: true");
        until(&cluster, "4/5", "JvmsRefused").await
    };
    if let Err(why) = shown.await {
        eprintln!("\n{why}\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pje", "-o", "yaml"]));
        return Err(ExitCode::FAILURE);
    }
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pje", "-o", "wide"]));
    println!("{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pods"]));
    let examples = "jsonpath={.status.jvms.examples}";
    println!("{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pje", NAME, "-o", examples]));
    let restarts = pods(&cluster).into_iter().filter_map(|pod| pod.status.clone()?.container_statuses).flatten();
    if restarts.map(|one| one.restart_count).sum::<i32>() > 0 {
        eprintln!("a JVM was restarted");
        return Err(ExitCode::FAILURE);
    }
    Ok(cluster)
}

/// A Pod of the application whose JVM cannot be attached to.
fn closed() -> Value {
    let options = json!([{ "name": "JAVA_TOOL_OPTIONS", "value": "-XX:+DisableAttachMechanism" }]);
    let container = json!({ "name": "dummyapp", "image": "docker.io/library/tomcat:10.1-jre21", "env": options });
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "closed", "namespace": NAMESPACE, "labels": { "app": "dummyapp" } },
        "spec": { "containers": [container] } })
}

fn configure(cluster: &Cluster, text: &str) {
    let patch = json!({ "data": { "config.yaml": text } }).to_string();
    let map = ["-n", NAMESPACE, "patch", "configmap", "prometheus-jmx-exporter-config", "--type=merge", "-p", &patch];
    cluster.kubectl(&map);
}

fn pods(cluster: &Cluster) -> Vec<std::sync::Arc<Pod>> {
    let all = cluster.kubelet.pods(NAMESPACE).into_iter();
    all.filter(|pod| pod.labels().get("app").is_some_and(|app| app == "dummyapp")).collect()
}

/// How many JVMs answer with metrics now.
fn answers(cluster: &Cluster) -> usize {
    let addresses = pods(cluster).into_iter().filter_map(|pod| pod.status.clone()?.pod_ip);
    addresses.filter(|address| scrape(address, PORT, "/metrics").is_ok()).count()
}

/// A line for each change, until the object says so, with this reason.
async fn until(cluster: &Cluster, progress: &str, reason: &str) -> Result<(), String> {
    let (end, mut last) = (Instant::now() + PATIENCE, String::new());
    loop {
        let text = cluster.kubectl(&["-n", NAMESPACE, "get", "pje", NAME, "-o", "json"]);
        let object: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let status = &object["status"];
        let ready = status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        let (says, at) = (ready.map(|ready| &ready["reason"]), &status["jvms"]["progress"]);
        let (says, at) = (says.and_then(Value::as_str).unwrap_or("-"), at.as_str().unwrap_or("-"));
        let line = format!("{} JVMs answer with metrics; the object says {at}, {says}", answers(cluster));
        if line != last {
            println!("  {line}");
            last = line;
        }
        if says == reason && at.ends_with(progress) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("after {} s it does not say {progress}, {reason}", PATIENCE.as_secs()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
