//! A real control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on loopback.
//!
//! Free ports, a folder of its own, an audit log, RBAC, and the admission plugin that OpenShift has on. Must not
//! touch anything outside its folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use oneagent_operator::clock::Clock;
use oneagent_operator::k8s::hex::hex;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::pki::Ca;
use crate::process::{Process, free_port};
use crate::tools::tool;
use crate::watched::RESTORED;

/// A running control plane.
pub struct ControlPlane {
    folder: TempDir,
    url: String,
    ca: String,
    apiserver_args: Vec<String>,
    // Dropped in this order: clients before their server, or an apiserver without its etcd hangs on.
    controllers: BTreeMap<&'static str, Controller>,
    apiserver: Option<Process>,
    etcd_args: Vec<String>,
    etcd: Option<Process>,
}

/// Makes Pods for what wants some, removes what has no owner left, and more.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// Its flag: how long a kubelet may be silent.
const GRACE: &str = "--node-monitor-grace-period";
/// Binds Pods to nodes.
pub const SCHEDULER: &str = "kube-scheduler";

/// One of the two, with what it is started with.
struct Controller {
    args: Vec<String>,
    process: Option<Process>,
}

const PREFIX: &str = "oneagent-rig-";

/// A folder that a later process removes if this one does not.
#[must_use]
pub fn scratch() -> TempDir {
    TempDir::with_prefix(format!("{PREFIX}{}-", std::process::id())).expect("a temporary folder")
}

/// Removes what earlier processes left: a folder that tests share outlives the last of them.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner =
            name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Controllers that have no work here, or that write to every node for kubelets, of which there are none; most of them
/// look at every Pod and node all the same.
const IDLE: [&str; 27] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle-controller",
    "device-taint-eviction-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "podgroup-protection-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "service-cidr-controller",
    "service-lb-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
    "volumeattributesclass-protection-controller",
];

fn args(list: &[&str]) -> Vec<String> {
    list.iter().map(|a| (*a).to_owned()).collect()
}

impl ControlPlane {
    /// Starts one and waits until it is ready.
    #[allow(clippy::too_many_lines, reason = "a list of flags, read from top to bottom")]
    pub async fn start() -> Self {
        sweep();
        let folder = scratch();
        let dir = folder.path();
        let ca = Ca::new("rig");
        let write = |name: &str, content: &str| fs::write(dir.join(name), content).expect("a file");
        let path = |name: &str| dir.join(name).display().to_string();
        write("ca.crt", &ca.pem());
        let pairs = [
            ("server", ca.server(&["localhost", "kubernetes.default.svc"], true)),
            ("front-proxy", ca.client("front-proxy-client", None)),
            ("service-account", ca.client("service-account", None)),
        ];
        for (name, pair) in &pairs {
            write(&format!("{name}.crt"), &pair.cert);
            write(&format!("{name}.key"), &pair.key);
        }
        write(
            "audit-policy.yaml",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- \
            {level: None, userGroups: [system:masters, 'system:serviceaccounts:kube-system']}\n- \
            {level: None, users: [system:kube-scheduler, system:kube-controller-manager, system:apiserver]}\n- \
            {level: Metadata}\n",
        );
        let (etcd_port, peer_port, port) = (free_port(), free_port(), free_port());
        let (etcd, peer, url) = (
            format!("http://127.0.0.1:{etcd_port}"),
            format!("http://127.0.0.1:{peer_port}"),
            format!("https://127.0.0.1:{port}"),
        );
        // Not certificates: those the API server verifies again with each request.
        let mut tokens = String::new();
        for (name, user, group) in [
            ("admin", "admin", "system:masters"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
        ] {
            let token = secret(name, &pairs[0].1.key);
            writeln!(tokens, "{token},{user},{user},{group}").expect("a String");
            write(&format!("{name}.kubeconfig"), &kubeconfig(&url, dir, &format!("token: {token}")));
        }
        write("tokens.csv", &tokens);
        let start = |name: &str, list: Vec<String>| {
            Process::start(name, &tool(name), &list, &[], &dir.join(format!("{name}.log")))
        };
        let etcd_args = args(&[
            "--data-dir",
            &path("etcd"),
            "--listen-client-urls",
            &etcd,
            "--advertise-client-urls",
            &etcd,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("default={peer}"),
            "--unsafe-no-fsync",
            "--quota-backend-bytes",
            "4294967296",
        ]);
        let etcd_process = start("etcd", etcd_args.clone());
        let flag = |name: &str, value: &str| format!("--{name}={value}");
        let apiserver_args = vec![
            flag("etcd-servers", &etcd),
            flag("bind-address", "127.0.0.1"),
            flag("advertise-address", "127.0.0.1"),
            flag("secure-port", &port.to_string()),
            flag("endpoint-reconciler-type", "none"),
            flag("service-cluster-ip-range", "10.0.0.0/16"),
            flag("authorization-mode", "RBAC"),
            flag("enable-admission-plugins", "OwnerReferencesPermissionEnforcement,PodNodeSelector"),
            flag("tls-cert-file", &path("server.crt")),
            flag("tls-private-key-file", &path("server.key")),
            flag("client-ca-file", &path("ca.crt")),
            flag("token-auth-file", &path("tokens.csv")),
            flag("service-account-issuer", "https://kubernetes.default.svc"),
            flag("service-account-key-file", &path("service-account.crt")),
            flag("service-account-signing-key-file", &path("service-account.key")),
            flag("proxy-client-cert-file", &path("front-proxy.crt")),
            flag("proxy-client-key-file", &path("front-proxy.key")),
            flag("requestheader-client-ca-file", &path("ca.crt")),
            flag("requestheader-allowed-names", "front-proxy-client"),
            flag("requestheader-username-headers", "X-Remote-User"),
            flag("requestheader-group-headers", "X-Remote-Group"),
            flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            flag("allow-privileged", "true"),
            flag("audit-policy-file", &path("audit-policy.yaml")),
            flag("audit-log-path", &path("audit.log")),
            flag("audit-log-mode", "blocking"),
            flag("shutdown-delay-duration", "0s"),
        ];
        let mut plane = Self {
            apiserver: Some(start("kube-apiserver", apiserver_args.clone())),
            apiserver_args,
            etcd_args,
            etcd: Some(etcd_process),
            controllers: BTreeMap::new(),
            url,
            ca: ca.pem(),
            folder,
        };
        plane.wait_ready().await;
        let kubeconfig = |name: &str| {
            let file = plane.path(&format!("{name}.kubeconfig")).display().to_string();
            vec![
                flag("kubeconfig", &file),
                flag("authentication-kubeconfig", &file),
                flag("authorization-kubeconfig", &file),
                flag("bind-address", "127.0.0.1"),
                flag("secure-port", &free_port().to_string()),
                flag("leader-elect", "false"),
            ]
        };
        let file = |name: &str| plane.path(name).display().to_string();
        let mut manager = kubeconfig("controller-manager");
        manager.extend([
            flag("use-service-account-credentials", "true"),
            flag("service-account-private-key-file", &file("service-account.key")),
            flag("root-ca-file", &file("ca.crt")),
            flag("cluster-signing-cert-file", &file("ca.crt")),
            flag("cluster-signing-key-file", &file("service-account.key")),
            flag("controllers", &format!("*,-{}", IDLE.join(",-"))),
            // Nodes are made Ready once and stay so; readiness is changed by the tests. See `expect_heartbeats`.
            flag("node-monitor-grace-period", "24h"),
            flag("kube-api-qps", "500"),
            flag("kube-api-burst", "1000"),
        ]);
        let mut scheduler = kubeconfig("scheduler");
        scheduler.extend([flag("kube-api-qps", "500"), flag("kube-api-burst", "1000")]);
        for (name, args) in [(CONTROLLER_MANAGER, manager), (SCHEDULER, scheduler)] {
            plane.controllers.insert(name, Controller { args, process: None });
            plane.start_controller(name);
        }
        plane
    }

    /// Starts the controller manager or the scheduler, again if it runs. The garbage collector learns the kinds that
    /// exist when it starts, and otherwise every 30 seconds. Of a kind that it does not know it hears no deletion, but
    /// asks, and twice as long after each time, so that a dependant may outlive its owner by minutes.
    pub fn start_controller(&mut self, name: &str) {
        self.kill_controller(name);
        let log = self.path(&format!("{name}.log"));
        let controller = self.controllers.get_mut(name).expect("one of the two");
        controller.process = Some(Process::start(name, &tool(name), &controller.args, &[], &log));
    }

    /// From now on a node whose kubelet has not reported for so long is Unknown, and its Pods are not Ready: as in a
    /// user's cluster.
    pub fn expect_heartbeats(&mut self, grace: &str) {
        let manager = self.controllers.get_mut(CONTROLLER_MANAGER).expect("the controller manager");
        for arg in manager.args.iter_mut().filter(|arg| arg.starts_with(GRACE)) {
            *arg = format!("{GRACE}={grace}");
        }
        self.start_controller(CONTROLLER_MANAGER);
    }

    /// `kill -9` of the controller manager or the scheduler.
    pub fn kill_controller(&mut self, name: &str) {
        self.controllers.get_mut(name).expect("one of the two").process = None;
    }

    /// A file of its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder outlives us: for those who want to look at what is left running.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path("admin.kubeconfig")
    }

    /// The CA's certificate.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// A kubeconfig with a bearer token read from `token_file`.
    #[must_use]
    pub fn token_kubeconfig(&self, token_file: &Path) -> String {
        kubeconfig(&self.url, self.folder.path(), &format!("tokenFile: {}", token_file.display()))
    }

    /// A client with all rights.
    pub async fn admin(&self) -> Client {
        client(&self.admin_kubeconfig()).await
    }

    /// Sends etcd a signal: stopped, it answers no one.
    pub fn signal_etcd(&self, signal: &str) {
        self.etcd.iter().for_each(|etcd| etcd.signal(signal));
    }

    /// Keeps a copy of all that etcd holds.
    pub fn save_etcd(&self) {
        self.signal_etcd("STOP");
        let (data, saved) = (self.path("etcd"), self.path("etcd.saved"));
        let copied = std::process::Command::new("cp").arg("-a").args([&data, &saved]).status().expect("cp");
        self.signal_etcd("CONT");
        assert!(copied.success(), "etcd's data is copied");
    }

    /// Puts that copy in the place of what etcd holds, as an administrator does after a disaster: revisions go back,
    /// too. Only the API server and the controllers start again.
    pub async fn restore_etcd(&mut self) {
        self.kill_apiserver();
        self.etcd = None;
        fs::remove_dir_all(self.path("etcd")).expect("etcd's data");
        fs::rename(self.path("etcd.saved"), self.path("etcd")).expect("the copy");
        self.etcd = Some(Process::start("etcd", &tool("etcd"), &self.etcd_args, &[], &self.path("etcd.log")));
        self.start_apiserver().await;
        for name in [CONTROLLER_MANAGER, SCHEDULER] {
            self.start_controller(name);
        }
        RESTORED.notify_waiters();
    }

    /// `kill -9` of the API server.
    pub fn kill_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Starts the API server again and waits until it is ready.
    pub async fn start_apiserver(&mut self) {
        self.apiserver = Some(Process::start(
            "kube-apiserver",
            &tool("kube-apiserver"),
            &self.apiserver_args,
            &[],
            &self.path("kube-apiserver.log"),
        ));
        self.wait_ready().await;
    }

    async fn wait_ready(&mut self) {
        let client = self.admin().await;
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            let request = axum::http::Request::get("/readyz").body(Vec::new()).expect("a request");
            if client.request_text(request).await.is_ok_and(|text| text == "ok") {
                return;
            }
            let ended = self.apiserver.as_mut().and_then(Process::ended);
            assert!(
                ended.is_none() && Instant::now() < end,
                "the API server is not ready ({ended:?}):\n{}",
                tail(&self.path("kube-apiserver.log"))
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// What only who may read this folder can know.
fn secret(name: &str, key: &str) -> String {
    hex(&Sha256::new().chain_update(key).chain_update(name).finalize())
}

/// The last lines of a log.
#[must_use]
pub fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn kubeconfig(url: &str, dir: &Path, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: rig\nclusters:\n- name: rig\n  cluster:\n    server: \
        {url}\n    certificate-authority: {}\ncontexts:\n- name: rig\n  context: \
        {{cluster: rig, user: rig}}\nusers:\n- name: rig\n  user:\n    {user}\n",
        dir.join("ca.crt").display()
    )
}

/// A client from a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a configuration");
    // As the operator's, so that a bare client is at no disadvantage.
    oneagent_operator::kernel::connect(&config, &Clock::default()).expect("a client")
}
