//! What of the command line is about OneAgents: `check`, `explain`, `plan`, and the settings of `run`.
//!
//! Commands read with the caller's rights and write nothing. Must not judge anything: that is the operator's own code.

pub(super) mod check;
pub(super) mod explain;
pub(super) mod plan;
mod read;
pub(super) mod run;
