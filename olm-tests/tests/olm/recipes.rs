//! The recipes of `config/`, as they stand, against the real APIs of both OLMs.

use std::process::Command;

use olm_tests::cluster::{documents, repository};
use olm_tests::olm::Olm;
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::{Value, json};

#[test]
fn the_recipes_of_either_olm_are_valid_to_the_letter() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let standard = std::fs::read_to_string(tool("olmv1.yaml")).unwrap();
        let is_crd = |object: &Value| object["kind"] == "CustomResourceDefinition";
        let crds: Vec<String> = documents(&standard).into_iter().filter(is_crd).map(|crd| crd.to_string()).collect();
        assert_eq!(crds.len(), 2, "ClusterCatalog and ClusterExtension");
        olm.cluster.apply(&crds.join("\n---\n"));
        olm.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        for package in PACKAGES {
            olm.cluster.kubectl(&["create", "namespace", package.namespace]);
        }
        let apply = |text: &str| {
            let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
            olm.cluster.try_kubectl(&args, Some(text))
        };
        for package in PACKAGES {
            // As OLM makes it.
            let crds = repository(&format!("config/{}/crd", package.name)).display().to_string();
            olm.cluster.kubectl(&["apply", "--server-side", "-f", &crds]);
            olm.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
            for file in [
                "olm/catalogsource.yaml",
                "olm/subscription.yaml",
                "olm/olmv1.yaml",
                "disconnected/catalogsource.yaml",
                "disconnected/subscription.yaml",
            ] {
                let text = std::fs::read_to_string(repository(&format!("config/{}/{file}", package.name))).unwrap();
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
    });
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
