//! The kinds that the plugin sees and steers: those that replace Pods.
//!
//! Data. Must not read anything.

use kube::api::ApiResource;

use super::super::asked::PodKind;
use crate::api::config_watcher;
use crate::api::config_watcher::ConfigWatcher;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::oneagent::OneAgent;

/// One of them, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Managed {
    /// Agents of Dynatrace.
    Oneagent,
    /// Any DaemonSet.
    Daemonsetrollout,
    /// Pods that use a ConfigMap.
    Configwatcher,
}

/// Those that readers look for where none is named.
pub(super) const SEEN: [Managed; 2] = [Managed::Oneagent, Managed::Daemonsetrollout];

impl Managed {
    /// As the API serves it.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Oneagent => ApiResource::erase::<OneAgent>(&()),
            Self::Daemonsetrollout => ApiResource::erase::<DaemonSetRollout>(&()),
            Self::Configwatcher => ApiResource::erase::<ConfigWatcher>(&()),
        }
    }

    /// As manifests name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Oneagent => PodKind::Oneagent.name(),
            Self::Daemonsetrollout => PodKind::Daemonsetrollout.name(),
            Self::Configwatcher => "ConfigWatcher",
        }
    }

    /// As kubectl takes it.
    pub(super) fn typed(self) -> &'static str {
        match self {
            Self::Oneagent => "oneagent",
            Self::Daemonsetrollout => "daemonsetrollout",
            Self::Configwatcher => "configwatcher",
        }
    }

    /// The operator's name.
    pub(super) fn operator(self) -> &'static str {
        match self {
            Self::Oneagent => PodKind::Oneagent.operator(),
            Self::Daemonsetrollout => PodKind::Daemonsetrollout.operator(),
            Self::Configwatcher => config_watcher::package::PACKAGE.name,
        }
    }

    /// What its Pods are called.
    pub(super) fn pods(self) -> &'static str {
        if self == Self::Oneagent { "agents" } else { "Pods" }
    }

    /// Its field by which what failed is tried again.
    pub(super) fn revision(self) -> &'static str {
        if self == Self::Oneagent { "version" } else { "revision" }
    }

    /// As a kind whose Pods belong to nodes.
    pub(super) fn of_nodes(self) -> Result<PodKind, String> {
        match self {
            Self::Oneagent => Ok(PodKind::Oneagent),
            Self::Daemonsetrollout => Ok(PodKind::Daemonsetrollout),
            Self::Configwatcher => Err("a ConfigWatcher's Pods belong to no node: ask for its status".to_owned()),
        }
    }
}
