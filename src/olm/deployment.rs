//! The operator's Deployment, the same for every recipe.
//!
//! Must not hold a right: those come from `rbac`.

use serde_json::{Value, json};

use super::rbac::HOST_NETWORK;
use crate::api::package::Package;

/// Annotation of a Pod that OpenShift runs on the CPUs that it keeps for its own, if its namespace allows it.
const MANAGEMENT: &str = "target.workload.openshift.io/management";
const PREFERRED: &str = r#"{"effect": "PreferredDuringScheduling"}"#;

/// Where an operator is installed, and what differs with who installs it.
pub(super) struct Setting<'a> {
    pub namespace: &'a str,
    /// The operator's image.
    pub image: &'a str,
    /// Variable WATCH_NAMESPACE, except its name.
    pub watched: Value,
}

impl Setting<'_> {
    /// As every recipe names it, with a field of the Pod that names the namespaces to watch.
    pub(super) fn usual<'a>(package: &'a Package, image: &'a str, field: &str) -> Setting<'a> {
        Setting { namespace: package.namespace, image, watched: value_from(field) }
    }
}

/// A variable's value from a field of its Pod.
fn value_from(field: &str) -> Value {
    json!({ "valueFrom": { "fieldRef": { "fieldPath": field } } })
}

pub(super) fn labels(package: &Package) -> Value {
    json!({ "app.kubernetes.io/name": package.name, "app.kubernetes.io/part-of": package.name })
}

pub(super) fn deployment(package: &Package, setting: &Setting<'_>) -> Value {
    let variable = |name: &str, value: Value| {
        let mut variable = value;
        variable["name"] = name.into();
        variable
    };
    let probe =
        |path: &str, period: u32| json!({ "httpGet": { "path": path, "port": "http" }, "periodSeconds": period });
    let arch = json!([{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"] }]);
    let own_image = package.own_image_variable.map(|name| variable(name, json!({ "value": setting.image })));
    let mut container = json!({
        "name": "manager",
        "image": setting.image,
        "args": package.run,
        "env": [
            variable("POD_NAME", value_from("metadata.name")),
            variable("POD_UID", value_from("metadata.uid")),
            variable("POD_NAMESPACE", value_from("metadata.namespace")),
            variable("WATCH_NAMESPACE", setting.watched.clone()),
        ],
        "ports": [{ "name": "http", "containerPort": package.host_port.unwrap_or(8080) }],
        "livenessProbe": probe("/livez", 20),
        "readinessProbe": probe("/readyz", 5),
        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "256Mi" } },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true },
    });
    if let Some(variables) = container["env"].as_array_mut() {
        variables.extend(own_image);
        let listens = |name: &str, port: u16| variable(name, json!({ "value": format!("0.0.0.0:{port}") }));
        variables.extend(
            package
                .host_port
                .into_iter()
                .flat_map(|port| [listens("LISTEN_ADDRESS", port), listens("SECURE_METRICS_ADDRESS", port + 1)]),
        );
    }
    let mut labelled = labels(package);
    labelled["app.kubernetes.io/version"] = env!("CARGO_PKG_VERSION").into();
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": package.name, "namespace": setting.namespace, "labels": labelled },
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 1,
            "selector": { "matchLabels": { "app.kubernetes.io/name": package.name } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                // On OpenShift no broader SCC is taken, even if the account may use one; elsewhere it has no reader.
                "metadata": { "labels": labels(package),
                    "annotations": { "openshift.io/required-scc": "restricted-v2", MANAGEMENT: PREFERRED } },
                "spec": {
                    "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{ "matchExpressions": arch }] } } },
                    "containers": [container],
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "serviceAccountName": package.name,
                    "terminationGracePeriodSeconds": 30,
                },
            },
        },
    });
    if package.host_port.is_some() {
        on_host_network(&mut deployment["spec"]);
    }
    deployment
}

/// What lets an operator run where Pods have no network yet: on that of its node, on nodes that are not Ready.
fn on_host_network(spec: &mut Value) {
    // Two of them cannot have one port.
    spec["strategy"]["rollingUpdate"] = json!({ "maxSurge": 0, "maxUnavailable": 1 });
    spec["template"]["metadata"]["annotations"]["openshift.io/required-scc"] = HOST_NETWORK.into();
    let pod = &mut spec["template"]["spec"];
    pod["hostNetwork"] = true.into();
    // The cluster's DNS has no network either, and no name is asked for.
    pod["dnsPolicy"] = "Default".into();
    pod["tolerations"] = early();
}

/// Taints of nodes that wait for their network, and of those that keep other Pods away.
fn early() -> Value {
    let keys = [
        "node.kubernetes.io/network-unavailable",
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
    ];
    let not_ready =
        |effect: &str| json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": effect });
    let mut all: Vec<Value> = keys.iter().map(|key| json!({ "key": key, "operator": "Exists" })).collect();
    let mut stays = not_ready("NoExecute");
    // Long enough for a network to come; on a node that is broken for longer another Pod has its turn.
    stays["tolerationSeconds"] = 3600.into();
    all.extend([not_ready("NoSchedule"), stays]);
    all.into()
}
