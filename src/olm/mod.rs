//! What an installation consists of: RBAC from one table, and the manifests made from it and from the kinds.
//!
//! Pure: the same inputs give the same bytes. Must not read a file or a cluster.

pub mod manifests;
pub mod rbac;
pub mod samples;
