//! `simulate`: what a policy does to a fleet in memory. Needs no cluster, but with --live.
//!
//! Must not decide anything: that is the operator's own code.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::{ACT, Cx, Output, WELL};
use crate::api::oneagent::OneAgent;
use crate::cli::read::{Edited, Reader, objects, of_kind};
use crate::oneagent::MANAGER;
use crate::page;
use crate::sim::{Span, Times};
use crate::simulate::{Flags, Outcome, Quantiles, Scenario, chart, picture, runs, simulate};

/// Arguments of `simulate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It runs the operator's own decisions on a fleet in memory with a virtual clock. The same seed \
        gives the same report.\nTimes rest on the times to Ready that you give: nothing here measures how long your \
        image takes to pull.\nExit code: 0 when all is as expected, or nothing is expected; 1 when something is not; 2 \
        when there is no answer."
)]
pub(super) struct Args {
    /// Scenario file, or - for standard input. Default: the fleet of --nodes and --zones.
    scenario: Option<PathBuf>,
    /// File with the OneAgents to simulate. Default: those of the scenario, or one with the default policy.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// How many nodes there are.
    #[arg(long, default_value_t = 60, conflicts_with = "scenario")]
    nodes: usize,
    /// How many zones they are in, 1 to 26.
    #[arg(long, default_value_t = 3, conflicts_with = "scenario")]
    zones: usize,
    /// How long a new agent takes to become Ready, such as 90s.
    #[arg(long, default_value = "60s", value_parser = span, conflicts_with = "scenario")]
    ready: Span,
    /// Publish a version that crashes.
    #[arg(long, conflicts_with = "scenario")]
    crashes: bool,
    /// Use the nodes and OneAgents of the cluster. It reads them once and writes nothing.
    #[arg(long, conflicts_with_all = ["scenario", "nodes", "zones"])]
    live: bool,
    /// When it begins, such as 2026-12-19T00:00:00Z. Default: that of the scenario, or a Monday.
    #[arg(long, value_name = "TIME")]
    at: Option<DateTime<Utc>>,
    /// Seed of everything that is left to chance. Default: that of the scenario, or 1.
    #[arg(long)]
    seed: Option<u64>,
    /// Run it so often, with as many seeds, and print quantiles.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: Option<u64>,
    /// Write a page with a time slider to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    html: Option<PathBuf>,
}

fn span(text: &str) -> Result<Span, String> {
    Span::try_from(text.to_owned())
}

pub(super) async fn run(cx: &Cx, args: &Args) -> Result<u8, String> {
    let scenario = scenario(cx, args).await?;
    if let Some(count) = args.runs {
        let quantiles = runs(&scenario, count)?;
        if cx.flags.output == Output::Svg {
            return Err("--runs gives quantiles: use -o text, json or yaml".to_owned());
        }
        if !cx.data(&quantiles)? {
            let text: Vec<String> = quantiles.iter().map(Quantiles::to_string).collect();
            crate::cli::put(format_args!("{}", text.join("\n")));
        }
        return Ok(if quantiles.iter().all(|one| one.broken == 0) { WELL } else { ACT });
    }
    let (outcome, operator) = simulate(&scenario, scenario.seed)?;
    if let Some(file) = &args.html {
        let page = page::document(&picture(&outcome, &operator)).map_err(|error| error.to_string())?;
        save(file, &page)?;
    }
    if cx.flags.output == Output::Svg {
        let records = operator.outcomes().map(|(_, record)| record);
        let all: Vec<_> = outcome.one_agents.iter().zip(records).collect();
        crate::cli::put(format_args!("{}", chart(&all)));
    } else if !cx.data(&outcome)? {
        crate::cli::put(format_args!("{outcome}"));
    }
    Ok(if Outcome::holds(&outcome) { WELL } else { ACT })
}

#[expect(clippy::disallowed_methods, reason = "the command line")]
fn save(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// What is asked for: a file, a cluster, or a few words.
async fn scenario(cx: &Cx, args: &Args) -> Result<Scenario, String> {
    let mut scenario = match &args.scenario {
        Some(file) => {
            let shown = file.display();
            let mut found = objects(file)?;
            if found.len() != 1 {
                return Err(format!("{shown} holds {} documents; a scenario is one", found.len()));
            }
            Scenario::read(found.swap_remove(0)).map_err(|why| format!("{shown}: {why}"))?
        }
        None => Scenario::of(Flags {
            nodes: args.nodes,
            zones: args.zones,
            ready: Times::Always(args.ready),
            crashes: args.crashes,
            begins: args.at,
        })?,
    };
    if args.live {
        live(cx, &mut scenario).await?;
    }
    if let Some(file) = &args.file {
        scenario.script.objects = agents(&file.display().to_string(), objects(file)?)?;
    } else if !scenario.script.objects.is_empty() {
        let shown = args.scenario.as_ref().map_or("the cluster".to_owned(), |file| file.display().to_string());
        scenario.script.objects = agents(&shown, scenario.script.objects)?;
    }
    scenario.script.begins = args.at.unwrap_or(scenario.script.begins);
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

/// The OneAgents among objects, as the API server would take them.
fn agents(shown: &str, objects: Vec<Value>) -> Result<Vec<Value>, String> {
    let kinds: Vec<String> = objects.iter().filter_map(|one| one["kind"].as_str().map(str::to_owned)).collect();
    let (agents, _) = of_kind::<OneAgent>(Edited { shown: shown.to_owned(), objects })?;
    if agents.is_empty() {
        let holds = if kinds.is_empty() { String::new() } else { format!(", but {}", kinds.join(", ")) };
        return Err(format!("{shown} holds no OneAgent{holds}"));
    }
    agents.iter().map(|agent| serde_json::to_value(agent).map_err(|error| error.to_string())).collect()
}

/// Puts the nodes and the OneAgents of the cluster in the place of those of a scenario.
async fn live(cx: &Cx, scenario: &mut Scenario) -> Result<(), String> {
    let reached = cx.reach().await?;
    let reader = Reader::of(&reached, MANAGER);
    let namespace = cx.namespace(&reached);
    let agents = reader.within::<OneAgent>(namespace.as_deref(), "oneagents", "").await?;
    if agents.is_empty() {
        return Err("the cluster has no OneAgent there: name another namespace with -n, or a file with -f".to_owned());
    }
    let read = |object: Result<Value, serde_json::Error>| object.map_err(|error| error.to_string());
    scenario.script.objects = agents.iter().map(|agent| read(serde_json::to_value(agent))).collect::<Result<_, _>>()?;
    let ready = scenario.script.pools.first().map_or_else(Times::usual, |pool| pool.time_to_ready);
    let nodes = reader.all::<Node>("nodes").await?;
    scenario.script.pools = vec![
        serde_json::from_value(json!({ "name": "live", "count": 0, "timeToReady": ready }))
            .map_err(|error| error.to_string())?,
    ];
    scenario.script.members = nodes.iter().map(|node| read(serde_json::to_value(node))).collect::<Result<_, _>>()?;
    Ok(())
}
