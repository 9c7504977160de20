//! What the kind is made of, and what a reconcile of a Manager may use.
//!
//! Data. Must not do anything.

use super::fleet::Fleet;
use crate::kernel::kind;

/// One reconcile of a Manager.
pub type Cx<'r> = kind::Cx<'r, Managers>;

/// What the kind is made of.
#[derive(Debug, Default)]
pub struct Managers {
    pub fleet: Fleet,
}
