//! `make demo`: a fleet of 60 nodes for two environments, kept up to date before your eyes, on a real control plane.
//!
//! Installs from `config/oneagent-operator/install.yaml`, or with `--olm` through a Subscription of a real Operator
//! Lifecycle Manager and then upgrades the operator under its agents. Ends with what the API server says: exit code 0
//! only if the fleet is what it should be. Must not claim anything that the API server does not say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a demo that cannot go on says why and ends"
)]

mod config_watcher;
mod daemonset;
mod jmx_exporter;
mod keep;
mod manager;
mod picture;
mod screen;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::kubelet::Fault;
use olm_tests::lab::{V1, V2, V3};
use olm_tests::nodes::{self, Shape};
use olm_tests::olm::{NEXT, Olm, Wish, releases};
use olm_tests::vendor::{api_token, paas_token};
use screen::Screen;
use serde_json::json;

/// Shows the operator at work on a real control plane.
#[derive(Parser)]
struct Args {
    /// Leave everything running at the end, and say how to look at it.
    #[arg(long)]
    keep: bool,
    /// Install and upgrade the operator with Operator Lifecycle Manager.
    #[arg(long, conflicts_with = "kind")]
    olm: bool,
    /// Publish a version that crashes before the good one.
    #[arg(long, conflicts_with_all = ["olm", "kind"])]
    bad: bool,
    /// Draw what was seen into this file (SVG), and the phases of a rollout into phases.svg beside it.
    #[arg(long, value_name = "FILE", requires = "bad")]
    picture: Option<PathBuf>,
    /// Which kind to show.
    #[arg(long, default_value = "oneagent", value_parser = KINDS)]
    kind: String,
}

const KINDS: [&str; 5] = ["oneagent", "configwatcher", "jmx", "manager", "daemonset"];
const NAMESPACE: &str = "dynatrace";
/// Two environments: the workers belong to one, infra and control plane to the other.
const AGENTS: [&str; 2] = ["production", "platform"];
const PATIENCE: Duration = Duration::from_secs(120);
/// Nodes of the first environment, and the zones that all of them are spread over.
const WORKERS: usize = 48;
const ZONES: [&str; 3] = ["a", "b", "c"];

async fn show(args: &Args) -> ExitCode {
    if args.kind == "configwatcher" {
        let began = Instant::now();
        return match Box::pin(config_watcher::demo()).await {
            Ok(cluster) => end(args, &cluster, began, "configwatcher", "configwatchers,configmaps,pods").await,
            Err(code) => code,
        };
    }
    if args.kind == "jmx" {
        let began = Instant::now();
        return match Box::pin(jmx_exporter::demo()).await {
            Ok(cluster) => end(args, &cluster, began, "jmx-exporter", "prometheusjmxexporters,configmaps,pods").await,
            Err(code) => code,
        };
    }
    if args.kind == "daemonset" {
        let began = Instant::now();
        return match Box::pin(daemonset::demo()).await {
            Ok(cluster) => end(args, &cluster, began, "daemonset-rollout", "daemonsetrollouts,daemonsets,pods").await,
            Err(code) => code,
        };
    }
    if args.kind == "manager" {
        let began = Instant::now();
        return match Box::pin(manager::demo()).await {
            Ok(cluster) => end(args, &cluster, began, "contrail", "managers,statefulsets,daemonsets,pods").await,
            Err(code) => code,
        };
    }
    if args.olm { Box::pin(demo_olm(args)).await } else { Box::pin(demo(args)).await }
}

fn main() -> ExitCode {
    let args = Args::parse();
    olm_tests::run(async {
        tokio::select! {
            code = show(&args) => code,
            _ = tokio::signal::ctrl_c() => {
                // Every process that was started here ends with this one.
                eprintln!("\ninterrupted; everything that was started has ended");
                ExitCode::from(130)
            }
        }
    })
}

/// Has the tools that a cluster is made of.
fn prepared() -> Result<(), ExitCode> {
    say("starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler (built from Go modules on the \
        first run)");
    olm_tests::tools::prepare(olm_tests::tools::CONTROL_PLANE).map_err(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}

async fn demo(args: &Args) -> ExitCode {
    let began = Instant::now();
    if let Err(failure) = prepared() {
        return failure;
    }
    let settings = [("POLL_INTERVAL", "1s"), ("HOSTS_POLL_INTERVAL", "1s")];
    let cluster = Cluster::bare(settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()).await;
    cluster.kubelet.behave(NAMESPACE, |b| b.ready_after = Duration::from_millis(1500));
    say("installing config/oneagent-operator/install.yaml: CRD, RBAC, ServiceAccounts and the operator's Deployment");
    nodes::create(&cluster.client, fleet()).await;
    cluster.kubectl(&[
        "apply",
        "--server-side",
        "-f",
        &repository("config/oneagent-operator/install.yaml").display().to_string(),
    ]);
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd/oneagents.dynatrace.com"]);
    cluster.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/oneagent-operator", "--timeout=60s"]);
    say("creating two Secrets and two OneAgents for two environments; 60 nodes: 48 workers, 9 infra and 3 \
        control-plane nodes with taints");
    for name in AGENTS {
        cluster.vendor.add(name, V1);
        create(&cluster, name);
    }
    let mut screen = Screen::new(&cluster).await;
    if let Err(why) = screen.until(V1).await {
        return failed(&why);
    }
    screen.line(&format!("all 60 nodes run {V1}"));
    screen.keep("before: every node runs the same version").await;
    let good = if args.bad { V3 } else { V2 };
    if args.bad
        && let Err(why) = bad(&cluster, &mut screen).await
    {
        return failed(&why);
    }
    for name in AGENTS {
        cluster.vendor.publish(name, good);
    }
    screen.line(&format!(
        "the vendor publishes {good}; every outdated Pod is now recycled, at most 10 % of each OneAgent's nodes at a \
        time (rounded up: 5 of 48, 2 of 12)"
    ));
    let rollout = Instant::now();
    if let Err(why) = screen.until(good).await {
        return failed(&why);
    }
    screen.keep("after: the next version is good, and reaches every node").await;
    screen.line(&format!(
        "done in {:.1} s; at most {} of 48 and {} of 12 nodes were without a Ready agent at once",
        rollout.elapsed().as_secs_f64(),
        screen.most[0],
        screen.most[1]
    ));
    if screen.most[0] > 5 || screen.most[1] > 2 {
        return failed("the budget of 10 % (5 of 48, 2 of 12) was exceeded");
    }
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "oneagents", "-o", "wide"]));
    println!("{}", cluster.kubectl(&["-n", NAMESPACE, "get", "daemonsets"]));
    if let Some(file) = &args.picture {
        std::fs::write(file, picture::of(&screen.kept)).unwrap();
        let phases = file.with_file_name("phases.svg");
        std::fs::write(&phases, picture::phases(&plan(&cluster), &zones())).unwrap();
        say(&format!("drawn into {} and {}", file.display(), phases.display()));
    }
    end(args, &cluster, began, NAMESPACE, "oneagents,daemonsets,pods").await
}

/// What the operator's own `plan` says of an edit of the workers' agents that is rolled out with care.
fn plan(cluster: &Cluster) -> serde_json::Value {
    let rollout = json!({ "canary": { "nodes": 1, "soak": "10m" }, "order": "ZoneByZone", "maxUnavailable": "10%" });
    let edited = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
        "metadata": { "name": AGENTS[0], "namespace": NAMESPACE },
        "spec": { "apiUrl": cluster.vendor.url(AGENTS[0]), "nodeSelector": { "tier": AGENTS[0] }, "rollout": rollout,
            "args": ["--set-host-group=workers"], "tolerations": tolerations() } });
    let file = cluster.path("edited.yaml");
    std::fs::write(&file, edited.to_string()).unwrap();
    let mut command = std::process::Command::new(olm_tests::operator::binary());
    command.args(["plan", "-n", NAMESPACE, "-o", "json", "-f"]).arg(&file).env("KUBECONFIG", cluster.kubeconfig());
    let said = command.output().expect("the operator's binary").stdout;
    let mut plans: Vec<serde_json::Value> = serde_json::from_slice(&said).expect("what plan said");
    plans.remove(0)
}

/// The workers of each zone.
fn zones() -> BTreeMap<&'static str, Vec<String>> {
    let of = |zone: usize| (0..WORKERS).filter(|i| i % 3 == zone).map(|i| format!("worker-{i:02}")).collect();
    ZONES.iter().enumerate().map(|(zone, name)| (*name, of(zone))).collect()
}

/// A version that crashes, until both OneAgents have stopped it.
async fn bad(cluster: &Cluster, screen: &mut Screen<'_>) -> Result<(), String> {
    cluster.kubelet.behave(NAMESPACE, |b| {
        b.versions.insert(V2.to_owned(), Fault::CrashLoop);
    });
    for name in AGENTS {
        cluster.vendor.publish(name, V2);
    }
    screen.line(&format!("the vendor publishes {V2}, which crashes wherever it starts"));
    screen.until_stopped(V2).await?;
    let seen = screen.at(V2).await;
    if seen > 7 {
        return Err(format!("{seen} nodes saw it, and the budget of 10 % is 5 of 48 and 2 of 12"));
    }
    screen.keep(&format!("a version that crashes: {seen} of 60 nodes see it, and the rollout is stopped")).await;
    screen.line(&format!(
        "stopped: {seen} of 60 nodes saw it, all others run on; condition Degraded of OneAgent {} (48 nodes) says",
        AGENTS[0]
    ));
    let why = "jsonpath={.items[*].status.conditions[?(@.type==\"Degraded\")].message}";
    println!(
        "  {}",
        cluster.kubectl(&["-n", NAMESPACE, "get", "oneagents", AGENTS[0], "-o", &why.replace(".items[*]", "")])
    );
    Ok(())
}

/// Catalog, Subscription, operator, agents; then the next release of the operator, under the same agents.
async fn demo_olm(args: &Args) -> ExitCode {
    let began = Instant::now();
    say("starting a control plane, Operator Lifecycle Manager and a registry (built from Go modules on the first run)");
    let olm = Olm::start().await;
    let cluster = &olm.cluster;
    nodes::create(&cluster.client, fleet()).await;
    let first = releases().releases.remove(0).version;
    say(&format!("pushing operator, bundle and catalog images; the catalog offers release {first}"));
    let old = olm.release(&first);
    olm.publish(std::slice::from_ref(&old)).await;
    say("creating Namespace, OperatorGroup and Subscription; OLM installs what the catalog offers");
    olm.namespace(NAMESPACE);
    olm.subscribe(&Wish::own(NAMESPACE, &[NAMESPACE]));
    olm.installed(NAMESPACE, &first).await;
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "subscriptions,clusterserviceversions,deployments"]));
    say("creating two Secrets and two OneAgents; 60 nodes, 12 of them tainted");
    for name in AGENTS {
        cluster.vendor.add(name, V1);
        create(cluster, name);
    }
    let mut screen = Screen::new(cluster).await;
    if let Err(why) = screen.until(V1).await {
        return failed(&why);
    }
    let uids = ["-l", "dynatrace=oneagent", "-o", "jsonpath={.items[*].metadata.uid}"];
    let pods = || cluster.kubectl(&[["-n", NAMESPACE, "get", "pods"].as_slice(), &uids].concat());
    let before = pods();
    screen.line(&format!(
        "all 60 nodes run an agent; the catalog now offers release {NEXT} too, and OLM upgrades the operator"
    ));
    olm.publish(&[old, olm.release(NEXT)]).await;
    olm.installed(NAMESPACE, NEXT).await;
    println!("\n{}", cluster.kubectl(&["-n", NAMESPACE, "get", "subscriptions,clusterserviceversions,deployments"]));
    if pods() != before {
        return failed("an agent restarted because the operator was upgraded");
    }
    say("the operator was replaced, and not one agent restarted");
    end(args, cluster, began, NAMESPACE, "oneagents,daemonsets,pods").await
}

async fn end(args: &Args, cluster: &Cluster, began: Instant, namespace: &str, what: &str) -> ExitCode {
    println!("{} s in all", began.elapsed().as_secs());
    if !args.keep {
        println!(
            "\nWhat to try next:\n  make demo BAD=1      a version that crashes is stopped at a tenth of the nodes\n  \
            make demo KEEP=1     look around, with a OneAgent of your own on three free nodes\n  \
            make demo OLM=1      installed and upgraded by Operator Lifecycle Manager"
        );
    }
    if args.keep {
        keep::running(cluster, namespace, what).await;
    }
    ExitCode::SUCCESS
}

fn failed(why: &str) -> ExitCode {
    eprintln!("\nthe fleet is not what it should be: {why}");
    ExitCode::FAILURE
}

fn say(text: &str) {
    println!("» {text}");
}

fn fleet() -> Vec<serde_json::Value> {
    let role = |role: &str| Shape::default().label(&format!("node-role.kubernetes.io/{role}"), "");
    let zone = |i: usize| ZONES[i % 3];
    let tainted = |name: &str| {
        role(name).taint(&format!("node-role.kubernetes.io/{name}"), "", "NoSchedule").label("tier", "platform")
    };
    let workers = (0..WORKERS)
        .map(|i| nodes::node(&format!("worker-{i:02}"), &role("worker").zone(zone(i)).label("tier", "production")));
    let infra = (0..9).map(|i| nodes::node(&format!("infra-{i}"), &tainted("infra").zone(zone(i))));
    let control = (0..3).map(|i| nodes::node(&format!("control-plane-{i}"), &tainted("control-plane").zone(zone(i))));
    workers.chain(infra).chain(control).collect()
}

fn create(cluster: &Cluster, name: &str) {
    cluster.apply(
        &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": NAMESPACE },
        "stringData": { "apiToken": api_token(name), "paasToken": paas_token(name) } })
        .to_string(),
    );
    let spec =
        json!({ "apiUrl": cluster.vendor.url(name), "nodeSelector": { "tier": name }, "tolerations": tolerations() });
    cluster.apply(
        &json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec })
        .to_string(),
    );
}

fn tolerations() -> serde_json::Value {
    json!([{ "key": "node-role.kubernetes.io/infra", "operator": "Exists" },
        { "key": "node-role.kubernetes.io/control-plane", "operator": "Exists" }])
}
