//! When to look again if nothing happens before: nothing that is believed for a time waits for the resync.
//!
//! Pure. Must not decide what is done then.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::super::known::forgotten_at;
use super::super::memory::Memory;
use super::super::places::Decision;
use super::super::problem::Problem;
use super::super::resolve::Resolved;
use super::versions::changes_at;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::{GoneNode, Snapshot};
use crate::fleet::closed;
use crate::kernel::refused::QUIET;
use crate::rollout;

/// What keeps our hands off is not always watched: it is looked at this often.
const BLOCKED: Duration = Duration::from_secs(15);
/// What was judged in one look changes what the next one wants.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Whether earlier agents, or those of another OneAgent, have left is looked at this often: not all of them wake us.
const LEAVING: Duration = Duration::from_secs(3);
/// Whether the namespace still keeps agents off nodes is looked at this often, while it does.
const EXCLUDED: Duration = Duration::from_secs(60);

/// Whether a verdict or the last good revision is another one now: the version is chosen by them.
fn is_judged_otherwise(before: &Memory, now: &Memory) -> bool {
    let of = |memory: &Memory| {
        let good = memory.rollout.last_good.clone();
        (memory.rejected.clone(), good, memory.rollout.failure.is_some())
    };
    of(before) != of(now)
}

/// When to look again if nothing happens before.
pub(super) fn next_look(
    decision: &Decision,
    before: &Memory,
    hands_off: Option<&Problem>,
    (resolved, environment, gone): (&Resolved, Option<&Snapshot>, &[GoneNode]),
    now: DateTime<Utc>,
) -> Option<Duration> {
    let (rollout, report) = (&decision.plan, &decision.plan.report);
    let judged = is_judged_otherwise(before, &decision.memory).then_some(AT_ONCE);
    let changes = changes_at(resolved, environment, before.rollout.started(), now);
    let until = changes
        .into_iter()
        .chain(forgotten_at(gone))
        .chain(rollout.next)
        .filter(|at| *at > now)
        .min()
        .map(|at| (at - now).to_std().unwrap_or_default() + Duration::from_millis(50));
    let missing =
        [rollout::Bucket::Starting, rollout::Bucket::Capacity].iter().any(|bucket| report.bucket(*bucket) > 0);
    let looks_for = missing.then_some(QUIET + Duration::from_secs(2));
    let blocked = hands_off.map(|(reason, _)| match reason {
        Reason::BeingRemoved | Reason::NodesConflict => LEAVING,
        _ => BLOCKED,
    });
    let excludes = (report.closed(closed::NAMESPACE_SELECTOR) > 0).then_some(EXCLUDED);
    [until, looks_for, excludes, blocked, judged].into_iter().flatten().min()
}
