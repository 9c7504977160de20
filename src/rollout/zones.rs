//! Zones: whose turn it is among healthy places, so that all zones have their share, or one comes after the other.
//!
//! Must not count the whole budget (that is `pace`).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Order;
use super::cause::Cause;
use super::cell::Cell;
use super::reading::Reading;

/// What is known of a zone.
#[derive(Debug, Clone, Copy)]
struct Zone {
    places: usize,
    /// How many take from the budget.
    used: usize,
    /// How many more may go.
    room: usize,
}

impl Default for Zone {
    fn default() -> Self {
        Self { places: 0, used: 0, room: usize::MAX }
    }
}

/// The zones, and which places of each are open.
pub(super) struct Zones<'z, 'c, 'a, R> {
    known: BTreeMap<Option<&'z str>, Zone>,
    open: BTreeMap<Option<&'z str>, Vec<&'c Cell<'a, R>>>,
}

/// As many of a zone as it allows.
pub(super) fn per_zone<R>(reading: &Reading<'_, '_, R>, zones: &mut Zones<'_, '_, '_, R>) {
    let Some(share) = reading.policy.per_zone else { return };
    for zone in zones.known.values_mut() {
        zone.room = share.of(zone.places).saturating_sub(zone.used);
    }
}

/// One zone after the other, in their order; places without a zone come last. A zone has its turn until what is on its
/// way there has arrived.
pub(super) fn zone_by_zone<R>(reading: &Reading<'_, '_, R>, zones: &mut Zones<'_, '_, '_, R>) {
    if reading.policy.order != Order::ByZone {
        return;
    }
    let is_stuck = |cell: &Cell<'_, R>| cell.cause.as_ref().is_some_and(Cause::is_trouble);
    let on_its_way = |cell: &&Cell<'_, R>| cell.is_in_flight && cell.is_on_its_way() && !is_stuck(cell);
    let moving = reading.cells.iter().filter(on_its_way).map(|cell| cell.place.zone);
    let turn = zones.open.keys().copied().chain(moving).min_by_key(|zone| (zone.is_none(), *zone));
    zones.open.retain(|zone, _| Some(*zone) == turn);
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
    let mut zones: Zones<'_, 'c, 'a, R> = Zones { known: BTreeMap::new(), open: BTreeMap::new() };
    for cell in &reading.cells {
        let zone = zones.known.entry(cell.place.zone).or_default();
        zone.places += 1;
        zone.used += usize::from(cell.is_in_flight);
    }
    for (place, _) in &reading.outside {
        zones.known.entry(place.zone).or_default().used += 1;
    }
    for cell in cells {
        zones.open.entry(cell.place.zone).or_default().push(cell);
    }
    reading.rules.zones.iter().for_each(|(_, rule)| rule(reading, &mut zones));
    let Zones { known, open } = zones;
    let mut left: Vec<(Zone, Vec<&'c Cell<'a, R>>)> = Vec::with_capacity(open.len());
    for (name, mut cells) in open {
        let zone = known.get(&name).copied().unwrap_or_default();
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
    // What they are compared by is in their Pods, all over the memory: it is read once.
    let turn = |cell: &'c Cell<'a, R>| ((cell.place.rank, age(cell)), cell);
    let mut turns: Vec<_> = cells.iter().copied().map(turn).collect();
    if count < turns.len() {
        turns.select_nth_unstable_by_key(count, |(turn, _)| *turn);
        turns.truncate(count);
    }
    turns.sort_unstable_by_key(|(turn, _)| *turn);
    *cells = turns.into_iter().map(|(_, cell)| cell).collect();
}
