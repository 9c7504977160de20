//! Cells: how each node of a fleet is, by zone, as a person sees it at a glance.
//!
//! Pure. Must not judge a node: it classes what was judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::rollout::{Bucket, Cause, Look, Standing, Start};

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, strum::EnumIter, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Cell {
    /// It has an available Pod as desired.
    New,
    /// Its new Pod is Ready and must stay so.
    Proving,
    /// Its Pod starts, or is deleted so that another one comes.
    Starting,
    /// It has an available Pod that is not as desired: it is to be replaced, or was made from what was rejected.
    Old,
    /// It has no available Pod, and something is wrong with that one.
    Failing,
    /// It has no available Pod for a cause that is the node's own.
    Missing,
}

impl Cell {
    /// How a place is.
    #[must_use]
    pub fn of(look: &Look) -> Self {
        let Some(cause) = &look.cause else {
            let is_old = matches!(look.standing, Some(Standing::Outdated | Standing::HeldBack));
            return if is_old { Self::Old } else { Self::New };
        };
        match (cause, cause.bucket()) {
            (Cause::Starting(Start::Settling(_)), _) => Self::Proving,
            (Cause::Terminating(false), _) | (_, Bucket::Starting) => Self::Starting,
            (_, Bucket::NodeNotReady | Bucket::NodeBusy) => Self::Missing,
            _ => Self::Failing,
        }
    }

    /// As a terminal shows it.
    #[must_use]
    pub fn glyph(self, is_unicode: bool) -> char {
        match (self, is_unicode) {
            (Self::New, true) => '■',
            (Self::Proving, true) => '◑',
            (Self::Starting, true) => '◐',
            (Self::Old, true) => '□',
            (Self::Failing, true) => '✖',
            (Self::Missing, true) => '·',
            (Self::New, false) => 'N',
            (Self::Proving, false) => 'p',
            (Self::Starting, false) => 's',
            (Self::Old, false) => 'o',
            (Self::Failing, false) => 'F',
            (Self::Missing, false) => 'm',
        }
    }
}

/// The nodes of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Its name; empty: the nodes have none.
    pub name: String,
    /// How many have an available Pod as desired, of how many.
    pub new: usize,
    pub nodes: usize,
    /// How many there are of each other kind.
    pub others: BTreeMap<Cell, usize>,
    /// By name.
    #[serde(skip)]
    pub cells: Vec<(Arc<str>, Cell)>,
}

/// The zones of a fleet, by name; each with its nodes, by name.
#[must_use]
pub fn zones(looks: &[Look]) -> Vec<Zone> {
    let mut all: BTreeMap<&str, Zone> = BTreeMap::new();
    for look in looks {
        let name = look.zone.as_deref().unwrap_or_default();
        let zone = all.entry(name).or_insert_with(|| Zone { name: name.to_owned(), ..Zone::default() });
        let cell = Cell::of(look);
        zone.nodes += 1;
        if cell == Cell::New {
            zone.new += 1;
        } else {
            *zone.others.entry(cell).or_default() += 1;
        }
        zone.cells.push((look.name.clone(), cell));
    }
    let mut zones: Vec<Zone> = all.into_values().collect();
    for zone in &mut zones {
        zone.cells.sort_by(|a, b| natural(&a.0).cmp(&natural(&b.0)));
    }
    zones
}

/// Names in the order in which people count: `node-9` before `node-10`.
fn natural(name: &str) -> (Vec<(String, u64)>, &str) {
    let mut parts = Vec::new();
    let (mut text, mut digits) = (String::new(), String::new());
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() && digits.len() < 18 {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            parts.push((std::mem::take(&mut text), digits.parse().unwrap_or_default()));
            digits.clear();
        }
        text.push(c);
    }
    parts.push((text, 0));
    (parts, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn every_kind_of_cell_looks_unlike_the_others_also_without_colour() {
        for is_unicode in [true, false] {
            let glyphs: Vec<char> = Cell::iter().map(|cell| cell.glyph(is_unicode)).collect();
            let mut distinct = glyphs.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), glyphs.len());
            assert!(is_unicode || glyphs.iter().all(char::is_ascii));
        }
    }

    #[test]
    fn nodes_stand_in_the_order_in_which_people_count() {
        let look = |name: &str| Look { name: name.into(), zone: None, standing: Some(Standing::Outdated), cause: None };
        let zones = zones(&["node-10", "node-9", "a", "node-9b"].map(look));
        let names: Vec<&str> = zones[0].cells.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "node-9", "node-9b", "node-10"]);
        assert_eq!((zones[0].new, zones[0].nodes, zones[0].others[&Cell::Old]), (0, 4, 4));
    }
}
