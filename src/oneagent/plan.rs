//! Plan: from what is wanted and what is, everything that shall be done. Makes no choice that `act` would have to repeat.
//!
//! Pure: the same arguments give the same plan, byte for byte. Must not send, wait, log, or ask for the time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::MANAGER;
use super::build::daemonset::{architectures, daemonset};
use super::build::pull_secret::{self, PullSecret};
use super::build::record::{Base, Record};
use super::build::template::{self, Surroundings};
use super::build::{ISTIO, istio};
use super::edited::Edited;
use super::hold::{DOWNGRADE, ENVIRONMENT, NAMESPACE_SELECTOR, STOPPED, TOKENS};
use super::known::{Known, News};
use super::memory::Memory;
use super::observe::{Named, Observed, Token};
use super::places::{Decision, Inventory, rollout};
use super::problem::{Problem, lift_selectors};
use super::refusal;
use super::resolve::{Resolved, Wish};
use super::revision::{Desired, Pod, Reported, Revision};
use super::version::{Choice, Facts, choose, older_image, withdrawn};
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::{GoneNode, Interest, Snapshot, TokenState};
use crate::k8s::api_group::{Served, Wanted};
use crate::k8s::facts::{HASH_ANNOTATION, VERSION_ANNOTATION};
use crate::k8s::node::Node;
use crate::k8s::ownership::is_adopted;
use crate::k8s::placement::{Placement, has_labels};
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Policy, Source, Step, Template};

/// What keeps our hands off is not always watched: it is looked at this often.
const BLOCKED: Duration = Duration::from_secs(15);

/// For so long an answer about hosts is waited for; then Pods are judged by what they were made from.
const HEARD: TimeDelta = TimeDelta::minutes(30);

/// Whether the namespace still keeps agents off nodes is looked at this often, while it does.
const EXCLUDED: Duration = Duration::from_secs(60);

/// Objects to apply.
#[derive(Debug)]
pub struct Objects {
    /// The pull secret; `None`: none is needed, or it is as it should be.
    pub pull_secret: Option<PullSecret>,
    /// The DaemonSet; `None`: leave what is there alone.
    pub daemonset: Option<Value>,
    /// What Istio shall let pass; `None`: leave what is there alone.
    pub istio: Option<Wanted>,
}

/// Everything that shall be done.
#[derive(Debug)]
pub struct Plan {
    /// Objects to apply.
    pub objects: Objects,
    /// Pods to replace.
    pub steps: Vec<Step<Revision>>,
    /// What those are bounded by.
    pub guard: Guard,
    /// What we deleted and what is not replaced yet.
    pub ledger: Ledger,
    /// What is to be said of a DaemonSet that somebody edited, once it is put back.
    pub edited: Option<String>,
    /// Whether the DaemonSet controller shall look again: it makes fewer Pods than it should.
    pub nudge: bool,
    /// What the status is to say of it, once it is done.
    pub assessment: Assessment,
    /// What is needed of the environment.
    pub interest: Interest,
    /// The nodes that are known now; `None`: leave them as noted.
    pub known: Option<News>,
    /// When to look again if nothing happens before.
    pub next: Option<Duration>,
}

/// What was found and decided, as far as a status tells of it.
#[derive(Debug)]
pub struct Assessment {
    /// The version that was chosen.
    pub choice: Choice,
    /// What the engine says.
    pub decision: Decision,
    /// The version of the DaemonSet's template.
    pub template: Option<Version>,
    /// What a human must mend, most important first.
    pub problems: Vec<Problem>,
    /// What somebody should know, and nothing needs.
    pub warnings: Vec<String>,
    /// Whether nothing may be touched.
    pub is_blocked: bool,
}

/// Makes the plan.
pub fn plan(memory: &Memory, resolved: &Resolved, seen: &Observed, default_image: &str, now: DateTime<Utc>) -> Result<Plan, serde_json::Error> {
    let environment = seen.environment.as_ref().and_then(|e| e.as_ref().ok()).map(AsRef::as_ref);
    let hands_off = hands_off(resolved, seen);
    let mut problems: Vec<Problem> = hands_off.iter().cloned().collect();

    let live = seen.daemonset.as_deref();
    let adopted = live.is_some_and(|live| is_adopted(MANAGER, live.managed_fields()));
    let record = live.filter(|_| adopted).map(Record::of).unwrap_or_default();
    let base = base(resolved, seen, &record, default_image)?;
    let running = live.map(|live| running(live, &base));
    let running_version = running.as_ref().and_then(|r| r.version);
    let reported = reported(resolved, seen, environment, memory.rollout.started(), now);
    let last_good = memory.rollout.last_good.as_ref().and_then(|good| good.version);
    // A change of the template reaches agents that updated themselves at what they are.
    let changes = running.as_ref().is_some_and(|running| running.hash != base.hash);
    let facts = Facts {
        environment,
        running: running_version,
        last_good,
        rejected: &memory.rejected,
        reported: if changes { newest(&seen.nodes, &seen.pods, reported) } else { None },
    };
    let choice = choose(resolved.wish, resolved.frozen, facts);
    problems.extend(choice.problem.clone());

    let (istio, complaint) = mesh(resolved, seen, environment);
    problems.extend(complaint);
    let (pull_secret, without) = pull_secret(resolved, seen, environment);
    problems.extend(without.problem());
    let desired = desired(resolved, &choice, &base).filter(|_| without == Without::Nothing);
    // An agent of the original operator carries no version in its template: without any, nothing is adopted yet.
    let template = running.clone().filter(|r| r.version.is_some() || resolved.wish.is_users_own() || adopted);
    // Back to the last good one is no downgrade: the newer one never was rolled out.
    let older = older_image(resolved.wish, running_version, last_good).filter(|_| adopted);
    let source = source(resolved, environment);
    let kept_out = kept_out(resolved, seen);
    let no_source = downloads_nothing(source, environment, choice.version);
    let policy = policy(resolved, seen, older.is_some(), kept_out.is_some(), no_source);
    let placement = placement(resolved, live.filter(|_| adopted));
    problems.extend(older);
    problems.extend(kept_out.clone());
    let refused = seen.refused.as_ref().map(|why| refusal::read(why, &resolved.namespace, &resolved.pod.service_account));
    let edited = edited(resolved, seen, live.filter(|_| adopted), &record, running.as_ref(), default_image)?;
    let pods = edited.mark(&seen.pods);
    let inventory = Inventory {
        nodes: &seen.nodes,
        pods: &pods,
        placement: &placement,
        template: template.as_ref(),
        settled: live.is_some_and(settled),
        deleted: &seen.ledger.deleted(),
        lost: &seen.ledger.lost(),
        missing: &seen.missing,
        deciding_since: seen.deciding_since,
        reported,
        source,
        refused: refused.as_ref().map(|refused| refused.short),
        namespace_selector: &seen.namespace_selector,
        memory,
    };
    let (mut decision, guard, ledger) = rollout(&policy, desired.as_ref(), &inventory, &seen.ledger, now);

    // A write makes the DaemonSet controller act on what excludes agents that run.
    let rendered = match (&hands_off, &kept_out, &desired) {
        (None, None, Some(desired)) => {
            let revision = asked_for(&decision.plan, desired, running.as_ref());
            let good = decision.plan.memory.last_good.as_ref();
            Some(render(resolved, &record, &base, revision, good, &edited, default_image)?)
        }
        _ => None,
    };
    let mut warnings = resolved.warnings.clone();
    warnings.extend(rendered.as_ref().filter(|rendered| rendered.left_out).map(|_| TOO_LARGE.to_owned()));
    let daemonset = rendered.map(|rendered| rendered.daemonset);
    if hands_off.is_some() {
        decision.plan.steps = Vec::new();
        decision.memory = memory.clone();
    }
    problems.extend(complaints(resolved, seen, &decision, refused, environment));

    let known = seen.known.as_deref().filter(|_| hands_off.is_none());
    let known = known.map(|known| known.now(&seen.nodes, &seen.pods, &placement, &seen.told, now));
    // While nothing may be touched nobody forgets either.
    let gone = known.as_ref().map(|news| &news.known).or(seen.known.as_deref()).map(Known::gone).unwrap_or_default();
    let next = next_look(&decision.plan, hands_off.is_some(), now);
    let nudge = hands_off.is_none() && kept_out.is_none() && live.is_some_and(|live| makes_too_few(live, seen, &decision.plan.report));
    let interest = interest(resolved, &choice, &decision, gone);
    let template_version = daemonset_version(daemonset.as_ref());
    let (pull_secret, istio) = if hands_off.is_none() { (pull_secret, istio) } else { (None, None) };
    Ok(Plan {
        objects: Objects { pull_secret, daemonset, istio },
        steps: std::mem::take(&mut decision.plan.steps),
        guard,
        ledger,
        edited: edited.by.filter(|_| hands_off.is_none() && kept_out.is_none()).map(|by| said_of_edit(resolved, &by)),
        nudge,
        assessment: Assessment {
            choice,
            decision,
            template: template_version.or(running_version),
            problems,
            warnings,
            is_blocked: hands_off.is_some(),
        },
        interest,
        known,
        next,
    })
}

/// Whether the DaemonSet controller makes fewer Pods than it should: they are refused, or it does not see a node as selected.
fn makes_too_few(live: &DaemonSet, seen: &Observed, report: &rollout::Report) -> bool {
    let desired = live.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
    let too_few = usize::try_from(desired).is_ok_and(|desired| desired < report.selected);
    settled(live) && !seen.missing.is_empty() && (seen.refused.is_some() || too_few)
}

/// The policy, as what is found changes it: the first hold that applies is the one that is said.
fn policy(resolved: &Resolved, seen: &Observed, is_older: bool, is_kept_out: bool, no_source: bool) -> Policy {
    let users = if seen.stopped { Some(STOPPED) } else { resolved.policy.hold };
    let found = [(is_older, DOWNGRADE), (is_kept_out, NAMESPACE_SELECTOR), (missing_token(resolved, seen), TOKENS), (no_source, ENVIRONMENT)];
    let hold = users.or_else(|| found.into_iter().find_map(|(applies, hold)| applies.then_some(hold)));
    Policy { hold, ..resolved.policy.clone() }
}

/// The placement, as what runs changes it. `live` is a DaemonSet of ours.
fn placement(resolved: &Resolved, live: Option<&DaemonSet>) -> Placement {
    let mut placement = resolved.placement.clone();
    if let Some(live) = live {
        // While a rollout is held, the spec may ask for another kind of agent than the one that runs.
        placement.architectures = live.spec.as_ref().map(|spec| architectures(resolved, &spec.template)).unwrap_or_default();
    }
    placement
}

/// Why nothing of ours may be touched at all.
fn hands_off(resolved: &Resolved, seen: &Observed) -> Option<Problem> {
    if seen.other_operator {
        return Some((
            Reason::OtherOperatorRunning,
            format!(
                "the original operator still runs in this namespace: kubectl -n {} delete deployment dynatrace-oneagent-operator",
                resolved.namespace
            ),
        ));
    }
    if let Some(live) = seen.daemonset.as_deref()
        && let Some(why) = not_adoptable(resolved, live)
    {
        return Some((
            Reason::NameTaken,
            format!("DaemonSet {}/{} {why}; it is left alone: rename this OneAgent, or delete that DaemonSet", resolved.namespace, resolved.name),
        ));
    }
    // The operator's own pull secret may be missing: it is made.
    let custom = seen.pull_secret.as_ref().filter(|_| resolved.from_image.as_ref().is_some_and(|image| image.custom_secret.is_some()));
    let named =
        [(&seen.trusted.as_ref(), Reason::TrustedCAsMissing), (&seen.proxy.as_ref(), Reason::ProxyInvalid), (&custom, Reason::PullSecretInvalid)];
    for (named, reason) in named {
        if let Some(Named::Unusable(why) | Named::Unread(why)) = named {
            return Some((reason, why.clone()));
        }
    }
    None
}

/// When to look again if nothing happens before.
fn next_look(rollout: &rollout::Plan<Revision>, is_blocked: bool, now: DateTime<Utc>) -> Option<Duration> {
    let report = &rollout.report;
    let until = rollout.next.filter(|at| *at > now).map(|at| (at - now).to_std().unwrap_or_default() + Duration::from_millis(50));
    let missing = [rollout::Bucket::Starting, rollout::Bucket::Capacity].iter().any(|bucket| report.bucket(*bucket) > 0);
    let looks_for = missing.then_some(super::observe::QUIET + Duration::from_secs(2));
    let excludes = (report.bucket(rollout::Bucket::NamespaceSelector) > 0).then_some(EXCLUDED);
    [until, looks_for, excludes, is_blocked.then_some(BLOCKED)].into_iter().flatten().min()
}

/// What is needed of the environment.
fn interest(resolved: &Resolved, choice: &Choice, decision: &Decision, gone: Vec<GoneNode>) -> Interest {
    Interest {
        hosts: decision.needs_hosts.then(|| decision.memory.rollout.started().unwrap_or_default()),
        proof: decision.plan.needs_proof && downloads(resolved),
        offered: choice.needs_offered || (downloads(resolved) && decision.plan.report.outdated > 0),
        endpoints: resolved.istio,
        zone: resolved.network_zone.as_deref().map(Into::into),
        gone,
    }
}

/// What Istio shall let pass. While the endpoints are not known those of before stay.
fn mesh(resolved: &Resolved, seen: &Observed, environment: Option<&Snapshot>) -> (Option<Wanted>, Option<Problem>) {
    match &seen.istio {
        // Asked for, and nobody said: what is there stays.
        None if resolved.istio => (None, None),
        None | Some(Served::Absent) => (Some(Wanted::default()), None),
        Some(Served::Otherwise(versions)) => {
            let why = format!(
                "spec.enableIstio: this cluster serves {} in {}, and this release speaks {}; upgrade the operator, or set spec.enableIstio to false and let Istio pass traffic to {} yourself",
                ISTIO.name,
                versions.join(", "),
                ISTIO.versions.join(", "),
                resolved.api_url
            );
            (None, Some((Reason::IstioUnusable, why)))
        }
        Some(Served::As(_)) => {
            let endpoints = environment.and_then(|e| e.endpoints(resolved.network_zone.as_deref()));
            let (objects, wrong) = istio::objects(resolved, endpoints.unwrap_or_default());
            let first: Vec<&str> = wrong.iter().take(3).map(String::as_str).collect();
            let complaint = (!wrong.is_empty()).then(|| {
                let why = format!(
                    "spec.enableIstio: {} of the addresses that the environment names are no http or https URLs and are left out, such as {first:?}",
                    wrong.len()
                );
                (Reason::IstioUnusable, why)
            });
            let zone = resolved.network_zone.as_deref();
            let unasked = environment.filter(|_| endpoints.is_none()).and_then(|e| e.zone_trouble(zone)).map(|why| {
                let why = format!("spec.enableIstio: the environment does not say which addresses agents of spec.networkZone talk to, so only its own is let pass: {why}");
                (Reason::IstioUnusable, why)
            });
            (Some(Wanted { objects, keep_others: endpoints.is_none() }), complaint.or(unasked))
        }
    }
}

/// Whether Pods fetch their version from the environment when they start.
fn downloads(resolved: &Resolved) -> bool {
    resolved.from_image.is_none() && resolved.wish != Wish::UserUrl
}

/// What a first installation lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Nobody has been asked yet.
    AnswerYet,
    PullSecret(String),
}

impl Without {
    fn problem(&self) -> Option<Problem> {
        match self {
            Self::PullSecret(why) => Some((Reason::PullSecretInvalid, why.clone())),
            Self::Nothing | Self::AnswerYet => None,
        }
    }
}

/// The pull secret to write, if ours is not as it should be. One that is there is kept for as long as nothing better is known.
fn pull_secret(resolved: &Resolved, seen: &Observed, environment: Option<&Snapshot>) -> (Option<PullSecret>, Without) {
    let Some(image) = &resolved.from_image else { return (None, Without::Nothing) };
    let (Some(name), Some(registry)) = (image.own_secret(&resolved.name), &image.registry) else { return (None, Without::Nothing) };
    let there = match &seen.pull_secret {
        Some(Named::There(content, _)) => Some(content),
        _ => None,
    };
    match (environment.and_then(|e| e.environment_id.as_ref()), &seen.paas) {
        (Some(id), Token::There { value, .. }) => {
            let content = pull_secret::content(registry, id, value);
            let same = there.is_some_and(|there| there.expose_secret() == content.expose_secret());
            ((!same).then(|| PullSecret { name, owner: resolved.owner.clone(), content, is_there: there.is_some() }), Without::Nothing)
        }
        _ if there.is_some_and(|there| pull_secret::is_for(there, registry)) => (None, Without::Nothing),
        // Identity and token are asked for together: with one of them known, the other was refused.
        (None, Token::There { .. }) if environment.is_some_and(|e| e.paas != TokenState::Unknown) => {
            let why = format!(
                "the pull secret for registry {registry} cannot be made: the environment does not say who it is (connection info); see condition PaaSToken, or name a Secret of yours in spec.customPullSecret"
            );
            (None, Without::PullSecret(why))
        }
        _ => (None, Without::AnswerYet),
    }
}

fn not_adoptable(resolved: &Resolved, live: &DaemonSet) -> Option<&'static str> {
    let selector = live.spec.as_ref().and_then(|s| s.selector.match_labels.clone()).unwrap_or_default();
    if selector != template::selector(&resolved.name) {
        return Some("was not made by this operator or the original one (its selector differs)");
    }
    let other = live.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid != resolved.uid);
    other.then_some("belongs to another object (its controller owner differs)")
}

/// The base template, with the hash that agents carry which were made from the same: an earlier release may have hashed it in
/// another way, and what the operator chooses itself restarts nobody.
fn base(resolved: &Resolved, seen: &Observed, record: &Record, default_image: &str) -> Result<Base, serde_json::Error> {
    let mark = |named: &Option<Named>| match named {
        Some(Named::There(_, mark)) if !mark.is_empty() => Some(mark.clone()),
        _ => None,
    };
    let around = Surroundings { cluster_id: seen.cluster_id.clone(), proxy: mark(&seen.proxy), trusted: mark(&seen.trusted) };
    let template = template::base(resolved, &around);
    let hash = match record.same_as(&template, default_image) {
        Some(same) => same.hash.clone(),
        None => template::hash(&template)?,
    };
    Ok(Base { template, hash })
}

/// The revision of a live template. One of the original operator has the hash of ours, and says no version: what its status
/// names was asked for long ago, and may be gone.
fn running(live: &DaemonSet, base: &Base) -> Revision {
    let annotations = live.spec.as_ref().and_then(|s| s.template.metadata.as_ref()).and_then(|m| m.annotations.as_ref());
    let annotation = |key: &str| annotations.and_then(|a| a.get(key));
    match annotation(HASH_ANNOTATION) {
        Some(hash) if is_adopted(MANAGER, live.managed_fields()) => {
            Revision { version: annotation(VERSION_ANNOTATION).and_then(|v| v.parse().ok()), hash: hash.clone() }
        }
        _ => Revision { version: None, hash: base.hash.clone() },
    }
}

/// What the host list says, if that is newer than what is desired: an agent may have updated itself since.
fn reported<'a>(
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&'a Snapshot>,
    began: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Reported<'a> {
    let nobody_to_ask = matches!((&seen.paas, &seen.api), (Token::NoSecret | Token::NoKey, Token::NoSecret | Token::NoKey));
    let Some(environment) = environment else {
        let never = nobody_to_ask || matches!(seen.environment, Some(Err(_)));
        return if never && !downloads(resolved) { Reported::Silent } else { Reported::NotYet };
    };
    let since = began.unwrap_or_default();
    let is_new = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at >= since);
    if let Some(hosts) = environment.hosts.as_deref().filter(|_| is_new(environment.hosts_at)) {
        return Reported::Answered(hosts.of(resolved.network_zone.as_deref()));
    }
    let tried = environment.hosts_trouble.as_ref().map(|(tried, _)| (*tried).max(since));
    let given_up = tried.is_some_and(|tried| tried + HEARD <= now);
    if is_new(environment.hosts_refused_at) || given_up { Reported::Silent } else { Reported::NotYet }
}

/// The newest version that an agent of ours reports.
fn newest(nodes: &[Arc<Node>], pods: &[Arc<Pod>], reported: Reported<'_>) -> Option<Version> {
    let Reported::Answered(hosts) = reported else { return None };
    let ours: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    nodes.iter().filter(|node| ours.contains(&*node.name)).filter_map(|node| hosts.get(&node.ip?).copied()).max()
}

/// The environment as the place that Pods download from.
fn source(resolved: &Resolved, environment: Option<&Snapshot>) -> Source {
    if !downloads(resolved) {
        return Source::NotNeeded;
    }
    let answered = environment.filter(|environment| environment.serves_installers()).and_then(|environment| environment.answered_at);
    answered.map_or(Source::Away, Source::Answers)
}

/// Whether a new Pod could not download its agent now.
fn downloads_nothing(source: Source, environment: Option<&Snapshot>, version: Option<Version>) -> bool {
    let withdrawn = version.is_some_and(|version| environment.is_some_and(|environment| environment.lacks(version)));
    match source {
        Source::NotNeeded => false,
        Source::Away => true,
        Source::Answers(_) => withdrawn,
    }
}

/// Whether the token that Pods take from the Secret is missing, or not known to be there.
fn missing_token(resolved: &Resolved, seen: &Observed) -> bool {
    resolved.from_image.is_none() && !matches!(seen.paas, Token::There { .. })
}

/// Whether the namespace's own node selector excludes agents that run, and is enforced.
fn kept_out(resolved: &Resolved, seen: &Observed) -> Option<Problem> {
    if seen.namespace_selector.is_empty() || !seen.selector_enforced {
        return None;
    }
    let inside: HashSet<&str> = seen.nodes.iter().filter(|node| has_labels(node, &seen.namespace_selector)).map(|node| &*node.name).collect();
    let there: HashSet<&str> = seen.nodes.iter().map(|node| &*node.name).collect();
    let runs = |pod: &&Arc<Pod>| !pod.deleting && pod.ready_since.is_some() && there.contains(&*pod.node) && !inside.contains(&*pod.node);
    let outside: Vec<&str> = seen.pods.iter().filter(runs).map(|pod| &*pod.node).collect();
    let first = outside.first()?;
    let namespace = &resolved.namespace;
    Some((
        Reason::NamespaceSelector,
        format!(
            "namespace {namespace} has a node selector of its own, which excludes {} nodes with a running agent, such as {first}; any change would remove these agents, so nothing is changed: run {}, or exclude these nodes by spec.nodeSelector",
            outside.len(),
            lift_selectors(namespace)
        ),
    ))
}

fn settled(live: &DaemonSet) -> bool {
    live.metadata.generation.is_some() && live.status.as_ref().and_then(|s| s.observed_generation) == live.metadata.generation
}

fn desired(resolved: &Resolved, choice: &Choice, base: &Base) -> Option<Desired> {
    let version = choice.version;
    (version.is_some() || resolved.wish.is_users_own()).then(|| Desired {
        revision: Revision { version, hash: base.hash.clone() },
        strict: choice.strict,
        keeps_versions: choice.keeps_versions,
    })
}

/// The revision that the rollout asks for: the desired one, the one that is there, or the last good one.
fn asked_for<'a>(plan: &'a rollout::Plan<Revision>, desired: &'a Desired, running: Option<&'a Revision>) -> &'a Revision {
    let asked = match plan.template {
        Template::Advance => None,
        Template::Keep => running,
        Template::GoBack => plan.memory.last_good.as_ref().or(running),
    };
    asked.unwrap_or(&desired.revision)
}

/// The DaemonSet at a revision.
fn render(
    resolved: &Resolved,
    record: &Record,
    base: &Base,
    revision: &Revision,
    last_good: Option<&Revision>,
    edited: &Edited,
    default_image: &str,
) -> Result<Rendered, serde_json::Error> {
    let of = |hash: &str| if hash == base.hash { Some(base) } else { record.template(hash) };
    // A record that somebody removed cannot be brought back: the spec is what remains.
    let chosen = of(&revision.hash).unwrap_or(base);
    // The last good template is kept beside the one in use, for as long as they differ.
    let good = last_good.filter(|good| good.hash != chosen.hash).and_then(|good| of(&good.hash));
    let next = Record {
        templates: [Some(chosen), good].into_iter().flatten().cloned().collect(),
        edited: edited.generations.clone(),
        yields_to: resolved.placement.yields_to.iter().map(|(name, _)| name.clone()).collect(),
    };
    let (text, left_out) = next.text()?;
    Ok(Rendered { daemonset: daemonset(resolved, chosen, revision.version, text, default_image)?, left_out })
}

/// A DaemonSet, and whether its record had to leave a template out.
struct Rendered {
    daemonset: Value,
    left_out: bool,
}

const TOO_LARGE: &str = "the Pod template is too large to be kept in the DaemonSet's record (192 KiB): while a rollout is held or goes back, what the spec says now is used instead; make spec.env, spec.args and spec.annotations smaller";

/// What is known of edits of the DaemonSet that is there.
fn edited(
    resolved: &Resolved,
    seen: &Observed,
    live: Option<&DaemonSet>,
    record: &Record,
    running: Option<&Revision>,
    default_image: &str,
) -> Result<Edited, serde_json::Error> {
    let Some((live, running)) = live.zip(running).filter(|(live, _)| Edited::may_be(live, &record.edited)) else {
        return Ok(Edited::default());
    };
    // Without a record of what was ours nobody can tell.
    let Some(base) = record.template(&running.hash) else { return Ok(Edited::default()) };
    let rendered = daemonset(resolved, base, running.version, String::new(), default_image)?;
    Edited::read(live, &record.edited, (!seen.is_believed).then_some(&rendered), &seen.pods)
}

fn said_of_edit(resolved: &Resolved, by: &str) -> String {
    format!(
        "DaemonSet {}/{} was edited (field manager {by}); it is put back, and Pods that were made from the edit are replaced within the budget: change the OneAgent instead",
        resolved.namespace, resolved.name
    )
}

fn daemonset_version(daemonset: Option<&Value>) -> Option<Version> {
    daemonset?["spec"]["template"]["metadata"]["annotations"][VERSION_ANNOTATION].as_str()?.parse().ok()
}

/// What is wrong beyond what keeps our hands off.
fn complaints(
    resolved: &Resolved,
    seen: &Observed,
    decision: &Decision,
    refused: Option<refusal::Refusal>,
    environment: Option<&Snapshot>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let report = &decision.plan.report;
    let failure = decision.memory.rollout.failure.as_ref().map(|failure| {
        let remedy = "Pods that still run the version before are left alone and new ones get it; mend the cause, and when these nodes' agents recover it goes on by itself; or pin this version (spec.update.version) to try it again, or pin a good one; a newer one is taken by itself";
        (Reason::RolloutFailed, format!("{}; {remedy}", failure.message))
    });
    // While another revision is rolled out, what failed before it is history.
    let is_now = report.state == rollout::State::Failed;
    problems.extend(failure.clone().filter(|_| is_now));
    problems.extend(refused.map(|refused| {
        if refused.account_missing {
            (Reason::ServiceAccountMissing, refused.full)
        } else {
            (Reason::PodsRefused, format!("the API server refuses the agents' Pods: {}", refused.full))
        }
    }));
    let made_from = seen.pods.iter().filter(|pod| !pod.deleting).filter_map(|pod| pod.revision.as_ref()?.version);
    let withdrawn = withdrawn(environment, made_from).filter(|_| downloads(resolved));
    problems.extend(withdrawn.map(|why| (Reason::VersionWithdrawn, why)));
    match &seen.environment {
        Some(Err(error)) => problems.push((Reason::EnvironmentUnreachable, error.to_string())),
        Some(Ok(snapshot)) => {
            if let Some((_, trouble)) = snapshot.hosts_trouble.as_ref().filter(|_| decision.needs_hosts && snapshot.trouble.is_none()) {
                problems.push((
                    Reason::EnvironmentUnreachable,
                    format!(
                        "{}: the host list cannot be read: {trouble}; agents that may have updated themselves are left alone for half an hour",
                        resolved.api_url
                    ),
                ));
            }
            if let Some(trouble) = &snapshot.trouble {
                problems.push((Reason::EnvironmentUnreachable, format!("{}: {trouble}; agents run on, new versions are not seen", resolved.api_url)));
            }
        }
        None => {}
    }
    if !report.troubled.is_empty() && !is_now && seen.refused.is_none() {
        let nodes: Vec<String> = report.troubled.iter().map(|(node, why)| format!("{node}: {why}")).collect();
        if !nodes.is_empty() {
            problems.push((Reason::AgentsUnavailable, nodes.join("; ")));
        }
    }
    problems.extend(failure.filter(|_| !is_now));
    problems
}
