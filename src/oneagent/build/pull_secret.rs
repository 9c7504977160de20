//! The pull secret of an environment's registry: who the environment is, and the token that downloads.
//!
//! Pure. Here because the registry takes the same token as the installer's download. Must not be logged: its `Debug`
//! shows no password.

use base64::Engine as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

/// Key of a pull secret's content.
pub const KEY: &str = ".dockerconfigjson";

/// A pull secret to write.
#[derive(Debug, Clone)]
pub struct PullSecret {
    pub name: String,
    /// The OneAgent, with which it is deleted.
    pub owner: OwnerReference,
    pub content: SecretString,
    /// Whether it is there, with an older content.
    pub is_there: bool,
}

/// Content of a pull secret for the host of a registry.
#[must_use]
pub fn content(registry: &str, user: &str, password: &SecretString) -> SecretString {
    let host = registry.split('/').next().unwrap_or_default();
    let password = password.expose_secret();
    let auth = encode(&format!("{user}:{password}"));
    let config = json!({ "auths": { host: { "username": user, "password": password, "auth": auth } } });
    SecretString::from(config.to_string())
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Whether a pull secret has something for the host of a registry.
#[must_use]
pub fn is_for(content: &SecretString, registry: &str) -> bool {
    let host = registry.split('/').next().unwrap_or_default();
    serde_json::from_str::<Value>(content.expose_secret()).is_ok_and(|config| !config["auths"][host].is_null())
}

impl PullSecret {
    /// What changes in a Secret that is there: whose it is stays, for OpenShift lets only those change that who may
    /// delete it.
    #[must_use]
    pub fn change(&self) -> Value {
        json!({ "data": { KEY: encode(self.content.expose_secret()) } })
    }

    /// The Secret as it is made.
    #[must_use]
    pub fn object(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": self.name, "namespace": namespace, "ownerReferences": [self.owner],
            "labels": { "dynatrace": "oneagent" } },
            "data": { KEY: encode(self.content.expose_secret()) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registrys_host_is_named_and_the_password_is_not_shown() {
        let content = content("host.example:8443/e/abc", "abc", &"secret".to_owned().into());
        let config: Value = serde_json::from_str(content.expose_secret()).unwrap();
        assert_eq!(config["auths"]["host.example:8443"]["auth"], "YWJjOnNlY3JldA==");
        assert!(is_for(&content, "host.example:8443/e/other") && !is_for(&content, "other.example/e/abc"));
        assert!(
            !is_for(&"{}".to_owned().into(), "host.example:8443")
                && !is_for(&"x".to_owned().into(), "host.example:8443")
        );
        let secret = PullSecret { name: "p".into(), owner: OwnerReference::default(), content, is_there: false };
        assert!(!format!("{secret:?}").contains("secret\""), "{secret:?}");
    }
}
