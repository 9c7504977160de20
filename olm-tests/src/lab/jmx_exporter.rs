//! What a test does with PrometheusJmxExporters in its corner, and what it waits for.
//!
//! Must not judge what the operator says but by the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use oneagent_operator::api::jmx_exporter::package::PACKAGE;
use oneagent_operator::api::jmx_exporter::{PrometheusJmxExporter, PrometheusJmxExporterStatus};
use serde_json::{Value, json};

use super::{LONG, Lab, SOON};
use crate::cluster::repository;
use crate::eventually;
use crate::jvm::{OPERATOR, runtimes, version_of};

/// The port on which the JVMs of a lab export.
pub const PORT: u16 = 9400;

/// The image of a JVM of any version: another one for Pods of other names, so that each test meets several.
fn any_jvm(pod: &str) -> String {
    let all: Vec<u32> = runtimes().into_keys().collect();
    let last = pod.bytes().next_back().map_or(0, usize::from);
    format!("jvm:{}", all[(last + pod.len()) % all.len()])
}

impl Lab<'static> {
    /// A corner of the shared cluster for JVMs, with the operator and a configuration.
    pub async fn of_jvms(name: &str) -> Self {
        let cluster = crate::cluster::Cluster::shared().await;
        let mut lab = Lab::bare(cluster, &PACKAGE, name, 1).await;
        lab.cluster.apply(&lab.admission_policy());
        lab.start_exporter_operator().await;
        lab.configuration("rules: []");
        lab
    }
}

impl Lab<'_> {
    /// Starts an operator that knows its own image.
    pub async fn start_exporter_operator(&mut self) {
        self.start_operator(&[("OPERATOR_IMAGE", OPERATOR)]).await;
    }

    /// The policy by which its ServiceAccount may do no more than it has to, for this lab.
    #[must_use]
    pub fn admission_policy(&self) -> String {
        let text = std::fs::read_to_string(repository("config/jmx-exporter-operator/admission-policy.yaml"))
            .expect("a policy");
        let repository =
            text.split("expression: \"'").nth(1).and_then(|rest| rest.split('\'').next()).expect("a repository");
        let ours = OPERATOR.rsplit_once(':').expect("a tag").0;
        let text = text.replace(&format!("'{repository}'"), &format!("'{ours}'"));
        let text = text.replace("serviceaccount:jmx-exporter:", &format!("serviceaccount:{}:", self.name));
        text.replace("name: jmx-exporter-operator\n", &format!("name: {}\n", self.name))
            .replace("policyName: jmx-exporter-operator", &format!("policyName: {}", self.name))
    }

    /// A Pod with nothing but a JVM that waits, as root.
    pub fn plain_jvm(&self, name: &str) {
        self.jvm(name, "jvm:any", &json!({}), &json!({ "securityContext": { "runAsUser": 0 } }));
    }

    /// Writes the exporter's configuration.
    pub fn configuration(&self, text: &str) {
        self.config("exporter", &json!({ "config.yaml": text }));
    }

    /// Applies a PrometheusJmxExporter `exporter` of Pods `app: dummyapp`, with `spec` on top.
    pub fn exporter(&self, spec: &Value) {
        self.exporter_named("exporter", spec);
    }

    /// The same with a name.
    pub fn exporter_named(&self, name: &str, spec: &Value) {
        let mut whole = json!({ "labelSelector": { "app": "dummyapp" }, "port": PORT,
            "config": { "configMapName": "exporter", "configMapKey": "config.yaml" } });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let object = json!({ "apiVersion": "banzaicloud.com/v1alpha1", "kind": "PrometheusJmxExporter",
            "metadata": { "name": name, "namespace": self.name }, "spec": whole });
        self.cluster.apply(&object.to_string());
    }

    /// A Pod `app: dummyapp` with a container of this image; `container` is merged into it, `spec` into the Pod's.
    pub fn jvm(&self, name: &str, image: &str, container: &Value, spec: &Value) {
        let image = if image == "jvm:any" { any_jvm(name) } else { image.to_owned() };
        let mut own = json!({ "name": "app", "image": image });
        for (key, value) in container.as_object().into_iter().flatten() {
            own[key] = value.clone();
        }
        let mut whole = json!({ "nodeName": self.nodes[0], "containers": [own],
            "tolerations": [{ "operator": "Exists" }] });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let object = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": self.name, "labels": { "app": "dummyapp" } }, "spec": whole });
        self.cluster.apply(&object.to_string());
    }

    #[must_use]
    pub fn exporters(&self) -> Api<PrometheusJmxExporter> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Merges into the spec of `exporter`.
    pub async fn edit_exporter(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.exporters().patch("exporter", &PatchParams::default(), &patch).await.expect("an edit");
    }

    /// A user wipes the status of `exporter`; returns when another one is there.
    pub async fn wipe_exporter(&self) {
        let none = json!({ "status": null });
        self.exporters().patch_status("exporter", &PatchParams::default(), &Patch::Merge(none)).await.expect("a wipe");
        eventually("there is a status again", SOON, || async {
            let status = self.exporter_status("exporter").await;
            if status.conditions.is_empty() { Err(format!("{status:?}")) } else { Ok(()) }
        })
        .await;
    }

    /// How often the JVM of a Pod's container `app` said that it loaded an agent. Only Java 21 and newer say so.
    pub async fn loads(&self, pod: &str) -> usize {
        let pod = self.pod(pod).await;
        let log = self.cluster.kubelet.real.with(&pod, "app", |container| container.log()).expect("a container");
        log.matches("A Java agent has been loaded dynamically").count()
    }

    /// Whether it said so once, where it is of a version that does; no JVM may have loaded two.
    pub async fn has_loaded_once(&self, pod: &str) -> bool {
        let spec = self.pod(pod).await.spec.unwrap_or_default();
        let app = spec.containers.into_iter().find(|container| container.name == "app").expect("a container");
        let version = app.image.as_deref().and_then(version_of).expect("a JVM");
        let says_so = version >= 21;
        let loads = self.loads(pod).await;
        if says_so { loads == 1 } else { loads <= 1 }
    }

    /// The status of a PrometheusJmxExporter.
    pub async fn exporter_status(&self, name: &str) -> PrometheusJmxExporterStatus {
        self.exporters().get(name).await.ok().and_then(|exporter| exporter.status).unwrap_or_default()
    }

    /// Waits until condition Ready of `exporter` has a reason, and returns the status.
    pub async fn exporter_says(&self, reason: &str) -> PrometheusJmxExporterStatus {
        eventually(&format!("Ready says {reason}"), LONG, || async {
            let status = self.exporter_status("exporter").await;
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            if ready.is_some_and(|ready| ready.reason == reason) { Ok(status) } else { Err(format!("{status:#?}")) }
        })
        .await
    }

    /// Waits until Ready of `exporter` has a reason, and the message of a condition these words; returns the status.
    pub async fn exporter_says_that(&self, reason: &str, words: &str) -> PrometheusJmxExporterStatus {
        eventually(&format!("{reason} says {words}"), SOON, || async {
            let status = self.exporter_says(reason).await;
            let said = status.conditions.iter().any(|condition| condition.message.contains(words));
            if said { Ok(status) } else { Err(format!("{status:#?}")) }
        })
        .await
    }

    /// Waits until the operator has looked at `exporter` as it is now, and returns the status.
    pub async fn exporter_is_seen(&self) -> PrometheusJmxExporterStatus {
        eventually("it is looked at", LONG, || async {
            let exporter = self.exporters().get("exporter").await.expect("an object");
            let status = exporter.status.unwrap_or_default();
            let is_seen = status.observed_generation == exporter.metadata.generation;
            if is_seen { Ok(status) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    /// Waits until `exporter` counts so many Pods.
    pub async fn exporter_selects(&self, count: i32) {
        eventually(&format!("{count} Pods are seen"), SOON, || async {
            let jvms = self.exporter_status("exporter").await.jvms.unwrap_or_default();
            if jvms.selected == count { Ok(()) } else { Err(format!("{jvms:?}")) }
        })
        .await;
    }

    /// Waits until Ready of `exporter` has a reason and no JVM waits any more, and returns the status.
    pub async fn exporter_settles(&self, reason: &str) -> PrometheusJmxExporterStatus {
        eventually(&format!("Ready says {reason}, and no JVM waits"), LONG, || async {
            let status = self.exporter_says(reason).await;
            if status.jvms.as_ref().is_some_and(|jvms| jvms.waiting == 0) {
                Ok(status)
            } else {
                Err(format!("{status:#?}"))
            }
        })
        .await
    }

    /// Waits until exactly these Pods export.
    pub async fn exporting(&self, pods: &[&str]) {
        eventually(&format!("{pods:?} export"), LONG, || async {
            let status = self.exporter_says("AllExporting").await;
            let all: Vec<&str> = status.metrics_endpoints.iter().map(|one| one.pod.as_str()).collect();
            if all == pods { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
    }

    /// Waits until `exporter` counts a Pod under a reason, and returns what it says of it.
    pub async fn exporter_refuses(&self, pod: &str, reason: &str) -> String {
        eventually(&format!("{pod} is refused for {reason}"), LONG, || async {
            let status = self.exporter_status("exporter").await;
            let jvms = status.jvms.clone().unwrap_or_default();
            let all = jvms.examples.get(reason).cloned().unwrap_or_default();
            all.into_iter().find(|said| said.starts_with(pod)).ok_or_else(|| format!("{status:#?}"))
        })
        .await
    }

    /// The containers of ours that joined a Pod, as its status has them.
    pub async fn joined(&self, pod: &str) -> Vec<ContainerStatus> {
        let pod = self.pod(pod).await;
        pod.status.and_then(|status| status.ephemeral_container_statuses).unwrap_or_default()
    }

    /// How many containers joined a Pod, whether its kubelet started them or not.
    pub async fn begun(&self, pod: &str) -> usize {
        let spec = self.pod(pod).await.spec.unwrap_or_default();
        spec.ephemeral_containers.map_or(0, |all| all.len())
    }

    /// Whether the JVM of a Pod's container was made to load the exporter: the lock says so.
    pub async fn is_touched(&self, pod: &str, container: &str) -> bool {
        let files = self.shell(&self.pod(pod).await, container, "ls -A /tmp").await.expect("a container that runs");
        files.contains(".jmx-exporter-")
    }

    pub async fn pod(&self, name: &str) -> Pod {
        Api::namespaced(self.cluster.client.clone(), &self.name).get(name).await.expect("a Pod")
    }

    /// Waits until a Pod runs.
    pub async fn runs(&self, name: &str) {
        eventually(&format!("{name} runs"), SOON, || async {
            let status = self.pod(name).await.status.unwrap_or_default();
            let all = status.container_statuses.unwrap_or_default();
            if !all.is_empty() && all.iter().all(|one| one.ready) { Ok(()) } else { Err(format!("{all:#?}")) }
        })
        .await;
    }

    /// How often the containers of a Pod were started again.
    pub async fn restarts(&self, pod: &str) -> i32 {
        let status = self.pod(pod).await.status.unwrap_or_default();
        status.container_statuses.unwrap_or_default().iter().map(|one| one.restart_count).sum()
    }

    /// The annotations of a Pod.
    pub async fn annotations(&self, pod: &str) -> BTreeMap<String, String> {
        self.pod(pod).await.annotations().clone()
    }

    /// Waits until Prometheus finds a Pod.
    pub async fn is_annotated(&self, pod: &str) -> BTreeMap<String, String> {
        eventually(&format!("{pod} is annotated"), SOON, || async {
            let annotations = self.annotations(pod).await;
            if annotations.contains_key("jmx-prometheus-exporter") {
                Ok(annotations)
            } else {
                Err("not yet".to_owned())
            }
        })
        .await
    }

    /// What the endpoint of a Pod answers.
    pub async fn metrics(&self, pod: &str, port: u16) -> Result<String, String> {
        let address = self.pod(pod).await.status.and_then(|status| status.pod_ip);
        let address = address.ok_or_else(|| format!("{pod} has no address"))?;
        let asked = tokio::task::spawn_blocking(move || crate::sandbox::scrape(&address, port, "/metrics"));
        asked.await.expect("a scrape does not panic").map_err(|error| format!("{pod}: {error}"))
    }
}
