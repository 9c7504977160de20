//! `explain` of OneAgents: what is read for it.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use super::super::asked::Question;
use super::super::read::Reader;
use super::read::node_selector;
use crate::api::nearest::nearest;
use crate::api::oneagent::OneAgent;
use crate::fleet::finding::Finding;
use crate::k8s::facts::PodFacts;
use crate::kernel::refused;
use crate::oneagent::LABEL;
use crate::oneagent::explain::{Around, told};
use crate::oneagent::listed::Cluster;
use crate::oneagent::memory::says_refused;

/// What there is to say; `None`: there is no OneAgent. `is_asked`: nothing else was asked for.
pub(in crate::cli) async fn explain(
    reader: Reader<'_>,
    question: &Question<'_>,
    namespace: Option<&str>,
    is_asked: bool,
) -> Result<Option<Vec<Finding>>, String> {
    let agents = reader.any::<OneAgent>(namespace, "oneagents", is_asked).await?;
    Ok(Some(match (question, agents) {
        (Question::One(name), agents) => {
            let agents = agents.unwrap_or_default();
            let Some(found) = agents.iter().find(|agent| agent.metadata.name.as_deref() == Some(name)) else {
                let names: Vec<&str> = agents.iter().filter_map(|agent| agent.metadata.name.as_deref()).collect();
                let namespace = namespace.unwrap_or_default();
                return Err(format!("there is no OneAgent {name} in namespace {namespace}{}", nearest(name, &names)));
            };
            told(found).findings()
        }
        (_, None) => return Ok(None),
        (Question::All, Some(agents)) => agents.iter().map(|agent| told(agent).conclusion()).collect(),
        (Question::Node { name, nodes, now }, Some(agents)) => {
            let cluster = Cluster::of(
                agents,
                nodes.to_vec(),
                reader.within::<PodFacts>(namespace, "pods", LABEL).await?,
                reader.within::<DaemonSet>(namespace, "daemonsets", LABEL).await?,
            );
            let mut found = Vec::new();
            for agent in cluster.agents() {
                let around = around(reader, &cluster, agent, *now).await;
                found.extend(cluster.node(name, agent, &around, *now));
            }
            found
        }
    }))
}

/// What no list shows, where something is missing. Without the right to read it, that is said, and no more.
async fn around(reader: Reader<'_>, cluster: &Cluster, agent: &OneAgent, now: DateTime<Utc>) -> Around {
    let (daemonset, pods) = cluster.workload(agent);
    let mut unread = Vec::new();
    let selector = node_selector(reader, &agent.namespace().unwrap_or_default()).await;
    let selector = selector.map_err(|why| unread.push(why)).unwrap_or_default();
    // Since when a Pod is missing only the operator knows.
    let is_refused = agent.status.as_ref().is_some_and(says_refused);
    let since = is_refused.then_some(DateTime::UNIX_EPOCH);
    let refused = match daemonset.as_deref() {
        Some(daemonset) => refused::why(reader.client, daemonset, (&pods, since), now).await,
        None => Ok(None),
    };
    let refused = refused.map_err(|why| unread.push(why.chain())).unwrap_or_default();
    Around { selector, refused, unread }
}
