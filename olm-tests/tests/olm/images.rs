//! The images as `make images` builds them, and what OLM runs from them.
//!
//! Without a linker for arm64 only amd64 is built. That they are the same each time, releases and
//! signatures are in `release_page`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use olm_tests::checkout::{Checkout, compiler};
use olm_tests::cluster::repository;
use olm_tests::eventually;
use olm_tests::images::{Config, Registry, home, pull, said};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::olm::{CATALOGS, Olm, publisher};
use olm_tests::operator::free_address;
use olm_tests::pages::{Shell, blocks, command};
use olm_tests::process::Process;
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::Value;

const PAGE: &str = "docs/olm.md";
/// The heading of what is built until there is a release.
const UNRELEASED: &str = "No release is published yet";
/// The registry that the page names.
const EXAMPLE: &str = "quay.io/acme";

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

/// A maintainer's copy, and what builds in it.
struct Desk {
    folder: tempfile::TempDir,
    checkout: Checkout,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Checkout::at(&folder.path().join("repository"));
        Self { folder, checkout }
    }

    /// Types a block of the page; the images that were printed by digest.
    fn types(&self, block: &str, env: &[(&str, &str)]) -> Vec<String> {
        let mut command = Command::new("bash");
        command.arg("-ec").arg(block).current_dir(self.checkout.root());
        command.env("RELEASE", env!("CARGO_BIN_EXE_release")).env("PARTIAL", "1").env("PROFILE", "dev");
        command.env("BINARIES", self.folder.path().join("images")).env_remove("MAKEFLAGS").envs(env.iter().copied());
        said(&mut command).lines().filter(|line| line.contains("@sha256:")).map(str::to_owned).collect()
    }
}

/// Builds and pushes the images; returns them by digest: the operator for each package, each package's bundle plain and
/// for OpenShift, the catalog without and with a server.
fn build(desk: &Desk, registry: &Registry, opm: &str) -> Vec<String> {
    let block = blocks(PAGE, UNRELEASED, "sh").remove(0);
    assert!(block.contains(EXAMPLE), "{block}");
    let block = block.replace(EXAMPLE, &registry.reference("acme"));
    let compiler = compiler(desk.folder.path()).display().to_string();
    desk.types(&block, &[("OPM_IMAGE", opm), ("CARGO", &compiler)])
}

/// What the real compiler makes of sources that are quickly built: a static program that says what it depends on.
#[test]
fn a_program_is_built_without_a_base_and_says_what_it_depends_on() {
    let desk = Desk::new();
    let root = desk.checkout.root();
    std::fs::remove_dir_all(root.join("src")).unwrap();
    std::fs::create_dir(root.join("src")).unwrap();
    std::fs::write(root.join("src/main.rs"), "fn main() { println!(\"{}\", semver::Version::new(1, 2, 3)); }\n")
        .unwrap();
    let manifest = format!(
        "[package]\nname = \"oneagent-operator\"\nversion = \"{}\"\nedition = \"2024\"\n\
        [dependencies]\nsemver = \"1\"\n",
        env!("CARGO_PKG_VERSION")
    );
    std::fs::write(root.join("Cargo.toml"), manifest).unwrap();
    said(Command::new("cargo").args(["update", "--workspace", "--offline", "--quiet"]).current_dir(root));
    desk.checkout.commit("A small program");
    desk.types("make images", &[]);
    let layout = desk.folder.path().join("images/layouts/oneagent-operator");
    let there = said(Command::new("find").arg(&layout).args(["-type", "f"]));
    assert!(there.lines().count() > 3, "{there}");
    let binary = desk.folder.path().join("images/x86_64-unknown-linux-gnu/debug/oneagent-operator");
    assert_eq!(
        said(Command::new("unshare").args(["-r", "chroot"]).arg(binary.parent().unwrap()).arg("/oneagent-operator")),
        "1.2.3\n"
    );
    let bytes = std::fs::read(&binary).unwrap();
    assert!(bytes.windows(7).any(|seven| seven == b".dep-v0"), "scanners find no list of dependencies");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn olm_runs_the_operator_from_the_images_that_the_page_builds() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let desk = Desk::new();
        let folder = desk.folder.path().to_owned();
        let opm = opm_image(&olm.registry);
        let images = build(&desk, &olm.registry, &opm);
        // Of each package the operator and two bundles; two catalogs of all.
        assert_eq!(images.len(), 3 * PACKAGES.len() + 2, "{images:?}");
        let (operators, others) = images.split_at(PACKAGES.len());
        let (bundles, catalogs) = others.split_at(2 * PACKAGES.len());
        let digests = operators.iter().map(|image| image.split_once('@').unwrap().1).collect::<BTreeSet<_>>();
        assert_eq!(digests.len(), 1, "one image, a name for each package: {operators:?}");

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
            assert_eq!(config["config"]["Labels"]["version"], preview(&images[0]));
        }
        let listed = said(Command::new("sh").arg("-c").arg(format!(
            "{} export --platform linux/amd64 {} - | tar -tv",
            tool("crane").display(),
            images[0]
        )));
        let files: Vec<&str> =
            listed.lines().filter(|line| line.starts_with('-')).filter_map(|line| line.rsplit(' ').next()).collect();
        let wanted = [
            "etc/ssl/certs/ca-certificates.crt",
            "jmx_prometheus_javaagent.jar",
            "licenses/LICENSE",
            "licenses/jmx_prometheus_javaagent/LICENSE",
            "oneagent-operator",
        ];
        assert_eq!(files, wanted);
        // Labels of the bundle's image are what its annotations say; the catalog is what opm finds valid.
        let label = |image: &str, key: &str| {
            json(&crane(&["config", "--platform", "linux/amd64", image]))["config"]["Labels"][key].clone()
        };
        for (package, flavours) in PACKAGES.iter().zip(bundles.chunks(2)) {
            for bundle in flavours {
                assert_eq!(label(bundle, "operators.operatorframework.io.bundle.package.v1"), package.name);
            }
            let manifests =
                |image: &str| crane(&["export", "--platform", "linux/amd64", image, "-"]).matches("manifests/").count();
            assert!(manifests(&flavours[1]) > manifests(&flavours[0]), "OpenShift's has more manifests: {flavours:?}");
        }
        for catalog in catalogs {
            assert_eq!(label(catalog, "operators.operatorframework.io.index.configs.v1"), "/configs");
        }
        serves(&olm, &folder, &catalogs[1], &bundles[0]).await;
        if platforms.len() == 2 && there("podman") {
            multiarch(&folder, &images[0]);
        } else {
            println!(
                "NOT RUN: operator-sdk's multiarch validator, which needs podman and images of both architectures; \
                built were {platforms:?}"
            );
        }

        // As the page continues.
        let shell = Shell::new(&olm.cluster);
        let ours = blocks(PAGE, UNRELEASED, "sh").remove(1);
        shell.run(&ours, &[(EXAMPLE, &olm.registry.reference("acme"))]);
        let install = blocks(PAGE, "OperatorHub, or oc and kubectl", "sh").remove(0);
        shell.run(&install, &[("get csv -w", "get csv")]);
        olm.installed("dynatrace", &preview(&images[0])).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&serde_json::json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        olm.judge("dynatrace");
        // And is removed as the page has it: the OneAgents first.
        olm.cluster.kubectl(&["-n", "dynatrace", "delete", "oneagents", "--all"]);
        for command_of in ["oc -n dynatrace delete subscription", "oc -n dynatrace delete csv"] {
            shell.run(&command("docs/install.md", "Remove", command_of), &[]);
        }
        eventually("the operator is gone, and its agents", SOON, || async {
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
    eventually("OLM reads from the catalog's image", SOON, || async {
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

/// The version of a preview: what the label of its image says is what its tag says.
fn preview(image: &str) -> String {
    let name = image.split('@').next().unwrap();
    let tags = said(Command::new(tool("crane")).args(["ls", name]));
    tags.trim().to_owned()
}

/// What the bundle claims of architectures is what the image has.
fn multiarch(folder: &Path, image: &str) {
    let bundle = folder.join("bundle");
    said(Command::new("cp").arg("-r").arg(repository("bundle/oneagent-operator")).arg(&bundle));
    let csv = bundle.join("manifests/oneagent-operator.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(&csv).unwrap();
    let named = olm_tests::olm::releases().of(&publisher(), env!("CARGO_PKG_VERSION")).operator_image;
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
        let conf = |name: &str, text: String| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let at = folder.display();
        let storage = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{at}/root\"\nrunroot = \"{at}/run\"\n");
        let host = image.split('/').next().unwrap();
        let registries = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
        command
            .env("CONTAINERS_STORAGE_CONF", conf("storage.conf", storage))
            .env("CONTAINERS_REGISTRIES_CONF", conf("registries.conf", registries));
        let output = command.arg(&bundle).output().unwrap();
        json(&String::from_utf8_lossy(&output.stdout))["outputs"].as_array().cloned().unwrap_or_default()
    };
    // The agent's image is the vendor's, and not available here.
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
