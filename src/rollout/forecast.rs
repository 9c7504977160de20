//! Forecast: when a rollout will have finished at its present pace.
//!
//! Says nothing rather than something that nothing shows: before the first new agent is available, while broken ones
//! fill the budget, and where a window does not open. Must not decide anything.

use chrono::{DateTime, TimeDelta, Utc};

use super::calendar::Calendar;
use super::canary::Canaries;
use super::cell::Cell;
use super::memory::Memory;
use super::pace::Bounds;
use super::place::Standing;
use super::reading::Reading;

/// So many of the latest replacements are looked at.
const LATEST: usize = 256;
/// Openings that are looked through at most.
const OPENINGS: usize = 1_000;

/// When a rollout that began at some time will have finished; `None`: that is not known.
pub(super) fn finish<R>(
    reading: &Reading<'_, '_, R>,
    bounds: &Bounds<'_>,
    memory: &Memory<R>,
) -> Option<DateTime<Utc>> {
    let policy = reading.policy;
    let started = memory.started()?;
    // When a person promotes is unknown.
    if bounds.canaries.is_some() && policy.canary.is_some_and(|canary| canary.by_hand) {
        return None;
    }
    let proof = memory.proof.as_ref().filter(|proof| proof.passed).and_then(|proof| proof.since);
    let followed = policy.canary.zip(proof).map_or(started, |(canary, since)| since + canary.soak);
    let left = reading.open().count();
    let coming = reading.in_flight().filter(|cell| cell.is_on_its_way()).count();
    // Those that do not come back take from what others could have.
    let stuck = reading.in_flight().count() - coming + reading.outside.len();
    let room = bounds.budget.checked_sub(stuck).filter(|room| *room > 0)?;
    let each = cycle(reading, bounds.budget, started, followed)?;
    // Of those that are on their way half of the time is over, as a rule.
    let batches = left as f64 / room as f64 + if coming > 0 { 0.5 } else { 0.0 };
    let work = TimeDelta::milliseconds((each.num_milliseconds() as f64 * batches) as i64);
    let begins = soaked(reading, bounds.canaries.as_ref(), each);
    passed(&policy.calendar, begins, work)
}

/// When the canaries let others follow.
fn soaked<R>(reading: &Reading<'_, '_, R>, canaries: Option<&Canaries>, each: TimeDelta) -> DateTime<Utc> {
    let Reading { policy, now, .. } = *reading;
    let Some(canaries) = canaries else { return now };
    let soak = policy.canary.map_or(TimeDelta::zero(), |canary| canary.soak);
    canaries.until(now).unwrap_or(now + each + soak).max(now)
}

/// How long it takes until as many as the budget were replaced: the median over the latest, so that a pause or a window
/// that was closed does not count.
fn cycle<R>(
    reading: &Reading<'_, '_, R>,
    budget: usize,
    started: DateTime<Utc>,
    followed: DateTime<Utc>,
) -> Option<TimeDelta> {
    let is_done = |cell: &&Cell<'_, R>| cell.is_available() && cell.standing() == Some(Standing::Current);
    let new = reading.cells.iter().filter(is_done).filter_map(Cell::pod).filter(|pod| pod.created >= started);
    let mut done: Vec<(DateTime<Utc>, DateTime<Utc>)> =
        new.filter_map(|pod| Some((pod.ready_since?, pod.created))).collect();
    if done.len() > LATEST {
        let older = done.len() - LATEST;
        done.select_nth_unstable(older);
        done.drain(..older);
    }
    done.sort_unstable();
    // What lies between the canaries and the others is their time to prove themselves.
    let others: Vec<DateTime<Utc>> =
        done.iter().filter(|(_, created)| *created >= followed).map(|(ready, _)| *ready).collect();
    let mut cycles: Vec<TimeDelta> =
        others.iter().zip(others.iter().skip(budget)).map(|(first, next)| *next - *first).collect();
    if cycles.is_empty() {
        cycles = done.iter().map(|(ready, created)| *ready - *created + reading.policy.min_ready).collect();
    }
    cycles.sort_unstable();
    cycles.get(cycles.len() / 2).map(|cycle| (*cycle).max(TimeDelta::seconds(1)))
}

/// When so much time will have passed within what is open.
fn passed(calendar: &Calendar, from: DateTime<Utc>, mut work: TimeDelta) -> Option<DateTime<Utc>> {
    let mut at = from;
    for _ in 0..OPENINGS {
        if let Some(closed) = calendar.closed(at) {
            at = closed.opens?;
        }
        let Some(change) = calendar.changes(at).filter(|change| *change < at + work) else { return Some(at + work) };
        work -= change - at;
        at = change;
    }
    None
}
