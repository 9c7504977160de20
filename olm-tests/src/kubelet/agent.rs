//! What happens on a host when an agent's container starts: the installer is downloaded and run, and the host reports.
//!
//! Must not know what the operator intends.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use kube::{Client, ResourceExt};
use oneagent_operator::api::name::Version;

use super::status::initializing;
use super::{AGAIN, Fault, Kubelet};
use crate::vendor::Mood;

impl Kubelet {
    /// Runs its init containers; returns whether the Pod is still there.
    pub(super) async fn initialize(&self, pod: &Pod, fault: impl Fn() -> Option<Fault>) -> bool {
        for restarts in 1.. {
            let held = match fault() {
                Some(Fault::InitCrash) => {
                    initializing(pod, "CrashLoopBackOff", "back-off 10s restarting failed container", restarts)
                }
                Some(Fault::InitPull) => {
                    initializing(pod, "ImagePullBackOff", "Back-off pulling image: manifest unknown", 0)
                }
                _ => break,
            };
            if !self.write(pod, held).await {
                return false;
            }
            tokio::time::sleep(AGAIN).await;
        }
        true
    }

    /// Installs an agent; returns whether its Pod is still there.
    pub(super) async fn install_agent(&self, pod: &Pod, node: &str, environment: &str, version: &str) -> bool {
        let is_there =
            || self.vendor.with(environment, |e| e.mood == Mood::Well && e.offered.iter().any(|o| o == version));
        if !is_there() && !self.crash(pod, "the installer cannot be downloaded", || !is_there()).await {
            return false;
        }
        if let Ok(parsed) = version.parse::<Version>() {
            let refuses = || {
                let refuses = self.behaviour(&pod.namespace().unwrap_or_default()).refuse_downgrade;
                refuses && self.installed(node).is_some_and(|before| before > parsed)
            };
            if refuses() && !self.crash(pod, "a newer agent is installed: refusing due to downgrade", refuses).await {
                return false;
            }
            self.install(node, parsed);
        }
        if let Some(ip) = host_ip(&self.client, node).await {
            let url = installer_url(pod).unwrap_or_default();
            let zone = url.split('&').find_map(|part| part.strip_prefix("networkZone="));
            let host = zone.map_or_else(|| ip.clone(), |zone| format!("{ip}@{zone}"));
            self.vendor.with(environment, |e| drop(e.hosts.insert(host, version.to_owned())));
        }
        true
    }
}

async fn host_ip(client: &Client, node: &str) -> Option<String> {
    let node = Api::<Node>::all(client.clone()).get(node).await.ok()?;
    node.status?.addresses?.into_iter().find(|a| a.type_ == "InternalIP").map(|a| a.address)
}

pub(super) fn installer_url(pod: &Pod) -> Option<String> {
    let env = pod.spec.as_ref()?.containers.first()?.env.as_ref()?;
    env.iter().find(|e| e.name == "ONEAGENT_INSTALLER_SCRIPT_URL")?.value.clone()
}
