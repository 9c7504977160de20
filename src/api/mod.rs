//! The types users hold: serde, schemars and kube's derive, nothing else.
//!
//! Here because every other room starts from them. Must not know a client, a clock or an environment.

pub mod condition;
pub mod config_watcher;
pub mod daemonset_rollout;
pub mod jmx_exporter;
pub mod manager;
pub mod name;
pub mod nearest;
pub mod object;
pub mod oneagent;
pub mod package;
pub mod patch;
pub mod rollout;
pub mod schedule;
pub mod schema;

/// Every package; generators iterate over it.
pub const PACKAGES: &[&package::Package] = &[
    &oneagent::package::PACKAGE,
    &config_watcher::package::PACKAGE,
    &jmx_exporter::package::PACKAGE,
    &manager::package::PACKAGE,
    &daemonset_rollout::package::PACKAGE,
];
