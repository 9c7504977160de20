//! What a spec wants of an OpenShift cluster.
//!
//! Pure. Must not know whether the cluster is one.

use super::{proxy, text};
use crate::api::oneagent::OneAgentSpec;

/// What the spec wants of an OpenShift cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FromOpenShift {
    /// Its proxy.
    pub proxy: bool,
    /// Its certificates.
    pub certificates: bool,
    /// That nothing is replaced while it is updated.
    pub pauses: bool,
}

/// What the user names takes precedence over what the cluster has.
pub(super) fn wanted(spec: &OneAgentSpec) -> FromOpenShift {
    let wanted = spec.openshift.clone().unwrap_or_default();
    FromOpenShift {
        proxy: wanted.cluster_proxy == Some(true) && proxy(spec).is_none(),
        certificates: wanted.cluster_cas == Some(true) && text(spec.trusted_cas.as_ref()).is_none(),
        pauses: wanted.pause_during_cluster_update == Some(true),
    }
}
