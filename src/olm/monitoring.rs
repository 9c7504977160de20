//! What the cluster's monitoring wants to know: a Service, a ServiceMonitor and a PrometheusRule.
//!
//! Pure. In the bundle's OpenShift flavour alone: OLM refuses an installation with a kind that the cluster does not
//! have. Over TLS it is a manifest of its own, for a bundle cannot bring the token that Prometheus needs: OLM of
//! OpenShift 4.20 and older makes a bundle's objects in no order, and a token without its account is deleted at once.
//! Must not hold an alert without a section in the runbooks, nor a query about a metric that is not exposed:
//! tests hold both.

use serde_json::{Value, json};

use super::manifests::{Error, File, yaml};
use super::publisher::Publisher;
use crate::api::package::{Alert, Package};

/// The files of a package.
pub fn monitoring(package: &Package, publisher: &Publisher) -> Result<Vec<File>, Error> {
    let path = format!("config/{}/monitoring.yaml", package.name);
    let placed = |mut object: Value| {
        object["metadata"]["namespace"] = package.namespace.into();
        object
    };
    let all: Vec<Value> = objects(package, publisher).map(placed).into();
    let mut files = vec![File { path, content: yaml(&all)? }];
    files.extend(secure(package)?);
    Ok(files)
}

/// The objects, to be put into the operator's namespace.
pub(super) fn objects(package: &Package, publisher: &Publisher) -> [Value; 3] {
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
    [service, monitor, object("monitoring.coreos.com/v1", "PrometheusRule", groups(package, publisher))]
}

/// What scrapes the metrics over TLS, with a certificate of OpenShift's service CA and a token that may get /metrics;
/// and what the operator needs in order to tell who may. And what a Subscription says for it.
fn secure(package: &Package) -> Result<Vec<File>, Error> {
    let name = format!("{}-metrics", package.name);
    let file = |file: &str, objects: &[Value]| {
        yaml(objects).map(|content| File { path: format!("config/{}/{file}", package.name), content })
    };
    Ok(vec![
        file("secure-metrics.yaml", &secure_objects(package, &name))?,
        file("secure-metrics-subscription.yaml", &[subscription(&name)])?,
    ])
}

/// Where the certificate is in the operator's container.
const CERTIFICATES: &str = "/etc/secure-metrics";

fn subscription(name: &str) -> Value {
    let env = json!([{ "name": "SECURE_METRICS_CERTIFICATES", "value": CERTIFICATES }]);
    let volume =
        json!({ "name": "secure-metrics", "secret": { "secretName": format!("{name}-tls"), "optional": true } });
    let mount = json!({ "name": "secure-metrics", "mountPath": CERTIFICATES, "readOnly": true });
    json!({ "spec": { "config": { "env": env, "volumes": [volume], "volumeMounts": [mount] } } })
}

fn secure_objects(package: &Package, name: &str) -> Vec<Value> {
    let labels = json!({ "app.kubernetes.io/name": package.name, "app.kubernetes.io/component": "secure-metrics" });
    let object = |version: &str, kind: &str, annotations: Value, rest: Value| {
        let mut object = rest;
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({ "name": name, "namespace": package.namespace, "labels": labels });
        if !annotations.is_null() {
            object["metadata"]["annotations"] = annotations;
        }
        object
    };
    let service = object(
        "v1",
        "Service",
        json!({ "service.beta.openshift.io/serving-cert-secret-name": format!("{name}-tls") }),
        json!({ "spec": { "selector": { "app.kubernetes.io/name": package.name },
            "ports": [{ "name": "https", "port": 8443,
                "targetPort": package.host_port.map_or(8443, |port| port + 1) }] } }),
    );
    let account = object("v1", "ServiceAccount", Value::Null, json!({}));
    let mut token = object(
        "v1",
        "Secret",
        json!({ "kubernetes.io/service-account.name": name }),
        json!({ "type": "kubernetes.io/service-account-token" }),
    );
    token["metadata"]["name"] = format!("{name}-token").into();
    let trusted = object("v1", "ConfigMap", json!({ "service.beta.openshift.io/inject-cabundle": "true" }), json!({}));
    let monitor = object(
        "monitoring.coreos.com/v1",
        "ServiceMonitor",
        Value::Null,
        json!({ "spec": { "selector": { "matchLabels": labels }, "endpoints": [{
            "port": "https", "scheme": "https", "path": "/metrics", "interval": "60s", "honorLabels": true,
            "tlsConfig": { "serverName": format!("{name}.{}.svc", package.namespace),
                "ca": { "configMap": { "name": name, "key": "service-ca.crt" } } },
            "authorization": { "credentials": { "name": format!("{name}-token"), "key": "token" } },
        }] } }),
    );
    let mut objects = vec![service, account, token, trusted, monitor];
    let rule = |group: &str, resource: &str, verb: &str| -> Value {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] })
    };
    let mut profile = rule("config.openshift.io", "apiservers", "get");
    profile["resourceNames"] = json!(["cluster"]);
    let review = rule("authorization.k8s.io", "subjectaccessreviews", "create");
    let reviews = [rule("authentication.k8s.io", "tokenreviews", "create"), review, profile];
    let reader = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    for (role, rules, account) in [(name, reader, name), (&*format!("{name}-gate"), json!(reviews), package.name)] {
        let role_ref = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": package.namespace });
        for (kind, rest) in [
            ("ClusterRole", json!({ "rules": rules })),
            ("ClusterRoleBinding", json!({ "roleRef": role_ref, "subjects": [subject] })),
        ] {
            let mut object = object("rbac.authorization.k8s.io/v1", kind, Value::Null, rest);
            object["metadata"] = json!({ "name": role, "labels": labels });
            objects.push(object);
        }
    }
    objects
}

fn groups(package: &Package, publisher: &Publisher) -> Value {
    let runbooks = publisher.page("docs/runbooks.md");
    let rules: Vec<Value> = package.alerts.iter().map(|alert| rule(alert, &runbooks)).collect();
    json!({ "groups": [{ "name": package.name, "rules": rules }] })
}

/// The namespace of the object. OpenShift's monitoring of user projects takes label `namespace` for that of the
/// operator, and keeps ours under another name.
const NAMESPACE: &str = "{{ or $labels.exported_namespace $labels.namespace }}";

fn rule(alert: &Alert, runbooks: &str) -> Value {
    let expr = alert.expr.replace("(namespace,", "(namespace, exported_namespace,");
    let summary = alert.summary.replace("{{ $labels.namespace }}", NAMESPACE);
    json!({
        "alert": alert.name, "expr": expr, "for": alert.lasts,
        "labels": { "severity": "warning" },
        "annotations": { "summary": summary,
            "runbook_url": format!("{runbooks}#{}", alert.name.to_lowercase()) },
    })
}
