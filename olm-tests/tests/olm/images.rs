//! The images as `make images` builds them: the same each time, and what OLM runs from them.
//!
//! Without buildah nothing is built here; the test says so. Without a linker for arm64 only amd64 is.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use olm_tests::cluster::repository;
use olm_tests::eventually;
use olm_tests::images::{Config, Registry, home, pull, said};
use olm_tests::lab::{Lab, V1};
use olm_tests::olm::{CATALOGS, NEXT, Olm, PACKAGE};
use olm_tests::operator::free_address;
use olm_tests::pages::{Shell, blocks, command};
use olm_tests::process::Process;
use olm_tests::tools::{cache, tool};
use serde_json::Value;

const PAGE: &str = "docs/olm.md";
/// The heading of what is built until there is a release.
const UNRELEASED: &str = "No release is published yet";
/// The registry that the page names.
const EXAMPLE: &str = "registry.example/monitoring";

/// A program of this machine.
fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// An image with opm alone: what the catalog's is built on, for opm's own cannot be pulled here.
fn opm_image(registry: &Registry) -> String {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bin")).unwrap();
    std::fs::copy(tool("opm"), root.path().join("bin/opm")).unwrap();
    registry.push("opm:base", root.path(), &["bin"], &Config::default())
}

/// Builds and pushes the images; returns them by digest: operator, each package's bundle plain and for OpenShift, the
/// catalog without and with a server.
fn build(registry: &Registry, folder: &Path, opm: &str) -> Vec<String> {
    let storage =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n", folder.display());
    std::fs::write(folder.join("storage.conf"), storage).unwrap();
    std::fs::write(
        folder.join("registries.conf"),
        format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", registry.address()),
    )
    .unwrap();
    let block = blocks(PAGE, UNRELEASED, "sh").remove(0);
    assert!(block.contains(EXAMPLE), "{block}");
    let mut command = Command::new("bash");
    command.arg("-ec").arg(block.replace(EXAMPLE, registry.address())).current_dir(repository(""));
    command.env("CONTAINERS_STORAGE_CONF", folder.join("storage.conf")).env("BUILDAH_ISOLATION", "chroot");
    command
        .env("PARTIAL", "1")
        .env("TLS_VERIFY", "false")
        .env("PROFILE", "dev")
        .env("BUILD_TOOL", "buildah")
        .env("GENERATE", env!("CARGO_BIN_EXE_generate"))
        .env("OPM_IMAGE", opm);
    // Kept outside of the clone; without symbols, which would be most of what is packed.
    command
        .env("BINARIES", cache().join("images"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_STRIP", "true");
    // Cargo tells a test which package it is of; a build script that hears that would build again.
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST"))
    {
        command.env_remove(name);
    }
    let by_digest = |line: &&str| line.starts_with(registry.address()) && line.contains("@sha256:");
    said(&mut command).lines().filter(by_digest).map(str::to_owned).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn built_images_are_the_same_each_time_and_olm_runs_the_operator_from_them() {
    if !there("buildah") {
        println!("NOT RUN: buildah is not on this machine, so no image was built");
        return;
    }
    olm_tests::run(async {
        let olm = Olm::start().await;
        let folder = tempfile::tempdir().unwrap();
        let opm = opm_image(&olm.registry);
        let images = build(&olm.registry, folder.path(), &opm);
        assert_eq!(images.len(), 7, "{images:?}");
        said(
            Command::new("touch")
                .arg(repository("LICENSE"))
                .arg(repository("bundle/oneagent-operator/manifests"))
                .arg(repository("catalog")),
        );
        // The cache of the last one, the server's, differs from build to build.
        let again = build(&olm.registry, folder.path(), &opm);
        assert_eq!(again[..6], images[..6], "times of files are in an image");

        let crane = |args: &[&str]| said(Command::new(tool("crane")).args(args));
        let index = json(&crane(&["manifest", &images[0]]));
        let platforms: Vec<&str> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["platform"]["architecture"].as_str().unwrap())
            .collect();
        for platform in &platforms {
            let config = json(&crane(&["config", "--platform", &format!("linux/{platform}"), &images[0]]));
            assert_eq!(
                (&config["config"]["User"], &config["architecture"]),
                (&"65532:65532".into(), &(*platform).into()),
                "{config}"
            );
            assert_eq!(config["config"]["Labels"]["version"], NEXT);
        }
        let listed = said(Command::new("sh").arg("-c").arg(format!(
            "{} export --platform linux/amd64 {} - | tar -tv",
            tool("crane").display(),
            images[0]
        )));
        let files: Vec<&str> =
            listed.lines().filter(|line| line.starts_with('-')).filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(files, ["etc/ssl/certs/ca-certificates.crt", "licenses/LICENSE", "oneagent-operator"]);
        // Labels of the bundle's image are what its annotations say; the catalog is what opm finds valid.
        let label = |image: &str, key: &str| {
            json(&crane(&["config", "--platform", "linux/amd64", image]))["config"]["Labels"][key].clone()
        };
        assert_eq!(label(&images[1], "operators.operatorframework.io.bundle.package.v1"), PACKAGE);
        assert_eq!(label(&images[3], "operators.operatorframework.io.bundle.package.v1"), "configwatcher-operator");
        for (plain, flavour) in [(1, 2), (3, 4)] {
            let files = |at: usize| {
                crane(&["export", "--platform", "linux/amd64", &images[at], "-"]).matches("manifests/").count()
            };
            assert!(files(flavour) > files(plain), "OpenShift's has more manifests");
        }
        for catalog in &images[5..] {
            assert_eq!(label(catalog, "operators.operatorframework.io.index.configs.v1"), "/configs");
        }
        signed(folder.path(), &images[..2]);
        serves(&olm, folder.path(), &images[6], &images[1]).await;

        if platforms.len() == 2 && there("podman") {
            multiarch(folder.path(), &images[0]);
        } else {
            println!(
                "NOT RUN: operator-sdk's multiarch validator, which needs podman and images of both architectures; \
                built were {platforms:?}"
            );
        }

        // As the page goes on.
        let shell = Shell::new(&olm.cluster);
        let ours = blocks(PAGE, UNRELEASED, "sh").remove(1);
        shell.run(&ours, &[(EXAMPLE, olm.registry.address())]);
        let install = blocks(PAGE, "OperatorHub, or oc and kubectl", "sh").remove(0);
        shell.run(&install, &[("get csv -w", "get csv")]);
        olm.installed("dynatrace", NEXT).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&serde_json::json!({}));
        lab.all_at("agent", V1, 2, Duration::from_secs(60)).await;
        olm.judge("dynatrace");
        // And is removed as the page has it: the OneAgents first.
        olm.cluster.kubectl(&["-n", "dynatrace", "delete", "oneagents", "--all"]);
        for command_of in ["oc -n dynatrace delete subscription", "oc -n dynatrace delete csv"] {
            shell.run(&command("docs/install.md", "Remove", command_of), &[]);
        }
        eventually("the operator is gone, and its agents", Duration::from_secs(60), || async {
            let left = [olm.list("Deployment", "dynatrace").await, olm.list("DaemonSet", "dynatrace").await].concat();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    });
}

/// The catalog's image serves itself: what its entrypoint is told runs as it is, from its cache, and OLM reads from it.
async fn serves(olm: &Olm, folder: &Path, image: &str, bundle: &str) {
    let root = folder.join("catalog");
    pull(image, &root).unwrap();
    let config = json(&said(Command::new(tool("crane")).args(["config", "--platform", "linux/amd64", image])));
    let list = |key: &str| -> Vec<String> { serde_json::from_value(config["config"][key].clone()).unwrap() };
    let mut command = [list("Entrypoint"), list("Cmd")].concat();
    let address = free_address();
    let (_, port) = address.rsplit_once(':').unwrap();
    command.extend(
        ["-p", port, "--pprof-addr", "", "--termination-log", "/tmp/log", "--cache-enforce-integrity"]
            .map(str::to_owned),
    );
    let args = [vec!["-r".to_owned(), "chroot".to_owned(), root.display().to_string()], command].concat();
    let _server = Process::start("catalog", Path::new("unshare"), &args, &[], &folder.join("catalog.log"));
    let source = |name: &str| {
        serde_json::json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": name, "namespace": CATALOGS }, "spec": { "sourceType": "grpc", "address": address } })
    };
    olm.cluster.apply(&source("self").to_string());
    eventually("OLM reads from the catalog's image", Duration::from_secs(60), || async {
        let source = olm.get("CatalogSource", CATALOGS, "self").await.unwrap_or_default();
        let state = &source["status"]["connectionState"]["lastObservedState"];
        let log = std::fs::read_to_string(folder.join("catalog.log")).unwrap_or_default();
        if *state == "READY" { Ok(()) } else { Err(format!("{state}\n{log}")) }
    })
    .await;
    let home = home();
    let rendered = said(Command::new(tool("opm")).args(["render", "--use-http", image]).env("HOME", home.path()));
    assert!(rendered.contains(bundle), "the catalog names the bundle that was pushed with it");
    olm.delete("CatalogSource", CATALOGS, "self").await;
}

/// Signatures and attestations are there for everybody who has the public key, of these images and of no others.
fn signed(folder: &Path, images: &[String]) {
    let cosign = || {
        let mut command = Command::new(tool("cosign"));
        command.current_dir(folder).env("COSIGN_PASSWORD", "password of a test").env("HOME", folder);
        command
    };
    said(cosign().arg("generate-key-pair"));
    let sbom = folder.join("sbom.json");
    let bom = serde_json::json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "components": [] });
    std::fs::write(&sbom, bom.to_string()).unwrap();
    let sign = |images: &[&str]| {
        let mut command = Command::new(repository(".ci/sign"));
        command.env("COSIGN", tool("cosign")).env("COSIGN_PASSWORD", "password of a test").env("PLAIN_HTTP", "1");
        command.env("BINARIES", cache().join("images"));
        command.env("KEY", folder.join("cosign.key")).env("SBOM", &sbom).args(images);
        command.output().unwrap()
    };
    let tag = images[0].split('@').next().unwrap().to_owned() + ":latest";
    let refused = sign(&[&images[0], &tag]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("has no digest"));
    let strange = format!("{}@sha256:{}", images[0].split('@').next().unwrap(), "0".repeat(64));
    let refused = sign(&[&strange]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("was not built here"));
    let verify = |verb: &[&str], image: &str| {
        let offline = ["--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry"];
        cosign().args(verb).args(offline).arg(image).output().unwrap().status.success()
    };
    assert!(!verify(&["verify"], &images[0]), "nothing was signed yet");
    let done = sign(&[&images[0], &images[1]]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for image in images {
        assert!(verify(&["verify"], image) && verify(&["verify-attestation", "--type", "slsaprovenance1"], image));
    }
    assert!(verify(&["verify-attestation", "--type", "cyclonedx"], &images[0]));
    std::fs::remove_file(folder.join("cosign.pub")).unwrap();
    std::fs::remove_file(folder.join("cosign.key")).unwrap();
    said(cosign().arg("generate-key-pair"));
    assert!(!verify(&["verify"], &images[0]), "it was signed with another key");
}

/// What the bundle claims of architectures is what the image has.
fn multiarch(folder: &Path, image: &str) {
    let bundle = folder.join("bundle");
    said(Command::new("cp").arg("-r").arg(repository("bundle/oneagent-operator")).arg(&bundle));
    let csv = bundle.join("manifests/oneagent-operator.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(&csv).unwrap();
    let named = olm_tests::olm::releases().of(NEXT).0.operator_image;
    let validate = |text: &str| {
        std::fs::write(&csv, text).unwrap();
        let mut command = Command::new(tool("operator-sdk"));
        command.args([
            "bundle",
            "validate",
            "--select-optional",
            "name=multiarch",
            "--optional-values=container-tools=podman",
            "-o",
            "json-alpha1",
        ]);
        command
            .env("CONTAINERS_STORAGE_CONF", folder.join("storage.conf"))
            .env("CONTAINERS_REGISTRIES_CONF", folder.join("registries.conf"));
        let output = command.arg(&bundle).output().unwrap();
        json(&String::from_utf8_lossy(&output.stdout))["outputs"].as_array().cloned().unwrap_or_default()
    };
    // The agent's image is the vendor's, and not to be had here.
    let ours = |found: Vec<Value>| -> Vec<String> {
        found
            .iter()
            .filter_map(|o| o["message"].as_str())
            .filter(|m| !m.contains("dynatrace/oneagent"))
            .map(str::to_owned)
            .collect()
    };
    let text = text.replace(&named, image);
    assert_eq!(ours(validate(&text)), Vec::<String>::new());
    let claims_more = text.replace(
        "operatorframework.io/arch.arm64: supported",
        "operatorframework.io/arch.arm64: supported\n    operatorframework.io/arch.s390x: supported",
    );
    assert!(!ours(validate(&claims_more)).is_empty(), "the validator sees the image");
}
