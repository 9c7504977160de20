//! A cluster with Operator Lifecycle Manager v0: its real two controllers, a real catalog server, a real registry.
//!
//! Bundles and catalogs are pushed as images and pulled from there, the operator's too: what runs is the binary in
//! the image that OLM's Deployment names. Two things differ from an OpenShift cluster: the controllers have the
//! administrator's rights instead of their own ServiceAccount's, and the kubelets are the rig's. The controllers and
//! `opm serve` listen on all interfaces, for they have no flag for it. Must not know what a test wants of it.

mod catalog;
mod operators;

pub use catalog::{binary_of, kept, publisher, releases};
use operators::Operators;

use std::sync::Mutex;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::api::package::Package;
use oneagent_operator::olm::catalog::annotations;
use oneagent_operator::olm::release::Released;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cluster::{Cluster, documents, objects};
use crate::control_plane::CONTROLLER_MANAGER;
use crate::images::{Config, Registry};
use crate::nodes::{self, Shape};
use crate::process::Process;
use crate::tools::{prepare, tool};
use crate::{eventually, operator};

/// Name of the package.
pub const PACKAGE: &str = ROW.name;
/// Namespace of OLM.
const SYSTEM: &str = "olm";
/// Namespace whose catalogs serve all others, as on OpenShift.
pub const CATALOGS: &str = "openshift-marketplace";
/// Version of the present code.
pub const NEXT: &str = env!("CARGO_PKG_VERSION");
/// How long an installation or an upgrade may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// A cluster with OLM.
pub struct Olm {
    pub cluster: Cluster,
    pub registry: Registry,
    /// Where the catalog is served.
    catalog: String,
    server: Mutex<Option<Process>>,
    operators: &'static Operators,
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
    pub package: &'static Package,
}

impl<'a> Wish<'a> {
    /// OwnNamespace, automatic, the channel's head.
    #[must_use]
    pub fn own(namespace: &'a str, targets: &'a [&'a str; 1]) -> Self {
        Self { namespace, targets, starting: None, manual: false, package: &ROW }
    }

    /// Beginning with a version.
    #[must_use]
    pub fn starting(self, version: &'a str) -> Self {
        Self { starting: Some(version), ..self }
    }
}

impl Olm {
    /// The one of this process for those who only install, each in namespaces of its own; with the present release.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Olm> = OnceCell::const_new();
        let start = async || {
            let olm = Self::start().await;
            olm.publish(&[olm.release(NEXT)]).await;
            olm
        };
        SHARED.get_or_init(start).await
    }

    /// Starts one. The operator's Pods ask the vendor more often than by default.
    pub async fn start() -> Self {
        prepare(&["etcd", "kubernetes", "opm", "crane", "olm"]).unwrap_or_else(|why| panic!("{why}"));
        let settings = [
            ("POLL_INTERVAL", "500ms"),
            ("SLOW_POLL_INTERVAL", "1s"),
            ("HOSTS_POLL_INTERVAL", "1s"),
            ("VENDOR_TIMEOUT", "2s"),
        ];
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let cluster = Cluster::bare(settings).await;
        // Where the Pods of OLM and of the operator run.
        nodes::create(&cluster.client, vec![nodes::node("rig", &Shape::default())]).await;
        cluster.kubectl(&["apply", "--server-side", "-f", &tool("olm-crds").display().to_string()]);
        cluster.established().await;
        cluster.plane.lock().await.start_controller(CONTROLLER_MANAGER);
        let rest = std::fs::read_to_string(tool("olm.yaml")).expect("olm.yaml");
        let wanted = |o: &Value| {
            !["Deployment", "CatalogSource", "ClusterServiceVersion"].contains(&o["kind"].as_str().unwrap_or_default())
        };
        let rest: Vec<String> = documents(&rest).into_iter().filter(wanted).map(|o| o.to_string()).collect();
        cluster.apply(&rest.join("\n---\n"));
        cluster.kubectl(&["create", "namespace", CATALOGS]);
        let registry = Registry::start().await;
        let kubeconfig = cluster.kubeconfig().display().to_string();
        // The way to catalogs that run as Pods.
        let proxy = format!("socks5://{}", cluster.kubelet.launcher().catalogs().proxy(cluster.client.clone()).await);
        let start = |name: &str, args: &[&str], env: &[(&str, &str)]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Process::start(name, &tool(name), &args, &env, &cluster.path(&format!("{name}.log")))
        };
        let file = |name: &str| cluster.path(name).display().to_string();
        let controllers = [
            start(
                "olm-operator",
                &["--namespace", SYSTEM, "--writeStatusName", ""],
                &[("OPERATOR_NAMESPACE", SYSTEM), ("KUBECONFIG", &kubeconfig)],
            ),
            // With a certificate it listens on another port than its sibling.
            start(
                "catalog-operator",
                &[
                    "--kubeconfig",
                    &kubeconfig,
                    "--namespace",
                    CATALOGS,
                    "--util-image",
                    "util",
                    "--opmImage",
                    "opm",
                    "--tls-cert",
                    &file("server.crt"),
                    "--tls-key",
                    &file("server.key"),
                ],
                &[("GRPC_PROXY", &proxy)],
            ),
        ];
        let catalog = operator::free_address();
        Self {
            cluster,
            registry,
            catalog,
            server: Mutex::new(None),
            operators: Operators::shared().await,
            _controllers: controllers,
        }
    }

    /// Pushes a bundle as an image.
    fn push_bundle(&self, package: &Package, released: &Released) -> String {
        self.push_bundle_as(&format!("{}-bundle:{}", package.name, released.release.version), package, released)
    }

    /// Pushes a bundle as an image of this name; returns the reference by digest.
    #[must_use]
    pub fn push_bundle_as(&self, name: &str, package: &Package, released: &Released) -> String {
        let root = tempfile::tempdir().expect("a folder");
        for file in &released.files {
            let path = root.path().join(&file.path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, &file.content).expect("a file");
        }
        let labels = annotations(package, &released.release)
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect();
        self.registry.push(
            name,
            root.path(),
            &["manifests", "metadata", "tests"],
            &Config { labels, ..Config::default() },
        )
    }

    /// Creates a namespace as the console does, from the CSV's template; with another name.
    pub fn namespace(&self, name: &str) {
        let csv = objects("bundle/oneagent-operator/manifests/oneagent-operator.clusterserviceversion.yaml").remove(0);
        let template = csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"]
            .as_str()
            .expect("a template");
        let mut namespace: Value = serde_json::from_str(template).expect("JSON");
        namespace["metadata"]["name"] = name.into();
        self.cluster.apply(&namespace.to_string());
    }

    /// What an administrator applies to install the operator.
    #[must_use]
    pub fn recipe(wish: &Wish<'_>) -> Vec<Value> {
        let mut group = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": "agents", "namespace": wish.namespace }, "spec": {} });
        if !wish.targets.is_empty() {
            group["spec"]["targetNamespaces"] = json!(wish.targets);
        }
        let mut subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": { "name": wish.package.name, "namespace": wish.namespace },
            "spec": { "channel": "stable-v0", "name": wish.package.name, "source": "oneagent",
                "sourceNamespace": CATALOGS },
        });
        if let Some(version) = wish.starting {
            subscription["spec"]["startingCSV"] = format!("{}.v{version}", wish.package.name).into();
        }
        if wish.manual {
            subscription["spec"]["installPlanApproval"] = "Manual".into();
        }
        vec![group, subscription]
    }

    pub fn subscribe(&self, wish: &Wish<'_>) {
        for object in Self::recipe(wish) {
            self.cluster.apply(&object.to_string());
        }
    }

    /// Waits until a version is installed, the older one gone and the operator's Pod Ready.
    pub async fn installed(&self, namespace: &str, version: &str) {
        self.installed_of(&ROW, namespace, version).await;
    }

    /// The same of another package.
    pub async fn installed_of(&self, package: &Package, namespace: &str, version: &str) {
        let (package, name) = (package.name, format!("{}.v{version}", package.name));
        eventually(&format!("{name} is installed in {namespace}"), PATIENCE, || async {
            let others: Vec<String> = self
                .list("ClusterServiceVersion", namespace)
                .await
                .iter()
                .filter_map(|c| c["metadata"]["name"].as_str().map(str::to_owned))
                .filter(|name| name.starts_with(&format!("{package}.")))
                .collect();
            let csv = self.get("ClusterServiceVersion", namespace, &name).await.unwrap_or_default();
            let subscription = self.get("Subscription", namespace, package).await.unwrap_or_default();
            let deployment = self.get("Deployment", namespace, package).await.unwrap_or_default();
            let there = csv["status"]["phase"] == "Succeeded"
                && others.len() == 1
                && subscription["status"]["installedCSV"] == name.as_str();
            let runs = deployment["status"]["readyReplicas"] == 1 && deployment["status"]["replicas"] == 1;
            if there && runs && self.settled(namespace).await {
                return Ok(());
            }
            // OLM takes seconds: the cores are better left to it.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let plans: Vec<Value> = self
                .list("InstallPlan", namespace)
                .await
                .into_iter()
                .map(|p| p["status"]["conditions"].clone())
                .collect();
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

    /// Whether OLM works on no InstallPlan. While it does, it creates a ClusterServiceVersion again that was deleted.
    pub async fn settled(&self, namespace: &str) -> bool {
        !self.list("InstallPlan", namespace).await.iter().any(|p| p["status"]["phase"] == "Installing")
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
        self.judge_of(&ROW, namespace);
    }

    /// The same of another package.
    pub fn judge_of(&self, package: &Package, namespace: &str) {
        let requests = crate::audit::requests(&self.cluster.path("audit.log"), namespace, package.name);
        assert!(requests.len() > 10, "the operator of {namespace} hardly asked for anything: {requests:?}");
        let forbidden = crate::audit::forbidden(&crate::audit::once_rights_came(requests));
        assert!(forbidden.is_empty(), "{namespace}: the operator was forbidden: {forbidden:?}");
        for log in self.cluster.kubelet.launcher().each(|o| o.printed()) {
            assert!(
                !log.contains("SECRETAPI")
                    && !log.contains("SECRETPAAS")
                    && !log.contains("panicked")
                    && !log.contains("a defect"),
                "{log}"
            );
        }
    }
}

fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version, namespaced) = match kind {
        "CatalogSource" | "ClusterServiceVersion" | "InstallPlan" | "Subscription" => {
            ("operators.coreos.com", "v1alpha1", true)
        }
        "OperatorGroup" => ("operators.coreos.com", "v1", true),
        "OperatorCondition" => ("operators.coreos.com", "v2", true),
        "Deployment" | "DaemonSet" => ("apps", "v1", true),
        "Event" | "ServiceAccount" | "Pod" | "Service" => ("", "v1", true),
        "PrometheusRule" | "ServiceMonitor" => ("monitoring.coreos.com", "v1", true),
        "Namespace" => ("", "v1", false),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", false),
        "ClusterRole" | "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "v1", false),
        "OneAgent" => ("dynatrace.com", "v1alpha1", true),
        "ConfigWatcher" => ("k8spatterns.io", "v1", true),
        "PrometheusJmxExporter" => ("banzaicloud.com", "v1alpha1", true),
        other => panic!("the rig does not know kind {other}"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}
