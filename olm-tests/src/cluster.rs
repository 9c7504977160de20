//! A cluster for tests: a control plane with CRD, fake kubelet and vendor; shared by the tests of a process.
//!
//! Must not hold anything of a single test: that is `lab`.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, TypeMeta};
use kube::discovery::Scope;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::config_watcher::ConfigWatcher;
use oneagent_operator::api::oneagent::OneAgent;
use oneagent_operator::olm::manifests::File;
pub use oneagent_operator::olm::manifests::documents;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OnceCell};

use crate::control_plane::ControlPlane;
use crate::eventually;
use crate::kubelet::Kubelet;
use crate::launcher::Launcher;
use crate::pki::{Ca, Pair};
use crate::tools::tool;
use crate::vendor::Vendor;
use crate::wait::SOON;
use crate::watched::Watched;

pub struct Cluster {
    /// Its control plane.
    pub plane: Mutex<ControlPlane>,
    /// A client with all rights.
    pub client: Client,
    /// The fake kubelet.
    pub kubelet: Kubelet,
    pub vendor: Vendor,
    pub oneagents: Watched<OneAgent>,
    pub config_watchers: Watched<ConfigWatcher>,
    /// CA of the vendor's TLS certificate.
    pub vendor_ca: String,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// What a kind is called in addresses, and whether its objects have namespaces.
    resources: Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>,
}

/// A file of the repository.
#[must_use]
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

impl Cluster {
    /// Starts one, with the CRDs of every package.
    pub async fn start(extra: Vec<(String, String)>) -> Self {
        let cluster = Self::bare(extra).await;
        for package in PACKAGES {
            for file in read(&repository(&format!("config/{}/crd", package.name))) {
                cluster.apply(&file.content);
            }
        }
        cluster.established().await;
        cluster
    }

    /// Waits until all CRDs are served.
    pub async fn established(&self) {
        eventually("all CRDs are established", SOON, || async {
            let all = Api::<CustomResourceDefinition>::all(self.client.clone()).list(&ListParams::default()).await;
            let all = all.map_err(|e| e.to_string())?.items;
            let is_ready = |crd: &CustomResourceDefinition| is_crd_established().matches_object(Some(crd));
            if all.iter().all(is_ready) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }

    /// Starts one without any CRD. `extra` settings reach operators that are started as Pods.
    pub async fn bare(extra: Vec<(String, String)>) -> Self {
        let plane = ControlPlane::start().await;
        let client = plane.admin().await;
        let ca = Ca::new("vendor");
        let pair: Pair = ca.server(&["localhost"], false);
        let vendor = Vendor::start(Some(&pair)).await;
        let folder = plane.path("");
        let template = plane.token_kubeconfig(Path::new("TOKEN-FILE"));
        let launcher = Launcher::new(
            folder.clone(),
            plane.admin_kubeconfig(),
            move |token| template.replace("TOKEN-FILE", &token.display().to_string()),
            extra,
        );
        let kubelet = Kubelet::start(client.clone(), vendor.clone(), launcher);
        let kubeconfig = plane.admin_kubeconfig();
        Self {
            plane: Mutex::new(plane),
            client,
            kubelet,
            vendor,
            oneagents: Watched::default(),
            config_watchers: Watched::default(),
            vendor_ca: ca.pem(),
            folder,
            kubeconfig,
            resources: Mutex::default(),
        }
    }

    /// The one that the tests of this process share.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(Vec::new())).await
    }

    /// A file of its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs the real kubectl; fails with what it said.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.try_kubectl(args, None).unwrap_or_else(|said| panic!("kubectl {}: {said}", args.join(" ")))
    }

    /// Applies YAML documents: with the requests that `kubectl apply --server-side` sends, and without its start, which
    /// costs more than they do. What a user types is tried with kubectl itself.
    pub fn apply(&self, yaml: &str) {
        let work = async {
            for document in documents(yaml) {
                self.apply_one(&document).await.map_err(|said| format!("apply: {said}\n{document:#}"))?;
            }
            Ok::<_, String>(())
        };
        // On a thread of its own: here it would take what wakes the test, which would then sleep for ever.
        let runtime = Handle::current();
        let apply = || std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join());
        let done = tokio::task::block_in_place(apply).expect("a thread that applies");
        done.unwrap_or_else(|why| panic!("{why}"));
    }

    async fn apply_one(&self, document: &Value) -> Result<(), kube::Error> {
        let types: TypeMeta = serde_json::from_value(document.clone()).expect("apiVersion and kind");
        let gvk = GroupVersionKind::try_from(&types).expect("a kind");
        let known = self.resources.lock().await.get(&gvk).cloned();
        let (resource, is_namespaced) = if let Some(known) = known {
            known
        } else {
            let (resource, capabilities) = kube::discovery::pinned_kind(&self.client, &gvk).await?;
            let found = (resource, capabilities.scope == Scope::Namespaced);
            self.resources.lock().await.insert(gvk, found.clone());
            found
        };
        let metadata = &document["metadata"];
        let api: Api<DynamicObject> = if is_namespaced {
            let namespace = metadata["namespace"].as_str().unwrap_or("default");
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let params = PatchParams::apply("kubectl").force().validation_strict();
        api.patch(metadata["name"].as_str().unwrap_or_default(), &params, &Patch::Apply(document)).await.map(drop)
    }

    /// Runs kubectl; what it said on standard error is the error.
    pub fn try_kubectl(&self, args: &[&str], input: Option<&str>) -> Result<String, String> {
        run_kubectl(&self.kubeconfig, args, input)
    }
}

/// Runs kubectl as the person of a kubeconfig; what it said on standard error is the error.
pub fn kubectl_as(kubeconfig: &str, args: &[&str]) -> Result<String, String> {
    run_kubectl(Path::new(kubeconfig), args, None)
}

fn run_kubectl(kubeconfig: &Path, args: &[&str], input: Option<&str>) -> Result<String, String> {
    let mut child = Command::new(tool("kubectl"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The files of a folder, and of those in it.
#[must_use]
pub fn read(root: &Path) -> Vec<File> {
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

/// Objects in a fixed order, however they came.
#[must_use]
pub fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    let key = |o: &Value| format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]);
    objects.sort_by_key(key);
    objects
}

/// The objects of a file of the repository.
#[must_use]
pub fn objects(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository(path));
    documents(&text.unwrap_or_else(|_| panic!("{path} is missing; run `make generate`")))
}
