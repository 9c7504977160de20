//! The shapes of the vendor's answers, as far as we use them. Unknown fields are ignored, missing ones are `None`.
//!
//! Must not interpret: `client` turns them into what the rest of the program speaks.

use serde::Deserialize;

/// Newest version.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metainfo {
    pub(super) latest_agent_version: Option<String>,
}

/// Versions offered.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offered {
    pub(super) available_versions: Option<Vec<String>>,
}

/// Connection info.
#[derive(Debug, Deserialize)]
pub(super) struct ConnectionInfo {
    #[serde(rename = "tenantUUID")]
    pub(super) tenant_uuid: Option<String>,
}

/// Scopes of a token.
#[derive(Debug, Deserialize)]
pub(super) struct TokenInfo {
    pub(super) scopes: Option<Vec<String>>,
}

/// One host.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Host {
    #[serde(default)]
    pub(super) ip_addresses: Option<Vec<String>>,
    #[serde(default)]
    pub(super) agent_version: Option<HostVersion>,
}

/// A host's agent.
#[derive(Debug, Deserialize)]
pub(super) struct HostVersion {
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) revision: Option<u32>,
    pub(super) timestamp: Option<String>,
}

/// The error envelope.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope {
    pub(super) error: EnvelopeError,
}

/// What is in it.
#[derive(Debug, Deserialize)]
pub(super) struct EnvelopeError {
    pub(super) code: Option<u16>,
    pub(super) message: Option<String>,
}
