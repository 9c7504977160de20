//! Objects of which a cluster has one: where each is.
//!
//! Pure. Must not know what they say.

/// Where an object is of which a cluster has one.
#[derive(Debug, Clone, Copy)]
pub struct Singleton {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub name: &'static str,
}
