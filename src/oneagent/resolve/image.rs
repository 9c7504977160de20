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
    /// The tag, where the spec says it: in its image, or in `agentVersion`.
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
    if let Some(image) = text(spec.image.as_ref()) {
        return Some(FromImage { registry: None, custom_secret, tag: tag(&image) });
    }
    // A pin determines the tag; without one the field is the tag, as the original had it, version or not.
    let pinned = spec.update.as_ref().is_some_and(|update| text(update.version.as_ref()).is_some());
    let tag = text(spec.agent_version.as_ref()).filter(|_| !pinned);
    if let Some(tag) = tag.as_ref().filter(|tag| !is_tag(tag)) {
        wrong.push(Refusal(format!(
            "spec.agentVersion is {tag:?}, which with spec.useImmutableImage is the tag of the agent's image: at most \
            128 letters, digits, dots, dashes and underscores, such as 1.301.72"
        )));
    }
    let registry = api_url.split_once("://").map_or(api_url, |(_, rest)| rest);
    let registry = registry.strip_suffix("/api").unwrap_or(registry).to_owned();
    if !names_a_registry(&registry) {
        wrong.push(Refusal(format!(
            "spec.useImmutableImage takes the agent's image from the registry {registry:?}, made from spec.apiUrl, \
            and that is not the beginning of an image's name (a host with a dot or a port; then lower-case letters, \
            digits, single dots, dashes and underscores); name the image in spec.image"
        )));
    }
    Some(FromImage { registry: Some(registry), custom_secret, tag })
}

/// Whether `host[:port][/path]` can begin an image's name: the container runtimes' grammar, which has no room for
/// `[::1]`.
fn names_a_registry(text: &str) -> bool {
    let mut parts = text.split('/');
    let host = parts.next().unwrap_or_default();
    let (host, port) = host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port)));
    let label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(label.as_bytes().first())
            && edge(label.as_bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let segment = |segment: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = segment.as_bytes();
        let edges = bytes.first().is_some_and(|b| plain(*b)) && bytes.last().is_some_and(|b| plain(*b));
        edges
            && bytes.iter().all(|b| plain(*b) || b"._-".contains(b))
            && !segment.contains("..")
            && !segment.contains("___")
    };
    // A first part without dot or port is taken for a name on Docker Hub.
    (host.contains('.') || port.is_some() || host == "localhost")
        && host.split('.').all(label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        && parts.all(segment)
}

/// Whether a text can be a tag.
fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || b".-".contains(&byte))
}

/// The tag of an image. A digest is none.
pub(super) fn tag(image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?.split('@').next()?;
    Some(name.split_once(':')?.1.to_owned())
}
