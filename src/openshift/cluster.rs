//! The objects with which OpenShift describes a cluster, and what they say.
//!
//! Pure. Must not know what is decided from them.

use serde_json::Value;

use crate::k8s::api_group::Group;
use crate::k8s::singleton::Singleton;

/// The API group that only OpenShift serves.
pub const OPENSHIFT: Group = Group { name: "security.openshift.io", versions: &["v1"], kinds: &[] };

const fn config(kind: &'static str, plural: &'static str, name: &'static str) -> Singleton {
    Singleton { group: "config.openshift.io", version: "v1", kind, plural, name }
}

/// The cluster's default node selector.
pub const SCHEDULER: Singleton = config("Scheduler", "schedulers", "cluster");
pub const PROXY: Singleton = config("Proxy", "proxies", "cluster");
/// The cluster's version, and its update.
pub const VERSION: Singleton = config("ClusterVersion", "clusterversions", "version");
/// The TLS profile that servers of the cluster follow.
pub const API_SERVER: Singleton = config("APIServer", "apiservers", "cluster");

/// Annotation of a Pod: the only SCC under which OpenShift should admit it.
pub const REQUIRED_SCC: &str = "openshift.io/required-scc";
/// Key under which OpenShift puts the cluster's certificates.
pub const BUNDLE: &str = "ca-bundle.crt";
/// Label of a ConfigMap that asks for them.
pub const INJECT: &str = "config.openshift.io/inject-trusted-cabundle";

/// Whether the cluster is being updated, as its ClusterVersion says.
#[must_use]
pub fn is_updating(version: &Value) -> bool {
    let conditions = version["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Progressing" && c["status"] == "True")
}
