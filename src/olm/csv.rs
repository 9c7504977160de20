//! The ClusterServiceVersion: what OLM installs and the console shows.
//!
//! Pure: types, rights, samples and a release in; JSON out. Must not claim a feature that is not true of us, and
//! holds no time but the release's date: its annotations become part of the Pod template.

use serde_json::{Value, json};

use super::deployment::{Setting, deployment};
use super::descriptors::descriptors;
use super::manifests;
use super::publisher::Publisher;
use super::rbac::{PRIVILEGED, rules, scc};
use super::release::Release;
use crate::api::package::{Kind, Package, Where};
use crate::api::schema;

/// Oldest Kubernetes that is supported.
pub const MIN_KUBE: &str = "1.30.0";
/// The icon, drawn for this project: a ring of nodes, one of them being renewed.
pub const ICON: &str = include_str!("icon.svg");

/// The icon as it is in a CSV and in a package.
#[must_use]
pub fn icon() -> Value {
    use base64::Engine as _;
    json!({ "base64data": base64::engine::general_purpose::STANDARD.encode(ICON), "mediatype": "image/svg+xml" })
}

/// Name of a release's CSV.
#[must_use]
pub fn name(package: &Package, release: &Release) -> String {
    format!("{}.v{}", package.name, release.version)
}

/// The versions from which one may go straight to a release: all older ones, previews of it among them.
#[must_use]
pub fn skip_range(release: &Release) -> String {
    format!(">=0.1.0 <{}", release.version)
}

/// The CSV of a release that replaces `before`.
pub fn csv(
    package: &Package,
    publisher: &Publisher,
    release: &Release,
    before: Option<&Release>,
) -> Result<Value, manifests::Error> {
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|mode| json!({ "type": mode, "supported": true }));
    let mut images = vec![json!({ "name": "manager", "image": release.image_of(package) })];
    images.extend(package.image_variable.map(|_| json!({ "name": "agent", "image": release.agent_image })));
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": { "name": name(package, release), "annotations": annotations(package, publisher, release)?,
        "labels": labels() },
        "spec": {
            "displayName": package.texts.title,
            "description": package.texts.description,
            "version": release.version,
            "maturity": "alpha",
            "minKubeVersion": MIN_KUBE,
            "icon": [icon()],
            "keywords": package.texts.keywords,
            "maintainers": publisher.maintainers.iter().map(|one| json!({ "name": one.name,
            "email": one.email })).collect::<Vec<_>>(),
            "provider": { "name": publisher.provider.name, "url": publisher.provider.url },
            "links": [
                { "name": "Documentation", "url": publisher.page(package.docs) },
                { "name": "Source", "url": publisher.repository },
                { "name": "Releases", "url": format!("{}/releases", publisher.repository) },
                { "name": "Support", "url": format!("{}/issues", publisher.repository) },
            ],
            "installModes": modes,
            "customresourcedefinitions": { "owned": package.kinds.iter().map(|kind| owned(package,
            kind)).collect::<Result<Vec<_>, _>>()? },
            "install": { "strategy": "deployment", "spec": install(package, release) },
            "relatedImages": images,
        },
    });
    csv["metadata"]["annotations"]["olm.skipRange"] = skip_range(release).into();
    if let Some(before) = before {
        csv["spec"]["replaces"] = name(package, before).into();
    }
    Ok(csv)
}

/// What the operator runs on: what its image is built for.
fn labels() -> Value {
    json!({
        "operatorframework.io/arch.amd64": "supported",
        "operatorframework.io/arch.arm64": "supported",
        "operatorframework.io/os.linux": "supported",
    })
}

/// The form reads one, and people a few; the console has the others as samples beside the YAML view.
const EXAMPLES: usize = 3;

fn annotations(package: &Package, publisher: &Publisher, release: &Release) -> Result<Value, manifests::Error> {
    let examples = package
        .samples
        .iter()
        .take(EXAMPLES)
        .map(|sample| serde_yaml::from_str::<Value>(sample.yaml))
        .collect::<Result<Vec<_>, _>>()?;
    let namespace = manifests::namespace(package);
    let flag = |holds: bool| Value::from(if holds { "true" } else { "false" });
    let mut annotations = json!({
        "alm-examples": serde_json::to_string_pretty(&examples)?,
        "capabilities": package.texts.capabilities,
        "categories": package.texts.categories,
        "containerImage": release.image_of(package),
        "createdAt": format!("{}T00:00:00Z", release.date),
        "description": package.texts.sentence,
        "operator.openshift.io/uninstall-message": package.texts.uninstall,
        "operatorframework.io/suggested-namespace": package.namespace,
        "operatorframework.io/suggested-namespace-template": serde_json::to_string(&namespace)?,
        "repository": publisher.repository,
        "support": publisher.support,
    });
    if package.companions.is_empty() {
        // The console asks for this object right after the installation: it must make sense alone.
        let first = serde_json::to_string(examples.first().unwrap_or(&Value::Null))?;
        annotations["operatorframework.io/initialization-resource"] = first.into();
    }
    // Whatever is claimed here must hold: mirrored only by digest; the vendor calls take a proxy; no validated crypto.
    for (feature, holds) in [
        ("disconnected", release.is_pinned(package)),
        ("proxy-aware", package.is_proxy_aware),
        ("fips-compliant", false),
        ("tls-profiles", false),
        ("token-auth-aws", false),
        ("token-auth-azure", false),
        ("token-auth-gcp", false),
        ("cnf", false),
        ("cni", false),
        ("csi", false),
    ] {
        annotations[format!("features.operators.openshift.io/{feature}")] = flag(holds);
    }
    Ok(annotations)
}

fn owned(package: &Package, kind: &Kind) -> Result<Value, manifests::Error> {
    let crd = schema::crd(kind)?;
    let version = &crd["spec"]["versions"][0];
    let resource = |(kind, version): &(&str, &str)| json!({ "kind": kind, "name": "", "version": version });
    Ok(json!({
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": kind.name,
        "displayName": kind.name,
        "description": version["schema"]["openAPIV3Schema"]["description"],
        "resources": kind.resources.iter().map(resource).collect::<Vec<_>>(),
        "specDescriptors": descriptors(package.texts.form, &crd, "spec"),
        "statusDescriptors": descriptors(package.texts.page, &crd, "status"),
    }))
}

fn install(package: &Package, release: &Release) -> Value {
    // OLM tells which namespaces are watched; the empty string means all.
    let targets = "metadata.annotations['olm.targetNamespaces']";
    let mut deployment = deployment(package, &Setting::usual(package, &release.image_of(package), targets));
    let env = &mut deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    if let (Some(env), Some(name)) = (env.as_array_mut(), package.image_variable) {
        env.push(json!({ "name": name, "value": release.agent_image }));
    }
    // The agents' ServiceAccounts exist through their one right: `use` of an SCC. OLM makes them from it.
    let agent = |account: &str| json!({ "serviceAccountName": account, "rules": [scc(PRIVILEGED)] });
    let rights = rules(package, Where::Cluster);
    let own = (!rights.is_empty()).then(|| json!({ "serviceAccountName": package.name, "rules": rights }));
    let cluster: Vec<Value> = own.into_iter().chain(package.accounts.iter().map(|account| agent(account))).collect();
    let namespaced = [rules(package, Where::Watched), rules(package, Where::Own)].concat();
    let mut spec = json!({
        "deployments": [{ "name": package.name, "label": deployment["metadata"]["labels"],
        "spec": deployment["spec"] }],
        "permissions": [{ "serviceAccountName": package.name, "rules": namespaced }],
    });
    if !cluster.is_empty() {
        spec["clusterPermissions"] = cluster.into();
    }
    spec
}
