//! Clients of the web application, who ask it all the time.
//!
//! They ask Pods that are Ready, as a Service would have them, and count what they are answered. Must not know what a
//! test wants of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::kubelet::Kubelet;
use crate::operator::get;
use crate::wait::is_ready;
use crate::webapp::PORT;

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
