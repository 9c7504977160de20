//! The operator as a process: the real binary, under its ServiceAccount's token, with the rights of `config/oneagent-operator/rbac.yaml`.
//!
//! Started by the fake kubelet for the operator's own Pod, or directly for a namespace of a test. Must not give it
//! any right or setting that an installation would not.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use crate::process::Process;

/// Where the operator's binary is: `OPERATOR_BINARY`, else beside the test's own.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("OPERATOR_BINARY") {
        return path.into();
    }
    let own = std::env::current_exe().expect("a path");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("oneagent-operator")).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("the operator's binary is not beside {}; run `cargo build` first, or set OPERATOR_BINARY", own.display()))
}

/// A token for a ServiceAccount, bound to a Pod when there is one.
pub async fn token(client: &Client, namespace: &str, account: &str, pod: Option<&Pod>) -> String {
    let bound =
        pod.map(|pod| BoundObjectReference { api_version: Some("v1".into()), kind: Some("Pod".into()), name: Some(pod.name_any()), uid: pod.uid() });
    let request = TokenRequest {
        spec: TokenRequestSpec { audiences: vec!["https://kubernetes.default.svc".into()], bound_object_ref: bound, expiration_seconds: Some(7200) },
        ..TokenRequest::default()
    };
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer = api
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap_or_else(|e| panic!("no token for {namespace}/{account}: {e}"));
    answer.status.expect("a token").token
}

/// A free port of 127.0.0.1.
#[must_use]
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    /// Its process.
    pub process: Process,
    /// Where its probes are.
    pub address: String,
    /// What it printed.
    pub log: PathBuf,
}

impl Operator {
    /// Starts it with `env` on top of what the cluster gives it.
    #[must_use]
    pub fn start(folder: &Path, name: &str, kubeconfig: &str, env: &[(String, String)]) -> Self {
        Self::start_binary(&binary(), folder, name, kubeconfig, env)
    }

    /// The same with another binary.
    #[must_use]
    pub fn start_binary(binary: &Path, folder: &Path, name: &str, kubeconfig: &str, env: &[(String, String)]) -> Self {
        let file = folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&file, kubeconfig).expect("a kubeconfig");
        let address = free_address();
        let mut all: Vec<(String, String)> =
            vec![("KUBECONFIG".into(), file.display().to_string()), ("LISTEN_ADDRESS".into(), address.clone()), ("LOG_LEVEL".into(), "info".into())];
        all.extend(env.iter().cloned());
        let log = folder.join(format!("{name}.log"));
        Self { process: Process::start(name, binary, &["run".to_owned()], &all, &log), address, log }
    }

    /// What a path of its HTTP server answers: status and body.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        get(&self.address, path).await
    }

    /// Its memory in MiB, by a field of `/proc/PID/status` such as VmRSS (now) or VmHWM (the most so far).
    #[must_use]
    pub fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap_or_else(|| panic!("no {field}"));
        line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
    }

    /// CPU time that it has used, in steps of 10 ms.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("a process");
        let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        // utime and stime, 100 a second; the state is the first of these fields.
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// What it printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A plain GET.
pub async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let code = text.split_whitespace().nth(1)?.parse().ok()?;
    Some((code, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}

/// Starts programs of ours, and of OLM's, for their Pods.
pub struct Launcher {
    folder: PathBuf,
    /// Kubeconfig with all rights, for what stands in for a Pod's own.
    admin: PathBuf,
    /// Makes a kubeconfig from the path of a token.
    kubeconfig: Box<dyn Fn(&Path) -> String + Send + Sync>,
    /// Settings on top of the Pod's own.
    extra: Vec<(String, String)>,
    running: Arc<Mutex<HashMap<String, Operator>>>,
}

impl Launcher {
    /// In a folder; `extra` settings go on top of the Pod's own.
    pub fn new(folder: PathBuf, admin: PathBuf, kubeconfig: impl Fn(&Path) -> String + Send + Sync + 'static, extra: Vec<(String, String)>) -> Self {
        Self { folder, admin, kubeconfig: Box::new(kubeconfig), extra, running: Arc::default() }
    }

    /// Does the work of OLM's unpack Job: pulls the bundle image and runs the Pod's own command on what is in it.
    /// `None`: the Pod is another.
    pub async fn unpack(&self, pod: &Pod) -> Option<Result<(), String>> {
        let name = pod.labels().get("operatorframework.io/bundle-unpack-ref")?.clone();
        let spec = pod.spec.as_ref()?;
        let image = spec.init_containers.as_ref()?.iter().find(|c| c.name == "pull")?.image.clone()?;
        let extract = spec.containers.iter().find(|c| c.name == "extract")?.clone();
        let into = self.folder.join(format!("unpack-{}", pod.uid().unwrap_or_default()));
        let kubeconfig = self.admin.clone();
        let work = move || {
            let folder = crate::images::pull(&image, &into)?;
            // The Pod's command, with the folder of the image in place of the volume.
            let args: Vec<String> = extract.command.into_iter().flatten().chain(extract.args.into_iter().flatten()).skip(1).collect();
            let args = args.into_iter().map(|a| if a == "/bundle/" { format!("{}/", folder.display()) } else { a });
            let output = std::process::Command::new(crate::tools::tool("opm"))
                .args(args)
                .env("KUBECONFIG", kubeconfig)
                .env("CONTAINER_IMAGE", &image)
                .output()
                .map_err(|e| e.to_string())?;
            let _ = std::fs::remove_dir_all(&folder);
            if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))) }
        };
        Some(tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(e.to_string())))
    }

    /// Whether a Pod is the operator's own.
    #[must_use]
    pub fn is_operator(&self, pod: &Pod) -> bool {
        pod.labels().get("app.kubernetes.io/name").is_some_and(|name| name == "oneagent-operator")
    }

    /// The binary of an image of ours: out of the registry if it is there, else the one that was just built.
    async fn binary(&self, image: &str) -> Result<PathBuf, String> {
        if !image.starts_with("127.0.0.1:") {
            return Ok(binary());
        }
        let into = self.folder.join(format!("image-{}", image.replace(['/', ':', '@'], "-")));
        let program = into.join("oneagent-operator");
        if !program.exists() {
            let image = image.to_owned();
            tokio::task::spawn_blocking(move || crate::images::pull(&image, &into)).await.map_err(|e| e.to_string())??;
        }
        Ok(program)
    }

    /// Starts the binary of the Pod's image with the Pod's environment and its ServiceAccount's token; returns when it
    /// is ready. `Err`: the image cannot be had.
    pub async fn launch(&self, client: &Client, pod: &Pod) -> Result<(), String> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let spec = pod.spec.as_ref().expect("a spec");
        let token = token(client, &namespace, spec.service_account_name.as_deref().unwrap_or("default"), Some(pod)).await;
        let token_file = self.folder.join(format!("{name}.token"));
        std::fs::write(&token_file, token).expect("a token file");
        let field = |path: &str| match path {
            "metadata.name" => name.clone(),
            "metadata.namespace" => namespace.clone(),
            "metadata.uid" => pod.uid().unwrap_or_default(),
            "metadata.annotations['olm.targetNamespaces']" => pod.annotations().get("olm.targetNamespaces").cloned().unwrap_or_default(),
            other => panic!("the fake kubelet does not know field {other}"),
        };
        let env = spec.containers[0].env.iter().flatten().map(|e| {
            let from = e.value_from.as_ref().and_then(|v| v.field_ref.as_ref()).map(|f| field(&f.field_path));
            (e.name.clone(), e.value.clone().or(from).unwrap_or_default())
        });
        let env: Vec<(String, String)> = env.chain(self.extra.iter().cloned()).collect();
        let binary = self.binary(spec.containers[0].image.as_deref().unwrap_or_default()).await?;
        let operator = Operator::start_binary(&binary, &self.folder, &name, &(self.kubeconfig)(&token_file), &env);
        let address = operator.address.clone();
        self.running.lock().expect("operators").insert(pod.uid().unwrap_or_default(), operator);
        // The readiness probe, as the Pod has it.
        for _ in 0..300 {
            if get(&address, "/readyz").await.is_some_and(|(code, _)| code == 200) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Ends the process of a Pod as a kubelet does: TERM, and KILL after the grace period.
    pub async fn stop(&self, pod: &Pod) {
        let operator = self.running.lock().expect("operators").remove(&pod.uid().unwrap_or_default());
        let Some(mut operator) = operator else { return };
        operator.process.signal("TERM");
        for _ in 0..200 {
            if operator.process.ended().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Does something with every running operator.
    pub fn each<T>(&self, act: impl FnMut(&mut Operator) -> T) -> Vec<T> {
        self.running.lock().expect("operators").values_mut().map(act).collect()
    }
}
