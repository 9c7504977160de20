//! The agent as an image: whose, from which registry, pulled with which secret.
//!
//! Pure. What becomes a part of an image's name is checked here, for a runtime would complain on every node.

use super::{Refusal, text};
use crate::api::oneagent::OneAgentSpec;

/// An agent that comes as an image of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromImage {
    /// The environment's registry, `host[:port][/path]`; `None` where the spec names the image.
    pub registry: Option<String>,
    /// The user's pull secret.
    pub custom_secret: Option<String>,
    /// The tag of the user's image.
    pub tag: Option<String>,
}

impl FromImage {
    /// Name of the pull secret that the operator makes for a OneAgent; `None` where it makes none.
    #[must_use]
    pub fn own_secret(&self, name: &str) -> Option<String> {
        (self.registry.is_some() && self.custom_secret.is_none()).then(|| format!("{name}-pull-secret"))
    }

    /// Name of the pull secret that Pods use.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<String> {
        self.custom_secret.clone().or_else(|| self.own_secret(name))
    }
}

/// The registry of an environment is its address without scheme and `/api`.
pub(super) fn from_image(spec: &OneAgentSpec, api_url: &str, wrong: &mut Vec<Refusal>) -> Option<FromImage> {
    if spec.use_immutable_image != Some(true) {
        return None;
    }
    let custom_secret = text(spec.custom_pull_secret.as_ref());
    if text(spec.image.as_ref()).is_some() {
        return Some(FromImage { registry: None, custom_secret, tag: text(spec.image.as_ref()).and_then(|image| tag(&image)) });
    }
    let registry = api_url.split_once("://").map_or(api_url, |(_, rest)| rest);
    let registry = registry.strip_suffix("/api").unwrap_or(registry).to_owned();
    if !names_a_registry(&registry) {
        wrong.push(Refusal(format!(
            "spec.useImmutableImage takes the agent's image from the registry {registry:?}, made from spec.apiUrl, and that is not the beginning of an image's name (a host with a dot or a port; then lower-case letters, digits, single dots, dashes and underscores); name the image in spec.image"
        )));
    }
    Some(FromImage { registry: Some(registry), custom_secret, tag: None })
}

/// Whether `host[:port][/path]` can begin an image's name: the container runtimes' grammar, which has no room for `[::1]`.
fn names_a_registry(text: &str) -> bool {
    let mut parts = text.split('/');
    let host = parts.next().unwrap_or_default();
    let (host, port) = host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port)));
    let label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(label.as_bytes().first()) && edge(label.as_bytes().last()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let segment = |segment: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = segment.as_bytes();
        let edges = bytes.first().is_some_and(|b| plain(*b)) && bytes.last().is_some_and(|b| plain(*b));
        edges && bytes.iter().all(|b| plain(*b) || b"._-".contains(b)) && !segment.contains("..") && !segment.contains("___")
    };
    // A first part without dot or port is taken for a name on Docker Hub.
    (host.contains('.') || port.is_some() || host == "localhost")
        && host.split('.').all(label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        && parts.all(segment)
}

/// The tag of an image. A digest is none.
pub(super) fn tag(image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?.split('@').next()?;
    Some(name.split_once(':')?.1.to_owned())
}
