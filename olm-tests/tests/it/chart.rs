//! The Helm chart, by the real Helm: what it installs, what values change, a release after another; and kubeconform on
//! all that is installed without OLM, as pipelines run it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::Api;
use olm_tests::cluster::{Cluster, documents, objects, repository, sorted};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::olm::publisher;
use olm_tests::pages::{Shell, blocks};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::olm::chart::chart;
use oneagent_operator::olm::release::Release;
use serde_json::{Value, json};

const CRD: &str = "oneagents.dynatrace.com";

/// helm, as an administrator of this cluster would run it.
fn helm(cluster: &Cluster, args: &[&str]) -> Result<String, String> {
    let home = cluster.path("helm");
    std::fs::create_dir_all(&home).unwrap();
    let output =
        Command::new(tool("helm")).args(args).env("KUBECONFIG", cluster.kubeconfig()).env("HOME", home).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn the_chart_is_what_config_installs_with_values() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        for package in PACKAGES {
            let chart = repository(&format!("config/{}/chart", package.name)).display().to_string();
            helm(cluster, &["lint", "--strict", &chart]).unwrap_or_else(|why| panic!("{why}"));
            let render = |more: &[&str]| {
                let args =
                    [
                        &[
                            "template",
                            package.name,
                            &chart,
                            "--namespace",
                            package.namespace,
                            "--kube-version",
                            "1.36.0",
                        ][..],
                        more,
                    ]
                    .concat();
                documents(&helm(cluster, &args).unwrap_or_else(|why| panic!("{why}")))
            };
            let mut made = render(&[]);
            for object in &mut made {
                let labels = object["metadata"]["labels"].as_object_mut().unwrap();
                assert_eq!(labels.remove("app.kubernetes.io/managed-by"), Some(json!("Helm")));
                assert_eq!(labels.remove("app.kubernetes.io/instance"), Some(json!(package.name)));
                let chart = labels.remove("helm.sh/chart").unwrap();
                assert!(chart.as_str().unwrap().starts_with(&format!("{}-0", package.name)), "{chart}");
                if labels.is_empty() {
                    object["metadata"].as_object_mut().unwrap().remove("labels");
                }
            }
            let env = |objects: &mut Vec<Value>| {
                let deployment = objects.iter_mut().find(|o| o["kind"] == "Deployment").unwrap();
                deployment["spec"]["template"]["spec"]["containers"][0]["env"].take().as_array().cloned().unwrap()
            };
            let mut installed = objects(&format!("config/{}/install.yaml", package.name));
            installed.retain(|object| object["kind"] != "Namespace");
            let watched = json!({ "name": "WATCH_NAMESPACE", "value": package.namespace });
            assert!(env(&mut made).contains(&watched));
            env(&mut installed);
            assert_eq!(sorted(made), sorted(installed));
            let values = "image=r.example/o:mine,watchNamespaces={a,default},env[0].name=POLL_INTERVAL,env[0].value=5m,\
                imagePullSecrets[0].name=login,tolerations[0].operator=Exists,nodeSelector.disk=ssd,\
                priorityClassName=system-cluster-critical,podAnnotations.team=obs,resources.limits.memory=1Gi";
            let mut other = render(&["--set", values]);
            let template = |object: &Value| object["spec"]["template"].clone();
            let pod = template(other.iter().find(|o| o["kind"] == "Deployment").unwrap());
            let spec = &pod["spec"];
            assert_eq!(spec["containers"][0]["image"], "r.example/o:mine");
            assert_eq!(spec["containers"][0]["resources"]["limits"]["memory"], "1Gi");
            assert_eq!(spec["imagePullSecrets"], json!([{ "name": "login" }]));
            assert_eq!(spec["tolerations"], json!([{ "operator": "Exists" }]));
            assert_eq!(
                (&spec["nodeSelector"]["disk"], &spec["priorityClassName"]),
                (&json!("ssd"), &json!("system-cluster-critical"))
            );
            assert_eq!(pod["metadata"]["annotations"]["team"], "obs");
            let scc = if package.host_port.is_some() { "hostnetwork-v2" } else { "restricted-v2" };
            assert_eq!(pod["metadata"]["annotations"]["openshift.io/required-scc"], scc, "its own stay");
            // The rights follow to the namespaces that are watched.
            let roles = other.iter().filter(|o| o["kind"] == "RoleBinding" && o["metadata"]["name"] == package.name);
            let places: Vec<&Value> = roles.map(|role| &role["metadata"]["namespace"]).collect();
            assert!(places.contains(&&json!("a")) && places.contains(&&json!("default")), "{places:?}");
            // An API server takes all of it, to the letter.
            let mut all: Vec<Value> =
                other.iter().filter(|o| o["kind"] != "CustomResourceDefinition").cloned().collect();
            for object in all.iter_mut().filter(|o| !o["metadata"]["namespace"].is_null()) {
                object["metadata"]["namespace"] = "default".into();
            }
            let text = all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
            let strict =
                ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
            cluster.try_kubectl(&strict, Some(&text)).unwrap_or_else(|why| panic!("{why}"));
            for wrong in ["watchNamespace=a", "tolerations=x", "watchNamespaces={A}", "image="] {
                let args = ["template", package.name, &chart, "--set", wrong];
                let why = helm(cluster, &args).expect_err(wrong);
                assert!(why.contains("values don't meet the specifications of the schema"), "{wrong}: {why}");
            }
            let env = env(&mut other);
            assert!(env.contains(&json!({ "name": "POLL_INTERVAL", "value": "5m" })), "{env:?}");
            assert!(env.contains(&json!({ "name": "WATCH_NAMESPACE", "value": "a,default" })), "{env:?}");
        }
    });
}

/// A user who had the operator from OLM v0, or from `config/`, comes to Helm, and with the same marks to OLM v1: the
/// CRD is handed over, not deleted, and no OneAgent is deleted with it.
#[test]
fn helm_takes_over_a_crd_that_is_handed_to_it_and_leaves_it_behind() {
    olm_tests::run(async {
        // The CRDs are there, as OLM v0 leaves them.
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::without_operator(&cluster, "helmed", 2).await;
        lab.start_operator(&[]).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let (before, uid) = (lab.uids("agent").await, lab.agents().get("agent").await.unwrap().uid());
        let chart = repository("config/oneagent-operator/chart").display().to_string();
        let release = |verb: &'static str, more: &[&str]| {
            helm(&cluster, &[&[verb, "oneagent-operator", &chart, "--namespace", "helmed"][..], more].concat())
        };
        // What the rig made by hand of the same names is no part of this.
        for kind in ["serviceaccount", "role", "rolebinding"] {
            cluster.kubectl(&["-n", "helmed", "delete", kind, "--all"]);
        }
        cluster.kubectl(&[
            "delete",
            "clusterrole,clusterrolebinding",
            "-l",
            "app.kubernetes.io/part-of=oneagent-operator",
        ]);
        let refused = release("install", &[]).unwrap_err();
        assert!(refused.contains("cannot be imported") && refused.contains(CRD), "{refused}");
        // As the page has it, except for the namespace.
        let shell = Shell::new(&cluster);
        let hand_over = blocks("docs/olm.md", "OLM v1", "sh").remove(0);
        shell.run(&hand_over, &[("release-namespace=dynatrace", "release-namespace=helmed")]);
        let install = blocks("docs/olm.md", "Helm", "sh").remove(0);
        shell.run(&install, &[("-n dynatrace", "-n helmed"), ("=…@sha256:…", "=quay.io/o:mine")]);
        let image = || {
            let path = "jsonpath={.spec.template.spec.containers[0].image}";
            cluster.kubectl(&["-n", "helmed", "get", "deployment", "oneagent-operator", "-o", path])
        };
        assert!(image().starts_with("quay.io/"));
        release("upgrade", &["--set", "image=r.example/o:mine"]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(image(), "r.example/o:mine");
        helm(&cluster, &["uninstall", "oneagent-operator", "--namespace", "helmed"])
            .unwrap_or_else(|why| panic!("{why}"));
        let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
        assert!(crds.get(CRD).await.unwrap().metadata.deletion_timestamp.is_none());
        assert_eq!(lab.agents().get("agent").await.unwrap().uid(), uid, "the OneAgent is the same");
        assert_eq!(lab.uids("agent").await, before, "no agent was restarted by all that");
        // And again over what it left.
        release("install", &[]).unwrap_or_else(|why| panic!("{why}"));
    });
}

/// The chart of a release that does not exist, in a folder.
fn chart_of(version: &str, folder: &Path) -> String {
    let release = Release::new(&publisher(), version, "2026-11-26", "");
    let root = folder.join(version);
    for file in chart(&PACKAGE, &publisher(), &release).unwrap() {
        let path = root.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.content).unwrap();
    }
    root.join("config/oneagent-operator/chart").display().to_string()
}

#[test]
fn a_release_upgrades_rolls_back_and_leaves_the_fleet_when_uninstalled() {
    olm_tests::run(async {
        let cluster = Cluster::bare(Vec::new()).await;
        for namespace in ["dynatrace", "watched", "elsewhere"] {
            cluster.kubectl(&["create", "namespace", namespace]);
        }
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (chart_of("0.3.0", folder.path()), chart_of("0.4.0", folder.path()));
        let values = folder.path().join("values.yaml");
        std::fs::write(&values, "watchNamespaces: [dynatrace, watched]\nenv: [{ name: POLL_INTERVAL, value: 5m }]\n")
            .unwrap();
        let values = values.display().to_string();
        let run = |args: &[&str]| helm(&cluster, &[args, &["--namespace", "dynatrace"]].concat());
        let deployment = || -> Value {
            let text = cluster.kubectl(&["-n", "dynatrace", "get", "deployment", "oneagent-operator", "-o", "json"]);
            serde_json::from_str(&text).unwrap()
        };
        let image = || deployment()["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let is_there = |namespace: &str| {
            cluster.try_kubectl(&["-n", namespace, "get", "rolebinding", "oneagent-operator"], None).is_ok()
        };
        run(&["install", "agents", &old, "-f", &values]).unwrap_or_else(|why| panic!("{why}"));
        assert!(image().ends_with(":0.3.0") && is_there("watched"), "{}", image());
        cluster.kubectl(&["wait", "--for=condition=Established", "crd", CRD]);
        let sample = repository("config/oneagent-operator/samples/oneagent-dynatrace.yaml").display().to_string();
        cluster.kubectl(&["-n", "dynatrace", "apply", "-f", &sample]);
        let uid =
            || cluster.kubectl(&["-n", "dynatrace", "get", "oneagents", "-o", "jsonpath={.items[*].metadata.uid}"]);
        let before = uid();
        assert!(!before.is_empty());

        // Another release cannot take what this one has: CRD and roles of the cluster are there once.
        let why = helm(&cluster, &["install", "more", &new, "--namespace", "elsewhere"]).unwrap_err();
        assert!(why.contains("cannot be imported into the current release") && why.contains("dynatrace"), "{why}");

        run(&["upgrade", "agents", &new, "-f", &values]).unwrap_or_else(|why| panic!("{why}"));
        assert!(image().ends_with(":0.4.0"), "{}", image());
        let env = deployment()["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        assert!(env.as_array().unwrap().contains(&json!({ "name": "POLL_INTERVAL", "value": "5m" })), "{env}");
        // A namespace that is not watched any more: its rights go.
        run(&["upgrade", "agents", &new, "--set", "watchNamespaces=null"]).unwrap_or_else(|why| panic!("{why}"));
        assert!(!is_there("watched") && is_there("dynatrace"));
        run(&["rollback", "agents", "1"]).unwrap_or_else(|why| panic!("{why}"));
        assert!(image().ends_with(":0.3.0") && is_there("watched"), "{}", image());
        run(&["uninstall", "agents"]).unwrap_or_else(|why| panic!("{why}"));
        assert!(!is_there("watched") && !is_there("dynatrace"), "rights stay behind");
        assert_eq!(uid(), before, "the OneAgent went with the release");
        // Of another release's name it is installed over what was left, as Helm's message says.
        let why = run(&["install", "other", &new]).unwrap_err();
        assert!(why.contains("release-name"), "{why}");
        run(&["install", "agents", &new]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(uid(), before);
    });
}

/// A definition of the API server's OpenAPI document as JSON Schema has it, and no field but those that it names.
fn strict(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(map) => {
            if map.get("format") == Some(&json!("int-or-string")) {
                map.remove("type");
                map.remove("format");
            }
            let keeps = map.contains_key("x-kubernetes-preserve-unknown-fields");
            if map.get("properties").is_some_and(Value::is_object) && !keeps {
                map.insert("additionalProperties".into(), false.into());
            }
            for (name, inner) in map.iter_mut() {
                if let Some(reference) = inner.as_str().filter(|_| name == "$ref") {
                    *inner = format!("definitions.json{reference}").into();
                } else {
                    *inner = strict(inner.take());
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = strict(inner.take())),
        _ => {}
    }
    schema
}

#[test]
fn kubeconform_takes_all_that_is_installed_without_olm() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let document: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/openapi/v2"])).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, content: &Value| std::fs::write(folder.path().join(name), content.to_string()).unwrap();
        let mut kinds = BTreeMap::new();
        for (name, definition) in document["definitions"].as_object().unwrap() {
            for gvk in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let text = |key: &str| gvk[key].as_str().unwrap().to_lowercase();
                let reference = format!("definitions.json#/definitions/{name}");
                kinds.insert(format!("{}-{}-{}.json", text("kind"), text("group"), text("version")), reference);
            }
        }
        for (name, reference) in &kinds {
            write(name, &json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": reference }));
        }
        write("definitions.json", &json!({ "definitions": strict(document["definitions"].clone()) }));
        let group = "{{ if ne .Group .ResourceAPIVersion }}{{ .Group }}{{ end }}";
        let place =
            format!("{}/{{{{ .ResourceKind }}}}-{group}-{{{{ .ResourceAPIVersion }}}}.json", folder.path().display());
        let conform = |objects: &[Value]| {
            let file = folder.path().join("objects.yaml");
            std::fs::write(&file, objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")).unwrap();
            let mut command = Command::new(tool("kubeconform"));
            let output = command.args(["-strict", "-summary", "-schema-location", &place]).arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() { Ok(said) } else { Err(said) }
        };
        for package in PACKAGES {
            let chart = repository(&format!("config/{}/chart", package.name)).display().to_string();
            let render = ["template", package.name, &chart, "--namespace", "default", "--kube-version", "1.36.0"];
            let rendered = helm(cluster, &render).unwrap();
            let mut all = documents(&rendered);
            all.extend(objects(&format!("config/{}/install.yaml", package.name)));
            for sample in package.samples {
                all.extend(objects(&format!("config/{}/samples/{}", package.name, sample.file)));
            }
            let said = conform(&all).unwrap_or_else(|why| panic!("{why}"));
            assert!(said.contains(&format!("{} resources found", all.len())) && said.contains("Skipped: 0"), "{said}");
            let deployment = all.iter_mut().find(|object| object["kind"] == "Deployment").unwrap();
            deployment["spec"]["template"]["spec"]["tolerationz"] = json!([]);
            let why = conform(&all).unwrap_err();
            assert!(why.contains("tolerationz") && why.contains("Invalid: 1"), "{why}");
        }
    });
}
