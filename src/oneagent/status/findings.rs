//! What the conditions of a OneAgent say.
//!
//! Pure. Must not decide anything that a plan has not.

use super::super::conflict::Conflict;
use super::super::observe::Token;
use super::super::places::WORDS;
use super::super::problem::{Problem, lift_selectors, whose_selector};
use super::StatusFacts;
use crate::api::oneagent::condition::{ConditionType as C, Finding, Reason as R};
use crate::dynatrace::{Snapshot, TokenState};
use crate::fleet::closed;
use crate::fleet::finding::{awaited, pairs};
use crate::rollout::{Bucket, Report, State};

/// What conditions say; and what a human must fix, most important first.
pub(super) fn findings(facts: &StatusFacts<'_>) -> (Vec<Finding>, Vec<Problem>) {
    let report = facts.report();
    let mut findings =
        vec![ready(facts), available(report, facts.memory().rollout.last_good.is_none()), progressing(facts)];
    let [paas, api] = tokens(facts);
    let mut problems = facts.problems();
    problems.extend(token_problems(facts, [&paas, &api]));
    findings.push(match problems.first() {
        None if facts.assessment.warnings.is_empty() => {
            Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention")
        }
        None => Finding::new(C::Degraded, false, R::AsExpected, facts.assessment.warnings.join("; ")),
        Some((reason, _)) => {
            let all: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            Finding::new(C::Degraded, true, *reason, all.join("; "))
        }
    });
    findings.extend([paas, nodes_conflict(&facts.resolved.conflicts), api]);
    (findings, problems)
}

fn tokens(facts: &StatusFacts<'_>) -> [Finding; 2] {
    let state = |of: fn(&Snapshot) -> &TokenState| facts.environment().map(of);
    [
        token(C::PaasToken, &facts.seen.paas, state(|s| &s.paas), "paasToken", facts),
        token(C::ApiToken, &facts.seen.api, state(|s| &s.api), "apiToken", facts),
    ]
}

/// What is wrong with the tokens, where the environment is asked; each cause once.
fn token_problems(facts: &StatusFacts<'_>, tokens: [&Finding; 2]) -> Vec<Problem> {
    if facts.resolved.versions.is_some() {
        return Vec::new();
    }
    let wrong = tokens.into_iter().filter(|finding| finding.holds == Some(false));
    let mut problems: Vec<Problem> = wrong.map(|finding| (finding.reason, finding.message.clone())).collect();
    problems.dedup();
    problems
}

/// Which others select these nodes, and which keeps them.
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
fn none_selected(facts: &StatusFacts<'_>) -> String {
    let report = facts.report();
    let near = |by: &str, why: &str| {
        let nodes = report.closed.get(by)?;
        Some(format!("; {} nodes match {why}, such as {}", nodes.count, nodes.such_as()))
    };
    let has_affinity = !facts.resolved.placement.terms.is_empty();
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
    format!("no node is selected by {fields} and spec.tolerations{reasons}{}", excluded(facts))
}

fn ready(facts: &StatusFacts<'_>) -> Finding {
    let report = facts.report();
    let not = |reason, message: String| Finding::new(C::Ready, false, reason, message);
    if facts.assessment.is_blocked
        && let Some((reason, message)) = facts.problems().first()
    {
        return not(*reason, message.clone());
    }
    if facts.assessment.template.is_none() && !facts.assessment.choice.is_known() {
        return not(
            R::WaitingForVersion,
            "no version is known yet, so no agent is rolled out; see conditions PaaSToken and Degraded".to_owned(),
        );
    }
    if report.selected == 0 {
        return not(R::NoNodesSelected, none_selected(facts));
    }
    if report.lacking > 0 {
        let named = [report.troubled.as_slice(), &report.ceased].concat();
        let more = match report.lacking.saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let who = if named.is_empty() { String::new() } else { format!(": {}{more}", pairs(&named)) };
        // While the Pods of what was unavailable come and go, it still is.
        let is_known = kept(C::Ready, R::AgentsUnavailable, facts).is_some();
        let reason = if named.is_empty() && !is_known { R::RollingOut } else { R::AgentsUnavailable };
        // NotReady nodes are not expected to have one.
        let away = report.bucket(Bucket::NodeNotReady);
        let away = match away {
            0 => String::new(),
            1 => "; in addition, 1 node is NotReady".to_owned(),
            _ => format!("; in addition, {away} nodes are NotReady"),
        };
        return not(reason, format!("{} of {} nodes have no Ready agent{who}{away}", report.lacking, report.selected));
    }
    if report.state == State::RolledBack && report.running > 0 && report.outdated == 0 {
        let message = format!("{} of {} nodes run the last good agent again", report.running, report.selected);
        return Finding::new(C::Ready, true, R::RolledBack, message);
    }
    if report.outdated > 0 || facts.memory().rollout.failure.is_some() {
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
    if let Some(kept) = all_updated_before(facts) {
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
    if report.running == 0 || (report.joining > 0 && facts.memory().rollout.last_good.is_none()) {
        return not(R::Starting, format!("{} of {} nodes have a Ready agent", report.running, report.selected));
    }
    let able = report.selected - report.bucket(Bucket::NodeNotReady) - report.bucket(Bucket::NodeBusy) - report.joining;
    Finding::new(
        C::Ready,
        true,
        R::AllUpdated,
        format!("all {able} nodes that can run an agent run the desired one{}{}", excluded(facts), surplus(facts)),
    )
}

/// Agents that go on running where no new one may start, and how to end that either way.
fn surplus(facts: &StatusFacts<'_>) -> String {
    let report = facts.report();
    let Some(first) = report.surplus.examples.first() else { return String::new() };
    let node = &first.name;
    let (namespace, name) = (&facts.resolved.namespace, &facts.resolved.name);
    let (who, then) = match report.surplus.count {
        1 => ("1 agent runs on a node".to_owned(), "it keeps running, and gets no update"),
        count => (format!("{count} agents run on nodes"), "they keep running, and get no update"),
    };
    format!(
        "; {who} with a taint that spec.tolerations does not tolerate ({}): {then}; tolerate the taint, or remove such \
        an agent by kubectl -n {namespace} delete pod -l oneagent={name} --field-selector=spec.nodeName={node}",
        report.surplus.such_as(),
    )
}

/// The nodes that the namespace keeps agents off, and how to let them in.
fn excluded(facts: &StatusFacts<'_>) -> String {
    let report = facts.report();
    let Some(nodes) = report.closed.get(closed::NAMESPACE_SELECTOR) else { return String::new() };
    let (count, such, namespace) = (nodes.count, nodes.such_as(), &facts.resolved.namespace);
    format!(
        "; {}: it keeps agents off {count} nodes, such as {such}; to let them in: {} && kubectl -n \
        {namespace} delete pod -l oneagent={} --field-selector=status.phase=Pending",
        whose_selector(namespace, facts.seen),
        lift_selectors(namespace),
        facts.resolved.name
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

fn progressing(facts: &StatusFacts<'_>) -> Finding {
    let report = facts.report();
    let finding = |holds: bool, reason, message: String| Finding::new(C::Progressing, holds, reason, message);
    let waiting = || report.waiting_on.iter().map(|waiting| waiting.said(&WORDS)).collect::<Vec<_>>().join("; ");
    let problem = facts.problems().into_iter().next();
    match (report.state, problem) {
        (_, Some((reason, message))) if facts.assessment.is_blocked => finding(false, reason, message),
        (State::Waiting, _) => finding(true, R::WaitingForVersion, waiting()),
        (State::Held, _) => finding(true, R::Held, waiting()),
        (State::Failed, _) => finding(false, R::RolloutFailed, waiting()),
        (State::Paused, _) => finding(false, R::Paused, waiting()),
        (State::Stopped, _) => finding(false, R::Stopped, waiting()),
        (State::Rolling, _) if let Some(said) = promotion(facts) => finding(true, R::AwaitingPromotion, said),
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
        (State::Complete | State::RolledBack, _) if let Some(hold) = facts.resolved.held(facts.seen.stopped) => {
            let reason = if hold.state == State::Stopped { R::Stopped } else { R::Paused };
            finding(false, reason, format!("nothing is under way, and nothing will be: {}", hold.why))
        }
        (State::RolledBack, _) => finding(false, R::RolledBack, "nothing is under way".to_owned()),
        (State::Complete, _) => finding(false, R::AsExpected, "nothing is under way".to_owned()),
    }
}

/// The canaries have soaked, and a person must say what follows.
fn promotion(facts: &StatusFacts<'_>) -> Option<String> {
    let (resolved, version) = (facts.resolved, facts.assessment.choice.version?.to_string());
    let object = (resolved.namespace.as_str(), resolved.name.as_str());
    let promoted = resolved.promote.map(|promoted| promoted.to_string());
    awaited(&facts.report().waiting_on, &WORDS, "oneagent", object, &version, promoted.as_deref())
}

fn after_waiting(waits: &str) -> String {
    if waits.is_empty() { String::new() } else { format!("; waiting: {waits}") }
}

fn token(type_: C, token: &Token, state: Option<&TokenState>, key: &str, facts: &StatusFacts<'_>) -> Finding {
    let (namespace, secret) = (&facts.resolved.namespace, &facts.resolved.tokens);
    let no = |reason, message: String| Finding::new(type_, false, reason, message);
    match token {
        Token::NoSecret => no(
            R::TokenSecretNotFound,
            format!(
                "Secret {namespace}/{secret} does not exist; create it with both tokens: kubectl -n {namespace} create \
                secret generic {secret} --from-literal=apiToken=TOKEN --from-literal=paasToken=TOKEN"
            ),
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
            Some(TokenState::Unknown) if facts.resolved.versions.is_some() => Finding::new(
                type_,
                None,
                R::NotYetReported,
                "not tried: the environment is not asked, for spec.update.source is ConfigMap",
            ),
            Some(TokenState::Unknown) => [R::TokenReady, R::TokenUnauthorized, R::TokenScopeMissing]
                .into_iter()
                .find_map(|reason| kept(type_, reason, facts))
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

/// What `Ready` said while all agents were as desired, as long as nothing else is new but that this process has not
/// heard of their versions yet: after a start nothing is doubted before that. Of another version than was desired then
/// it said nothing.
pub(super) fn all_updated_before(facts: &StatusFacts<'_>) -> Option<Finding> {
    let report = facts.report();
    let is_at_rest = facts.memory().rollout.started().is_none() && report.state == State::Complete;
    let is_unheard = report.unheard > 0 && report.unheard == report.unknown.count;
    let is_same = facts.assessment.choice.version.is_none_or(|v| facts.before.desired_version == Some(v.to_string()));
    if is_at_rest && is_unheard && is_same { kept(C::Ready, R::AllUpdated, facts) } else { None }
}

fn kept(type_: C, reason: R, facts: &StatusFacts<'_>) -> Option<Finding> {
    let held = facts.before.conditions.iter().find(|c| c.type_ == type_.to_string())?;
    (held.reason == reason.to_string())
        .then(|| Finding::new(type_, held.status == "True", reason, held.message.clone()))
}
