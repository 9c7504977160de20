//! `plan` of OneAgents: what an edit of one would do, or what is still to come without one.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::Api;

use super::super::asked::Subject;
use super::super::read::{self, Edited, Reader, of_kind};
use super::read::node_selector;
use crate::api::nearest::nearest;
use crate::api::oneagent::OneAgent;
use crate::fleet::preview::Preview;
use crate::k8s::facts::{NodeFacts, PodFacts};
use crate::kernel::named::Lookup;
use crate::kernel::{Answer, Data, Singletons};
use crate::oneagent::LABEL;
use crate::oneagent::listed::Cluster;
use crate::oneagent::preview::{Surroundings, preview};
use crate::oneagent::resolve::resolve;
use crate::openshift::cluster::VERSION;

/// What would become of the agents of the OneAgents that are asked about.
pub(in crate::cli) async fn plan(
    reader: Reader<'_>,
    args: &Subject,
    edited: Option<Edited>,
    now: DateTime<Utc>,
) -> Result<Vec<Preview>, String> {
    let edited = edited.map(agents).transpose()?;
    let mut all = reader.within::<OneAgent>(None, "oneagents", "").await?;
    let wanted = wanted(args, edited, &mut all)?;
    let cluster = Cluster::of(
        all,
        reader.all::<NodeFacts>("nodes").await?,
        reader.within::<PodFacts>(None, "pods", LABEL).await?,
        reader.within::<DaemonSet>(None, "daemonsets", LABEL).await?,
    );
    let mut previews: Vec<Preview> = Vec::new();
    for agent in &wanted {
        let around = surroundings(reader, agent).await?;
        let said = preview(&cluster, agent, &around, now);
        let name = format!("OneAgent {}/{}", agent.namespace().unwrap_or_default(), agent.name_any());
        previews.push(said.map_err(|why| format!("{name}: {why}"))?);
    }
    Ok(previews)
}

/// The OneAgents of a file.
fn agents(edited: Edited) -> Result<Vec<OneAgent>, String> {
    let shown = edited.shown.clone();
    let (agents, others) = of_kind::<OneAgent>(edited)?;
    if !agents.is_empty() {
        return Ok(agents);
    }
    let kinds: BTreeSet<&str> = others.iter().filter_map(|other| other["kind"].as_str()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let holds = if kinds.is_empty() { String::new() } else { format!(", but {}", kinds.join(", ")) };
    Err(format!(
        "{shown} holds no OneAgent{holds}; for a DaemonSetRollout or its DaemonSet add --kind daemonsetrollout"
    ))
}

/// The OneAgents that are asked about, as desired; `all` has them so, too, for the others look at them.
fn wanted(args: &Subject, edited: Option<Vec<OneAgent>>, all: &mut Vec<OneAgent>) -> Result<Vec<OneAgent>, String> {
    let is_named = |agent: &OneAgent| args.name.as_ref().is_none_or(|name| agent.name_any() == *name);
    let Some(edited) = edited else {
        let here = |agent: &&OneAgent| args.all || agent.namespace().as_deref() == Some(args.namespace());
        let found: Vec<OneAgent> = all.iter().filter(here).filter(|agent| is_named(agent)).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let names: Vec<String> = all.iter().filter(here).map(ResourceExt::name_any).collect();
        let place = if args.all { "any namespace" } else { &format!("namespace {}", args.namespace()) };
        return Err(match &args.name {
            Some(name) => format!("there is no OneAgent {name} in {place}{}", nearest(name, &names)),
            None => format!("there is no OneAgent in {place}; name another with -n"),
        });
    };
    let mut wanted = Vec::new();
    for agent in edited.into_iter().filter(is_named) {
        let namespace = agent.namespace().unwrap_or_else(|| args.namespace().to_owned());
        wanted.push(read::edited(all, agent, namespace));
    }
    if wanted.is_empty() {
        return Err(format!("the file holds no OneAgent {}", args.name.as_deref().unwrap_or_default()));
    }
    Ok(wanted)
}

/// The ConfigMap that lists the versions, where the spec names one.
async fn versions(reader: Reader<'_>, agent: &OneAgent) -> Result<Option<Lookup>, String> {
    let namespace = agent.namespace().unwrap_or_default();
    let resolved = resolve(agent).ok();
    let Some((name, _)) = resolved.and_then(|resolved| resolved.versions) else { return Ok(None) };
    let found = Api::<ConfigMap>::namespaced(reader.client.clone(), &namespace).get_opt(&name).await;
    let found = found.map_err(|error| {
        // The role for people has no ConfigMap, as most of them are not the operator's.
        let grant = format!("a Role in namespace {namespace} with get of ConfigMap {name}");
        reader.failed(&format!("get ConfigMap {namespace}/{name}"), &error, &grant)
    })?;
    let entries = |map: ConfigMap| map.data.into_iter().flatten().map(|(key, text)| (key, text.into())).collect();
    let data = found.map(|map| Data { entries: entries(map), ..Data::default() });
    Ok(Some(data.map_or(Lookup::Absent, |data| Lookup::Found(Arc::new(data)))))
}

/// What no list shows.
async fn surroundings(reader: Reader<'_>, agent: &OneAgent) -> Result<Surroundings, String> {
    let selector = node_selector(reader, &agent.namespace().unwrap_or_default()).await?;
    let openshift = agent.spec.openshift.as_ref();
    let pauses = openshift.is_some_and(|openshift| openshift.pause_during_cluster_update == Some(true));
    let singletons = Singletons::new(Duration::ZERO);
    let update = if pauses { singletons.lookup(reader.client, &VERSION).await } else { Answer::Unasked };
    Ok(Surroundings { selector, update, list: versions(reader, agent).await? })
}
