//! Pods whose containers are real processes: they start, end, are started again and joined, and their statuses say so
//! as a real kubelet's do.
//!
//! Which images these are says `images`. Must not know what a test wants.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{EnvVar, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Kubelet;
use super::shared::{HOLDER, holder, names_containers};
use super::spec::{Spec, joined, specs};
use super::status::{done, ended_for, init_containers, initializing, now};
use crate::jvm::image;
use crate::sandbox::{Container, Program, Sandbox, UNREADY};

/// How often processes and the Pod's spec are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What the end of a container ends takes no longer.
const TOGETHER: Duration = Duration::from_secs(5);
/// What ended is started again after so long, and twice as long each time.
const BACK_OFF: Duration = Duration::from_millis(500);
/// Readiness probes run again after so long, whatever their period: tests wait for them.
const PROBE: Duration = Duration::from_secs(1);
/// Those that take long rest for longer, and at most for what is Kubernetes' default.
const REST: Duration = Duration::from_secs(10);
/// And they take no longer than so.
const PROBE_SECONDS: u32 = 30;
/// A container that was ready is so until its probe has failed so often in a row, as with the real kubelet.
const FAILURES: u32 = 3;
/// The containers of a Pod share so many bytes for their last words.
const MESSAGES: usize = 12 << 10;
/// And none has more.
const MESSAGE: usize = 4096;

/// The Pods that run so, by UID.
#[derive(Clone, Default)]
pub struct Real(Arc<Mutex<HashMap<String, Arc<Running>>>>);

/// A Pod.
#[derive(Default)]
pub struct Running {
    /// Its containers, by name; those that joined it, too.
    containers: Mutex<BTreeMap<String, Container>>,
    is_ending: AtomicBool,
}

impl Real {
    /// What a test does to a container of a Pod.
    pub fn with<T>(&self, pod: &Pod, container: &str, look: impl FnOnce(&mut Container) -> T) -> Option<T> {
        let running = self.0.lock().expect("Pods").get(&pod.uid().unwrap_or_default()).cloned()?;
        let mut containers = running.containers.lock().expect("containers");
        containers.get_mut(container).map(look)
    }

    pub(super) fn stop(&self, pod: &Pod) {
        let running = self.0.lock().expect("Pods").remove(&pod.uid().unwrap_or_default());
        if let Some(running) = running {
            running.is_ending.store(true, Ordering::Relaxed);
            running.containers.lock().expect("containers").clear();
        }
    }
}

impl Running {
    /// Asks the containers whether they are ready.
    fn probe(&self, statuses: &mut BTreeMap<String, Status>) {
        let containers = self.containers.lock().expect("containers");
        for (name, status) in statuses {
            let is_ready = containers.get(name).is_some_and(|container| !container.tmp().join(UNREADY).exists());
            status.is_ready = is_ready && status.is_answering;
        }
    }

    /// Runs the readiness probes that are due.
    async fn ask(&self, specs: &[Spec], statuses: &mut BTreeMap<String, Status>, address: &str) {
        for spec in specs {
            let Some(probe) = &spec.probe else { continue };
            let Some(status) = statuses.get_mut(&spec.name) else { continue };
            if status.asked_again.is_some_and(|due| due > tokio::time::Instant::now()) {
                continue;
            }
            let asks = |one: &Container| one.command(&probe.words(address), PROBE_SECONDS);
            let command = self.containers.lock().expect("containers").get(&spec.name).and_then(asks);
            let Some(mut command) = command else {
                status.is_answering = false;
                continue;
            };
            let began = tokio::time::Instant::now();
            let answer = tokio::task::spawn_blocking(move || command.output()).await;
            let succeeds = answer.is_ok_and(|output| output.is_ok_and(|output| output.status.success()));
            status.failures = if succeeds { 0 } else { status.failures + 1 };
            status.is_answering = succeeds || (status.is_answering && status.failures < FAILURES);
            // A probe that starts a JVM of its own must not have a core to itself, least of all where all is well.
            let share = if status.is_answering { 4 } else { 1 };
            let rest = (began.elapsed() * share).clamp(PROBE, REST);
            status.asked_again = Some(tokio::time::Instant::now() + rest);
        }
    }

    /// Who joined a container that has ended is about to end with it.
    async fn await_joined(&self, all: &[Spec]) {
        let has_ended = |name: &str| {
            let mut containers = self.containers.lock().expect("containers");
            containers.get_mut(name).is_some_and(|one| one.ended().is_some())
        };
        let runs = |name: &str| self.containers.lock().expect("containers").contains_key(name) && !has_ended(name);
        for spec in all.iter().filter(|spec| spec.target.as_deref().is_some_and(has_ended)) {
            let until = tokio::time::Instant::now() + TOGETHER;
            while runs(&spec.name) && tokio::time::Instant::now() < until {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Takes note of a container that has ended; returns whether it is to be started again.
    fn note_end(
        &self,
        spec: &Spec,
        count: usize,
        looked_at: &str,
        statuses: &mut BTreeMap<String, Status>,
        due: &mut HashMap<String, tokio::time::Instant>,
    ) -> bool {
        let Some(status) = statuses.get_mut(&spec.name) else { return false };
        let mut containers = self.containers.lock().expect("containers");
        if let Some(code) = containers.get_mut(&spec.name).and_then(Container::ended) {
            let container = containers.remove(&spec.name).expect("a container");
            let mut ended = json!({
                "exitCode": code, "reason": ended_for(code, &container.tmp()),
                "startedAt": status.started, "finishedAt": looked_at, "containerID": status.id,
            });
            let message = container.message(MESSAGE.min(MESSAGES / count.max(1)));
            if !message.is_empty() {
                ended["message"] = message.into();
            }
            if spec.target.is_some() {
                status.state = json!({ "terminated": ended });
                return false;
            }
            let back_off = BACK_OFF * 2_u32.saturating_pow(u32::try_from(status.restarts).unwrap_or_default().min(6));
            due.insert(spec.name.clone(), tokio::time::Instant::now() + back_off);
            status.last = json!({ "terminated": ended });
            let message = "back-off restarting failed container";
            status.state = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
        }
        !containers.contains_key(&spec.name) && spec.target.is_none()
    }
}

/// A container's status.
#[derive(Clone, PartialEq)]
struct Status {
    restarts: i32,
    state: Value,
    last: Value,
    id: String,
    started: String,
    /// No test put a file `unready` into its `/tmp`, and its probe succeeds.
    is_ready: bool,
    /// What its probe, if it has one, found last.
    is_answering: bool,
    asked_again: Option<tokio::time::Instant>,
    /// How often its probe has failed in a row.
    failures: u32,
}

impl Kubelet {
    /// Starts a Pod whose images are known; returns whether it is one.
    pub(super) async fn begin_containers(&self, pod: &Pod) -> bool {
        let (before, specs) = (specs(pod, true), specs(pod, false));
        if specs.is_empty() || before.iter().chain(&specs).any(|spec| image(&spec.image).is_none()) {
            return false;
        }
        let spec = pod.spec.as_ref().expect("a spec");
        let node = spec.node_name.clone().filter(|_| spec.host_network == Some(true));
        let sandbox = tokio::task::spawn_blocking(|| node.map_or_else(Sandbox::new, |node| Sandbox::on_node(&node)));
        let Ok(sandbox) = sandbox.await else { return false };
        let running = Arc::new(Running::default());
        self.real.0.lock().expect("Pods").insert(pod.uid().unwrap_or_default(), running.clone());
        if let Some(holder) = holder(pod, &sandbox).await {
            running.containers.lock().expect("containers").insert(HOLDER.to_owned(), holder);
        }
        let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
        if !self.initialize_containers(pod, &sandbox, &running, &before).await {
            return true;
        }
        let address = sandbox.address.to_string();
        let first = done(init_containers(pod));
        let mut written = Value::Null;
        let mut due: HashMap<String, tokio::time::Instant> = HashMap::new();
        while !running.is_ending.load(Ordering::Relaxed) {
            if self.behaviour(&pod.namespace().unwrap_or_default()).is_silent {
                // Whatever others say of the Pod meanwhile, it says its own afterwards.
                written = Value::Null;
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let current = self.current(pod);
            let all: Vec<Spec> =
                specs.iter().cloned().chain(current.as_deref().map(joined).unwrap_or_default()).collect();
            // What follows may take its time; who ended with another says so by the same clock.
            running.await_joined(&all).await;
            let looked_at = now();
            for spec in &all {
                let is_due = due.get(&spec.name).is_none_or(|due| *due <= tokio::time::Instant::now());
                let is_new = statuses.get(&spec.name).is_none_or(|status| status.id.is_empty());
                let has_ended = running.note_end(spec, all.len(), &looked_at, &mut statuses, &mut due);
                if (is_new || has_ended) && is_due && (spec.target.is_none() || is_new) {
                    self.start_container(pod, &sandbox, &running, spec, &mut statuses).await;
                }
            }
            running.ask(&specs, &mut statuses, &address).await;
            running.probe(&mut statuses);
            let status = whole(pod, (&specs, &all), &statuses, (&first, &address));
            if status != written {
                if !self.write(pod, status.clone()).await {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                written = status;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Runs the init containers, one after the other, each until it has done its work; returns whether all have.
    async fn initialize_containers(&self, pod: &Pod, sandbox: &Sandbox, running: &Running, first: &[Spec]) -> bool {
        for spec in first {
            loop {
                let mut statuses = BTreeMap::new();
                self.start_container(pod, sandbox, running, spec, &mut statuses).await;
                let code = loop {
                    if running.is_ending.load(Ordering::Relaxed) {
                        return false;
                    }
                    // Kubelets bring what a ConfigMap has become; what waits for it here is an init container.
                    self.mounts(pod, sandbox, &spec.volumes).await;
                    tokio::time::sleep(LOOK * 4).await;
                    let mut containers = running.containers.lock().expect("containers");
                    match containers.get_mut(&spec.name) {
                        None => break Some(1),
                        Some(container) => {
                            if let Some(code) = container.ended() {
                                containers.remove(&spec.name);
                                break Some(code);
                            }
                        }
                    }
                };
                if code == Some(0) {
                    break;
                }
                self.write(pod, initializing(pod, "CrashLoopBackOff", "back-off restarting failed container", 1)).await;
                tokio::time::sleep(BACK_OFF).await;
            }
        }
        true
    }

    /// The Pod as the API server has it now.
    fn current(&self, pod: &Pod) -> Option<Arc<Pod>> {
        self.pods(&pod.namespace().unwrap_or_default()).into_iter().find(|now| now.uid() == pod.uid())
    }

    async fn start_container(
        &self,
        pod: &Pod,
        sandbox: &Sandbox,
        running: &Running,
        spec: &Spec,
        statuses: &mut BTreeMap<String, Status>,
    ) {
        let before = statuses.get(&spec.name).cloned();
        let waits = |reason: &str, message: &str| Status {
            restarts: 0,
            state: json!({ "waiting": { "reason": reason, "message": message } }),
            last: json!({}),
            id: String::new(),
            started: String::new(),
            is_ready: false,
            is_answering: false,
            asked_again: None,
            failures: 0,
        };
        let Some(image) = image(&spec.image) else {
            let message = format!("Back-off pulling image \"{}\"", spec.image);
            statuses.insert(spec.name.clone(), waits("ImagePullBackOff", &message));
            return;
        };
        let environment = match self.resolve(pod, spec.env.clone()).await {
            Ok(environment) => environment,
            Err(why) => {
                statuses.insert(spec.name.clone(), waits("CreateContainerConfigError", &why));
                return;
            }
        };
        let security = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
        let own = spec.security.clone().unwrap_or_default();
        let user = own.run_as_user.or(security.run_as_user).and_then(|user| u32::try_from(user).ok());
        let group = own.run_as_group.or(security.run_as_group).and_then(|group| u32::try_from(group).ok());
        let user = user.unwrap_or(image.user);
        let mut environment: Vec<(String, String)> = environment.into_iter().collect();
        let is_address = |one: &&EnvVar| {
            let from = one.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
            from.is_some_and(|from| from.field_path == "status.podIP")
        };
        let addresses = spec.env.iter().filter(is_address);
        environment.extend(addresses.map(|one| (one.name.clone(), sandbox.address.to_string())));
        let known = environment.clone();
        for (_, value) in &mut environment {
            *value = expanded(value, &known);
        }
        environment.extend(image.environment.clone());
        environment.extend(names_containers(pod, spec));
        let own_words = spec.words.iter().map(|word| expanded(word, &known)).collect();
        let program = Program {
            words: if spec.has_command { own_words } else { [image.words, own_words].concat() },
            image: image.folder,
            environment,
            user: (user, group.unwrap_or(user)),
            is_read_only: own.read_only_root_filesystem == Some(true),
            mounts: self.mounts(pod, sandbox, &spec.volumes).await,
        };
        let mut containers = running.containers.lock().expect("containers");
        if running.is_ending.load(Ordering::Relaxed) {
            return;
        }
        let beside = containers.get(spec.target.as_deref().unwrap_or(HOLDER));
        if spec.target.is_some() && beside.is_none() {
            return;
        }
        let started = now();
        let container = sandbox.start(&spec.name, &program, beside);
        let status = Status {
            restarts: before.as_ref().filter(|before| !before.id.is_empty()).map_or(0, |before| before.restarts + 1),
            state: json!({ "running": { "startedAt": started } }),
            last: before.map_or_else(|| json!({}), |before| before.last),
            id: format!("containerd://{}", container.id),
            started: started.clone(),
            is_ready: spec.probe.is_none(),
            is_answering: spec.probe.is_none(),
            asked_again: None,
            failures: 0,
        };
        containers.insert(spec.name.clone(), container);
        statuses.insert(spec.name.clone(), status);
    }
}

/// A text that names variables as `$(NAME)`.
fn expanded(text: &str, known: &[(String, String)]) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

/// The Pod's status.
fn whole(
    pod: &Pod,
    (own, all): (&[Spec], &[Spec]),
    statuses: &BTreeMap<String, Status>,
    (first, address): (&[Value], &str),
) -> Value {
    let creating = || json!({ "waiting": { "reason": "ContainerCreating" } });
    let status = |spec: &Spec| {
        let status = statuses.get(&spec.name);
        let is_running = status.is_some_and(|status| status.state.get("running").is_some());
        let is_ready = is_running && spec.target.is_none() && status.is_some_and(|status| status.is_ready);
        json!({
            "name": spec.name, "image": spec.image, "imageID": spec.image, "ready": is_ready,
            "started": is_running, "restartCount": status.map_or(0, |status| status.restarts),
            "containerID": status.map(|status| status.id.clone()).unwrap_or_default(),
            "state": status.map_or_else(creating, |status| status.state.clone()),
            "lastState": status.map_or_else(|| json!({}), |status| status.last.clone()),
        })
    };
    let containers: Vec<Value> = own.iter().map(status).collect();
    let joined: Vec<Value> = all.iter().filter(|spec| spec.target.is_some()).map(status).collect();
    let is_ready = containers.iter().all(|one| one["ready"] == true);
    let unready = if is_ready { Value::Null } else { "ContainersNotReady".into() };
    let condition = |type_: &str, holds: bool, reason: &Value| {
        let holds = if holds { "True" } else { "False" };
        json!({ "type": type_, "status": holds, "reason": reason })
    };
    json!({
        "phase": if statuses.values().any(|status| !status.id.is_empty()) { "Running" } else { "Pending" },
        "startTime": pod.metadata.creation_timestamp, "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [condition("PodReadyToStartContainers", true, &Value::Null),
            condition("Initialized", true, &Value::Null), condition("ContainersReady", is_ready, &unready),
            condition("Ready", is_ready, &unready), condition("PodScheduled", true, &Value::Null)],
        "initContainerStatuses": first, "containerStatuses": containers,
        "ephemeralContainerStatuses": joined,
    })
}
