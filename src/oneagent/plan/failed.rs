//! What is said of a version that failed: what there is to do, and what comes without it.
//!
//! Pure. Must not judge: the engine has.

use super::super::observe::Observed;
use super::super::places::{Decision, WORDS};
use super::super::problem::Problem;
use super::super::resolve::{Resolved, Wish};
use super::super::revision::Revision;
use super::versions::downloads;
use crate::api::oneagent::condition::Reason;
use crate::rollout::{self, WaitingOn};

/// What stopped the rollout, and what there is to do.
pub(super) fn rollout_failed(resolved: &Resolved, seen: &Observed, decision: &Decision) -> Option<Problem> {
    let failure = decision.memory.rollout.failure.as_ref()?;
    let by_itself = if failure.by_hand {
        None
    } else if decision.memory.rollout.is_final() {
        Some("these nodes' agents recovered twice before, so their recovery does not end this any more")
    } else {
        Some("correct the cause: when these nodes' agents recover, the rollout continues")
    };
    // An outage there looks like a version that fails.
    let is_unasked = resolved.versions.is_some() && downloads(resolved);
    let unasked = is_unasked.then_some(
        "the environment that agents download from is not asked (spec.update.source is ConfigMap): see whether these \
        nodes reach it",
    );
    let said = [
        Some(failure.message.clone()),
        unasked.map(str::to_owned),
        Some("the other agents keep the previous version, and nodes that join get that one".to_owned()),
        by_itself.map(str::to_owned),
        how_to_retry(resolved, failure),
        how_to_leave(resolved, decision, failure),
        goes_back(resolved, seen, decision),
        newer(resolved),
    ];
    Some((Reason::RolloutFailed, joined(said)))
}

/// What there is to do once agents went back.
pub(super) fn rolled_back(resolved: &Resolved, decision: &Decision) -> Option<Problem> {
    let engines = &decision.memory.rollout;
    let failure = engines.failure.as_ref().filter(|_| decision.plan.report.state == rollout::State::RolledBack)?;
    let good = decision.memory.last_good_version();
    let good = good.map_or_else(|| "the last good Pod template".to_owned(), |version| format!("version {version}"));
    let said = [
        Some(failure.message.clone()),
        Some(format!("all agents that had it run {good} again")),
        newer(resolved),
        how_to_retry(resolved, failure),
    ];
    Some((Reason::RolledBack, joined(said)))
}

/// What there is to say, as one sentence.
fn joined(said: impl IntoIterator<Item = Option<String>>) -> String {
    said.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Why agents cannot go back to the last good version.
pub(super) fn refuses_the_old(decision: &Decision) -> Option<Problem> {
    Some((
        Reason::DowngradeRefused,
        format!(
            "{}; the other agents are left as they are. If the host refuses the older agent, take a newer version (it \
            is taken automatically, or pin it in spec.update.version), or remove the agent from that node with its \
            uninstall script, and delete the Pod. If the node keeps both versions from starting, correct that first",
            refused(decision)?.said(&WORDS)
        ),
    ))
}

/// A way back that ended where it was tried.
fn refused(decision: &Decision) -> Option<&WaitingOn> {
    let mut waits = decision.plan.report.waiting_on.iter();
    waits.find(|waits| matches!(waits, WaitingOn::Back { refused: Some(_), .. }))
}

/// How a version that failed is tried again, by what the spec names already. What has no version cannot be named.
fn how_to_retry(resolved: &Resolved, failure: &rollout::Failure<Revision>) -> Option<String> {
    if failure.by_hand {
        return Some("to try it again, remove spec.rollout.reject".to_owned());
    }
    let failed = failure.revision.version?;
    let field = if resolved.retry == Some(failed) {
        "remove spec.rollout.retry, and set it again".to_owned()
    } else {
        format!("spec.rollout.retry: {failed}")
    };
    Some(format!("to try it again: {} ({field})", plugin("retry", resolved)))
}

/// A verb of the kubectl plugin, of this object.
fn plugin(verb: &str, resolved: &Resolved) -> String {
    format!("kubectl oneagent -n {} {verb} {}", resolved.namespace, resolved.name)
}

/// How nodes that have what failed get another agent by a person's word.
fn how_to_leave(resolved: &Resolved, decision: &Decision, failure: &rollout::Failure<Revision>) -> Option<String> {
    let good = decision.memory.last_good_version();
    if resolved.policy.rolls_back && decision.memory.rollout.last_good.is_some() {
        return None;
    }
    let said = match (resolved.wish, good) {
        (Wish::Image { .. }, _) => "or choose another image".to_owned(),
        (Wish::UserUrl, _) => "or choose another installer".to_owned(),
        (_, Some(good)) if failure.revision.version == Some(good) => {
            "or change the Pod template back in the spec".to_owned()
        }
        (Wish::AgentVersion(wish), good) if good.is_none_or(|good| !wish.admits(&good)) => {
            "or change spec.agentVersion".to_owned()
        }
        (_, Some(good)) => {
            format!("to put {good} on these nodes: {} (spec.update.version)", plugin("rollback", resolved))
        }
        (_, None) => "or pin a good one (spec.update.version)".to_owned(),
    };
    Some(said)
}

/// That agents go back without a person's word.
fn goes_back(resolved: &Resolved, seen: &Observed, decision: &Decision) -> Option<String> {
    let is_possible = decision.memory.rollout.last_good.is_some() && refused(decision).is_none();
    let is_held = resolved.held(seen.stopped).is_some();
    (resolved.policy.rolls_back && is_possible).then(|| {
        let when = if is_held { " once the rollout is resumed" } else { "" };
        format!("agents that have it go back to the last good version{when}")
    })
}

/// That a newer version needs no person.
fn newer(resolved: &Resolved) -> Option<String> {
    let is_taken = resolved.wish == Wish::Newest && !resolved.frozen;
    is_taken.then(|| "a newer version is taken automatically".to_owned())
}
