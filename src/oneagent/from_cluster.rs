//! What the cluster, and not the spec, gives to the agents' Pods: the SCC that they ask for, the cluster's proxy, its
//! certificates.
//!
//! Put on top of a template that is hashed already: a change of the cluster restarts no agent, and reaches those that
//! are created again. Kept in the DaemonSet's record, for a cluster that cannot be asked has not changed. Pure. Must
//! not decide what is taken.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EnvVar, KeyToPath, PodTemplateSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::openshift::cluster::{BUNDLE, INJECT, REQUIRED_SCC};
use crate::openshift::proxy::ClusterProxy;

/// Name of the volume with certificates.
const CERTS: &str = "certs";
/// Where the installer looks for certificates.
const CERTS_PATH: &str = "/mnt/dynatrace/certs";

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FromCluster {
    /// The SCC that Pods ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ClusterProxy>,
    /// Name of the ConfigMap with the cluster's certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<String>,
}

impl FromCluster {
    /// Whether there is nothing of it.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Puts it on a template. What the user says takes precedence.
    pub fn put_on(&self, template: &mut PodTemplateSpec) {
        if let Some(scc) = &self.scc {
            let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
            annotations.entry(REQUIRED_SCC.to_owned()).or_insert_with(|| scc.clone());
        }
        let Some(spec) = &mut template.spec else { return };
        if let Some(name) = &self.certificates
            && !spec.volumes.iter().flatten().any(|volume| volume.name == CERTS)
        {
            let mut volume = certificates(name, BUNDLE);
            // A Pod must not wait for it.
            volume.config_map.get_or_insert_default().optional = Some(true);
            spec.volumes.get_or_insert_default().push(volume);
            for container in &mut spec.containers {
                container.volume_mounts.get_or_insert_default().push(mount());
            }
        }
        for container in &mut spec.containers {
            self.proxy_for(container);
        }
    }

    fn proxy_for(&self, container: &mut Container) {
        let Some(proxy) = &self.proxy else { return };
        let has_argument = container.args.iter().flatten().any(|argument| argument.starts_with("--set-proxy"));
        let env = container.env.get_or_insert_default();
        if has_argument || env.iter().any(|variable| variable.name == "https_proxy") {
            return;
        }
        let variable = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
        env.push(variable("https_proxy", proxy.url.clone()));
        let theirs = env.iter_mut().find(|variable| variable.name == "no_proxy");
        match theirs {
            // It is defined elsewhere, and cannot be added to.
            Some(theirs) if theirs.value_from.is_some() => {}
            Some(theirs) => theirs.value = Some(proxy.without(theirs.value.as_deref())),
            None if proxy.no_proxy.is_empty() => {}
            None => env.push(variable("no_proxy", proxy.no_proxy.clone())),
        }
        container.args.get_or_insert_default().push("--set-proxy=$(https_proxy)".into());
    }
}

/// The volume with certificates out of a ConfigMap.
#[must_use]
pub fn certificates(config_map: &str, key: &str) -> Volume {
    let items = vec![KeyToPath { key: key.into(), path: "certs.pem".into(), mode: None }];
    Volume {
        name: CERTS.into(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.into(),
            items: Some(items),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Where a container has it.
#[must_use]
pub fn mount() -> VolumeMount {
    VolumeMount { name: CERTS.into(), mount_path: CERTS_PATH.into(), ..VolumeMount::default() }
}

/// The ConfigMap into which OpenShift puts the cluster's certificates.
#[must_use]
pub fn bundle(namespace: &str, name: &str, owner: &OwnerReference) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": bundle_name(name), "namespace": namespace,
            "labels": { "dynatrace": "oneagent", INJECT: "true" },
            "ownerReferences": [owner],
        },
    })
}

/// Its name.
#[must_use]
pub fn bundle_name(name: &str) -> String {
    format!("{name}-trusted-ca")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(env: &Value) -> PodTemplateSpec {
        let template = json!({ "spec": { "containers": [{ "name": "c", "env": env }] } });
        serde_json::from_value(template).unwrap()
    }

    fn cluster() -> ClusterProxy {
        let status = json!({ "httpProxy": "http://p:1", "httpsProxy": "http://p:2", "noProxy": ".svc,10.0.0.0/8" });
        ClusterProxy::of(&json!({ "status": status })).unwrap()
    }

    #[test]
    fn the_clusters_proxy_reaches_the_installer_after_the_users_own() {
        let from = FromCluster { proxy: Some(cluster()), ..FromCluster::default() };
        let env = |theirs: Value| {
            let mut template = template(&theirs);
            from.put_on(&mut template);
            let container = template.spec.unwrap().containers.remove(0);
            let env = container.env.unwrap().into_iter().map(|v| format!("{}={}", v.name, v.value.unwrap()));
            (env.collect::<Vec<_>>(), container.args.unwrap_or_default())
        };
        let (plain, args) = env(json!([{ "name": "no_proxy", "value": "mine, .svc" }]));
        assert_eq!(plain, ["no_proxy=mine,.svc,10.0.0.0/8", "https_proxy=http://p:2"]);
        assert_eq!(args, ["--set-proxy=$(https_proxy)"]);
        let (own, args) = env(json!([{ "name": "https_proxy", "value": "http://own" }]));
        assert_eq!((own, args), (vec!["https_proxy=http://own".to_owned()], Vec::new()));
        assert!(!format!("{from:?}").contains("http://p"), "an address may hold a password");
        assert_eq!(ClusterProxy::of(&json!({ "status": {} })), None);
    }

    #[test]
    fn certificates_are_optional_and_an_administrators_own_scc_stays() {
        let from = FromCluster {
            scc: Some("privileged".into()),
            certificates: Some("a-trusted-ca".into()),
            ..FromCluster::default()
        };
        let mut plain = template(&json!([]));
        plain.metadata.get_or_insert_default().annotations =
            Some([(REQUIRED_SCC.to_owned(), "site".to_owned())].into());
        from.put_on(&mut plain);
        let value = serde_json::to_value(&plain).unwrap();
        assert_eq!(value["metadata"]["annotations"][REQUIRED_SCC], "site");
        assert_eq!(value["spec"]["volumes"][0]["configMap"]["optional"], true);
        assert_eq!(value["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], CERTS_PATH);
        // A ConfigMap of the user's takes precedence.
        let mut own = template(&json!([]));
        own.spec.as_mut().unwrap().volumes = Some(vec![certificates("own", "certs")]);
        from.put_on(&mut own);
        assert_eq!(own.spec.unwrap().volumes.unwrap().len(), 1);
    }
}
