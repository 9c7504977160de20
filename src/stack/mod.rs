//! A stack: what it consists of, and which of its components may exist now.
//!
//! Pure. Here so that a table and a few rules say in which order a stack starts, whatever stack it is. Must not know a
//! component by name, nor what an object looks like.

mod confidential;
pub mod files;
pub mod members;
pub mod order;
pub mod size;
pub mod table;
pub mod turn;
