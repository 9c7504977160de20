//! Where an object comes from, as its owner, labels, annotations and field managers say: a correction in the cluster
//! would be undone from there.
//!
//! Pure. Must not ask that tool.

use kube::api::ObjectMeta;

const HELM: &str = "Helm release";
/// Labels and annotations by which deployers mark what is theirs, and what the value names.
const MARKS: &[(&str, &str)] = &[
    ("helm.toolkit.fluxcd.io/name", "Flux HelmRelease"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ("argocd.argoproj.io/instance", "Argo CD application"),
    ("argocd.argoproj.io/tracking-id", "Argo CD application"),
    ("meta.helm.sh/release-name", HELM),
];

/// Field managers of tools that follow Git. Some mark what is theirs with a label that others use, too.
const FOLLOWERS: &[(&str, &str)] = &[
    ("argocd-controller", "Argo CD"),
    ("kustomize-controller", "a Flux Kustomization"),
    ("helm-controller", "a Flux HelmRelease"),
];

/// The object that controls it, as people write it.
#[must_use]
pub fn owner(object: &ObjectMeta) -> Option<String> {
    let owner = object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    Some(format!("{} {}", owner.kind, owner.name))
}

/// Where it comes from, if something says so.
#[must_use]
pub fn source(object: &ObjectMeta) -> Option<String> {
    let marked = || {
        MARKS.iter().find_map(|(key, what)| {
            let of = |map: &Option<std::collections::BTreeMap<String, String>>| map.as_ref()?.get(*key).cloned();
            let name = of(&object.labels).or_else(|| of(&object.annotations))?;
            // A tracking id continues with what it tracks.
            Some(format!("{what} {}", name.split(':').next().unwrap_or(&name)))
        })
    };
    owner(object).or_else(marked).or_else(|| follower(object))
}

/// The tool that follows Git and wrote it, as its field manager says.
fn follower(object: &ObjectMeta) -> Option<String> {
    let wrote = |name: &str| object.managed_fields.iter().flatten().any(|entry| entry.manager.as_deref() == Some(name));
    let (name, what) = FOLLOWERS.iter().find(|(name, _)| wrote(name))?;
    Some(format!("{what} (field manager {name})"))
}

/// What would undo a change of it that is made in the cluster: an owner, or a tool that follows Git. Helm does not.
#[must_use]
pub fn reverter(object: &ObjectMeta) -> Option<String> {
    source(object).filter(|source| !source.starts_with(HELM)).or_else(|| follower(object))
}
