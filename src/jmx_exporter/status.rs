//! Status: what was found and what came of it, in the words of conditions.
//!
//! Pure. Must not decide what is done.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use chrono::{DateTime, Utc};
use strum::EnumMessage as _;

use super::judge::Jvm;
use super::observe::Content;
use super::plan::{Plan, WORDS};
use super::resolve::Resolved;
use super::standing::State;
use crate::api::condition::{Transition, merge, timestamp};
use crate::api::jmx_exporter::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::api::jmx_exporter::{
    ENDPOINTS_AT_MOST, JvmCounts, MetricsEndpoint, PrometheusJmxExporter, PrometheusJmxExporterStatus,
};
use crate::api::rollout::RolloutProgress;
use crate::rollout::{self};

/// How many Pods are named of each reason.
const EXAMPLES: usize = 5;
/// How many things are named that are waited for.
const WAITING: usize = 5;

/// What a status is made from.
pub struct StatusFacts<'p> {
    pub object: &'p PrometheusJmxExporter,
    pub resolved: &'p Resolved,
    pub content: &'p Content,
    pub plan: &'p Plan,
    /// What keeps failing.
    pub complaint: Option<&'p (R, String)>,
}

/// The status, and what changed in it.
pub fn status(
    facts: &StatusFacts<'_>,
    before: &PrometheusJmxExporterStatus,
    now: DateTime<Utc>,
) -> Result<(PrometheusJmxExporterStatus, Vec<Transition>), serde_json::Error> {
    let StatusFacts { object, plan, .. } = facts;
    let report = &plan.decision.plan.report;
    let mut waiting: Vec<String> = report.waiting_on.iter().take(WAITING).map(|one| one.said(&WORDS)).collect();
    waiting.extend(starting(plan));
    waiting.extend(plan.jvms.iter().find_map(|jvm| match jvm.obstacle() {
        Some((obstacle, why)) if obstacle.is_passing() => Some(format!("Pod {}: {why}", jvm.target.name)),
        _ => None,
    }));
    let jvms = counts(plan);
    let findings = findings(facts, &jvms, &waiting);
    let (conditions, transitions) = merge(&before.conditions, &findings, object.metadata.generation, now);
    let (started_at, finished_at) = plan.memory.engine.phase.span();
    let state = match report.state {
        _ if plan.memory.harmed.is_some() => rollout::State::Failed,
        // Pods that have not started yet are no places of the engine's.
        rollout::State::Complete if jvms.waiting > 0 => rollout::State::Waiting,
        state => state,
    };
    let failure = plan.memory.harmed.clone();
    let failure = failure.or_else(|| plan.memory.engine.failure.as_ref().map(|failure| failure.message.clone()));
    let status = PrometheusJmxExporterStatus {
        operator_namespace: before.operator_namespace.clone(),
        observed_generation: object.metadata.generation,
        metrics_endpoints: plan.jvms.iter().filter_map(endpoint).take(ENDPOINTS_AT_MOST).collect(),
        jvms: Some(jvms),
        rollout: Some(RolloutProgress {
            state: state.to_string(),
            started_at: started_at.map(timestamp),
            finished_at: finished_at.map(timestamp),
            waiting_on: waiting,
            failure,
            memory: Some(serde_json::to_value(&plan.memory)?),
        }),
        conditions,
    };
    Ok((status, transitions))
}

fn endpoint(jvm: &Jvm) -> Option<MetricsEndpoint> {
    let export = jvm.exports.as_ref()?;
    Some(MetricsEndpoint { pod: jvm.target.name.to_string(), port: export.port.into() })
}

/// Pods of which no container runs yet, in words.
fn starting(plan: &Plan) -> Option<String> {
    let all: Vec<&str> =
        plan.jvms.iter().filter(|jvm| jvm.state == State::Starting).map(|jvm| &*jvm.target.name).collect();
    let pods = if all.len() == 1 { "Pod" } else { "Pods" };
    let names = all.iter().take(EXAMPLES).copied().collect::<Vec<_>>().join(", ");
    let more = all.len().checked_sub(EXAMPLES + 1).map(|more| format!(" and {} more", more + 1)).unwrap_or_default();
    (!all.is_empty()).then(|| format!("{pods} {names}{more}: no such container runs yet"))
}

fn counts(plan: &Plan) -> JvmCounts {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let count = |is_it: fn(&State) -> bool| number(plan.jvms.iter().filter(|jvm| is_it(&jvm.state)).count());
    let waits = |state: &State| match state {
        State::Starting | State::Waiting | State::Changing => true,
        State::Refused(obstacle, _) => obstacle.is_passing(),
        State::Exporting | State::Failed(..) => false,
    };
    let waiting = number(plan.jvms.iter().filter(|jvm| waits(&jvm.state)).count());
    let (mut reasons, mut examples) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
    for (jvm, (obstacle, why)) in plan.jvms.iter().filter_map(|jvm| Some((jvm, jvm.obstacle()?))) {
        let name = obstacle.to_string();
        *reasons.entry(name.clone()).or_default() += 1;
        let named = examples.entry(name).or_default();
        if named.len() < EXAMPLES {
            let helps = obstacle.get_message().map(|helps| format!("; {helps}")).unwrap_or_default();
            named.push(format!("{}: {why}{helps}", jvm.target.name));
        }
    }
    let others = plan.others.iter().take(EXAMPLES);
    let others: Vec<String> = others
        .map(|(pod, keys)| format!("{pod}: annotation {} has another value, which stays", keys.join(", ")))
        .collect();
    if !others.is_empty() {
        examples.insert("annotations".to_owned(), others);
    }
    let (selected, exporting) = (number(plan.jvms.len()), count(|state| *state == State::Exporting));
    JvmCounts {
        selected,
        exporting,
        waiting,
        refused: selected - exporting - waiting,
        progress: format!("{exporting}/{selected}"),
        reasons,
        examples,
    }
}

fn findings(facts: &StatusFacts<'_>, jvms: &JvmCounts, waiting: &[String]) -> Vec<Finding> {
    let StatusFacts { resolved, plan, .. } = facts;
    let report = &plan.decision.plan.report;
    let waits = if waiting.is_empty() { String::new() } else { format!("; waiting: {}", waiting.join("; ")) };
    let trouble = trouble(facts);
    let earlier = plan.jvms.iter().filter(|jvm| jvm.exports.is_some() && jvm.state != State::Exporting).count();
    let progress = match earlier {
        0 => format!("{} of {} JVMs export", jvms.exporting, jvms.selected),
        _ => {
            format!("{} of {} JVMs export as configured, {earlier} as configured before", jvms.exporting, jvms.selected)
        }
    };
    let refused = refused(jvms, plan);
    let ready = if let Some((reason, message)) = &trouble {
        Finding::new(C::Ready, false, *reason, message.clone())
    } else if jvms.selected == 0 {
        let labels: Vec<String> = resolved.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let message = format!(
            "no Pod of namespace {} has labels {}; see kubectl -n {0} get pods --show-labels",
            resolved.namespace,
            labels.join(","),
        );
        Finding::new(C::Ready, false, R::NoPodsSelected, message)
    } else if jvms.waiting > 0 {
        let reason = match report.state {
            rollout::State::Paused => R::Paused,
            rollout::State::Stopped => R::Stopped,
            rollout::State::Held => R::Held,
            _ => R::Attaching,
        };
        Finding::new(C::Ready, false, reason, format!("{progress}{waits}"))
    } else if let Some(refused) = &refused {
        Finding::new(C::Ready, false, R::JvmsRefused, format!("{progress}; {refused}"))
    } else {
        let message = format!("all {} JVMs export on port {}", jvms.selected, resolved.port);
        Finding::new(C::Ready, true, R::AllExporting, message)
    };
    let is_at_work = ready.reason == R::Attaching;
    let progressing = if is_at_work {
        Finding::new(C::Progressing, true, R::Attaching, format!("{progress}{waits}"))
    } else {
        Finding::new(C::Progressing, false, ready.reason, "no JVM is being attached to")
    };
    let degraded = match trouble.or_else(|| refused.map(|message| (R::JvmsRefused, message))) {
        Some((reason, message)) => Finding::new(C::Degraded, true, reason, message),
        None => Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention"),
    };
    vec![ready, progressing, degraded]
}

/// JVMs that are left alone, in a sentence, with what helps.
fn refused(jvms: &JvmCounts, plan: &Plan) -> Option<String> {
    let names = |reason: &str| {
        let has_it = |jvm: &&Jvm| jvm.obstacle().is_some_and(|(obstacle, _)| obstacle.to_string() == reason);
        let names = plan.jvms.iter().filter(has_it).map(|jvm| &*jvm.target.name);
        names.take(EXAMPLES).collect::<Vec<_>>().join(", ")
    };
    let passes = |reason: &str| Obstacle::from_str(reason).is_ok_and(Obstacle::is_passing);
    let lasting = || jvms.reasons.iter().filter(|(reason, _)| !passes(reason));
    let each: Vec<String> = lasting().map(|(reason, count)| format!("{count} {reason} ({})", names(reason))).collect();
    let all: i32 = lasting().map(|(_, count)| count).sum();
    if all == 0 {
        return None;
    }
    let each = each.join(", ");
    Some(format!("{all} of {} JVMs are left alone: {each}; status.jvms.examples says what helps", jvms.selected))
}

/// What needs a human before anything can go on.
fn trouble(facts: &StatusFacts<'_>) -> Option<(R, String)> {
    let StatusFacts { resolved, plan, content, .. } = facts;
    let name = format!("ConfigMap {}/{}", resolved.namespace, resolved.config_map);
    if let Some(how) = &plan.memory.harmed {
        let message = format!(
            "{how}; no other JVM is attached to; look at its log, then edit the spec to go on: a new text in \
            spec.rollout.retry, for one"
        );
        return Some((R::AttachHarmful, message));
    }
    if let Some(problem) = facts.complaint {
        return Some(problem.clone());
    }
    let go_on = "JVMs that export go on";
    match content {
        Content::Found(_) => {}
        Content::NoImage => {
            let message = "the operator does not know its own image, which the containers run that join Pods: name it \
                in variable OPERATOR_IMAGE of its Deployment";
            return Some((R::ImageUnknown, message.to_owned()));
        }
        Content::Absent => {
            let message = format!("{name} does not exist: create it, or correct spec.config.configMapName; {go_on}");
            return Some((R::ConfigMapNotFound, message));
        }
        Content::KeyAbsent => {
            let key = &resolved.key;
            let message = format!("{name} has no key {key}: add it, or correct spec.config.configMapKey; {go_on}");
            return Some((R::ConfigKeyNotFound, message));
        }
        Content::Rejected(why) => {
            return Some((R::ConfigRejected, format!("key {} of {name}: {why}; {go_on}", resolved.key)));
        }
        Content::Unread(why) => {
            let message = format!("{name} cannot be read: {why}; grant the operator list and watch on it; {go_on}");
            return Some((R::ConfigMapUnreadable, message));
        }
    }
    let engine = &plan.memory.engine;
    let is_failed = plan.decision.plan.report.state == rollout::State::Failed;
    let failure = engine.failure.as_ref().filter(|_| is_failed)?;
    let message = format!(
        "{}; no other JVM gets it; correct key {} of {name}, or edit the spec to have it tried again",
        failure.message, resolved.key
    );
    Some((R::ConfigRejected, message))
}
