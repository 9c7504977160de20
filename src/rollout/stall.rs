//! Stalls: what is done while external trouble, and no revision, keeps Pods from starting.
//!
//! External trouble is not a verdict. Must not choose a Pod, nor write a template (that is `context`).

use chrono::{DateTime, TimeDelta, Utc};

use super::Desired;
use super::cell::Cell;
use super::memory::{Memory, Phase, Stall, StallPhase};
use super::place::{Revision, Standing};
use super::reading::Reading;
use super::report::State;

/// Where one place was tried in vain the next is tried after so long.
const TRY_AGAIN: TimeDelta = TimeDelta::minutes(10);

/// Notes external trouble. If it lasts the template is put back meanwhile; where nothing is left that
/// retries on its own, or the trouble is that of a few places and others may go, one place is tried.
pub(super) fn note_stall<R: Revision>(
    reading: &Reading<'_, '_, R>,
    desired: &Desired<R>,
    has_room: impl Fn() -> bool,
    memory: &mut Memory<R>,
) {
    let Reading { policy, now, .. } = *reading;
    let may_go = memory.stall_phase() == Some(StallPhase::Back) && has_room();
    let Phase::Rolling { stall, .. } = &mut memory.phase else { return };
    // What kept another revision from starting says nothing about this one: a typo in an image's name, say, that was
    // fixed.
    let before = stall.take().filter(|stall| stall.revision == desired.revision);
    let is_this = |cell: &Cell<'_, R>| cell.standing() != Some(Standing::Outdated);
    // Where no agent ran before, none is lacking because of it.
    let in_trouble = reading.in_flight().any(|cell| is_this(cell) && cell.is_external);
    let to = |phase, tries| Some(Stall { revision: desired.revision.clone(), phase, since: now, tries });
    let Some(before) = before else {
        *stall = if in_trouble { to(StallPhase::Waiting, 0) } else { None };
        return;
    };
    let is_proof = |cell: &Cell<'_, R>| {
        let pod = cell.pod().filter(|pod| cell.is_available() && pod.revision.as_ref() == Some(&desired.revision));
        pod.and_then(|pod| pod.ready_since).is_some_and(|ready| ready >= before.since)
    };
    let too_long = before.since + policy.wait_ready <= now;
    let is_paused = policy.hold.as_ref().is_some_and(|hold| matches!(hold.state, State::Paused | State::Stopped));
    let is_time = before.since + TRY_AGAIN <= now;
    let stalled = Stalled { in_trouble, is_time, may_go, tries: before.tries };
    let tries_again = reading.rules.tries.iter().any(|(_, rule)| rule(&stalled));
    // Where all others run it nothing is left that the previous template could save.
    let is_out = || {
        let has_it = |cell: &Cell<'_, R>| cell.is_available() && cell.standing() == Some(Standing::Current);
        let is_old = |cell: &Cell<'_, R>| cell.standing() == Some(Standing::Outdated);
        reading.cells.iter().any(has_it) && !reading.cells.iter().any(is_old)
    };
    *stall = match before.phase {
        _ if reading.cells.iter().any(is_proof) => None,
        StallPhase::Waiting if !in_trouble => None,
        // A pause keeps the template.
        StallPhase::Waiting if too_long && !is_paused && !is_out() => to(StallPhase::Back, 0),
        StallPhase::Trial if in_trouble && too_long => to(StallPhase::Back, before.tries + 1),
        StallPhase::Back if tries_again => to(StallPhase::Trial, before.tries),
        _ => Some(before),
    };
}

/// What is known of external trouble whose template was put back.
pub(super) struct Stalled {
    /// It lasts.
    in_trouble: bool,
    /// The last place was tried long ago.
    is_time: bool,
    /// Other places may go.
    may_go: bool,
    /// How often a single place was tried in vain.
    tries: u32,
}

/// Where the places that were in trouble are so no more, nothing is left that retries on its own.
pub(super) fn nothing_else_retries(stalled: &Stalled) -> bool {
    !stalled.in_trouble && (stalled.is_time || stalled.tries == 0)
}

/// Trouble of a few places does not hold the others for good.
pub(super) fn others_may_go(stalled: &Stalled) -> bool {
    stalled.in_trouble && stalled.is_time && stalled.may_go
}

/// When a stall changes by the clock alone; what is past changes by an event only.
pub(super) fn stall_until<R>(reading: &Reading<'_, '_, R>, memory: &Memory<R>) -> Option<DateTime<Utc>> {
    let stall = memory.stall()?;
    let wait = if stall.phase == StallPhase::Back { TRY_AGAIN } else { reading.policy.wait_ready };
    Some(stall.since + wait).filter(|at| *at > reading.now)
}
