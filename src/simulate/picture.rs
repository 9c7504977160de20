//! What came of a scenario, as the page shows it.
//!
//! Must not add to what came of it.

use super::outcome::Outcome;
use crate::oneagent::rehearsal::{Head, Operator};
use crate::page::picture::{Line, Picture, Shown, Whole, number};

/// The whole of it.
#[must_use]
pub fn picture(outcome: &Outcome, operator: &Operator) -> Picture {
    let objects = operator.outcomes().zip(&outcome.one_agents).map(|((_, record), agent)| {
        let whole = |(at, head): &(i64, Head)| (*at, whole(head));
        let event = |told: &crate::oneagent::rehearsal::Told| Line {
            at: told.at,
            warning: told.what.warning,
            reason: told.what.reason.clone(),
            message: told.what.message.clone(),
        };
        let numbers = |frame: &crate::oneagent::rehearsal::Frame| {
            (frame.at, frame.cells.iter().map(|(node, cell)| (*node, cell.map(number))).collect())
        };
        Shown {
            name: format!("OneAgent {}", agent.name),
            nodes: record
                .nodes
                .iter()
                .map(|(name, zone)| (name.to_string(), zone.clone().unwrap_or_default()))
                .collect(),
            frames: record.frames.iter().map(numbers).collect(),
            wholes: record.heads.iter().map(whole).collect(),
            events: record.told.iter().map(event).collect(),
        }
    });
    let title = if outcome.about.is_empty() { "Simulation".to_owned() } else { outcome.about.clone() };
    Picture { title, begins: outcome.begins.clone(), live: false, objects: objects.collect() }
}

fn whole(head: &Head) -> Whole {
    Whole {
        state: head.state.clone(),
        to: head.to.clone(),
        updated: head.updated,
        selected: head.selected,
        said: head.failure.clone().or_else(|| head.waiting_on.clone()),
        causes: head.causes.clone(),
        finish: None,
    }
}
