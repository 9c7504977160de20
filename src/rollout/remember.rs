//! What a later look cannot find out any more: places that went away, what was broken before, outages, what steps leave
//! behind.
//!
//! Must not decide what follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::cell::Cell;
use super::memory::{Memory, Outage, REMEMBERED, Touched};
use super::place::Place;
use super::reading::Reading;
use super::{Source, Step};

/// A place that went away because of us and was removed counts for so long.
const REMOVED: TimeDelta = TimeDelta::hours(1);

/// Notes what a later look cannot find out any more: places that went away, what was broken before, and outages.
pub(super) fn remember<R>(reading: &Reading<'_, '_, R>, memory: &mut Memory<R>) {
    let Reading { inventory, now, .. } = *reading;
    let is_there = |name: &str| inventory.places.iter().find(|place| &**place.name == name);
    let mut away: BTreeMap<String, Option<DateTime<Utc>>> = BTreeMap::new();
    for (name, gone) in &memory.touched.away {
        match is_there(name) {
            // One that was created again under its name is as lost as one that was not, until it has an agent.
            Some(place) if place.is_ready && (gone.is_none() || has_agent(place)) => {}
            Some(_) if gone.is_none() => drop(away.insert(name.clone(), None)),
            _ => {
                let gone = gone.unwrap_or(now);
                if now - gone < REMOVED {
                    away.insert(name.clone(), Some(gone));
                }
            }
        }
    }
    let lost = reading.cells.iter().filter(|cell| cell.is_in_flight && !cell.place.is_ready);
    away.extend(lost.take(REMEMBERED).map(|cell| (cell.name().to_owned(), None)));
    memory.touched.away = away;
    memory.touched.closed = reading.outside.iter().take(REMEMBERED).map(|(place, _)| place.name.to_string()).collect();
    if !memory.touched.broken.is_empty() {
        for cell in reading.cells.iter().filter(|cell| cell.is_available()) {
            memory.touched.broken.remove(cell.name());
        }
    }
    // What a workload lacked before it lacks no more once it has it.
    memory.touched.lacking.retain(|name, lacking| {
        let workload = inventory.workloads.iter().find(|workload| *workload.name == **name);
        *lacking = workload.map_or(0, |workload| workload.unavailable().min(*lacking));
        *lacking > 0
    });
    let is_over = memory.outage.is_none_or(|outage| outage.until.is_some());
    memory.outage = match (inventory.source, memory.outage) {
        (Source::Away, _) if is_over && memory.started().is_some() => Some(Outage { since: now, until: None }),
        (Source::Answers(_), Some(outage)) if !is_over => Some(Outage { until: Some(now), ..outage }),
        (_, outage) => outage,
    };
}

/// The places that were removed and count still, and until when the first of them does.
pub(super) fn removed<R>(memory: &Memory<R>) -> (Vec<String>, Option<DateTime<Utc>>) {
    let removed = memory.touched.away.iter().filter(|(_, gone)| gone.is_some()).map(|(name, _)| name.clone());
    (removed.collect(), memory.touched.away.values().flatten().min().map(|gone| *gone + REMOVED))
}

/// How many replicas of each workload are broken, or have been missing for too long. Of others that start, or are not
/// there, another client may just have replaced them.
pub(super) fn lacking<R>(reading: &Reading<'_, '_, R>, overdue: BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let mut lacking = overdue;
    for cell in reading.cells.iter().filter(|cell| cell.is_broken) {
        let Some(workload) = reading.inventory.workloads.get(cell.place.workload) else { continue };
        if lacking.len() < REMEMBERED || lacking.contains_key(&*workload.name) {
            *lacking.entry(workload.name.to_string()).or_default() += 1;
        }
    }
    lacking
}

/// Places that lack an agent because of this rollout, and of which the ledger does not know.
pub(super) fn missing<R>(reading: &Reading<'_, '_, R>) -> Vec<(Arc<str>, DateTime<Utc>)> {
    if !reading.is_named() {
        return Vec::new();
    }
    let is_unknown = |cell: &&Cell<'_, R>| !reading.inventory.lost.contains_key(cell.place.name);
    let missing = reading.in_flight().filter(is_unknown);
    missing.filter_map(|cell| Some((cell.place.name.clone(), cell.touched_at?))).collect()
}

fn has_agent<R>(place: &Place<'_, R>) -> bool {
    place.occupant.is_some_and(|occupant| occupant.pod.ready_since.is_some() && !occupant.pod.deleting)
}

/// What steps leave behind, and which places they made canaries.
pub(super) fn note_all<R>(steps: &[Step<R>], reading: &Reading<'_, '_, R>, are_canaries: bool, memory: &mut Memory<R>) {
    for step in steps {
        note(step, reading, &mut memory.touched);
        if let Some(proof) = memory.proof.as_mut().filter(|proof| are_canaries && proof.has_room()) {
            proof.places.insert(step.place.to_string());
        }
    }
}

/// What a step leaves behind: its place was broken before, or had an agent that restarted again and again.
fn note<R>(step: &Step<R>, reading: &Reading<'_, '_, R>, touched: &mut Touched) {
    let pod = &step.pod;
    let days = (reading.now - pod.created).num_days() + 1;
    let restarts = i64::from(pod.restarts);
    let find = || reading.cells.iter().find(|cell| cell.place.name == &step.place);
    // What a revision did that this rollout, or one that failed before it, brought there excuses no other.
    let was_untouched = || find().is_some_and(|cell| !cell.touched);
    if restarts >= 3 && restarts >= days && touched.flapping.len() < REMEMBERED && was_untouched() {
        touched.flapping.insert(step.place.to_string());
    }
    if !step.costs {
        // What counts already keeps counting: an earlier step took its agent.
        let counts = find().is_some_and(|cell| cell.is_in_flight);
        if !counts && touched.broken.len() < REMEMBERED {
            touched.broken.insert(step.place.to_string());
        }
    }
}
