//! What is expected of a scenario, and what came of it instead.
//!
//! Must not judge anything that is not expected.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outcome::{AgentOutcome, Checked};
use crate::rollout::Share;
use crate::sim::Span;

/// What must hold for each OneAgent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expect {
    /// Nodes that a version reaches which does not stay Ready; at most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_version_reaches: Option<usize>,
    /// Time from the last publication or edit to the end of its rollout, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finishes_within: Option<Span>,
    /// Nodes without an agent at one time that had one before, at most: a number, or a percentage rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub max_without_agent: Option<Value>,
    /// State of the rollout in the end, such as Complete, Failed, RolledBack or Paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Expect {
    /// Compares it with what came of a OneAgent.
    pub(super) fn check(&self, outcome: &AgentOutcome) -> Result<Vec<Checked>, String> {
        let mut all = Vec::new();
        if let Some(most) = self.bad_version_reaches {
            let reached = outcome.bad.values().map(Vec::len).max().unwrap_or_default();
            let said = format!("badVersionReaches {most}: {reached}");
            all.push(Checked { holds: reached <= most, said });
        }
        if let Some(within) = self.finishes_within {
            let took = outcome.took();
            let came = took.map_or_else(|| format!("never, it is {}", outcome.state), |took| took.to_string());
            all.push(Checked {
                holds: took.is_some_and(|took| took <= within),
                said: format!("finishesWithin {within}: {came}"),
            });
        }
        if let Some(most) = &self.max_without_agent {
            let text = most.as_str().map_or_else(|| most.to_string(), str::to_owned);
            let nodes = outcome.nodes;
            let most = if text == "0" { 0 } else { share(&text)?.of(nodes) };
            let without = outcome.without.most;
            let said = format!("maxWithoutAgent {text}: {without} of {nodes}");
            all.push(Checked { holds: without <= most, said });
        }
        if let Some(state) = &self.state {
            let said = format!("state {state}: {}", outcome.state);
            all.push(Checked { holds: outcome.state == *state, said });
        }
        Ok(all)
    }
}

fn share(text: &str) -> Result<Share, String> {
    text.parse().map_err(|why| format!("expect.maxWithoutAgent: {why}"))
}
