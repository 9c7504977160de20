//! Where a DaemonSet comes from, as its labels, annotations and owner say: what must be corrected there is undone if it
//! is corrected in the cluster.
//!
//! Pure. Must not ask that tool.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

const HELM: &str = "Helm release";
/// Labels and annotations by which deployers mark what is theirs, and what the value names.
const MARKS: &[(&str, &str)] = &[
    ("helm.toolkit.fluxcd.io/name", "Flux HelmRelease"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ("argocd.argoproj.io/instance", "Argo CD application"),
    ("argocd.argoproj.io/tracking-id", "Argo CD application"),
    ("meta.helm.sh/release-name", HELM),
];

/// The object that controls it, as people write it.
#[must_use]
pub fn owner(set: &DaemonSet) -> Option<String> {
    let owner = set.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(format!("{} {}", owner.kind, owner.name))
}

/// Where it comes from, if something says so.
#[must_use]
pub fn source(set: &DaemonSet) -> Option<String> {
    let marked = || {
        MARKS.iter().find_map(|(key, what)| {
            let name = set.labels().get(*key).or_else(|| set.annotations().get(*key))?;
            // A tracking id goes on with what it tracks.
            Some(format!("{what} {}", name.split(':').next().unwrap_or(name)))
        })
    };
    owner(set).or_else(marked)
}

/// What would undo a change of it that is made in the cluster: an owner, or a tool that follows Git. Helm does not.
#[must_use]
pub fn reverter(set: &DaemonSet) -> Option<String> {
    source(set).filter(|source| !source.starts_with(HELM))
}

/// Who else replaces its Pods, whatever its strategy says.
#[must_use]
pub fn other_controller(set: &DaemonSet) -> Option<String> {
    let of_agents = set.owner_references().iter().find(|owner| {
        owner.controller == Some(true) && owner.kind == "OneAgent" && owner.api_version.starts_with("dynatrace.com/")
    });
    let is_kruise = |key: &String| key.split('/').next().is_some_and(|domain| domain.ends_with("rollouts.kruise.io"));
    let by_kruise = || set.annotations().keys().find(|key| is_kruise(key));
    of_agents
        .map(|owner| format!("OneAgent {}, which keeps its own agents", owner.name))
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
