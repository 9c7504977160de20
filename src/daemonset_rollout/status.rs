//! Status: what was found and what came of it, in the words of conditions.
//!
//! Pure. The rollout's sentences come from `rollout::report`. Must not decide what is done.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;

use super::memory::{self, Rollback};
use super::observe::{Current, Seen};
use super::places::WORDS;
use super::plan::Plan;
use super::revision::{Revision, is_seen};
use super::rollback::Back;
use super::verdict::{Problem, strategy};
use crate::api::condition::{Transition, merge, timestamp};
use crate::api::daemonset_rollout::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::daemonset_rollout::{DaemonSetRollout, DaemonSetRolloutStatus, DaemonSetStatus};
use crate::api::rollout::{FailureStatus, RolloutStatus};
use crate::fleet::closed::UNTOLERATED;
use crate::fleet::counts::{counts, to_the_minute};
use crate::fleet::finding::{awaited, first_of, pairs};
use crate::fleet::milestones::{Change, Naming};
use crate::fleet::refusal;
use crate::k8s::source::{owner, source};
use crate::rollout::{Bucket, Report, State, WaitingOn};

/// How many images are named.
const IMAGES: usize = 5;

/// What a status is made from.
pub struct StatusFacts<'p> {
    pub object: &'p DaemonSetRollout,
    pub seen: &'p Seen,
    pub plan: &'p Plan,
    /// What keeps failing.
    pub complaint: Option<&'p Problem>,
}

impl StatusFacts<'_> {
    fn report(&self) -> &Report {
        &self.plan.decision.report
    }

    /// What a human must fix, most important first.
    fn problems(&self) -> Vec<Problem> {
        let Self { seen, plan, complaint, .. } = self;
        let undeletable = first_of(&seen.undeletable).map(|why| {
            let message = format!(
                "{why}; other Pods have their turn, and it is tried again within minutes: grant the operator delete on \
                Pods there, or fix the policy or webhook"
            );
            (R::DeletionRefused, message)
        });
        let first = complaint.iter().copied().chain(&plan.hands_off).cloned();
        first.chain(failure(self)).chain(refused(self)).chain(undeletable).chain(plan.problems.clone()).collect()
    }
}

/// The status, and what changed in it.
pub fn status(
    facts: &StatusFacts<'_>,
    before: &DaemonSetRolloutStatus,
    now: DateTime<Utc>,
) -> Result<(DaemonSetRolloutStatus, Vec<Transition>), serde_json::Error> {
    let StatusFacts { object, seen, plan, .. } = facts;
    let problems = facts.problems();
    let generation = object.metadata.generation;
    let (conditions, mut transitions) = merge(&before.conditions, &findings(facts, &problems), generation, now);
    let remembered = memory::read(before).engine;
    let change = Change {
        naming: Hashes,
        desired: seen.revisions.known().map(|known| &known.current),
        was: before.rollout.as_ref(),
        before: &remembered,
        memory: &plan.memory.engine,
        report: facts.report(),
        policy: &seen.resolved.policy,
        budget: plan.decision.budget,
        now,
    };
    let (told, history) = change.milestones();
    transitions.splice(0..0, told);
    let status = DaemonSetRolloutStatus {
        operator_namespace: before.operator_namespace.clone(),
        observed_generation: generation,
        daemon_set: seen.set.as_deref().map(|set| daemon_set(set, seen)),
        nodes: Some(counts(&plan.decision.report, before.nodes.as_ref())),
        rollout: Some(RolloutStatus { history, ..rollout(facts)? }),
        conditions,
    };
    Ok((status, transitions))
}

/// What the milestones call revisions: by their hash.
struct Hashes;

impl Naming for Hashes {
    type Revision = Revision;
    const PODS: (&'static str, &'static str) = ("Pods", "Pods");

    fn named(&self, revision: &Revision) -> String {
        revision.to_string()
    }

    fn short(&self, revision: &Revision) -> Option<String> {
        Some(revision.0.clone())
    }

    fn changed(&self, revision: Option<&Revision>) -> String {
        revision.map_or_else(|| "the new revision".to_owned(), ToString::to_string)
    }
}

fn daemon_set(set: &DaemonSet, seen: &Seen) -> DaemonSetStatus {
    let containers = set.spec.iter().filter_map(|spec| spec.template.spec.as_ref()).flat_map(|spec| &spec.containers);
    DaemonSetStatus {
        uid: set.metadata.uid.clone().unwrap_or_default(),
        generation: set.metadata.generation,
        revision: seen.revisions.known().map(|known| known.current.0.clone()),
        images: containers.filter_map(|container| container.image.clone()).take(IMAGES).collect(),
        strategy: strategy(set).to_owned(),
        desired_number_scheduled: is_seen(set)
            .then(|| set.status.as_ref().map(|status| status.desired_number_scheduled))
            .flatten(),
        owner: owner(&set.metadata),
    }
}

fn rollout(facts: &StatusFacts<'_>) -> Result<RolloutStatus, serde_json::Error> {
    let (report, plan) = (facts.report(), facts.plan);
    let engine = &plan.memory.engine;
    let (started_at, finished_at) = engine.phase.span();
    let to = facts.seen.revisions.known().map(|known| &known.current);
    let from = engine.from.as_ref().filter(|_| engine.started().is_some());
    Ok(RolloutStatus {
        state: report.state.to_string(),
        from: from.map(|good| good.0.clone()),
        to: to.map(|revision| revision.0.clone()),
        started_at: started_at.map(timestamp),
        finished_at: finished_at.map(timestamp),
        expected_finish: report.finish.map(to_the_minute),
        waiting_on: report.waiting_on.iter().map(|one| one.said(&WORDS)).collect(),
        budget: i32::try_from(plan.decision.budget).ok(),
        last_good_hash: engine.last_good.as_ref().map(|good| good.0.clone()),
        failure: engine.failure.as_ref().map(|failure| FailureStatus {
            hash: failure.revision.0.clone(),
            message: failure.message.clone(),
            nodes: failure.places.clone(),
            ..FailureStatus::default()
        }),
        memory: Some(serde_json::to_value(&plan.memory)?),
        ..RolloutStatus::default()
    })
}

/// The current revision failed: what is rolled back, and what is not.
fn failure(facts: &StatusFacts<'_>) -> Option<Problem> {
    let engine = &facts.plan.memory.engine;
    if let Back::Done(Rollback { failed, to, .. }) = &facts.plan.back {
        let message = format!(
            "{failed} failed, and the template of {to} was put back: correct the template where it comes from before \
            the next deployment"
        );
        let ends = |waits: &&WaitingOn| matches!(waits, WaitingOn::Back { refused: Some(_), .. });
        return Some(match facts.report().waiting_on.iter().find(ends) {
            Some(refused) => (R::DowngradeRefused, format!("{}; {message}", refused.said(&WORDS))),
            None => (R::RolledBack, message),
        });
    }
    // What was reverted needs no revert.
    let current = facts.seen.revisions.known().map(|known| &known.alike);
    let is_current = |failed: &Revision| current.is_none_or(|alike| alike.contains(&failed.0));
    let failure = engine.failure.as_ref().filter(|_| facts.report().state == State::Failed);
    let failure = failure.filter(|failure| is_current(&failure.revision))?;
    let (seen, set) = (facts.seen, facts.seen.set.as_deref()?);
    let number = engine.last_good.as_ref().and_then(|good| seen.revisions.known()?.numbers.get(&good.0));
    let to = number.map(|number| format!(" --to-revision={number}")).unwrap_or_default();
    let resolved = &seen.resolved;
    let back = match source(&set.metadata) {
        Some(source) => format!("revert it where it comes from, which is {source}"),
        None => format!("kubectl -n {} rollout undo daemonset/{}{to}", resolved.namespace, resolved.daemon_set),
    };
    let (namespace, name, hash) = (&resolved.namespace, &resolved.name, &failure.revision.0);
    let again = if failure.by_hand {
        "remove spec.rollout.reject".to_owned()
    } else {
        format!("kubectl oneagent -n {namespace} retry {name} --kind daemonsetrollout (spec.rollout.retry: {hash})")
    };
    let (reason, template) = match &facts.plan.back {
        Back::Undone(writers) => {
            let by = if writers.is_empty() { String::new() } else { format!(" by {}", writers.join(" or ")) };
            (R::RollbackUndone, format!("; the last good template was put back, and undone{by}"))
        }
        Back::Refused(why) => (R::RollbackRefused, format!("; the last good template is not put back: {why}")),
        _ => (R::RolloutFailed, String::new()),
    };
    let message = format!(
        "{}{template}; no further Pod is replaced, and nodes that join get it as the DaemonSet has it; to go back: \
        {back}; to try it again: {again}",
        failure.message
    );
    Some((reason, message))
}

/// Pods that do not start for a cause that is not the template's.
fn refused(facts: &StatusFacts<'_>) -> Option<Problem> {
    let resolved = &facts.seen.resolved;
    if let Some(why) = &facts.seen.refused {
        let template = facts.seen.set.as_deref().and_then(|set| set.spec.as_ref()?.template.spec.as_ref());
        let account = template.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let why = refusal::read(why, "Pod", &resolved.namespace, account).full;
        return Some((R::PodsRefused, format!("the API server refuses new Pods: {why}")));
    }
    let troubled = &facts.report().troubled;
    let is_external = |bucket: Bucket| bucket.is_external() || bucket == Bucket::Capacity;
    let (node, cause) = troubled.iter().find(|(_, cause)| is_external(cause.bucket()))?;
    Some((R::PodsRefused, format!("the Pod of node {node} cannot start: {cause}")))
}

fn findings(facts: &StatusFacts<'_>, problems: &[Problem]) -> Vec<Finding> {
    let degraded = match problems.first() {
        None => Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention"),
        Some((reason, _)) => {
            let all: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            Finding::new(C::Degraded, true, *reason, all.join("; "))
        }
    };
    vec![ready(facts), progressing(facts), degraded]
}

/// Why the state of the fleet is unknown.
fn unknown(facts: &StatusFacts<'_>) -> Option<Problem> {
    let (seen, plan) = (facts.seen, facts.plan);
    let is_unknown = seen.set.is_none() || matches!(seen.revisions, Current::Unread(_));
    if let Some(problem) = plan.hands_off.as_ref().filter(|_| is_unknown) {
        return Some(problem.clone());
    }
    (seen.revisions == Current::Unwritten).then(|| (R::TemplateSettling, WORDS.undecided.to_owned()))
}

fn ready(facts: &StatusFacts<'_>) -> Finding {
    let (report, plan) = (facts.report(), facts.plan);
    let not = |reason, message: String| Finding::new(C::Ready, false, reason, message);
    if let Some((reason, message)) = unknown(facts) {
        return not(reason, message);
    }
    if report.selected == 0 {
        let tainted = report.closed.get(UNTOLERATED).map(|nodes| {
            format!(
                "; {} nodes match, such as {}, with a taint that it does not tolerate",
                nodes.count,
                nodes.such_as()
            )
        });
        let why = "no node matches the node selector, affinity and tolerations of the DaemonSet's template";
        return not(R::NoNodesSelected, format!("{why}{}", tainted.unwrap_or_default()));
    }
    if report.lacking > 0 {
        let named = [report.troubled.as_slice(), &report.ceased].concat();
        let reason = if named.is_empty() { R::RollingOut } else { R::PodsUnavailable };
        let named = if named.is_empty() { String::new() } else { format!(": {}", pairs(&named)) };
        return not(reason, format!("{} of {} nodes have no Ready Pod{named}", report.lacking, report.selected));
    }
    let progress = format!("{} of {} nodes run the current revision", report.updated, report.selected);
    if report.outdated > 0 || plan.memory.engine.failure.is_some() {
        let reason = match (report.state, &plan.hands_off) {
            (State::Held, Some((reason, _))) => *reason,
            (State::Held, None) if plan.settles_at.is_some() => R::TemplateSettling,
            (State::Paused, _) => R::Paused,
            (State::Stopped, _) => R::Stopped,
            (State::Failed, _) => R::RolloutFailed,
            (State::Held, _) => R::Held,
            (State::Rolling, _) if promotion(facts).is_some() => R::AwaitingPromotion,
            (State::Rolling, _) => R::RollingOut,
            _ if report.outdated == 0 => R::RolloutFailed,
            _ => R::Outdated,
        };
        let waits = pairs(&report.postponed);
        let waits = if waits.is_empty() { waits } else { format!("; waiting for their node: {waits}") };
        let silent = report.such_as(Bucket::NodeNotReady);
        let silent = if silent.is_empty() { silent } else { format!("; NotReady: {silent}") };
        return not(reason, format!("{progress}{waits}{silent}"));
    }
    if report.running == 0 || report.joining > 0 {
        return not(R::Starting, format!("{} of {} nodes have a Ready Pod", report.running, report.selected));
    }
    let able = report.selected - report.bucket(Bucket::NodeNotReady) - report.bucket(Bucket::NodeBusy);
    let message = format!("all {able} nodes that can run a Pod run one of the current revision");
    Finding::new(C::Ready, true, R::AllUpdated, message)
}

/// The canaries have soaked, and a person must say what follows.
fn promotion(facts: &StatusFacts<'_>) -> Option<String> {
    let (resolved, current) = (&facts.seen.resolved, &facts.seen.revisions.known()?.current.0);
    let object = (resolved.namespace.as_str(), resolved.name.as_str());
    awaited(&facts.report().waiting_on, &WORDS, "dsr", object, current, resolved.promote.as_deref())
}

/// What a node gets that joins while few nodes try the revision: with a template of our own it would get the last good
/// one.
fn joining(report: &Report) -> &'static str {
    let is_tried =
        |waits: &WaitingOn| matches!(waits, WaitingOn::Canary { .. } | WaitingOn::Promotion(_) | WaitingOn::Trial(_));
    if report.waiting_on.iter().any(is_tried) { "; nodes that join get the new revision at once" } else { "" }
}

fn progressing(facts: &StatusFacts<'_>) -> Finding {
    let (report, plan) = (facts.report(), facts.plan);
    let finding = |holds: bool, reason, message: String| Finding::new(C::Progressing, holds, reason, message);
    let waiting = report.waiting_on.iter().map(|waiting| waiting.said(&WORDS)).collect::<Vec<_>>().join("; ");
    if let Some((reason, message)) = &plan.hands_off {
        return finding(false, *reason, message.clone());
    }
    let progress = || format!("{} of {} nodes run the current revision", report.updated, report.selected);
    match report.state {
        State::Waiting => finding(true, R::TemplateSettling, waiting),
        State::Held if plan.settles_at.is_some() => {
            let until = plan.settles_at.map(timestamp).unwrap_or_default();
            finding(true, R::TemplateSettling, format!("{waiting}: until {until}, if it does"))
        }
        State::Held => finding(true, R::Held, waiting),
        State::Failed | State::RolledBack => finding(false, R::RolloutFailed, waiting),
        State::Paused => finding(false, R::Paused, waiting),
        State::Stopped => finding(false, R::Stopped, waiting),
        State::Rolling if let Some(said) = promotion(facts) => {
            finding(true, R::AwaitingPromotion, format!("{said}{}", joining(report)))
        }
        State::Rolling => {
            let waits = if waiting.is_empty() { String::new() } else { format!("; waiting: {waiting}") };
            finding(true, R::RollingOut, format!("{}{waits}{}", progress(), joining(report)))
        }
        State::Complete if report.joining > 0 => {
            finding(true, R::Starting, format!("{} nodes start their Pods", report.joining))
        }
        State::Complete => finding(false, R::AsExpected, "nothing is under way".to_owned()),
    }
}
