//! What keeps a plan from being carried out: what a human must fix, and what nobody may touch.
//!
//! Pure. Must not choose a Pod or an object.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use super::super::build::template::{self};
use super::super::hold::{AWAITED, ENVIRONMENT, NOT_OFFERED, TOKEN_REJECTED};
use super::super::observe::{Named, Observed, Token};
use super::super::places::{Decision, WORDS};
use super::super::problem::{Problem, lift_selectors, whose_selector};
use super::super::resolve::{Resolved, Wish};
use super::super::revision::Revision;
use super::super::version::withdrawn;
use super::versions::downloads;
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::Snapshot;
use crate::fleet::finding::by_cause;
use crate::fleet::kept_out::outside;
use crate::fleet::refusal;
use crate::rollout::{self, Hold, Source};

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

/// Whether the token that Pods take from the Secret is missing, or not known to be there.
pub(super) fn missing_token(resolved: &Resolved, seen: &Observed) -> bool {
    resolved.from_image.is_none() && !matches!(seen.paas, Token::There { .. })
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

/// How a version that failed is tried again, by what the spec names already.
fn how_to_retry(resolved: &Resolved, failure: &rollout::Failure<Revision>) -> String {
    if failure.by_hand {
        return "to try it again, remove spec.rollout.reject".to_owned();
    }
    let field = match (resolved.retry, failure.revision.version) {
        (Some(retried), Some(failed)) if retried == failed => "remove spec.rollout.retry, and set it again".to_owned(),
        (_, Some(failed)) => format!("spec.rollout.retry: {failed}"),
        (_, None) => "spec.rollout.retry".to_owned(),
    };
    format!("to try it again: {} ({field})", plugin("retry", resolved))
}

/// A verb of the kubectl plugin, of this object.
fn plugin(verb: &str, resolved: &Resolved) -> String {
    format!("kubectl oneagent -n {} {verb} {}", resolved.namespace, resolved.name)
}

/// How nodes that have what failed get another agent.
fn how_to_leave(resolved: &Resolved, decision: &Decision, failure: &rollout::Failure<Revision>) -> String {
    if resolved.policy.rolls_back {
        return "agents that have it go back to the last good version".to_owned();
    }
    if !failure.rejects {
        return "or change the Pod template back in the spec".to_owned();
    }
    let newer = "a newer version is taken automatically";
    match (resolved.wish, decision.memory.last_good_version()) {
        (Wish::Image { .. } | Wish::UserUrl, _) => "or choose another version".to_owned(),
        (wish, Some(good)) => format!(
            "to put {good} on these nodes: {} (spec.update.version){}",
            plugin("rollback", resolved),
            if matches!(wish, Wish::Newest) { format!("; {newer}") } else { String::new() }
        ),
        (_, None) => format!("or pin a good one (spec.update.version); {newer}"),
    }
}

/// What stopped the rollout, and what there is to do.
fn rollout_failed(resolved: &Resolved, decision: &Decision) -> Option<Problem> {
    let failure = decision.memory.rollout.failure.as_ref()?;
    let by_itself = if decision.memory.rollout.is_final() {
        "these nodes' agents recovered twice before, so their recovery does not end this any more; "
    } else {
        "correct the cause: when these nodes' agents recover, the rollout continues; "
    };
    // An outage there looks like a version that fails.
    let asked = resolved.versions.is_none() || !downloads(resolved);
    let unasked = "; the environment that agents download from is not asked (spec.update.source is ConfigMap): see \
        whether these nodes reach it";
    Some((
        Reason::RolloutFailed,
        format!(
            "{}{}; the other agents keep the previous version, and nodes that join get that one; {}{}; {}",
            failure.message,
            if asked { "" } else { unasked },
            if failure.by_hand { "" } else { by_itself },
            how_to_retry(resolved, failure),
            how_to_leave(resolved, decision, failure)
        ),
    ))
}

/// What there is to do once agents went back.
fn rolled_back(resolved: &Resolved, decision: &Decision) -> Option<Problem> {
    let engines = &decision.memory.rollout;
    let failure = engines.failure.as_ref().filter(|_| decision.plan.report.state == rollout::State::RolledBack)?;
    let good = decision.memory.last_good_version();
    let good = good.map_or_else(|| "the last good Pod template".to_owned(), |version| format!("version {version}"));
    Some((
        Reason::RolledBack,
        format!(
            "{}; all agents that had it run {good} again; a newer version is taken automatically; {}",
            failure.message,
            how_to_retry(resolved, failure)
        ),
    ))
}

/// Why agents cannot go back to the last good version.
fn refuses_the_old(decision: &Decision) -> Option<Problem> {
    let mut waits = decision.plan.report.waiting_on.iter();
    let refused = waits.find(|waits| matches!(waits, rollout::WaitingOn::Back { refused: Some(_), .. }))?;
    Some((
        Reason::DowngradeRefused,
        format!(
            "{}; the other agents are left as they are. If the host refuses the older agent, take a newer version (it \
            is taken automatically, or pin it in spec.update.version), or remove the agent from that node with its \
            uninstall script, and delete the Pod. If the node keeps both versions from starting, correct that first",
            refused.said(&WORDS)
        ),
    ))
}

/// Agents that the API server does not let go.
fn undeletable(seen: &Observed) -> Option<Problem> {
    let (first, others) = seen.undeletable.said.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
    Some((
        Reason::WriteRefused,
        format!(
            "{first}{more}; the other agents are replaced meanwhile; correct the policy or webhook that refuses it: \
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
    (environment, chosen): (Option<&Snapshot>, Option<Version>),
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let report = &decision.plan.report;
    problems.extend(refuses_the_old(decision));
    problems.extend(undeletable(seen));
    let failure = rollout_failed(resolved, decision);
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
            let goes_on = match report.state {
                rollout::State::Rolling => {
                    let limit = decision.plan.failure_limit;
                    format!(
                        "; the rollout stops once new agents fail on {limit} node{}",
                        if limit == 1 { "" } else { "s" }
                    )
                }
                _ => String::new(),
            };
            problems.push((Reason::AgentsUnavailable, format!("{}{goes_on}", causes.join("; "))));
        }
    }
    // What failed before a newer version, or before the rollout under way, is history.
    let failed = decision.memory.rollout.failure.as_ref().and_then(|failure| failure.revision.version);
    let is_history = decision.memory.rollout.started().is_some() || failed.is_some_and(|failed| chosen > Some(failed));
    let is_back = report.state == rollout::State::RolledBack;
    problems.extend(failure.filter(|_| !is_now && !is_back && !is_history));
    problems
}
