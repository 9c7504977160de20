//! Counts: how many places are in which state, as the report has them.
//!
//! Must not decide anything.

use super::Who;
use super::cause::{Bucket, Cause};
use super::cell::Cell;
use super::place::Standing;
use super::reading::Reading;
use super::report::{EXAMPLES, Report, Without};

/// So many places without an available agent are named.
const WITHOUT: usize = 20;

/// The counts of a fleet; state and waiting come from the decision.
pub(super) fn count<R>(reading: &Reading<'_, '_, R>) -> Report {
    let mut places = reading.cells.iter().map(|cell| &cell.place).chain(reading.closed.iter().map(|(place, _)| place));
    let is_marked = reading.policy.canary.is_some_and(|canary| canary.who == Who::Marked);
    let lacks_canaries = is_marked && !places.any(|place| place.is_canary);
    let first = || reading.cells.iter().map(Cell::name).min().map(str::to_owned);
    let lacks_canaries = if lacks_canaries { first() } else { None };
    let mut report = Report { selected: reading.cells.len(), lacks_canaries, ..Report::default() };
    for (place, closed) in &reading.closed {
        report.closed.entry(closed.name).or_default().add(place.name, closed.by.as_deref());
    }
    for (place, closed) in &reading.surplus {
        report.surplus.add(place.name, closed.by.as_deref());
    }
    for cell in &reading.cells {
        match cell.standing() {
            Some(Standing::Outdated) => {
                report.outdated += 1;
                let busy = cell.place.busy.as_ref();
                report.waiting += usize::from(busy.is_some());
                let is_named = cell.is_available() && report.postponed.len() < EXAMPLES;
                if let Some(why) = busy.filter(|_| is_named) {
                    report.postponed.push((cell.name().to_owned(), why.clone()));
                }
            }
            Some(standing @ (Standing::Unknown | Standing::Unheard)) => {
                report.unheard += usize::from(standing == Standing::Unheard);
                report.unknown.add(cell.name(), None);
            }
            Some(Standing::HeldBack) => report.held_back.add(cell.name(), None),
            Some(Standing::Current) if cell.is_available() || cell.blinks => report.updated += 1,
            _ => {}
        }
        report.unplanned += usize::from(cell.unplanned);
        let Some(cause) = cell.cause.as_ref().filter(|_| !cell.blinks) else {
            report.running += 1;
            continue;
        };
        report.buckets.entry(cause.bucket()).or_default().add(cell.name(), None);
        let has_lost = cell.has_lost();
        if has_lost && report.ceased.len() < EXAMPLES {
            report.ceased.push((cell.name().to_owned(), cause.clone()));
        }
        let joining = cause.bucket() == Bucket::Starting && !cell.is_in_flight && !has_lost;
        report.joining += usize::from(joining);
        let is_lacking = !joining && !matches!(cause, Cause::NodeNotReady | Cause::NodeBusy(_));
        report.lacking += usize::from(is_lacking);
        if is_lacking && report.without.len() < WITHOUT {
            report.without.push(Without {
                place: cell.name().to_owned(),
                since: cell.without_since(),
                cause: cause.clone(),
            });
        }
        if cause.is_trouble() && report.troubled.len() < EXAMPLES {
            report.troubled.push((cell.name().to_owned(), cause.clone()));
        }
    }
    report
}
