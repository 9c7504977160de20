//! What `KEEP=1` leaves: the cluster with three free nodes, an environment, and a OneAgent of one's own to begin with.
//! docs/tutorial.md continues from there.
//!
//! Must not say that a command works which does not on nodes that are fake.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use olm_tests::cluster::Cluster;
use olm_tests::kubelet::Fault;
use olm_tests::lab::V1;
use olm_tests::nodes::{self, Shape};
use olm_tests::operator::binary;
use olm_tests::tools::tool;
use olm_tests::vendor::{api_token, paas_token};
use oneagent_operator::api::name::Version;
use serde_json::{Value, json};

/// The OneAgent to begin with, and its environment.
const MINE: &str = "mine";
/// What publishes versions for a user of the demo.
const PUBLISH: &str = r#"#!/bin/sh
# Publishes a version in an environment of the demo: publish [--crashing] VERSION [ENVIRONMENT]
case "$1" in --crashing) fault=crashing; shift ;; *) fault=good ;; esac
[ -n "$1" ] || { echo "usage: publish [--crashing] VERSION [mine|production|platform]" >&2; exit 2; }
echo "$1 $fault ${2:-mine}" >> "$(dirname "$0")/published"
"#;

/// Says how to look at it, and continues until Ctrl-C.
pub(super) async fn running(cluster: &Cluster, namespace: &str, what: &str) -> ! {
    let is_ours = what.starts_with("oneagents");
    if is_ours {
        let spare = |number: usize| nodes::node(&format!("spare-{number}"), &Shape::default().label("tier", MINE));
        nodes::create(&cluster.client, (0..3).map(spare).collect()).await;
        cluster.vendor.add(MINE, V1);
    }
    let (source, bin) = prepared(cluster, namespace).expect("files of the demo");
    println!("\nIt keeps running until Ctrl-C. In another shell:\n  source {}", source.display());
    println!("  kubectl -n {namespace} get {what} -o wide");
    println!("Nodes are fake: kubectl logs and exec reach no Pod. Logs are {}", cluster.path("*.log").display());
    if !is_ours {
        std::future::pending::<()>().await;
    }
    println!("Three nodes are free, and $MINE is a OneAgent for them: docs/tutorial.md goes on from here.");
    let mut done = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let all = std::fs::read_to_string(bin.join("published")).unwrap_or_default();
        for line in all.lines().skip(done) {
            publish(cluster, namespace, line);
            done += 1;
        }
    }
}

/// The script that a shell takes in, and the folder of what it puts on PATH.
fn prepared(cluster: &Cluster, namespace: &str) -> std::io::Result<(PathBuf, PathBuf)> {
    let folder = |of: &Path| of.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let (bin, file, source) = (cluster.path("bin"), cluster.path("mine.yaml"), cluster.path("demo.env"));
    std::fs::create_dir_all(&bin)?;
    std::fs::write(bin.join("publish"), PUBLISH)?;
    std::fs::set_permissions(bin.join("publish"), std::fs::Permissions::from_mode(0o755))?;
    std::fs::write(&file, mine(cluster, namespace))?;
    let path = format!("{}:{}:{}", bin.display(), folder(&tool("kubectl")), folder(&binary()));
    let text = format!(
        "# Of the demo that runs: where it is, and what a user needs.\nexport KUBECONFIG={}\nexport PATH={path}:$PATH\n\
         export MINE={}\n",
        cluster.kubeconfig().display(),
        file.display()
    );
    std::fs::write(&source, text)?;
    Ok((source, bin))
}

/// Does what a line of `publish` says.
fn publish(cluster: &Cluster, namespace: &str, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [version, fault, environment] = words.as_slice() else { return };
    if version.parse::<Version>().is_err() {
        println!("{version} is not a version such as 1.311.0.20260201-000000; nothing is published");
        return;
    }
    cluster.kubelet.behave(namespace, |behaviour| {
        if *fault == "crashing" {
            behaviour.versions.insert((*version).to_owned(), Fault::CrashLoop);
        } else {
            behaviour.versions.remove(*version);
        }
    });
    if [MINE, "production", "platform"].contains(environment) {
        cluster.vendor.publish(environment, version);
        println!("environment {environment} publishes {version}, which is {fault}");
    } else {
        println!("there is no environment {environment}; there are {MINE}, production and platform");
    }
}

/// Secret and OneAgent.
fn mine(cluster: &Cluster, namespace: &str) -> String {
    let metadata = json!({ "name": MINE, "namespace": namespace });
    let tokens = json!({ "apiToken": api_token(MINE), "paasToken": paas_token(MINE) });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": tokens });
    let spec = json!({ "apiUrl": cluster.vendor.url(MINE), "nodeSelector": { "tier": MINE },
        "rollout": { "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "10s" } } });
    let agent =
        json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent", "metadata": metadata, "spec": spec });
    let yaml = |value: &Value| serde_yaml::to_string(value).expect("YAML");
    format!("{}---\n{}", yaml(&secret), yaml(&agent))
}
