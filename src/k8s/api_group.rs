//! API groups that a cluster may lack: which versions we use, which a cluster serves, and what is wanted of them.
//!
//! Pure. Must not know what the objects are for.

use serde_json::Value;

/// An API group as we use it.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub name: &'static str,
    /// Versions that we use, the preferred first.
    pub versions: &'static [&'static str],
    pub kinds: &'static [&'static str],
}

/// How a cluster serves a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Served {
    /// Not at all.
    Absent,
    /// In a version that we use.
    As(&'static str),
    /// In other versions only.
    Otherwise(Vec<String>),
}

/// The desired objects of one owner.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Without their apiVersion, which is the cluster's to say.
    pub objects: Vec<Value>,
    /// Whether other objects of ours stay: not everything that is wanted is known.
    pub keep_others: bool,
}
