//! What differs on OpenShift: its SCCs, proxy, certificates, TLS profile, and where the cluster says so.
//!
//! Pure: objects come in as they were read. On another cluster none of it is there, which is an answer. Must not read
//! anything, nor know a kind of ours.

pub mod cluster;
pub mod proxy;
pub mod scc;
pub mod tls_profile;
