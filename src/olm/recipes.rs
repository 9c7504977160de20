//! Recipes: what an administrator applies to get a package from a catalog, by either OLM, connected or not; and what
//! GitOps tools want to know of its kind.
//!
//! Pure. Must not name an image that is not ours or the release's: a mirror is asked for just these.

use serde_json::{Value, json};

use super::manifests::{Error, File, PRODUCT, namespace, yaml};
use super::release::{CHANNELS, REPOSITORY, Release};
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::api::package::{Kind, Package};

/// Namespace of OpenShift's catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
/// What a mirror's address is written as, to be replaced.
const MIRROR: &str = "MIRROR";

/// The recipes of a package, in the release that the present code would be.
pub fn recipes(package: &Package, release: &Release) -> Result<Vec<File>, Error> {
    let file = |path: &str, about: &str, objects: &[Value]| -> Result<File, Error> {
        let content = yaml(objects)?;
        let (head, rest) = content.split_once('\n').unwrap_or_default();
        let about = format!("# {}\n", about.replace('\n', "\n# "));
        Ok(File { path: format!("config/{}/{path}", package.name), content: format!("{head}\n{about}{rest}") })
    };
    let mut files = Vec::new();
    for (path, object) in day_one(package)? {
        files.push(file(&path, DAY_ONE, &[object])?);
    }
    files.extend([
        file(
            "olm/catalogsource.yaml",
            "The catalog, for OpenShift and OLM v0; elsewhere put it into namespace olm. OLM looks for newer releases\n\
            every half an hour.",
            &[catalog_source()],
        )?,
        file(
            "olm/subscription.yaml",
            "The installation by OLM v0 in its recommended mode, OwnNamespace.",
            &by_v0(package),
        )?,
        file("olm/olmv1.yaml", V1, &by_v1(package))?,
        file(
            "disconnected/imageset-config.yaml",
            "For oc-mirror v2: oc mirror -c imageset-config.yaml --workspace file://FOLDER docker://MIRROR --v2",
            &[image_set(package, release)],
        )?,
        file(
            "disconnected/mirrors.yaml",
            "Where nodes find the images instead, if oc-mirror did not make it: replace MIRROR. By digest, and by tag\n\
            for the catalog and for what has no digest.",
            &mirrors(package),
        )?,
        file(
            "disconnected/catalogsource.yaml",
            "The catalog as oc-mirror names it: replace MIRROR.",
            &[mirrored_source()],
        )?,
        file(
            "disconnected/subscription.yaml",
            "The installation by OLM v0 from the mirrored catalog.",
            &from_mirror(package),
        )?,
        file("kustomization.yaml", "As a base: an overlay names the image with `images`.", &[kustomization()])?,
        file("argocd-health.yaml", ARGO, &[argo_cd(package)])?,
    ]);
    Ok(files)
}

const V1: &str = "The installation by OLM v1. Before operator-controller 1.11 (OpenShift 4.18 to 4.20) make the \
    namespace,\napply ../olmv1-installer.yaml, and name its ServiceAccount here first: spec.serviceAccount: { name: \
    oneagent-operator-installer }.\nAll namespaces are watched; \
    OpenShift 4.21 and newer can keep\nit to one:\n  spec.config: { configType: Inline, inline: { watchNamespace: \
    NAMESPACE } }\nOLM v1 makes no roles for people: apply user-roles.yaml.";

const DAY_ONE: &str = "For a new OpenShift cluster: fill in what is in capitals, and put this folder's files into \
    manifests/ of\nopenshift-install (create manifests), which takes one object of each file. A first object \
    follows once the kind is\nthere: until oc apply -f SAMPLE.yaml; do sleep 10; done";

const ARGO: &str = "How Argo CD sees such an object; merge it into argocd-cm:\n\
    kubectl apply --server-side -f argocd-health.yaml";

fn image(name: &str) -> String {
    format!("{REPOSITORY}/{PRODUCT}-{name}:latest")
}

fn catalog_source() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": { "name": PRODUCT, "namespace": MARKETPLACE },
        "spec": {
            "sourceType": "grpc", "image": image("catalog"), "displayName": "OneAgent Operator",
            "publisher": "OneAgent Operator", "grpcPodConfig": { "securityContextConfig": "restricted" },
            "updateStrategy": { "registryPoll": { "interval": "30m" } },
        },
    })
}

fn by_v0(package: &Package) -> Vec<Value> {
    let named =
        |kind: &str| json!({ "kind": kind, "metadata": { "name": package.name, "namespace": package.namespace } });
    let (mut group, mut subscription) = (named("OperatorGroup"), named("Subscription"));
    group["apiVersion"] = "operators.coreos.com/v1".into();
    group["spec"] = json!({ "targetNamespaces": [package.namespace] });
    subscription["apiVersion"] = "operators.coreos.com/v1alpha1".into();
    subscription["spec"] = json!({ "channel": CHANNELS[0], "name": package.name, "source": PRODUCT,
        "sourceNamespace": MARKETPLACE, "installPlanApproval": "Automatic" });
    vec![namespace(package), group, subscription]
}

/// From the catalog to the Subscription, and the Secret that a first object needs, a file each.
fn day_one(package: &Package) -> Result<Vec<(String, Value)>, Error> {
    let mut objects = vec![catalog_source()];
    objects.extend(by_v0(package));
    // For the sample that reaches every node of OpenShift.
    if let Some(sample) = package.samples.iter().find(|sample| sample.file.contains("openshift")) {
        let sample: Value = serde_yaml::from_str(sample.yaml)?;
        objects.push(json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": sample["metadata"]["name"], "namespace": package.namespace },
            "stringData": { "apiToken": "API-TOKEN", "paasToken": "PAAS-TOKEN" } }));
    }
    let name = |object: &Value| object["kind"].as_str().unwrap_or_default().to_lowercase();
    let path = |object: &Value| format!("olm/day-one/{}-{}.yaml", package.name, name(object));
    Ok(objects.into_iter().map(|object| (path(&object), object)).collect())
}

fn by_v1(package: &Package) -> Vec<Value> {
    let api = "olm.operatorframework.io/v1";
    vec![
        namespace(package),
        json!({ "apiVersion": api, "kind": "ClusterCatalog", "metadata": { "name": PRODUCT },
            "spec": { "source": { "type": "Image",
                "image": { "ref": image("catalog-content"), "pollIntervalMinutes": 30 } } } }),
        json!({ "apiVersion": api, "kind": "ClusterExtension", "metadata": { "name": package.name },
            "spec": {
                "namespace": package.namespace,
                "source": { "sourceType": "Catalog",
                    "catalog": { "packageName": package.name, "channels": [CHANNELS[0]] } },
            } }),
    ]
}

fn image_set(package: &Package, release: &Release) -> Value {
    // The bundle lists the agent's image; named once more where it has no digest, for then oc-mirror may leave it out.
    let agent = package.image_variable.filter(|_| !release.is_pinned()).map(|_| json!({ "name": release.agent_image }));
    json!({
        "apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration",
        "mirror": {
            "operators": [{ "catalog": image("catalog"),
                "packages": [{ "name": package.name, "channels": [{ "name": CHANNELS[0] }] }] }],
            "additionalImages": agent.into_iter().collect::<Vec<_>>(),
        },
    })
}

fn mirrors(package: &Package) -> Vec<Value> {
    let agents = DEFAULT_IMAGE.rsplit_once('/').map_or(DEFAULT_IMAGE, |(folder, _)| folder);
    let sources: Vec<&str> = std::iter::once(REPOSITORY).chain(package.image_variable.map(|_| agents)).collect();
    let set = |kind: &str, field: &str| {
        let entry = |source: &&str| json!({ "source": source, "mirrors": [format!("{MIRROR}/{}", folder(source))] });
        json!({ "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": { "name": package.name },
            "spec": { field: sources.iter().map(entry).collect::<Vec<_>>() } })
    };
    vec![set("ImageDigestMirrorSet", "imageDigestMirrors"), set("ImageTagMirrorSet", "imageTagMirrors")]
}

/// What follows the registry's host.
fn folder(source: &str) -> &str {
    source.split_once('/').map_or(source, |(_, folder)| folder)
}

fn mirrored_source() -> Value {
    let mut source = catalog_source();
    source["metadata"]["name"] = format!("cs-{PRODUCT}-catalog-latest").into();
    source["spec"]["image"] = format!("{MIRROR}/{}/{PRODUCT}-catalog:latest", folder(REPOSITORY)).into();
    source
}

fn from_mirror(package: &Package) -> Vec<Value> {
    let mut objects = by_v0(package);
    if let Some(subscription) = objects.last_mut() {
        subscription["spec"]["source"] = mirrored_source()["metadata"]["name"].clone();
    }
    objects
}

fn kustomization() -> Value {
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["install.yaml"] })
}

/// Healthy when all is as it should be, Degraded when somebody must do something, Suspended while somebody holds it.
const HEALTH: &str = "\
local health = { status = \"Progressing\", message = \"not looked at yet\" }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= obj.metadata.generation then
  health.message = \"the newest spec is not looked at yet\"
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local ready, degraded, progressing = conditions.Ready, conditions.Degraded, conditions.Progressing
if degraded ~= nil and degraded.status == \"True\" then
  return { status = \"Degraded\", message = degraded.message }
end
if ready ~= nil and ready.status == \"True\" then
  return { status = \"Healthy\", message = ready.message }
end
if progressing ~= nil and (progressing.reason == \"Paused\" or progressing.reason == \"Stopped\") then
  return { status = \"Suspended\", message = progressing.message }
end
if ready ~= nil then
  health.message = ready.message
end
return health
";

fn argo_cd(package: &Package) -> Value {
    let key = |kind: &Kind| format!("resource.customizations.health.{}_{}", kind.group, kind.name);
    let data: serde_json::Map<String, Value> = package.kinds.iter().map(|kind| (key(kind), HEALTH.into())).collect();
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "argocd-cm", "namespace": "argocd", "labels": { "app.kubernetes.io/part-of": "argocd" } },
        "data": data })
}
