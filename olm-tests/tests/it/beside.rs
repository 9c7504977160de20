//! Beside OLM: kustomize, Helm and Argo CD, each by its own real program.

use std::process::{Command, Stdio};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::Api;
use olm_tests::cluster::{Cluster, documents, objects, repository};
use olm_tests::eventually;
use olm_tests::images::said;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::pages::{Shell, blocks};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::{Value, json};

const CRD: &str = "oneagents.dynatrace.com";

/// Objects in a fixed order, however they came.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    let key = |o: &Value| format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]);
    objects.sort_by_key(key);
    objects
}

#[test]
fn kustomize_builds_what_config_installs_and_an_overlay_names_the_image() {
    for package in PACKAGES {
        let folder = format!("config/{}", package.name);
        let kustomize = |folder: &std::path::Path| {
            documents(&said(
                Command::new(tool("kubectl")).args(["kustomize", "--load-restrictor=LoadRestrictionsNone"]).arg(folder),
            ))
        };
        assert_eq!(sorted(kustomize(&repository(&folder))), sorted(objects(&format!("{folder}/install.yaml"))));
        let overlay = tempfile::tempdir().unwrap();
        // A base is named by a path from the overlay.
        std::os::unix::fs::symlink(repository(&folder), overlay.path().join("base")).unwrap();
        let text = format!(
            "resources: [base]\nimages:\n- name: registry.example/oneagent-operator/{}\n  newName: r.example/o\n  \
            newTag: mine\n",
            package.name
        );
        std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
        let made = kustomize(overlay.path());
        let deployment = made.iter().find(|o| o["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "r.example/o:mine");
    }
}

/// What an Application or a release brings, and every OneAgent would go with, neither Argo CD nor Helm takes away: by
/// Argo CD's own function.
#[test]
fn argo_cd_neither_prunes_nor_deletes_what_a_fleet_hangs_on() {
    for package in PACKAGES {
        for file in ["install.yaml", "olm/subscription.yaml"] {
            let all = objects(&format!("config/{}/{file}", package.name));
            let mut argo = Command::new(tool("argocd")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            serde_json::to_writer(argo.stdin.take().unwrap(), &all).unwrap();
            let kept: Vec<Vec<String>> = serde_json::from_slice(&argo.wait_with_output().unwrap().stdout).unwrap();
            for (object, kept) in all.iter().zip(kept) {
                let holds_fleet = ["Namespace", "CustomResourceDefinition"].contains(&object["kind"].as_str().unwrap());
                let wanted: &[&str] = if holds_fleet { &["Prune=false", "Delete=false", "keep"] } else { &[] };
                assert_eq!(kept, wanted, "{} of {file}", object["kind"]);
            }
        }
    }
}

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
            assert_eq!(pod["metadata"]["annotations"]["openshift.io/required-scc"], "restricted-v2", "its own stay");
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
/// CRD is handed over, not deleted, and no OneAgent goes with it.
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

/// JSON as a table of Lua.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".into(),
        Value::Array(list) => format!("{{{}}}", list.iter().map(lua).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let entry = |(key, inner): (&String, &Value)| format!("[{}]={}", Value::from(key.as_str()), lua(inner));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// What Argo CD would show of an object: the script of `config/`, run by a real Lua.
fn health(object: &Value) -> (String, String) {
    let map = &objects("config/oneagent-operator/argocd-health.yaml")[0]["data"];
    let script = map["resource.customizations.health.dynatrace.com_OneAgent"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("health.lua");
    let text = format!(
        "local obj = {}\nlocal function look()\n{script}\nend\nlocal h = look()\nprint(h.status)\nprint(h.message)\n",
        lua(object)
    );
    std::fs::write(&file, text).unwrap();
    let said = said(Command::new(tool("glua")).arg(&file));
    let (status, message) = said.split_once('\n').unwrap();
    (status.to_owned(), message.trim().to_owned())
}

#[test]
fn argo_cd_sees_a_oneagent_as_its_status_says() {
    olm_tests::run(async {
        let lab = Lab::new("argo", 3).await;
        let now = async || serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap();
        let becomes = async |wanted: &str, words: &str| {
            eventually(&format!("Argo CD shows {wanted}"), SOON, || async {
                let (status, message) = health(&now().await);
                if status == wanted && message.contains(words) { Ok(()) } else { Err(format!("{status}: {message}")) }
            })
            .await;
        };
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        lab.all_at("agent", V1, 3, SOON).await;
        becomes("Healthy", "").await;
        let mut edited = now().await;
        edited["metadata"]["generation"] = 99.into();
        assert_eq!(health(&edited), ("Progressing".into(), "the newest spec is not looked at yet".into()));
        edited["status"] = Value::Null;
        assert_eq!(health(&edited).0, "Progressing");
        lab.cluster.vendor.publish(&lab.name, V2);
        becomes("Suspended", "").await;
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.all_at("agent", V2, 3, SOON).await;
        becomes("Healthy", "").await;
        lab.edit("agent", json!({ "trustedCAs": "nowhere" })).await;
        becomes("Degraded", "nowhere").await;
        lab.end().await;
    });
}
