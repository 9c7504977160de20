//! What an installation consists of: RBAC from one table; manifests, chart, recipes, alerts, dashboards, bundle
//! and catalog made from it and the kinds.
//!
//! Pure: the same inputs give the same bytes. Must not read a file or a cluster.

pub mod catalog;
pub mod changelog;
pub mod chart;
pub mod check;
pub mod console;
pub mod csv;
mod deployment;
pub mod descriptors;
pub mod images;
pub mod manifests;
pub mod monitoring;
mod place;
pub mod publisher;
pub mod rbac;
pub mod recipes;
pub mod release;
pub mod signatures;
pub mod submission;
