//! Preview: what would become of a cluster's Pods, if every new one became available in its time.
//!
//! It makes a kind's own plan again and again, of a cluster that is carried out in memory. Pure: it is handed what was
//! listed, and reads and writes nothing. Must not decide anything itself.

mod scene;
mod text;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::daemonsets::ZONE;
use super::finding::pairs;
use crate::api::condition::timestamp;
use crate::k8s::node::Node;
use crate::rollout::{Report, State, WaitingOn, Words};
pub use scene::{Carried, Scene};

/// So many looks at so many nodes at most: then the rest is not carried out.
const LOOKS: usize = 4_000_000;
/// Later times are not asked for.
const HORIZON: TimeDelta = TimeDelta::days(366);
/// So many looks in a row at which nothing happens: then nothing will.
const IDLE: usize = 100;

/// What a kind's previews are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nouns {
    /// The kind of the object.
    pub kind: &'static str,
    /// One of its Pods.
    pub one: &'static str,
    pub many: &'static str,
    /// What is missing where the new one is unknown.
    pub unknown: &'static str,
}

/// What would become of the Pods of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    #[serde(skip)]
    pub nouns: Nouns,
    pub namespace: String,
    pub name: String,
    /// When it begins.
    pub at: String,
    /// What the Pod template that is there makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether new Pods would differ in more than the version.
    pub template_changes: bool,
    /// What differs in the Pod template of a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What must be corrected first, as the status says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_cause: Option<String>,
    /// Nodes that should run a Pod.
    pub selected: usize,
    /// Nodes that get a Pod and have none, at once.
    pub gains: Vec<String>,
    /// Nodes that lose their Pod, at once: outside of budget, pause and windows.
    pub loses: Vec<String>,
    /// How many Pods are replaced.
    pub restarts: usize,
    /// Those that go together, in order.
    pub batches: Vec<Batch>,
    /// What is waited for at first.
    pub waiting_on: Vec<String>,
    /// The state of the rollout in the end.
    pub state: String,
    /// When nothing is left to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// What is still waited for in the end: why its finish is unknown.
    pub unknown_until: Vec<String>,
    /// After so many seconds a new Pod is available.
    pub seconds_each: i64,
    /// Of so many Pods that was measured; 0: assumed.
    pub measured_on: usize,
    pub notes: Vec<String>,
}

impl Preview {
    /// One of an object, of which nothing is foreseen yet.
    #[must_use]
    pub fn of(nouns: Nouns, (namespace, name): (&str, &str), now: DateTime<Utc>) -> Self {
        Self { nouns, namespace: namespace.to_owned(), name: name.to_owned(), at: timestamp(now), ..Self::default() }
    }
}

/// Pods that are replaced together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    pub at: String,
    /// Whether the others wait for these to prove themselves.
    pub canaries: bool,
    pub nodes: Vec<Restart>,
}

/// A Pod that is replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    pub node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it is broken, so that nothing is lost.
    pub is_broken: bool,
}

/// A cluster in memory, in which a kind's plan is carried out.
pub trait World {
    /// What is waited for, in the kind's words.
    const WORDS: Words;

    /// The time there, and the Pods that come.
    fn scene(&self) -> &Scene;

    /// Lets time pass.
    fn pass(&mut self, until: DateTime<Utc>);

    /// Makes the plan, and carries it out; or why it cannot be made.
    fn step(&mut self) -> Result<Done, String>;
}

/// What a look led to.
#[derive(Debug, Default)]
pub struct Done {
    pub from: Option<String>,
    pub to: Option<String>,
    pub template_changes: bool,
    /// Whether another template is there now.
    pub changed: bool,
    pub gains: Vec<String>,
    pub loses: Vec<String>,
    /// Nodes, and whether the Pod was broken.
    pub restarts: Vec<(String, bool)>,
    pub problems: Vec<String>,
    pub report: Report,
    /// When something happens next.
    pub next: Option<DateTime<Utc>>,
}

/// Carries out what the plan of a world says, until nothing is left to do, and adds that to what is known.
pub fn foresee<'n, W: World>(
    world: &mut W,
    mut preview: Preview,
    nodes: impl ExactSizeIterator<Item = &'n Node>,
) -> Result<Preview, String> {
    let began = world.scene().now;
    let looks = (LOOKS / nodes.len().max(1)).max(100);
    let zone = |node: &'n Node| Some((&*node.name, node.labels.get(ZONE)?.clone()));
    let zones: BTreeMap<&str, String> = nodes.filter_map(zone).collect();
    let said = |report: &Report| report.waiting_on.iter().map(|waits| waits.said(&W::WORDS)).collect::<Vec<_>>();
    let (mut last, mut idle, mut is_template_seen) = (Report::default(), 0, false);
    for look in 0..looks {
        let at = world.scene().now;
        let done = world.step()?;
        if look == 0 {
            (preview.from, preview.to) = (done.from, done.to);
            preview.template_changes |= done.template_changes;
            preview.selected = done.report.selected;
            preview.notes.extend(done.problems.clone());
        }
        // What it waits for on the way there says nothing of the fleet.
        if !is_template_seen {
            is_template_seen = !done.report.waiting_on.iter().any(|waits| matches!(waits, WaitingOn::Template));
            preview.waiting_on = if is_template_seen { said(&done.report) } else { Vec::new() };
        }
        idle = if world.scene().is_moving() || !done.restarts.is_empty() { 0 } else { idle + 1 };
        preview.gains.extend(done.gains);
        preview.loses.extend(done.loses);
        if !done.restarts.is_empty() {
            let canaries = done.report.waiting_on.iter().any(|waits| matches!(waits, WaitingOn::Canary { .. }));
            let nodes = done.restarts.into_iter().map(|(node, is_broken)| Restart {
                zone: zones.get(&*node).cloned(),
                node,
                is_broken,
            });
            preview.batches.push(Batch { at: timestamp(at), canaries, nodes: nodes.collect() });
        }
        last = done.report;
        let ends_by_itself = matches!(last.state, State::Rolling | State::Waiting | State::Held);
        let is_over = !world.scene().is_moving() && !done.changed && (!ends_by_itself || idle > IDLE);
        let Some(next) = done.next.filter(|next| !is_over && *next <= began + HORIZON) else { break };
        world.pass(next);
    }
    preview.restarts = preview.batches.iter().map(|batch| batch.nodes.len()).sum();
    preview.state = last.state.to_string();
    let is_over = last.state == State::Complete && last.outdated == last.waiting && !world.scene().is_moving();
    preview.finish = is_over.then(|| timestamp(world.scene().now));
    if !is_over {
        preview.unknown_until = said(&last);
    } else if last.waiting > 0 {
        preview.notes.push(format!(
            "{} {} keep what they are for as long as their nodes are left alone: {}",
            last.waiting,
            preview.nouns.many,
            pairs(&last.postponed)
        ));
    }
    Ok(preview)
}
