//! Observe: the configuration as it is now.
//!
//! Must not decide what becomes of a change.

use secrecy::ExposeSecret;
use sha2::{Digest as _, Sha256};

use super::context::Cx;
use super::resolve::Resolved;
use crate::attach::config::checked;
use crate::k8s::hex::hex;
use crate::kernel::named::Lookup;
use crate::kernel::{NamedKind, Reference};

/// Which configuration: UID and resourceVersion of the ConfigMap, and the key.
pub type Version = (String, String, String);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Its SHA-256, as hexadecimal digits.
    Found(String),
    /// There is no such ConfigMap.
    Absent,
    /// It lacks the key.
    KeyAbsent,
    /// It could end a JVM, or is not YAML.
    Rejected(String),
    /// Whatever it is: the operator does not know its own image.
    NoImage,
    /// It cannot be read; the API server's words.
    Unread(String),
}

/// What a plan is made from, beside the fleet.
#[derive(Debug)]
pub struct Seen {
    pub resolved: Resolved,
    pub content: Content,
    pub stopped: bool,
    /// The spec was edited since the status was written.
    pub is_edited: bool,
}

/// The configuration now.
pub async fn content(cx: &Cx<'_>, resolved: &Resolved) -> Content {
    let Resolved { namespace, config_map, .. } = resolved;
    let named = Reference { kind: NamedKind::ConfigMap, namespace: namespace.clone(), name: config_map.clone() };
    let found = cx.named.lookup(cx.key, &named).await;
    cx.named.keep(cx.key, &[cx.stop(), named]);
    if cx.kind.image.is_empty() {
        return Content::NoImage;
    }
    let data = match found {
        Lookup::Found(data) => data,
        Lookup::Absent => return Content::Absent,
        Lookup::Unknown(why) => return Content::Unread(why),
    };
    // Pods change far more often than the configuration: it is parsed once.
    let version = (data.uid.clone(), data.resource_version.clone(), resolved.key.clone());
    let mut parsed = cx.state.own.parsed.lock();
    if let Some((_, content)) = parsed.as_ref().filter(|(known, _)| *known == version) {
        return content.clone();
    }
    let text = data.entries.get(&resolved.key).map(ExposeSecret::expose_secret);
    let content = text.map_or(Content::KeyAbsent, parse);
    *parsed = Some((version, content.clone()));
    content
}

fn parse(text: &str) -> Content {
    match checked(text) {
        Ok(_) => Content::Found(hex(&Sha256::digest(text.as_bytes()))),
        Err(why) => Content::Rejected(why),
    }
}
