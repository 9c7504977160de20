//! What of the command line is about DaemonSetRollouts: `explain` and `plan`.
//!
//! Commands read with the caller's rights and write nothing. Must not judge anything: that is the operator's own code.

pub(super) mod explain;
pub(super) mod plan;
mod read;
