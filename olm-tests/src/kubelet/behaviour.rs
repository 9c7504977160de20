//! How Pods behave, and fail, as a test says.
//!
//! Must not do any of it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// How a Pod fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It starts, fails, starts again, for as long as the fault is there.
    CrashLoop,
    /// It is Ready for so long, and then does that.
    CrashesAfter(Duration),
    /// Its node is NotReady once it has started, and stays so.
    KillsNode,
    /// It is Ready, and its node NotReady after so long.
    KillsNodeAfter(Duration),
    /// It starts and never becomes Ready.
    NeverReady,
    /// Its image cannot be pulled, for as long as the fault is there.
    ImagePull,
    /// The kubelet does not take it on: it has failed at once, and its controller makes another.
    Refused,
    /// It becomes Ready late.
    Slow(Duration),
    /// It starts, and is not Ready for as long as the fault is there.
    Held,
    /// Its image takes so long to be pulled that its container is started late.
    SlowPull(Duration),
    /// Its first init container starts, fails, starts again, for as long as the fault is there.
    InitCrash,
    /// The image of its first init container cannot be pulled, for as long as the fault is there.
    InitPull,
}

/// How Pods of a namespace behave.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// From bound to Ready.
    pub ready_after: Duration,
    /// From deleted to gone; what is on its way follows it when it is changed.
    pub gone_after: Duration,
    /// Faults by agent version, or by the MESSAGE that a container was started with.
    pub versions: HashMap<String, Fault>,
    /// Faults by node.
    pub nodes: HashMap<String, Fault>,
    /// Faults by what a Pod's name begins with.
    pub pods: HashMap<String, Fault>,
    /// Faults by a word of a container's command: what such a Pod does, its template alone changes.
    pub commands: HashMap<String, Fault>,
    /// Versions whose end takes the node with it.
    pub deadly_stops: HashSet<String>,
    /// Whether the kubelets of Pods with real processes have fallen silent: they start nothing, and say nothing.
    pub is_silent: bool,
    /// Whether hosts refuse an agent older than the newest that was installed on them.
    pub refuse_downgrade: bool,
}

impl Behaviour {
    /// How a Pod of a version fails.
    pub(super) fn fault(&self, pod: &Pod, version: Option<&String>) -> Option<Fault> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let by_node = node.and_then(|node| self.nodes.get(node));
        let by_name = || self.pods.iter().find(|(begin, _)| pod.name_any().starts_with(*begin)).map(|(_, fault)| fault);
        let by_version = || version.and_then(|version| self.versions.get(version));
        let words = || pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|one| one.command.iter().flatten());
        let by_command = || words().find_map(|word| self.commands.get(word));
        by_node.or_else(by_name).or_else(by_command).or_else(by_version).copied()
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            ready_after: Duration::from_millis(300),
            gone_after: Duration::from_millis(50),
            versions: HashMap::new(),
            nodes: HashMap::new(),
            pods: HashMap::new(),
            commands: HashMap::new(),
            deadly_stops: HashSet::new(),
            is_silent: false,
            refuse_downgrade: true,
        }
    }
}
