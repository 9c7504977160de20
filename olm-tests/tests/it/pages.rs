//! What pages tell people to type, as printed, on a real API server.

use std::collections::BTreeSet;
use std::process::Command;

use olm_tests::cluster::{Cluster, repository};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::nodes::{self, Shape};
use olm_tests::pages::{Shell, blocks, command};
use olm_tests::tools::tool;
use olm_tests::vendor::{api_token, paas_token};
use serde_json::json;

/// The environment of every page.
const ADDRESS: &str = "https://ENVIRONMENTID.live.dynatrace.com/api";

#[test]
fn the_pages_of_installation_and_backup_do_what_they_say_as_printed() {
    olm_tests::run(async {
        let cluster = Cluster::bare(vec![("POLL_INTERVAL".to_owned(), "1s".to_owned())]).await;
        nodes::create(&cluster.client, vec![nodes::node("one", &Shape::default())]).await;
        cluster.vendor.add("first", V1);
        let shell = Shell::new(&cluster);
        let sample = "config/oneagent-operator/samples/oneagent-dynatrace.yaml";
        shell.edit(sample, ADDRESS, &cluster.vendor.url("first"));
        let (api, paas) = (format!("apiToken={}", api_token("first")), format!("paasToken={}", paas_token("first")));
        let image = ("IMAGE@sha256:…", "registry.example/oneagent-operator:1");
        let tokens = [("apiToken=…", api.as_str()), ("paasToken=…", paas.as_str())];
        shell.run(&blocks("docs/install.md", "Install", "sh").remove(0), &[&[image][..], &tokens].concat());
        let runs = async || {
            let jsonpath = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].reason}";
            eventually("the agent runs", SOON, || async {
                let said = cluster.kubectl(&["-n", "dynatrace", "get", "oneagents", "-o", jsonpath]);
                if said == "AllUpdated" { Ok(()) } else { Err(said) }
            })
            .await;
        };
        runs().await;
        // Held for the whole cluster, and let go.
        shell.run(&blocks("docs/install.md", "Settings", "sh").remove(0), &[]);
        cluster.kubectl(&["-n", "dynatrace", "delete", "configmap", "oneagent-operator"]);
        // Its Secret is the only one that it names.
        let saved = blocks("docs/backup.md", "Back up", "sh").remove(0);
        shell.run(&saved, &[(" secret/PROXY configmap/CAS configmap/VERSIONS", "")]);
        cluster.kubectl(&["-n", "dynatrace", "delete", "oneagent,secret", "--all"]);
        let restore = command("docs/backup.md", "Restore", "kubectl apply");
        shell.run(&restore, &[]);
        runs().await;
        // Over what is there, and was edited and written since.
        let agents = || cluster.kubectl(&["-n", "dynatrace", "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
        let before = agents();
        let paused = r#"{"spec":{"rollout":{"paused":true}}}"#;
        cluster.kubectl(&["-n", "dynatrace", "patch", "oneagent", "oneagent", "--type=merge", "-p", paused]);
        shell.run(&restore, &[]);
        runs().await;
        assert_eq!(agents(), before, "no agent is replaced by it");
        // `check`, told the tokens.
        let check =
            blocks("docs/troubleshooting.md", "Is it the environment, the token or the network?", "sh").remove(0);
        std::fs::copy(shell.file(sample), shell.file("oneagent.yaml")).unwrap();
        let typed = format!("{}\n{}\n", paas_token("first"), api_token("first"));
        let said = shell.told(&check, &[(ADDRESS, &cluster.vendor.url("first"))], &typed);
        assert!(!said.contains("SECRET"), "{said}");
        the_other_package(&cluster, &shell, image).await;
        shell.run(&blocks("docs/install.md", "Remove", "sh").remove(0), &[]);
        assert!(cluster.try_kubectl(&["get", "crd", "oneagents.dynatrace.com"], None).is_err());
    });
}

/// The page of ConfigWatcher: its Pods are replaced by those that have read the new value.
async fn the_other_package(cluster: &Cluster, shell: &Shell, image: (&str, &str)) {
    let block = blocks("docs/configwatcher.md", "Install", "sh").remove(0);
    // The last line is for when the Pods run.
    let (install, change) = block.split_once("\nkubectl -n configwatcher patch").unwrap();
    shell.run(install, &[image]);
    let pods = || {
        let path = "jsonpath={range .items[*]}{.metadata.uid}={.status.conditions[?(@.type==\"Ready\")].status} {end}";
        let said = cluster.kubectl(&["-n", "configwatcher", "get", "pods", "-l", "app=webapp", "-o", path]);
        let ready = said.split_whitespace().filter_map(|pod| pod.strip_suffix("=True"));
        ready.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let says = |reason: &str| {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].reason}";
        let now = cluster.kubectl(&["-n", "configwatcher", "get", "configwatchers", "-o", path]);
        if now == reason { Ok(()) } else { Err(now) }
    };
    eventually("the watcher is content", SOON, || async { says("AllUpdated") }).await;
    let before = pods();
    assert_eq!(before.len(), 4);
    shell.run(&format!("kubectl -n configwatcher patch{change}"), &[]);
    eventually("each Pod is another", SOON, || async {
        let now = pods();
        if now.len() == 4 && now.is_disjoint(&before) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// What those pages print is run, here, by `beside` and by `olm::images`.
#[test]
fn the_readme_installs_as_the_pages_do() {
    let by = |page: &str, headings: &[&str]| -> BTreeSet<String> {
        let blocks: Vec<String> = headings.iter().flat_map(|heading| blocks(page, heading, "sh")).collect();
        let lines = blocks.iter().flat_map(|block| block.lines());
        // Without remarks.
        lines.map(|line| line.split("  #").next().unwrap().trim().to_owned()).collect()
    };
    let run = &by("docs/install.md", &["Install"]) | &by("docs/olm.md", &["OperatorHub, or oc and kubectl", "Helm"]);
    let typed = by("README.md", &["Install", "A first OneAgent"]);
    let night = by("docs/status.md", &["Why has this node no agent?"]);
    let strange: Vec<&String> = typed.iter().filter(|line| !run.contains(*line) && !night.contains(*line)).collect();
    assert!(strange.is_empty() && typed.len() > 7, "{strange:?}");
}

#[test]
fn the_policy_for_editors_lets_through_what_is_listed_and_names_what_is_not() {
    olm_tests::run(async {
        // A cluster of its own: the policy is everybody's.
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "dynatrace", 1).await;
        let block = blocks("docs/security.md", "Limit what an editor of OneAgents can do", "yaml").remove(0);
        let url = lab.cluster.vendor.url(&lab.name);
        lab.cluster.apply(&block.replace(ADDRESS, &url));
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
fn the_workflows_are_what_their_forge_takes() {
    let lint = |path: &std::path::Path| Command::new(tool("actionlint")).arg(path).output().unwrap();
    let workflows: Vec<_> = std::fs::read_dir(repository(".github/workflows")).unwrap().flatten().collect();
    assert_eq!(workflows.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    for workflow in workflows {
        let output = lint(&workflow.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let text = std::fs::read_to_string(workflow.path()).unwrap();
        let wrong = folder.path().join("wrong.yml");
        std::fs::write(&wrong, text.replace("runs-on:", "runs-at:")).unwrap();
        assert!(!lint(&wrong).status.success(), "it would be noticed");
    }
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
