//! Who writes a DaemonSet, and who else replaces its Pods.
//!
//! Pure. Must not send requests.

use k8s_openapi::api::apps::v1::DaemonSet;
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

/// The field managers that wrote its Pod template.
#[must_use]
pub fn writers(set: &DaemonSet) -> Vec<&str> {
    let writes = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:spec"].get("f:template").is_some())
    };
    let mut names: Vec<&str> =
        set.managed_fields().iter().filter(writes).filter_map(|entry| entry.manager.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
