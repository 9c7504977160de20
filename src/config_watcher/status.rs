//! Status: what was found and what came of it, in the words of conditions.
//!
//! Pure. Must not decide what is done.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::change::Tracked;
use super::observe::Content;
use super::places::{By, WORDS};
use super::plan::{DEBOUNCING, Plan};
use super::resolve::Resolved;
use crate::api::condition::{Transition, merge, timestamp};
use crate::api::config_watcher::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::config_watcher::{ConfigWatcher, ConfigWatcherStatus, PendingStatus, PodCounts};
use crate::api::rollout::RolloutProgress;
use crate::rollout::{Bucket, Cause, Report, State, Workload};

/// How many Pods are named of each count.
const EXAMPLES: usize = 5;

/// What a status is made from.
pub struct StatusFacts<'p> {
    pub object: &'p ConfigWatcher,
    pub resolved: &'p Resolved,
    pub read: &'p Content,
    pub plan: &'p Plan,
    /// What keeps failing.
    pub complaint: Option<&'p (R, String)>,
}

/// The status, and what changed in it.
pub fn status(
    facts: &StatusFacts<'_>,
    before: &ConfigWatcherStatus,
    now: DateTime<Utc>,
) -> Result<(ConfigWatcherStatus, Vec<Transition>), serde_json::Error> {
    let StatusFacts { object, plan, .. } = facts;
    let waiting = waiting_on(facts);
    let findings = findings(facts, &waiting);
    let (conditions, transitions) = merge(&before.conditions, &findings, object.metadata.generation, now);
    let tracked = plan.memory.tracked.as_ref();
    let pending = tracked.and_then(|tracked| tracked.pending.as_ref());
    let state = match plan.decision.report.state {
        _ if plan.debouncing.is_some() => State::Held,
        State::Rolling if is_blocked(&plan.decision.report) => State::Held,
        state => state,
    };
    let (started_at, finished_at) = plan.memory.engine.phase.span();
    let status = ConfigWatcherStatus {
        operator_namespace: before.operator_namespace.clone(),
        observed_generation: object.metadata.generation,
        applied_hash: tracked.map(|tracked| &tracked.applied).filter(|c| !c.is_absent()).map(|c| c.hash.clone()),
        changed_at: tracked
            .map(Tracked::desired)
            .filter(|config| !config.is_absent())
            .map(|config| timestamp(config.changed_at)),
        pending: pending.map(|pending| PendingStatus {
            hash: pending.config.hash.clone(),
            changed_at: timestamp(pending.config.changed_at),
        }),
        pods: Some(counts(plan)),
        rollout: Some(RolloutProgress {
            state: state.to_string(),
            started_at: started_at.map(timestamp),
            finished_at: finished_at.map(timestamp),
            waiting_on: waiting,
            failure: plan.memory.engine.failure.as_ref().map(|failure| failure.message.clone()),
            memory: Some(serde_json::to_value(&plan.memory)?),
        }),
        conditions,
    };
    Ok((status, transitions))
}

/// What is waited for: what may not be evicted first.
fn waiting_on(facts: &StatusFacts<'_>) -> Vec<String> {
    let report = &facts.plan.decision.report;
    let mut waiting: Vec<String> =
        blocked(report).into_iter().chain(report.waiting_on.iter().map(|one| one.said(&WORDS))).collect();
    if facts.plan.debouncing.is_some() && waiting.is_empty() {
        waiting.push(DEBOUNCING.why.into_owned());
    }
    waiting.truncate(EXAMPLES);
    waiting
}

/// Each cause once, with the Pods that it concerns.
fn blocked(report: &Report) -> Vec<String> {
    let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in &report.postponed {
        match causes.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => causes.push((why, vec![name])),
        }
    }
    let sentence = |(why, names): (&str, Vec<&str>)| {
        format!("{} {}: {why}", if names.len() == 1 { "Pod" } else { "Pods" }, names.join(", "))
    };
    causes.into_iter().map(sentence).collect()
}

fn counts(plan: &Plan) -> PodCounts {
    let report = &plan.decision.report;
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let skipped = &plan.survey.skipped;
    let mut examples = BTreeMap::new();
    let mut name = |key: &str, names: Vec<String>| {
        if !names.is_empty() {
            examples.insert(key.to_owned(), names);
        }
    };
    let pair = |name: &dyn std::fmt::Display, why: &dyn std::fmt::Display| format!("{name} ({why})");
    name("blocked", report.postponed.iter().map(|(pod, why)| pair(pod, why)).collect());
    name("skipped", skipped.iter().take(EXAMPLES).map(|(pod, why)| pair(pod, why)).collect());
    name("unavailable", report.troubled.iter().map(|(pod, why)| pair(pod, why)).collect());
    PodCounts {
        selected: number(report.selected),
        updated: number(report.updated),
        outdated: number(report.outdated),
        blocked: number(report.waiting),
        skipped: number(skipped.len()),
        unavailable: number(report.selected - report.running),
        progress: format!("{}/{}", report.updated, report.selected),
        examples,
    }
}

fn findings(facts: &StatusFacts<'_>, waiting: &[String]) -> Vec<Finding> {
    let StatusFacts { resolved, plan, .. } = facts;
    let namespace = &resolved.namespace;
    let report = &plan.decision.report;
    let name = format!("ConfigMap {}/{}", resolved.namespace, resolved.config_map);
    let waits = if waiting.is_empty() { String::new() } else { format!("; waiting: {}", waiting.join("; ")) };
    let trouble = trouble(facts, &name);
    let debouncing = format!(
        "the data of {name} has changed; Pods are replaced once it has stayed the same for {} s (spec.debounceSeconds)",
        resolved.debounce.num_seconds()
    );
    // Those that are terminating or not created yet are no Pods that the selector matches, and are missing as well.
    let lacking: usize = plan.survey.workloads.iter().map(Workload::unavailable).sum();
    let absent = lacking.saturating_sub(report.selected - report.running);
    let progress = format!("{} of {} Pods are newer than the change", report.updated, report.selected);
    let ready = if let Some((reason, message)) = &trouble {
        Finding::new(C::Ready, false, *reason, message.clone())
    } else if report.selected == 0 && absent == 0 {
        let labels: Vec<String> = resolved.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let message = format!(
            "no Pod of namespace {namespace} that could be replaced has labels {}; {} were left alone: see \
            status.pods.examples, and kubectl -n {namespace} get pods --show-labels; or their workload has 0 replicas",
            labels.join(","),
            plan.survey.skipped.len(),
        );
        Finding::new(C::Ready, false, R::NoPodsSelected, message)
    } else if plan.debouncing.is_some() {
        Finding::new(C::Ready, false, R::Debouncing, debouncing.clone())
    } else if report.outdated > 0 {
        let reason = match report.state {
            State::Paused => R::Paused,
            State::Stopped => R::Stopped,
            _ if is_blocked(report) => R::Blocked,
            State::Held => R::Held,
            _ => R::RollingOut,
        };
        Finding::new(C::Ready, false, reason, format!("{progress}{waits}"))
    } else if report.updated < report.selected || absent > 0 || report.state == State::Rolling {
        let named: Vec<String> = report.troubled.iter().map(|(pod, why)| format!("{pod} ({why})")).collect();
        let reason = if report.state == State::Rolling { R::RollingOut } else { R::PodsUnavailable };
        let named = if named.is_empty() { waits.clone() } else { format!(": {}", named.join("; ")) };
        let (away, all) = (report.selected - report.updated + absent, report.selected + absent);
        Finding::new(C::Ready, false, reason, format!("{away} of {all} Pods are not available{named}"))
    } else {
        let message = format!(
            "none of {} Pods is older than the last change of {name} that was seen, and all are available",
            report.selected
        );
        Finding::new(C::Ready, true, R::AllUpdated, message)
    };
    let progressing = if plan.debouncing.is_some() {
        Finding::new(C::Progressing, true, R::Debouncing, debouncing)
    } else if report.state == State::Rolling
        && !is_blocked(report)
        && trouble.as_ref().is_none_or(|(reason, _)| *reason == R::EvictionRefused)
    {
        Finding::new(C::Progressing, true, R::RollingOut, format!("{progress}{waits}"))
    } else {
        Finding::new(C::Progressing, false, ready.reason, "no Pod is being replaced")
    };
    let degraded = match trouble.or_else(|| deadlock(plan)).or_else(|| external_trouble(plan)) {
        Some((reason, message)) => Finding::new(C::Degraded, true, reason, message),
        None => Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention"),
    };
    vec![ready, progressing, degraded]
}

/// Whether all that is left may not be replaced now.
fn is_blocked(report: &Report) -> bool {
    report.outdated > 0 && report.waiting == report.outdated
}

/// What needs a human before anything can go on.
fn trouble(facts: &StatusFacts<'_>, name: &str) -> Option<(R, String)> {
    match facts.read {
        Content::Absent => {
            let message =
                format!("{name} does not exist: create it, or correct spec.configMap; no Pod is replaced meanwhile");
            return Some((R::ConfigMapNotFound, message));
        }
        Content::Forbidden(why) => {
            let message =
                format!("{name} cannot be read: {why}; grant the operator get, list and watch on ConfigMaps there");
            return Some((R::ConfigMapUnreadable, message));
        }
        Content::Found(_) => {}
    }
    let Resolved { namespace, policy, .. } = facts.resolved;
    if let Some(problem) = facts.complaint {
        return Some(problem.clone());
    }
    let obstacle = facts.plan.survey.obstacle.as_ref().filter(|obstacle| obstacle.by == By::Refusal);
    if let Some(obstacle) = obstacle {
        let message = format!(
            "{}; other Pods have their turn, and it is tried again within minutes: grant the operator create on \
            pods/eviction in namespace {namespace}, or change the policy or webhook that refuses it",
            obstacle.why
        );
        return Some((R::EvictionRefused, message));
    }
    let engine = &facts.plan.memory.engine;
    let is_failed = facts.plan.decision.report.state == State::Failed;
    let failure = engine.failure.as_ref().filter(|_| is_failed)?;
    let wait = policy.wait_ready.num_seconds();
    let by_itself = if engine.is_final() {
        "its Pods recovered twice before, so their recovery does not lift this any more".to_owned()
    } else {
        let workloads = failure.workloads.iter().take(EXAMPLES).cloned().collect::<Vec<_>>().join(", ");
        format!("it continues once all Pods of {workloads} have been available for {wait} s")
    };
    let message = format!(
        "{}; no other Pod is replaced; {by_itself}; correct the data of {name}, or edit the spec to have this data \
        tried again: a longer spec.rollout.waitReadySeconds (now {wait}), or a new text in spec.rollout.retry",
        failure.message
    );
    Some((R::RolloutFailed, message))
}

/// Broken Pods that a PodDisruptionBudget keeps from what may make them Ready.
fn deadlock(plan: &Plan) -> Option<(R, String)> {
    let obstacle = plan.survey.obstacle.as_ref().filter(|obstacle| obstacle.by == By::Deadlock)?;
    Some((R::Blocked, obstacle.why.clone()))
}

/// Pods that do not start for a cause that is not the ConfigMap's.
fn external_trouble(plan: &Plan) -> Option<(R, String)> {
    let refused = plan.survey.workloads.iter().find_map(|workload| {
        let why = workload.refused.as_ref()?;
        Some(format!("the API server refuses new Pods of {}: {why}", workload.name))
    });
    let cannot_start = || {
        let is_external =
            |(_, cause): &&(String, Cause)| cause.bucket().is_external() || cause.bucket() == Bucket::Capacity;
        let (pod, cause) = plan.decision.report.troubled.iter().find(is_external)?;
        Some(format!("Pod {pod} cannot start: {cause}"))
    };
    refused.or_else(cannot_start).map(|message| (R::PodsRefused, message))
}
