//! Preview: what would become of a cluster's agents, if every new one became available in its time.
//!
//! It makes the operator's own plan again and again, of a cluster that is carried out in memory. Pure: it is handed
//! what was listed, and reads and writes nothing. What only the operator knows (which versions there are, which agents
//! updated themselves) is taken from the status. Must not decide anything itself.

mod cause;
mod seen;
mod text;
mod world;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::places::WORDS;
use super::revision::Pod;
use crate::api::condition::timestamp;
use crate::rollout::{Report, State, WaitingOn};
pub use seen::Surroundings;
#[cfg(test)]
pub(super) use seen::observed;
use world::World;
#[cfg(test)]
pub(super) use world::applied;

use super::listed::Cluster;
use crate::api::oneagent::OneAgent;

/// So many looks at so many nodes at most: then the rest is not carried out.
const LOOKS: usize = 4_000_000;
/// Nobody asks what is further away.
const HORIZON: TimeDelta = TimeDelta::days(366);
/// So many looks in a row at which nothing happens: then nothing will.
const IDLE: usize = 100;
/// How long a new agent takes where none shows it.
const USUALLY: TimeDelta = TimeDelta::seconds(60);

/// What would become of the agents of one OneAgent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub namespace: String,
    pub name: String,
    /// When it begins.
    pub at: String,
    /// The version of the Pod template that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether new Pods would differ in more than the version.
    pub template_changes: bool,
    /// What must be corrected first, as the status says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_cause: Option<String>,
    /// Nodes that shall run an agent.
    pub selected: usize,
    /// Nodes that get an agent and have none, at once.
    pub gains: Vec<String>,
    /// Nodes that lose their agent, at once: outside of budget, pause and windows.
    pub loses: Vec<String>,
    /// How many agents are replaced.
    pub restarts: usize,
    /// Those that go together, in order.
    pub batches: Vec<Batch>,
    /// What is waited for at first.
    pub waiting_on: Vec<String>,
    /// Where the rollout stands in the end.
    pub state: String,
    /// When nothing is left to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// What is still waited for in the end: why nobody can say when it will finish.
    pub unknown_until: Vec<String>,
    /// After so many seconds a new agent is available.
    pub seconds_each: i64,
    /// Of so many agents that was measured; 0: assumed.
    pub measured_on: usize,
    pub notes: Vec<String>,
}

/// Agents that are replaced together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    pub at: String,
    /// Whether the others wait for these to prove themselves.
    pub canaries: bool,
    pub nodes: Vec<Restart>,
}

/// An agent that is replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    pub node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it is broken, so that nothing is lost.
    pub is_broken: bool,
}

/// What would become of the agents of a OneAgent. `agent` is it as it shall be; the cluster has it as it is, if it is
/// there.
pub fn preview(
    cluster: &Cluster,
    agent: &OneAgent,
    around: &Surroundings,
    now: DateTime<Utc>,
) -> Result<Preview, String> {
    let nodes = cluster.fleet.nodes();
    let resolved = cluster.resolved(agent, &nodes);
    let resolved = resolved.map_err(|why| format!("its spec is invalid, so nothing would be done: {why}"))?;
    let mut world = World::of(cluster, agent, resolved, around, now);
    if let Some(why) = world.is_unknown(agent) {
        return Err(why);
    }
    let (each, measured_on) = usual(&world.seen.pods);
    world.each = each;
    let mut preview = Preview {
        namespace: world.resolved.namespace.clone(),
        name: world.resolved.name.clone(),
        at: timestamp(now),
        seconds_each: each.num_seconds(),
        measured_on,
        first_cause: cause::first_cause(agent, world.resolved.versions.is_none()),
        notes: world.notes(agent),
        ..Preview::default()
    };
    let zones: BTreeMap<String, String> = world.zones();
    let looks = (LOOKS / nodes.len().max(1)).max(100);
    let (mut last, mut idle) = (Report::default(), 0);
    for look in 0..looks {
        let at = world.now;
        let done = world.step().map_err(|error| format!("the Pod template cannot be made: {error}"))?;
        if look == 0 {
            preview.from = done.from.map(|version| version.to_string());
            preview.to = done.to.map(|version| version.to_string());
            preview.template_changes = done.template_changes;
            preview.selected = done.report.selected;
            preview.waiting_on = said(&done.report);
            preview.notes.extend(done.problems.clone());
        }
        idle = if world.is_moving() || !done.restarts.is_empty() { 0 } else { idle + 1 };
        preview.gains.extend(done.gains);
        preview.loses.extend(done.loses);
        if !done.restarts.is_empty() {
            let canaries = done.report.waiting_on.iter().any(|waits| matches!(waits, WaitingOn::Canary { .. }));
            let nodes = done.restarts.into_iter().map(|(node, is_broken)| Restart {
                zone: zones.get(&node).cloned(),
                node,
                is_broken,
            });
            preview.batches.push(Batch { at: timestamp(at), canaries, nodes: nodes.collect() });
        }
        last = done.report;
        let ends_by_itself = matches!(last.state, State::Rolling | State::Waiting | State::Held);
        let is_over = !world.is_moving() && !done.changed && (!ends_by_itself || idle > IDLE);
        let Some(next) = done.next.filter(|next| !is_over && *next <= now + HORIZON) else { break };
        world.pass(next);
    }
    preview.restarts = preview.batches.iter().map(|batch| batch.nodes.len()).sum();
    preview.state = last.state.to_string();
    let is_over = last.state == State::Complete && last.outdated == last.waiting && !world.is_moving();
    preview.finish = is_over.then(|| timestamp(world.now));
    if !is_over {
        preview.unknown_until = said(&last);
    } else if last.waiting > 0 {
        preview.notes.push(format!(
            "{} agents keep what they are for as long as their nodes are left alone: {}",
            last.waiting,
            last.postponed.iter().map(|(node, why)| format!("{node} ({why})")).collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(preview)
}

/// How long an agent takes to be Ready, and of how many that is known: the median of those that never restarted.
fn usual(pods: &[std::sync::Arc<Pod>]) -> (TimeDelta, usize) {
    let steady = pods.iter().filter(|pod| pod.restarts == 0 && !pod.deleting);
    let mut times: Vec<TimeDelta> = steady.filter_map(|pod| Some(pod.ready_since? - pod.created)).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    (median.map_or(USUALLY, |median| median.max(TimeDelta::seconds(1))), times.len())
}

fn said(report: &Report) -> Vec<String> {
    report.waiting_on.iter().map(|waits| waits.said(&WORDS)).collect()
}
