//! `explain`: why a node has no agent, an old one, or waits; and what a OneAgent waits for.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::Api;
use kube::{Client, Resource, ResourceExt};

use super::read::{list, nearest, node_selector};
use crate::api::oneagent::OneAgent;
use crate::clock::Clock;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel;
use crate::oneagent::controller::LABEL;
use crate::oneagent::explain::{Around, Finding, oneagent};
use crate::oneagent::listed::Cluster;
use crate::oneagent::observe::refusal;
use crate::oneagent::status::says_refused;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oneagent-operator explain node NODE [-n NAMESPACE]\n       \
        oneagent-operator explain NAME [-n NAMESPACE]",
    after_help = "It reads nodes, Pods, DaemonSets, OneAgents, Namespaces and Events with your rights, and writes \
        nothing."
)]
pub(super) struct Args {
    /// Word `node` and the name of a node; or the name of a OneAgent.
    #[arg(required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Namespace of the OneAgents. Default: with a node all namespaces, else dynatrace.
    #[arg(short, long)]
    namespace: Option<String>,
}

pub(super) async fn explain(args: &Args) -> Result<(), String> {
    let clock = Clock::default();
    let client = kernel::client(&clock).await?;
    let findings = match args.what.as_slice() {
        [name] => of_oneagent(&client, args.namespace.as_deref().unwrap_or("dynatrace"), name).await?,
        [node, name] if node == "node" => of_node((&client, &clock), args.namespace.as_deref(), name).await?,
        _ => return Err("write explain node NODE, or explain NAME, the name of a OneAgent".to_owned()),
    };
    for Finding { who, what, remedy } in findings {
        say!("{who}: {what}");
        if let Some(remedy) = remedy {
            say!("    {remedy}");
        }
    }
    Ok(())
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
        return Err(format!(
            "there is no OneAgent in {}",
            namespace.map_or("any namespace".to_owned(), |namespace| format!("namespace {namespace}"))
        ));
    }
    let mut found = Vec::new();
    for agent in cluster.agents() {
        let around = around(client, &cluster, agent, clock.now()).await;
        found.extend(cluster.node(name, agent, &around, clock.now()));
    }
    Ok(found)
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
    let refused = refusal(client, daemonset.as_deref(), (&pods, since), now).await;
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
