//! Plan: which Pods are replaced now, and what keeps the others.
//!
//! Pure. Must not delete one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::memory::{Memory, Template};
use super::observe::{Current, Seen};
use super::places::{WORDS, places};
use super::revision::{Pod, Revision, unknown};
use super::rollback::{Back, judge};
use super::source::writers_since;
use super::verdict::{Around, Problem, hands_off};
use crate::api::daemonset_rollout::condition::Reason;
use crate::fleet::finding::no_canary;
use crate::k8s::placement::Verdict;
use crate::kernel::kind::Planned;
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Desired, Hold, Inventory, Policy, Share, State, WaitingOn, Word};

/// The stop for the whole cluster.
pub const STOPPED: Hold = Hold {
    state: State::Stopped,
    why: Cow::Borrowed(
        "ConfigMap daemonset-rollout-operator in the operator's namespace has key stop; to continue, delete the key, \
        or use kubectl oneagent resume --all --kind daemonsetrollout",
    ),
};
/// Its DaemonSet may not be served.
const HANDS_OFF: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed("the Pods of this DaemonSet are not replaced; condition Degraded says why"),
};
/// The template changed a moment ago.
const SETTLING: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed("the template changed a moment ago; Pods are replaced once it has stayed the same for a while"),
};

/// What its controller counts is believed after so long: until then one of the two watches may be behind.
const MISCOUNTED: TimeDelta = TimeDelta::minutes(1);

/// What is to be done.
pub struct Plan {
    /// What the engine says; what it remembers is below.
    pub decision: rollout::Plan<Revision>,
    pub memory: Memory,
    pub guard: Guard,
    pub ledger: Ledger,
    /// The state of the template.
    pub back: Back,
    /// Why no Pod may be replaced.
    pub hands_off: Option<Problem>,
    /// What else a human must fix, most important first.
    pub problems: Vec<Problem>,
    /// Until when the template must stay the same.
    pub settles_at: Option<DateTime<Utc>>,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}

impl Planned for Plan {
    type Memory = Memory;

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    fn has_steps(&self) -> bool {
        !self.decision.steps.is_empty() || matches!(self.back, Back::Due(_))
    }
}

/// Plans one reconcile.
#[must_use]
pub fn plan(memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> Plan {
    let (as_one, as_shown) = (seen.as_one_revision(memory), seen);
    let seen = as_one.as_ref().unwrap_or(seen);
    let Seen { resolved, set, revisions, .. } = seen;
    let (set, known) = (set.as_deref(), revisions.known());
    let uid = set.and_then(|set| set.metadata.uid.as_deref());
    let mut memory = memory.clone().retrying(resolved.retry.as_ref(), now);
    if let Some(uid) = uid {
        memory = memory.of(uid);
        if let Some(known) = known {
            memory = memory.seeing(uid, &known.current, now);
        }
    }
    let around = Around { names: &seen.names, older: seen.older.as_deref() };
    let hands_off = hands_off(resolved, set, around).or_else(|| unread(seen));
    let template = memory.template.clone();
    let settles_at = template.as_ref().map(|template| template.settles_at(resolved.debounce)).filter(|at| *at > now);
    let unstable_until = template.as_ref().and_then(Template::is_unstable_until).filter(|until| *until > now);
    let hold = if seen.stopped { Some(STOPPED) } else { resolved.policy.hold.clone() };
    let hold = hold.or(hands_off.is_some().then_some(HANDS_OFF)).or(settles_at.map(|_| SETTLING));
    let said = |current: &Revision| Word::of(&current.0, resolved.promote.as_ref(), resolved.reject.as_ref());
    let word = known.and_then(|known| said(&known.current));
    let trusted_at = seen.miscounted.map(|(since, _)| since + MISCOUNTED);
    let fewer = seen.miscounted.filter(|_| trusted_at.is_some_and(|at| at <= now)).map(|(_, count)| count);
    let rolls_back = hold.is_none() && is_broken_still(&memory, seen, now);
    let policy = Policy { hold, word, rolls_back, budget: budget(seen, fewer), ..resolved.policy.clone() };
    let desired = known.map(|known| Desired { revision: known.current.clone(), insists: false });
    if memory.engine.last_good.is_none() {
        memory.engine.last_good = known.and_then(|known| most_common(seen, &known.current));
    }
    let places = places(seen, &memory);
    let inventory = Inventory {
        template: desired.as_ref().map(|desired| &desired.revision),
        writes_template: false,
        missing: &seen.missing,
        in_contact_since: seen.in_contact_since,
        refused: seen.refused.as_deref(),
        ..Inventory::plain(&places, WORDS, &memory.engine, seen.deciding_since)
    };
    let decided = rollout::decide(&policy, desired.as_ref(), &inventory, &seen.ledger, now);
    drop(places);
    let mut decision = decided.plan;
    let engine = std::mem::take(&mut decision.memory);
    let mut problems = Vec::new();
    if let (Some(_), Some(template), Some(set)) = (unstable_until, &template, set) {
        problems.push(unstable(seen, &writers_since(set, template.unstable_since())));
    }
    problems.extend(ignored(seen));
    problems.extend(unheard(as_shown, &decision, &engine));
    problems.extend(no_canary(&resolved.canary, &decision.report).map(|why| (Reason::InvalidSpec, why)));
    let next =
        [decision.next, settles_at, unstable_until, trusted_at.filter(|at| *at > now)].into_iter().flatten().min();
    let mut memory = Memory { engine, ..memory };
    let back = judge(&mut memory, seen, decision.report.state == State::Failed && policy.hold.is_none());
    let (guard, ledger) = (decided.guard, decided.ledger);
    Plan { decision, memory, guard, ledger, back, hands_off, problems, settles_at, next }
}

/// Whether the template is the good one again, Pods of the one that failed do not run, and no window is open: where no
/// agent runs none waits for one.
fn is_broken_still(memory: &Memory, seen: &Seen, now: DateTime<Utc>) -> bool {
    let (engine, current) = (&memory.engine, seen.revisions.known().map(|known| &known.current));
    let Some(failed) = engine.failure.as_ref().map(|failure| &failure.revision) else { return false };
    let is_good_again = Some(failed) != current && engine.last_good.as_ref() == current;
    let wait_ready = seen.resolved.policy.wait_ready;
    let is_late = |pod: &Pod| pod.unready_since.unwrap_or(pod.created) + wait_ready <= now;
    let fails = |pod: &Pod| pod.ready_since.is_none() && (pod.trouble.is_some() || is_late(pod));
    let is_broken = |pod: &Pod| fails(pod) && pod.revision.as_ref() == Some(failed);
    is_good_again
        && seen.resolved.policy.calendar.closed(now).is_some()
        && seen.pods.iter().any(|pod| !pod.deleting && is_broken(pod))
}

/// The budget; of fewer nodes, where the DaemonSet's controller has counted fewer for long enough.
fn budget(seen: &Seen, fewer: Option<usize>) -> Share {
    let budget = seen.resolved.policy.budget;
    let selected = seen.nodes.iter().filter(|node| seen.placement.verdict(node) == Verdict::Selected).count();
    fewer
        .filter(|count| *count < selected)
        .map_or(budget, |count| Share::Count(u32::try_from(budget.of(count)).unwrap_or(u32::MAX)))
}

/// The revision that most available Pods have, except this one: where nothing was completed by us, it is the good one.
fn most_common(seen: &Seen, current: &Revision) -> Option<Revision> {
    let available = seen.pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.deleting);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for revision in available.filter_map(|pod| pod.revision.as_ref()).filter(|revision| *revision != current) {
        *counts.entry(&revision.0).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(hash, _)| Revision(hash.to_owned()))
}

/// The revisions may not be read.
fn unread(seen: &Seen) -> Option<Problem> {
    let Current::Unread(why) = &seen.revisions else { return None };
    let namespace = &seen.resolved.namespace;
    let message = format!(
        "the revisions of the DaemonSet cannot be read: {why}; grant the operator list of controllerrevisions.apps in \
        namespace {namespace}: until then it cannot tell which Pods are outdated"
    );
    Some((Reason::RightsMissing, message))
}

fn unstable(seen: &Seen, writers: &[&str]) -> Problem {
    let changes = seen.resolved.daemon_set.clone();
    let by = if writers.is_empty() { String::new() } else { format!("; it is written by {}", writers.join(", ")) };
    let message = format!(
        "the template of DaemonSet {changes} changes again and again, and must stay the same for longer each \
        time{by}: let one of them write it"
    );
    (Reason::TemplateUnstable, message)
}

/// A field that names an unknown revision, while one is waited for: most likely a mistyped hash.
fn unheard(seen: &Seen, decision: &rollout::Plan<Revision>, engine: &rollout::Memory<Revision>) -> Option<Problem> {
    let (resolved, known) = (&seen.resolved, seen.revisions.known()?);
    let has_failed = decision.report.state == State::Failed && engine.failure.is_some();
    let is_awaited = decision.report.waiting_on.iter().any(|waits| matches!(waits, WaitingOn::Promotion(_)));
    let retry = resolved.retry.as_ref().filter(|_| has_failed).map(|hash| ("retry", hash));
    let promote = resolved.promote.as_ref().filter(|_| is_awaited).map(|hash| ("promote", hash));
    let reject = resolved.reject.as_ref().filter(|_| is_awaited).map(|hash| ("reject", hash));
    let is_unknown = |(_, hash): &(&str, &String)| !known.numbers.contains_key(*hash);
    let (field, hash) = [retry, promote, reject].into_iter().flatten().find(is_unknown)?;
    let message = format!(
        "spec.rollout.{field} is {hash}, and DaemonSet {}/{} has no revision of that hash: the current one is {}; \
        correct or remove the field",
        resolved.namespace, resolved.daemon_set, known.current.0
    );
    Some((Reason::InvalidSpec, message))
}

/// Keys of spec.ignore that the template lacks.
fn ignored(seen: &Seen) -> Option<Problem> {
    let unknown = unknown(seen.set.as_deref()?, &seen.resolved.ignore);
    let first = unknown.first()?;
    let at = seen.resolved.ignore.iter().position(|key| key == first)?;
    let message = format!(
        "spec.ignore[{at}] is {first}, and the Pod template has neither a label nor an annotation of that name: \
        correct or remove it"
    );
    Some((Reason::InvalidSpec, message))
}
