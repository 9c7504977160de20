//! Who says which versions there are and which agents have: the environment, or the list in its place.
//!
//! Pure. Must not compare versions itself (that is `version`).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::super::memory::Memory;
use super::super::observe::{Observed, Token};
use super::super::problem::Problem;
use super::super::resolve::{Resolved, Wish};
use super::super::revision::{Pod, Reported, Revision};
use super::super::version::{API, Choice, Facts, choose};
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::{self, Snapshot};
use crate::k8s::node::Node;
use crate::rollout::Source;

/// For so long an answer about hosts is waited for; then Pods are judged by what they were made from.
const HEARD: TimeDelta = TimeDelta::minutes(30);

/// Which version the agents should have; and the newest that one reported, where the DaemonSet is at an older one.
pub(super) fn chosen(
    memory: &Memory,
    resolved: &Resolved,
    (seen, environment, reported): (&Observed, Option<&Snapshot>, Reported<'_>),
    running: Option<&Revision>,
    hash: &str,
    now: DateTime<Utc>,
) -> (Choice, Option<Version>) {
    // A change of the template reaches agents that updated themselves at what they are.
    let changes = running.is_some_and(|running| running.hash != hash);
    // While canaries are watched the template is the one before; and, where it is held, also when they have passed.
    let watched = memory.rollout.proof.as_ref().filter(|_| memory.rollout.started().is_some());
    // So it is while its Pods do not start for another cause; a version that the user names may be another one.
    let is_chosen = resolved.wish == Wish::Newest;
    let stalled = memory.rollout.stall().filter(|_| is_chosen).map(|stall| &stall.revision);
    let on_its_way = watched.map(|proof| &proof.revision).or(stalled).filter(|_| !resolved.frozen);
    let on_its_way = on_its_way.and_then(|revision| revision.version);
    let last_good = memory.rollout.last_good.as_ref().and_then(|good| good.version);
    let is_list = resolved.versions.is_some();
    let ahead = ahead(memory, resolved, seen, environment, running.and_then(|running| running.version));
    let facts = Facts {
        environment,
        running: on_its_way.or(running.and_then(|running| running.version)),
        last_good,
        rejected: &memory.rejected,
        reported: if changes { newest(&seen.nodes, &seen.pods, reported) } else { None },
        built_before: (resolved.minimum_age > TimeDelta::zero()).then(|| now - resolved.minimum_age),
        is_list,
        ahead,
    };
    let choice = choose(resolved.wish, resolved.frozen, facts);
    let source = if is_list && choice.source == API { "ConfigMap" } else { choice.source };
    (Choice { source, ..choice }, ahead)
}

/// Whether Pods fetch their version from the environment when they start.
pub(super) fn downloads(resolved: &Resolved) -> bool {
    resolved.from_image.is_none() && resolved.wish != Wish::UserUrl
}

/// What the host list says, if that is newer than what is desired: an agent may have updated itself since.
pub(super) fn reported<'a>(
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&'a Snapshot>,
    began: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Reported<'a> {
    if resolved.versions.is_some() {
        return Reported::Silent;
    }
    let nobody_to_ask =
        matches!((&seen.paas, &seen.api), (Token::NoSecret | Token::NoKey, Token::NoSecret | Token::NoKey));
    let Some(environment) = environment else {
        let never = nobody_to_ask || matches!(seen.environment, Some(Err(_)));
        return if never && !downloads(resolved) { Reported::Silent } else { Reported::NotYet };
    };
    let since = began.unwrap_or_default();
    let is_new = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at >= since);
    if let Some(hosts) = environment.hosts.as_deref().filter(|_| is_new(environment.hosts_at)) {
        // A list that was read for others says nothing of this zone.
        return hosts.of(resolved.network_zone.as_deref()).map_or(Reported::NotYet, Reported::Answered);
    }
    let tried = environment.hosts_trouble.as_ref().map(|(tried, _)| (*tried).max(since));
    let given_up = tried.is_some_and(|tried| tried + HEARD <= now);
    if is_new(environment.hosts_refused_at) || given_up { Reported::Silent } else { Reported::NotYet }
}

/// When one of the versions that are too young now is old enough, or the host list is waited for no longer.
pub(super) fn changes_at(
    resolved: &Resolved,
    environment: Option<&Snapshot>,
    began: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let environment = environment?;
    let versions = environment.offered.iter().flat_map(|offered| offered.iter()).chain(&environment.latest);
    let ripe = versions.filter_map(Version::built_at).map(|built| built + resolved.minimum_age);
    let tried = environment.hosts_trouble.as_ref().map(|(tried, _)| (*tried).max(began.unwrap_or_default()) + HEARD);
    ripe.filter(|_| resolved.minimum_age > TimeDelta::zero()).chain(tried).filter(|at| *at > now).min()
}

/// Whether the host list, at hand or not, says of an agent what its Pod does not.
pub(super) fn rests_on_hosts(
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&Snapshot>,
    choice: &Choice,
) -> bool {
    let hosts = environment.and_then(|environment| environment.hosts.as_deref()?.of(resolved.network_zone.as_deref()));
    let ips: HashMap<&str, IpAddr> = match hosts {
        Some(_) if !choice.strict => seen.nodes.iter().filter_map(|node| Some((&*node.name, node.ip?))).collect(),
        _ => HashMap::new(),
    };
    let reported = |pod: &Pod| hosts?.get(ips.get(&*pod.node)?).copied();
    seen.pods.iter().any(|pod| {
        let made_from = pod.revision.as_ref().and_then(|revision| revision.version);
        made_from != choice.version || reported(pod) > made_from
    })
}

/// The newest version that an agent of ours reports.
fn newest(nodes: &[Arc<Node>], pods: &[Arc<Pod>], reported: Reported<'_>) -> Option<Version> {
    let Reported::Answered(hosts) = reported else { return None };
    let ours: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    nodes.iter().filter(|node| ours.contains(&*node.name)).filter_map(|node| hosts.get(&node.ip?).copied()).max()
}

/// The environment as the place that Pods download from.
pub(super) fn source(resolved: &Resolved, environment: Option<&Result<Arc<Snapshot>, dynatrace::Error>>) -> Source {
    // Where no request is possible, nothing waits for an answer.
    if !downloads(resolved) {
        return Source::NotNeeded;
    }
    if resolved.versions.is_some() {
        return Source::Unasked;
    }
    let Some(environment) = environment else { return Source::Awaited };
    let Ok(environment) = environment else { return Source::Away };
    match environment.answered_at.filter(|_| environment.serves_installers()) {
        Some(at) => Source::Answers(at),
        None if environment.is_awaited() => Source::Awaited,
        None => Source::Away,
    }
}

/// While the environment is not asked, what was known before counts.
fn ahead(
    memory: &Memory,
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&Snapshot>,
    running: Option<Version>,
) -> Option<Version> {
    let hosts = environment.and_then(|environment| environment.hosts.as_deref());
    let hosts = hosts.and_then(|hosts| hosts.of(resolved.network_zone.as_deref()));
    let known = match hosts.filter(|_| resolved.versions.is_none()) {
        Some(hosts) => newest(&seen.nodes, &seen.pods, Reported::Answered(hosts)),
        None => memory.reported,
    };
    // The template may go back to what was good.
    let good = memory.rollout.last_good.as_ref().and_then(|good| good.version);
    known.filter(|known| good.map_or(running, |good| running.min(Some(good))) < Some(*known))
}

/// Why nothing is taken of a list that names nothing as new as what agents have.
pub(super) fn behind(resolved: &Resolved, choice: &Choice, ahead: Option<Version>) -> Option<Problem> {
    let ahead = ahead.filter(|ahead| choice.version.is_some_and(|version| version < *ahead))?;
    let (name, key) = resolved.versions.as_ref().filter(|_| !choice.strict)?;
    Some((
        Reason::VersionListInvalid,
        format!(
            "spec.update.configMap: agents updated themselves to {ahead}, which is newer than what may be taken of key \
            {key} of ConfigMap {}/{name}: agents that are replaced would go back; add {ahead} or a newer version (none \
            is taken before it has spec.update.minimumAge), or pin an older one (spec.update.version with \
            spec.update.allowDowngrade)",
            resolved.namespace
        ),
    ))
}
