//! `explain`: why a node has no agent, an old one, or waits; and what a OneAgent waits for.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};

use super::read::{list, node_selector};
use crate::api::nearest::nearest;
use crate::api::oneagent::OneAgent;
use crate::clock::Clock;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel::{self, refused};
use crate::oneagent::LABEL;
use crate::oneagent::MANAGER;
use crate::oneagent::explain::{Around, Finding, Kind, oneagent};
use crate::oneagent::listed::Cluster;
use crate::oneagent::memory::says_refused;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oneagent-operator explain [-n NAMESPACE]\n       \
        oneagent-operator explain NAME [-n NAMESPACE]\n       \
        oneagent-operator explain node NODE [-n NAMESPACE]",
    after_help = "Without a name it prints a line for each OneAgent. Exit code: 0, all is well or comes by itself; 1, \
        somebody must act; 2, the question could not be answered.\n\nIt reads nodes, Pods, DaemonSets, OneAgents, \
        Namespaces, Events, Deployments and Leases with your rights, and writes nothing. ClusterRole \
        oneagent-operator-observe has them all."
)]
pub(in crate::cli) struct Args {
    /// Word `node` and the name of a node; or the name of a OneAgent.
    #[arg(num_args = 0..=2)]
    what: Vec<String>,
    /// Namespace of the OneAgents. Default: with a name dynatrace, else all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
}

/// Returns whether somebody must act.
pub(in crate::cli) async fn explain(args: &Args) -> Result<bool, String> {
    let clock = Clock::default();
    let client = kernel::client(&clock).await?;
    let mut findings = operator(&client, args.namespace.as_deref(), clock.now()).await;
    findings.extend(match args.what.as_slice() {
        [] => fleet(&client, args.namespace.as_deref()).await?,
        [name] => of_oneagent(&client, args.namespace.as_deref().unwrap_or("dynatrace"), name).await?,
        [node, name] if node == "node" => of_node((&client, &clock), args.namespace.as_deref(), name).await?,
        _ => return Err("write explain node NODE, or explain NAME, the name of a OneAgent".to_owned()),
    });
    let must_act = findings.iter().any(|finding| finding.kind == Kind::Act);
    for Finding { who, what, remedy, .. } in findings {
        say!("{who}: {what}");
        if let Some(remedy) = remedy {
            say!("    {remedy}");
        }
    }
    Ok(must_act)
}

/// A line for each OneAgent.
async fn fleet(client: &Client, namespace: Option<&str>) -> Result<Vec<Finding>, String> {
    let all = list::<OneAgent>(within(client, namespace), "oneagents", "").await?;
    if all.is_empty() {
        return Err(none(namespace));
    }
    Ok(all.iter().flat_map(|agent| oneagent(agent).into_iter().take(1)).collect())
}

fn none(namespace: Option<&str>) -> String {
    let place = namespace.map_or("any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    format!("there is no OneAgent in {place}")
}

/// Whether no operator runs: then what a status says may be old. Without the right to see that, nothing is said.
async fn operator(client: &Client, namespace: Option<&str>, now: DateTime<Utc>) -> Vec<Finding> {
    let name = format!("metadata.name={MANAGER}");
    let leases: Api<Lease> = Api::all(client.clone());
    let Ok(mut leases) = leases.list(&ListParams::default().fields(&name)).await else { return Vec::new() };
    // Of several installations the one that is next to the OneAgents counts.
    if leases.items.iter().any(|lease| lease.namespace().as_deref() == namespace) {
        leases.items.retain(|lease| lease.namespace().as_deref() == namespace);
    }
    let is_held = |lease: &Lease| {
        let spec = lease.spec.clone().unwrap_or_default();
        let valid = spec.lease_duration_seconds.unwrap_or_default().max(15);
        let since = spec.renew_time.map_or(0, |time| time.0.as_second());
        spec.holder_identity.is_some_and(|holder| !holder.is_empty()) && now.timestamp() - since <= 2 * i64::from(valid)
    };
    if leases.items.is_empty() || leases.items.iter().any(is_held) {
        return Vec::new();
    }
    let deployments: Api<Deployment> = Api::all(client.clone());
    let labelled = ListParams::default().labels(&format!("app.kubernetes.io/name={MANAGER}"));
    let found = deployments.list(&labelled).await.map(|list| list.items).unwrap_or_default();
    let namespace = leases.items[0].namespace().unwrap_or_default();
    let (what, remedy) = match found.first() {
        Some(deployment) if deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(0) => {
            let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
            (
                format!("does not run: Deployment {namespace}/{name} is scaled to 0, and what follows may be old"),
                format!("kubectl -n {namespace} scale deployment {name} --replicas=1"),
            )
        }
        _ => (
            format!("does not run: nobody holds Lease {namespace}/{MANAGER}, and what follows may be old"),
            format!("kubectl -n {namespace} get pods -l app.kubernetes.io/name={MANAGER}"),
        ),
    };
    vec![Finding { who: "the operator".to_owned(), what, remedy: Some(remedy), kind: Kind::Act }]
}

async fn of_oneagent(client: &Client, namespace: &str, name: &str) -> Result<Vec<Finding>, String> {
    let all = list::<OneAgent>(Api::namespaced(client.clone(), namespace), "oneagents", "").await?;
    let is_it = |agent: &&OneAgent| agent.metadata.name.as_deref() == Some(name);
    if let Some(found) = all.iter().find(is_it) {
        return Ok(oneagent(found));
    }
    let names: Vec<&str> = all.iter().filter_map(|agent| agent.metadata.name.as_deref()).collect();
    Err(format!("there is no OneAgent {name} in namespace {namespace}{}", nearest(name, &names)))
}

async fn of_node(
    (client, clock): (&Client, &Clock),
    namespace: Option<&str>,
    name: &str,
) -> Result<Vec<Finding>, String> {
    let cluster = Cluster::of(
        list(within(client, namespace), "oneagents", "").await?,
        list::<NodeFacts>(Api::all(client.clone()), "nodes", "").await?,
        list::<PodFacts>(within(client, namespace), "pods", LABEL).await?,
        list::<DaemonSet>(within(client, namespace), "daemonsets", LABEL).await?,
    );
    let names = cluster.nodes();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if !names.contains(&name) {
        return Err(format!("there is no node {name}{}", nearest(name, &names)));
    }
    if cluster.agents().is_empty() {
        return Err(none(namespace));
    }
    let mut found = Vec::new();
    for agent in cluster.agents() {
        let around = around(client, &cluster, agent, clock.now()).await;
        found.extend(cluster.node(name, agent, &around, clock.now()));
    }
    Ok(folded(name, found))
}

/// Those that have nothing to do with a node stand in one line.
fn folded(node: &str, found: Vec<Finding>) -> Vec<Finding> {
    let (unrelated, mut related): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.kind == Kind::Unrelated);
    let Some(first) = unrelated.first() else { return related };
    let such = format!("{} {}", first.who, first.what);
    let what = match (related.is_empty(), unrelated.len()) {
        (true, 1) => format!("no OneAgent selects it: {such}"),
        (true, count) => format!("no OneAgent selects it: {such}; and {} more do not", count - 1),
        (false, 1) => return related,
        (false, count) => format!("{count} other OneAgents do not select it"),
    };
    related.push(Finding { who: format!("node {node}"), what, remedy: None, kind: Kind::Unrelated });
    related
}

/// What no list shows, where something is missing. Without the right to read it, that is said, and no more.
async fn around(client: &Client, cluster: &Cluster, agent: &OneAgent, now: DateTime<Utc>) -> Around {
    let (daemonset, pods) = cluster.workload(agent);
    let mut unread = Vec::new();
    let selector = node_selector(client, &agent.namespace().unwrap_or_default()).await;
    let selector = selector.map_err(|why| unread.push(why)).unwrap_or_default();
    // Since when a Pod is missing only the operator knows.
    let is_refused = agent.status.as_ref().is_some_and(says_refused);
    let since = is_refused.then_some(DateTime::UNIX_EPOCH);
    let refused = match daemonset.as_deref() {
        Some(daemonset) => refused::why(client, daemonset, (&pods, since), now).await,
        None => Ok(None),
    };
    let refused = refused.map_err(|why| unread.push(why.chain())).unwrap_or_default();
    Around { selector, refused, unread }
}

fn within<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace))
}
