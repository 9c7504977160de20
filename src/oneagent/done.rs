//! What came of a plan, for the status to say. Nothing else brings an outcome back.
//!
//! Pure data. Must not decide what comes of it.

/// What came of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Why Istio's objects are not as they should be.
    pub istio: Option<String>,
    /// Whether the template that was there was replaced by another.
    pub template_replaced: bool,
}
