//! The fleet, as the API server has it, on a terminal or as lines in a pipe.
//!
//! Must not decide when a demo is over, except what it is told to wait for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use olm_tests::cluster::Cluster;
use olm_tests::lab::{V1, is_ready, version_of};
use oneagent_operator::api::oneagent::OneAgent;

use super::{AGENTS, NAMESPACE, PATIENCE, say};

/// One node, as the API server has it.
#[derive(Clone, PartialEq, Eq)]
pub enum Cell {
    Missing,
    Starting,
    Crashes,
    Going,
    Runs(String),
}

/// The fleet on a terminal, or a line per change in a pipe.
pub struct Screen<'a> {
    cluster: &'a Cluster,
    nodes: Vec<(String, String)>,
    terminal: bool,
    drawn: usize,
    last: String,
    /// Most nodes without a Ready agent at once during a rollout, by OneAgent.
    pub most: [usize; 2],
    /// What was seen, for a picture: a caption, and the nodes of each OneAgent.
    pub kept: Vec<(String, Vec<Vec<Cell>>)>,
}

impl<'a> Screen<'a> {
    pub async fn new(cluster: &'a Cluster) -> Self {
        let list = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.unwrap();
        let mut nodes: Vec<(String, String)> =
            list.items.iter().filter_map(|n| Some((n.labels().get("tier")?.clone(), n.name_any()))).collect();
        nodes.sort_by_key(|(tier, name)| (tier != AGENTS[0], name.clone()));
        Self {
            cluster,
            nodes,
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            last: String::new(),
            most: [0, 0],
            kept: Vec::new(),
        }
    }

    /// Draws until every node runs `version` and both OneAgents say so.
    pub async fn until(&mut self, version: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (cells, agents) = self.look(version).await?;
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
            let ready = agents.iter().filter(|agent| {
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

    /// Draws until both OneAgents have stopped a rollout.
    pub async fn until_stopped(&mut self, version: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (_, agents) = self.look(version).await?;
            let is_stopped = |agent: &&OneAgent| {
                let conditions = agent.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|c| c.type_ == "Degraded" && c.reason == "RolloutFailed")
            };
            if agents.iter().filter(is_stopped).count() == AGENTS.len() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("after {} s {version} is not stopped", PATIENCE.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Draws what is there, and returns it.
    async fn look(&mut self, version: &str) -> Result<(BTreeMap<String, Cell>, Vec<OneAgent>), String> {
        let cells = self.cells().await;
        let agents = Api::<OneAgent>::namespaced(self.cluster.client.clone(), NAMESPACE);
        let agents = agents.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        self.draw(version, &cells, &agents);
        Ok((cells, agents))
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods = Api::<Pod>::namespaced(self.cluster.client.clone(), NAMESPACE);
        let pods = pods.list(&ListParams::default().labels("dynatrace=oneagent")).await;
        pods.map(|list| list.items).unwrap_or_default()
    }

    /// How many nodes have a Pod of a version.
    pub async fn at(&self, version: &str) -> usize {
        self.pods().await.iter().filter(|pod| version_of(pod).as_deref() == Some(version)).count()
    }

    /// Keeps what is seen now.
    pub async fn keep(&mut self, caption: &str) {
        let cells = self.cells().await;
        let of = |tier: &&str| {
            let names = self.nodes.iter().filter(|(of, _)| of == tier).map(|(_, name)| name);
            names.map(|name| cells[name].clone()).collect()
        };
        self.kept.push((caption.to_owned(), AGENTS.iter().map(of).collect()));
    }

    async fn cells(&self) -> BTreeMap<String, Cell> {
        let mut cells: BTreeMap<String, Cell> =
            self.nodes.iter().map(|(_, name)| (name.clone(), Cell::Missing)).collect();
        for pod in self.pods().await {
            let Some(node) = pod.spec.as_ref().and_then(|s| s.node_name.clone()) else { continue };
            let cell = if pod.metadata.deletion_timestamp.is_some() {
                Cell::Going
            } else if is_ready(&pod) {
                Cell::Runs(version_of(&pod).unwrap_or_default())
            } else if crashes(&pod) {
                Cell::Crashes
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
            "{done}/60 at {version}, {old} older, {} starting, {} crashing, {} going, {} without",
            count(&Cell::Starting),
            count(&Cell::Crashes),
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
                        Cell::Crashes => " \x1b[31m✖\x1b[0m",
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
            "\x1b[K  \x1b[32m●\x1b[0m {version}  \x1b[34m●\x1b[0m older  \x1b[33m◐\x1b[0m starting  \x1b[31m✖\x1b[0m \
            crashing  \x1b[31m○\x1b[0m going  \x1b[90m·\x1b[0m none"
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

    /// A line that stays; the grid continues below it.
    pub fn line(&mut self, text: &str) {
        self.drawn = 0;
        println!();
        say(text);
    }
}

/// Whether its container waits to be started again.
fn crashes(pod: &Pod) -> bool {
    let containers = pod.status.iter().filter_map(|status| status.container_statuses.as_ref()).flatten();
    containers
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
        .any(|why| why == "CrashLoopBackOff")
}
