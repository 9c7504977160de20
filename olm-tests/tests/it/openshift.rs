//! What is made for OpenShift and for Prometheus, by their own CRDs on a real API server.

use olm_tests::cluster::{Cluster, objects, repository};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::Value;

#[test]
fn what_the_console_the_mirrors_and_the_monitoring_are_given_is_valid_to_the_letter() {
    olm_tests::run(async {
        let cluster = Cluster::bare(Vec::new()).await;
        let config = |name: &str| tool("openshift-config").join(format!("0000_10_config-operator_01_{name}.crd.yaml"));
        let mut crds = vec![config("imagedigestmirrorsets"), config("imagetagmirrorsets")];
        for name in ["consolelinks", "consolequickstarts", "consoleyamlsamples"] {
            crds.push(tool("openshift-console").join(format!("00_{name}.crd.yaml")));
        }
        for name in ["prometheusrules", "servicemonitors"] {
            crds.push(tool("prometheus-crds").join(format!("monitoring.coreos.com_{name}.yaml")));
        }
        for crd in crds {
            cluster.kubectl(&["apply", "--server-side", "-f", &crd.display().to_string()]);
        }
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        for namespace in ["openshift-config-managed"].into_iter().chain(PACKAGES.iter().map(|p| p.namespace)) {
            cluster.kubectl(&["create", "namespace", namespace]);
        }
        let apply = |text: &str| {
            let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
            cluster.try_kubectl(&args, Some(text))
        };
        for package in PACKAGES {
            for file in ["console.yaml", "monitoring.yaml", "disconnected/mirrors.yaml"] {
                let path = format!("config/{}/{file}", package.name);
                let text = std::fs::read_to_string(repository(&path)).unwrap();
                apply(&text).unwrap_or_else(|why| panic!("{path}: {why}"));
                // The server looks closely: a field that is none would be refused.
                let wrong = text.replacen("spec:\n", "spec:\n  mistyped: 1\n", 1);
                assert!(apply(&wrong).is_err(), "{path}");
            }
            samples_are_those_of_config(package.name);
        }
    });
}

/// The console offers the samples as they stand in `config/`, comments included.
fn samples_are_those_of_config(package: &str) {
    let all = objects(&format!("config/{package}/console.yaml"));
    let samples: Vec<&Value> = all.iter().filter(|object| object["kind"] == "ConsoleYAMLSample").collect();
    assert!(!samples.is_empty());
    for sample in samples {
        let file = format!("config/{package}/samples/{}.yaml", sample["metadata"]["name"].as_str().unwrap());
        assert_eq!(sample["spec"]["yaml"], std::fs::read_to_string(repository(&file)).unwrap());
    }
}
