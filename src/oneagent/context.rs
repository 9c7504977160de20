//! What the kind is made of, and what a reconcile of a OneAgent may use.
//!
//! Data. Must not do anything.

use std::time::Duration;

use tokio::sync::OnceCell;

use super::fleet::Fleet;
use super::known::Known;
use super::metrics::OwnMetrics;
use super::peers::Peers;
use crate::dynatrace::Environments;
use crate::kernel::kind;
use crate::kernel::{NodeSelectors, Notes, OptionalApis, Singletons};

/// One reconcile of a OneAgent.
pub type Cx<'r> = kind::Cx<'r, OneAgents>;

/// What the kind is made of.
pub struct OneAgents {
    pub settings: Settings,
    pub fleet: Fleet,
    /// Every OneAgent, by what it selects.
    pub peers: Peers,
    /// Environments in use.
    pub environments: Environments,
    /// Objects of APIs that the cluster may lack.
    pub optional_apis: OptionalApis,
    /// Node selectors of namespaces.
    pub node_selectors: NodeSelectors,
    /// Objects of which the cluster has one.
    pub singletons: Singletons,
    /// The nodes that each OneAgent knows.
    pub notes: Notes<Known>,
    pub metrics: OwnMetrics,
    /// UID of Namespace kube-system.
    pub cluster_id: OnceCell<String>,
}

/// Settings that a reconcile needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Installer image where the spec names none.
    pub agent_image: String,
    /// Longest time for a call to an environment.
    pub vendor_timeout: Duration,
}
