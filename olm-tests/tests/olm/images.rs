//! The images as `make images` builds them: the same each time, and what OLM runs from them.
//!
//! Without buildah nothing is built here; the test says so. Without a linker for arm64 only amd64 is.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use olm_tests::cluster::repository;
use olm_tests::images::{Registry, said};
use olm_tests::lab::{Lab, V1};
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use olm_tests::tools::{cache, tool};
use serde_json::Value;

/// A program of this machine.
fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Builds and pushes the images; returns them by digest: operator, bundle, catalog, the other package's bundle.
fn build(registry: &Registry, folder: &Path) -> Vec<String> {
    let storage =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n", folder.display());
    std::fs::write(folder.join("storage.conf"), storage).unwrap();
    std::fs::write(
        folder.join("registries.conf"),
        format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", registry.address()),
    )
    .unwrap();
    let mut command = Command::new(repository(".ci/images"));
    command.env("CONTAINERS_STORAGE_CONF", folder.join("storage.conf")).env("BUILDAH_ISOLATION", "chroot");
    command
        .env("REGISTRY", registry.address())
        .env("PUSH", "1")
        .env("PARTIAL", "1")
        .env("TLS_VERIFY", "false")
        .env("PROFILE", "dev")
        .env("BUILD_TOOL", "buildah");
    // Kept outside of the clone; without symbols, which would be most of what is packed.
    command
        .env("BINARIES", cache().join("images"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_STRIP", "true");
    // Cargo tells a test which package it is of; a build script that hears that would build anew.
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST"))
    {
        command.env_remove(name);
    }
    said(&mut command).lines().map(str::to_owned).collect()
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
        let images = build(&olm.registry, folder.path());
        assert_eq!(images.len(), 4, "{images:?}");
        said(
            Command::new("touch")
                .arg(repository("LICENSE"))
                .arg(repository("bundle/oneagent-operator/manifests"))
                .arg(repository("catalog")),
        );
        assert_eq!(build(&olm.registry, folder.path()), images, "times of files are in an image");

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
        assert_eq!(label(&images[2], "operators.operatorframework.io.index.configs.v1"), "/configs");

        if platforms.len() == 2 && there("podman") {
            multiarch(folder.path(), &images[0]);
        } else {
            println!(
                "NOT RUN: operator-sdk's multiarch validator, which needs podman and images of both architectures; \
                built were {platforms:?}"
            );
        }

        olm.operator_is(NEXT, &images[0]);
        olm.publish(&[olm.release(NEXT)]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&serde_json::json!({}));
        lab.all_at("agent", V1, 2, Duration::from_secs(60)).await;
        olm.judge("dynatrace");
    });
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
