//! What came of a OneAgent in a rehearsal: how each of its nodes was, second by second, and what the operator did and
//! said.
//!
//! Data, and the comparison with the second before. Must not judge a node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::condition::Transition;
use crate::api::oneagent::OneAgentStatus;
use crate::fleet::causes;
use crate::fleet::cells::Cell;
use crate::rollout::Look;

/// What came of a OneAgent. Times are seconds since the beginning.
#[derive(Debug, Default)]
pub struct Record {
    /// The nodes that it ever had, each with its zone. Frames and steps have their numbers.
    pub nodes: Vec<(Arc<str>, Option<String>)>,
    numbers: HashMap<Arc<str>, usize>,
    /// How each node is now.
    now: Vec<Option<Cell>>,
    pub frames: Vec<Frame>,
    /// What the status said of the whole, each time that it changed.
    pub heads: Vec<(i64, Head)>,
    /// When that last changed in more than its causes: those of an agent that crashes never come to rest.
    said_at: Option<i64>,
    pub steps: Vec<Step>,
    pub told: Vec<Told>,
    /// The nodes that got a Pod of a version that does not stay Ready, by version.
    pub bad: BTreeMap<String, BTreeSet<String>>,
}

/// Nodes that are otherwise than the second before.
#[derive(Debug)]
pub struct Frame {
    pub at: i64,
    /// Numbers of nodes, and how each is now; `None`: it is not selected any more.
    pub cells: Vec<(usize, Option<Cell>)>,
}

/// What the status says of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    pub state: String,
    /// The version that is desired.
    pub to: Option<String>,
    pub updated: i32,
    pub selected: i32,
    pub waiting_on: Option<String>,
    pub failure: Option<String>,
    /// How many nodes have no agent, by cause, and which are left out.
    pub causes: Vec<String>,
}

/// An agent that the operator replaced.
#[derive(Debug)]
pub struct Step {
    pub at: i64,
    /// Name of the node.
    pub node: String,
    /// The version that was there.
    pub from: Option<String>,
}

/// An Event.
#[derive(Debug)]
pub struct Told {
    pub at: i64,
    pub what: Transition,
}

impl Record {
    /// Takes note of how the nodes are now.
    pub(super) fn see(&mut self, at: i64, looks: &[Look]) {
        let mut is = vec![None; self.now.len()];
        for look in looks {
            let number = *self.numbers.entry(look.name.clone()).or_insert_with(|| {
                self.nodes.push((look.name.clone(), look.zone.clone()));
                is.push(None);
                self.nodes.len() - 1
            });
            is[number] = Some(Cell::of(look));
        }
        let was = |number: usize| self.now.get(number).copied().flatten();
        let changed = is.iter().enumerate().filter(|(number, cell)| was(*number) != **cell);
        let cells: Vec<(usize, Option<Cell>)> = changed.map(|(number, cell)| (number, *cell)).collect();
        self.now = is;
        match self.frames.last_mut() {
            _ if cells.is_empty() => {}
            Some(last) if last.at == at => last.cells.extend(cells),
            _ => self.frames.push(Frame { at, cells }),
        }
    }

    /// Takes note of what the status says.
    pub(super) fn say(&mut self, at: i64, status: &OneAgentStatus, told: Vec<Transition>) {
        let (rollout, nodes) = (status.rollout.clone().unwrap_or_default(), status.nodes.clone().unwrap_or_default());
        let head = Head {
            state: rollout.state,
            to: status.desired_version.clone(),
            updated: nodes.updated,
            selected: nodes.selected,
            waiting_on: rollout.waiting_on.into_iter().next(),
            failure: rollout.failure.map(|failure| failure.message),
            causes: causes::said(&nodes),
        };
        let apart = |head: &Head| Head { causes: Vec::new(), ..head.clone() };
        if self.heads.last().is_none_or(|(_, last)| apart(last) != apart(&head)) {
            self.said_at = Some(at);
        }
        if self.heads.last().is_none_or(|(_, last)| *last != head) {
            self.heads.push((at, head));
        }
        self.told.extend(told.into_iter().map(|what| Told { at, what }));
    }

    /// When anything last changed.
    pub(super) fn changed_at(&self) -> i64 {
        let frame = self.frames.last().map(|frame| frame.at);
        frame.max(self.said_at).max(self.steps.last().map(|step| step.at)).unwrap_or_default()
    }
}
