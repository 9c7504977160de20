//! Containers that are real processes: the web application of a sample, each Pod at an address of its own on loopback.
//!
//! Must not know what a test wants of them.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::operator::{beside, get};
use crate::process::Process;

/// Where it answers.
pub const PORT: u16 = 8080;
static ADDRESSES: AtomicU32 = AtomicU32::new(0);

/// The processes, by UID of their Pods.
#[derive(Default)]
pub struct Containers(Mutex<HashMap<String, Process>>);

impl Containers {
    /// Starts the process of a Pod, if its image is the web application's; returns the Pod's address once it answers.
    pub async fn start(
        &self,
        folder: &std::path::Path,
        pod: &Pod,
        environment: &BTreeMap<String, String>,
    ) -> Option<String> {
        let image = pod.spec.as_ref()?.containers.first()?.image.clone()?;
        image.ends_with("/mini-http-server").then_some(())?;
        let number = ADDRESSES.fetch_add(1, Ordering::Relaxed) + 1;
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 77, 0, 0).to_bits() + number).to_string();
        let mut env: Vec<(String, String)> = environment.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        env.push(("ADDRESS".to_owned(), format!("{address}:{PORT}")));
        let name = pod.name_any();
        let log: PathBuf = folder.join(format!("{name}.log"));
        let process = Process::start(&name, &beside("webapp"), &[], &env, &log);
        self.0.lock().expect("containers").insert(pod.uid().unwrap_or_default(), process);
        while get(&format!("{address}:{PORT}"), "/").await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(address)
    }

    /// Ends the process of a Pod as a kubelet does.
    pub async fn stop(&self, pod: &Pod) {
        let process = self.0.lock().expect("containers").remove(&pod.uid().unwrap_or_default());
        let Some(mut process) = process else { return };
        process.signal("TERM");
        for _ in 0..200 {
            if process.ended().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
