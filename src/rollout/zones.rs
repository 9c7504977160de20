//! Zones: whose turn it is among healthy places, so that all zones have their share, or one comes after the other.
//!
//! Must not count the whole budget (that is `pace`).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Order;
use super::cause::Cause;
use super::cell::Cell;
use super::reading::Reading;
use super::rule::{Rule, holds};

/// What is known of a zone.
#[derive(Debug, Clone, Copy, Default)]
struct Zone {
    places: usize,
    /// How many more may go.
    room: usize,
}

/// The healthy places that go next, so many of them at most: of those of the lowest rank the oldest Pods, except what
/// the policy says of zones.
pub(super) fn next_ones<'c, 'a, R>(
    reading: &Reading<'_, '_, R>,
    mut cells: Vec<&'c Cell<'a, R>>,
    count: usize,
) -> Vec<&'c Cell<'a, R>> {
    let policy = reading.policy;
    let first = cells.first().and_then(|cell| cell.place.zone);
    // Most clusters have one zone, or none. The last zone of an order waits for the one before it, too.
    let is_there = |cell: &Cell<'_, R>| cell.place.zone == first;
    let are_there = match policy.order {
        Order::ByZone => reading.cells.iter().all(is_there),
        Order::Spread => cells.iter().all(|cell| is_there(cell)),
    };
    let is_one = policy.per_zone.is_none() && are_there;
    if is_one || count == 0 {
        oldest(&mut cells, count);
        return cells;
    }
    let mut zones: BTreeMap<Option<&str>, Zone> = BTreeMap::new();
    let mut used: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for cell in &reading.cells {
        zones.entry(cell.place.zone).or_default().places += 1;
        *used.entry(cell.place.zone).or_default() += usize::from(cell.is_in_flight);
    }
    for (place, _) in &reading.outside {
        *used.entry(place.zone).or_default() += 1;
    }
    for (name, zone) in &mut zones {
        let whole = policy.per_zone.filter(|_| holds(Rule::PerZone)).map_or(usize::MAX, |share| share.of(zone.places));
        zone.room = whole.saturating_sub(used.get(name).copied().unwrap_or_default());
    }
    let mut open: BTreeMap<Option<&str>, Vec<&'c Cell<'a, R>>> = BTreeMap::new();
    for cell in cells {
        open.entry(cell.place.zone).or_default().push(cell);
    }
    if policy.order == Order::ByZone && holds(Rule::Zones) {
        // Places without a zone come last. A zone has its turn until what is on its way there has arrived.
        let is_stuck = |cell: &Cell<'_, R>| cell.cause.as_ref().is_some_and(Cause::is_trouble);
        let on_its_way = |cell: &&Cell<'_, R>| cell.is_in_flight && cell.is_on_its_way() && !is_stuck(cell);
        let moving = reading.cells.iter().filter(on_its_way).map(|cell| cell.place.zone);
        let turn = open.keys().copied().chain(moving).min_by_key(|zone| (zone.is_none(), *zone));
        open.retain(|zone, _| Some(*zone) == turn);
    }
    let mut left: Vec<(Zone, Vec<&'c Cell<'a, R>>)> = Vec::with_capacity(open.len());
    for (name, mut cells) in open {
        let zone = zones.get(&name).copied().unwrap_or_default();
        let remaining = cells.len();
        oldest(&mut cells, count.min(zone.room));
        cells.reverse();
        left.push((Zone { room: remaining, ..zone }, cells));
    }
    // The zone of which the largest share is left comes next.
    let mut next = Vec::with_capacity(count);
    while next.len() < count {
        let share = |(zone, _): &(Zone, Vec<_>)| zone.room as f64 / zone.places.max(1) as f64;
        let has_any = left.iter_mut().rev().filter(|(_, cells)| !cells.is_empty());
        let Some(turn) = has_any.max_by(|a, b| share(a).total_cmp(&share(b))) else { break };
        turn.0.room -= 1;
        next.extend(turn.1.pop());
    }
    next
}

/// By which the oldest agent comes first. Names of Pods are random: of those of one second the place's name decides.
pub(super) fn age<'c, R>(cell: &'c Cell<'_, R>) -> Option<(DateTime<Utc>, &'c str)> {
    cell.pod().map(|pod| (pod.created, cell.name()))
}

/// So many of them, those of the lowest rank first, and of these the oldest Pods. Of a large fleet a few are wanted:
/// only they are put in order.
fn oldest<'c, 'a, R>(cells: &mut Vec<&'c Cell<'a, R>>, count: usize) {
    let turn = |cell: &&'c Cell<'a, R>| (cell.place.rank, age(cell));
    if count < cells.len() {
        cells.select_nth_unstable_by(count, |a, b| turn(a).cmp(&turn(b)));
        cells.truncate(count);
    }
    cells.sort_unstable_by(|a, b| turn(a).cmp(&turn(b)));
}
