//! The operator as a process: the real binary, under its ServiceAccount's token, with the rights of
//! its package's `rbac.yaml`.
//!
//! Started by the fake kubelet for the operator's own Pod, or directly for a namespace of a test. Must not give it
//! any right or setting that an installation would not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use crate::process::{Process, cpu, free_port, memory};

/// Where the operator's binary is: `OPERATOR_BINARY`, otherwise the one beside the test's own.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("OPERATOR_BINARY") {
        return path.into();
    }
    beside("oneagent-operator")
}

/// A program of this repository, beside the one that runs.
#[must_use]
pub fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not beside {}; run `cargo build --workspace` first", own.display()))
}

/// A token for a ServiceAccount, bound to a Pod when there is one.
pub async fn token(client: &Client, namespace: &str, account: &str, pod: Option<&Pod>) -> String {
    let bound = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    });
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".into()],
            bound_object_ref: bound,
            expiration_seconds: Some(7200),
        },
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
    format!("127.0.0.1:{}", free_port())
}

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    pub process: Process,
    /// Where its probes are.
    pub address: String,
    /// What it printed.
    pub log: PathBuf,
}

impl Operator {
    /// Starts it with `env` on top of what the cluster gives it.
    #[must_use]
    pub fn start(folder: &Path, name: &str, args: &[&str], kubeconfig: &str, env: &[(String, String)]) -> Self {
        Self::start_binary(&binary(), folder, name, args, kubeconfig, env)
    }

    /// The same with another binary.
    #[must_use]
    pub fn start_binary(
        binary: &Path,
        folder: &Path,
        name: &str,
        args: &[&str],
        kubeconfig: &str,
        env: &[(String, String)],
    ) -> Self {
        let file = folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&file, kubeconfig).expect("a kubeconfig");
        let address = free_address();
        let mut all: Vec<(String, String)> = vec![
            ("KUBECONFIG".into(), file.display().to_string()),
            ("LISTEN_ADDRESS".into(), address.clone()),
            ("LOG_LEVEL".into(), "info".into()),
        ];
        all.extend(env.iter().cloned());
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let log = folder.join(format!("{name}.log"));
        Self { process: Process::start(name, binary, &args, &all, &log), address, log }
    }

    /// What a path of its HTTP server answers: status and body.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        get(&self.address, path).await
    }

    /// Its memory in MiB, by a field of `/proc/PID/status` such as VmRSS (now) or VmHWM (the most so far).
    #[must_use]
    pub fn memory(&self, field: &str) -> f64 {
        memory(self.process.id(), field).unwrap_or_else(|| panic!("no {field}"))
    }

    /// CPU time that it has used, in steps of 10 ms.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu(self.process.id())
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
