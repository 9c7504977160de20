//! Clusters that guard their Pods: Pod Security, the operator's own admission policy, policies of others; and
//! annotations of others.

use std::process::Command;

use olm_tests::cluster::repository;
use olm_tests::images::said;
use olm_tests::jvm::OPERATOR;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{Lab, SOON};
use olm_tests::tools::tool;
use olm_tests::{eventually, run};
use serde_json::{Value, json};

/// What a Pod of a namespace that enforces `restricted` must say.
fn restricted() -> (Value, Value) {
    let container = json!({ "securityContext": { "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] } } });
    let pod = json!({ "securityContext": { "runAsNonRoot": true, "runAsUser": 1001, "runAsGroup": 1001,
        "seccompProfile": { "type": "RuntimeDefault" } } });
    (container, pod)
}

#[test]
fn under_pod_security_and_its_own_policy_the_operator_works_and_may_do_no_more() {
    run(async {
        let lab = Lab::of_jvms("jmx-guarded").await;
        lab.cluster.kubectl(&["label", "namespace", &lab.name, "pod-security.kubernetes.io/enforce=restricted"]);
        let (container, pod) = restricted();
        lab.jvm("first", "jvm:any", &container, &pod);
        lab.runs("first").await;
        let user = format!("--as=system:serviceaccount:{}:jmx-exporter-operator", lab.name);
        let rules = lab.rights();
        let mut more = rules.clone();
        more.as_array_mut()
            .expect("rules")
            .push(json!({ "apiGroups": [""], "resources": ["pods", "pods/ephemeralcontainers"],
            "verbs": ["get"] }));
        lab.set_rights(&more);
        let tries = |words: &[&str]| {
            let words = [&["-n", &lab.name, &user], words].concat();
            lab.cluster.try_kubectl(&words, None).expect_err("it is refused")
        };
        let joins = |image: &str, args: &str| {
            let context = r#"{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},
                "seccompProfile":{"type":"RuntimeDefault"}}"#;
            let one = format!(r#"{{"name":"x","image":"{image}","args":["{args}"],"securityContext":{context}}}"#);
            format!(r#"{{"spec":{{"ephemeralContainers":[{one}]}}}}"#)
        };
        let patch = |body: &str| tries(&["patch", "pod", "first", "--subresource=ephemeralcontainers", "-p", body]);
        eventually("the policy is enforced", SOON, || async {
            let words = ["-n", &lab.name, &user, "annotate", "pod", "first", "theirs=value", "--dry-run=server"];
            match lab.cluster.try_kubectl(&words, None) {
                Err(said) if said.contains("no annotation but its own four") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let like_ours = OPERATOR.replace(':', "-like:");
        for (image, command) in [("busybox", "jmx-attach"), (&*like_ours, "jmx-attach"), (OPERATOR, "run")] {
            let said = patch(&joins(image, command));
            assert!(said.contains("no container but jmx-attach"), "{said}");
        }
        for words in [["set", "image", "pod/first", "app=busybox"], ["label", "pod", "first", "theirs=value"]] {
            let said = tries(&words);
            assert!(said.contains("nothing of a Pod but its annotations"), "{said}");
        }
        lab.set_rights(&rules);
        lab.exporter(&json!({}));
        lab.exporter_says("AllExporting").await;
        assert_eq!(lab.is_annotated("first").await.get("prometheus.io/port").map(String::as_str), Some("9400"));
        lab.metrics("first", PORT).await.unwrap();
        lab.end().await;
    });
}

#[test]
fn a_policy_that_refuses_the_container_is_quoted_and_once_it_lets_it_the_jvm_exports() {
    run(async {
        let lab = Lab::of_jvms("jmx-denied").await;
        let name = &lab.name;
        let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["pods/ephemeralcontainers"] }]);
        let spaces = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
        let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name }, "spec": {
            "matchConstraints": { "resourceRules": rules, "namespaceSelector": spaces },
            "validations": [{ "expression": "false", "message": "no debugging here" }] } });
        let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] } });
        lab.cluster.apply(&policy.to_string());
        lab.cluster.apply(&binding.to_string());
        lab.plain_jvm("first");
        lab.runs("first").await;
        let patch = r#"{"spec":{"ephemeralContainers":[{"name":"x","image":"busybox"}]}}"#;
        eventually("the policy is enforced", SOON, || async {
            let words = [
                "-n",
                name,
                "patch",
                "pod",
                "first",
                "--subresource=ephemeralcontainers",
                "--dry-run=server",
                "-p",
                patch,
            ];
            match lab.cluster.try_kubectl(&words, None) {
                Err(said) if said.contains("no debugging here") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        lab.exporter(&json!({}));
        let said = lab.exporter_refuses("first", "NotAdmitted").await;
        assert!(said.contains("no debugging here"), "{said}");
        lab.cluster.kubectl(&["delete", "validatingadmissionpolicybinding", name]);
        lab.exporter_says("AllExporting").await;
        lab.cluster.kubectl(&["delete", "validatingadmissionpolicy", name]);
        lab.end().await;
    });
}

#[test]
fn annotations_that_users_set_stay_and_prometheus_finds_each_exporting_pod_once() {
    run(async {
        let lab = Lab::of_jvms("jmx-found-by").await;
        let as_root = json!({ "securityContext": { "runAsUser": 0 } });
        let ports = json!({ "ports": [{ "containerPort": 8080 }, { "containerPort": 8443 }] });
        for (name, container) in [("plain", json!({})), ("ports", ports), ("theirs", json!({}))] {
            lab.jvm(name, "jvm:any", &container, &as_root);
            lab.runs(name).await;
        }
        lab.jvm("none", "jvm:any", &json!({ "command": ["bash", "-c", "sleep 600"] }), &as_root);
        lab.cluster.kubectl(&["-n", &lab.name, "annotate", "pod", "theirs", "prometheus.io/path=/own"]);
        lab.cluster.kubectl(&["-n", &lab.name, "annotate", "pod", "none", "prometheus.io/scrape=true"]);
        lab.exporter(&json!({ "rollout": { "maxConcurrent": "100%", "canary": { "soak": "0s" } } }));
        lab.exporter_settles("JvmsRefused").await;
        // Annotations follow the status, and what is known of them follows both.
        let named = lab.exporter_refuses("theirs", "annotations").await;
        assert_eq!(named, "theirs: annotation prometheus.io/path has another value, which stays");
        for name in ["plain", "ports", "theirs"] {
            lab.is_annotated(name).await;
        }
        assert_eq!(lab.annotations("theirs").await["prometheus.io/path"], "/own");
        let text =
            std::fs::read_to_string(repository("config/jmx-exporter-operator/prometheus-scrape.yaml")).expect("a file");
        let here = format!(
            "- role: pod\n        kubeconfig_file: {}\n        namespaces:\n          names: [{}]",
            lab.cluster.kubeconfig().display(),
            lab.name
        );
        let file = lab.cluster.path("jmx-scrape.yaml");
        std::fs::write(&file, text.replace("- role: pod", &here)).expect("a file");
        let mut ask = Command::new(tool("promtool"));
        ask.args(["check", "service-discovery", "--timeout=5s"]).arg(&file).arg("jmx-exporter");
        let found: Value = serde_json::from_str(&said(&mut ask)).expect("JSON");
        let targets = found.as_array().expect("targets").iter().filter(|one| one["labels"]["pod"].is_string());
        let mut targets: Vec<String> = targets
            .map(|one| {
                let of = |key: &str| one["labels"][key].as_str().unwrap_or_default().to_owned();
                format!("{} {} {}", of("pod"), of("__address__"), of("__metrics_path__"))
            })
            .collect();
        targets.sort();
        targets.dedup();
        let mut expected = Vec::new();
        for (name, path) in [("plain", "/metrics"), ("ports", "/metrics"), ("theirs", "/own")] {
            let address = lab.pod(name).await.status.and_then(|status| status.pod_ip).expect("an address");
            expected.push(format!("{name} {address}:{PORT} {path}"));
        }
        assert_eq!(targets, expected);
        lab.end().await;
    });
}

#[test]
fn rights_are_just_those_that_are_used_and_where_nothing_changes_nothing_is_written() {
    run(async {
        let mut lab = Lab::of_jvms("jmx-rights").await;
        lab.plain_jvm("first");
        lab.exporter(&json!({}));
        lab.exporter_says("AllExporting").await;
        let before = lab.rests().await;
        let pods = before.iter().filter(|write| write.starts_with("patch pods")).count();
        assert_eq!(pods, 2, "one container, one annotation: {before:?}");
        lab.start_exporter_operator().await;
        eventually("the second one stands by", SOON, || async {
            if lab.operators[1].printed().contains("standing by") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.touch_lease().await;
        assert_eq!(lab.unused_rights(), []);
        lab.end().await;
    });
}
