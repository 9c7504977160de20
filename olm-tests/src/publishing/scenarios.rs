//! What is made of the scenarios in `docs/scenarios`: their schema, and a chart of each policy.
//!
//! Must not decide what is drawn: that is `simulate`.

use oneagent_operator::olm::manifests::File;
use oneagent_operator::simulate::{Scenario, chart, schema, simulate};
use serde_json::Value;

/// A policy: its name, its scenario and its sample.
macro_rules! policy {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../docs/scenarios/", $name, ".yaml")),
            include_str!(concat!("../../../config/oneagent-operator/samples/oneagent-", $name, ".yaml")),
        )
    };
}

/// The policies that docs/rollouts.md shows.
const POLICIES: [(&str, &str, &str); 5] =
    [policy!("careful"), policy!("fast"), policy!("nights"), policy!("zones"), policy!("late-ring")];

/// A scenario with the sample's OneAgent in it.
fn scenario((name, scenario, sample): (&str, &str, &str)) -> Result<Scenario, String> {
    let read = |text: &str| serde_yaml::from_str::<Value>(text).map_err(|error| format!("{name} is not YAML: {error}"));
    let mut scenario = Scenario::read(read(scenario)?).map_err(|why| format!("docs/scenarios/{name}.yaml: {why}"))?;
    scenario.script.objects = vec![read(sample)?];
    Ok(scenario)
}

/// The files.
pub fn files() -> Result<Vec<File>, String> {
    let text = serde_json::to_string_pretty(&schema()).map_err(|error| error.to_string())?;
    let mut files = vec![File { path: "docs/reference/scenario.schema.json".to_owned(), content: format!("{text}\n") }];
    for policy in POLICIES {
        let (name, ..) = policy;
        let scenario = scenario(policy)?;
        let (outcome, operator) = simulate(&scenario, scenario.seed).map_err(|why| format!("{name}: {why}"))?;
        let records = operator.outcomes().map(|(_, record)| record);
        let content = chart(&outcome.one_agents.iter().zip(records).collect::<Vec<_>>());
        files.push(File { path: format!("docs/scenarios/{name}.svg"), content });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each policy does what docs/rollouts.md says of it.
    #[test]
    fn every_policy_keeps_a_version_that_crashes_to_the_nodes_that_its_scenario_expects() {
        for policy in POLICIES {
            let scenario = scenario(policy).unwrap();
            let (outcome, _) = simulate(&scenario, scenario.seed).unwrap();
            let agent = &outcome.one_agents[0];
            assert!(outcome.holds() && agent.nodes == 20, "{}: {outcome}", policy.0);
            // It is not more than what happens, either.
            let reached = agent.bad.values().map(Vec::len).max().unwrap_or_default();
            assert_eq!(Some(reached), scenario.expect.bad_version_reaches, "{}", policy.0);
        }
    }
}
