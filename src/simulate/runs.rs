//! Many runs of one scenario with other seeds, and the quantiles of what came of them.
//!
//! Must not print.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::outcome::Outcome;
use super::scenario::Scenario;
use super::simulate;
use crate::sim::Span;

/// What came of many runs, for one OneAgent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quantiles {
    pub name: String,
    pub runs: usize,
    /// How many runs ended in each state.
    pub states: BTreeMap<String, usize>,
    /// Seconds from the last publication or edit to the end of its rollout, of those runs that are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<Spread>,
    /// Nodes without an agent at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<Spread>,
    /// Nodes that a version reached which does not stay Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<Spread>,
    /// Runs in which not all was as expected: how many, and the first one's seed.
    pub broken: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_seed: Option<u64>,
}

/// Of a hundred runs 5, 50, 95 and all are at most at this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub p5: i64,
    pub p50: i64,
    pub p95: i64,
    pub max: i64,
}

impl Spread {
    fn of(mut all: Vec<i64>) -> Option<Self> {
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        let at = |percent: usize| all[last * percent / 100];
        Some(Self { p5: at(5), p50: at(50), p95: at(95), max: all[last] })
    }

    /// The same, of seconds.
    #[must_use]
    pub fn spans(self) -> [Span; 4] {
        [self.p5, self.p50, self.p95, self.max].map(Span::seconds)
    }
}

/// Runs a scenario with its seed and those that follow it.
pub fn runs(scenario: &Scenario, count: u64) -> Result<Vec<Quantiles>, String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok::<Vec<Outcome>, String>(done);
            }
            done.push(simulate(scenario, scenario.seed.wrapping_add(number)).map(|(outcome, _)| outcome)?);
        }
    };
    let mut outcomes = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut outcomes = Vec::new();
        for one in all {
            outcomes.extend(one.join().map_err(|_| "a run panicked".to_owned())??);
        }
        Ok::<_, String>(outcomes)
    })?;
    outcomes.sort_by_key(|outcome: &Outcome| outcome.seed.wrapping_sub(scenario.seed));
    let Some(first) = outcomes.first() else { return Err("--runs 0: name at least one run".to_owned()) };
    Ok((0..first.one_agents.len()).map(|at| quantiles(&outcomes, at)).collect())
}

fn quantiles(outcomes: &[Outcome], at: usize) -> Quantiles {
    let all = || outcomes.iter().map(|outcome| (outcome.seed, &outcome.one_agents[at]));
    let mut states = BTreeMap::new();
    for (_, agent) in all() {
        *states.entry(agent.state.clone()).or_default() += 1;
    }
    let broken: Vec<u64> =
        all().filter(|(_, agent)| agent.expected.iter().any(|one| !one.holds)).map(|(seed, _)| seed).collect();
    Quantiles {
        name: outcomes[0].one_agents[at].name.clone(),
        runs: outcomes.len(),
        states,
        took: Spread::of(all().filter_map(|(_, agent)| agent.took()).map(|took| took.0.num_seconds()).collect()),
        without: Spread::of(all().map(|(_, agent)| agent.without.most as i64).collect()),
        bad: Spread::of(
            all().map(|(_, agent)| agent.bad.values().map(Vec::len).max().unwrap_or_default() as i64).collect(),
        ),
        broken: broken.len(),
        broken_seed: broken.first().copied(),
    }
}
