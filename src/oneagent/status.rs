//! The status of a OneAgent: what was found, in the words that users read, and what must outlive a call.
//!
//! Pure. The rollout's sentences come from `rollout::report`; this file only puts them in their places.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::net::IpAddr;

use chrono::{DateTime, Utc};

use super::conflict::{Conflict, Outcome};
use super::done::Done;
use super::memory::{self, Memory};
use super::observe::{Observed, Token};
use super::plan::Assessment;
use super::problem::{Problem, lift_selectors};
use super::resolve::Resolved;
use crate::api::condition::{Transition, merge, timestamp};
use crate::api::name::Version;
use crate::api::oneagent::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::oneagent::status::{INSTANCES_AT_MOST, Instance};
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::api::rollout::{NodeCounts, REJECTED_AT_MOST, RolloutStatus};
use crate::dynatrace::{Snapshot, TokenState};
use crate::rollout::{Bucket, Report, State};

/// All that a status is made from.
#[derive(Clone, Copy)]
pub struct Picture<'a> {
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
}

impl<'a> Picture<'a> {
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

    /// What a human must mend, most important first.
    fn problems(&self) -> Vec<Problem> {
        let found = self.assessment.problems.iter().cloned();
        found.chain(self.done.istio.as_ref().map(|why| mesh_trouble(self.resolved, why))).collect()
    }
}

/// Istio's objects are not as they should be.
fn mesh_trouble(resolved: &Resolved, why: &str) -> Problem {
    let message = format!(
        "spec.enableIstio: the objects in namespace {} are not as they should be: {why}; config/oneagent-operator/rbac.yaml has the rights that are needed",
        resolved.namespace
    );
    (R::IstioUnusable, message)
}

/// The status, and what changed in it.
pub fn status(picture: &Picture<'_>, now: DateTime<Utc>) -> Result<(OneAgentStatus, Vec<Transition>), serde_json::Error> {
    let Picture { object, before, resolved, seen, done, .. } = picture;
    if let Some((reason, message)) = &done.refused {
        return Ok(invalid(object.metadata.generation, before, *reason, message, now));
    }
    let (report, environment) = (picture.report(), picture.environment());
    let findings = findings(picture);
    let (conditions, transitions) = merge(&before.conditions, &findings, object.metadata.generation, now);
    let holds = |type_: C| findings.iter().find(|f| f.type_ == type_).and_then(|f| f.holds);
    let phase = match (holds(C::Degraded), holds(C::Ready)) {
        (Some(true), _) if picture.assessment.is_blocked || holds(C::Available) != Some(true) => "Error",
        (_, Some(true)) => "Running",
        _ => "Deploying",
    };
    let memory = picture.memory();
    let text = |version: Option<Version>| version.map(|v| v.to_string());
    let addresses: HashMap<&str, IpAddr> = seen.nodes.iter().filter_map(|node| Some((&*node.name, node.ip?))).collect();
    let status = OneAgentStatus {
        observed_generation: object.metadata.generation,
        version: match &resolved.from_image {
            // The tag that the spec names is all that is known of such an image, and of a digest nothing is.
            Some(image) if image.registry.is_none() || image.tag.is_some() => image.tag.clone(),
            _ => text(picture.assessment.template).or_else(|| before.version.clone()),
        },
        desired_version: text(picture.assessment.choice.version),
        version_source: Some(picture.assessment.choice.source.to_owned()),
        last_good_version: memory.rollout.last_good.as_ref().and_then(|r| text(r.version)),
        rejected_versions: memory.rejected.iter().rev().take(REJECTED_AT_MOST).rev().map(ToString::to_string).collect(),
        phase: Some(phase.to_owned()),
        conditions,
        nodes: Some(counts(report)),
        rollout: Some(rollout_status(picture)?),
        instances: seen
            .pods
            .iter()
            .filter(|pod| !pod.deleting)
            .take(INSTANCES_AT_MOST)
            .map(|pod| {
                let ip = addresses.get(&*pod.node).copied();
                let hosts = environment.and_then(|e| e.hosts.as_ref()).map(|hosts| hosts.of(resolved.network_zone.as_deref()));
                let reported = ip.and_then(|ip| hosts?.get(&ip).copied());
                let version = pod.revision.as_ref().and_then(|r| r.version).max(reported);
                (
                    pod.node.to_string(),
                    Instance { pod_name: Some(pod.name.to_string()), version: text(version), ip_address: ip.map(|ip| ip.to_string()) },
                )
            })
            .collect(),
        instances_truncated: (seen.pods.len() > INSTANCES_AT_MOST).then_some(true),
        tokens: Some(resolved.tokens.clone()),
        environment_id: environment.and_then(|e| e.environment_id.clone()).or_else(|| before.environment_id.clone()),
        use_immutable_image: resolved.from_image.is_some().then_some(true),
        updated_timestamp: before.updated_timestamp.clone(),
        last_update_probe_timestamp: probe_time(picture),
        adopted_template_hash: memory.adopted.as_ref().map(|adopted| adopted.hash.clone()),
        adopted_version: text(memory.adopted.as_ref().and_then(|adopted| adopted.version)),
    };
    Ok((stamped(status, before, now), transitions))
}

/// The status of a OneAgent whose spec makes no sense. Everything else stays as it was.
#[must_use]
pub fn invalid(generation: Option<i64>, before: &OneAgentStatus, reason: R, message: &str, now: DateTime<Utc>) -> (OneAgentStatus, Vec<Transition>) {
    let known = |type_: C| before.conditions.iter().find(|c| c.type_ == type_.to_string());
    let mut findings = vec![
        Finding::new(C::Ready, false, reason, message),
        Finding::new(C::Progressing, false, reason, "nothing is done until that is mended; agents run on"),
        Finding::new(C::Degraded, true, reason, message),
    ];
    if known(C::Available).is_none() {
        findings.push(Finding::new(C::Available, None, reason, "not looked at yet"));
    }
    let (mut conditions, transitions) = merge(&before.conditions, &findings, generation, now);
    for condition in &mut conditions {
        let found = findings.iter().any(|f| f.type_.to_string() == condition.type_);
        if let Some(kept) = before.conditions.iter().find(|c| c.type_ == condition.type_).filter(|_| !found) {
            *condition = kept.clone();
        }
    }
    let status = OneAgentStatus { observed_generation: generation, phase: Some("Error".to_owned()), conditions, ..before.clone() };
    (stamped(status, before, now), transitions)
}

/// A new time only with a new status: a look that found nothing new writes nothing.
fn stamped(mut status: OneAgentStatus, before: &OneAgentStatus, now: DateTime<Utc>) -> OneAgentStatus {
    if status != *before {
        status.updated_timestamp = Some(timestamp(now));
    }
    status
}

fn probe_time(picture: &Picture<'_>) -> Option<String> {
    let changed = picture.assessment.choice.version.is_some_and(|v| picture.before.desired_version != Some(v.to_string()));
    let at = picture.environment().and_then(|e| e.latest_at);
    if changed || picture.before.last_update_probe_timestamp.is_none() {
        at.map(timestamp).or_else(|| picture.before.last_update_probe_timestamp.clone())
    } else {
        picture.before.last_update_probe_timestamp.clone()
    }
}

fn counts(report: &Report) -> NodeCounts {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let bucket = |bucket| number(report.bucket(bucket));
    NodeCounts {
        selected: number(report.selected),
        running: number(report.running),
        updated: number(report.updated),
        outdated: number(report.outdated),
        version_unknown: number(report.unknown.count),
        held_back: number(report.held_back.count),
        unplanned: number(report.unplanned),
        surplus: number(report.surplus.count),
        progress: format!("{}/{}", report.updated, report.selected),
        untolerated: bucket(Bucket::Untolerated),
        arch: bucket(Bucket::Arch),
        namespace_selector: bucket(Bucket::NamespaceSelector),
        overlap: bucket(Bucket::Overlap),
        node_not_ready: bucket(Bucket::NodeNotReady),
        node_lost: bucket(Bucket::NodeLost),
        node_busy: bucket(Bucket::NodeBusy),
        capacity: bucket(Bucket::Capacity),
        admission: bucket(Bucket::Admission),
        image: bucket(Bucket::Image),
        config: bucket(Bucket::Config),
        crash: bucket(Bucket::Crash),
        starting: bucket(Bucket::Starting),
        overdue: bucket(Bucket::Overdue),
        terminating: bucket(Bucket::Terminating),
        examples: examples(report),
    }
}

/// Names of nodes by the key under which they are counted.
fn examples(report: &Report) -> BTreeMap<String, Vec<String>> {
    let buckets = report.buckets.iter().chain(&report.closed).map(|(bucket, nodes)| (bucket.to_string(), nodes));
    let others = [("versionUnknown", &report.unknown), ("heldBack", &report.held_back), ("surplus", &report.surplus)];
    let all = buckets.chain(others.map(|(key, nodes)| (key.to_owned(), nodes)));
    all.filter(|(_, nodes)| nodes.count > 0).map(|(key, nodes)| (key, nodes.examples.iter().map(ToString::to_string).collect())).collect()
}

fn rollout_status(picture: &Picture<'_>) -> Result<RolloutStatus, serde_json::Error> {
    let report = picture.report();
    Ok(RolloutStatus {
        state: report.state.to_string(),
        to: picture.assessment.choice.version.map(|v| v.to_string()),
        waiting_on: report.waiting_on.iter().map(ToString::to_string).collect(),
        budget: i32::try_from(picture.assessment.decision.plan.budget).ok(),
        ..memory::write(picture.memory())?
    })
}

fn findings(picture: &Picture<'_>) -> Vec<Finding> {
    let report = picture.report();
    let mut findings = vec![ready(picture), available(report, picture.memory().rollout.last_good.is_none()), progressing(picture)];
    let problems = picture.problems();
    findings.push(match problems.first() {
        None if picture.assessment.warnings.is_empty() => Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention"),
        None => Finding::new(C::Degraded, false, R::AsExpected, picture.assessment.warnings.join("; ")),
        Some((reason, _)) => {
            let all: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            Finding::new(C::Degraded, true, *reason, all.join("; "))
        }
    });
    let namespace = &picture.resolved.namespace;
    let state = |of: fn(&Snapshot) -> &TokenState| picture.environment().map(of);
    findings.push(token(C::PaasToken, &picture.seen.paas, state(|s| &s.paas), "paasToken", namespace, &picture.resolved.tokens, picture));
    findings.push(nodes_conflict(&picture.resolved.conflicts));
    findings.push(token(C::ApiToken, &picture.seen.api, state(|s| &s.api), "apiToken", namespace, &picture.resolved.tokens, picture));
    findings
}

/// Who else selects these nodes, and who keeps them.
fn nodes_conflict(conflicts: &[Conflict]) -> Finding {
    if conflicts.is_empty() {
        return Finding::new(C::NodesConflict, false, R::AsExpected, "no other OneAgent that is watched selects these nodes");
    }
    let say = |conflict: &Conflict| {
        let outcome = match conflict.outcome {
            Outcome::Keeps => "this one is older and keeps them",
            Outcome::Yields => "that one is older and keeps them",
            Outcome::Reported => {
                "that one is older, but what it selects cannot be left out here without losing agents: both run there, which harms the hosts"
            }
        };
        format!("OneAgent {} selects {} of these nodes too, such as {}: {outcome}", conflict.other, conflict.nodes, conflict.example)
    };
    let all: Vec<String> = conflicts.iter().take(5).map(say).collect();
    Finding::new(C::NodesConflict, true, R::NodesConflict, format!("{}; make their spec.nodeSelector disjoint", all.join("; ")))
}

fn ready(picture: &Picture<'_>) -> Finding {
    let report = picture.report();
    let finding = |holds: bool, reason, message: String| Finding::new(C::Ready, holds, reason, message);
    if picture.assessment.is_blocked
        && let Some((reason, message)) = picture.problems().first()
    {
        return finding(false, *reason, message.clone());
    }
    if picture.assessment.template.is_none() && !picture.assessment.choice.is_known() {
        return finding(
            false,
            R::WaitingForVersion,
            "no version is known yet, so no agent is rolled out; see conditions PaaSToken and Degraded".to_owned(),
        );
    }
    if report.selected == 0 {
        let hint = if report.bucket(Bucket::Untolerated) > 0 {
            format!(
                "; {} nodes match but carry a taint that spec.tolerations does not tolerate, such as {}",
                report.bucket(Bucket::Untolerated),
                report.such_as(Bucket::Untolerated)
            )
        } else {
            String::new()
        };
        let excluded = excluded(picture);
        return finding(false, R::NoNodesSelected, format!("no node is selected by spec.nodeSelector and spec.tolerations{hint}{excluded}"));
    }
    if report.lacking > 0 {
        let who = if report.troubled.is_empty() { String::new() } else { format!(": {}", pairs(&report.troubled)) };
        let reason = if report.troubled.is_empty() { R::RollingOut } else { R::AgentsUnavailable };
        return finding(false, reason, format!("{} of {} nodes have no Ready agent{who}", report.lacking, report.selected));
    }
    if report.outdated > 0 || picture.memory().rollout.failure.is_some() {
        let reason = match report.state {
            State::Paused => R::Paused,
            State::Stopped => R::Stopped,
            State::Failed => R::RolloutFailed,
            State::Held => R::Held,
            _ if report.outdated == 0 => R::RolloutFailed,
            // As while Pods are missing: a rollout one by one is one transition.
            State::Rolling => R::RollingOut,
            _ => R::Outdated,
        };
        let waits = if report.postponed.is_empty() { String::new() } else { format!("; waiting for their node: {}", pairs(&report.postponed)) };
        return finding(false, reason, format!("{} of {} nodes run the desired agent{waits}", report.updated, report.selected));
    }
    if report.held_back.count > 0 {
        let such = report.held_back.such_as();
        return finding(
            false,
            R::Outdated,
            format!(
                "{} agents are newer than the desired one, such as {such}: they keep running, and a change of the Pods does not reach them before a newer version is desired",
                report.held_back.count
            ),
        );
    }
    // After a start nothing is doubted before the vendor was heard.
    let is_at_rest = picture.memory().rollout.started().is_none() && report.state == State::Complete;
    let is_unheard = report.unheard > 0 && report.unheard == report.unknown.count;
    if let Some(kept) = kept(C::Ready, R::AllUpdated, picture).filter(|_| is_at_rest && is_unheard) {
        return kept;
    }
    if report.unknown.count > 0 {
        return finding(
            false,
            R::Outdated,
            format!(
                "the version of {} agents is not known: the environment does not report their hosts ({})",
                report.unknown.count,
                report.unknown.such_as()
            ),
        );
    }
    // While agents are installed for the first time a node that starts is not one that joined.
    if report.running == 0 || (report.joining > 0 && picture.memory().rollout.last_good.is_none()) {
        return finding(false, R::Starting, format!("{} of {} nodes have a Ready agent", report.running, report.selected));
    }
    let able = report.selected - report.bucket(Bucket::NodeNotReady) - report.bucket(Bucket::NodeBusy) - report.joining;
    finding(true, R::AllUpdated, format!("all {able} nodes that can run an agent run the desired one{}{}", excluded(picture), surplus(picture)))
}

/// Agents that go on running where no new one may start, and how to end that either way.
fn surplus(picture: &Picture<'_>) -> String {
    let report = picture.report();
    let Some(first) = report.surplus.examples.first() else { return String::new() };
    let node = &first.name;
    let (namespace, name) = (&picture.resolved.namespace, &picture.resolved.name);
    format!(
        "; {} agents run on nodes with a taint that spec.tolerations does not tolerate ({}): they go on, and get no update; tolerate the taint, or remove such an agent by kubectl -n {namespace} delete pod -l oneagent={name} --field-selector=spec.nodeName={node}",
        report.surplus.count,
        report.surplus.such_as(),
    )
}

/// The nodes that the namespace keeps agents off, and how to let them in.
fn excluded(picture: &Picture<'_>) -> String {
    let report = picture.report();
    let (count, namespace) = (report.bucket(Bucket::NamespaceSelector), &picture.resolved.namespace);
    if count == 0 {
        return String::new();
    }
    let such = report.such_as(Bucket::NamespaceSelector);
    format!(
        "; namespace {namespace} has a node selector of its own that keeps agents off {count} nodes, such as {such}; to let them in: {} && kubectl -n {namespace} delete pod -l oneagent={} --field-selector=status.phase=Pending",
        lift_selectors(namespace),
        picture.resolved.name
    )
}

fn available(report: &Report, first_install: bool) -> Finding {
    let lacking = report.lacking + if first_install { report.joining } else { 0 };
    let able = report.running + lacking;
    if report.running > 0 && lacking * 2 <= able {
        Finding::new(C::Available, true, R::AsExpected, format!("agents run on {} of {} selected nodes", report.running, report.selected))
    } else if report.selected == 0 {
        Finding::new(C::Available, false, R::NoNodesSelected, "no node is selected")
    } else {
        Finding::new(C::Available, false, R::AgentsUnavailable, format!("agents run on {} of {} selected nodes", report.running, report.selected))
    }
}

fn progressing(picture: &Picture<'_>) -> Finding {
    let report = picture.report();
    let finding = |holds: bool, reason, message: String| Finding::new(C::Progressing, holds, reason, message);
    let waiting = || report.waiting_on.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let problem = picture.problems().into_iter().next();
    match (report.state, problem) {
        (_, Some((reason, message))) if picture.assessment.is_blocked => finding(false, reason, message),
        (State::Waiting, _) => finding(true, R::WaitingForVersion, waiting()),
        (State::Held, _) => finding(true, R::Held, waiting()),
        (State::Failed, _) => finding(false, R::RolloutFailed, waiting()),
        (State::Paused, _) => finding(false, R::Paused, waiting()),
        (State::Stopped, _) => finding(false, R::Stopped, waiting()),
        (State::Rolling, _) => {
            finding(true, R::RollingOut, format!("{} of {} nodes run the desired agent; waiting: {}", report.updated, report.selected, waiting()))
        }
        (State::Complete, _) if report.joining > 0 => {
            finding(true, R::Starting, format!("{} nodes joined and start their agent: {}", report.joining, report.such_as(Bucket::Starting)))
        }
        (State::Complete, _) => finding(false, R::AsExpected, "nothing is under way".to_owned()),
    }
}

fn token(type_: C, token: &Token, state: Option<&TokenState>, key: &str, namespace: &str, secret: &str, picture: &Picture<'_>) -> Finding {
    let no = |reason, message: String| Finding::new(type_, false, reason, message);
    match token {
        Token::NoSecret => {
            no(R::TokenSecretNotFound, format!("Secret {namespace}/{secret} does not exist; create it with keys apiToken and paasToken"))
        }
        Token::Unread(why) => Finding::new(type_, None, R::TokenError, format!("Secret {namespace}/{secret} cannot be read: {why}")),
        Token::NoKey => no(R::TokenMissing, format!("Secret {namespace}/{secret} has no key {key}; add it")),
        Token::There { blanks: true, .. } => no(
            R::TokenUnauthorized,
            format!(
                "key {key} of Secret {namespace}/{secret} has blanks or a line feed around the token; agents would send them with it: remove them"
            ),
        ),
        Token::There { .. } => match state {
            Some(TokenState::Ready) => Finding::new(type_, true, R::TokenReady, "Ready"),
            Some(TokenState::Unauthorized(why)) => no(
                R::TokenUnauthorized,
                format!("the environment refuses the token in key {key} of Secret {namespace}/{secret} ({why}); put a valid one there"),
            ),
            Some(TokenState::ScopeMissing(scope)) => {
                no(R::TokenScopeMissing, format!("the token in key {key} of Secret {namespace}/{secret} lacks scope {scope}; create one that has it"))
            }
            Some(TokenState::Error(why)) => {
                Finding::new(type_, None, R::TokenError, format!("the token in key {key} of Secret {namespace}/{secret} could not be tried: {why}"))
            }
            Some(TokenState::Unknown) => {
                kept(type_, R::TokenReady, picture).unwrap_or_else(|| Finding::new(type_, None, R::NotYetReported, "not tried yet"))
            }
            None => Finding::new(type_, None, R::TokenError, "not tried: the environment cannot be asked; see condition Degraded"),
        },
    }
}

/// After a start what held is not doubted before it was looked at again.
fn kept(type_: C, reason: R, picture: &Picture<'_>) -> Option<Finding> {
    let held = picture.before.conditions.iter().find(|c| c.type_ == type_.to_string())?;
    (held.reason == reason.to_string()).then(|| Finding::new(type_, true, reason, held.message.clone()))
}

/// Nodes with their causes, each cause once.
fn pairs<C: PartialEq + Display>(nodes: &[(String, C)]) -> String {
    let mut causes: Vec<(&C, Vec<&str>)> = Vec::new();
    for (node, why) in nodes {
        match causes.iter_mut().find(|(known, _)| *known == why) {
            Some((_, nodes)) => nodes.push(node),
            None => causes.push((why, vec![node])),
        }
    }
    causes.into_iter().map(|(why, nodes)| format!("{} ({why})", nodes.join(", "))).collect::<Vec<_>>().join(", ")
}
