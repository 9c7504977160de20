//! A small world on a virtual clock, as objects of the Kubernetes API: nodes, the controllers of DaemonSets and of
//! ReplicaSets, and kubelets that are late, crash, refuse or fall silent; and scripts that let things happen in it.
//!
//! Here so that whole rollouts are tried in milliseconds: what a watch would show comes out as events, one at a time.
//! Must not know an operator, a kind or an engine.

mod act;
mod containers;
mod replicas;
mod stage;
mod status;
mod turn;
mod workload;
mod world;

pub use act::Act;
pub use stage::{Operator, Script, Stage, check, edit};
pub use status::how;
pub use turn::Turn;
pub use world::Event;
