//! How an object is, for a person: its rollout in a line, its zones, what is wrong, what helps, when it finishes.
//!
//! Must not read anything, nor judge: it is handed what the status says and how the operator's own code judges each
//! node.

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde::Serialize;

use super::object::Object;
use super::paint::{Screen, command};
use super::wording::{ended, lasting, shortened, when, words};
use crate::api::rollout::{PastRollout, WithoutAgent};
use crate::fleet::causes::{LeftOut, by_cause, left_out, without_pod};
use crate::fleet::cells::{Cell, Zone, zones};
use crate::fleet::finding::{Finding, Kind, reason, repeats};
use crate::rollout::Look;

/// So many nodes are named.
const WORST: usize = 3;
/// So wide is a bar.
pub(super) const BAR: usize = 24;

/// How an object is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    kind: &'static str,
    namespace: String,
    name: String,
    /// The state of its rollout.
    pub(super) state: String,
    /// Why a person must act, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Nodes with an available Pod as desired, of those that are selected.
    updated: i32,
    selected: i32,
    /// Nodes with an available Pod of any kind.
    available: i32,
    /// Whether the canaries have proven it; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    canaries_passed: Option<bool>,
    /// When they will have, if all of them stay available.
    #[serde(skip_serializing_if = "Option::is_none")]
    canaries_soak_until: Option<DateTime<Utc>>,
    /// Nodes that may be without an available Pod because of the rollout, and that are without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<i32>,
    out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_finish: Option<String>,
    waiting_on: Vec<String>,
    pub(super) zones: Vec<Zone>,
    /// The nodes that most need attention.
    worst: Vec<Worst>,
    /// How many nodes have no available Pod, for each cause.
    causes: Vec<(&'static str, i32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<PastRollout>,
    /// What a person must do before all that is said is believed, such as to start the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Finding>,
    /// Nodes that match and can run no Pod: how many for each cause, with some names.
    left_out: Vec<LeftOut>,
    /// The commands that let others follow the canaries, or none, while that is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    promotion: Option<[String; 2]>,
    /// The version that failed last, as long as nothing newer is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(skip)]
    is_wrong: bool,
    #[serde(skip)]
    conclusion: String,
}

/// A node that needs attention.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Worst {
    node: String,
    #[serde(skip)]
    cell: Cell,
    /// Why it has no available Pod, and since when.
    cause: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The command that helps or tells more.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Overview {
    /// As data, where no node was read.
    pub(super) fn without_nodes(&self) -> Result<serde_json::Value, String> {
        let mut data = serde_json::to_value(self).map_err(|error| error.to_string())?;
        if let Some(fields) = data.as_object_mut() {
            fields.retain(|field, _| !["out", "zones", "worst"].contains(&field.as_str()));
        }
        Ok(data)
    }

    /// Of an object, its nodes, and what there is to say of those that need attention.
    pub(super) fn of(
        object: &Object,
        looks: &[Look],
        remedy: impl Fn(&str) -> Option<String>,
        first: Option<Finding>,
    ) -> Self {
        let rollout = object.rollout();
        let counts = object.status.as_ref().and_then(|status| status.nodes.clone()).unwrap_or_default();
        let degraded = object.degraded();
        let conclusion = object.conclusion();
        // Of nodes that wait for themselves only this condition tells.
        let ready = object.condition("Ready").filter(|ready| ready.status == "False" && degraded.is_none());
        let unready = ready.map(|ready| ready.message.clone()).into_iter().collect();
        let is_out = |look: &&Look| look.cause.is_some() && Cell::of(look) != Cell::Missing;
        Self {
            kind: object.kind.name(),
            namespace: object.namespace(),
            name: object.name(),
            state: object.state(),
            reason: degraded.map(|degraded| degraded.reason.clone()),
            message: degraded.map(|degraded| degraded.message.clone()),
            from: rollout.from.clone().filter(|_| rollout.state != "Complete"),
            to: object.to().map(str::to_owned),
            updated: counts.updated,
            selected: counts.selected,
            available: counts.running,
            canaries_passed: object.canaries(),
            canaries_soak_until: object.soaks_until().filter(|_| object.canaries() == Some(false)),
            budget: rollout.budget,
            out: looks.iter().filter(is_out).count(),
            expected_finish: rollout.expected_finish.clone(),
            waiting_on: if rollout.waiting_on.is_empty() { unready } else { rollout.waiting_on.clone() },
            zones: zones(looks),
            causes: without_pod(&counts),
            worst: worst(looks, &counts.without_agent, remedy),
            last: rollout.history.first().cloned(),
            first,
            left_out: left_out(&counts),
            promotion: object.promotion(),
            failed: rollout.failure.as_ref().and_then(|failure| failure.version.clone()),
            is_wrong: conclusion.kind == Kind::Act,
            conclusion: conclusion.what,
        }
    }

    /// What a terminal shows, with as many lines of nodes as there is room for.
    pub(super) fn lines(
        &self,
        screen: Screen,
        now: DateTime<Utc>,
        (rows, chosen): (usize, Option<&str>),
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(first) = &self.first {
            lines.extend(super::paint::finding(first));
        }
        lines.push(self.head(screen, now));
        lines.extend(cells(&self.zones, screen, (rows, chosen)));
        for Worst { node, cell, cause, since, remedy } in &self.worst {
            let mark = cell.glyph(screen.is_unicode);
            let since = since.as_ref().map(|since| format!(", since {}", when(since, now))).unwrap_or_default();
            // What the message says need not be said twice.
            let is_said = self.message.as_ref().is_some_and(|message| message.contains(cause));
            let cause = if is_said { String::new() } else { format!(": {cause}") };
            lines.push(Line::styled(format!(" {mark} {node}{since}{cause}"), style(*cell)));
            lines.extend(remedy.iter().map(|remedy| command(format!("     {remedy}"))));
        }
        let without: i32 = self.causes.iter().map(|(_, nodes)| nodes).sum();
        // Those that are named have their cause beside them.
        let more = usize::try_from(without).is_ok_and(|without| without > self.worst.len());
        let by_cause = more.then(|| by_cause(&self.causes)).flatten();
        let left_out = self.left_out.iter().map(ToString::to_string);
        lines.extend(by_cause.into_iter().chain(left_out).map(|said| Line::raw(format!(" {said}"))));
        if let Some(message) = &self.message {
            let reason = self.reason.as_deref().unwrap_or_default();
            lines.push(Line::styled(format!(" {reason}: {message}"), Style::new().fg(Color::Red)));
        } else if self.is_wrong {
            lines.push(Line::styled(format!(" {}", self.conclusion), Style::new().fg(Color::Red)));
        }
        let is_part = |said: &String, text: &str| said.contains(text) || text.contains(said.as_str());
        let is_new = |text: &&String| {
            let is_said = |said: &String| is_part(said, text) || repeats(text, said);
            !self.message.iter().chain(self.worst.iter().map(|worst| &worst.cause)).any(is_said)
        };
        lines.extend(self.waiting_on.iter().take(2).filter(is_new).map(|waits| Line::raw(format!(" waits: {waits}"))));
        lines.extend(self.promotion.iter().flatten().map(|line| command(format!("     {line}"))));
        if let Some(last) = self.last.as_ref().filter(|_| self.state == "Complete") {
            lines.push(Line::styled(format!(" last: {}", ended(last, now)), Style::new().add_modifier(Modifier::DIM)));
        }
        lines
    }

    /// The names of all nodes, in the order in which they are shown.
    pub(super) fn nodes(&self) -> Vec<std::sync::Arc<str>> {
        self.zones.iter().flat_map(|zone| &zone.cells).map(|(name, _)| name.clone()).collect()
    }

    /// The names of the nodes that most need attention.
    #[cfg(test)]
    pub(super) fn worst(&self) -> impl Iterator<Item = &str> {
        self.worst.iter().map(|worst| worst.node.as_str())
    }

    /// Name, versions, state, canaries, budget and finish.
    fn head(&self, screen: Screen, now: DateTime<Utc>) -> Line<'static> {
        let arrow = if screen.is_unicode { "→" } else { "->" };
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        let (from, to) = shortened(from.filter(|from| Some(*from) != to), to);
        let versions = match (from, to) {
            (Some(from), Some(to)) => format!("{from} {arrow} {to}"),
            (None, Some(to)) => to,
            (_, None) => "no version yet".to_owned(),
        };
        let colour = match self.state.as_str() {
            _ if self.is_wrong => Color::Red,
            "Complete" => Color::Green,
            _ => Color::Yellow,
        };
        let mut spans = vec![Span::styled(self.name.clone(), Style::new().add_modifier(Modifier::BOLD))];
        let (state, counts) = (words(&self.state), format!("{}/{}", self.updated, self.selected));
        let is_over = matches!(self.state.as_str(), "Failed" | "RolledBack");
        let failed = self.failed.as_deref().filter(|failed| is_over && Some(*failed) != self.to.as_deref());
        if let Some(failed) = shortened(failed, self.to.as_deref()).0 {
            // The nodes are counted of another version than the one that the state is about.
            spans.push(Span::styled(format!("  {failed} {state}"), Style::new().fg(colour)));
            spans.push(Span::raw(format!("  {versions} {counts}")));
        } else {
            spans.push(Span::raw(format!("  {versions}  ")));
            spans.push(Span::styled(format!("{state} {counts}"), Style::new().fg(colour)));
        }
        // With the verdict they are forgotten.
        let is_proving = !matches!(self.state.as_str(), "Complete" | "Failed" | "RolledBack");
        if let Some(passed) = self.canaries_passed.filter(|_| is_proving) {
            let marks = if screen.is_unicode { ["…", "✔"] } else { ["...", "passed"] };
            let rest = self.canaries_soak_until.map(|until| until - now).filter(|rest| *rest > TimeDelta::zero());
            let rest = rest.map(|rest| format!(" {} left", lasting(rest))).unwrap_or_default();
            spans.push(Span::raw(format!("  canary {}{rest}", marks[usize::from(passed)])));
        }
        if let Some(budget) = self.budget.filter(|_| self.state == "Rolling") {
            spans.push(Span::raw(format!("  {} of {budget} out", self.out)));
        }
        if self.available != self.updated {
            spans.push(Span::raw(format!("  {} available", self.available)));
        }
        if let Some(finish) = &self.expected_finish {
            spans.push(Span::raw(format!("  done ~{}", when(finish, now))));
        }
        Line::from(spans)
    }
}

/// Zones with a glyph for each node; with bars, where those do not fit.
fn cells(zones: &[Zone], screen: Screen, (rows, chosen): (usize, Option<&str>)) -> Vec<Line<'static>> {
    let label = zones.iter().map(|zone| zone.name.chars().count()).max().unwrap_or(0);
    let room = usize::from(screen.width).saturating_sub(label + 14).max(10);
    let needed: usize = zones.iter().map(|zone| zone.nodes.div_ceil(room)).sum();
    if needed > rows {
        return zones.iter().map(|zone| bar(zone, label, screen)).collect();
    }
    let mut lines = Vec::new();
    for zone in zones {
        for (part, chunk) in zone.cells.chunks(room).enumerate() {
            let name = if part == 0 { zone.name.as_str() } else { "" };
            let mut spans = vec![Span::raw(format!(" {name:label$} "))];
            for (node, cell) in chunk {
                let glyph = cell.glyph(screen.is_unicode);
                let marked = chosen.is_some_and(|chosen| chosen == &**node);
                let style = if marked { style(*cell).add_modifier(Modifier::REVERSED) } else { style(*cell) };
                match spans.last_mut().filter(|last| last.style == style) {
                    Some(last) => last.content.to_mut().push(glyph),
                    None => spans.push(Span::styled(glyph.to_string(), style)),
                }
            }
            if (part + 1) * room >= zone.nodes {
                spans.push(Span::raw(format!(" {}/{}", zone.new, zone.nodes)));
            }
            lines.push(Line::from(spans));
        }
    }
    lines
}

/// A zone in one line: how much of it is new, and what the others are.
fn bar(zone: &Zone, label: usize, screen: Screen) -> Line<'static> {
    let filled = zone.new * BAR / zone.nodes.max(1);
    let (full, empty) = if screen.is_unicode { ("█", "░") } else { ("#", ".") };
    let mut text = String::new();
    for (cell, count) in &zone.others {
        let _ = write!(text, ", {count} {cell}");
    }
    Line::from(vec![
        Span::raw(format!(" {:label$} ", zone.name)),
        Span::styled(full.repeat(filled), style(Cell::New)),
        Span::raw(empty.repeat(BAR - filled)),
        Span::raw(format!(" {}/{}{text}", zone.new, zone.nodes)),
    ])
}

/// The colour of a cell; its glyph tells it, too.
pub(super) fn style(cell: Cell) -> Style {
    let style = Style::new();
    match cell {
        Cell::New => style.fg(Color::Green),
        Cell::Proving | Cell::Starting => style.fg(Color::Yellow),
        Cell::Old => style.fg(Color::Blue),
        Cell::Failing => style.fg(Color::Red),
        Cell::Missing => style.add_modifier(Modifier::DIM),
    }
}

/// The nodes that most need attention: those that fail first, then those without a Pod; by name.
fn worst(looks: &[Look], known: &[WithoutAgent], remedy: impl Fn(&str) -> Option<String>) -> Vec<Worst> {
    let of = looks.iter().map(|look| (Cell::of(look), look));
    let mut found: Vec<(Cell, &Look)> = of.filter(|(cell, _)| matches!(cell, Cell::Failing | Cell::Missing)).collect();
    found.sort_unstable_by_key(|(cell, look)| (*cell == Cell::Missing, &look.name));
    let worst = |(cell, look): (Cell, &Look)| {
        let known = known.iter().find(|known| *known.node == *look.name);
        Some(Worst {
            node: look.name.to_string(),
            cell,
            cause: reason(look.cause.as_ref()?, known),
            since: known.and_then(|known| known.since.clone()),
            remedy: remedy(&look.name),
        })
    };
    found.into_iter().filter_map(worst).take(WORST).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::managed::Managed;
    use super::*;

    #[test]
    fn canaries_have_a_clock_while_they_soak() {
        let proof = json!({ "since": "2026-01-01T00:00:00Z", "passed": false });
        let whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "a", "namespace": "n" }, "spec": { "rollout": { "canary": { "soak": "30m" } } },
            "status": { "rollout": { "state": "Rolling", "memory": { "rollout": { "proof": proof } } } } });
        let object = Object::of(Managed::Oneagent, serde_json::from_value(whole).unwrap());
        let overview = Overview::of(&object, &[], |_| None, None);
        let screen = Screen { is_unicode: true, ..Screen::of(clap::ColorChoice::Never) };
        let head = |at: &str| overview.head(screen, at.parse().unwrap()).to_string();
        assert!(head("2026-01-01T00:10:00Z").contains("  canary … 20 min left"), "{}", head("2026-01-01T00:10:00Z"));
        assert!(!head("2026-01-01T00:30:00Z").contains("left"), "it waits for a person, or for the next look");
    }
}
