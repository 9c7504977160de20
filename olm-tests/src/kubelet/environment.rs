//! A container's environment, as a real kubelet makes it: taken from Secrets and ConfigMaps when the container starts,
//! and never again.
//!
//! Must not start anything.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Pod};
use kube::ResourceExt;
use kube::api::Api;

use super::Kubelet;

pub(super) type Environment = BTreeMap<String, String>;

/// The variables of a Pod's first container.
pub(super) fn of_first(pod: &Pod) -> Vec<EnvVar> {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first().cloned()).unwrap_or_default();
    container.env.unwrap_or_default()
}

/// What the first container is a version of: what it says, or its image's tag. What it has from elsewhere is not
/// known yet.
pub(super) fn version_of_first(pod: &Pod) -> Option<String> {
    if let Some(said) = of_first(pod).into_iter().find(|one| one.name == "MESSAGE") {
        return said.value;
    }
    let image = pod.spec.as_ref()?.containers.first()?.image.as_deref()?;
    image.rsplit_once(':').map(|(_, tag)| tag.to_owned())
}

impl Kubelet {
    /// A container's environment, or why it cannot be made: what it names is missing.
    pub(super) async fn resolve(&self, pod: &Pod, variables: Vec<EnvVar>) -> Result<Environment, String> {
        let mut environment = Environment::new();
        for variable in variables {
            let name = variable.name.clone();
            if let Some(value) = self.value(pod, variable).await? {
                environment.insert(name, value);
            }
        }
        Ok(environment)
    }

    async fn value(&self, pod: &Pod, variable: EnvVar) -> Result<Option<String>, String> {
        let namespace = pod.namespace().unwrap_or_default();
        let Some(from) = variable.value_from else { return Ok(variable.value) };
        if let Some(wanted) = from.secret_key_ref {
            // Only whether it is there, so that what a watch shows is enough.
            let secret = self.secrets.get(&self.client, &namespace, &wanted.name).await;
            let secret = secret.ok_or_else(|| format!("secret \"{}\" not found", wanted.name))?;
            let has_key = secret.data.as_ref().is_some_and(|data| data.contains_key(&wanted.key));
            return if has_key {
                Ok(None)
            } else {
                Err(format!("couldn't find key {} in Secret {}", wanted.key, wanted.name))
            };
        }
        let Some(wanted) = from.config_map_key_ref else { return Ok(None) };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        match api.get_opt(&wanted.name).await {
            Ok(None) if wanted.optional == Some(true) => Ok(None),
            Ok(None) => Err(format!("configmap \"{}\" not found", wanted.name)),
            Ok(Some(found)) => match found.data.unwrap_or_default().remove(&wanted.key) {
                None => Err(format!("couldn't find key {} in ConfigMap {}", wanted.key, wanted.name)),
                value => Ok(value),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// What a Pod's container was started with; `None`: it was not.
    #[must_use]
    pub fn environment(&self, pod: &Pod) -> Option<BTreeMap<String, String>> {
        self.environments.lock().expect("environments").get(&pod.uid().unwrap_or_default()).cloned()
    }
}
