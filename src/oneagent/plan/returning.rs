//! A DaemonSet that was deleted: as what it comes back, and what waits until its agents have.
//!
//! Pure. Must not bring back what cannot be downloaded, nor an edit that is older than the spec.

use chrono::{DateTime, Utc};

use crate::dynatrace::Snapshot;
use crate::oneagent::memory::Memory;
use crate::oneagent::observe::Observed;
use crate::oneagent::resolve::Resolved;
use crate::oneagent::revision::Revision;

/// The template that is taken as if it were there: the last good one, where what is desired was not on its way to
/// every node. `None`: it comes as on a first installation.
pub(super) fn assumed(
    memory: &Memory,
    resolved: &Resolved,
    environment: Option<&Snapshot>,
    hash: &str,
) -> Option<Revision> {
    let memory = &memory.rollout;
    let good = memory.last_good.as_ref()?;
    let version = good.version.filter(|_| resolved.from_image.is_none() && !resolved.wish.is_users_own())?;
    let is_withdrawn = environment.is_some_and(|environment| environment.lacks(version));
    let is_watched = memory.proof.as_ref().is_some_and(|proof| !proof.passed);
    let was_on_its_way = memory.started().is_some() && !is_watched && memory.failure.is_none();
    (good.hash == hash && !is_withdrawn && !was_on_its_way).then(|| good.clone())
}

/// Whether nothing may change before agents are back: a template that advances while no Pod is made yet would reach
/// every node unasked.
pub(super) fn is_awaited(
    running: Option<&Revision>,
    memory: &Memory,
    resolved: &Resolved,
    seen: &Observed,
    now: DateTime<Utc>,
) -> bool {
    let Some(live) = seen.daemonset.as_deref() else { return running.is_some() };
    let made = live.metadata.creation_timestamp.as_ref().and_then(|at| DateTime::from_timestamp(at.0.as_second(), 0));
    let is_young = made.is_some_and(|made| made + resolved.policy.wait_ready > now);
    let is_good = running.is_some() && running == memory.rollout.last_good.as_ref();
    is_young && is_good && !seen.pods.iter().any(|pod| pod.ready_since.is_some() && !pod.deleting)
}
