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

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use olm_tests::cluster::{Cluster, repository};
use olm_tests::lab::{V1, V2, is_ready, version_of};
use olm_tests::nodes::{self, Shape};
use olm_tests::olm::{NEXT, Olm, Wish, releases};
use olm_tests::vendor::{api_token, paas_token};
use oneagent_operator::api::oneagent::OneAgent;
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
    /// Which kind to show.
    #[arg(long, default_value = "oneagent", value_parser = ["oneagent", "configwatcher"])]
    kind: String,
}

const NAMESPACE: &str = "dynatrace";
/// Two environments: the workers belong to one, infra and control plane to the other.
const AGENTS: [&str; 2] = ["production", "platform"];
const PATIENCE: Duration = Duration::from_secs(120);

async fn show(args: &Args) -> ExitCode {
    if args.kind == "configwatcher" {
        let began = Instant::now();
        return match Box::pin(config_watcher::demo()).await {
            Ok(cluster) => end(args, &cluster, began, "configwatcher", "configwatchers,configmaps,pods").await,
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
    for name in AGENTS {
        cluster.vendor.publish(name, V2);
    }
    screen.line(&format!(
        "the vendor publishes {V2}; every outdated Pod is now recycled, at most 10 % of the nodes at a time"
    ));
    let rollout = Instant::now();
    if let Err(why) = screen.until(V2).await {
        return failed(&why);
    }
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
    end(args, &cluster, began, NAMESPACE, "oneagents,daemonsets,pods").await
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
    if args.keep {
        println!(
            "\nIt keeps running until Ctrl-C. Look at it with:\n  export KUBECONFIG={}",
            cluster.kubeconfig().display()
        );
        let kubectl = olm_tests::tools::tool("kubectl").display().to_string();
        println!("  {kubectl} -n {namespace} get {what} -o wide");
        println!("  {kubectl} -n {namespace} describe {}", what.split(',').next().unwrap_or_default());
        std::future::pending::<()>().await;
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
    let zone = |i: usize| ["a", "b", "c"][i % 3];
    let tainted = |name: &str| {
        role(name).taint(&format!("node-role.kubernetes.io/{name}"), "", "NoSchedule").label("tier", "platform")
    };
    let workers = (0..48)
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
    let tolerations = json!([{ "key": "node-role.kubernetes.io/infra", "operator": "Exists" },
        { "key": "node-role.kubernetes.io/control-plane", "operator": "Exists" }]);
    let spec =
        json!({ "apiUrl": cluster.vendor.url(name), "nodeSelector": { "tier": name }, "tolerations": tolerations });
    cluster.apply(
        &json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec })
        .to_string(),
    );
}

/// One node, as the API server has it.
#[derive(Clone, PartialEq, Eq)]
enum Cell {
    Missing,
    Starting,
    Going,
    Runs(String),
}

/// The fleet on a terminal, or a line per change in a pipe.
struct Screen<'a> {
    cluster: &'a Cluster,
    nodes: Vec<(String, String)>,
    terminal: bool,
    drawn: usize,
    last: String,
    /// Most nodes without a Ready agent at once during a rollout, by OneAgent.
    most: [usize; 2],
}

impl<'a> Screen<'a> {
    async fn new(cluster: &'a Cluster) -> Self {
        let list = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.unwrap();
        let mut nodes: Vec<(String, String)> =
            list.items.iter().filter_map(|n| Some((n.labels().get("tier")?.clone(), n.name_any()))).collect();
        nodes.sort_by_key(|(tier, name)| (tier != AGENTS[0], name.clone()));
        Self { cluster, nodes, terminal: std::io::stdout().is_terminal(), drawn: 0, last: String::new(), most: [0, 0] }
    }

    /// Draws until every node runs `version` and both OneAgents say so.
    async fn until(&mut self, version: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let cells = self.cells().await;
            let agents = Api::<OneAgent>::namespaced(self.cluster.client.clone(), NAMESPACE)
                .list(&ListParams::default())
                .await
                .map_err(|e| e.to_string())?;
            self.draw(version, &cells, &agents.items);
            if version != V1 {
                for (most, tier) in self.most.iter_mut().zip(AGENTS) {
                    let without = self
                        .nodes
                        .iter()
                        .filter(|(t, name)| t == tier && !matches!(cells.get(name), Some(Cell::Runs(_))))
                        .count();
                    *most = without.max(*most);
                }
            }
            let there = self.nodes.iter().all(|(_, name)| cells.get(name) == Some(&Cell::Runs(version.to_owned())));
            let ready = agents.items.iter().filter(|agent| {
                let status = agent.status.clone().unwrap_or_default();
                status.desired_version.as_deref() == Some(version)
                    && status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
            });
            if there && ready.count() == AGENTS.len() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!(
                    "after {} s not every node runs {version}:\n{}",
                    PATIENCE.as_secs(),
                    self.cluster.kubectl(&["-n", NAMESPACE, "get", "oneagents", "-o", "yaml"])
                ));
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    async fn cells(&self) -> BTreeMap<String, Cell> {
        let pods = Api::<Pod>::namespaced(self.cluster.client.clone(), NAMESPACE)
            .list(&ListParams::default().labels("dynatrace=oneagent"))
            .await;
        let mut cells: BTreeMap<String, Cell> =
            self.nodes.iter().map(|(_, name)| (name.clone(), Cell::Missing)).collect();
        for pod in pods.map(|list| list.items).unwrap_or_default() {
            let Some(node) = pod.spec.as_ref().and_then(|s| s.node_name.clone()) else { continue };
            let cell = if pod.metadata.deletion_timestamp.is_some() {
                Cell::Going
            } else if is_ready(&pod) {
                Cell::Runs(version_of(&pod).unwrap_or_default())
            } else {
                Cell::Starting
            };
            cells.insert(node, cell);
        }
        cells
    }

    fn draw(&mut self, version: &str, cells: &BTreeMap<String, Cell>, agents: &[OneAgent]) {
        let count = |want: &Cell| cells.values().filter(|c| *c == want).count();
        let done = count(&Cell::Runs(version.to_owned()));
        let old = cells.values().filter(|c| matches!(c, Cell::Runs(v) if v != version)).count();
        let waiting: Vec<String> = agents
            .iter()
            .filter_map(|agent| {
                let rollout = agent.status.as_ref()?.rollout.as_ref()?;
                let what = rollout.waiting_on.first()?;
                Some(format!("{}: {}, waits: {what}", agent.name_any(), rollout.state))
            })
            .collect();
        let line = format!(
            "{done}/60 at {version}, {old} older, {} starting, {} going, {} without",
            count(&Cell::Starting),
            count(&Cell::Going),
            count(&Cell::Missing)
        );
        if !self.terminal {
            if line != self.last {
                println!("  {line}");
                self.last = line;
            }
            return;
        }
        let mut text = String::new();
        let mut rows = 0;
        for tier in AGENTS {
            let _ = writeln!(text, "\x1b[K  {tier}");
            rows += 1;
            let names: Vec<&String> = self.nodes.iter().filter(|(t, _)| t == tier).map(|(_, name)| name).collect();
            for row in names.chunks(16) {
                text.push_str("\x1b[K   ");
                for name in row {
                    text.push_str(match &cells[*name] {
                        Cell::Missing => " \x1b[90m·\x1b[0m",
                        Cell::Starting => " \x1b[33m◐\x1b[0m",
                        Cell::Going => " \x1b[31m○\x1b[0m",
                        Cell::Runs(v) if v == version => " \x1b[32m●\x1b[0m",
                        Cell::Runs(_) => " \x1b[34m●\x1b[0m",
                    });
                }
                text.push('\n');
                rows += 1;
            }
        }
        let _ = writeln!(
            text,
            "\x1b[K  \x1b[32m●\x1b[0m {version}  \x1b[34m●\x1b[0m older  \x1b[33m◐\x1b[0m starting  \x1b[31m○\x1b[0m \
            going  \x1b[90m·\x1b[0m none"
        );
        let _ = writeln!(text, "\x1b[K  {line}");
        rows += 2;
        for index in 0..AGENTS.len() {
            let said = waiting.get(index).map(|w| w.chars().take(110).collect::<String>()).unwrap_or_default();
            let _ = writeln!(text, "\x1b[K  {said}");
            rows += 1;
        }
        let mut out = std::io::stdout();
        if self.drawn > 0 {
            let _ = write!(out, "\x1b[{}A", self.drawn);
        }
        let _ = write!(out, "{text}");
        let _ = out.flush();
        self.drawn = rows;
    }

    /// A line that stays; the grid goes on below it.
    fn line(&mut self, text: &str) {
        self.drawn = 0;
        println!();
        say(text);
    }
}
