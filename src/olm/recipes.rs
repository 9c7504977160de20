//! Recipes: what an administrator applies to get a package from a catalog, by either OLM, connected or not; and what
//! GitOps tools want to know of its kind.
//!
//! Pure. Must not name an image that is not ours or the release's: a mirror is asked for just these.

use serde_json::{Value, json};

use super::manifests::{Error, File, PRODUCT, kept, namespace, yaml};
use super::publisher::Publisher;
use super::release::{Release, channels_of};
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::api::package::{Kind, Package};

/// Namespace of OpenShift's catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
/// What a mirror's address is written as, to be replaced.
const MIRROR: &str = "MIRROR";
/// The API of OLM v1.
const V1_API: &str = "olm.operatorframework.io/v1";

/// The recipes of a package, in the release that the present code would be.
pub fn recipes(package: &Package, publisher: &Publisher, release: &Release) -> Result<Vec<File>, Error> {
    let file = |path: &str, about: &str, objects: &[Value]| -> Result<File, Error> {
        let content = yaml(objects)?;
        let (head, rest) = content.split_once('\n').unwrap_or_default();
        let about = format!("# {}\n", about.replace('\n', "\n# "));
        Ok(File { path: format!("config/{}/{path}", package.name), content: format!("{head}\n{about}{rest}") })
    };
    let mut files = Vec::new();
    let from = Source { package, publisher, channel: &channels_of(&release.version)[0] };
    for (path, object) in from.day_one()? {
        files.push(file(&path, DAY_ONE, &[object])?);
    }
    files.extend([
        file(
            "olm/catalogsource.yaml",
            "The catalog, for OpenShift and OLM v0; elsewhere put it into namespace olm. OLM looks for newer releases\n\
            every half an hour.",
            &[from.catalog_source()],
        )?,
        file(
            "olm/subscription.yaml",
            "The installation by OLM v0 in its recommended mode, OwnNamespace.",
            &from.by_v0(),
        )?,
        file("olm/olmv1.yaml", V1, &from.by_v1(false))?,
        file("olm/olmv1-serviceaccount.yaml", &before_v1_11(package), &from.by_v1(true))?,
        file(
            "disconnected/imageset-config.yaml",
            "For oc-mirror v2: oc mirror -c imageset-config.yaml --workspace file://FOLDER docker://MIRROR --v2",
            &[from.image_set(release)],
        )?,
        file(
            "disconnected/imageset-config-community.yaml",
            "The same from Red Hat's community index, where it has the operator: name your OpenShift in the tag.",
            &[from.community_image_set(release)],
        )?,
        file(
            "disconnected/mirrors.yaml",
            "Applying this restarts nodes one after the other, on most OpenShift releases.\n\
            Where nodes find the images instead, if oc-mirror did not make it: replace MIRROR. By digest, and by tag\n\
            for the catalog and for what has no digest.",
            &from.mirrors(),
        )?,
        file(
            "disconnected/catalogsource.yaml",
            "The catalog as oc-mirror names it: replace MIRROR.",
            &[from.mirrored_source()],
        )?,
        file(
            "disconnected/subscription.yaml",
            "The installation by OLM v0 from the mirrored catalog.",
            &from.by_v0_from_mirror(),
        )?,
        file("disconnected/olmv1.yaml", &from_mirror_by_v1(package), &[from.extension(&mirrored("cc"), true)])?,
        file("kustomization.yaml", "As a base: an overlay names the image with `images`.", &[kustomization()])?,
        file("argocd-health.yaml", ARGO, &[argo_cd(package)])?,
        file("argocd-health-openshift.yaml", GITOPS, &[openshift_gitops(package)])?,
    ]);
    Ok(files)
}

const V1: &str = "The installation by OLM v1: operator-controller 1.11 and newer, OpenShift 4.23 and newer. All \
    namespaces are\nwatched. Deleting the ClusterExtension deletes the CustomResourceDefinition, and with it every \
    object of its kind:\ndocs/install.md, \"Remove\", says how to keep it. OLM v1 makes no roles for people: apply \
    user-roles.yaml.";

/// For releases in which OLM v1 has no rights of its own.
fn before_v1_11(package: &Package) -> String {
    format!(
        "The installation by OLM v1 before operator-controller 1.11: OpenShift 4.18 to 4.22. First apply the \
        namespace and\n../olmv1-installer.yaml. Newer releases ignore the ServiceAccount: when you upgrade to one, \
        apply olmv1.yaml, and\n\
        delete ServiceAccount {}-installer with its roles. The rest is as in olmv1.yaml.",
        package.name
    )
}

fn from_mirror_by_v1(package: &Package) -> String {
    format!(
        "The installation by OLM v1 from the mirrored catalog, as oc-mirror names it. First apply the namespace and\n\
        ../olmv1-installer.yaml; from OpenShift 4.23 on leave out ServiceAccount {}-installer.",
        package.name
    )
}

const DAY_ONE: &str = "For a new OpenShift cluster: fill in what is in capitals, and put this folder's files into \
    manifests/ of\nopenshift-install (create manifests), which takes one object of each file. A first object \
    follows once the kind is\nthere: until oc apply -f SAMPLE.yaml; do sleep 10; done";

const GITOPS: &str = "The same for OpenShift GitOps, which resets argocd-cm: merge it into the ArgoCD object. The \
    command replaces\nresourceHealthChecks; add your own to the list first.\n\
    oc -n openshift-gitops patch argocd openshift-gitops --type merge --patch-file argocd-health-openshift.yaml";

const ARGO: &str = "How Argo CD sees such an object; merge it into argocd-cm:\n\
    kubectl apply --server-side -f argocd-health.yaml";

/// What oc-mirror calls the catalog, as a CatalogSource (cs) or a ClusterCatalog (cc).
fn mirrored(prefix: &str) -> String {
    format!("{prefix}-{PRODUCT}-catalog-latest")
}

/// What follows the registry's host.
fn folder(source: &str) -> &str {
    source.split_once('/').map_or(source, |(_, folder)| folder)
}

/// Where the bundles of Red Hat's community index are.
const COMMUNITY: &str = "quay.io/community-operator-pipeline-prod";

/// A package in the catalog of a publisher.
struct Source<'a> {
    package: &'a Package,
    publisher: &'a Publisher,
    channel: &'a str,
}

impl Source<'_> {
    fn image(&self, name: &str) -> String {
        self.publisher.image(&format!("{PRODUCT}-{name}:latest"))
    }

    fn catalog_source(&self) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": PRODUCT, "namespace": MARKETPLACE },
            "spec": {
                "sourceType": "grpc", "image": self.image("catalog"), "displayName": "OneAgent Operator",
                "publisher": self.publisher.provider.name,
                "grpcPodConfig": { "securityContextConfig": "restricted" },
                "updateStrategy": { "registryPoll": { "interval": "30m" } },
            },
        })
    }

    fn by_v0(&self) -> Vec<Value> {
        let package = self.package;
        let named =
            |kind: &str| json!({ "kind": kind, "metadata": { "name": package.name, "namespace": package.namespace } });
        let (mut group, mut subscription) = (named("OperatorGroup"), named("Subscription"));
        group["apiVersion"] = "operators.coreos.com/v1".into();
        group["spec"] = json!({ "targetNamespaces": [package.namespace] });
        subscription["apiVersion"] = "operators.coreos.com/v1alpha1".into();
        subscription["spec"] = json!({ "channel": self.channel, "name": package.name, "source": PRODUCT,
            "sourceNamespace": MARKETPLACE, "installPlanApproval": "Automatic" });
        vec![kept(namespace(package)), group, subscription]
    }

    /// From the catalog to the Subscription, and the Secret that a first object needs, a file each.
    fn day_one(&self) -> Result<Vec<(String, Value)>, Error> {
        let package = self.package;
        let mut objects = vec![self.catalog_source()];
        objects.extend(self.by_v0());
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

    fn by_v1(&self, names_account: bool) -> Vec<Value> {
        let catalog = json!({ "apiVersion": V1_API, "kind": "ClusterCatalog", "metadata": { "name": PRODUCT },
            "spec": { "source": { "type": "Image",
                "image": { "ref": self.image("catalog-content"), "pollIntervalMinutes": 30 } } } });
        vec![kept(namespace(self.package)), catalog, self.extension(PRODUCT, names_account)]
    }

    fn extension(&self, catalog: &str, names_account: bool) -> Value {
        let package = self.package;
        // The selector: another catalog of the same priority may have the package, too.
        let mut extension = json!({ "apiVersion": V1_API, "kind": "ClusterExtension",
            "metadata": { "name": package.name },
            "spec": {
                "namespace": package.namespace,
                "source": { "sourceType": "Catalog",
                    "catalog": { "packageName": package.name, "channels": [self.channel],
                        "selector": { "matchLabels": { "olm.operatorframework.io/metadata.name": catalog } } } },
            } });
        if names_account {
            extension["spec"]["serviceAccount"] = json!({ "name": format!("{}-installer", package.name) });
        }
        extension
    }

    fn image_set(&self, release: &Release) -> Value {
        self.image_set_of(&self.image("catalog"), release)
    }

    fn community_image_set(&self, release: &Release) -> Value {
        self.image_set_of("registry.redhat.io/redhat/community-operator-index:v4.22", release)
    }

    fn image_set_of(&self, catalog: &str, release: &Release) -> Value {
        let package = self.package;
        // The bundle lists the agent's image; named once more where it has no digest: oc-mirror may leave it out then.
        let agent = package.image_variable.filter(|_| !release.is_pinned(package));
        let agent = agent.map(|_| json!({ "name": release.agent_image }));
        json!({
            "apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration",
            "mirror": {
                "operators": [{ "catalog": catalog,
                    "packages": [{ "name": package.name, "channels": [{ "name": self.channel }] }] }],
                "additionalImages": agent.into_iter().collect::<Vec<_>>(),
            },
        })
    }

    fn mirrors(&self) -> Vec<Value> {
        let agents = DEFAULT_IMAGE.rsplit_once('/').map_or(DEFAULT_IMAGE, |(folder, _)| folder);
        let agents = self.package.image_variable.map(|_| agents);
        let sources: Vec<&str> = [self.publisher.registry.as_str(), COMMUNITY].into_iter().chain(agents).collect();
        let set = |kind: &str, field: &str| {
            let entry =
                |source: &&str| json!({ "source": source, "mirrors": [format!("{MIRROR}/{}", folder(source))] });
            json!({ "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": { "name": self.package.name },
                "spec": { field: sources.iter().map(entry).collect::<Vec<_>>() } })
        };
        vec![set("ImageDigestMirrorSet", "imageDigestMirrors"), set("ImageTagMirrorSet", "imageTagMirrors")]
    }

    fn mirrored_source(&self) -> Value {
        let mut source = self.catalog_source();
        source["metadata"]["name"] = mirrored("cs").into();
        source["spec"]["image"] =
            format!("{MIRROR}/{}/{PRODUCT}-catalog:latest", folder(&self.publisher.registry)).into();
        source
    }

    fn by_v0_from_mirror(&self) -> Vec<Value> {
        let mut objects = self.by_v0();
        if let Some(subscription) = objects.last_mut() {
            subscription["spec"]["source"] = mirrored("cs").into();
        }
        objects
    }
}

fn kustomization() -> Value {
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["install.yaml"] })
}

/// Healthy when all is as it should be, Degraded when a person must act, Suspended while a person holds it.
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

fn openshift_gitops(package: &Package) -> Value {
    let check = |kind: &Kind| json!({ "group": kind.group, "kind": kind.name, "check": HEALTH });
    json!({ "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD",
        "metadata": { "name": "openshift-gitops", "namespace": "openshift-gitops" },
        "spec": { "resourceHealthChecks": package.kinds.iter().map(check).collect::<Vec<_>>() } })
}
