//! Simulation: what a policy does to a fleet, before it meets a real one.
//!
//! The operator's own decisions, on a fleet in memory with a virtual clock and seeded chance. Pure: it is handed a
//! scenario and returns what came of it. Must not decide anything, nor touch a cluster.

mod chart;
mod expect;
mod names;
mod outcome;
mod picture;
mod runs;
mod scenario;
#[cfg(test)]
mod tests;
mod text;

pub use chart::chart;
pub use expect::Expect;
pub use outcome::{AgentOutcome, Batch, Checked, Outcome, Without};
pub use picture::picture;
pub use runs::{Quantiles, Spread, runs};
pub use scenario::{Flags, Scenario, schema};

use crate::oneagent::rehearsal::Operator;
use crate::sim::play;

/// Lets a scenario happen; what came of it, and the operator that did it.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<(Outcome, Operator), String> {
    let mut operator = Operator::new(&scenario.script, Some(seed), true)?;
    play(&mut operator, &scenario.script)?;
    let mut outcome = Outcome::of(&scenario.script, seed, &operator);
    for agent in &mut outcome.one_agents {
        agent.expected = scenario.expect.check(agent)?;
    }
    Ok((outcome, operator))
}
