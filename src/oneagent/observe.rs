//! Observe: gathers all that a decision about one OneAgent needs. The only step that reads the cluster and the vendor.
//!
//! Reads caches; waits only for the first look at a named object, and never for the vendor. Must not decide.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use secrecy::{ExposeSecret, SecretString};

use super::build::ISTIO;
use super::build::pull_secret::KEY;
use super::build::template::short_hash;
use super::known::{self, Known};
use super::resolve::{ProxySource, Resolved};
use super::revision::Pod;
use super::{Context, Desk, MANAGER};
use crate::dynatrace::{self, Access, GoneNode, Snapshot, Subscriber, Told, Transport};
use crate::k8s::api_group::{Group, Served};
use crate::k8s::node::Node;
use crate::k8s::node_selector::Selector;
use crate::k8s::placement::{Verdict, has_labels};
use crate::kernel::Key;
use crate::kernel::named::Look;
use crate::kernel::{self, NamedKind, Reference, call};
use crate::rollout::ledger::Ledger;

/// After so long without a change, missing Pods are asked about.
pub const QUIET: Duration = Duration::from_secs(3);

/// A token, as its Secret has it.
#[derive(Debug, Clone)]
pub enum Token {
    /// There.
    There {
        /// Trimmed.
        value: SecretString,
        /// Whether there were blanks around it.
        blanks: bool,
    },
    /// The Secret is missing.
    NoSecret,
    /// The Secret lacks the key, or it is empty.
    NoKey,
    /// The Secret could not be read.
    Unread(String),
}

/// An object that the spec names.
#[derive(Debug, Clone)]
pub enum Named {
    /// Its value, and a mark that changes with it: never a hash that lets the value of a Secret be guessed.
    There(SecretString, String),
    /// Why it cannot be used, and the remedy.
    Unusable(String),
    /// The API server did not say.
    Unread(String),
}

/// Since when nodes have no Pod at all.
pub type Missing = HashMap<Arc<str>, DateTime<Utc>>;

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
    /// The pull secret, when Pods use one.
    pub pull_secret: Option<Named>,
    /// How the cluster serves Istio's API, when the spec asks for it.
    pub istio: Option<Served>,
    /// What is known of the environment; an error when no client can be made.
    pub environment: Option<Result<Arc<Snapshot>, dynatrace::Error>>,
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
    /// Since when selected nodes have no Pod at all.
    pub missing: Missing,
    /// Since when this process decides.
    pub deciding_since: DateTime<Utc>,
    /// Why the API server refuses new Pods.
    pub refused: Option<String>,
    /// Labels that the namespace itself wants of nodes.
    pub namespace_selector: BTreeMap<String, String>,
    /// Whether somebody holds new Pods to that, as far as is known.
    pub selector_enforced: bool,
    /// UID of Namespace kube-system.
    pub cluster_id: String,
    /// Whether the whole cluster is stopped.
    pub stopped: bool,
    /// Whether the original operator runs in the namespace.
    pub other_operator: bool,
}

/// Gathers it.
pub async fn observe(context: &Context, desk: &Desk, resolved: &Resolved, now: DateTime<Utc>) -> Result<Observed, kernel::Error> {
    let key: Key = (resolved.namespace.clone(), resolved.name.clone());
    let References { secret, proxy, trusted, pull, stop } = references(context, resolved);
    let look = |reference: Option<Reference>| async {
        match reference {
            Some(reference) => Some(context.named.look(&key, &reference).await),
            None => None,
        }
    };
    let (tokens, proxy_look, trusted_look, pull_look, stop_look) =
        tokio::join!(look(Some(secret.clone())), look(proxy.clone()), look(trusted.clone()), look(pull.clone()), look(Some(stop.clone())));
    if let Some(Look::Unknown(why)) = &stop_look {
        // A stop that cannot be read may be set.
        return Err(kernel::Error::Unread(format!("ConfigMap {}/{}: {why}", context.settings.namespace, MANAGER)));
    }
    let pull_secret = pull.as_ref().map(|pull| pull_secret_of(pull_look, &resolved.namespace, &pull.name));
    let named_objects = [Some(secret), proxy, trusted, pull, Some(stop)].into_iter().flatten().collect();

    let proxy = match &resolved.proxy {
        None => None,
        Some(ProxySource::Value(url, _)) => Some(Named::There(url.clone(), String::new())),
        Some(ProxySource::Secret(name)) => Some(named(proxy_look, "Secret", &resolved.namespace, name, "proxy")),
    };
    let trusted = resolved.trusted_cas.as_ref().map(|name| named(trusted_look, "ConfigMap", &resolved.namespace, name, "certs"));
    let (paas, api) = (token(tokens.as_ref(), "paasToken"), token(tokens.as_ref(), "apiToken"));
    let environment = environment(context, resolved, &paas, &api, proxy.as_ref(), trusted.as_ref());

    let fleet = &context.fleet;
    let mut daemonset = fleet.daemonset(&key);
    let mut other_operator = false;
    if daemonset.as_ref().is_none_or(|d| !crate::k8s::ownership::is_adopted(MANAGER, d.managed_fields()) || wrote(d, ORIGINAL)) {
        // Before the first write: the watch shows only DaemonSets with our label, and somebody else's may have the name.
        let api: Api<DaemonSet> = Api::namespaced(context.client.clone(), &resolved.namespace);
        let read = call(|| format!("read DaemonSet {}", resolved.name), api.get_opt(&resolved.name));
        let (found, runs) = tokio::try_join!(read, original_runs(context, &resolved.namespace))?;
        daemonset = found.map(Arc::new);
        other_operator = runs;
    }
    let (nodes, pods) = (fleet.nodes(), fleet.pods(&key));
    let ledger = context.deletions.ledger(&resolved.uid);
    let able = able(resolved, &nodes);
    let lacking = lacks(context, resolved, &able, &pods, &ledger);
    let missing = if daemonset.is_some() { missing(desk, &able, &pods, now) } else { Missing::new() };
    let quiet = daemonset.as_deref().is_some_and(|daemonset| is_quiet(context, &key, daemonset, now));
    let refused = refused(context, resolved, daemonset.as_deref().filter(|_| lacking && quiet), &pods, now).await;
    let selector = namespace_selector(context, resolved, lacking && daemonset.is_some()).await;
    let selector_enforced = is_enforced(context, &selector, &nodes, &pods).await;
    Ok(Observed {
        named_objects,
        paas,
        api,
        proxy,
        trusted,
        pull_secret,
        istio: if resolved.istio { context.optional_apis.served(&context.client, &ISTIO).await.ok() } else { None },
        environment,
        known: known(context, resolved, &key, daemonset.is_some()).await,
        told: context.environments.told(&subscriber(resolved)),
        is_believed: daemonset.as_deref().is_some_and(|live| desk.believed().as_ref().is_some_and(|(_, mark)| *mark == live.metadata.generation)),
        daemonset,
        nodes,
        pods,
        ledger,
        missing,
        deciding_since: context.deciding_since.get().copied().unwrap_or(now),
        refused,
        namespace_selector: selector.labels.clone(),
        selector_enforced,
        cluster_id: cluster_id(context).await?,
        stopped: matches!(&stop_look, Some(Look::Found(data)) if data.entries.get("stop").is_some_and(|v| v.expose_secret().trim() == "true")),
        other_operator,
    })
}

/// Selected nodes that can run an agent now.
fn able<'a>(resolved: &Resolved, nodes: &'a [Arc<Node>]) -> Vec<&'a Arc<Node>> {
    let is_able = |node: &&Arc<Node>| node.ready && node.busy.is_none() && resolved.placement.verdict(node) == Verdict::Selected;
    nodes.iter().filter(is_able).collect()
}

/// Whether one of them lacks a Ready agent.
fn lacks(context: &Context, resolved: &Resolved, able: &[&Arc<Node>], pods: &[Arc<Pod>], ledger: &Ledger) -> bool {
    let gone = ledger.deleted();
    let there = || pods.iter().filter(|pod| !pod.deleting && !gone.contains(&pod.uid));
    let has_pod: HashSet<&str> = there().map(|pod| &*pod.node).collect();
    let is_ready: HashSet<&str> = there().filter(|pod| pod.ready_since.is_some()).map(|pod| &*pod.node).collect();
    // Where the namespace keeps agents off, none is made anew: nobody waits for it.
    let inside = context.node_selectors.known(&resolved.namespace).map(|selector| selector.labels.clone()).unwrap_or_default();
    let mut able = able.iter().filter(|node| has_pod.contains(&*node.name) || has_labels(node, &inside));
    able.any(|node| !is_ready.contains(&*node.name))
}

/// Since when those have no Pod at all, as this process saw it: the cluster does not say.
fn missing(desk: &Desk, able: &[&Arc<Node>], pods: &[Arc<Pod>], now: DateTime<Utc>) -> Missing {
    let has_pod: HashSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
    let without = able.iter().filter(|node| !has_pod.contains(&*node.name));
    let before = desk.missing();
    without.map(|node| (node.name.clone(), before.get(&node.name).copied().unwrap_or(now))).collect()
}

/// The nodes that are known, read once. Before there is a DaemonSet no node has an agent, and nobody waits for the answer.
async fn known(context: &Context, resolved: &Resolved, key: &Key, has_daemonset: bool) -> Option<Arc<Known>> {
    if let Some(known) = context.notes.get(&resolved.uid) {
        return Some(known);
    }
    if !has_daemonset {
        return None;
    }
    let reference = Reference { kind: NamedKind::ConfigMap, namespace: resolved.namespace.clone(), name: known::note(&resolved.name) };
    match context.named.look(key, &reference).await {
        Look::Found(data) => {
            let known = Known::parse(data.entries.values().map(ExposeSecret::expose_secret));
            Some(context.notes.read(&resolved.uid, known, true))
        }
        Look::Absent => Some(context.notes.read(&resolved.uid, Known::default(), false)),
        Look::Unknown(why) => {
            tracing::warn!(namespace = resolved.namespace, name = reference.name, why, "the known nodes cannot be read yet");
            None
        }
    }
}

/// The objects that a OneAgent refers to.
struct References {
    secret: Reference,
    proxy: Option<Reference>,
    trusted: Option<Reference>,
    pull: Option<Reference>,
    /// The stop for the whole cluster.
    stop: Reference,
}

fn references(context: &Context, resolved: &Resolved) -> References {
    let here = |kind, name: &str| Reference { kind, namespace: resolved.namespace.clone(), name: name.to_owned() };
    let proxy = match &resolved.proxy {
        Some(ProxySource::Secret(name)) => Some(here(NamedKind::Secret, name)),
        _ => None,
    };
    References {
        secret: here(NamedKind::Secret, &resolved.tokens),
        proxy,
        trusted: resolved.trusted_cas.as_deref().map(|name| here(NamedKind::ConfigMap, name)),
        pull: resolved.from_image.as_ref().and_then(|image| image.secret(&resolved.name)).map(|name| here(NamedKind::Secret, &name)),
        stop: Reference { kind: NamedKind::ConfigMap, namespace: context.settings.namespace.clone(), name: MANAGER.to_owned() },
    }
}

/// A pull secret has its content under one of two keys, by its type.
fn pull_secret_of(look: Option<Look>, namespace: &str, name: &str) -> Named {
    let remedy = format!("kubectl -n {namespace} create secret docker-registry {name} --docker-server=… --docker-username=… --docker-password=…");
    match look {
        Some(Look::Found(data)) => match [KEY, ".dockercfg"].iter().find_map(|key| data.entries.get(*key)) {
            Some(content) => Named::There(content.clone(), String::new()),
            None => Named::Unusable(format!(
                "Secret {namespace}/{name} is no pull secret (type kubernetes.io/dockerconfigjson): delete it and run {remedy}"
            )),
        },
        Some(Look::Absent) | None => Named::Unusable(format!("Secret {namespace}/{name} does not exist: run {remedy}")),
        Some(Look::Unknown(why)) => Named::Unread(format!("Secret {namespace}/{name} cannot be read: {why}")),
    }
}

fn token(look: Option<&Look>, key: &str) -> Token {
    match look {
        Some(Look::Found(data)) => match data.entries.get(key).map(|v| (v.expose_secret().trim(), v.expose_secret().len())) {
            Some((trimmed, length)) if !trimmed.is_empty() => Token::There { value: trimmed.to_owned().into(), blanks: trimmed.len() != length },
            _ => Token::NoKey,
        },
        Some(Look::Absent) | None => Token::NoSecret,
        Some(Look::Unknown(why)) => Token::Unread(why.clone()),
    }
}

fn named(look: Option<Look>, kind: &str, namespace: &str, name: &str, key: &str) -> Named {
    match look {
        Some(Look::Found(data)) => match data.entries.get(key).filter(|v| !v.expose_secret().trim().is_empty()) {
            Some(value) => {
                let value = value.expose_secret().trim();
                // A Secret's UID is known only to those who may read the Secret: with it nobody else can try values out.
                let keyed = if kind == "Secret" { data.uid.as_str() } else { "" };
                Named::There(value.to_owned().into(), short_hash(format!("{keyed}\n{value}").as_bytes()))
            }
            None => Named::Unusable(format!("{kind} {namespace}/{name} has no key {key}; add it")),
        },
        Some(Look::Absent) | None => Named::Unusable(format!("{kind} {namespace}/{name} does not exist; create it with key {key}")),
        Some(Look::Unknown(why)) => Named::Unread(format!("{kind} {namespace}/{name} cannot be read: {why}")),
    }
}

fn environment(
    context: &Context,
    resolved: &Resolved,
    paas: &Token,
    api: &Token,
    proxy: Option<&Named>,
    trusted: Option<&Named>,
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
            no_proxy: resolved.no_proxy.clone(),
            skip_cert_check: resolved.skip_cert_check,
            timeout: context.settings.vendor_timeout,
        },
    };
    Some(context.environments.look(&subscriber(resolved), &access))
}

/// A OneAgent as a subscriber of an environment.
#[must_use]
pub fn subscriber(resolved: &Resolved) -> Subscriber {
    Subscriber { namespace: resolved.namespace.clone(), name: resolved.name.clone() }
}

/// The original operator: its Deployment, and its name as a field manager.
const ORIGINAL: &str = "dynatrace-oneagent-operator";

/// Whether somebody has written an object since we took it over.
fn wrote(daemonset: &DaemonSet, manager: &str) -> bool {
    daemonset.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(manager) && entry.subresource.is_none())
}

async fn original_runs(context: &Context, namespace: &str) -> Result<bool, kernel::Error> {
    const NAME: &str = ORIGINAL;
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(context.client.clone(), namespace);
    let found = call(|| format!("read Deployment {NAME}"), api.get_opt(NAME)).await?;
    Ok(found.is_some_and(|d| d.spec.and_then(|s| s.replicas).unwrap_or(1) > 0))
}

async fn cluster_id(context: &Context) -> Result<String, kernel::Error> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(context.client.clone());
    let read = || async {
        let namespace = call(|| "read Namespace kube-system".to_owned(), api.get("kube-system")).await?;
        Ok::<_, kernel::Error>(namespace.uid().unwrap_or_default())
    };
    context.cluster_id.get_or_try_init(read).await.cloned()
}

/// Whether nothing moves: then, where agents are missing, more is asked than the watches say.
fn is_quiet(context: &Context, key: &Key, daemonset: &DaemonSet, now: DateTime<Utc>) -> bool {
    let age = daemonset.creation_timestamp().map_or(0, |t| now.timestamp() - t.0.as_second());
    age >= 2 && context.fleet.quiet(key).is_none_or(|quiet| quiet >= QUIET)
}

/// What the namespace itself wants of nodes: read where agents lack, and before anything is changed. What cannot be read is
/// as it was.
async fn namespace_selector(context: &Context, resolved: &Resolved, lacking: bool) -> Arc<Selector> {
    let known = context.node_selectors.known(&resolved.namespace);
    let excludes = known.as_ref().is_some_and(|selector| !selector.labels.is_empty());
    if excludes || lacking {
        return context.node_selectors.read(&context.client, &resolved.namespace).await.ok().or(known).unwrap_or_default();
    }
    known.unwrap_or_default()
}

/// Whether the namespace's node selector is another than that which a plan was made with: looked at before a Pod is replaced
/// or the DaemonSet written, for a successor that may not come back, and agents that a write removes, are lost.
pub async fn selector_changed(context: &Context, resolved: &Resolved, seen: &Observed) -> Result<bool, kernel::Error> {
    let now = context.node_selectors.read(&context.client, &resolved.namespace).await?;
    Ok(now.labels != seen.namespace_selector)
}

/// Whether new Pods are held to the namespace's node selector: an agent that came to a node outside of it since it was
/// written shows that nobody does, and OpenShift's means nothing elsewhere.
async fn is_enforced(context: &Context, selector: &Selector, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> bool {
    if selector.labels.is_empty() {
        return false;
    }
    if selector.is_openshifts && !matches!(context.optional_apis.served(&context.client, &OPENSHIFT).await, Ok(Served::As(_) | Served::Otherwise(_)))
    {
        return false;
    }
    let outside: HashSet<&str> = nodes.iter().filter(|node| !has_labels(node, &selector.labels)).map(|node| &*node.name).collect();
    let came_since = |pod: &Arc<Pod>| selector.since.is_some_and(|since| pod.created > since) && pod.ready_since.is_some();
    !pods.iter().any(|pod| outside.contains(&*pod.node) && came_since(pod))
}

/// The API group that only OpenShift serves.
const OPENSHIFT: Group = Group { name: "security.openshift.io", versions: &["v1"], kinds: &[] };

/// Why the API server refuses the DaemonSet's Pods, in its own words: they stand only in Events. Asked for only
/// when Pods are missing and nothing moves.
async fn refused(context: &Context, resolved: &Resolved, daemonset: Option<&DaemonSet>, pods: &[Arc<Pod>], now: DateTime<Utc>) -> Option<String> {
    let daemonset = daemonset?;
    let status = daemonset.status.as_ref()?;
    if usize::try_from(status.desired_number_scheduled).is_ok_and(|desired| pods.len() >= desired) {
        return None;
    }
    let fields = format!("involvedObject.kind=DaemonSet,involvedObject.name={},reason=FailedCreate", resolved.name);
    let api: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(context.client.clone(), &resolved.namespace);
    let events = call(|| "read Events".to_owned(), api.list(&ListParams::default().fields(&fields).limit(50))).await.ok()?;
    let uid = daemonset.uid();
    let of_this = events.items.into_iter().filter(|event| event.involved_object.uid == uid);
    let last = of_this.max_by_key(|event| event.last_timestamp.as_ref().map(|t| t.0.as_second()))?;
    let seen = last.last_timestamp.as_ref().map_or(0, |t| t.0.as_second());
    let made_since = pods.iter().any(|pod| pod.created.timestamp() > seen);
    // The controller repeats itself at growing intervals, up to about a quarter of an hour.
    (!made_since && now.timestamp() - seen < 1200).then(|| last.message.unwrap_or_default())
}
