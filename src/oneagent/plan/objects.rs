//! The objects that a plan applies: which DaemonSet runs, which is desired, and what is rendered of it.
//!
//! Pure. Must not choose a Pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::super::MANAGER;
use super::super::build::daemonset::daemonset;
use super::super::build::pull_secret::{self, PullSecret};
use super::super::build::record::{Base, Record};
use super::super::build::template::{self, Surroundings, short_hash};
use super::super::build::{ISTIO, istio};
use super::super::from_cluster::FromCluster;
use super::super::observe::{Named, Observed, Token};
use super::super::places::Decision;
use super::super::problem::Problem;
use super::super::resolve::Resolved;
use super::super::revision::{Desired, Revision};
use super::super::version::Choice;
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::{Snapshot, TokenState};
use crate::fleet::edited::Edited;
use crate::k8s::api_group::{Served, Wanted};
use crate::k8s::facts::{HASH_ANNOTATION, VERSION_ANNOTATION};
use crate::k8s::ownership::is_adopted;
use crate::rollout::Template;

/// What Istio is to let pass. While the endpoints are not known the previous ones stay.
pub(super) fn mesh(
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&Snapshot>,
) -> (Option<Wanted>, Option<Problem>) {
    match &seen.istio {
        // Asked for, and not answered: what is there stays.
        None if resolved.istio => (None, None),
        None | Some(Served::Absent) => (Some(Wanted::default()), None),
        Some(Served::Otherwise(versions)) => {
            let why = format!(
                "spec.enableIstio: this cluster serves {} in {}, and this release speaks {}; upgrade the operator, or \
                set spec.enableIstio to false and let Istio pass traffic to {} yourself",
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
                    "spec.enableIstio: {} of the addresses that the environment names are no http or https URLs and \
                    are left out, such as {first:?}",
                    wrong.len()
                );
                (Reason::IstioUnusable, why)
            });
            let zone = resolved.network_zone.as_deref();
            let unasked = environment.filter(|_| endpoints.is_none()).and_then(|e| e.zone_trouble(zone)).map(|why| {
                let why = format!(
                    "spec.enableIstio: the environment does not say which addresses agents of \
                    spec.networkZone talk to, so only its own is let pass: {why}"
                );
                (Reason::IstioUnusable, why)
            });
            (Some(Wanted { objects, keep_others: endpoints.is_none() }), complaint.or(unasked))
        }
    }
}

/// Whether the pull secret is as Pods need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PullSecretState {
    Ready,
    /// Not asked yet.
    Unasked,
    Unusable(String),
}

impl PullSecretState {
    pub(super) fn problem(&self) -> Option<Problem> {
        match self {
            Self::Unusable(why) => Some((Reason::PullSecretInvalid, why.clone())),
            Self::Ready | Self::Unasked => None,
        }
    }
}

/// The pull secret to write, if ours is not as it should be. One that is there is kept for as long as nothing better is
/// known.
pub(super) fn pull_secret(
    resolved: &Resolved,
    seen: &Observed,
    environment: Option<&Snapshot>,
) -> (Option<PullSecret>, PullSecretState) {
    let Some(image) = &resolved.from_image else { return (None, PullSecretState::Ready) };
    let (Some(name), Some(registry)) = (image.own_secret(&resolved.name), &image.registry) else {
        return (None, PullSecretState::Ready);
    };
    let there = match &seen.pull_secret {
        Some(Named::There(content, _)) => Some(content),
        _ => None,
    };
    match (environment.and_then(|e| e.environment_id.as_ref()), &seen.paas) {
        (Some(id), Token::There { value, .. }) => {
            let content = pull_secret::content(registry, id, value);
            let same = there.is_some_and(|there| there.expose_secret() == content.expose_secret());
            (
                (!same).then(|| PullSecret { name, owner: resolved.owner.clone(), content, is_there: there.is_some() }),
                PullSecretState::Ready,
            )
        }
        _ if there.is_some_and(|there| pull_secret::is_for(there, registry)) => (None, PullSecretState::Ready),
        // Identity and token are asked for together: with one of them known, the other was refused.
        (None, Token::There { .. }) if environment.is_some_and(|e| e.paas != TokenState::Unknown) => {
            let why = format!(
                "the pull secret for registry {registry} cannot be made: the environment does not say who it is \
                (connection info); see condition PaaSToken, or name a Secret of yours in spec.customPullSecret"
            );
            (None, PullSecretState::Unusable(why))
        }
        _ => (None, PullSecretState::Unasked),
    }
}

/// The base template, with the hash that agents carry which were made from the same: an earlier release may have hashed
/// it in another way, and what the operator chooses itself restarts no agent.
pub(super) fn base(
    resolved: &Resolved,
    seen: &Observed,
    record: &Record,
    from_cluster: FromCluster,
    default_image: &str,
) -> Result<Base, serde_json::Error> {
    let mark = |named: &Option<Named>| match named {
        Some(Named::There(_, mark)) if !mark.is_empty() => Some(mark.clone()),
        _ => None,
    };
    // A Secret that was deleted and created again has another UID, which is in the mark.
    let same = proof(seen).and_then(|proof| record.marked(&proof).cloned());
    let proxy = mark(&seen.proxy).map(|mark| same.unwrap_or(mark));
    let around = Surroundings { cluster_id: seen.cluster_id.clone(), proxy, trusted: mark(&seen.trusted) };
    let template = template::base(resolved, &around);
    let hash = match record.same_as(&template, default_image) {
        Some(same) => same.hash.clone(),
        None => template::hash(&template)?,
    };
    Ok(Base { template, hash, from_cluster })
}

/// What proves that the value in a proxy's Secret is the same, also where the Secret is another one. Who may read
/// DaemonSets reads it; with the token in it, only readers of the token can try values out.
fn proof(seen: &Observed) -> Option<String> {
    let Some(Named::There(value, mark)) = &seen.proxy else { return None };
    let token = [&seen.paas, &seen.api].into_iter().find_map(|token| match token {
        Token::There { value, .. } => Some(value.expose_secret()),
        _ => None,
    });
    let token = token.filter(|_| !mark.is_empty())?;
    Some(short_hash(format!("{token}\n{}", value.expose_secret()).as_bytes()))
}

/// The proofs of the marks that templates have: that of the present one, as it is now.
pub(super) fn proofs(record: &Record, base: &Base, seen: &Observed) -> BTreeMap<String, String> {
    let kept = record.templates.iter().filter_map(|kept| template::marks(&kept.template)[0].clone());
    let kept: BTreeSet<String> = kept.collect();
    let mut proofs = record.proofs.clone();
    proofs.retain(|mark, _| kept.contains(mark));
    proofs.extend(template::marks(&base.template)[0].clone().zip(proof(seen)));
    proofs
}

/// The hash of a live template.
pub(super) fn template_hash(live: &DaemonSet) -> Option<&str> {
    live.spec.as_ref()?.template.metadata.as_ref()?.annotations.as_ref()?.get(HASH_ANNOTATION).map(String::as_str)
}

/// The revision that a live template says itself.
#[must_use]
pub fn template_revision(live: &DaemonSet) -> Option<Revision> {
    let annotations = live.spec.as_ref()?.template.metadata.as_ref()?.annotations.as_ref()?;
    let version = annotations.get(VERSION_ANNOTATION).and_then(|version| version.parse().ok());
    annotations.get(HASH_ANNOTATION).map(|hash| Revision { version, hash: hash.clone() })
}

/// The revision of a live template. One of the original operator has the hash of ours, and says no version: what its
/// status names was asked for long ago, and may be gone.
pub(super) fn running(live: &DaemonSet, base: &Base) -> Revision {
    let annotations =
        live.spec.as_ref().and_then(|s| s.template.metadata.as_ref()).and_then(|m| m.annotations.as_ref());
    let annotation = |key: &str| annotations.and_then(|a| a.get(key));
    match annotation(HASH_ANNOTATION) {
        Some(hash) if is_adopted(MANAGER, live.managed_fields()) => {
            Revision { version: annotation(VERSION_ANNOTATION).and_then(|v| v.parse().ok()), hash: hash.clone() }
        }
        _ => Revision { version: None, hash: base.hash.clone() },
    }
}

pub(super) fn desired(resolved: &Resolved, choice: &Choice, base: &Base) -> Option<Desired> {
    let version = choice.version;
    (version.is_some() || resolved.wish.is_users_own()).then(|| Desired {
        revision: Revision { version, hash: base.hash.clone() },
        strict: choice.strict,
        keeps_versions: choice.keeps_versions,
    })
}

/// The revision that the rollout asks for: the desired one, the one that is there, or the last good one.
pub(super) fn asked_for<'a>(
    decision: &'a Decision,
    desired: &'a Desired,
    running: Option<&'a Revision>,
) -> &'a Revision {
    let asked = match decision.plan.template {
        Template::Advance => None,
        Template::Keep => running,
        Template::GoBack => decision.memory.rollout.last_good.as_ref().or(running),
    };
    asked.unwrap_or(&desired.revision)
}

/// The DaemonSet at a revision.
pub(super) fn render(
    resolved: &Resolved,
    (record, proofs): (&Record, BTreeMap<String, String>),
    base: &Base,
    revision: &Revision,
    last_good: Option<&Revision>,
    edited: &Edited,
    default_image: &str,
) -> Result<Rendered, serde_json::Error> {
    let of = |hash: &str| if hash == base.hash { Some(base) } else { record.template(hash) };
    // A record that was removed cannot be brought back: the spec is what remains.
    let chosen = of(&revision.hash).unwrap_or(base);
    // The spec no longer says what a previous template took from the cluster; the SCC is the cluster's alone.
    let from_cluster = FromCluster { scc: base.from_cluster.scc.clone(), ..chosen.from_cluster.clone() };
    let chosen = &Base { from_cluster, ..chosen.clone() };
    // The last good template is kept beside the one in use, for as long as they differ.
    let good = last_good.filter(|good| good.hash != chosen.hash).and_then(|good| of(&good.hash));
    let next = Record {
        templates: [Some(chosen), good].into_iter().flatten().cloned().collect(),
        edited: edited.generations.clone(),
        yields_to: resolved
            .placement
            .yields_to
            .iter()
            .map(|(name, _)| name)
            .chain(&resolved.remembers)
            .cloned()
            .collect(),
        proofs,
    };
    let (text, left_out) = next.text()?;
    Ok(Rendered { daemonset: daemonset(resolved, chosen, revision.version, text, default_image)?, left_out })
}

/// A DaemonSet, and whether its record had to leave a template out.
pub(super) struct Rendered {
    pub(super) daemonset: Value,
    pub(super) left_out: bool,
}

pub(super) const TOO_LARGE: &str = "the Pod template is too large to be kept in the DaemonSet's record (192 KiB): \
    while a rollout is held or rolled back, the present spec is used instead; make spec.env, spec.args and \
    spec.annotations smaller";

/// What is known of edits of the DaemonSet that is there.
pub(super) fn edited(
    resolved: &Resolved,
    seen: &Observed,
    live: Option<&DaemonSet>,
    record: &Record,
    running: Option<&Revision>,
    default_image: &str,
) -> Result<Edited, serde_json::Error> {
    let Some((live, running)) = live.zip(running).filter(|(live, _)| Edited::may_be(MANAGER, live, &record.edited))
    else {
        return Ok(Edited::default());
    };
    // Without a record of what was ours that is unknown.
    let Some(base) = record.template(&running.hash) else { return Ok(Edited::default()) };
    let rendered = daemonset(resolved, base, running.version, String::new(), default_image)?;
    Edited::read(MANAGER, live, &record.edited, (!seen.is_believed).then_some(&rendered), &seen.pods)
}

pub(super) fn describe_edit(resolved: &Resolved, by: &str) -> String {
    format!(
        "DaemonSet {}/{} was edited (field manager {by}); it is put back, and Pods that were made from the edit are \
        replaced within the budget: change the OneAgent instead; to restart an agent, delete its Pod",
        resolved.namespace, resolved.name
    )
}

pub(super) fn daemonset_version(daemonset: Option<&Value>) -> Option<Version> {
    daemonset?["spec"]["template"]["metadata"]["annotations"][VERSION_ANNOTATION].as_str()?.parse().ok()
}
