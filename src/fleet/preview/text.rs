//! The preview as people read it.
//!
//! Must not add to what the preview says.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{Batch, Nouns, Preview, Restart};

/// So many batches are written out at most: the rest is summed up.
const BATCHES: usize = 12;
/// So many names of a list.
const NAMES: usize = 4;

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nouns { kind, one, many, unknown } = self.nouns;
        let from = self.from.clone();
        let to = self.to.clone().unwrap_or_else(|| unknown.to_owned());
        let what = match from {
            Some(from) if from == to => format!("{many} stay at {to}"),
            Some(from) => format!("{many} go from {from} to {to}"),
            None => format!("{many} get {to}"),
        };
        let template = if self.template_changes { ", and the Pod template changes" } else { "" };
        writeln!(f, "{kind} {}/{}: {what}{template}", self.namespace, self.name)?;
        self.differences.iter().try_for_each(|difference| writeln!(f, "  differs: {difference}"))?;
        if let Some(cause) = &self.first_cause {
            writeln!(f, "  first: {cause}")?;
        }
        let restarted = match (self.restarts, self.unknown_until.is_empty()) {
            (0, true) => format!("no {one} is replaced"),
            (0, false) => format!("no {one} is replaced as things are"),
            (1, _) => format!("1 {one} is replaced"),
            (count, _) => format!("{count} {many} are replaced, in {} batches", self.batches.len()),
        };
        let gain = if self.from.is_none() && self.to.is_none() && self.selected > 0 {
            format!("; each gets its {one} once a version is known")
        } else {
            String::new()
        };
        writeln!(f, "  {} nodes selected; {restarted}{gain}", self.selected)?;
        let named = |f: &mut fmt::Formatter<'_>, what: &str, nodes: &[String]| {
            if nodes.is_empty() { Ok(()) } else { writeln!(f, "  {} {what}, at once: {}", nodes.len(), some(nodes)) }
        };
        named(f, &format!("nodes gain {}", a(one)), &self.gains)?;
        named(f, &format!("nodes lose their {one}"), &self.loses)?;
        for waits in &self.waiting_on {
            writeln!(f, "  waits: {waits}")?;
        }
        if !self.batches.is_empty() {
            let of = many.to_uppercase();
            writeln!(f, "\n  {:<6} {:<21} {:>6}  {of} ON", "BATCH", "AT", "NODES")?;
            for (number, batch) in self.batches.iter().take(BATCHES).enumerate() {
                let canaries = if batch.canaries { " (canaries)" } else { "" };
                let nodes = folded(&batch.nodes);
                writeln!(f, "  {:<6} {:<21} {:>6}  {nodes}{canaries}", number + 1, batch.at, batch.nodes.len())?;
            }
            rest(f, self.batches.get(BATCHES..).unwrap_or_default())?;
            writeln!(f)?;
        }
        match &self.finish {
            Some(_) if self.restarts == 0 && self.gains.is_empty() => {}
            Some(finish) => writeln!(f, "  finishes at {finish}, if each new {one} is available {}", self.measure())?,
            None => {
                let why = if self.unknown_until.is_empty() {
                    "nobody knows".to_owned()
                } else {
                    self.unknown_until.join("; ")
                };
                writeln!(f, "  when it finishes is unknown until this has ended: {why}")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl Preview {
    fn measure(&self) -> String {
        let (seconds, one) = (self.seconds_each, self.nouns.one);
        if self.measured_on == 0 {
            return format!("after {seconds} s (assumed: no {one} runs that shows it)");
        }
        format!("after {seconds} s (median of {} that run) and none fails", self.measured_on)
    }
}

/// With its article.
fn a(noun: &str) -> String {
    let article = if noun.starts_with('a') { "an" } else { "a" };
    format!("{article} {noun}")
}

fn rest(f: &mut fmt::Formatter<'_>, batches: &[Batch]) -> fmt::Result {
    let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return Ok(()) };
    let nodes: usize = batches.iter().map(|batch| batch.nodes.len()).sum();
    writeln!(f, "  … and {} batches of {nodes} nodes from {} to {}", batches.len(), first.at, last.at)
}

/// Nodes by zone, where they have one.
fn folded(nodes: &[Restart]) -> String {
    let mut zones: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let broken = if node.is_broken { " (broken)" } else { "" };
        zones.entry(node.zone.as_deref().unwrap_or_default()).or_default().push(format!("{}{broken}", node.node));
    }
    let mut text = String::new();
    for (zone, nodes) in zones {
        let separator = if text.is_empty() { "" } else { "; " };
        let zone = if zone.is_empty() { String::new() } else { format!("{zone}: ") };
        let _ = write!(text, "{separator}{zone}{}", some(&nodes));
    }
    text
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES);
    let first = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
