//! Who writes a DaemonSet, and who else replaces its Pods.
//!
//! Pure. Must not send requests.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;

/// Of the annotations of a DaemonSet whose Pods Datadog Operator replaces with those of another one.
const DATADOG: &str = "experimental.agent.datadoghq.com/node-agent-rollout-";

/// Who else replaces its Pods, whatever its strategy says.
#[must_use]
pub fn other_controller(set: &DaemonSet) -> Option<String> {
    let of_agents = set.owner_references().iter().find(|owner| {
        owner.controller == Some(true) && owner.kind == "OneAgent" && owner.api_version.starts_with("dynatrace.com/")
    });
    let of_datadog = set.annotations().keys().find(|key| key.starts_with(DATADOG));
    let is_kruise = |key: &String| key.split('/').next().is_some_and(|domain| domain.ends_with("rollouts.kruise.io"));
    let by_kruise = || set.annotations().keys().find(|key| is_kruise(key));
    of_agents
        .map(|owner| format!("OneAgent {}, which keeps its own agents", owner.name))
        .or_else(|| {
            of_datadog.map(|key| format!("Datadog Operator, which rolls its agents out itself (annotation {key})"))
        })
        .or_else(|| by_kruise().map(|key| format!("a Rollout of OpenKruise (annotation {key})")))
}

/// The field managers that wrote its Pod template, in the order of their names.
#[must_use]
pub fn writers(set: &DaemonSet) -> Vec<&str> {
    names(template_writes(set).map(|(manager, _)| manager))
}

/// Those of them that wrote it since then; where that is unknown, all.
#[must_use]
pub fn writers_since(set: &DaemonSet, since: DateTime<Utc>) -> Vec<&str> {
    let found = names(template_writes(set).filter(|(_, at)| *at >= Some(since)).map(|(manager, _)| manager));
    if found.is_empty() { writers(set) } else { found }
}

/// Those of them that wrote it last.
#[must_use]
pub fn last_writers(set: &DaemonSet) -> Vec<&str> {
    let last = template_writes(set).filter_map(|(_, at)| at).max();
    last.map_or_else(|| writers(set), |last| writers_since(set, last))
}

/// Each field manager of its Pod template, and when it last changed a field of the DaemonSet.
fn template_writes(set: &DaemonSet) -> impl Iterator<Item = (&str, Option<DateTime<Utc>>)> {
    let writes = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:spec"].get("f:template").is_some())
    };
    let at = |entry: &ManagedFieldsEntry| DateTime::from_timestamp(entry.time.as_ref()?.0.as_second(), 0);
    set.managed_fields().iter().filter(writes).filter_map(move |entry| Some((entry.manager.as_deref()?, at(entry))))
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}
