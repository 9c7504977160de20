//! Whole rollouts of a OneAgent as text: a script in `scripts/`, from a spec and a list of events, and beside it the
//! log of all that the operator did and said, second by second. How scripts run, `sim` says.
//!
//! Must not decide anything.

use std::collections::BTreeMap;

use super::rehearsal::{Act, Operator};
use crate::sim::{Script, Tried};

impl Tried for Operator {
    fn new(script: &Script<Act>, random: Option<u64>) -> Self {
        Operator::new(script, random, false).expect("OneAgents")
    }

    fn end(&self) -> String {
        let (agent, _) = self.outcomes().next().expect("a OneAgent");
        let status = agent.status.clone().unwrap_or_default();
        let conditions: BTreeMap<_, _> =
            status.conditions.iter().map(|c| (c.type_.clone(), format!("{} {}", c.status, c.reason))).collect();
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for node in self.world().nodes() {
            let version = self.world().runs("agent", &node).unwrap_or("nothing").to_owned();
            *runs.entry(version).or_default() += 1;
        }
        let rollout = status.rollout.map(|rollout| rollout.state);
        format!("{rollout:?} {conditions:#?} {runs:#?} rejected {:?}", status.rejected_versions)
    }
}

#[test]
fn every_script_is_told_as_its_log_has_it_and_ends_the_same_in_any_order() {
    crate::sim::check::<Operator>("oneagent/goldens/scripts");
}
