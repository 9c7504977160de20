//! OpenShift, as far as the rig can play it: its real CRDs with the objects of which a cluster has one, and its
//! admission of Pods, whose recorded answers a webhook gives.
//!
//! Its own API server cannot be had. Must not know the operator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::tools::tool;
use crate::webhook::Webhook;

/// Annotation of a Pod: under which SCC it was admitted.
pub const SCC: &str = "openshift.io/scc";
/// Annotation of a Pod: the only one that it wants.
pub const REQUIRED_SCC: &str = "openshift.io/required-scc";

/// Gives a cluster OpenShift's APIs, with nothing in them yet.
pub fn serve(cluster: &Cluster) {
    let config = |name: &str| tool("openshift-config").join(name);
    let files = [
        tool("openshift-security").join("0000_03_config-operator_01_securitycontextconstraints.crd.yaml"),
        config("0000_03_config-operator_01_proxies.crd.yaml"),
        config("0000_10_config-operator_01_apiservers-Default.crd.yaml"),
        config("0000_10_config-operator_01_schedulers-SelfManagedHA-Default.crd.yaml"),
        config("0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml"),
    ];
    for file in &files {
        cluster.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]);
    }
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
}

/// Makes an object of which a cluster has one say something.
pub fn says(cluster: &Cluster, kind: &str, name: &str, spec: &Value, status: &Value) {
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": { "name": name },
        "spec": spec, "status": status });
    for more in [&[][..], &["--subresource=status"]] {
        let args = [&["apply", "--server-side", "--force-conflicts", "-f", "-"][..], more].concat();
        let done = cluster.try_kubectl(&args, Some(&object.to_string()));
        // Not each of them has a status apart.
        assert!(done.is_ok() || !more.is_empty(), "{done:?}");
    }
}

/// What the cluster's version says while it is updated, and when it is not.
pub fn updates(cluster: &Cluster, is_updating: bool) {
    let progressing = json!({ "type": "Progressing", "status": if is_updating { "True" } else { "False" },
        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "" });
    let desired = json!({ "version": "4.20.1", "image": "release@sha256:0" });
    let status = json!({ "conditions": [progressing], "desired": desired, "observedGeneration": 1,
        "versionHash": "h", "availableUpdates": null, "history": [] });
    let id = json!({ "clusterID": "00000000-0000-4000-8000-000000000000" });
    says(cluster, "ClusterVersion", "version", &id, &status);
}

/// The admission of Pods: which SCC is taken, if the account may use it.
#[derive(Clone, Default)]
pub struct Admission {
    /// Whether the agents' account may use `privileged`.
    pub granted: Arc<AtomicBool>,
    /// One of higher priority that every account may use.
    pub foreign: Arc<Mutex<Option<&'static str>>>,
    /// Labels of nodes that every Pod gets: the cluster's default node selector.
    pub selector: Arc<Mutex<Value>>,
}

impl Admission {
    /// Lets the agents' account use `privileged`.
    pub fn grant(&self) {
        self.granted.store(true, Ordering::SeqCst);
    }

    /// Starts to admit the Pods of a namespace.
    pub async fn start(&self, cluster: &Cluster, namespace: &str) -> Webhook {
        let all = self.clone();
        Webhook::of_pods(&cluster.client, namespace, move |pod| all.admit(pod)).await
    }

    fn admit(&self, pod: &Value) -> Result<Vec<Value>, String> {
        let granted = self.granted.load(Ordering::SeqCst);
        let foreign = *self.foreign.lock().expect("an SCC");
        let asked = pod["metadata"]["annotations"][REQUIRED_SCC].as_str();
        let forbidden = "provider \"privileged\": Forbidden: not usable by user or serviceaccount";
        let taken = match asked {
            Some("privileged") if granted => "privileged",
            Some("privileged") => {
                return Err(format!("unable to validate against any security context constraint: {forbidden}"));
            }
            Some(other) if foreign == Some(other) => other,
            Some(other) => return Err(format!("required scc/{other} not found")),
            None => match foreign {
                Some(foreign) => foreign,
                None if granted => "privileged",
                // As it was recorded: what matters comes last.
                None => {
                    let provider = "provider restricted-v2: .spec.securityContext.hostPID: Invalid value: true: Host \
                        PID is not allowed to be used, ";
                    let before = provider.repeat(12);
                    return Err(format!(
                        "unable to validate against any security context constraint: [{before}{forbidden}]"
                    ));
                }
            },
        };
        let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        annotations.insert(SCC.to_owned(), taken.into());
        let mut patch = vec![json!({ "op": "add", "path": "/metadata/annotations", "value": annotations })];
        let selector = self.selector.lock().expect("a selector").clone();
        if selector.is_object() {
            patch.push(json!({ "op": "add", "path": "/spec/nodeSelector", "value": selector }));
        }
        Ok(patch)
    }
}
