//! Each sample beside a DaemonSet of the shape that its chart or operator makes: it is served, and a new version of the
//! chart that changes nothing but what the sample ignores replaces no Pod.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab};
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

/// The label or annotation that every version of a chart changes, and the kind of what controls the DaemonSet.
type Shape = (Option<(&'static str, &'static str)>, Option<&'static str>);

/// By the file of the sample.
const SHAPES: &[(&str, Shape)] = &[
    ("fluent-bit.yaml", (None, None)),
    ("datadog.yaml", (Some(("annotations", "checksum/install_info")), None)),
    ("datadog-operator.yaml", (None, Some("DatadogAgent"))),
    ("falcon-sensor.yaml", (None, None)),
    ("node-exporter.yaml", (Some(("labels", "helm.sh/chart")), None)),
    ("dynatrace-csi.yaml", (None, None)),
];

/// The DaemonSet that a sample names, as a version of its chart has it.
fn daemonset(lab: &Lab<'_>, sample: &Value, shape: Shape, chart: &str) -> Value {
    let name = sample["spec"]["daemonSet"].as_str().unwrap();
    let mut set = lab.daemonset_named(name, "one");
    if let (Some((map, key)), _) = shape {
        set["spec"]["template"]["metadata"][map][key] = json!(chart);
    }
    if let (_, Some(kind)) = shape {
        set["metadata"]["ownerReferences"] = json!([{ "apiVersion": "datadoghq.com/v2alpha1", "kind": kind,
            "name": name, "uid": "0b7d7e5c-7a55-4c1c-9d2f-6a6f2f0f9b1e", "controller": true }]);
    }
    set
}

#[test]
fn each_sample_serves_the_daemonset_of_its_chart_and_a_new_chart_alone_replaces_nothing() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "ds-samples", 2).await;
        assert_eq!(SHAPES.len(), PACKAGE.samples.len(), "each sample");
        let mut all = Vec::new();
        for (file, shape) in SHAPES {
            let found = PACKAGE.samples.iter().find(|sample| sample.file == *file).unwrap();
            let mut sample: Value = serde_yaml::from_str(found.yaml).unwrap();
            sample["metadata"]["namespace"] = json!(lab.name);
            lab.deploy(&daemonset(&lab, &sample, *shape, "1"));
            lab.cluster.apply(&sample.to_string());
            all.push((sample, *shape));
        }
        let served = async |generation: i64| {
            eventually("each is served", LONG, || async {
                for (sample, (key, _)) in &all {
                    let object = lab.rollouts().get(sample["metadata"]["name"].as_str().unwrap()).await.unwrap();
                    let status = object.status.unwrap_or_default();
                    let is_ready = |type_: &str, is: &str| {
                        status.conditions.iter().any(|one| one.type_ == type_ && one.status == is)
                    };
                    let wanted = if key.is_some() { generation } else { 1 };
                    let is_seen = status.daemon_set.as_ref().is_some_and(|set| set.generation >= Some(wanted));
                    if !(is_seen && is_ready("Ready", "True") && is_ready("Degraded", "False")) {
                        return Err(format!("{sample:#} {status:#?}"));
                    }
                }
                Ok(())
            })
            .await;
        };
        served(1).await;
        let uids = async || -> Vec<Option<String>> {
            let pods = lab.labelled(&format!("lab={}", lab.name)).await;
            let mut uids: Vec<Option<String>> = pods.values().map(Pod::uid).collect();
            uids.sort();
            uids
        };
        let before = uids().await;
        assert_eq!(before.len(), 2 * SHAPES.len());
        for (sample, shape) in all.iter().filter(|(_, shape)| shape.0.is_some()) {
            lab.deploy(&daemonset(&lab, sample, *shape, "2"));
        }
        served(2).await;
        assert_eq!(uids().await, before);
        lab.end().await;
    });
}
