//! A cluster with Operator Lifecycle Manager v0: its real two controllers, a real catalog server, a real registry.
//!
//! Bundles and catalogs are pushed as images and pulled from there, the operator's too: what runs is the binary in
//! the image that OLM's Deployment names. Two things differ from an OpenShift cluster: the controllers have the
//! administrator's rights instead of their own ServiceAccount's, and the kubelets are the rig's. The controllers and
//! `opm serve` listen on all interfaces, for they have no flag for it. Must not know what a test wants of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::olm::catalog::{annotations, catalog};
use oneagent_operator::olm::manifests::File;
use oneagent_operator::olm::release::{PATH, Release, Released, Releases};
use serde_json::{Value, json};

use crate::cluster::{Cluster, documents, repository};
use crate::images::{Config, Registry, pull, said};
use crate::nodes::{self, Shape};
use crate::process::Process;
use crate::tools::{prepare, tool};
use crate::{eventually, operator};

/// Name of the package.
pub const PACKAGE: &str = ROW.name;
/// Namespace of OLM and its catalogs.
const SYSTEM: &str = "olm";
/// Version of the present code.
pub const NEXT: &str = env!("CARGO_PKG_VERSION");
/// How long an installation or an upgrade may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster with OLM.
pub struct Olm {
    /// The cluster.
    pub cluster: Cluster,
    /// The registry.
    pub registry: Registry,
    /// Where the catalog is served.
    catalog: String,
    server: Mutex<Option<Process>>,
    images: Mutex<BTreeMap<String, String>>,
    _controllers: [Process; 2],
}

/// A Subscription to make.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// Namespace of Subscription and operator.
    pub namespace: &'a str,
    /// Namespaces that the OperatorGroup targets; none: all.
    pub targets: &'a [&'a str],
    /// The version to begin with; the channel's head when there is none.
    pub starting: Option<&'a str>,
    /// Whether an administrator approves every InstallPlan.
    pub manual: bool,
}

impl<'a> Wish<'a> {
    /// OwnNamespace, automatic, the channel's head.
    #[must_use]
    pub fn own(namespace: &'a str, targets: &'a [&'a str; 1]) -> Self {
        Self { namespace, targets, starting: None, manual: false }
    }

    /// Beginning with a version.
    #[must_use]
    pub fn starting(self, version: &'a str) -> Self {
        Self { starting: Some(version), ..self }
    }
}

impl Olm {
    /// Starts one. The operator's Pods ask the vendor more often than by default.
    pub async fn start() -> Self {
        prepare(&["etcd", "kubernetes", "opm", "crane", "olm"]).unwrap_or_else(|why| panic!("{why}"));
        let settings = [("POLL_INTERVAL", "500ms"), ("SLOW_POLL_INTERVAL", "1s"), ("HOSTS_POLL_INTERVAL", "1s"), ("VENDOR_TIMEOUT", "2s")];
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let cluster = Cluster::bare(settings).await;
        // Where the Pods of OLM and of the operator run.
        nodes::create(&cluster.client, vec![nodes::node("rig", &Shape::default())]).await;
        cluster.kubectl(&["apply", "--server-side", "-f", &tool("olm-crds").display().to_string()]);
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &tool("olm-crds").display().to_string()]);
        let rest = std::fs::read_to_string(tool("olm.yaml")).expect("olm.yaml");
        let wanted = |o: &Value| !["Deployment", "CatalogSource", "ClusterServiceVersion"].contains(&o["kind"].as_str().unwrap_or_default());
        let rest: Vec<String> = documents(&rest).into_iter().filter(wanted).map(|o| o.to_string()).collect();
        cluster.apply(&rest.join("\n---\n"));
        let registry = Registry::start(&cluster.path("")).await;
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let start = |name: &str, args: &[&str], env: &[(&str, &str)]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Process::start(name, &tool(name), &args, &env, &cluster.path(&format!("{name}.log")))
        };
        let file = |name: &str| cluster.path(name).display().to_string();
        let controllers = [
            start("olm-operator", &["--namespace", SYSTEM, "--writeStatusName", ""], &[("OPERATOR_NAMESPACE", SYSTEM), ("KUBECONFIG", &kubeconfig)]),
            // With a certificate it listens on another port than its sibling.
            start(
                "catalog-operator",
                &[
                    "--kubeconfig",
                    &kubeconfig,
                    "--namespace",
                    SYSTEM,
                    "--util-image",
                    "util",
                    "--opmImage",
                    "opm",
                    "--tls-cert",
                    &file("server.crt"),
                    "--tls-key",
                    &file("server.key"),
                ],
                &[],
            ),
        ];
        let catalog = operator::free_address();
        Self { cluster, registry, catalog, server: Mutex::new(None), images: Mutex::default(), _controllers: controllers }
    }

    /// Names the operator's image of a version, pushed already.
    pub fn operator_is(&self, version: &str, image: &str) {
        self.images.lock().expect("images").insert(version.to_owned(), image.to_owned());
    }

    /// The operator's image of a version, pushed.
    fn operator_image(&self, version: &str, binary: &Path) -> String {
        if let Some(image) = self.images.lock().expect("images").get(version) {
            return image.clone();
        }
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("licenses")).expect("a folder");
        std::fs::copy(repository("LICENSE"), root.path().join("licenses/LICENSE")).expect("the license");
        // Symbols would be most of the image.
        said(Command::new("strip").arg("-o").arg(root.path().join("oneagent-operator")).arg(binary));
        let config = Config {
            labels: vec![("version".into(), version.into())],
            entrypoint: Some("/oneagent-operator".into()),
            user: Some("65532:65532".into()),
        };
        let image = self.registry.push(&format!("{PACKAGE}:{version}"), root.path(), &["licenses", PACKAGE], &config);
        self.images.lock().expect("images").insert(version.to_owned(), image.clone());
        image
    }

    /// A release with its images pushed to the registry, and named by their digests: a listed one with the binary of
    /// its commit, the present code's, or (for any other version) the present code's under that name.
    #[must_use]
    pub fn release(&self, version: &str) -> Released {
        let listed = releases().releases.into_iter().find(|release| release.version == version && version != NEXT);
        let (release, folder, binary) = match listed {
            Some(release) => {
                let (folder, binary) = (repository(&Released::folder(PACKAGE, version)), binary_of(&release));
                (release, folder, binary)
            }
            None => (releases().of(version).0, repository("bundle/oneagent-operator"), operator::binary()),
        };
        let image = self.operator_image(version, &binary);
        let mut files = read(&folder);
        let named = if version == NEXT { release.operator_image.clone() } else { releases().of(NEXT).0.operator_image };
        for file in &mut files {
            file.content = file.content.replace(&named, &image).replace(&release.operator_image, &image);
            if folder == repository("bundle/oneagent-operator") && version != NEXT {
                file.content = file
                    .content
                    .replace(&format!(".v{NEXT}"), &format!(".v{version}"))
                    .replace(&format!("version: {NEXT}\n"), &format!("version: {version}\n"));
            }
        }
        let mut released = Released { release: Release { operator_image: image, ..release }, files };
        released.release.bundle_image = self.push_bundle(&released);
        released
    }

    /// Pushes a bundle as an image.
    fn push_bundle(&self, released: &Released) -> String {
        let root = tempfile::tempdir().expect("a folder");
        for file in &released.files {
            let path = root.path().join(&file.path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, &file.content).expect("a file");
        }
        let labels =
            annotations(&ROW).as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect();
        let name = format!("{PACKAGE}-bundle:{}", released.release.version);
        self.registry.push(&name, root.path(), &["manifests", "metadata", "tests"], &Config { labels, ..Config::default() })
    }

    /// Somebody else's package of one bundle, pushed as an image: what a catalog says of it, as opm renders it.
    #[must_use]
    pub fn foreign(&self, package: &str, channel: &str, csv: &str, manifests: &[(String, Value)]) -> String {
        let root = tempfile::tempdir().expect("a folder");
        let annotations = json!({
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": package,
            "operators.operatorframework.io.bundle.channels.v1": channel,
        });
        let labels = annotations.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect();
        let metadata = ("metadata/annotations.yaml".to_owned(), json!({ "annotations": annotations }));
        for (path, object) in manifests.iter().chain([&metadata]) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, object.to_string()).expect("a file");
        }
        let image = self.registry.push(
            &format!("{package}-bundle:{channel}"),
            root.path(),
            &["manifests", "metadata"],
            &Config { labels, ..Config::default() },
        );
        let level = ["render", "-o", "yaml", "--migrate-level", "bundle-object-to-csv-metadata", "--alpha-image-ref-template", &image];
        let bundle = said(Command::new(tool("opm")).args(level).arg(root.path()));
        let head = [
            json!({ "schema": "olm.package", "name": package, "defaultChannel": channel }),
            json!({ "schema": "olm.channel", "package": package, "name": channel, "entries": [{ "name": csv }] }),
        ];
        format!("{}\n---\n{}\n{bundle}", head[0], head[1])
    }

    /// Serves a catalog of these releases: pushed as an image, pulled, served by opm. Served content is replaced.
    pub async fn publish(&self, released: &[Released]) {
        self.publish_with(released, &[]).await;
    }

    /// The same, with packages of others beside it.
    pub async fn publish_with(&self, released: &[Released], others: &[String]) {
        let root = tempfile::tempdir().expect("a folder");
        let configs = root.path().join("configs");
        for file in catalog(&ROW, released).expect("a catalog") {
            if let Some(path) = file.path.strip_prefix("catalog/").filter(|path| path.contains('/')) {
                std::fs::create_dir_all(configs.join(path).parent().expect("a folder")).expect("a folder");
                std::fs::write(configs.join(path), file.content).expect("a file");
            }
        }
        for (at, other) in others.iter().enumerate() {
            std::fs::write(configs.join(format!("other-{at}.yaml")), other).expect("a file");
        }
        let labels = vec![("operators.operatorframework.io.index.configs.v1".into(), "/configs".into())];
        let image = self.registry.push("catalog:latest", root.path(), &["configs"], &Config { labels, ..Config::default() });
        let folder = self.cluster.path(&format!("catalog-{}", image.rsplit(':').next().unwrap_or_default()));
        pull(&image, &folder).unwrap_or_else(|why| panic!("the catalog image cannot be pulled: {why}"));
        let configs = folder.join("configs");
        said(Command::new(tool("opm")).arg("validate").arg(&configs));
        let (_, port) = self.catalog.rsplit_once(':').expect("a port");
        let log = self.cluster.path("opm.log").display().to_string();
        let args = ["serve", &configs.display().to_string(), "-p", port, "--pprof-addr", "", "--termination-log", &log].map(str::to_owned);
        {
            let mut server = self.server.lock().expect("the server");
            drop(server.take());
            *server = Some(Process::start("opm", &tool("opm"), &args, &[], &self.cluster.path("opm.log")));
        }
        let spec = json!({ "sourceType": "grpc", "address": self.catalog, "displayName": "OneAgent Operator", "publisher": "rig" });
        self.cluster.apply(&json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": { "name": "oneagent", "namespace": SYSTEM }, "spec": spec }).to_string());
        eventually("the CatalogSource is READY", PATIENCE, || async {
            let source = self.get("CatalogSource", SYSTEM, "oneagent").await;
            let state = source.as_ref().map(|s| s["status"]["connectionState"]["lastObservedState"].clone());
            if state == Some("READY".into()) { Ok(()) } else { Err(format!("{state:?}")) }
        })
        .await;
    }

    /// Creates a namespace as the console does, from the CSV's template; with another name.
    pub fn namespace(&self, name: &str) {
        let csv = documents(
            &std::fs::read_to_string(repository("bundle/oneagent-operator/manifests/oneagent-operator.clusterserviceversion.yaml")).expect("a CSV"),
        )
        .remove(0);
        let template = csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"].as_str().expect("a template");
        let mut namespace: Value = serde_json::from_str(template).expect("JSON");
        namespace["metadata"]["name"] = name.into();
        self.cluster.apply(&namespace.to_string());
    }

    /// What an administrator applies to install the operator.
    #[must_use]
    pub fn recipe(wish: &Wish<'_>) -> Vec<Value> {
        let mut group = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": { "name": "agents", "namespace": wish.namespace }, "spec": {} });
        if !wish.targets.is_empty() {
            group["spec"]["targetNamespaces"] = json!(wish.targets);
        }
        let mut subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": { "name": PACKAGE, "namespace": wish.namespace },
            "spec": { "channel": "stable-v0", "name": PACKAGE, "source": "oneagent", "sourceNamespace": SYSTEM },
        });
        if let Some(version) = wish.starting {
            subscription["spec"]["startingCSV"] = format!("{PACKAGE}.v{version}").into();
        }
        if wish.manual {
            subscription["spec"]["installPlanApproval"] = "Manual".into();
        }
        vec![group, subscription]
    }

    /// Subscribes.
    pub fn subscribe(&self, wish: &Wish<'_>) {
        for object in Self::recipe(wish) {
            self.cluster.apply(&object.to_string());
        }
    }

    /// Waits until a version is installed, the older one gone and the operator's Pod Ready.
    pub async fn installed(&self, namespace: &str, version: &str) {
        let name = format!("{PACKAGE}.v{version}");
        eventually(&format!("{name} is installed in {namespace}"), PATIENCE, || async {
            let others: Vec<String> = self
                .list("ClusterServiceVersion", namespace)
                .await
                .iter()
                .filter_map(|c| c["metadata"]["name"].as_str().map(str::to_owned))
                .collect();
            let csv = self.get("ClusterServiceVersion", namespace, &name).await.unwrap_or_default();
            let subscription = self.get("Subscription", namespace, PACKAGE).await.unwrap_or_default();
            let deployment = self.get("Deployment", namespace, PACKAGE).await.unwrap_or_default();
            let there = csv["status"]["phase"] == "Succeeded" && others.len() == 1 && subscription["status"]["installedCSV"] == name.as_str();
            let runs = deployment["status"]["readyReplicas"] == 1 && deployment["status"]["replicas"] == 1;
            if there && runs {
                return Ok(());
            }
            let plans: Vec<Value> = self.list("InstallPlan", namespace).await.into_iter().map(|p| p["status"]["conditions"].clone()).collect();
            Err(format!(
                "{others:?}; CSV {}: {}; Subscription {}: {}; plans {plans:?}; Deployment {}\n{}",
                csv["status"]["phase"],
                csv["status"]["message"],
                subscription["status"]["state"],
                subscription["status"]["conditions"],
                deployment["status"],
                crate::control_plane::tail(&self.cluster.path("catalog-operator.log"))
            ))
        })
        .await;
    }

    /// The API of a kind that this rig knows.
    #[must_use]
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        api(&self.cluster.client, kind, namespace)
    }

    /// An object, when there is one.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.api(kind, namespace).get_opt(name).await.ok().flatten()?;
        serde_json::to_value(found).ok()
    }

    /// The objects of a kind.
    pub async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let list = self.api(kind, namespace).list(&ListParams::default()).await;
        list.map(|l| l.items).unwrap_or_default().into_iter().filter_map(|o| serde_json::to_value(o).ok()).collect()
    }

    /// Merges into an object.
    pub async fn merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let done = self.api(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.unwrap_or_else(|e| panic!("{kind} {namespace}/{name} is not changed: {e}"));
    }

    /// Deletes an object, which must be there.
    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let done = self.api(kind, namespace).delete(name, &DeleteParams::background()).await;
        done.unwrap_or_else(|e| panic!("{kind} {namespace}/{name} is not deleted: {e}"));
    }

    /// Checks what an operator in a namespace did: nothing was forbidden, no token was printed, no panic.
    pub fn judge(&self, namespace: &str) {
        let requests = crate::audit::requests(&self.cluster.path("audit.log"), namespace);
        assert!(requests.len() > 10, "the operator of {namespace} hardly asked for anything: {requests:?}");
        let forbidden = crate::audit::forbidden(&requests);
        assert!(forbidden.is_empty(), "{namespace}: the operator was forbidden: {forbidden:?}");
        for log in self.cluster.kubelet.launcher().each(|o| o.printed()) {
            assert!(!log.contains("SECRETAPI") && !log.contains("SECRETPAAS") && !log.contains("panicked") && !log.contains("a defect"), "{log}");
        }
    }
}

fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version, namespaced) = match kind {
        "CatalogSource" | "ClusterServiceVersion" | "InstallPlan" | "Subscription" => ("operators.coreos.com", "v1alpha1", true),
        "OperatorGroup" => ("operators.coreos.com", "v1", true),
        "OperatorCondition" => ("operators.coreos.com", "v2", true),
        "Deployment" | "DaemonSet" => ("apps", "v1", true),
        "Event" | "ServiceAccount" | "Pod" => ("", "v1", true),
        "Namespace" => ("", "v1", false),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", false),
        "ClusterRole" | "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "v1", false),
        "OneAgent" => ("dynatrace.com", "v1alpha1", true),
        other => panic!("the rig does not know kind {other}"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespaced { Api::namespaced_with(client.clone(), namespace, &resource) } else { Api::all_with(client.clone(), &resource) }
}

/// The release list.
#[must_use]
pub fn releases() -> Releases {
    let text = std::fs::read_to_string(repository(PATH)).expect("the release list");
    Releases::parse(&text).unwrap_or_else(|why| panic!("{why}"))
}

fn read(root: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root).expect("inside").display().to_string();
                files.push(File { path, content: std::fs::read_to_string(entry.path()).expect("text") });
            }
        }
    }
    files
}

/// The operator of a release, built from its commit; once.
#[must_use]
pub fn binary_of(release: &Release) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let target = operator::binary().ancestors().nth(2).expect("a target folder").to_owned();
    let folder = target.join("releases").join(&release.commit);
    let done = folder.join("debug/oneagent-operator");
    if done.is_file() {
        return done;
    }
    eprintln!("building release {} from commit {}", release.version, release.commit);
    let source = folder.join("source");
    std::fs::create_dir_all(&source).expect("a folder");
    let archive = folder.join("source.tar");
    let git = Command::new("git").arg("-C").arg(repository("")).args(["archive", "-o"]).arg(&archive).arg(&release.commit).output().expect("git");
    assert!(
        git.status.success(),
        "commit {} of release {} is not in this clone: {}; get the whole history with `git fetch --unshallow`",
        release.commit,
        release.version,
        String::from_utf8_lossy(&git.stderr)
    );
    said(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source));
    // Dependencies are those of the present code for the most part, and built already.
    said(
        Command::new("cargo")
            .args(["build", "--quiet", "--locked", "--package", "oneagent-operator", "--bin", "oneagent-operator", "--target-dir"])
            .arg(&folder)
            .current_dir(&source)
            .env("CARGO_BUILD_BUILD_DIR", &target),
    );
    done
}
