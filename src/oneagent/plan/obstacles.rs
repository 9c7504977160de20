//! What keeps a plan from being carried out: what a human must fix, and what must not be touched.
//!
//! Pure. Must not choose a Pod or an object.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use super::super::build::template::{self};
use super::super::hold::{AWAITED, ENVIRONMENT, NOT_OFFERED, TOKEN_REJECTED};
use super::super::observe::{Named, Observed, Token};
use super::super::places::{Decision, wanted};
use super::super::problem::{Problem, lift_selectors, whose_selector};
use super::super::resolve::Resolved;
use super::super::revision::{Desired, Revision};
use super::super::version::{Choice, withdrawn};
use super::failed::{refuses_the_old, rolled_back, rollout_failed};
use super::versions::downloads;
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::Snapshot;
use crate::fleet::finding::{by_cause, first_of, no_canary};
use crate::fleet::kept_out::outside;
use crate::fleet::refusal;
use crate::rollout::{self, Failure, Hold, Source};

/// Why nothing of ours may be touched at all.
pub(super) fn hands_off(resolved: &Resolved, seen: &Observed) -> Option<Problem> {
    if seen.other_operator {
        return Some((
            Reason::OtherOperatorRunning,
            format!(
                "the original operator still runs in this namespace: kubectl -n {} delete deployment \
                dynatrace-oneagent-operator",
                resolved.namespace
            ),
        ));
    }
    if let Some(doubt) = &resolved.doubt {
        return Some((Reason::NodesConflict, doubt.to_string()));
    }
    if let Some(what) = predecessor(resolved, seen) {
        return Some((
            Reason::BeingRemoved,
            format!(
                "{what}; agents are installed when that is done. If it does not end, see kubectl -n {} get \
                daemonsets,pods -l dynatrace=oneagent,oneagent={}",
                resolved.namespace, resolved.name
            ),
        ));
    }
    if let Some(live) = seen.daemonset.as_deref()
        && let Some(why) = not_adoptable(resolved, live)
    {
        return Some((
            Reason::NameTaken,
            format!(
                "DaemonSet {}/{} {why}; it is left alone: rename this OneAgent, or delete that DaemonSet",
                resolved.namespace, resolved.name
            ),
        ));
    }
    // The operator's own pull secret may be missing: it is made.
    let custom = seen
        .pull_secret
        .as_ref()
        .filter(|_| resolved.from_image.as_ref().is_some_and(|image| image.custom_secret.is_some()));
    let named = [
        (&seen.trusted.as_ref(), Reason::TrustedCAsMissing),
        (&seen.proxy.as_ref(), Reason::ProxyInvalid),
        (&custom, Reason::PullSecretInvalid),
    ];
    for (named, reason) in named {
        if let Some(Named::Unusable(why) | Named::Unread(why)) = named {
            return Some((reason, why.clone()));
        }
    }
    None
}

/// What of an earlier DaemonSet of this name is still there: a new one would bring a second agent to its nodes.
fn predecessor(resolved: &Resolved, seen: &Observed) -> Option<String> {
    let what = format!("{}/{}", resolved.namespace, resolved.name);
    if let Some(live) = seen.daemonset.as_deref() {
        // Two objects of one kind and name never exist at once.
        let is_of_a_deleted_one = live.owner_references().iter().any(|owner| {
            owner.controller == Some(true)
                && (&*owner.kind, &owner.name) == (&*resolved.owner.kind, &resolved.name)
                && owner.uid != resolved.uid
        });
        return if is_of_a_deleted_one {
            Some(format!("DaemonSet {what} of a OneAgent of this name that was deleted is being removed"))
        } else {
            live.metadata.deletion_timestamp.as_ref().map(|_| format!("DaemonSet {what} is being removed"))
        };
    }
    // On a node that does not answer nothing ends, nor begins.
    let ready: HashSet<&str> = seen.nodes.iter().filter(|node| node.ready).map(|node| &*node.name).collect();
    let mut left = seen.pods.iter().filter(|pod| ready.contains(&*pod.node));
    let first = left.next()?;
    Some(format!(
        "the DaemonSet {what} was deleted, and {} of its agents are being removed, such as Pod {} on node {}",
        left.count() + 1,
        first.name,
        first.node
    ))
}

pub(super) fn not_adoptable(resolved: &Resolved, live: &DaemonSet) -> Option<&'static str> {
    let selector = live.spec.as_ref().and_then(|s| s.selector.match_labels.clone()).unwrap_or_default();
    if selector != template::selector(&resolved.name) {
        return Some("was not made by this operator or the original one (its selector differs)");
    }
    let other = live.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid != resolved.uid);
    other.then_some("belongs to another object (its controller owner differs)")
}

/// Why a new Pod could not download its agent now.
pub(super) fn cannot_download(
    source: Source,
    environment: Option<&Snapshot>,
    version: Option<Version>,
) -> Option<Hold> {
    let lacks = version.is_some_and(|version| environment.is_some_and(|environment| environment.lacks(version)));
    match source {
        Source::NotNeeded | Source::Unasked => None,
        Source::Awaited => Some(AWAITED),
        Source::Away if environment.is_some_and(Snapshot::rejects_token) => Some(TOKEN_REJECTED),
        Source::Away => Some(ENVIRONMENT),
        Source::Answers(_) => lacks.then_some(NOT_OFFERED),
    }
}

/// Whether the token that Pods take from the Secret is missing, or not known to be as they need it: they take it with
/// its blanks, which the operator strips from its own requests.
pub(super) fn missing_token(resolved: &Resolved, seen: &Observed) -> bool {
    resolved.from_image.is_none() && !matches!(seen.paas, Token::There { blanks: false, .. })
}

/// Whether the namespace's own node selector excludes agents that run, and is enforced.
pub(super) fn kept_out(resolved: &Resolved, seen: &Observed) -> Option<Problem> {
    if seen.namespace_selector.is_empty() || !seen.selector_enforced {
        return None;
    }
    let outside = outside(&seen.namespace_selector, &seen.nodes, &seen.pods);
    let first = outside.first()?;
    let namespace = &resolved.namespace;
    Some((
        Reason::NamespaceSelector,
        format!(
            "{}, which excludes {} nodes with a running agent, such as {first}; a change would remove \
            these agents, or not bring them back, so nothing is changed: run {}, or exclude these nodes by \
            spec.nodeSelector",
            whose_selector(namespace, seen),
            outside.len(),
            lift_selectors(namespace)
        ),
    ))
}

/// Why the API server refuses the agents' Pods.
pub(super) fn refused(resolved: &Resolved, seen: &Observed) -> Option<refusal::Refusal> {
    let why = seen.refused.as_ref()?;
    Some(refusal::read(why, "OneAgent", &resolved.namespace, &resolved.pod.service_account))
}

/// Agents that the API server does not let go.
fn undeletable(seen: &Observed) -> Option<Problem> {
    let said = first_of(&seen.undeletable.said)?;
    Some((
        Reason::WriteRefused,
        format!(
            "{said}; the other agents are replaced meanwhile; correct the policy or webhook that refuses it: \
            the operator tries again within two minutes"
        ),
    ))
}

/// What is wrong beyond what keeps our hands off.
pub(super) fn complaints(
    resolved: &Resolved,
    seen: &Observed,
    decision: &Decision,
    refused: Option<refusal::Refusal>,
    (environment, choice, desired): (Option<&Snapshot>, &Choice, Option<&Desired>),
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let report = &decision.plan.report;
    problems.extend(refuses_the_old(decision));
    problems.extend(undeletable(seen));
    problems.extend(no_canary(&resolved.canary, report).map(|why| (Reason::InvalidSpec, why)));
    let failure = rollout_failed(resolved, seen, decision);
    let is_now = report.state == rollout::State::Failed;
    problems.extend(failure.clone().filter(|_| is_now));
    problems.extend(rolled_back(resolved, decision));
    problems.extend(refused.map(|refused| {
        if refused.account_missing {
            (Reason::ServiceAccountMissing, refused.full)
        } else {
            (Reason::PodsRefused, format!("the API server refuses the agents' Pods: {}", refused.full))
        }
    }));
    let made_from = seen.pods.iter().filter(|pod| !pod.deleting).filter_map(|pod| pod.revision.as_ref()?.version);
    let withdrawn = withdrawn(environment, made_from).filter(|_| downloads(resolved) && resolved.versions.is_none());
    problems.extend(withdrawn.map(|why| (Reason::VersionWithdrawn, why)));
    match &seen.environment {
        Some(Err(error)) => problems.push((Reason::EnvironmentUnreachable, error.to_string())),
        Some(Ok(snapshot)) => {
            if let Some((_, trouble)) =
                snapshot.hosts_trouble.as_ref().filter(|_| decision.needs_hosts && snapshot.trouble.is_none())
            {
                problems.push((
                    Reason::EnvironmentUnreachable,
                    format!(
                        "{}: the host list cannot be read: {trouble}; agents that may have updated themselves are \
                        left alone for half an hour",
                        resolved.api_url
                    ),
                ));
            }
            if let Some(trouble) = &snapshot.trouble {
                problems.push((
                    Reason::EnvironmentUnreachable,
                    format!("{}: {trouble}; agents run on, new versions are not seen", resolved.api_url),
                ));
            }
        }
        None => {}
    }
    if !is_now {
        // Refusals are said already, once for all.
        let others = report.troubled.iter().filter(|(_, why)| why.bucket() != rollout::Bucket::Admission);
        let causes = by_cause(others);
        let causes: Vec<String> = causes.iter().map(|(why, nodes)| format!("{}: {why}", nodes.join(", "))).collect();
        if !causes.is_empty() {
            let (failing, limit) = (decision.plan.failing, decision.plan.failure_limit);
            let counts = match report.state {
                rollout::State::Rolling if failing > 0 => format!(
                    "; new agents have failed on {failing} {}, and the rollout stops at {limit} at the latest",
                    if failing == 1 { "node" } else { "nodes" }
                ),
                _ => String::new(),
            };
            problems.push((Reason::AgentsUnavailable, format!("{}{counts}", causes.join("; "))));
        }
    }
    // What failed before a newer version or template, or before the one that a user insists on since, is history. An
    // edit of the last good one is rolled out beside a failure that persists.
    let failed = decision.memory.rollout.failure.as_ref();
    let is_under_way = decision.memory.rollout.started().is_some();
    let is_replaced = |(failure, desired): (&Failure<Revision>, &Desired)| {
        let is_newer = rollout::Revision::supersedes(&desired.revision, &failure.revision);
        !rollout::is_about(failure, &wanted(desired)) && (desired.strict || is_newer)
    };
    let is_another = is_under_way && failed.zip(desired).is_some_and(is_replaced);
    let is_newer = failed.and_then(|failure| failure.revision.version).is_some_and(|it| choice.version > Some(it));
    let is_history = is_another || is_newer;
    let is_back = report.state == rollout::State::RolledBack;
    problems.extend(failure.filter(|_| !is_now && !is_back && !is_history));
    problems
}
