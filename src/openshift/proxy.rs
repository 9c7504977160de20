//! The cluster's proxy, as OpenShift's Proxy `cluster` says it.
//!
//! Pure. Must not decide who uses it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The cluster's proxy.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProxy {
    pub url: String,
    /// Hosts, domains and networks that are reached without it.
    #[serde(default)]
    pub no_proxy: String,
}

/// Its address may hold a password.
impl fmt::Debug for ClusterProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterProxy").field("no_proxy", &self.no_proxy).finish_non_exhaustive()
    }
}

impl ClusterProxy {
    /// What OpenShift's object says; `None`: the cluster uses none.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |key: &str| object["status"][key].as_str().unwrap_or_default().trim().to_owned();
        let url = [text("httpsProxy"), text("httpProxy")].into_iter().find(|url| !url.is_empty())?;
        Some(Self { url, no_proxy: text("noProxy") })
    }

    /// With the hosts that a user adds.
    #[must_use]
    pub fn without(&self, more: Option<&str>) -> String {
        let mut hosts: Vec<&str> = Vec::new();
        for host in more.unwrap_or_default().split(',').chain(self.no_proxy.split(',')).map(str::trim) {
            if !host.is_empty() && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts.join(",")
    }
}
