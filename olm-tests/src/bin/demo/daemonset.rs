//! `make demo KIND=daemonset`: the same agent twice on 24 nodes, once beside a DaemonSetRollout and once with
//! Kubernetes' own RollingUpdate. Both get a good version, then one that crashes while half of the agents are not Ready
//! for a moment, and then the good one again.
//!
//! Installs from `config/daemonset-rollout-operator/install.yaml`. Must not claim anything that the API server does not
//! say.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::kubelet::Fault;
use olm_tests::lab::is_ready;
use olm_tests::nodes::{self, Shape};
use serde_json::{Value, json};

use super::{PATIENCE, ZONES, prepared, say};

const NAMESPACE: &str = "daemonset-rollout";
const NODES: usize = 24;
/// Beside a DaemonSetRollout, and with RollingUpdate.
const SETS: [&str; 2] = ["careful", "builtin"];
const BAD: &str = "1.2";
/// For so long half of the agents are not Ready.
const BLIP: Duration = Duration::from_secs(5);

pub(super) async fn demo() -> Result<Cluster, ExitCode> {
    prepared()?;
    let cluster = Cluster::bare(Vec::new()).await;
    let zone = |number: usize| Shape::default().label("topology.kubernetes.io/zone", ZONES[number * 3 / NODES]);
    let fleet = (0..NODES).map(|number| nodes::node(&format!("node-{number:02}"), &zone(number)));
    nodes::create(&cluster.client, fleet.collect()).await;
    let file = repository("config/daemonset-rollout-operator/install.yaml").display().to_string();
    say("installing config/daemonset-rollout-operator/install.yaml: CRD, rights, ServiceAccount, Deployment");
    cluster.kubectl(&["apply", "--server-side", "-f", &file]);
    let crd = "crd/daemonsetrollouts.oneagent-operator.github.io";
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", crd]);
    let deployment = "deployment/daemonset-rollout-operator";
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", deployment, "--timeout=60s"]);
    say("24 nodes in three zones; one agent twice: `careful` with a DaemonSetRollout, `builtin` with RollingUpdate");
    cluster.kubelet.behave(NAMESPACE, |behaviour| {
        behaviour.ready_after = Duration::from_millis(800);
        behaviour.versions.insert(BAD.to_owned(), Fault::CrashLoop);
    });
    deploy(&cluster, "1.0");
    let rollout = json!({ "apiVersion": "oneagent-operator.github.io/v1alpha1", "kind": "DaemonSetRollout",
        "metadata": { "name": "careful", "namespace": NAMESPACE },
        "spec": { "daemonSet": "careful", "debounceSeconds": 3,
            "rollout": { "maxUnavailable": 3, "canary": { "nodes": 1, "soak": "3s" } } } });
    cluster.apply(&rollout.to_string());
    let shown = async {
        all_run(&cluster, "1.0").await?;
        say("both get version 1.1, which is good");
        update(&cluster, "1.1");
        all_run(&cluster, "1.1").await?;
        say("both get version 1.2, which crashes. Meanwhile half of the agents are not Ready for a moment");
        damage(&cluster).await
    };
    let shown = async {
        let reached = shown.await?;
        grids(&cluster);
        println!();
        typed(&cluster, &["-n", NAMESPACE, "get", "daemonsetrollouts", "-o", "wide"]);
        say("both get version 1.1 again");
        update(&cluster, "1.1");
        all_run(&cluster, "1.1").await?;
        Ok::<_, String>(reached)
    };
    match shown.await {
        Ok([careful, builtin]) => {
            say(&format!(
                "nodes that the version which crashes has reached: {careful} of {NODES} beside the DaemonSetRollout, \
                 {builtin} of {NODES} with RollingUpdate, both with maxUnavailable 3"
            ));
            Ok(cluster)
        }
        Err(why) => {
            eprintln!("\n{why}\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "daemonsetrollouts", "-o", "yaml"]));
            Err(ExitCode::FAILURE)
        }
    }
}

/// Deploys both, as a user who knows nothing of the operator.
fn deploy(cluster: &Cluster, version: &str) {
    for name in SETS {
        let strategy = if name == "careful" {
            json!({ "type": "OnDelete" })
        } else {
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 3 } })
        };
        let container = json!({ "name": "agent", "image": format!("agent:{version}") });
        let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "selector": { "matchLabels": { "app": name } }, "updateStrategy": strategy,
                "template": { "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [container], "terminationGracePeriodSeconds": 1 } } } });
        cluster.apply(&set.to_string());
    }
}

/// Gives both another version.
fn update(cluster: &Cluster, version: &str) {
    let image = format!("agent=agent:{version}");
    let [careful, builtin] = SETS.map(|name| format!("daemonset/{name}"));
    typed(cluster, &["-n", NAMESPACE, "set", "image", &careful, &builtin, &image]);
}

/// Runs a command, and prints it with what it says.
fn typed(cluster: &Cluster, args: &[&str]) {
    println!("  $ kubectl {}", args.join(" "));
    for line in cluster.kubectl(args).lines() {
        println!("  {line}");
    }
}

/// The Pods of one that are there, by node.
fn pods(cluster: &Cluster, name: &str) -> Vec<Arc<Pod>> {
    let mut pods = cluster.kubelet.pods(NAMESPACE);
    pods.retain(|pod| pod.labels().get("app").is_some_and(|app| app == name));
    pods.sort_by_key(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    pods
}

fn version(pod: &Pod) -> &str {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    image.and_then(|image| image.split_once(':')).map_or("", |(_, version)| version)
}

/// Waits until all agents of both run a version, and the object says so.
async fn all_run(cluster: &Cluster, wanted: &str) -> Result<(), String> {
    let (end, mut last) = (Instant::now() + PATIENCE, String::new());
    loop {
        let counts = SETS.map(|name| {
            let runs = |pod: &&Arc<Pod>| is_ready(pod) && version(pod) == wanted;
            pods(cluster, name).iter().filter(runs).count()
        });
        let line = format!("{wanted} runs on {} nodes (careful) and {} nodes (builtin)", counts[0], counts[1]);
        if line != last {
            println!("  {line}");
            last = line;
        }
        let text = cluster.kubectl(&["-n", NAMESPACE, "get", "daemonsetrollout", "careful", "-o", "json"]);
        let object: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let ready = object["status"]["conditions"][0]["status"] == "True";
        if counts == [NODES; 2] && ready {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("after {} s not every agent runs {wanted}", PATIENCE.as_secs()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Deploys the bad version while half of the agents are not Ready; returns how many nodes it reached of each.
async fn damage(cluster: &Cluster) -> Result<[usize; 2], String> {
    update(cluster, BAD);
    let half: Vec<Arc<Pod>> = SETS.iter().flat_map(|name| pods(cluster, name).into_iter().step_by(2)).collect();
    for pod in &half {
        cluster.kubelet.say_ready(pod, false).await;
    }
    let (end, mut reached) = (Instant::now() + BLIP, SETS.map(|_| BTreeSet::new()));
    let mut is_over = false;
    let says = || {
        let text = cluster.kubectl(&["-n", NAMESPACE, "get", "daemonsetrollout", "careful", "-o", "json"]);
        serde_json::from_str::<Value>(&text).unwrap_or_default()["status"]["conditions"][2]["reason"].clone()
    };
    loop {
        for (seen, name) in reached.iter_mut().zip(SETS) {
            let bad = pods(cluster, name).into_iter().filter(|pod| version(pod) == BAD);
            seen.extend(bad.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()));
        }
        if !is_over && Instant::now() > end {
            is_over = true;
            for pod in half.iter().filter(|pod| version(pod) != BAD) {
                cluster.kubelet.say_ready(pod, true).await;
            }
        }
        if is_over && says() == "RolloutFailed" {
            return Ok(reached.map(|seen| seen.len()));
        }
        if Instant::now() > end + PATIENCE {
            return Err("the status does not report that the rollout failed".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A cell for each node, by zone: the good version, or the bad one.
fn grids(cluster: &Cluster) {
    for name in SETS {
        let cells: Vec<&str> =
            pods(cluster, name).iter().map(|pod| if version(pod) == BAD { "✖" } else { "■" }).collect();
        let zones: Vec<String> =
            cells.chunks(NODES / 3).zip(ZONES).map(|(cells, zone)| format!("{zone} {}", cells.concat())).collect();
        println!("  {name:8} {}", zones.join("   "));
    }
    println!("           ■ version 1.1   ✖ the version that crashes");
}
