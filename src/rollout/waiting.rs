//! Which places a rollout waits for.
//!
//! Must not decide anything, nor word what it found (that is `cause` and `report`).

use super::cause::Cause;
use super::cell::Cell;
use super::pace::Bounds;
use super::place::Standing;
use super::reading::Reading;
use super::report::{WAITING, WaitingOn};

/// How many places are named of each cause.
const NAMES: usize = 3;

/// The places that the rollout waits for, each cause once.
pub(super) fn places<R>(reading: &Reading<'_, '_, R>, bounds: &Bounds<'_>) -> Vec<WaitingOn> {
    let mut causes: Vec<(&Cause, Vec<&Cell<'_, R>>)> = Vec::new();
    for cell in &reading.cells {
        let is_waited_for = cell.is_in_flight || (cell.standing() == Some(Standing::Outdated) && !cell.blinks);
        let Some(cause) = cell.cause.as_ref().filter(|_| is_waited_for) else { continue };
        match causes.iter().position(|(known, _)| *known == cause) {
            Some(known) => causes[known].1.push(cell),
            None if causes.len() < WAITING => causes.push((cause, vec![cell])),
            None => {}
        }
    }
    let place = |(cause, cells): (&Cause, Vec<&Cell<'_, R>>)| WaitingOn::Places {
        names: cells.iter().take(NAMES).map(|cell| cell.name().to_owned()).collect(),
        count: cells.len(),
        cause: cause.clone(),
        until: cells.iter().filter_map(|cell| cell.deadline).min(),
    };
    let mut places: Vec<WaitingOn> = causes.into_iter().map(place).collect();
    places.extend(reading.outside.first().map(|(_, closed)| WaitingOn::Closed {
        names: reading.outside.iter().take(NAMES).map(|(place, _)| place.name.to_string()).collect(),
        count: reading.outside.len(),
        by: closed.by.clone(),
    }));
    let (removed, until) = &bounds.removed;
    places.extend(until.map(|until| WaitingOn::Removed {
        names: removed.iter().take(NAMES).cloned().collect(),
        count: removed.len(),
        until,
    }));
    places.extend(bounds.replicas().take(WAITING));
    places
}
