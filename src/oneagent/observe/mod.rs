//! Observe: gathers all that a decision about one OneAgent needs. The only step that reads the cluster and the vendor.
//!
//! Reads caches; waits only for the first look at a named object, and never for the vendor. Must not decide.

mod cluster;
mod openshift;
mod references;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::Api;
use secrecy::ExposeSecret;

pub use cluster::selector_changed;
use cluster::{ORIGINAL, cluster_id, is_enforced, namespace_selector, original_runs, wrote};
pub use openshift::OpenShift;
pub use references::{Named, Token, in_its_place};
use references::{References, certificates, named, pull_secret_of, references, token};

use super::MANAGER;
use super::admitted::Admissions;
use super::build::ISTIO;
use super::context::Cx;
use super::known::{self, Known};
use super::memory::says_refused;
use super::resolve::{ProxySource, Resolved};
use super::revision::Pod;
use super::state::Kept;
use crate::dynatrace::{self, Access, GoneNode, Snapshot, Subscriber, Told, Transport};
use crate::fleet::missing::{Missing, missing};
use crate::fleet::refusal::UNREAD;
use crate::k8s::api_group::Served;
use crate::k8s::node::Node;
use crate::k8s::ownership::is_adopted;
use crate::k8s::placement::{Verdict, has_labels};
use crate::kernel::named::Lookup;
use crate::kernel::refused::Short;
use crate::kernel::{self, NamedKind, Reference, call};
use crate::rollout::Loss;
use crate::rollout::ledger::Ledger;

/// All that a decision needs.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
pub struct Observed {
    /// The objects that the spec names: whatever else was looked at is not needed any more.
    pub named_objects: Vec<Reference>,
    /// `paasToken`.
    pub paas: Token,
    /// `apiToken`.
    pub api: Token,
    /// The proxy, when the spec has one.
    pub proxy: Option<Named>,
    /// Certificates, when the spec names some.
    pub trusted: Option<Named>,
    /// Whether the ConfigMap for the cluster's certificates is not there.
    pub bundle_is_missing: bool,
    /// What OpenShift says of the cluster.
    pub openshift: OpenShift,
    /// What admission made of the Pods.
    pub admissions: Admissions,
    /// The pull secret, when Pods use one.
    pub pull_secret: Option<Named>,
    /// How the cluster serves Istio's API, when the spec asks for it.
    pub istio: Option<Served>,
    /// What is known of the environment; an error when no client can be made.
    pub environment: Option<Result<Arc<Snapshot>, dynatrace::Error>>,
    /// Why the list of versions says nothing, where the spec names one.
    pub unlisted: Option<String>,
    /// The nodes that were known; `None`: not read yet.
    pub known: Option<Arc<Known>>,
    /// What came of telling the environment of nodes that are gone.
    pub told: Vec<(GoneNode, Told)>,
    /// The DaemonSet of this name.
    pub daemonset: Option<Arc<DaemonSet>>,
    /// Whether it is what a webhook made of ours.
    pub is_believed: bool,
    /// Every node.
    pub nodes: Vec<Arc<Node>>,
    /// The agents' Pods.
    pub pods: Vec<Arc<Pod>>,
    /// What we deleted and what is not replaced yet, as of the last look.
    pub ledger: Ledger,
    /// Nodes that lost their agent.
    pub losses: Arc<HashMap<Arc<str>, Loss>>,
    /// Agents that the API server does not let go.
    pub undeletable: Undeletable,
    /// Since when selected nodes have no Pod at all.
    pub missing: Missing,
    /// Since when this process decides.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break.
    pub in_contact_since: DateTime<Utc>,
    /// Why the API server refuses new Pods.
    pub refused: Option<String>,
    /// Labels that the namespace itself wants of nodes.
    pub namespace_selector: BTreeMap<String, String>,
    /// Whether they are the cluster's default ones.
    pub selector_is_default: bool,
    /// Whether new Pods are held to that, as far as is known.
    pub selector_enforced: bool,
    /// UID of Namespace kube-system.
    pub cluster_id: String,
    /// Whether the whole cluster is stopped.
    pub stopped: bool,
    /// Whether the original operator runs in the namespace.
    pub other_operator: bool,
}

/// What was found, and the spec as it applies beside the other OneAgents.
#[derive(Debug)]
pub struct Seen {
    pub resolved: Resolved,
    pub observed: Observed,
}

/// Agents that the API server does not let go.
#[derive(Debug, Default)]
pub struct Undeletable {
    /// For which it is not asked now, by UID, with its words.
    pub aside: HashMap<Arc<str>, String>,
    /// Its words, sorted; also of those for which it is asked again now.
    pub said: Vec<String>,
}

/// The nodes that a rollout remembers, and since when they are gone.
type Away = BTreeMap<String, Option<DateTime<Utc>>>;

/// Gathers it. `away` are the nodes that the rollout remembers.
pub async fn observe(
    cx: &Cx<'_>,
    resolved: &Resolved,
    away: &Away,
    now: DateTime<Utc>,
) -> Result<Observed, kernel::Error> {
    let key = cx.key;
    let kept = &cx.state.own;
    let References { secret, proxy, trusted, pull, versions, stop } = references(cx, resolved);
    let look = |reference: Option<Reference>| async {
        match reference {
            Some(reference) => Some(cx.named.lookup(cx.key, &reference).await),
            None => None,
        }
    };
    let (tokens, proxy_look, trusted_look, pull_look, versions_look, stop_look) = tokio::join!(
        look(Some(secret.clone())),
        look(proxy.clone()),
        look(trusted.clone()),
        look(pull.clone()),
        look(versions.clone()),
        cx.named.lookup(key, &stop)
    );
    let stopped = stop_look.is_stop(&stop)?;
    let pull_secret = pull.as_ref().map(|pull| pull_secret_of(pull_look, &resolved.namespace, &pull.name));
    let named_objects = [Some(secret), proxy, trusted, pull, versions, Some(stop)].into_iter().flatten().collect();

    let proxy = match &resolved.proxy {
        None => None,
        Some(ProxySource::Value(url, _)) => Some(Named::There(url.clone(), String::new())),
        Some(ProxySource::Secret(name)) => Some(named(proxy_look, "Secret", &resolved.namespace, name, "proxy")),
    };
    let has_pods = !cx.kind.fleet.pods(key).is_empty();
    let openshift = openshift::openshift(cx, resolved, has_pods).await;
    let proxy = proxy.or_else(|| openshift::proxy(resolved, &openshift));
    let bundle_is_missing = resolved.cluster.certificates && matches!(trusted_look, Some(Lookup::Absent));
    let trusted = certificates(resolved).map(|(name, key)| {
        let found = named(trusted_look, "ConfigMap", &resolved.namespace, &name, key);
        match found {
            // OpenShift's to fill, not a user's.
            Named::Unusable(_) if resolved.cluster.certificates => {
                openshift::no_certificates(&resolved.namespace, &name)
            }
            // What the cluster trusts restarts no agent.
            Named::There(value, _) if resolved.cluster.certificates => Named::There(value, String::new()),
            found => found,
        }
    });
    let (paas, api) = (token(tokens.as_ref(), "paasToken"), token(tokens.as_ref(), "apiToken"));
    let no_proxy = openshift.cluster_proxy().map(|proxy| proxy.without(resolved.no_proxy.as_deref()));
    let no_proxy = no_proxy.filter(|hosts| !hosts.is_empty()).or_else(|| resolved.no_proxy.clone());
    let (environment, unlisted) = match &resolved.versions {
        None => (environment(cx, resolved, &paas, &api, proxy.as_ref(), trusted.as_ref(), no_proxy), None),
        Some(list) => in_its_place(versions_look, resolved, list),
    };

    let fleet = &cx.kind.fleet;
    let (daemonset, other_operator) = daemonset(cx).await?;
    let known = known(cx, resolved, daemonset.is_some()).await;
    let nodes = near(cx, resolved, known.as_deref(), away);
    let pods = fleet.pods(key);
    let ledger = cx.in_flight.ledger(&resolved.uid);
    let able = able(resolved, &nodes);
    let lacking = lacks(cx, resolved, &able, &pods, &ledger);
    let missing =
        if daemonset.is_some() { missing(&kept.refusals.missing(), &able, &pods, now) } else { Missing::new() };
    let short = daemonset.as_deref().filter(|_| lacking && !missing.is_empty());
    let short = short.map(|daemonset| Short { daemonset, pods: &pods, missing: &missing, quiet: fleet.quiet(key) });
    let was_refused = says_refused(&cx.last_status());
    let is_short = is_short(resolved, &nodes, &pods);
    let refused = kept.refusals.ask(&cx.client, (was_refused, is_short), short.as_ref(), UNREAD, now).await;
    let selector = namespace_selector(cx, resolved, lacking && daemonset.is_some()).await;
    let selector_enforced = is_enforced(cx, &selector, &nodes, &pods).await;
    Ok(Observed {
        named_objects,
        paas,
        api,
        proxy,
        trusted,
        bundle_is_missing,
        openshift,
        admissions: fleet.admissions(key),
        pull_secret,
        istio: if resolved.istio { cx.kind.optional_apis.served(&cx.client, &ISTIO).await.ok() } else { None },
        environment,
        unlisted,
        known,
        told: cx.kind.environments.told(&subscriber(resolved)),
        is_believed: daemonset.as_deref().is_some_and(|live| kept.belief.holds(live)),
        daemonset,
        nodes,
        losses: fleet.losses(key, |node| resolved.placement.verdict(node) == Verdict::Selected),
        undeletable: undeletable(kept, &pods),
        pods,
        ledger,
        missing,
        deciding_since: cx.contact.deciding_since(),
        in_contact_since: cx.contact.in_contact_since(),
        refused,
        namespace_selector: selector.labels.clone(),
        selector_is_default: selector.is_default,
        selector_enforced,
        cluster_id: cluster_id(cx).await?,
        stopped,
        other_operator,
    })
}

/// The DaemonSet, and whether the original operator runs beside it.
async fn daemonset(cx: &Cx<'_>) -> Result<(Option<Arc<DaemonSet>>, bool), kernel::Error> {
    let daemonset = cx.kind.fleet.daemonset(cx.key);
    let is_ours = |live: &Arc<DaemonSet>| is_adopted(MANAGER, live.managed_fields()) && !wrote(live, ORIGINAL);
    if daemonset.as_ref().is_some_and(is_ours) {
        return Ok((daemonset, false));
    }
    // Before the first write: the watch shows only DaemonSets with our label, and another owner's may have the name.
    let api: Api<DaemonSet> = Api::namespaced(cx.client.clone(), &cx.key.0);
    let read = call(|| format!("read DaemonSet {}", cx.key.1), api.get_opt(&cx.key.1));
    let (found, runs) = tokio::try_join!(read, original_runs(cx, &cx.key.0))?;
    Ok((found.map(Arc::new), runs))
}

/// The nodes that matter to it.
fn near(cx: &Cx<'_>, resolved: &Resolved, known: Option<&Known>, away: &Away) -> Vec<Arc<Node>> {
    let addresses = known.into_iter().flat_map(Known::addresses);
    cx.kind.fleet.near(cx.key, &resolved.placement.selector, away.keys().map(String::as_str), addresses)
}

/// Selected nodes that are Ready.
pub(super) fn able<'a>(resolved: &Resolved, nodes: &'a [Arc<Node>]) -> Vec<&'a Arc<Node>> {
    let is_able = |node: &&Arc<Node>| node.ready && resolved.placement.verdict(node) == Verdict::Selected;
    nodes.iter().filter(is_able).collect()
}

/// Whether one of them lacks a Ready agent, and no work on the node explains it.
fn lacks(cx: &Cx<'_>, resolved: &Resolved, able: &[&Arc<Node>], pods: &[Arc<Pod>], ledger: &Ledger) -> bool {
    let gone = ledger.deleted();
    let there = || pods.iter().filter(|pod| !pod.deleting && !gone.contains(&pod.id));
    let has_pod: HashSet<&str> = there().map(|pod| &*pod.node).collect();
    let is_ready: HashSet<&str> = there().filter(|pod| pod.ready_since.is_some()).map(|pod| &*pod.node).collect();
    // Where the namespace keeps agents off, none is created again: nothing waits for it.
    let inside =
        cx.kind.node_selectors.known(&resolved.namespace).map(|selector| selector.labels.clone()).unwrap_or_default();
    let mut able = able.iter().filter(|node| has_pod.contains(&*node.name) || has_labels(node, &inside));
    // A cordon keeps no Pod from being made, but drains end what is there.
    let is_quiet = |node: &Node| node.busy.is_some() && has_pod.contains(&*node.name);
    able.any(|node| !is_ready.contains(&*node.name) && !is_quiet(node))
}

/// Whether a selected node has no Pod, whatever else is known of it.
fn is_short(resolved: &Resolved, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> bool {
    let has_pod: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    nodes.iter().any(|node| !has_pod.contains(&*node.name) && resolved.placement.verdict(node) == Verdict::Selected)
}

/// Pods that are still there and that the API server refused to delete.
fn undeletable(kept: &Kept, pods: &[Arc<Pod>]) -> Undeletable {
    let there: HashSet<&str> = pods.iter().map(|pod| &*pod.id).collect();
    let (aside, said) = kept.aside.of(|uid| there.contains(uid));
    Undeletable { aside, said }
}

/// The nodes that are known, read once. Before there is a DaemonSet no node has an agent, and nothing waits for the
/// answer.
async fn known(cx: &Cx<'_>, resolved: &Resolved, has_daemonset: bool) -> Option<Arc<Known>> {
    if let Some(known) = cx.kind.notes.get(&resolved.uid) {
        return Some(known);
    }
    if !has_daemonset {
        return None;
    }
    let reference = Reference {
        kind: NamedKind::ConfigMap,
        namespace: resolved.namespace.clone(),
        name: known::note(&resolved.name),
    };
    match cx.named.lookup(cx.key, &reference).await {
        Lookup::Found(data) => {
            let known = Known::parse(data.entries.values().map(ExposeSecret::expose_secret));
            Some(cx.kind.notes.read(&resolved.uid, known, true))
        }
        Lookup::Absent => Some(cx.kind.notes.read(&resolved.uid, Known::default(), false)),
        Lookup::Unknown(why) => {
            tracing::warn!(
                namespace = resolved.namespace,
                name = reference.name,
                why,
                "the known nodes cannot be read yet"
            );
            None
        }
    }
}

fn environment(
    cx: &Cx<'_>,
    resolved: &Resolved,
    paas: &Token,
    api: &Token,
    proxy: Option<&Named>,
    trusted: Option<&Named>,
    no_proxy: Option<String>,
) -> Option<Result<Arc<Snapshot>, dynatrace::Error>> {
    let value = |token: &Token| if let Token::There { value, .. } = token { Some(value.clone()) } else { None };
    let there = |named: Option<&Named>| match named {
        None => Some(None),
        Some(Named::There(value, _)) => Some(Some(value.clone())),
        Some(_) => None,
    };
    // One token is enough to ask what it is good for.
    let (paas, api) = (value(paas), value(api));
    let access = Access {
        base: resolved.api_url.clone(),
        paas: paas.clone().or_else(|| api.clone())?,
        api: api.or(paas)?,
        transport: Transport {
            proxy: there(proxy)?,
            trusted: there(trusted)?.map(|pem| pem.expose_secret().to_owned()),
            no_proxy,
            skip_cert_check: resolved.skip_cert_check,
            timeout: cx.kind.settings.vendor_timeout,
        },
    };
    Some(cx.kind.environments.snapshot(&subscriber(resolved), &access))
}

/// A OneAgent as a subscriber of an environment.
#[must_use]
pub fn subscriber(resolved: &Resolved) -> Subscriber {
    Subscriber { namespace: resolved.namespace.clone(), name: resolved.name.clone() }
}
