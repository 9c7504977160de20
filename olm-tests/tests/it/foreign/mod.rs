//! DaemonSetRollout on a real control plane: another owner's DaemonSet, whose Pods its real controller makes.
//!
//! Must not try the engine's rules again where another kind's tests have them; what is tried is what this kind adds.

mod asked;
mod basics;
mod deployers;
mod edits;
mod enemies;
mod hostile;
mod late;
mod late_facts;
mod many;
mod moments;
mod policy;
mod rollback;
mod samples;
