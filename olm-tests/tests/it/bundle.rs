//! The bundle and the catalog, as the field's own validators see them.

use std::path::Path;
use std::process::Command;

use olm_tests::cluster::{Cluster, documents, objects, repository};
use olm_tests::images::said;
use olm_tests::olm::kept;
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::olm::catalog::{OPENSHIFT, catalog};
use oneagent_operator::olm::release::Released;
use serde_json::{Value, json};

fn output(command: &mut Command) -> (bool, String, String) {
    let output = command.output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The bundle of the present code, in a folder of its own; with what its OpenShift flavour adds.
fn bundle(package: &str, is_openshift: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("bundle");
    said(Command::new("cp").arg("-r").arg(repository(&format!("bundle/{package}"))).arg(&into));
    for entry in std::fs::read_dir(into.join(OPENSHIFT)).unwrap().flatten().filter(|_| is_openshift) {
        std::fs::copy(entry.path(), into.join("manifests").join(entry.file_name())).unwrap();
    }
    std::fs::remove_dir_all(into.join(OPENSHIFT)).unwrap();
    folder
}

fn csv() -> Value {
    objects("bundle/oneagent-operator/manifests/oneagent-operator.clusterserviceversion.yaml").remove(0)
}

/// The catalog of these releases, in a folder of its own.
fn catalog_of(releases: &[Released]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = catalog(&PACKAGE, releases, &[]).unwrap().remove(0);
    std::fs::write(folder.path().join("catalog.yaml"), file.content).unwrap();
    folder
}

/// Every release of the list, as it is kept.
fn all() -> Vec<Released> {
    let all: Vec<_> = olm_tests::olm::releases().releases.iter().map(|r| kept(&PACKAGE, &r.version)).collect();
    assert!(all.len() > 1);
    all
}

fn validate(folder: &Path) -> (bool, String) {
    let (good, _, said) = output(Command::new(tool("opm")).arg("validate").arg(folder));
    (good, said)
}

#[test]
fn opm_finds_the_catalog_valid_and_a_broken_one_not() {
    // The folder that ships, with bundles and release list beside the catalog.
    let (good, said) = validate(&repository("catalog"));
    assert!(good, "{said}");
    let mut releases = all();
    let newest = releases.len() - 1;
    releases[0].release.deprecated = Some("It is old; install a newer one.".into());
    let skipped = releases[newest - 1].release.version.clone();
    releases[newest].release.skips = vec![skipped.clone()];
    releases[newest].release.channels = vec!["candidate-v0".into()];
    let folder = catalog_of(&releases);
    let (good, said) = validate(folder.path());
    assert!(good, "{said}");
    let path = folder.path().join("catalog.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let blobs = documents(&text);
    let channel =
        |name: &str| blobs.iter().find(|blob| blob["schema"] == "olm.channel" && blob["name"] == name).unwrap();
    let head = |name: &str| channel(name)["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(head("stable-v0")["name"], format!("oneagent-operator.v{skipped}"));
    assert_eq!(head("candidate-v0")["skips"], json!([format!("oneagent-operator.v{skipped}")]));
    let notes = blobs.iter().find(|blob| blob["schema"] == "olm.deprecations").unwrap();
    assert_eq!(notes["entries"][0]["message"], "It is old; install a newer one.");
    // The validator is really asked: for what it says of a channel, and of the note.
    for (from, to, words) in [
        ("defaultChannel: stable-v0", "defaultChannel: none", "none"),
        ("It is old; install a newer one.", "''", "message"),
    ] {
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let (good, said) = validate(folder.path());
        assert!(!good && said.contains(words), "{said}");
    }
}

/// What opm makes of a bundle directory is what our catalog says of that release.
#[test]
fn opm_renders_every_released_bundle_to_what_the_catalog_has() {
    let releases = all();
    let catalog = documents(&std::fs::read_to_string(catalog_of(&releases).path().join("catalog.yaml")).unwrap());
    for Released { release, image, .. } in releases {
        let level = [
            "render",
            "-o",
            "json",
            "--migrate-level",
            "bundle-object-to-csv-metadata",
            "--alpha-image-ref-template",
            &image,
        ];
        let (good, rendered, said) = output(
            Command::new(tool("opm"))
                .args(level)
                .arg(repository(&Released::folder("oneagent-operator", &release.version))),
        );
        assert!(good, "{said}");
        let theirs: Value = serde_json::from_str(&rendered).unwrap();
        let ours = catalog
            .iter()
            .find(|b| b["schema"] == "olm.bundle" && b["name"] == format!("oneagent-operator.v{}", release.version))
            .unwrap();
        let sorted = |blob: &Value, key: &str| {
            let mut all: Vec<String> =
                blob[key].as_array().unwrap().iter().map(|p| without_empty(p).to_string()).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&theirs, "properties"), sorted(ours, "properties"));
        let images = |blob: &Value| {
            blob["relatedImages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|i| i["image"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (images(&theirs), &theirs["image"], &theirs["package"]),
            (images(ours), &ours["image"], &ours["package"])
        );
    }
}

/// Empty fields are written by one and left out by the other.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (k.clone(), without_empty(v)))
            .filter(|(_, v)| !(v.is_null() || *v == json!("") || *v == json!([]) || *v == json!({})))
            .collect(),
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

#[test]
fn operator_sdk_has_nothing_to_say_of_any_bundle() {
    let validate = |folder: &std::path::Path| {
        let args = [
            "bundle",
            "validate",
            "--select-optional",
            "suite=operatorframework",
            "--optional-values=k8s-version=1.36",
            "-o",
            "json-alpha1",
        ];
        let (_, said, failed) = output(Command::new(tool("operator-sdk")).args(args).arg(folder));
        serde_json::from_str::<Value>(&said).unwrap_or_else(|_| panic!("{said}{failed}"))
    };
    for (package, is_openshift) in PACKAGES.iter().flat_map(|package| [(package, false), (package, true)]) {
        let folder = bundle(package.name, is_openshift);
        let answer = validate(&folder.path().join("bundle"));
        let is_silent = answer["outputs"].as_array().is_none_or(Vec::is_empty);
        assert!(answer["passed"] == true && is_silent, "{} {is_openshift}: {answer:#}", package.name);
    }
    // It has something to say of a worse one.
    let folder = bundle("oneagent-operator", true);
    let path = folder.path().join("bundle/manifests/oneagent-operator.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("capabilities: Full Lifecycle", "capabilities: Fullest Lifecycle")).unwrap();
    assert!(!validate(&folder.path().join("bundle"))["outputs"].as_array().unwrap().is_empty());
}

/// The scorecard's own tests, without Pods: they read /bundle, so they are given a root of their own.
#[test]
fn the_six_tests_of_the_scorecard_pass() {
    for package in PACKAGES {
        scorecard(package.name, &bundle(package.name, false));
        scorecard(package.name, &bundle(package.name, true));
    }
}

fn scorecard(package: &str, root: &tempfile::TempDir) {
    // By another process: what this one starts meanwhile inherits its open files, and a program that is open for
    // writing cannot be started.
    said(Command::new("cp").arg(tool("scorecard-test")).arg(root.path()));
    let names = [
        "basic-check-spec",
        "olm-bundle-validation",
        "olm-crds-have-validation",
        "olm-crds-have-resources",
        "olm-spec-descriptors",
        "olm-status-descriptors",
    ];
    for name in names {
        let (_, said, failed) =
            output(Command::new("unshare").args(["-r", "chroot"]).arg(root.path()).args(["/scorecard-test", name]));
        let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{name}: {said}{failed}"));
        assert_eq!(answer["results"][0]["state"], "pass", "{package} {name}: {answer:#}");
    }
}

#[test]
fn the_csv_grants_what_config_grants_and_its_examples_apply() {
    let csv = csv();
    let install = &csv["spec"]["install"]["spec"];
    let rbac = objects("config/oneagent-operator/rbac.yaml");
    let of = |kind: &str| rbac.iter().find(|o| o["kind"] == kind).unwrap()["rules"].clone();
    assert_eq!(install["permissions"][0]["rules"], of("Role"));
    assert_eq!(install["clusterPermissions"][0]["rules"], of("ClusterRole"));
    let labels = std::fs::read_to_string(repository("bundle/oneagent-operator/Containerfile")).unwrap();
    for (key, value) in
        objects("bundle/oneagent-operator/metadata/annotations.yaml")[0]["annotations"].as_object().unwrap()
    {
        assert!(labels.contains(&format!("LABEL {key}={}\n", value.as_str().unwrap())), "{key}");
    }
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let template =
            csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"].as_str().unwrap();
        cluster.apply(template);
        let examples: Vec<Value> =
            serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap()).unwrap();
        assert_eq!(examples.len(), oneagent_operator::api::oneagent::package::PACKAGE.samples.len().min(3));
        for example in examples {
            cluster
                .try_kubectl(
                    &["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"],
                    Some(&example.to_string()),
                )
                .unwrap();
        }
    });
}

#[test]
fn the_examples_of_the_reference_pages_are_accepted_as_they_are_written() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let files = std::fs::read_dir(repository("docs/examples")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut objects: Vec<Value> =
            files.flat_map(|name| objects(&format!("docs/examples/{}", name.display()))).collect();
        let strict = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        for object in &mut objects {
            object["metadata"]["namespace"] = json!("default");
            cluster.try_kubectl(&strict, Some(&object.to_string())).unwrap();
        }
        objects[0]["spec"]["unheardOf"] = json!(1);
        let refused = cluster.try_kubectl(&strict, Some(&objects[0].to_string())).unwrap_err();
        assert!(refused.contains("unheardOf"), "{refused}");
    });
}

/// What a CRD refuses needs no operator to be reported.
#[test]
fn the_api_server_refuses_what_can_never_be_meant_and_names_the_field() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let exporter = |spec: Value| {
            let mut whole = json!({ "labelSelector": { "app": "a" }, "port": 9400,
                "config": { "configMapName": "c", "configMapKey": "k" } });
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            json!({ "apiVersion": "banzaicloud.com/v1alpha1", "kind": "PrometheusJmxExporter",
                "metadata": { "name": "refused", "namespace": "default" }, "spec": whole })
        };
        let manager = json!({ "apiVersion": "contrail.juniper.net/v1alpha1", "kind": "Manager",
            "metadata": { "name": "refused", "namespace": "default" },
            "spec": { "commonConfiguration": { "hostNetwork": false }, "services": {} } });
        let rollout = json!({ "apiVersion": "oneagent-operator.github.io/v1alpha1", "kind": "DaemonSetRollout",
            "metadata": { "name": "refused", "namespace": "default" }, "spec": { "daemonSet": "" } });
        for (object, field) in [
            (exporter(json!({ "labelSelector": {} })), "spec.labelSelector"),
            (exporter(json!({ "port": 0 })), "spec.port"),
            (exporter(json!({ "port": 65_536 })), "spec.port"),
            (exporter(json!({ "container": "" })), "spec.container"),
            (exporter(json!({ "minFreeMemory": "much" })), "spec.minFreeMemory"),
            (exporter(json!({ "config": { "configMapName": "", "configMapKey": "k" } })), "spec.config.configMapName"),
            (exporter(json!({ "config": { "configMapName": "c", "configMapKey": "" } })), "spec.config.configMapKey"),
            (manager, "spec.commonConfiguration.hostNetwork"),
            (rollout, "spec.daemonSet"),
        ] {
            let words = ["create", "--dry-run=server", "-f", "-"];
            let said = cluster.try_kubectl(&words, Some(&object.to_string())).expect_err(field);
            assert!(said.contains(field), "{field}: {said}");
        }
        let accepted = exporter(json!({ "port": 65_535, "minFreeMemory": 0, "container": "app" }));
        cluster.try_kubectl(&["create", "--dry-run=server", "-f", "-"], Some(&accepted.to_string())).unwrap();
    });
}
