//! A small world on a virtual clock, as objects of the Kubernetes API: nodes, the controllers of DaemonSets and of
//! ReplicaSets, and kubelets that are late, crash, refuse or fall silent; and scripts that let things happen in it.
//!
//! Here so that whole rollouts are tried in milliseconds, by tests and by `simulate`: what a watch would show comes out
//! as events, one at a time. Must not know an operator, a kind or an engine.

mod act;
mod containers;
mod fate;
mod kubelet;
mod nodes;
mod pool;
mod replicas;
mod script;
mod span;
mod stage;
mod status;
#[cfg(test)]
mod tests;
mod turn;
mod workload;
mod world;

pub use act::Act;
pub use fate::Fate;
pub use pool::{Pool, Spread, Times};
pub use script::{At, Script};
pub use span::Span;
pub use stage::{Operator, Stage, edit, play};
pub use status::how;
#[cfg(test)]
pub use tests::{Tried, advance, beside, check};
pub use turn::Turn;
pub use world::{Event, World};
