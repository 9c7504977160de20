//! Resolve: what the spec means. The only reader of the raw spec: it parses, fills in defaults, refuses.
//!
//! Pure. Every refusal names the field and the remedy. Must not look at the cluster or the vendor.

#[cfg(test)]
mod tests;

pub mod hosts;
mod image;
mod openshift;
mod placement;
mod update;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{EnvVar, NodeAffinity, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use secrecy::SecretString;
use url::Url;

use crate::api::name::{Version, VersionWish};
use crate::api::oneagent::{OneAgent, OneAgentSpec};
use crate::api::rollout::Rollout;
use crate::api::schedule;
use crate::fleet::policy as asked;
use crate::k8s::affinity::terms;
use crate::k8s::placement::Placement;
use crate::k8s::quantity::quantity;
use crate::oneagent::conflict::{Conflict, Doubt};
use crate::oneagent::hold::STOPPED;
use crate::rollout::{Hold, Policy};

use hosts::{IMAGE_ARCHITECTURES, INSTALLER_ARCHITECTURES, check_system, installer_arch};
pub use image::FromImage;
use image::from_image;
pub use openshift::FromOpenShift;
use placement::{check_toleration, placement};
use update::{list, minimum_age, named, unnameable, wish};
use warnings::warnings;

/// Readiness deadline where the spec names none.
const WAIT_READY: i64 = 300;
/// CPU that is requested where the spec names none and no lower limit, in words and as a number.
const CPU: (&str, f64) = ("100m", 0.1);
/// Name of the environment variable that the agent's installer is fetched from.
pub const SCRIPT_URL: &str = "ONEAGENT_INSTALLER_SCRIPT_URL";
/// What v0.1 to v0.6 of the original wrote into specs, after the API address: no wish of the user's.
pub const OLD_DEFAULT: &str =
    "/v1/deployment/installer/agent/unix/default/latest?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)&arch=x86&flavor=default";

/// A spec that makes sense.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub namespace: String,
    /// Name of the OneAgent and of its DaemonSet.
    pub name: String,
    pub uid: String,
    /// It as the owner of what is made for it. Never with blockOwnerDeletion: OpenShift forbids that without a right
    /// that we do not want.
    pub owner: OwnerReference,
    /// API address without a trailing slash.
    pub api_url: String,
    /// Whether certificates go unverified.
    pub skip_cert_check: bool,
    /// Name of the Secret with the tokens.
    pub tokens: String,
    pub proxy: Option<ProxySource>,
    /// Hosts, domains and networks that are reached without it.
    pub no_proxy: Option<String>,
    pub network_zone: Option<String>,
    /// The agent comes as an image, not by the installer.
    pub from_image: Option<FromImage>,
    /// Name of the ConfigMap with certificates.
    pub trusted_cas: Option<String>,
    /// What is taken from the cluster.
    pub cluster: FromOpenShift,
    /// Which version.
    pub wish: Wish,
    /// The ConfigMap that lists the versions, and its key; `None`: the environment says which there are.
    pub versions: Option<(String, String)>,
    /// Whether to stay at the version reached.
    pub frozen: bool,
    /// How long after it was built a version is taken automatically.
    pub minimum_age: TimeDelta,
    /// A version that failed and is to be tried again.
    pub retry: Option<Version>,
    /// A version whose canaries have soaked enough.
    pub promote: Option<Version>,
    /// A version that counts as failed.
    pub reject: Option<Version>,
    /// How fast.
    pub policy: Policy,
    /// Labels of the nodes that go first, where they are named so.
    pub canary: BTreeMap<String, String>,
    /// Where agents run.
    pub placement: Placement,
    /// What the Pods look like.
    pub pod: PodShape,
    /// Whether traffic to the environment is let through Istio.
    pub istio: bool,
    /// What is allowed but unwise.
    pub warnings: Vec<String>,
    /// Others that select the same nodes; filled in by `overlap`.
    pub conflicts: Vec<Conflict>,
    /// Why it is unknown yet which nodes are left to another; filled in by `overlap`.
    pub doubt: Option<Doubt>,
    /// Older ones to which nodes were left, and of which nothing is known now; filled in by `overlap`.
    pub remembers: BTreeSet<String>,
}

/// Where the proxy's address is.
#[derive(Debug, Clone)]
pub enum ProxySource {
    /// In the spec.
    Value(SecretString, String),
    /// In a Secret of this name.
    Secret(String),
}

/// Which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Newest,
    /// `agentVersion`.
    AgentVersion(VersionWish),
    /// `update.version`.
    Pin {
        /// Exactly this.
        version: Version,
        /// Also when it is older than what runs.
        allow_downgrade: bool,
    },
    /// The user's own installer address: none of our business.
    UserUrl,
    /// The user's own image.
    Image {
        /// What the tag says.
        version: Option<Version>,
        /// Also when it is older than what runs.
        allow_downgrade: bool,
    },
}

impl Wish {
    /// Whether there is something to install although no version is known.
    #[must_use]
    pub fn is_users_own(self) -> bool {
        matches!(self, Self::UserUrl | Self::Image { .. })
    }
}

impl Resolved {
    /// What people hold a rollout by, whether or not there is one; `stopped`: all of the cluster's are.
    #[must_use]
    pub fn held(&self, stopped: bool) -> Option<Hold> {
        if stopped { Some(STOPPED) } else { self.policy.hold.clone() }
    }
}

/// What the Pods look like, placement apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodShape {
    /// Image, where the spec names one.
    pub image: Option<String>,
    /// The user's arguments.
    pub args: Vec<String>,
    /// The user's environment.
    pub env: Vec<EnvVar>,
    pub resources: ResourceRequirements,
    pub priority_class: Option<String>,
    pub dns_policy: Option<String>,
    /// ServiceAccount.
    pub service_account: String,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// The user's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Named capabilities instead of privileged.
    pub unprivileged: bool,
    /// Leave injection to others.
    pub webhook_injection: bool,
    /// The vendor's name of the installer's architecture.
    pub installer_arch: &'static str,
    /// As the spec has them.
    pub node_selector: BTreeMap<String, String>,
    /// As the spec has them.
    pub tolerations: Vec<Toleration>,
    /// As the spec has it.
    pub node_affinity: NodeAffinity,
}

/// A field that cannot be carried out, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Reads a spec; on refusal says everything that is wrong with it, not only the first thing.
pub fn resolve(object: &OneAgent) -> Result<Resolved, Vec<Refusal>> {
    let spec = &object.spec;
    let name = object.name_any();
    let mut wrong = Vec::new();
    let api_url = api_url(&spec.api_url, &mut wrong);
    let resources = resources(spec, &mut wrong);
    let tolerations = spec.tolerations.clone().unwrap_or_default();
    for (at, toleration) in tolerations.iter().enumerate() {
        wrong.extend(check_toleration(at, toleration));
    }
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone()).unwrap_or_default();
    let mut unread = Vec::new();
    let terms = terms(&node_affinity, &mut unread);
    wrong.extend(unread.into_iter().map(Refusal));
    let env = env(spec, &api_url, &mut wrong);
    if let Some(policy) = text(spec.dns_policy.as_ref())
        && !["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"].contains(&policy.as_str())
    {
        wrong.push(Refusal(format!(
            "spec.dnsPolicy is {policy:?}; use ClusterFirst, ClusterFirstWithHostNet, Default or None"
        )));
    }
    let from_image = from_image(spec, &api_url, &mut wrong);
    let network_zone = network_zone(spec, &mut wrong);
    let wish = wish(spec, from_image.as_ref(), &env, &mut wrong);
    let minimum_age = minimum_age(spec, &mut wrong);
    let versions = list(spec, from_image.as_ref(), &mut wrong);
    let asked_of = spec.rollout.clone().unwrap_or_default();
    let retry = named("retry", asked_of.retry.as_ref(), &mut wrong);
    let promote = named("promote", asked_of.promote.as_ref(), &mut wrong);
    let reject = named("reject", asked_of.reject.as_ref(), &mut wrong);
    let node_selector = spec.node_selector.clone().unwrap_or_default();
    check_system(&node_selector, &mut wrong);
    let pinned = ["kubernetes.io/arch", "beta.kubernetes.io/arch"]
        .iter()
        .find_map(|key| node_selector.get(*key).map(String::as_str));
    let installer_arch = installer_arch(pinned, &mut wrong);
    let wait = i64::from(spec.wait_ready_seconds.filter(|s| *s > 0).unwrap_or_default());
    let wanted = policy(object, wait, &mut wrong);
    wrong.extend(unnameable(wish, &wanted));
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let unprivileged = spec.use_unprivileged_mode == Some(true);
    let default_account = if unprivileged { "dynatrace-oneagent-unprivileged" } else { "dynatrace-oneagent" };
    let on = |flag: Option<bool>| flag == Some(true);
    let architectures = match (pinned, &from_image) {
        (Some(_), _) => &[][..],
        // An image says itself which architectures it is for; the installer's address names one.
        (None, Some(_)) => IMAGE_ARCHITECTURES,
        (None, None) if wish == Wish::UserUrl => &[],
        (None, None) => INSTALLER_ARCHITECTURES,
    };
    let placement = placement(&node_selector, &tolerations, terms, architectures);
    Ok(Resolved {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        owner: object.controller_owner_ref(&()).unwrap_or_default(),
        api_url,
        skip_cert_check: on(spec.skip_cert_check),
        tokens: text(spec.tokens.as_ref()).unwrap_or_else(|| name.clone()),
        proxy: proxy(spec),
        no_proxy: spec.proxy.as_ref().and_then(|proxy| text(proxy.no_proxy.as_ref())),
        network_zone,
        from_image,
        trusted_cas: text(spec.trusted_cas.as_ref()),
        cluster: openshift::wanted(spec),
        wish,
        frozen: on(spec.disable_agent_update),
        versions,
        minimum_age,
        retry,
        promote,
        reject,
        canary: spec.rollout.iter().find_map(|r| Some(r.pace.canary.as_ref()?.selector.clone())).unwrap_or_default(),
        policy: wanted,
        placement,
        pod: PodShape {
            image: text(spec.image.as_ref()),
            args: spec.args.clone().unwrap_or_default(),
            env,
            resources,
            priority_class: text(spec.priority_class_name.as_ref()),
            dns_policy: text(spec.dns_policy.as_ref()),
            service_account: text(spec.service_account_name.as_ref()).unwrap_or_else(|| default_account.to_owned()),
            labels: spec.labels.clone().unwrap_or_default(),
            annotations: spec.annotations.clone().unwrap_or_default(),
            unprivileged,
            webhook_injection: on(spec.webhook_injection),
            installer_arch,
            node_selector,
            tolerations,
            node_affinity,
        },
        istio: on(spec.enable_istio),
        warnings: warnings(spec, wait, wish),
        conflicts: Vec::new(),
        doubt: None,
        remembers: BTreeSet::new(),
        name,
    })
}

fn policy(object: &OneAgent, wait: i64, wrong: &mut Vec<Refusal>) -> Policy {
    let none = Rollout::default();
    let rollout = object.spec.rollout.as_ref().unwrap_or(&none);
    let mut why = Vec::new();
    let wait_ready = TimeDelta::seconds(if wait == 0 { WAIT_READY } else { wait });
    let paused = || asked::paused((&object.namespace().unwrap_or_default(), &object.name_any()), None);
    let policy = asked::of_nodes(&rollout.pace, wait_ready, paused, &mut why);
    wrong.extend(why.into_iter().map(Refusal));
    Policy { rolls_back: rollout.on_failure == Some(schedule::OnFailure::Rollback), ..policy }
}

/// Empty means unset.
fn text(value: Option<&String>) -> Option<String> {
    value.map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn api_url(raw: &str, wrong: &mut Vec<Refusal>) -> String {
    let url = raw.trim().trim_end_matches('/').to_owned();
    let is_plain = |parsed: &Url| {
        let has_more = parsed.query().is_some() || parsed.fragment().is_some() || !parsed.username().is_empty();
        matches!(parsed.scheme(), "https" | "http") && parsed.has_host() && !has_more
    };
    // Kubernetes expands `$(…)` in what Pods are told.
    let is_good = url.ends_with("/api") && url.contains("://") && !url.contains([' ', '$']);
    if !is_good || !Url::parse(&url).is_ok_and(|parsed| is_plain(&parsed)) {
        wrong.push(Refusal(format!(
            "spec.apiUrl is {raw:?}; it must be the environment's API address, which begins with https:// \
            (or http://) and ends with /api, such as https://ENVIRONMENTID.live.dynatrace.com/api"
        )));
    }
    url
}

fn resources(spec: &OneAgentSpec, wrong: &mut Vec<Refusal>) -> ResourceRequirements {
    let mut resources = spec.resources.clone().unwrap_or_default();
    for (which, quantities) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (resource, Quantity(text)) in quantities.iter().flatten() {
            if quantity(text).is_none_or(|number| number < 0.0) {
                wrong.push(Refusal(format!(
                    "spec.resources.{which}.{resource} is {text:?}; use a quantity such as 100m, 512Mi or 1.5Gi"
                )));
            }
        }
    }
    // A request above the limit would be refused.
    let limit = resources.limits.as_ref().and_then(|limits| limits.get("cpu"));
    let below = limit.filter(|Quantity(limit)| quantity(limit).is_some_and(|limit| limit < CPU.1)).cloned();
    let default = below.unwrap_or_else(|| Quantity(CPU.0.to_owned()));
    resources.requests.get_or_insert_default().entry("cpu".to_owned()).or_insert(default);
    resources.limits = resources.limits.filter(|limits| !limits.is_empty());
    resources.claims = None;
    resources
}

/// The user's environment. An installer address of the form that v0.1 to v0.6 wrote into specs counts as unset.
fn env(spec: &OneAgentSpec, api_url: &str, wrong: &mut Vec<Refusal>) -> Vec<EnvVar> {
    let mut kept: Vec<EnvVar> = Vec::new();
    let old_default = format!("{api_url}{OLD_DEFAULT}");
    for (at, entry) in spec.env.iter().flatten().enumerate() {
        let is_old_default = entry.name == SCRIPT_URL && entry.value.as_deref() == Some(old_default.as_str());
        if entry.name.is_empty() || entry.name.contains('=') {
            wrong.push(Refusal(format!("spec.env[{at}].name is {:?}; give the variable's name", entry.name)));
        } else if !is_old_default {
            // Of two of one name the last counts, as in a container.
            kept.retain(|other| other.name != entry.name);
            kept.push(entry.clone());
        }
    }
    kept
}

/// It becomes part of an address and of an argument.
fn network_zone(spec: &OneAgentSpec, wrong: &mut Vec<Refusal>) -> Option<String> {
    let zone = text(spec.network_zone.as_ref())?;
    if !zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        wrong.push(Refusal(format!(
            "spec.networkZone is {zone:?}; a zone's name has letters, digits, dots, dashes and underscores only"
        )));
    }
    Some(zone)
}

fn proxy(spec: &OneAgentSpec) -> Option<ProxySource> {
    let proxy = spec.proxy.as_ref()?;
    text(proxy.value_from.as_ref())
        .map(ProxySource::Secret)
        .or_else(|| text(proxy.value.as_ref()).map(|url| ProxySource::Value(url.clone().into(), url)))
}
