//! The fake kubelet, for all fake nodes at once: Pods start, become Ready, fail as told, and end.
//!
//! Hosts remember the newest agent that was installed on them and refuse an older one, as the vendor's installer
//! does; the operator's own Pod is started for real. What a Pod's status says is what a real kubelet would write.
//! Must not know what the operator intends.

mod agent;
mod behaviour;
mod containers;
mod environment;
mod seen;
mod shared;
mod spec;
mod status;
mod volumes;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::Event;

use kube::{Client, ResourceExt};
use oneagent_operator::api::name::Version;
use serde_json::{Value, json};

use agent::installer_url;
pub use behaviour::{Behaviour, Fault};
use status::{now, of_image, running, succeeded, waiting};

use crate::launcher::Launcher;
use crate::vendor::Vendor;
use crate::watched::{Watched, events};

/// What failed is tried again after so long.
const AGAIN: Duration = Duration::from_millis(300);
/// How often a Pod on its way out asks whether it may go now.
const HELD: Duration = Duration::from_millis(25);

/// The fake kubelet.
#[derive(Clone)]
pub struct Kubelet {
    client: Client,
    vendor: Vendor,
    launcher: Arc<Launcher>,
    behaviours: Arc<Mutex<HashMap<String, Behaviour>>>,
    /// Newest agent that was installed, by node.
    installed: Arc<Mutex<HashMap<String, Version>>>,
    /// When a Pod was taken on, and each of its conditions with the time at which it last changed, by UID.
    times: Arc<Mutex<HashMap<String, Times>>>,
    /// Every Pod, as the one watch of this rig shows it, by namespace and name.
    pods: Arc<Mutex<HashMap<String, seen::ByName>>>,
    secrets: Arc<Watched<Secret>>,
    /// Pods whose containers are real processes.
    pub real: containers::Real,
    /// What each container was started with, by its Pod's UID.
    environments: Arc<Mutex<HashMap<String, environment::Environment>>>,
}

#[derive(Debug, Clone)]
struct Times {
    start: String,
    conditions: HashMap<String, (String, String)>,
}

impl Kubelet {
    #[must_use]
    pub fn start(client: Client, vendor: Vendor, launcher: Launcher) -> Self {
        let kubelet = Self {
            client,
            vendor,
            launcher: Arc::new(launcher),
            behaviours: Arc::default(),
            installed: Arc::default(),
            times: Arc::default(),
            pods: Arc::default(),
            secrets: Arc::default(),
            real: containers::Real::default(),
            environments: Arc::default(),
        };
        let running = kubelet.clone();
        tokio::spawn(async move { running.follow().await });
        kubelet
    }

    /// Changes how Pods of a namespace behave from now on.
    pub fn behave(&self, namespace: &str, change: impl FnOnce(&mut Behaviour)) {
        change(self.behaviours.lock().expect("behaviours").entry(namespace.to_owned()).or_default());
    }

    /// The newest agent that was installed on a node.
    #[must_use]
    pub fn installed(&self, node: &str) -> Option<Version> {
        self.installed.lock().expect("hosts").get(node).copied()
    }

    /// Says that an agent was installed on a node before the operator looked.
    pub fn install(&self, node: &str, version: Version) {
        self.installed.lock().expect("hosts").insert(node.to_owned(), version);
    }

    /// Evicts a Pod as a kubelet under pressure does: it has failed, and its controller makes another.
    pub async fn evict(&self, pod: &Pod) {
        let why = json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." });
        self.write(pod, why).await;
    }

    /// Says of a running Pod that it is Ready, or not for a moment: what the node lifecycle controller and a kubelet
    /// that was unreachable do.
    pub async fn say_ready(&self, pod: &Pod, ready: bool) {
        self.write(pod, running(pod, ready)).await;
    }

    /// The processes of operators that were started as Pods.
    #[must_use]
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    fn behaviour(&self, namespace: &str) -> Behaviour {
        self.behaviours.lock().expect("behaviours").get(namespace).cloned().unwrap_or_default()
    }

    async fn follow(self) {
        let mut events = events(Api::<Pod>::all(self.client.clone())).boxed();
        let (mut started, mut ending): (HashSet<String>, HashSet<String>) = (HashSet::new(), HashSet::new());
        while let Some(event) = events.next().await {
            let Ok(event) = event else { continue };
            self.remember(&event);
            let is_gone = matches!(event, Event::Delete(_));
            let (Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) = event else { continue };
            let Some(uid) = pod.uid() else { continue };
            let bound = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
            if !bound {
                continue;
            }
            if is_gone {
                // A restored database may bring it back.
                started.remove(&uid);
                // By force: its end was not requested first.
                if !ending.remove(&uid) {
                    let this = self.clone();
                    tokio::spawn(async move {
                        this.real.stop(&pod);
                        this.launcher.stop(&pod).await;
                    });
                }
            } else if pod.metadata.deletion_timestamp.is_some() {
                if ending.insert(uid) {
                    let this = self.clone();
                    tokio::spawn(async move { this.end(&pod).await });
                }
            } else if pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending") && started.insert(uid) {
                let this = self.clone();
                tokio::spawn(async move { this.begin(&pod).await });
            }
        }
    }

    async fn end(&self, pod: &Pod) {
        self.launcher.stop(pod).await;
        self.real.stop(pod);
        let behaviour = self.behaviour(&pod.namespace().unwrap_or_default());
        let version = installer_url(pod).and_then(|url| self.vendor.installer(&url)).map(|(_, version)| version);
        if version.is_some_and(|version| behaviour.deadly_stops.contains(&version)) {
            self.kill_node(pod).await;
            // No kubelet is left to say that the Pod is gone; the API server's own clean-up takes it.
        }
        let since = tokio::time::Instant::now();
        while since.elapsed() < self.behaviour(&pod.namespace().unwrap_or_default()).gone_after {
            tokio::time::sleep(HELD).await;
        }
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        for _ in 0..20 {
            match self.api(pod).delete(&pod.name_any(), &params).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return,
                Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
            }
        }
    }

    /// Starts what is no agent and no application: OLM's Jobs and catalogs, operators. Returns whether it was one.
    async fn begin_olms(&self, pod: &Pod) -> bool {
        while let Some(unpacked) = self.launcher.unpack(pod).await {
            let Err(why) = unpacked else {
                self.write(pod, succeeded(pod)).await;
                return true;
            };
            // As a real one: a pull that failed is tried again.
            eprintln!("the unpack Pod {} has failed and is tried again: {why}", pod.name_any());
            if !self.write(pod, waiting(pod, "ImagePullBackOff", &format!("Back-off pulling image: {why}"), 0)).await {
                return true;
            }
            tokio::time::sleep(AGAIN).await;
        }
        if self.launcher.is_operator(pod) {
            let status = match self.launcher.launch(&self.client, pod).await {
                Ok(()) => running(pod, true),
                Err(why) => waiting(pod, "ImagePullBackOff", &format!("Back-off pulling image: {why}"), 0),
            };
            self.write(pod, status).await;
            return true;
        }
        if let Some(started) = self.launcher.catalog(pod).await {
            let status = match started {
                Ok(digest) => of_image(running(pod, true), &digest),
                Err(why) => waiting(pod, "ImagePullBackOff", &format!("Back-off pulling image: {why}"), 0),
            };
            self.write(pod, status).await;
            return true;
        }
        false
    }

    fn fault(&self, pod: &Pod, version: Option<&String>) -> Option<Fault> {
        self.behaviour(&pod.namespace().unwrap_or_default()).fault(pod, version)
    }

    async fn begin(&self, pod: &Pod) {
        if self.begin_olms(pod).await || self.begin_containers(pod).await {
            return;
        }
        let behaviour = self.behaviour(&pod.namespace().unwrap_or_default());
        let node = pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default();
        let installer = installer_url(pod).and_then(|url| self.vendor.installer(&url));
        let offered = installer.as_ref().map(|(_, version)| version.clone());
        let mut version = offered.or_else(|| environment::version_of_first(pod));
        // What external trouble keeps from starting is tried again until it starts, or is gone.
        loop {
            let held = match self.fault(pod, version.as_ref()) {
                Some(Fault::Refused) => {
                    let message = "Node didn't have enough resource: cpu, requested: 100, used: 950, capacity: 1000";
                    json!({ "phase": "Failed", "reason": "OutOfcpu", "message": message })
                }
                Some(Fault::ImagePull) => {
                    waiting(pod, "ImagePullBackOff", "Back-off pulling image: manifest unknown", 0)
                }
                _ => match self.resolve(pod, environment::of_first(pod)).await {
                    Err(why) => waiting(pod, "CreateContainerConfigError", &why, 0),
                    Ok(environment) => {
                        version = version.or_else(|| environment.get("MESSAGE").cloned());
                        let uid = pod.uid().unwrap_or_default();
                        self.environments.lock().expect("environments").insert(uid, environment);
                        break;
                    }
                },
            };
            if !self.write(pod, held).await {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
        let fault = || self.fault(pod, version.as_ref());
        if !self.initialize(pod, fault).await {
            return;
        }
        if let Some(Fault::SlowPull(late)) = fault() {
            if !self.write(pod, waiting(pod, "ContainerCreating", "", 0)).await {
                return;
            }
            tokio::time::sleep(late).await;
        }
        match fault() {
            Some(Fault::CrashLoop) => {
                if !self.crash(pod, "agent terminated", || fault() == Some(Fault::CrashLoop)).await {
                    return;
                }
            }
            Some(Fault::NeverReady) => {
                self.write(pod, running(pod, false)).await;
                return;
            }
            Some(Fault::KillsNode) => {
                self.write(pod, running(pod, false)).await;
                self.kill_node(pod).await;
                return;
            }
            Some(Fault::Held) => {
                self.write(pod, running(pod, false)).await;
                while fault() == Some(Fault::Held) {
                    tokio::time::sleep(AGAIN).await;
                }
            }
            Some(Fault::Slow(late)) => {
                self.write(pod, running(pod, false)).await;
                tokio::time::sleep(late).await;
            }
            _ => {
                if behaviour.ready_after > Duration::from_secs(1) {
                    self.write(pod, running(pod, false)).await;
                }
                tokio::time::sleep(behaviour.ready_after).await;
            }
        }
        if let Some((environment, version)) = &installer
            && !self.install_agent(pod, &node, environment, version).await
        {
            return;
        }
        let environment = self.environment(pod).unwrap_or_default();
        let mut status = running(pod, true);
        if let Some(ip) = self.launcher.serve(pod, &environment).await {
            (status["podIP"], status["podIPs"]) = (ip.clone().into(), json!([{ "ip": ip }]));
        }
        self.write(pod, status).await;
        match fault() {
            Some(Fault::CrashesAfter(later)) => {
                tokio::time::sleep(later).await;
                self.crash(pod, "agent terminated", || true).await;
            }
            Some(Fault::KillsNodeAfter(later)) => {
                tokio::time::sleep(later).await;
                if self.write(pod, running(pod, false)).await {
                    self.kill_node(pod).await;
                }
            }
            _ => {}
        }
    }

    /// The node is gone, as the node lifecycle controller sees it: NotReady, and so are its Pods.
    async fn kill_node(&self, pod: &Pod) {
        let node = pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default();
        crate::nodes::set_ready(&self.client, &node, false).await;
    }

    /// It fails and is started again, with the restarts that a real one shows, until `goes_on` says no. Returns whether
    /// it is still there.
    async fn crash(&self, pod: &Pod, why: &str, goes_on: impl Fn() -> bool) -> bool {
        self.write(pod, running(pod, false)).await;
        for restarts in 1.. {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let message = format!("back-off 10s restarting failed container: {why}");
            if restarts <= 3 && !self.write(pod, waiting(pod, "CrashLoopBackOff", &message, restarts)).await {
                return false;
            }
            if restarts > 3 {
                tokio::time::sleep(AGAIN).await;
                if !goes_on() {
                    return true;
                }
                if self.api(pod).get_opt(&pod.name_any()).await.ok().flatten().is_none_or(|now| now.uid() != pod.uid())
                {
                    return false;
                }
            }
        }
        false
    }

    /// Writes a Pod's status; returns whether the Pod is still there.
    async fn write(&self, pod: &Pod, status: Value) -> bool {
        let status = self.with_times(pod, status);
        for _ in 0..20 {
            let change = json!({ "metadata": { "uid": pod.uid() }, "status": status });
            match self.api(pod).patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(change)).await
            {
                Ok(now) => return now.metadata.deletion_timestamp.is_none(),
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return false,
                // An API server that restarts, or closes an idle connection.
                Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
            }
        }
        false
    }

    /// As a real one: a Pod is taken on once, and a condition's time changes only with its status.
    fn with_times(&self, pod: &Pod, mut status: Value) -> Value {
        let mut all = self.times.lock().expect("times");
        let times = all
            .entry(pod.uid().unwrap_or_default())
            .or_insert_with(|| Times { start: now(), conditions: HashMap::new() });
        if status.get("startTime").is_some() {
            status["startTime"] = times.start.clone().into();
        }
        for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
            let (type_, holds) = (text("type"), text("status"));
            let known = times.conditions.entry(type_).or_insert_with(|| (holds.clone(), now()));
            if known.0 != holds {
                *known = (holds, now());
            }
            condition["lastTransitionTime"] = known.1.clone().into();
        }
        status
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}
