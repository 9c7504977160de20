//! Catalogs as OLM runs them: the process of a CatalogSource's Pod, out of its image, and the way to it by its
//! Service's name.
//!
//! Instead of cluster DNS and kube-proxy a SOCKS proxy resolves the names, for OLM can be told of one (GRPC_PROXY).
//! Must not know what is in a catalog.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::images::{pull, said};
use crate::operator::free_address;
use crate::process::Process;
use crate::tools::tool;

/// Label of the Pod that serves a CatalogSource, and of one that may take its place.
const LABELS: [&str; 2] = ["olm.catalogSource", "catalogsource.operators.coreos.com/update"];
/// Where catalogs are in an image.
const CONTENT: &str = "configs";

/// Every catalog that runs.
#[derive(Clone, Default)]
pub struct Catalogs {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

struct Running {
    address: String,
    _process: Process,
}

/// Whether a Pod is a catalog's.
#[must_use]
pub fn is_catalog(pod: &Pod) -> bool {
    LABELS.iter().any(|label| pod.labels().contains_key(*label))
}

/// The image with the content: the Pod's own, or that which is extracted into it.
fn content(pod: &Pod) -> Option<(String, bool)> {
    let spec = pod.spec.as_ref()?;
    let extracted = spec.init_containers.iter().flatten().find(|container| container.name == "extract-content");
    let container = extracted.or_else(|| spec.containers.first())?;
    Some((container.image.clone()?, extracted.is_some()))
}

impl Catalogs {
    /// Pulls the image of a Pod and starts what it says; returns the image's digest. `Err` is what a kubelet would say.
    pub fn start(&self, folder: &Path, pod: &Pod) -> Result<String, String> {
        let uid = pod.uid().unwrap_or_default();
        let (image, is_extracted) = content(pod).ok_or("the Pod has no container")?;
        let digest = Command::new(tool("crane")).args(["digest", &image]).output().map_err(|e| e.to_string())?;
        if !digest.status.success() {
            return Err(String::from_utf8_lossy(&digest.stderr).trim().to_owned());
        }
        let digest = String::from_utf8_lossy(&digest.stdout).trim().to_owned();
        let root = folder.join(format!("catalog-{uid}"));
        pull(&image, &root)?;
        let address = free_address();
        let (_, port) = address.rsplit_once(':').expect("a port");
        let log = folder.join(format!("{}.log", pod.name_any()));
        // The host's network is everybody's here: ports must differ.
        let ours = ["-p", port, "--pprof-addr", "", "--termination-log", "/tmp/log"].map(str::to_owned);
        let process = if is_extracted {
            let content = root.join(CONTENT).display().to_string();
            let args = [vec!["serve".to_owned(), content], ours.to_vec()].concat();
            Process::start("opm", &tool("opm"), &args, &[], &log)
        } else {
            let args = [chroot(&root), entrypoint(&image)?, ours.to_vec()].concat();
            Process::start("catalog", Path::new("unshare"), &args, &[], &log)
        };
        self.running.lock().expect("catalogs").insert(uid, Running { address, _process: process });
        Ok(digest)
    }

    /// Ends the process of a Pod.
    pub fn stop(&self, pod: &Pod) {
        self.running.lock().expect("catalogs").remove(&pod.uid().unwrap_or_default());
    }

    /// Starts the proxy; returns its address.
    pub async fn proxy(&self, client: Client) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let all = self.clone();
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let (all, client) = (all.clone(), client.clone());
                tokio::spawn(async move { all.pass(caller, &client).await });
            }
        });
        address
    }

    /// One connection: SOCKS 5, without a password.
    async fn pass(&self, mut caller: TcpStream, client: &Client) -> std::io::Result<()> {
        let mut head = [0; 2];
        caller.read_exact(&mut head).await?;
        let mut methods = vec![0; usize::from(head[1])];
        caller.read_exact(&mut methods).await?;
        caller.write_all(&[5, 0]).await?;
        let mut request = [0; 4];
        caller.read_exact(&mut request).await?;
        let host = if request[3] == 1 {
            let mut ip = [0; 4];
            caller.read_exact(&mut ip).await?;
            std::net::Ipv4Addr::from(ip).to_string()
        } else {
            let mut name = vec![0; usize::from(caller.read_u8().await?)];
            caller.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        };
        let port = caller.read_u16().await?;
        let to = match host.strip_suffix(".svc") {
            Some(service) => self.service(client, service).await,
            None => Some(format!("{host}:{port}")),
        };
        let found = match to {
            Some(to) => TcpStream::connect(to).await.ok(),
            None => None,
        };
        let answer = if found.is_some() { 0 } else { 4 };
        caller.write_all(&[5, answer, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        if let Some(mut callee) = found {
            copy_bidirectional(&mut caller, &mut callee).await?;
        }
        Ok(())
    }

    /// The address behind Service `NAME.NAMESPACE`: that of the Ready Pod which the Service of a catalog selects.
    async fn service(&self, client: &Client, service: &str) -> Option<String> {
        let (name, namespace) = service.split_once('.')?;
        let labels = format!("{}={name}", LABELS[0]);
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pods = api.list(&ListParams::default().labels(&labels)).await.ok()?.items;
        let serving = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && crate::wait::is_ready(pod));
        let running = self.running.lock().expect("catalogs");
        serving.filter_map(|pod| running.get(&pod.uid()?)).map(|running| running.address.clone()).next()
    }
}

fn chroot(root: &Path) -> Vec<String> {
    vec!["-r".to_owned(), "chroot".to_owned(), root.display().to_string()]
}

/// What an image says that it runs.
fn entrypoint(image: &str) -> Result<Vec<String>, String> {
    let config = said(Command::new(tool("crane")).args(["config", "--platform", "linux/amd64", image]));
    let config: Value = serde_json::from_str(&config).map_err(|e| e.to_string())?;
    let list = |key: &str| serde_json::from_value::<Vec<String>>(config["config"][key].clone()).unwrap_or_default();
    Ok([list("Entrypoint"), list("Cmd")].concat())
}
