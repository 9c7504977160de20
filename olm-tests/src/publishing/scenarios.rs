//! What is made of the scenarios in `docs/scenarios`: their schema, and a chart of each policy.
//!
//! Must not decide what is drawn: that is `simulate`.

use std::path::Path;

use oneagent_operator::olm::manifests::File;
use oneagent_operator::simulate::{Scenario, chart, schema, simulate};
use serde_json::Value;

/// Policies, each with a scenario and a sample.
pub const POLICIES: [&str; 5] = ["careful", "fast", "nights", "zones", "late-ring"];

/// The scenario of a policy, with the sample's OneAgent in it.
pub fn scenario(root: &Path, policy: &str) -> Result<Scenario, String> {
    let read = |path: &str| -> Result<Value, String> {
        let text = std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
        serde_yaml::from_str(&text).map_err(|error| format!("{path} is not YAML: {error}"))
    };
    let path = format!("docs/scenarios/{policy}.yaml");
    let mut scenario = Scenario::read(read(&path)?).map_err(|why| format!("{path}: {why}"))?;
    scenario.script.objects = vec![read(&format!("config/oneagent-operator/samples/oneagent-{policy}.yaml"))?];
    Ok(scenario)
}

/// The files.
pub fn files(root: &Path) -> Result<Vec<File>, String> {
    let text = serde_json::to_string_pretty(&schema()).map_err(|error| error.to_string())?;
    let mut files = vec![File { path: "docs/reference/scenario.schema.json".to_owned(), content: format!("{text}\n") }];
    for policy in POLICIES {
        let scenario = scenario(root, policy)?;
        let (outcome, operator) = simulate(&scenario, scenario.seed).map_err(|why| format!("{policy}: {why}"))?;
        let records = operator.outcomes().map(|(_, record)| record);
        let content = chart(&outcome.one_agents.iter().zip(records).collect::<Vec<_>>());
        files.push(File { path: format!("docs/scenarios/{policy}.svg"), content });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each policy does what docs/rollouts.md says of it.
    #[test]
    fn every_policy_keeps_a_version_that_crashes_to_the_nodes_that_its_scenario_expects() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for policy in POLICIES {
            let scenario = scenario(&root, policy).unwrap();
            let (outcome, _) = simulate(&scenario, scenario.seed).unwrap();
            let agent = &outcome.one_agents[0];
            assert!(outcome.holds() && agent.nodes == 20, "{policy}: {outcome}");
            // It is not more than what happens, either.
            let reached = agent.bad.values().map(Vec::len).max().unwrap_or_default();
            assert_eq!(Some(reached), scenario.expect.bad_version_reaches, "{policy}");
        }
    }
}
