//! What came of a scenario, as people read it.
//!
//! Must not add to what came of it.

use std::fmt::{self, Display, Formatter};

use super::outcome::{AgentOutcome, Batch, Outcome, Without};
use super::runs::{Quantiles, Spread};
use crate::sim::Span;

/// So many batches are written out; the rest is summed up.
const BATCHES: usize = 12;
/// So many nodes of a list are named.
const NAMES: usize = 4;

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.about.is_empty() {
            writeln!(f, "{}", self.about)?;
        }
        writeln!(f, "simulated from {} with seed {}", self.begins, self.seed)?;
        self.one_agents.iter().try_for_each(|agent| write!(f, "\n{agent}"))
    }
}

impl Display for AgentOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let to = self.to.as_deref().unwrap_or("no version");
        let zones = if self.zones == 1 { "1 zone".to_owned() } else { format!("{} zones", self.zones) };
        writeln!(f, "OneAgent {}, {} in {zones}, {to}: {}", self.name, nodes(self.nodes), self.state)?;
        if self.nodes == 0 {
            return writeln!(f, "  it selects no node of the scenario: look at its node selector and tolerations");
        }
        if let Some(verdict) = &self.verdict {
            writeln!(f, "  {verdict}")?;
        }
        let began = Span::seconds(self.began);
        match self.took() {
            Some(took) => writeln!(f, "  complete {took} after {began}, when the last version or edit came")?,
            None => writeln!(f, "  not complete; the last version or edit came after {began}")?,
        }
        if let Some(waits) = self.waiting_on.as_ref().filter(|_| self.finished.is_none() && self.verdict.is_none()) {
            writeln!(f, "  waits: {waits}")?;
        }
        let of_rollout: Vec<&Batch> = self.batches.iter().filter(|batch| batch.at >= self.began).collect();
        if !of_rollout.is_empty() {
            writeln!(f, "\n  {:<12} {:>6}  AGENTS REPLACED ON", "AFTER", "NODES")?;
            for batch in of_rollout.iter().take(BATCHES) {
                let after = Span::seconds(batch.at - self.began).to_string();
                writeln!(f, "  {after:<12} {:>6}  {}", batch.nodes.len(), some(&batch.nodes))?;
            }
            if let (Some(first), Some(last)) = (of_rollout.get(BATCHES), of_rollout.last()) {
                let count: usize = of_rollout[BATCHES..].iter().map(|batch| batch.nodes.len()).sum();
                let [from, to] = [first, last].map(|batch| Span::seconds(batch.at - self.began));
                writeln!(f, "  {from:<12} {count:>6}  in {} more steps, until {to}", of_rollout.len() - BATCHES)?;
            }
            writeln!(f)?;
        }
        let Without { most, median_seconds, longest_seconds, longest_on, still } = &self.without;
        match longest_on {
            None => writeln!(f, "  no node lost its agent")?,
            Some(_) if *still > 0 => {
                writeln!(
                    f,
                    "  without an agent: at most {most} of {} at once, {still} of them in the end",
                    nodes(self.nodes)
                )?;
            }
            Some(node) => writeln!(
                f,
                "  without an agent: at most {most} of {} at once, for {} in the median, {} at most ({node})",
                nodes(self.nodes),
                Span::seconds(*median_seconds),
                Span::seconds(*longest_seconds)
            )?,
        }
        for (version, reached) in &self.bad {
            writeln!(f, "  {version} does not stay Ready; {} got it: {}", nodes(reached.len()), some(reached))?;
        }
        for checked in &self.expected {
            let mark = if checked.holds { "as expected" } else { "NOT AS EXPECTED" };
            writeln!(f, "  {mark}: {}", checked.said)?;
        }
        Ok(())
    }
}

impl Display for Quantiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let states: Vec<String> = self.states.iter().map(|(state, count)| format!("{state} {count}")).collect();
        writeln!(f, "OneAgent {}, {} runs: {}", self.name, self.runs, states.join(", "))?;
        writeln!(f, "  {:<26} {:>12} {:>12} {:>12} {:>12}", "", "5 %", "50 %", "95 %", "MOST")?;
        if let Some(took) = self.took {
            let [p5, p50, p95, max] = took.spans().map(|span| span.to_string());
            writeln!(f, "  {:<26} {p5:>12} {p50:>12} {p95:>12} {max:>12}", "complete after")?;
        }
        for (what, spread) in [("nodes without an agent", self.without), ("nodes with a bad version", self.bad)] {
            if let Some(Spread { p5, p50, p95, max }) = spread {
                writeln!(f, "  {what:<26} {p5:>12} {p50:>12} {p95:>12} {max:>12}")?;
            }
        }
        match self.broken_seed {
            Some(seed) => writeln!(f, "  NOT AS EXPECTED in {} runs; see --seed {seed}", self.broken),
            None => Ok(()),
        }
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES);
    let first = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
