//! What is known of Kubernetes itself, for any kind: partial read types, nodes and who may run on them, who owns a
//! field, what is drift.
//!
//! Pure: no client, no clock, nothing is sent. Must not know a kind of ours, nor decide anything.

pub mod affinity;
pub mod api_group;
pub mod containers;
pub mod drift;
pub mod facts;
pub mod hex;
pub mod names;
pub mod node;
pub mod node_selector;
pub mod ownership;
pub mod placement;
pub mod quantity;
pub mod singleton;
pub mod source;
pub mod template;
pub mod terms;
pub mod watch;
pub mod workload;
