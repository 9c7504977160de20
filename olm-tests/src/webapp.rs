//! Containers that are real processes: the web application of a sample, and clients who ask it all the time.
//!
//! Each Pod has an address of its own on loopback. Clients ask Pods that are Ready, as a Service would have them, and
//! count what they are answered. Must not know what a test wants of them.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::kubelet::Kubelet;
use crate::lab::is_ready;
use crate::operator::{beside, get};
use crate::process::Process;

const PORT: u16 = 8080;
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

/// What clients were answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// How often each message.
    pub said: BTreeMap<String, usize>,
    /// Requests without an answer.
    pub lost: usize,
    /// What each Pod that is Ready said last.
    pub now: BTreeMap<String, String>,
}

/// Clients who ask all the time.
pub struct Clients {
    answers: Arc<Mutex<Answers>>,
    task: tokio::task::JoinHandle<()>,
}

impl Clients {
    /// Of the Pods of a namespace with a label `app`.
    #[must_use]
    pub fn of(kubelet: &Kubelet, namespace: &str, app: &str) -> Self {
        let answers: Arc<Mutex<Answers>> = Arc::default();
        let (kubelet, namespace, app, shared) =
            (kubelet.clone(), namespace.to_owned(), app.to_owned(), answers.clone());
        let task = tokio::spawn(async move {
            for turn in 0.. {
                let is_asked = |pod: &&Arc<Pod>| is_ready(pod) && pod.labels().get("app") == Some(&app);
                let pods = kubelet.pods(&namespace);
                let ready: Vec<&Arc<Pod>> = pods.iter().filter(is_asked).collect();
                if let Some(pod) = ready.get(turn % ready.len().max(1)) {
                    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
                    let answer = get(&format!("{ip}:{PORT}"), "/").await.filter(|(code, _)| *code == 200);
                    let mut answers = shared.lock().expect("answers");
                    answers.now.retain(|name, _| ready.iter().any(|pod| pod.name_any() == *name));
                    match answer {
                        Some((_, message)) => {
                            *answers.said.entry(message.clone()).or_default() += 1;
                            answers.now.insert(pod.name_any(), message);
                        }
                        None => answers.lost += 1,
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Self { answers, task }
    }

    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().expect("answers")
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.task.abort();
    }
}
