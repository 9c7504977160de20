//! A OneAgent on a stage: what it is, what its environment knows, and what the operator's process keeps of it.
//!
//! Must not let anything happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::ResourceExt;
use serde_json::Value;

use super::record::Record;
use crate::api::name::Version;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Hosts, Snapshot, TokenState};
use crate::fleet::missing::Missing;
use crate::k8s::node::Node;
use crate::kernel::Key;
use crate::rollout::ledger::Ledger;

/// Where objects are that name no namespace.
pub(super) const NAMESPACE: &str = "dynatrace";

/// A OneAgent, and what is kept of it.
pub(super) struct Kept {
    pub(super) agent: OneAgent,
    /// The status that this process wrote last.
    pub(super) last: Option<OneAgentStatus>,
    pub(super) environment: Snapshot,
    /// Versions that its environment offers, and could not say so yet.
    unheard: Vec<String>,
    pub(super) ledger: Ledger,
    pub(super) missing: Missing,
    /// What hosts report, whatever runs there now.
    pub(super) reported: BTreeMap<String, Version>,
    /// Whether what hosts report is other than the environment says.
    pub(super) is_news: bool,
    pub(super) record: Record,
}

impl Kept {
    /// One of an object; `number`: which one it is.
    pub(super) fn new(mut object: Value, number: usize, begins: DateTime<Utc>) -> Result<Self, String> {
        let name = object["metadata"]["name"].as_str().unwrap_or("agent").to_owned();
        object["metadata"]["name"] = name.clone().into();
        object["metadata"]["namespace"] = NAMESPACE.into();
        object["metadata"]["uid"] = format!("oneagent-{number}").into();
        object["metadata"]["generation"] = 1.into();
        // What a user saved from a cluster is of that cluster.
        object["status"] = Value::Null;
        let agent = serde_json::from_value(object).map_err(|error| format!("OneAgent {name}: {error}"))?;
        let environment = Snapshot {
            paas: TokenState::Ready,
            api: TokenState::Ready,
            answered_at: Some(begins),
            hosts_at: Some(begins),
            ..Snapshot::default()
        };
        Ok(Self {
            agent,
            last: None,
            environment,
            unheard: Vec::new(),
            ledger: Ledger::default(),
            missing: Missing::new(),
            reported: BTreeMap::new(),
            is_news: true,
            record: Record::default(),
        })
    }

    pub(super) fn name(&self) -> String {
        self.agent.name_any()
    }

    pub(super) fn key(&self) -> Key {
        (NAMESPACE.to_owned(), self.name())
    }

    /// Its environment offers a version, as the newest.
    pub(super) fn publish(&mut self, version: &str, now: DateTime<Utc>) {
        if self.environment.away {
            self.unheard.push(version.to_owned());
            return;
        }
        self.environment.latest = version.parse().ok();
        let offered = self.environment.offered.iter().flat_map(|offered| offered.iter().copied());
        let offered: Vec<Version> = self.environment.latest.into_iter().chain(offered).collect();
        self.environment.offered = Some(Arc::new(offered));
        self.environment.latest_at = Some(now);
    }

    /// Its environment stops answering, or answers again.
    pub(super) fn set_unreachable(&mut self, away: bool, now: DateTime<Utc>) {
        self.environment.away = away;
        self.environment.trouble = away.then(|| "connection refused".to_owned());
        if !away {
            for version in std::mem::take(&mut self.unheard) {
                self.publish(&version, now);
            }
        }
    }

    /// The process that kept it has ended.
    pub(super) fn forget(&mut self) {
        (self.ledger, self.missing, self.last) = (Ledger::default(), Missing::new(), None);
    }

    /// What its environment answers now.
    pub(super) fn answer(&mut self, zone: Option<&str>, nodes: &[Arc<Node>], now: DateTime<Utc>) -> Snapshot {
        if std::mem::take(&mut self.is_news) {
            let mut hosts = Hosts::of_zones(&BTreeSet::from([zone_key(zone)]));
            for node in nodes {
                if let (Some(ip), Some(version)) = (node.ip, self.reported.get(&*node.name)) {
                    hosts.add(zone, ip, *version);
                }
            }
            self.environment.hosts = Some(Arc::new(hosts));
        }
        if !self.environment.away {
            (self.environment.answered_at, self.environment.hosts_at) = (Some(now), Some(now));
        }
        self.environment.clone()
    }
}
