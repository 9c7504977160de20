//! Rehearsal: the operator of OneAgents in a small world, with its own plan, carried out there, and its own status.
//!
//! Here so that tests and `simulate` see whole rollouts in milliseconds. What `act` and the API server do is done at
//! once and without refusals. Must not touch a cluster, nor judge anything.

mod act;
mod kept;
mod operator;
mod own;
mod record;
mod shown;
mod text;

pub use act::{Act, Own};
pub use operator::Operator;
pub use record::{Frame, Head, Record, Step, Told};
