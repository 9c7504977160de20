//! Plan: from what is wanted and what is, everything that is to be done. Makes no choice that `act` would have to
//! repeat.
//!
//! Pure: the same arguments give the same plan, byte for byte. Must not send, wait, log, or ask for the time.

mod failed;
mod from_cluster;
mod next;
mod objects;
mod obstacles;
mod returning;
mod versions;

use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use serde_json::Value;

use next::next_look;
pub use objects::template_revision;
use objects::{
    PullSecretState, TOO_LARGE, asked_for, base, daemonset_version, describe_edit, desired, edited, mesh, proofs,
    pull_secret, render, running, template_hash,
};
use obstacles::{cannot_download, complaints, hands_off, kept_out, missing_token, refused};
use versions::{behind, chosen, downloads, reported, rests_on_hosts, source};

use super::MANAGER;
use super::build::daemonset::architectures;
use super::build::pull_secret::PullSecret;
use super::build::record::{Base, Record};
use super::hold::{DOWNGRADE, LIST, NAMESPACE_SELECTOR, RETURNING, TOKENS};
use super::known::{Known, News};
use super::memory::Memory;
use super::observe::Observed;
use super::places::{Decision, Inventory, rollout};
use super::problem::Problem;
use super::resolve::Resolved;
use super::revision::Revision;
use super::version::{Choice, older_image};
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::{GoneNode, Interest, Snapshot};
use crate::k8s::api_group::Wanted;
use crate::k8s::ownership::is_adopted;
use crate::k8s::placement::Placement;
use crate::k8s::template::differences;
use crate::kernel::kind::Planned;
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Hold, Policy, State, Step, Word};

/// Objects to apply.
#[derive(Debug)]
pub struct Objects {
    /// The pull secret; `None`: none is needed, or it is as it should be.
    pub pull_secret: Option<PullSecret>,
    /// The DaemonSet; `None`: leave what is there alone.
    pub daemonset: Option<Value>,
    /// What Istio is to let pass; `None`: leave what is there alone.
    pub istio: Option<Wanted>,
    /// The ConfigMap for the cluster's certificates; `None`: none is needed, or it is there.
    pub bundle: Option<Value>,
}

/// Everything that is to be done.
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
    /// What is to be said of a DaemonSet that another client edited, once it is put back.
    pub edited: Option<String>,
    /// Whether the DaemonSet controller is to look again: it makes fewer Pods than it should.
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

impl Planned for Plan {
    type Memory = Memory;

    fn memory(&self) -> &Memory {
        &self.assessment.decision.memory
    }

    fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// What was found and decided, as far as a status tells of it.
#[derive(Debug)]
pub struct Assessment {
    /// The version that was chosen.
    pub choice: Choice,
    /// What agents are to become.
    pub desired: Option<Revision>,
    /// What the engine says.
    pub decision: Decision,
    /// The version of the DaemonSet's template.
    pub template: Option<Version>,
    /// What a human must fix, most important first.
    pub problems: Vec<Problem>,
    /// What a user should know, without a need to act.
    pub warnings: Vec<String>,
    /// Whether nothing may be touched.
    pub is_blocked: bool,
}

/// Makes the plan.
pub fn plan(
    memory: &Memory,
    resolved: &Resolved,
    seen: &Observed,
    default_image: &str,
    now: DateTime<Utc>,
) -> Result<Plan, serde_json::Error> {
    let (record, base) = wanted(resolved, seen, default_image)?;
    let again = |memory: &Memory| plan_beside(memory, resolved, seen, (&record, &base), default_image, now);
    let memory = memory.retrying(resolved.retry, now).without_a_word(resolved.reject);
    let plan = again(&memory)?;
    // Until a verdict is withdrawn another version is wanted: what was found of that one is not true any more.
    let is_withdrawn = is_withdrawn(&memory, &plan.assessment.decision.memory);
    if is_withdrawn { again(&plan.assessment.decision.memory) } else { Ok(plan) }
}

/// What the DaemonSet remembers, and what the spec asks for now.
fn wanted(resolved: &Resolved, seen: &Observed, default_image: &str) -> Result<(Record, Base), serde_json::Error> {
    let ours = seen.daemonset.as_deref().filter(|live| is_adopted(MANAGER, live.managed_fields()));
    let record = ours.map(Record::of).unwrap_or_default();
    let recorded = ours.and_then(|live| record.template(template_hash(live)?)).map(|base| base.from_cluster.clone());
    let from_cluster = from_cluster::from_cluster(resolved, seen, recorded.as_ref());
    let base = base(resolved, seen, &record, from_cluster, default_image)?;
    Ok((record, base))
}

/// How what the spec asks for differs from the DaemonSet's Pod template, as far as the record has that.
pub fn changes(resolved: &Resolved, seen: &Observed, default_image: &str) -> Result<Vec<String>, serde_json::Error> {
    let (record, base) = wanted(resolved, seen, default_image)?;
    let live = seen.daemonset.as_deref().and_then(template_hash).filter(|hash| *hash != base.hash);
    let live = live.and_then(|hash| record.template(hash));
    Ok(live.map(|live| differences(&live.template, &base.template, &[])).unwrap_or_default())
}

/// Whether a verdict that stood is gone.
fn is_withdrawn(before: &Memory, now: &Memory) -> bool {
    let is_lifted = before.rejected.iter().any(|version| !now.rejected.contains(version));
    is_lifted || (before.rollout.failure.is_some() && now.rollout.failure.is_none())
}

/// The plan beside what is recorded, and what the spec asks for now.
fn plan_beside(
    memory: &Memory,
    resolved: &Resolved,
    seen: &Observed,
    (record, base): (&Record, &Base),
    default_image: &str,
    now: DateTime<Utc>,
) -> Result<Plan, serde_json::Error> {
    let environment = seen.environment.as_ref().and_then(|e| e.as_ref().ok()).map(AsRef::as_ref);
    let hands_off = hands_off(resolved, seen);
    let mut problems: Vec<Problem> = hands_off.iter().cloned().collect();

    let live = seen.daemonset.as_deref();
    let adopted = live.is_some_and(|live| is_adopted(MANAGER, live.managed_fields()));
    let running =
        live.map_or_else(|| returning::assumed(memory, resolved, environment, &base.hash), |l| Some(running(l, base)));
    let running_version = running.as_ref().and_then(|r| r.version);
    let reported = reported(resolved, seen, environment, memory.rollout.started(), now);
    let (choice, ahead) = chosen(memory, resolved, (seen, environment, reported), running.as_ref(), &base.hash, now);
    let (memory, wanted) = &noted(memory, resolved, ahead, (choice.version, &base.hash));
    let behind = behind(resolved, &choice, ahead);
    problems.extend(choice.problem.clone().or_else(|| Some((Reason::VersionListInvalid, seen.unlisted.clone()?))));

    let (istio, complaint) = mesh(resolved, seen, environment);
    let (pull_secret, secret_state) = pull_secret(resolved, seen, environment);
    problems.extend(complaint.into_iter().chain(secret_state.problem()));
    let desired = desired(resolved, &choice, base).filter(|_| secret_state == PullSecretState::Ready);
    // An agent of the original operator carries no version in its template: without any, nothing is adopted yet.
    let template = running.clone().filter(|r| r.version.is_some() || resolved.wish.is_users_own() || adopted);
    // Back to the last good one is no downgrade: the newer one never was rolled out.
    let older = older_image(resolved.wish, running_version, memory.last_good_version()).filter(|_| adopted);
    let source = source(resolved, seen.environment.as_ref());
    let kept_out = kept_out(resolved, seen);
    let found = [
        older.is_some().then_some(DOWNGRADE),
        behind.is_some().then_some(LIST),
        kept_out.is_some().then_some(NAMESPACE_SELECTOR),
        missing_token(resolved, seen).then_some(TOKENS),
        cannot_download(source, environment, choice.version),
        returning::is_awaited(running.as_ref(), memory, resolved, seen, now).then_some(RETURNING),
    ];
    let (policy, placement) =
        (policy(resolved, seen, found, (memory, wanted)), placement(resolved, live.filter(|_| adopted)));
    problems.extend([older, kept_out.clone()].into_iter().flatten());
    let refused = refused(resolved, seen);
    let edited = edited(resolved, seen, live.filter(|_| adopted), record, running.as_ref(), default_image)?;
    let inventory = Inventory {
        nodes: &seen.nodes,
        pods: &edited.mark(&seen.pods, Revision::of_an_edit),
        placement: &placement,
        template: template.as_ref(),
        settled: live.is_some_and(settled),
        deleted: &seen.ledger.deleted(),
        lost: &seen.ledger.lost(),
        freed: &seen.ledger.freed(),
        losses: &seen.losses,
        aside: &seen.undeletable.aside,
        missing: &seen.missing,
        deciding_since: seen.deciding_since,
        in_contact_since: seen.in_contact_since,
        reported,
        source,
        refused: refused.as_ref().map(|refused| refused.short),
        namespace_selector: &seen.namespace_selector,
        canary: &resolved.canary,
        memory,
    };
    let (mut decision, guard, ledger) = rollout(&policy, desired.as_ref(), &inventory, &seen.ledger, now);

    // A write makes the DaemonSet controller act on what excludes agents that run.
    let rendered = match (&hands_off, &kept_out, &desired) {
        (None, None, Some(desired)) => {
            let revision = asked_for(&decision, desired, running.as_ref());
            let good = decision.memory.rollout.last_good.as_ref();
            Some(render(resolved, (record, proofs(record, base, seen)), base, revision, good, &edited, default_image)?)
        }
        _ => None,
    };
    let warnings = remarks(resolved, seen, &choice, rendered.as_ref().is_some_and(|rendered| rendered.left_out));
    let daemonset = rendered.map(|rendered| rendered.daemonset);
    if hands_off.is_some() {
        decision.plan.steps = Vec::new();
        decision.memory = memory.clone();
    }
    // Said only where it keeps a user from something.
    problems.extend(behind.filter(|_| decision.plan.report.state == State::Held));
    problems.extend(complaints(resolved, seen, &decision, refused, (environment, &choice, desired.as_ref())));

    let (known, gone) = gone(seen, &placement, hands_off.is_some(), now);
    let is_free = hands_off.is_none() && kept_out.is_none();
    let nudge = is_free && live.is_some_and(|live| makes_too_few(live, seen, &decision.plan.report));
    let next = next_look(&decision, memory, hands_off.as_ref(), (resolved, environment, &gone), now);
    let interest = interest(resolved, (seen, environment), &choice, &decision, gone);
    let template_version = daemonset_version(daemonset.as_ref());
    let (pull_secret, istio) = if hands_off.is_none() { (pull_secret, istio) } else { (None, None) };
    let bundle = from_cluster::missing_bundle(resolved, seen, hands_off.is_some());
    Ok(Plan {
        next,
        objects: Objects { pull_secret, daemonset, istio, bundle },
        steps: std::mem::take(&mut decision.plan.steps),
        guard,
        ledger,
        edited: edited.by.filter(|_| is_free).map(|by| describe_edit(resolved, &by)),
        nudge,
        assessment: Assessment {
            choice,
            desired: desired.map(|desired| desired.revision),
            decision,
            template: template_version.or(running_version),
            problems,
            warnings,
            is_blocked: hands_off.is_some(),
        },
        interest,
        known,
    })
}

/// What a user should know, without a need to act.
fn remarks(resolved: &Resolved, seen: &Observed, choice: &Choice, is_too_large: bool) -> Vec<String> {
    let of_choice = choice.remark.clone().into_iter().collect();
    let of_record = is_too_large.then(|| TOO_LARGE.to_owned()).into_iter().collect();
    [resolved.warnings.clone(), from_cluster::remarks(resolved, seen), of_choice, of_record].concat()
}

/// What is remembered beside the engine's memory of what is found now, and what is desired.
fn noted(
    memory: &Memory,
    resolved: &Resolved,
    ahead: Option<Version>,
    (version, hash): (Option<Version>, &str),
) -> (Memory, Revision) {
    let desired = Revision { version, hash: hash.to_owned() };
    let promoted = memory.promoting(resolved.promote, &desired);
    (Memory { reported: ahead, promoted, ..memory.clone() }, desired)
}

/// Whether the DaemonSet controller makes fewer Pods than it should: they are refused, or it does not see a node as
/// selected.
fn makes_too_few(live: &DaemonSet, seen: &Observed, report: &rollout::Report) -> bool {
    let desired = live.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
    let too_few = usize::try_from(desired).is_ok_and(|desired| desired < report.selected);
    settled(live) && !seen.missing.is_empty() && (seen.refused.is_some() || too_few)
}

/// The policy, as what is found changes it: the first hold that applies is the one that is said.
fn policy(
    resolved: &Resolved,
    seen: &Observed,
    found: [Option<Hold>; 6],
    (memory, desired): (&Memory, &Revision),
) -> Policy {
    let users = resolved.held(seen.stopped);
    let hold =
        users.or_else(|| found.into_iter().flatten().next()).or_else(|| from_cluster::cluster_update(resolved, seen));
    let word = desired.version.and_then(|version| {
        let promoted = memory.is_promoted(desired).then_some(version);
        Word::of(&version, promoted.as_ref(), resolved.reject.as_ref())
    });
    Policy { hold, word, ..resolved.policy.clone() }
}

/// The placement, as what runs changes it. `live` is a DaemonSet of ours.
fn placement(resolved: &Resolved, live: Option<&DaemonSet>) -> Placement {
    let mut placement = resolved.placement.clone();
    if let Some(live) = live {
        // While a rollout is held, the spec may ask for another kind of agent than the one that runs.
        placement.architectures =
            live.spec.as_ref().map(|spec| architectures(resolved, &spec.template)).unwrap_or_default();
    }
    placement
}

/// The nodes that are known now, and those of which is to be told that they are gone.
fn gone(seen: &Observed, placement: &Placement, is_blocked: bool, now: DateTime<Utc>) -> (Option<News>, Vec<GoneNode>) {
    let known = seen.known.as_deref().filter(|_| !is_blocked);
    let known = known.map(|known| known.now(&seen.nodes, &seen.pods, placement, &seen.told, now));
    // While nothing may be touched, nothing is forgotten.
    let gone = known.as_ref().map(|news| &news.known).or(seen.known.as_deref()).map(Known::gone).unwrap_or_default();
    (known, gone)
}

/// What is needed of the environment.
fn interest(
    resolved: &Resolved,
    (seen, environment): (&Observed, Option<&Snapshot>),
    choice: &Choice,
    decision: &Decision,
    gone: Vec<GoneNode>,
) -> Interest {
    Interest {
        hosts: decision.needs_hosts.then(|| decision.memory.rollout.started().unwrap_or_default()),
        keeps_hosts: rests_on_hosts(resolved, seen, environment, choice),
        proof: decision.plan.needs_proof && downloads(resolved),
        offered: choice.needs_offered || (downloads(resolved) && decision.plan.report.outdated > 0),
        endpoints: resolved.istio,
        zone: resolved.network_zone.as_deref().map(Into::into),
        gone,
    }
}

fn settled(live: &DaemonSet) -> bool {
    live.metadata.generation.is_some()
        && live.status.as_ref().and_then(|s| s.observed_generation) == live.metadata.generation
}
