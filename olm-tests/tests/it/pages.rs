//! What pages tell people to type, as printed, on a real API server.

use std::path::Path;
use std::process::Command;

use olm_tests::cluster::{Cluster, repository};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::nodes::{self, Shape};
use olm_tests::tools::tool;
use olm_tests::vendor::{api_token, paas_token};
use serde_json::json;

/// The blocks of code of a language on a page, below a heading.
fn blocks(page: &str, heading: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository(page)).unwrap();
    let below = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading} on {page}"));
    let below = below.split("\n## ").next().unwrap();
    let fence = format!("```{language}\n");
    let blocks = below.split(&fence).skip(1).map(|block| block.split("\n```").next().unwrap().to_owned());
    blocks.collect()
}

/// Runs a block in the repository as a person would; what a person has to put in is put in.
fn run(cluster: &Cluster, block: &str, with: &[(&str, String)]) -> String {
    let mut script = block.to_owned();
    for (placeholder, value) in with {
        assert!(script.contains(placeholder), "{placeholder}\n{script}");
        script = script.replace(placeholder, value);
    }
    assert!(!script.contains('…'), "something is left to be put in:\n{script}");
    let kubectl = tool("kubectl");
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script]).current_dir(repository(""));
    let output = shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{script}\n{said}");
    said
}

#[test]
fn the_installation_page_installs_stops_upgrades_and_removes() {
    olm_tests::run(async {
        let cluster = Cluster::bare(vec![("POLL_INTERVAL".to_owned(), "1s".to_owned())]).await;
        nodes::create(&cluster.client, vec![nodes::node("one", &Shape::default())]).await;
        cluster.vendor.add("first", V1);
        let sample = Path::new("config/oneagent-operator/samples/oneagent-dynatrace.yaml");
        let mine = cluster.path("oneagent.yaml");
        let text = std::fs::read_to_string(repository(&sample.display().to_string())).unwrap();
        let url = "https://ENVIRONMENTID.live.dynatrace.com/api";
        assert!(text.contains(url), "{text}");
        std::fs::write(&mine, text.replace(url, &cluster.vendor.url("first"))).unwrap();
        let block = blocks("docs/install.md", "Install", "sh").remove(0);
        run(
            &cluster,
            &block,
            &[
                ("IMAGE@sha256:…", "registry.example/oneagent-operator:1".to_owned()),
                ("apiToken=…", format!("apiToken={}", api_token("first"))),
                ("paasToken=…", format!("paasToken={}", paas_token("first"))),
                (&sample.display().to_string(), mine.display().to_string()),
            ],
        );
        let jsonpath = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].reason}";
        eventually("the agent runs", SOON, || async {
            let said = cluster.kubectl(&["-n", "dynatrace", "get", "oneagents", "-o", jsonpath]);
            if said == "AllUpdated" { Ok(()) } else { Err(said) }
        })
        .await;
        // Held for the whole cluster, and let go.
        run(&cluster, &blocks("docs/install.md", "Settings", "sh").remove(0), &[]);
        cluster.kubectl(&["-n", "dynatrace", "delete", "configmap", "oneagent-operator"]);
        run(&cluster, &blocks("docs/install.md", "Remove", "sh").remove(0), &[]);
        assert!(cluster.try_kubectl(&["get", "crd", "oneagents.dynatrace.com"], None).is_err());
    });
}

#[test]
fn the_policy_for_editors_lets_through_what_is_listed_and_names_what_is_not() {
    olm_tests::run(async {
        // A cluster of its own: the policy is everybody's.
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "dynatrace", 1).await;
        let block = blocks("docs/security.md", "Limit what an editor of OneAgents can do", "yaml").remove(0);
        let url = lab.cluster.vendor.url(&lab.name);
        lab.cluster.apply(&block.replace("https://ENVIRONMENTID.live.dynatrace.com/api", &url));
        let apply = |spec: serde_json::Value| {
            let agent = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "agent", "namespace": lab.name }, "spec": spec });
            lab.cluster.try_kubectl(&["apply", "--dry-run=server", "-f", "-"], Some(&agent.to_string()))
        };
        // The policy is there a moment after it was made.
        eventually("another address is refused", SOON, || async {
            match apply(json!({ "apiUrl": "https://elsewhere.example/api" })) {
                Err(why) if why.contains("spec.apiUrl is not in key apiUrls") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        for (change, said) in [
            (json!({ "image": "docker.io/else/oneagent:1" }), "spec.image is not in key images"),
            (json!({ "serviceAccountName": "default" }), "spec.serviceAccountName must be left out"),
            (
                json!({ "env": [{ "name": "ONEAGENT_INSTALLER_SCRIPT_URL", "value": "x" }] }),
                "with a value, for the installer",
            ),
            (json!({ "args": ["--set-proxy=x"] }), "spec.args must be left out"),
            (json!({ "skipCertCheck": true }), "spec.skipCertCheck must not be true"),
            (json!({ "trustedCAs": "mine" }), "spec.proxy and spec.trustedCAs decide"),
        ] {
            let mut spec = change.clone();
            spec["apiUrl"] = json!(url);
            let refused = apply(spec).expect_err(&change.to_string());
            assert!(refused.contains(said), "{refused}");
        }
        for fine in [json!({}), json!({ "image": "docker.io/dynatrace/oneagent:1.301" })] {
            let mut spec = fine;
            spec["apiUrl"] = json!(url);
            apply(spec).unwrap();
        }
        lab.end().await;
    });
}

#[test]
fn pages_and_descriptions_of_fields_are_spelt_right() {
    let read = |arguments: &[&str], more: &[std::path::PathBuf]| {
        let output = Command::new(tool("misspell")).args(arguments).args(more).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "config"];
    let said = read(&["-error"], &pages.map(repository));
    assert!(said.is_empty(), "{said}");
    // It would be noticed.
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.md");
    std::fs::write(&wrong, "It is neccessary.").unwrap();
    assert!(read(&["-error"], &[wrong]).contains("neccessary"));
}
