//! `make demo KIND=manager`: a stack of ten components starts, each after those that it needs. Its ZooKeeper, RabbitMQ,
//! Cassandra, Redis, BIND and dnsmasq are real. Of the others, whose images cannot be had here, stand-ins read their
//! files and connect to all that these name.
//!
//! Installs from `config/tf-operator/install.yaml`, and applies its sample. Must not claim anything that the API server
//! does not say.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use olm_tests::cluster::{Cluster, documents, repository};
use olm_tests::lab::entries::has_real_programs;
use olm_tests::lab::manager::{networks, volumes};
use olm_tests::nodes::{self, Shape};
use serde_json::{Value, json};

use super::{PATIENCE, prepared, say};

const NAMESPACE: &str = "contrail";
const NAME: &str = "cluster1";

pub(super) async fn demo() -> Result<Cluster, ExitCode> {
    prepared()?;
    let cluster = Cluster::bare(Vec::new()).await;
    let named = |role: &str| (0..3).map(|number| format!("{role}-{number}")).collect::<Vec<_>>();
    for role in ["master", "worker"] {
        let shape = Shape::default().label(&format!("node-role.kubernetes.io/{role}"), "");
        let fleet = named(role).iter().map(|name| nodes::node(name, &shape)).collect();
        nodes::create(&cluster.client, fleet).await;
        networks(&cluster, &named(role)).await;
    }
    volumes(&cluster, &named("master"));
    let file = |path: &str| repository(&format!("config/tf-operator/{path}")).display().to_string();
    say("installing config/tf-operator/install.yaml: CRD, rights, ServiceAccounts, Deployment");
    cluster.kubectl(&["apply", "--server-side", "-f", &file("install.yaml")]);
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd/managers.contrail.juniper.net"]);
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/tf-operator", "--timeout=60s"]);
    say("three masters, three workers. Applying the sample's Manager, whose stores, Redis, BIND and dnsmasq are real");
    let sample = std::fs::read_to_string(file("samples/manager.yaml")).map_err(|_| ExitCode::FAILURE)?;
    let mut manager = documents(&sample).remove(0);
    has_real_programs(&mut manager);
    let right = manager["spec"]["services"]["webui"].clone();
    let all = manager["spec"]["services"]["webui"]["spec"]["serviceConfiguration"]["containers"].as_array_mut();
    all.ok_or(ExitCode::FAILURE)?.retain(|container| container["name"] != "redis");
    cluster.apply(&manager.to_string());
    let shown = async {
        until(&cluster, "9/10", "InvalidComponent").await?;
        say("one component has a mistake in its entry, which the object names; the others stand. It is corrected");
        cluster.kubectl(&["-n", NAMESPACE, "get", "manager", NAME, "-o", "jsonpath={.status.conditions[2].message}"]);
        let patch = json!({ "spec": { "services": { "webui": right } } }).to_string();
        cluster.kubectl(&["-n", NAMESPACE, "patch", "manager", NAME, "--type=merge", "-p", &patch]);
        until(&cluster, "10/10", "AllServing").await
    };
    if let Err(why) = shown.await {
        eprintln!("\n{why}\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "managers", "-o", "yaml"]));
        return Err(ExitCode::FAILURE);
    }
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "managers"]));
    println!("{}", cluster.kubectl(&["-n", NAMESPACE, "get", "pods"]));
    Ok(cluster)
}

/// A line for each change, until the object says so, with this reason.
async fn until(cluster: &Cluster, progress: &str, reason: &str) -> Result<(), String> {
    let (end, mut last) = (Instant::now() + PATIENCE, String::new());
    loop {
        let text = cluster.kubectl(&["-n", NAMESPACE, "get", "manager", NAME, "-o", "json"]);
        let object: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let status = &object["status"];
        let ready = status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        let says = ready.and_then(|ready| ready["reason"].as_str()).unwrap_or("-");
        let message = ready.and_then(|ready| ready["message"].as_str()).unwrap_or("nobody has looked yet");
        let at = status["summary"]["progress"].as_str().unwrap_or("-");
        if message != last {
            println!("  {message}");
            message.clone_into(&mut last);
        }
        if says == reason && at == progress {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("after {} s it does not say {progress}, {reason}", PATIENCE.as_secs()));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
