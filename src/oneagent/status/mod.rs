//! The status of a OneAgent: what was found, in the words that users read, and what must outlive a call.
//!
//! Pure. The rollout's sentences come from `rollout::report`; this file only puts them in their places.

mod findings;
mod milestones;

use std::collections::HashMap;
use std::net::IpAddr;

use chrono::{DateTime, Utc};

use findings::{all_updated_before, findings};

use super::done::Done;
use super::memory::{self, Memory};
use super::observe::Observed;
use super::places::WORDS;
use super::plan::Assessment;
use super::problem::Problem;
use super::resolve::Resolved;
use crate::api::condition::{Transition, merge, timestamp};
use crate::api::name::Version;
use crate::api::oneagent::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::oneagent::status::{INSTANCES_AT_MOST, Instance};
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::api::rollout::RolloutStatus;
use crate::dynatrace::Snapshot;
use crate::fleet::counts::{counts, to_the_minute};
use crate::rollout::{Report, State};

/// All that a status is made from.
#[derive(Clone, Copy)]
pub struct StatusFacts<'a> {
    /// The OneAgent.
    pub object: &'a OneAgent,
    /// Its last status.
    pub before: &'a OneAgentStatus,
    /// What its spec means.
    pub resolved: &'a Resolved,
    /// What was found.
    pub seen: &'a Observed,
    /// What was decided.
    pub assessment: &'a Assessment,
    /// What came of it.
    pub done: &'a Done,
    /// What keeps failing.
    pub complaint: Option<&'a Problem>,
}

impl<'a> StatusFacts<'a> {
    /// The environment, if there is one.
    fn environment(&self) -> Option<&'a Snapshot> {
        self.seen.environment.as_ref()?.as_ref().ok().map(AsRef::as_ref)
    }

    fn report(&self) -> &'a Report {
        &self.assessment.decision.plan.report
    }

    fn memory(&self) -> &'a Memory {
        &self.assessment.decision.memory
    }

    /// What a human must fix, most important first.
    fn problems(&self) -> Vec<Problem> {
        let istio = self.done.istio.as_ref().map(|why| mesh_trouble(self.resolved, why));
        self.complaint.into_iter().chain(&self.assessment.problems).cloned().chain(istio).collect()
    }

    /// What is waited for. Where that is nothing, or a version, what a human must fix comes first: it is what a list
    /// of OneAgents shows.
    fn waiting_on(&self, report: &Report, findings: &[Finding], problems: &[Problem]) -> Vec<String> {
        let waits = report.waiting_on.iter().map(|waiting| waiting.said(&WORDS));
        let is_quiet = matches!(report.state, State::Complete | State::Waiting);
        let problem = problems.first().filter(|_| is_quiet);
        let problem = problem.map(|(reason, message)| format!("{reason}: {message}"));
        let ready = || findings.iter().find(|finding| finding.type_ == C::Ready).map(|ready| ready.message.clone());
        let none = if is_quiet && report.selected == 0 { ready() } else { None };
        let stop = self.resolved.held(self.seen.stopped).filter(|_| is_quiet).map(|hold| hold.why.into_owned());
        problem.or(none).into_iter().chain(stop).chain(waits).collect()
    }
}

/// Istio's objects are not as they should be.
fn mesh_trouble(resolved: &Resolved, why: &str) -> Problem {
    let message = format!(
        "spec.enableIstio: the objects in namespace {} are not as they should be: {why}; \
        config/oneagent-operator/rbac.yaml has the rights that are needed",
        resolved.namespace
    );
    (R::IstioUnusable, message)
}

/// The status, and what changed in it.
pub fn status(
    facts: &StatusFacts<'_>,
    now: DateTime<Utc>,
) -> Result<(OneAgentStatus, Vec<Transition>), serde_json::Error> {
    let StatusFacts { object, before, resolved, seen, .. } = facts;
    let environment = facts.environment();
    let is_kept = all_updated_before(facts).is_some();
    let kept = is_kept.then(|| facts.report().with_unheard_updated());
    let report = kept.as_ref().unwrap_or_else(|| facts.report());
    let (findings, problems) = findings(facts);
    let (conditions, mut transitions) = merge(&before.conditions, &findings, object.metadata.generation, now);
    let (told, history) = milestones::milestones(facts, now);
    transitions.splice(0..0, told);
    let holds = |type_: C| findings.iter().find(|f| f.type_ == type_).and_then(|f| f.holds);
    let phase = match (holds(C::Degraded), holds(C::Ready)) {
        (Some(true), _) if facts.assessment.is_blocked || holds(C::Available) != Some(true) => "Error",
        (_, Some(true)) => "Running",
        _ => "Deploying",
    };
    let (memory, choice) = (facts.memory(), &facts.assessment.choice);
    let text = |version: Option<Version>| version.map(|v| v.to_string());
    let addresses: HashMap<&str, IpAddr> = seen.nodes.iter().filter_map(|node| Some((&*node.name, node.ip?))).collect();
    let status = OneAgentStatus {
        operator_namespace: before.operator_namespace.clone(),
        observed_generation: object.metadata.generation,
        version: match &resolved.from_image {
            // The tag that the spec names is all that is known of such an image, and of a digest nothing is.
            Some(image) if image.registry.is_none() || image.tag.is_some() => image.tag.clone(),
            _ => text(version(facts)).or_else(|| before.version.clone()),
        },
        desired_version: text(choice.version),
        version_source: Some(choice.source.to_owned()),
        last_good_version: text(memory.last_good_version()),
        rejected_versions: memory.rejected.iter().map(ToString::to_string).collect(),
        phase: Some(phase.to_owned()),
        conditions,
        nodes: Some(counts(report, before.nodes.as_ref())),
        rollout: Some(RolloutStatus {
            history,
            ..rollout_status(facts, facts.waiting_on(report, &findings, &problems))?
        }),
        instances: seen
            .pods
            .iter()
            .filter(|pod| !pod.deleting)
            .take(INSTANCES_AT_MOST)
            .map(|pod| {
                let ip = addresses.get(&*pod.node).copied();
                let hosts = environment.and_then(|e| e.hosts.as_ref()?.of(resolved.network_zone.as_deref()));
                let reported = ip.and_then(|ip| hosts?.get(&ip).copied());
                let made_from = pod.revision.as_ref().and_then(|r| r.version);
                // A host reports the previous, newer agent until its new one has reported: a pin is not outdone by it.
                let is_pinned = choice.strict && made_from == choice.version;
                let version = if is_pinned { made_from } else { made_from.max(reported) };
                let known = before.instances.get(&*pod.node).filter(|_| is_kept);
                let known = known.filter(|known| known.pod_name.as_deref() == Some(&*pod.name));
                let version = known.map_or_else(|| text(version), |known| known.version.clone());
                let (pod_name, ip_address) = (Some(pod.name.to_string()), ip.map(|ip| ip.to_string()));
                (pod.node.to_string(), Instance { pod_name, version, ip_address })
            })
            .collect(),
        instances_truncated: (seen.pods.len() > INSTANCES_AT_MOST).then_some(true),
        tokens: Some(resolved.tokens.clone()),
        environment_id: environment.and_then(|e| e.environment_id.clone()).or_else(|| before.environment_id.clone()),
        use_immutable_image: resolved.from_image.is_some().then_some(true),
        updated_timestamp: before.updated_timestamp.clone(),
        last_update_probe_timestamp: probe_time(facts),
        adopted_template_hash: memory.adopted.as_ref().map(|adopted| adopted.hash.clone()),
        adopted_version: text(memory.adopted.as_ref().and_then(|adopted| adopted.version)),
    };
    Ok((status, transitions))
}

fn probe_time(facts: &StatusFacts<'_>) -> Option<String> {
    let changed = facts.assessment.choice.version.is_some_and(|v| facts.before.desired_version != Some(v.to_string()));
    let at = facts.environment().and_then(|e| e.latest_at);
    if changed || facts.before.last_update_probe_timestamp.is_none() {
        at.map(timestamp).or_else(|| facts.before.last_update_probe_timestamp.clone())
    } else {
        facts.before.last_update_probe_timestamp.clone()
    }
}

/// The version that agents are at: while canaries prove another one, that of the others.
fn version(facts: &StatusFacts<'_>) -> Option<Version> {
    let memory = &facts.memory().rollout;
    let is_proven = memory.proof.as_ref().is_some_and(|proof| proof.passed);
    let soaks = facts.resolved.policy.canary.is_some() && memory.started().is_some() && !is_proven;
    let good = memory.last_good.as_ref().and_then(|good| good.version);
    good.filter(|_| soaks).or(facts.assessment.template)
}

fn rollout_status(facts: &StatusFacts<'_>, waiting_on: Vec<String>) -> Result<RolloutStatus, serde_json::Error> {
    let report = facts.report();
    // Whether another version than the last good one is there already, only the environment knows.
    let is_new = facts.assessment.choice.version.is_some_and(|v| facts.memory().last_good_version() != Some(v));
    let is_unheard = report.state == State::Complete && report.unheard > 0 && is_new;
    let state = if is_unheard { State::Waiting } else { report.state };
    Ok(RolloutStatus {
        state: state.to_string(),
        to: facts.assessment.choice.version.map(|v| v.to_string()),
        waiting_on,
        expected_finish: report.finish.map(to_the_minute),
        budget: i32::try_from(facts.assessment.decision.plan.budget).ok(),
        ..memory::write(facts.memory())?
    })
}
