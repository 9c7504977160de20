//! What the conditions of a OneAgent say.
//!
//! Pure. Must not decide anything that a plan has not.

use std::fmt::Display;

use super::super::conflict::Conflict;
use super::super::hold::STOPPED;
use super::super::observe::Token;
use super::super::places::{WORDS, closed};
use super::super::problem::{Problem, lift_selectors, whose_selector};
use super::Picture;
use crate::api::oneagent::condition::{ConditionType as C, Finding, Reason as R};
use crate::dynatrace::{Snapshot, TokenState};
use crate::rollout::{Bucket, Report, State};

/// What conditions say; and what a human must fix, most important first.
pub(super) fn findings(picture: &Picture<'_>) -> (Vec<Finding>, Vec<Problem>) {
    let report = picture.report();
    let mut findings =
        vec![ready(picture), available(report, picture.memory().rollout.last_good.is_none()), progressing(picture)];
    let [paas, api] = tokens(picture);
    let mut problems = picture.problems();
    problems.extend(token_problems(picture, [&paas, &api]));
    findings.push(match problems.first() {
        None if picture.assessment.warnings.is_empty() => {
            Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention")
        }
        None => Finding::new(C::Degraded, false, R::AsExpected, picture.assessment.warnings.join("; ")),
        Some((reason, _)) => {
            let all: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            Finding::new(C::Degraded, true, *reason, all.join("; "))
        }
    });
    findings.extend([paas, nodes_conflict(&picture.resolved.conflicts), api]);
    (findings, problems)
}

fn tokens(picture: &Picture<'_>) -> [Finding; 2] {
    let state = |of: fn(&Snapshot) -> &TokenState| picture.environment().map(of);
    [
        token(C::PaasToken, &picture.seen.paas, state(|s| &s.paas), "paasToken", picture),
        token(C::ApiToken, &picture.seen.api, state(|s| &s.api), "apiToken", picture),
    ]
}

/// What is wrong with the tokens, where the environment is asked; each cause once.
fn token_problems(picture: &Picture<'_>, tokens: [&Finding; 2]) -> Vec<Problem> {
    if picture.resolved.versions.is_some() {
        return Vec::new();
    }
    let wrong = tokens.into_iter().filter(|finding| finding.holds == Some(false));
    let mut problems: Vec<Problem> = wrong.map(|finding| (finding.reason, finding.message.clone())).collect();
    problems.dedup();
    problems
}

/// Who else selects these nodes, and who keeps them.
fn nodes_conflict(conflicts: &[Conflict]) -> Finding {
    if conflicts.is_empty() {
        return Finding::new(
            C::NodesConflict,
            false,
            R::AsExpected,
            "no other OneAgent that is watched selects these nodes",
        );
    }
    let all: Vec<String> = conflicts.iter().take(5).map(ToString::to_string).collect();
    Finding::new(
        C::NodesConflict,
        true,
        R::NodesConflict,
        format!("{}; make their spec.nodeSelector disjoint", all.join("; ")),
    )
}

/// Why no node is selected, as far as nodes come near it.
fn none_selected(picture: &Picture<'_>) -> String {
    let report = picture.report();
    let near = |by: &str, why: &str| {
        let nodes = report.closed.get(by)?;
        Some(format!("; {} nodes match {why}, such as {}", nodes.count, nodes.such_as()))
    };
    let has_affinity = !picture.resolved.placement.terms.is_empty();
    let fields = if has_affinity { "spec.nodeSelector, spec.affinity" } else { "spec.nodeSelector" };
    let reasons = [
        near(closed::UNTOLERATED, "but carry a taint that spec.tolerations does not tolerate"),
        near(
            closed::ARCH,
            "but are of an architecture that this agent is not for (spec.nodeSelector can name another one in \
            kubernetes.io/arch)",
        ),
        near(closed::OVERLAP, "and are kept by an older OneAgent, see condition NodesConflict"),
    ];
    let reasons: String = reasons.into_iter().flatten().collect();
    format!("no node is selected by {fields} and spec.tolerations{reasons}{}", excluded(picture))
}

fn ready(picture: &Picture<'_>) -> Finding {
    let report = picture.report();
    let not = |reason, message: String| Finding::new(C::Ready, false, reason, message);
    if picture.assessment.is_blocked
        && let Some((reason, message)) = picture.problems().first()
    {
        return not(*reason, message.clone());
    }
    if picture.assessment.template.is_none() && !picture.assessment.choice.is_known() {
        return not(
            R::WaitingForVersion,
            "no version is known yet, so no agent is rolled out; see conditions PaaSToken and Degraded".to_owned(),
        );
    }
    if report.selected == 0 {
        return not(R::NoNodesSelected, none_selected(picture));
    }
    if report.lacking > 0 {
        let named = [report.troubled.as_slice(), &report.ceased].concat();
        let who = if named.is_empty() { String::new() } else { format!(": {}", pairs(&named)) };
        // While the Pods of what was unavailable come and go, it still is.
        let is_known = kept(C::Ready, R::AgentsUnavailable, picture).is_some();
        let reason = if named.is_empty() && !is_known { R::RollingOut } else { R::AgentsUnavailable };
        // Of nodes that are NotReady nobody expects one.
        let away = report.bucket(Bucket::NodeNotReady);
        let away = match away {
            0 => String::new(),
            1 => "; besides, 1 node is NotReady".to_owned(),
            _ => format!("; besides, {away} nodes are NotReady"),
        };
        return not(reason, format!("{} of {} nodes have no Ready agent{who}{away}", report.lacking, report.selected));
    }
    if report.state == State::RolledBack && report.running > 0 && report.outdated == 0 {
        let message = format!("{} of {} nodes run the last good agent again", report.running, report.selected);
        return Finding::new(C::Ready, true, R::RolledBack, message);
    }
    if report.outdated > 0 || picture.memory().rollout.failure.is_some() {
        let reason = match report.state {
            State::Paused => R::Paused,
            State::Stopped => R::Stopped,
            State::Failed => R::RolloutFailed,
            State::RolledBack => R::RolledBack,
            State::Held => R::Held,
            _ if report.outdated == 0 => R::RolloutFailed,
            // As while Pods are missing: a rollout one by one is one transition.
            State::Rolling => R::RollingOut,
            _ => R::Outdated,
        };
        let waits = if report.postponed.is_empty() {
            String::new()
        } else {
            format!("; waiting for their node: {}", pairs(&report.postponed))
        };
        return not(reason, format!("{} of {} nodes run the desired agent{waits}", report.updated, report.selected));
    }
    if report.held_back.count > 0 {
        let such = report.held_back.such_as();
        return not(
            R::Outdated,
            format!(
                "{} agents are newer than the desired one, such as {such}: they keep running, and a change of the \
                Pods does not reach them before a newer version is desired",
                report.held_back.count
            ),
        );
    }
    if let Some(kept) = all_updated_before(picture) {
        return kept;
    }
    if report.unknown.count > 0 {
        let (count, such) = (report.unknown.count, report.unknown.such_as());
        let why = if report.unheard == count {
            "not known yet: the environment's host list has not been read"
        } else {
            "not known: the environment does not report their hosts"
        };
        return not(R::Outdated, format!("the version of {count} agents is {why} ({such})"));
    }
    // While agents are installed for the first time a node that starts is not one that joined.
    if report.running == 0 || (report.joining > 0 && picture.memory().rollout.last_good.is_none()) {
        return not(R::Starting, format!("{} of {} nodes have a Ready agent", report.running, report.selected));
    }
    let able = report.selected - report.bucket(Bucket::NodeNotReady) - report.bucket(Bucket::NodeBusy) - report.joining;
    Finding::new(
        C::Ready,
        true,
        R::AllUpdated,
        format!("all {able} nodes that can run an agent run the desired one{}{}", excluded(picture), surplus(picture)),
    )
}

/// Agents that go on running where no new one may start, and how to end that either way.
fn surplus(picture: &Picture<'_>) -> String {
    let report = picture.report();
    let Some(first) = report.surplus.examples.first() else { return String::new() };
    let node = &first.name;
    let (namespace, name) = (&picture.resolved.namespace, &picture.resolved.name);
    let (who, then) = match report.surplus.count {
        1 => ("1 agent runs on a node".to_owned(), "it goes on, and gets no update"),
        count => (format!("{count} agents run on nodes"), "they go on, and get no update"),
    };
    format!(
        "; {who} with a taint that spec.tolerations does not tolerate ({}): {then}; tolerate the taint, or remove such \
        an agent by kubectl -n {namespace} delete pod -l oneagent={name} --field-selector=spec.nodeName={node}",
        report.surplus.such_as(),
    )
}

/// The nodes that the namespace keeps agents off, and how to let them in.
fn excluded(picture: &Picture<'_>) -> String {
    let report = picture.report();
    let Some(nodes) = report.closed.get(closed::NAMESPACE_SELECTOR) else { return String::new() };
    let (count, such, namespace) = (nodes.count, nodes.such_as(), &picture.resolved.namespace);
    format!(
        "; {}: it keeps agents off {count} nodes, such as {such}; to let them in: {} && kubectl -n \
        {namespace} delete pod -l oneagent={} --field-selector=status.phase=Pending",
        whose_selector(namespace, picture.seen),
        lift_selectors(namespace),
        picture.resolved.name
    )
}

fn available(report: &Report, first_install: bool) -> Finding {
    let lacking = report.lacking + if first_install { report.joining } else { 0 };
    let able = report.running + lacking;
    if report.running > 0 && lacking * 2 <= able {
        Finding::new(
            C::Available,
            true,
            R::AsExpected,
            format!("agents run on {} of {} selected nodes", report.running, report.selected),
        )
    } else if report.selected == 0 {
        Finding::new(C::Available, false, R::NoNodesSelected, "no node is selected")
    } else {
        Finding::new(
            C::Available,
            false,
            if first_install && report.lacking == 0 { R::Starting } else { R::AgentsUnavailable },
            format!("agents run on {} of {} selected nodes", report.running, report.selected),
        )
    }
}

fn progressing(picture: &Picture<'_>) -> Finding {
    let report = picture.report();
    let finding = |holds: bool, reason, message: String| Finding::new(C::Progressing, holds, reason, message);
    let waiting = || report.waiting_on.iter().map(|waiting| waiting.said(&WORDS)).collect::<Vec<_>>().join("; ");
    let problem = picture.problems().into_iter().next();
    match (report.state, problem) {
        (_, Some((reason, message))) if picture.assessment.is_blocked => finding(false, reason, message),
        (State::Waiting, _) => finding(true, R::WaitingForVersion, waiting()),
        (State::Held, _) => finding(true, R::Held, waiting()),
        (State::Failed, _) => finding(false, R::RolloutFailed, waiting()),
        (State::RolledBack, _) => finding(false, R::RolledBack, "nothing is under way".to_owned()),
        (State::Paused, _) => finding(false, R::Paused, waiting()),
        (State::Stopped, _) => finding(false, R::Stopped, waiting()),
        (State::Rolling, _) => finding(
            true,
            R::RollingOut,
            format!(
                "{} of {} nodes run the desired agent{}",
                report.updated,
                report.selected,
                after_waiting(&waiting())
            ),
        ),
        (State::Complete, _) if report.joining > 0 => finding(
            true,
            R::Starting,
            match report.joining {
                1 => format!("1 node starts its agent: {}", report.such_as(Bucket::Starting)),
                joining => format!("{joining} nodes start their agents: {}", report.such_as(Bucket::Starting)),
            },
        ),
        (State::Complete, _) if picture.seen.stopped => {
            finding(false, R::Stopped, format!("nothing is under way, and nothing will be: {}", STOPPED.why))
        }
        (State::Complete, _) => finding(false, R::AsExpected, "nothing is under way".to_owned()),
    }
}

fn after_waiting(waits: &str) -> String {
    if waits.is_empty() { String::new() } else { format!("; waiting: {waits}") }
}

fn token(type_: C, token: &Token, state: Option<&TokenState>, key: &str, picture: &Picture<'_>) -> Finding {
    let (namespace, secret) = (&picture.resolved.namespace, &picture.resolved.tokens);
    let no = |reason, message: String| Finding::new(type_, false, reason, message);
    match token {
        Token::NoSecret => no(
            R::TokenSecretNotFound,
            format!("Secret {namespace}/{secret} does not exist; create it with keys apiToken and paasToken"),
        ),
        Token::Unread(why) => {
            Finding::new(type_, None, R::TokenError, format!("Secret {namespace}/{secret} cannot be read: {why}"))
        }
        Token::NoKey => no(R::TokenMissing, format!("Secret {namespace}/{secret} has no key {key}; add it")),
        Token::There { blanks: true, .. } => no(
            R::TokenUnauthorized,
            format!(
                "key {key} of Secret {namespace}/{secret} has blanks or a line feed around the token; agents would \
                send them with it: remove them"
            ),
        ),
        Token::There { .. } => match state {
            Some(TokenState::Ready) => Finding::new(type_, true, R::TokenReady, "Ready"),
            Some(TokenState::Unauthorized(why)) => no(
                R::TokenUnauthorized,
                format!(
                    "the environment refuses the token in key {key} of Secret {namespace}/{secret} ({why}); put a \
                    valid one there"
                ),
            ),
            Some(TokenState::ScopeMissing(scope)) => no(
                R::TokenScopeMissing,
                format!(
                    "the token in key {key} of Secret {namespace}/{secret} lacks scope {scope}; create one that has it"
                ),
            ),
            Some(TokenState::Error(why)) => Finding::new(
                type_,
                None,
                R::TokenError,
                format!("the token in key {key} of Secret {namespace}/{secret} could not be tried: {why}"),
            ),
            Some(TokenState::Unknown) if picture.resolved.versions.is_some() => Finding::new(
                type_,
                None,
                R::NotYetReported,
                "not tried: the environment is not asked, for spec.update.source is ConfigMap",
            ),
            Some(TokenState::Unknown) => [R::TokenReady, R::TokenUnauthorized, R::TokenScopeMissing]
                .into_iter()
                .find_map(|reason| kept(type_, reason, picture))
                .unwrap_or_else(|| Finding::new(type_, None, R::NotYetReported, "not tried yet")),
            None => Finding::new(
                type_,
                None,
                R::TokenError,
                "not tried: the environment cannot be asked; see condition Degraded",
            ),
        },
    }
}

/// After a start what held is not doubted before it was looked at again.
/// What `Ready` said while all agents were as desired, as long as nothing else is new but that this process has not
/// heard of their versions yet: after a start nothing is doubted before that.
pub(super) fn all_updated_before(picture: &Picture<'_>) -> Option<Finding> {
    let report = picture.report();
    let is_at_rest = picture.memory().rollout.started().is_none() && report.state == State::Complete;
    let is_unheard = report.unheard > 0 && report.unheard == report.unknown.count;
    if is_at_rest && is_unheard { kept(C::Ready, R::AllUpdated, picture) } else { None }
}

fn kept(type_: C, reason: R, picture: &Picture<'_>) -> Option<Finding> {
    let held = picture.before.conditions.iter().find(|c| c.type_ == type_.to_string())?;
    (held.reason == reason.to_string())
        .then(|| Finding::new(type_, held.status == "True", reason, held.message.clone()))
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
