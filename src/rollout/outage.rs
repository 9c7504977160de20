//! Outages of nodes: a node that the rollout touched is no witness while as large a share of the others is unreachable.
//!
//! Here because one place alone cannot tell an outage from a revision that takes its node down. Must not say what a
//! failure leads to (that is `failure`).

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::Policy;
use super::cause::Bucket;
use super::cell::Cell;

/// Fewer places than these are no mass outage.
const MASS_OUTAGE: usize = 3;

/// Whether so many places that are unreachable make a mass outage.
pub(super) fn is_mass_outage(down: usize, all: usize) -> bool {
    down >= MASS_OUTAGE && down * 3 >= all
}

/// How many places of a zone, or of the fleet, are there, and how many of them are or were unreachable.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    /// Places in flight.
    young: usize,
    /// Those of them whose node is unreachable.
    lost: usize,
    /// All other places.
    others: usize,
    /// Those of them whose node went away together with the lost ones, and is still away.
    away: usize,
    /// Those whose node went away since and is back.
    returned: usize,
    /// When the last of those came back.
    back_at: Option<DateTime<Utc>>,
}

impl Share {
    /// Whether so many of the others are as large a share as those that are lost.
    fn is_as_large(&self, away: usize) -> bool {
        away > 0 && away * self.young.max(1) >= self.lost * self.others
    }

    /// Whether so many of the others make it an outage.
    fn is_outage(&self, away: usize) -> bool {
        self.is_as_large(away) || is_mass_outage(self.lost + away, self.young + self.others)
    }
}

/// An outage of nodes is no verdict: takes back what lost places say of a revision while it lasts, and for
/// `waitReadySeconds` after it.
pub(super) fn excuse<R>(cells: &mut [Cell<'_, R>], policy: &Policy, now: DateTime<Utc>) {
    let is_lost =
        |cell: &Cell<'_, R>| cell.bucket() == Some(Bucket::NodeLost) && (cell.counts_as_failure || cell.pending);
    let spoken = |cell: &Cell<'_, R>| is_lost(cell) && cell.counts_as_failure;
    if !cells.iter().any(spoken) {
        return;
    }
    // What went away at about the time at which the first of them was replaced went with them.
    let touched_at = cells.iter().filter(|cell| is_lost(cell)).filter_map(|cell| cell.touched_at).min();
    let began = touched_at.map_or(now, |touched| touched - policy.wait_ready);
    let mut zones: HashMap<Option<&str>, Share> = HashMap::new();
    let mut fleet = Share::default();
    for cell in &*cells {
        for share in [&mut fleet, zones.entry(cell.place.zone).or_default()] {
            share.count(cell, is_lost(cell), policy, began);
        }
    }
    for cell in cells.iter_mut().filter(|cell| spoken(cell)) {
        let zone = zones.get(&cell.place.zone).filter(|zone| zone.others > 0).copied().unwrap_or_default();
        let lasts = [zone, fleet].iter().any(|share| share.is_outage(share.away));
        let was_one = [zone, fleet].into_iter().filter(|share| share.is_outage(share.away + share.returned));
        // Those that are back had to start first, and so has this one.
        let until = was_one.filter_map(|share| share.back_at).max().map(|back| back.min(now) + policy.wait_ready);
        let until = until.filter(|until| *until > now);
        if lasts || until.is_some() {
            (cell.counts_as_failure, cell.pending) = (false, true);
            cell.until = cell.until.into_iter().chain(until.filter(|_| !lasts)).min();
        }
    }
}

impl Share {
    fn count<R>(&mut self, cell: &Cell<'_, R>, is_lost: bool, policy: &Policy, began: DateTime<Utc>) {
        let was_available = cell.pod().is_some_and(|pod| pod.was_available(policy));
        if is_lost || (cell.is_in_flight && !was_available) {
            self.young += 1;
            self.lost += usize::from(is_lost);
            return;
        }
        let changed = cell.place.ready_since.filter(|since| *since >= began);
        let is_away = !cell.place.is_ready && (changed.is_some() || cell.place.ready_since.is_none());
        // Those that went away before are no witnesses of this outage.
        self.others += usize::from(cell.place.is_ready || is_away);
        self.away += usize::from(is_away);
        if !cell.place.is_ready {
            return;
        }
        if let Some(back) = changed.filter(|back| cell.place.joined < *back && cell.place.joined < began) {
            self.returned += 1;
            self.back_at = self.back_at.max(Some(back));
        }
    }
}
