//! What the cluster's monitoring wants to know: a Service, a ServiceMonitor and a PrometheusRule.
//!
//! Pure. In the bundle's OpenShift flavour alone: OLM refuses an installation with a kind that the cluster does not
//! have. Must not hold an alert without a section in the runbooks, nor a query about a metric that is not exposed:
//! tests hold both.

use serde_json::{Value, json};

use super::manifests::{Error, File, yaml};
use crate::api::package::{Alert, Package};

/// Where the runbooks are.
const RUNBOOKS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/runbooks.md");

/// The file of a package.
pub fn monitoring(package: &Package) -> Result<Vec<File>, Error> {
    let path = format!("config/{}/monitoring.yaml", package.name);
    let placed = |mut object: Value| {
        object["metadata"]["namespace"] = package.namespace.into();
        object
    };
    let all: Vec<Value> = objects(package).map(placed).into();
    Ok(vec![File { path, content: yaml(&all)? }])
}

/// The objects, to be put into the operator's namespace.
pub(super) fn objects(package: &Package) -> [Value; 3] {
    let labels = json!({ "app.kubernetes.io/name": package.name });
    let object = |version: &str, kind: &str, spec: Value| {
        json!({ "apiVersion": version, "kind": kind, "spec": spec,
            "metadata": { "name": package.name, "labels": labels } })
    };
    let service = object(
        "v1",
        "Service",
        json!({ "selector": labels, "clusterIP": "None",
        "ports": [{ "name": "http", "port": 8080, "targetPort": "http" }] }),
    );
    let monitor = object(
        "monitoring.coreos.com/v1",
        "ServiceMonitor",
        json!({
        "selector": { "matchLabels": labels },
        // The namespace is that of the object, not of the operator's Pod.
        "endpoints": [{ "port": "http", "path": "/metrics", "interval": "60s", "honorLabels": true }] }),
    );
    [service, monitor, object("monitoring.coreos.com/v1", "PrometheusRule", groups(package))]
}

fn groups(package: &Package) -> Value {
    let rules: Vec<Value> = package.alerts.iter().map(rule).collect();
    json!({ "groups": [{ "name": package.name, "rules": rules }] })
}

/// The namespace of the object. OpenShift's monitoring of user projects takes label `namespace` for that of the
/// operator, and keeps ours under another name.
const NAMESPACE: &str = "{{ with $labels.exported_namespace }}{{ . }}{{ else }}{{ $labels.namespace }}{{ end }}";

fn rule(alert: &Alert) -> Value {
    let expr = alert.expr.replace("by (namespace,", "by (namespace, exported_namespace,");
    let summary = alert.summary.replace("{{ $labels.namespace }}", NAMESPACE);
    json!({
        "alert": alert.name, "expr": expr, "for": alert.lasts,
        "labels": { "severity": "warning" },
        "annotations": { "summary": summary,
            "runbook_url": format!("{RUNBOOKS}#{}", alert.name.to_lowercase()) },
    })
}
