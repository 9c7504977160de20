//! What the page is handed.
//!
//! Data. Must not judge a node.

use serde::Serialize;

use crate::fleet::cells::Cell;

/// Everything that the page shows.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Picture {
    pub title: String,
    /// The time from which seconds are counted.
    pub begins: String,
    /// Whether more is to come.
    pub live: bool,
    pub objects: Vec<Shown>,
}

/// An object. Times are seconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shown {
    pub name: String,
    /// Name and zone of each node.
    pub nodes: Vec<(String, String)>,
    /// Which nodes became how: the number of the node, and of the cell.
    pub frames: Vec<Frame>,
    /// What was said of the whole.
    pub wholes: Vec<(i64, Whole)>,
    pub events: Vec<Line>,
}

/// A time, and which nodes became how then.
pub type Frame = (i64, Vec<(usize, Option<usize>)>);

/// What is said of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Whole {
    pub state: String,
    pub to: Option<String>,
    pub updated: i32,
    pub selected: i32,
    /// Why it stopped, or what it waits for.
    pub said: Option<String>,
    /// How many nodes have no Pod, by cause, and which are left out.
    pub causes: Vec<String>,
    /// When it finishes.
    pub finish: Option<String>,
}

/// An Event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub at: i64,
    pub warning: bool,
    pub reason: String,
    pub message: String,
}

/// The number by which the page knows a cell.
#[must_use]
pub fn number(cell: Cell) -> usize {
    match cell {
        Cell::New => 0,
        Cell::Proving => 1,
        Cell::Starting => 2,
        Cell::Old => 3,
        Cell::Failing => 4,
        Cell::Missing => 5,
    }
}
