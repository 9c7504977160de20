//! The recipes of `config/`, as they stand, against the real APIs of both OLMs.

use std::process::Command;
use std::time::Duration;

use olm_tests::cluster::{documents, repository};
use olm_tests::eventually;
use olm_tests::olm::Olm;
use olm_tests::pages::{Shell, command};
use olm_tests::tools::tool;
use olm_tests::wait::SOON;
use oneagent_operator::api::PACKAGES;
use serde_json::{Value, json};

/// Applies the CRDs of a release of operator-controller.
fn olm_v1(olm: &Olm, manifests: &str) {
    let standard = std::fs::read_to_string(tool(manifests)).unwrap();
    let is_crd = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let crds: Vec<String> = documents(&standard).into_iter().filter(is_crd).map(|crd| crd.to_string()).collect();
    assert_eq!(crds.len(), 2, "ClusterCatalog and ClusterExtension");
    let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    olm.cluster.try_kubectl(&args, Some(&crds.join("\n---\n"))).unwrap_or_else(|why| panic!("{why}"));
    olm.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", "crd", "--all"]);
}

fn recipe(package: &str, file: &str) -> String {
    std::fs::read_to_string(repository(&format!("config/{package}/{file}"))).unwrap()
}

#[test]
fn the_recipes_of_either_olm_are_valid_to_the_letter() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        for package in PACKAGES {
            olm.cluster.kubectl(&["create", "namespace", package.namespace]);
        }
        let apply = |text: &str| {
            let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
            olm.cluster.try_kubectl(&args, Some(text))
        };
        // With a ServiceAccount they are for releases that ask for one, and no older release takes the other.
        olm_v1(&olm, "olmv1-10.yaml");
        for package in PACKAGES {
            for file in ["olm/olmv1-serviceaccount.yaml", "disconnected/olmv1.yaml"] {
                apply(&recipe(package.name, file)).unwrap_or_else(|why| panic!("{} {file}: {why}", package.name));
            }
            let why = apply(&recipe(package.name, "olm/olmv1.yaml")).unwrap_err();
            assert!(why.contains("spec.serviceAccount"), "{why}");
        }
        olm_v1(&olm, "olmv1.yaml");
        for package in PACKAGES {
            // As OLM makes it.
            let crds = repository(&format!("config/{}/crd", package.name)).display().to_string();
            olm.cluster.kubectl(&["apply", "--server-side", "-f", &crds]);
            olm.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", "crd", "--all"]);
            for file in [
                "olm/catalogsource.yaml",
                "olm/subscription.yaml",
                "olm/olmv1.yaml",
                "olm/olmv1-serviceaccount.yaml",
                "disconnected/catalogsource.yaml",
                "disconnected/olmv1.yaml",
                "disconnected/subscription.yaml",
            ] {
                let text = recipe(package.name, file);
                apply(&text).unwrap_or_else(|why| panic!("{} {file}: {why}", package.name));
                // The server looks closely: a field that is none would be refused.
                let wrong = text.replacen("spec:\n", "spec:\n  mistyped: 1\n", 1);
                assert!(apply(&wrong).is_err(), "{file}");
            }
            // Of each of these files openshift-install takes the first object alone.
            let folder = repository(&format!("config/{}/olm/day-one", package.name));
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                assert_eq!(documents(&text).len(), 1, "{entry:?}");
                apply(&text).unwrap_or_else(|why| panic!("{entry:?}: {why}"));
            }
        }
        operator_groups(&olm);
        an_extension_is_removed_and_leaves_the_fleet(&olm).await;
    });
}

/// OLM v1 makes a ClusterExtension the owner of all that it installs: what the page says of deleting it is what
/// Kubernetes' garbage collector does.
async fn an_extension_is_removed_and_leaves_the_fleet(olm: &Olm) {
    const CRD: &str = "oneagents.dynatrace.com";
    let extension = || {
        let extension = documents(&recipe("oneagent-operator", "olm/olmv1.yaml")).pop().unwrap();
        olm.cluster.apply(&extension.to_string());
        let uid =
            olm.cluster.kubectl(&["get", "clusterextension", "oneagent-operator", "-o", "jsonpath={.metadata.uid}"]);
        let owner = json!({ "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "name": "oneagent-operator", "uid": uid, "controller": true, "blockOwnerDeletion": true });
        let patch = json!({ "metadata": { "ownerReferences": [owner] } }).to_string();
        olm.cluster.kubectl(&["patch", "crd", CRD, "--type", "merge", "-p", &patch]);
    };
    let crd = || async { olm.get("CustomResourceDefinition", "", CRD).await };
    extension();
    let keep = command("docs/install.md", "Remove", "kubectl delete clusterextension");
    Shell::new(&olm.cluster).run(&keep, &[]);
    eventually("the CRD belongs to nobody", Duration::from_secs(30), || async {
        let owners = crd().await.unwrap_or_default()["metadata"]["ownerReferences"].clone();
        if owners.is_null() { Ok(()) } else { Err(owners.to_string()) }
    })
    .await;
    assert!(crd().await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    // Without that word it is removed, as the page says.
    extension();
    olm.cluster.kubectl(&["delete", "clusterextension", "oneagent-operator"]);
    eventually("the CRD is gone", SOON, || async {
        if crd().await.is_none() { Ok(()) } else { Err("it is there".to_owned()) }
    })
    .await;
}

/// `check` says of the namespace's OperatorGroups what OLM would only say in a condition of a ClusterServiceVersion.
fn operator_groups(olm: &Olm) {
    let sample =
        std::fs::read_to_string(repository("config/oneagent-operator/samples/oneagent-dynatrace.yaml")).unwrap();
    olm.cluster.apply(&sample);
    let group = |name: &str| {
        olm.cluster.apply(
            &json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": { "name": name, "namespace": "dynatrace" }, "spec": {} })
            .to_string(),
        );
    };
    let check = || {
        let mut command = Command::new(olm_tests::operator::binary());
        command.args(["check", "oneagent", "-n", "dynatrace"]).env("KUBECONFIG", olm.cluster.kubeconfig());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    assert!(!check().contains("OperatorGroup"));
    group("theirs");
    let said = check();
    assert!(said.contains("note  OperatorGroup dynatrace/theirs targets all namespaces"), "{said}");
    group("ours");
    let said = check();
    assert!(said.contains("FAIL  namespace dynatrace has 2 OperatorGroups (ours, theirs)"), "{said}");
}
