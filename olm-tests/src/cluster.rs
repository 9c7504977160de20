//! A cluster for tests: a control plane with CRD, fake kubelet and vendor; shared by the tests of a process.
//!
//! Must not hold anything of a single test: that is `lab`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::Client;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use crate::control_plane::ControlPlane;
use crate::kubelet::Kubelet;
use crate::launcher::Launcher;
use crate::pki::{Ca, Pair};
use crate::tools::tool;
use crate::vendor::Vendor;

/// A cluster.
pub struct Cluster {
    /// Its control plane.
    pub plane: Mutex<ControlPlane>,
    /// A client with all rights.
    pub client: Client,
    /// The fake kubelet.
    pub kubelet: Kubelet,
    /// The vendor.
    pub vendor: Vendor,
    /// CA of the vendor's TLS certificate.
    pub vendor_ca: String,
    folder: PathBuf,
    kubeconfig: PathBuf,
}

/// A file of the repository.
#[must_use]
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

impl Cluster {
    /// Starts one, with the CRDs of `config/oneagent-operator/crd`.
    pub async fn start(extra: Vec<(String, String)>) -> Self {
        let cluster = Self::bare(extra).await;
        cluster.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &repository("config/oneagent-operator/crd").display().to_string(),
        ]);
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd/oneagents.dynatrace.com"]);
        cluster
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
        Self { plane: Mutex::new(plane), client, kubelet, vendor, vendor_ca: ca.pem(), folder, kubeconfig }
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

    /// Applies YAML documents as an administrator does.
    pub fn apply(&self, yaml: &str) {
        self.try_kubectl(&["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"], Some(yaml))
            .unwrap_or_else(|said| panic!("kubectl apply: {said}\n{yaml}"));
    }

    /// Runs kubectl; what it said on standard error is the error.
    pub fn try_kubectl(&self, args: &[&str], input: Option<&str>) -> Result<String, String> {
        let mut child = Command::new(tool("kubectl"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
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
}

/// The documents of a YAML file.
#[must_use]
pub fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .filter_map(|document| <Value as serde::Deserialize>::deserialize(document).ok())
        .filter(|value| !value.is_null())
        .collect()
}
