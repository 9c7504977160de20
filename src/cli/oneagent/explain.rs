//! `explain` of OneAgents: what is read for it.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

use super::super::asked::{PodKind, Question, Said, none};
use super::super::read::Reader;
use super::read::node_selector;
use crate::api::nearest::nearest;
use crate::api::oneagent::OneAgent;
use crate::k8s::facts::PodFacts;
use crate::oneagent::LABEL;
use crate::oneagent::explain::{Around, told};
use crate::oneagent::listed::Cluster;

/// What there is to say of OneAgents.
pub(in crate::cli) async fn explain(
    reader: Reader<'_>,
    question: &Question<'_>,
    namespace: Option<&str>,
) -> Result<Said, String> {
    let agents = match reader.any::<OneAgent>(namespace, "oneagents").await? {
        Ok(agents) => agents,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(match question {
        Question::One(name) => {
            let Some(found) = agents.iter().find(|agent| agent.metadata.name.as_deref() == Some(name)) else {
                let names: Vec<&str> = agents.iter().filter_map(|agent| agent.metadata.name.as_deref()).collect();
                let namespace = namespace.unwrap_or_default();
                return Err(format!("there is no OneAgent {name} in namespace {namespace}{}", nearest(name, &names)));
            };
            told(found).findings()
        }
        _ if agents.is_empty() => return Ok(Err(none(PodKind::Oneagent, namespace))),
        Question::All => agents.iter().map(|agent| told(agent).conclusion()).collect(),
        Question::Node { name, nodes, now } => {
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
    let counts = agent.status.as_ref().and_then(|status| status.nodes.as_ref());
    let refused = reader.refused((daemonset.as_deref(), &pods), counts, now).await;
    let refused = refused.map_err(|why| unread.push(why)).unwrap_or_default();
    Around { selector, refused, unread }
}
