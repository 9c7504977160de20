//! What the containers of a Pod are, as its spec says.
//!
//! Data. Must not start one.

use k8s_openapi::api::core::v1::{EnvVar, Pod, SecurityContext, VolumeMount};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What a container is, as its spec says.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) words: Vec<String>,
    /// Whether these replace what the image runs.
    pub(super) has_command: bool,
    pub(super) probe: Option<Probe>,
    pub(super) env: Vec<EnvVar>,
    pub(super) volumes: Vec<VolumeMount>,
    pub(super) security: Option<SecurityContext>,
    pub(super) target: Option<String>,
}

/// What its readiness probe asks.
#[derive(Clone)]
pub(super) enum Probe {
    /// Whether this succeeds in it.
    Runs(Vec<String>),
    /// Whether it listens there.
    Listens(i32),
}

impl Probe {
    /// What tells that, in the container.
    pub(super) fn words(&self, address: &str) -> Vec<String> {
        match self {
            Self::Runs(words) => words.clone(),
            Self::Listens(port) => {
                let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
                ["bash", "-c", &connect].map(str::to_owned).to_vec()
            }
        }
    }
}

fn probe(probe: k8s_openapi::api::core::v1::Probe) -> Option<Probe> {
    let runs = probe.exec.and_then(|exec| exec.command).map(Probe::Runs);
    runs.or_else(|| match probe.tcp_socket?.port {
        IntOrString::Int(port) => Some(Probe::Listens(port)),
        IntOrString::String(_) => None,
    })
}

/// Its init containers, or its others.
pub(super) fn specs(pod: &Pod, first: bool) -> Vec<Spec> {
    let spec = pod.spec.clone().unwrap_or_default();
    let containers = if first { spec.init_containers.unwrap_or_default() } else { spec.containers };
    let spec = |one: k8s_openapi::api::core::v1::Container| Spec {
        name: one.name,
        image: one.image.unwrap_or_default(),
        has_command: one.command.as_ref().is_some_and(|command| !command.is_empty()),
        probe: one.readiness_probe.and_then(probe),
        words: [one.command.unwrap_or_default(), one.args.unwrap_or_default()].concat(),
        env: one.env.unwrap_or_default(),
        volumes: one.volume_mounts.unwrap_or_default(),
        security: one.security_context,
        target: None,
    };
    containers.into_iter().map(spec).collect()
}

/// Containers that joined it.
pub(super) fn joined(pod: &Pod) -> Vec<Spec> {
    let joined = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.clone()).unwrap_or_default();
    let spec = |one: k8s_openapi::api::core::v1::EphemeralContainer| Spec {
        name: one.name,
        image: one.image.unwrap_or_default(),
        has_command: one.command.as_ref().is_some_and(|command| !command.is_empty()),
        probe: None,
        words: [one.command.unwrap_or_default(), one.args.unwrap_or_default()].concat(),
        env: one.env.unwrap_or_default(),
        volumes: one.volume_mounts.unwrap_or_default(),
        security: one.security_context,
        target: one.target_container_name,
    };
    joined.into_iter().map(spec).collect()
}
