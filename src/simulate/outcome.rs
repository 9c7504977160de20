//! What came of a scenario, in numbers.
//!
//! Must not decide what is good.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use kube::ResourceExt;
use serde::Serialize;

use crate::api::condition::timestamp;
use crate::fleet::cells::Cell;
use crate::oneagent::rehearsal::{Act, Operator, Own, Record};
use crate::sim::{Script, Span};

/// What came of a scenario.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub about: String,
    pub seed: u64,
    pub begins: String,
    pub one_agents: Vec<AgentOutcome>,
}

/// What came of a OneAgent. Times are seconds since the beginning.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentOutcome {
    pub name: String,
    /// Nodes that it ever had.
    pub nodes: usize,
    pub zones: usize,
    /// The version that is desired in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The state of its rollout in the end.
    pub state: String,
    /// Why it was stopped, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What the operator still waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<String>,
    pub rejected: Vec<String>,
    /// When the last version was published or the spec was edited last.
    pub began: i64,
    /// When the rollout was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<i64>,
    /// Agents that were replaced together.
    pub batches: Vec<Batch>,
    pub without: Without,
    /// The nodes that got a version which does not stay Ready, by version.
    pub bad: BTreeMap<String, Vec<String>>,
    /// Events, in order.
    pub events: Vec<String>,
    pub expected: Vec<Checked>,
}

/// Something that was expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub holds: bool,
    /// What was expected, and what came of it.
    pub said: String,
}

/// Agents that were replaced together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Batch {
    pub at: i64,
    pub nodes: Vec<String>,
}

/// Nodes that had an agent and were without one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Without {
    /// At one time.
    pub most: usize,
    /// For how many seconds, in the median of all times that a node was.
    pub median_seconds: i64,
    pub longest_seconds: i64,
    /// In the end.
    pub still: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_on: Option<String>,
}

impl Outcome {
    /// Of a script that has happened.
    pub(super) fn of(script: &Script<Act>, seed: u64, operator: &Operator) -> Self {
        let end = (operator.world().now - script.begins).num_seconds();
        let mut one_agents = Vec::new();
        for (agent, record) in operator.outcomes() {
            let status = agent.status.clone().unwrap_or_default();
            let head = record.heads.last().map(|(_, head)| head.clone()).unwrap_or_default();
            let began = began(script, &agent.name_any());
            let zones: BTreeSet<_> = record.nodes.iter().map(|(_, zone)| zone).collect();
            one_agents.push(AgentOutcome {
                name: agent.name_any(),
                nodes: record.nodes.len(),
                zones: zones.len(),
                finished: finished(record, began),
                to: head.to,
                state: if head.state.is_empty() { "Unknown".to_owned() } else { head.state },
                verdict: head.failure,
                waiting_on: head.waiting_on,
                rejected: status.rejected_versions,
                began,
                batches: batches(record),
                without: without(record, end),
                bad: record
                    .bad
                    .iter()
                    .map(|(version, nodes)| (version.clone(), nodes.iter().cloned().collect()))
                    .collect(),
                events: record.told.iter().map(|told| event(told.at, &told.what.reason, &told.what.message)).collect(),
                expected: Vec::new(),
            });
        }
        Self { about: script.about.clone(), seed, begins: timestamp(script.begins), one_agents }
    }

    /// Whether all is as expected.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.one_agents.iter().flat_map(|agent| &agent.expected).all(|checked| checked.holds)
    }
}

impl AgentOutcome {
    /// How long the last rollout took, if it is complete.
    #[must_use]
    pub fn took(&self) -> Option<Span> {
        self.finished.map(|finished| Span::seconds(finished - self.began))
    }
}

/// An Event, as a line.
fn event(at: i64, reason: &str, message: &str) -> String {
    format!("{} {reason}: {message}", Span::seconds(at))
}

/// When the last version was published to a OneAgent, or its spec was edited last.
fn began(script: &Script<Act>, name: &str) -> i64 {
    let is_it = |act: &Act| match act {
        Act::Own(Own::Publish(_) | Own::Edit(_)) => true,
        Act::Own(Own::PublishTo(all)) => all.contains_key(name),
        Act::Own(Own::EditOf(all)) => all.contains_key(name),
        _ => false,
    };
    let last = script.timeline.iter().rev().find(|entry| is_it(&entry.act));
    last.map_or(TimeDelta::zero(), |entry| entry.at.0).num_seconds()
}

/// Since when the rollout is complete, if it is.
fn finished(record: &Record, began: i64) -> Option<i64> {
    let complete = record.heads.iter().rev().take_while(|(_, head)| head.state == "Complete");
    complete.last().map(|(at, _)| (*at).max(began))
}

fn batches(record: &Record) -> Vec<Batch> {
    let mut all: Vec<Batch> = Vec::new();
    for step in &record.steps {
        match all.last_mut() {
            Some(last) if last.at == step.at => last.nodes.push(step.node.clone()),
            _ => all.push(Batch { at: step.at, nodes: vec![step.node.clone()] }),
        }
    }
    all
}

/// How many nodes were without an agent at once, and for how long each.
fn without(record: &Record, end: i64) -> Without {
    let mut had = vec![false; record.nodes.len()];
    let mut since: Vec<Option<i64>> = vec![None; record.nodes.len()];
    let (mut now, mut found) = (0_usize, Without::default());
    let mut times: Vec<(i64, usize)> = Vec::new();
    for frame in &record.frames {
        for (number, cell) in &frame.cells {
            let has = matches!(cell, Some(Cell::New | Cell::Old | Cell::Proving));
            had[*number] |= has;
            let is_without = cell.is_some() && !has && had[*number];
            match (since[*number], is_without) {
                (None, true) => {
                    since[*number] = Some(frame.at);
                    now += 1;
                }
                (Some(from), false) => {
                    times.push((frame.at - from, *number));
                    since[*number] = None;
                    now -= 1;
                }
                _ => {}
            }
        }
        found.most = found.most.max(now);
    }
    found.still = now;
    times.extend(since.iter().enumerate().filter_map(|(number, from)| Some((end - (*from)?, number))));
    times.sort_unstable();
    if let Some((longest, number)) = times.last() {
        found.longest_seconds = *longest;
        found.longest_on = Some(record.nodes[*number].0.to_string());
        found.median_seconds = times[times.len() / 2].0;
    }
    found
}
