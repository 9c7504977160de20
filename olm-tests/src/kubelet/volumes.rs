//! Volumes of a container: emptyDirs, ConfigMaps, Secrets, both projected to one folder, and claims. Others are none
//! here.
//!
//! Must not start a container.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Volume, VolumeMount};
use kube::ResourceExt;
use kube::api::Api;

use super::Kubelet;
use crate::sandbox::{Sandbox, persistent};

/// The ConfigMaps and Secrets of a volume, by name.
fn sources(volume: &Volume) -> (Vec<String>, Vec<String>) {
    let all = || volume.projected.iter().flat_map(|all| all.sources.iter().flatten());
    // No program here asks the API server from within a Pod.
    let has_token = all().any(|source| source.service_account_token.is_some());
    let projected = all().filter(|_| !has_token);
    let own_map = volume.config_map.as_ref().map(|map| map.name.clone());
    let own_secret = volume.secret.as_ref().and_then(|secret| secret.secret_name.clone());
    let maps = projected.clone().filter_map(|source| Some(source.config_map.as_ref()?.name.clone()));
    let secrets = projected.filter_map(|source| Some(source.secret.as_ref()?.name.clone()));
    (own_map.into_iter().chain(maps).collect(), own_secret.into_iter().chain(secrets).collect())
}

/// As kubelets do: a file is there as a whole, or not at all.
fn bring(folder: &Path, name: &str, bytes: &[u8]) {
    let part = folder.join(format!("..{name}"));
    std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, folder.join(name))).expect("a file");
}

impl Kubelet {
    /// Where a container's volumes are, and where it mounts them; with the files that they have now.
    pub(super) async fn mounts(&self, pod: &Pod, sandbox: &Sandbox, wanted: &[VolumeMount]) -> Vec<(PathBuf, String)> {
        let mut mounts = Vec::new();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let (maps, secrets) = sources(volume);
            let is_known = !maps.is_empty()
                || !secrets.is_empty()
                || volume.empty_dir.is_some()
                || volume.persistent_volume_claim.is_some();
            let mount = wanted.iter().find(|mount| mount.name == volume.name && is_known);
            let Some(mount) = mount else { continue };
            let folder = match &volume.persistent_volume_claim {
                Some(claim) => self.claimed(pod, &claim.claim_name).await,
                None => sandbox.volume(&volume.name),
            };
            self.fill(pod, &folder, (&maps, &secrets)).await;
            mounts.push((folder, mount.mount_path.clone()));
        }
        mounts
    }

    async fn fill(&self, pod: &Pod, folder: &Path, (maps, secrets): (&[String], &[String])) {
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        for name in maps {
            let found = api.get_opt(name).await.ok().flatten();
            for (key, text) in found.and_then(|found| found.data).unwrap_or_default() {
                bring(folder, &key, text.as_bytes());
            }
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        for name in secrets {
            let found = api.get_opt(name).await.ok().flatten();
            for (key, bytes) in found.and_then(|found| found.data).unwrap_or_default() {
                bring(folder, &key, &bytes.0);
            }
        }
    }

    /// The folder of the volume that a claim is bound to.
    async fn claimed(&self, pod: &Pod, claim: &str) -> PathBuf {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let found = claims.get(claim).await.expect("a claim: its Pod is bound to a node");
        persistent(&found.spec.and_then(|spec| spec.volume_name).expect("a claim that is bound"))
    }
}
