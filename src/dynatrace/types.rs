//! The shapes of the vendor's answers, as far as we use them. Unknown fields are ignored, missing ones are `None`.
//!
//! Must not interpret: `client` turns them into the types of the rest of the program.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde::Deserialize;

use crate::api::name::Version;

/// What hosts report, by network zone and address. Zones tell clusters apart that use the same addresses; only those
/// that were asked for are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    zones: HashMap<String, HashMap<IpAddr, Version>>,
}

impl Hosts {
    /// No hosts yet, of these zones.
    #[must_use]
    pub fn of_zones(zones: &BTreeSet<String>) -> Self {
        Self { zones: zones.iter().map(|zone| (zone.clone(), HashMap::new())).collect() }
    }

    /// The hosts of a zone; without one, those of the zone that the environment calls default. `None`: that zone was
    /// not asked for, so nothing is known of its hosts.
    #[must_use]
    pub fn of(&self, zone: Option<&str>) -> Option<&HashMap<IpAddr, Version>> {
        self.zones.get(&zone_key(zone))
    }

    /// Adds what a host reports, if its zone was asked for; returns whether it takes memory. Of two hosts with one
    /// address the older version counts, so that another's agent does not make ours look up to date.
    pub fn add(&mut self, zone: Option<&str>, address: IpAddr, version: Version) -> bool {
        let Some(hosts) = self.zones.get_mut(&zone_key(zone)) else { return false };
        let before = hosts.len();
        hosts.entry(address).and_modify(|known| *known = version.min(*known)).or_insert(version);
        hosts.len() > before
    }

    /// Whether all of these zones were asked for.
    pub(super) fn covers(&self, zones: &BTreeSet<String>) -> bool {
        zones.iter().all(|zone| self.zones.contains_key(zone))
    }

    /// These without the zones that no object needs any more; `None` without any zone.
    pub(super) fn only(&self, zones: &BTreeSet<String>) -> Option<Self> {
        let kept = self.zones.iter().filter(|(zone, _)| zones.contains(*zone));
        let zones: HashMap<_, _> = kept.map(|(zone, hosts)| (zone.clone(), hosts.clone())).collect();
        (!zones.is_empty()).then_some(Self { zones })
    }

    /// Whether a zone is here that no object needs any more.
    pub(super) fn exceeds(&self, zones: &BTreeSet<String>) -> bool {
        self.zones.keys().any(|zone| !zones.contains(zone))
    }
}

/// Zones are the same in any case of letters, and no zone is the default one.
pub fn zone_key(zone: Option<&str>) -> String {
    zone.map(str::trim).filter(|zone| !zone.is_empty()).unwrap_or("default").to_lowercase()
}

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

#[derive(Debug, Deserialize)]
pub(super) struct ConnectionInfo {
    #[serde(rename = "tenantUUID")]
    pub(super) tenant_uuid: Option<String>,
    #[serde(rename = "communicationEndpoints")]
    pub(super) communication_endpoints: Option<Vec<String>>,
}

/// Scopes of a token.
#[derive(Debug, Deserialize)]
pub(super) struct TokenInfo {
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Host {
    #[serde(default)]
    pub(super) entity_id: Option<String>,
    #[serde(default)]
    pub(super) ip_addresses: Option<Vec<String>>,
    #[serde(default)]
    pub(super) agent_version: Option<HostVersion>,
    #[serde(default)]
    pub(super) network_zone_id: Option<String>,
}

/// A host's agent.
#[derive(Debug, Deserialize)]
pub(super) struct HostVersion {
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) revision: Option<u32>,
    pub(super) timestamp: Option<String>,
}

/// An event that was taken: what it says of it differs from API to API.
#[derive(Debug, Deserialize)]
pub(super) struct Accepted {}

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
