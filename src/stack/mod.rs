//! A stack: what it consists of, and which of its components may exist now.
//!
//! Pure. Here so that the order in which a stack stands up is told by a table and a few rules, whatever stack it is.
//! Must not know a component by name, nor what an object looks like.

pub mod files;
pub mod members;
pub mod order;
pub mod size;
pub mod table;
pub mod turn;
