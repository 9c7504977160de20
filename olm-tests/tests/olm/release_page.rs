//! docs/release.md, typed step by step against a registry: from an empty one to a second release and a pre-release,
//! with commits in between; and what a cluster makes of it, where a preview was installed before.
//!
//! The compiler is the rig's stand-in: an image that was built from other sources than its release's has another
//! digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use olm_tests::checkout::{self, Checkout, compiler};
use olm_tests::cluster::documents;
use olm_tests::front::{Front, PASSWORD, USER};
use olm_tests::images::{Config, home, said};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::olm::{CATALOGS, Olm, PACKAGE};
use olm_tests::pages::blocks;
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::{Value, json};

const PAGE: &str = "docs/release.md";
const FIRST: &str = env!("CARGO_PKG_VERSION");
const PRE: &str = "0.4.0-rc.1";
const SECOND: &str = "0.4.0";
const FOLDER: &str = "acme";

/// A maintainer at work.
struct Maintainer {
    checkout: Checkout,
    home: tempfile::TempDir,
    compiler: PathBuf,
    front: Front,
    registry: String,
    version: String,
}

impl Maintainer {
    fn new(front: Front, opm: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let checkout = Checkout::at(&home.path().join("repository"));
        let address = format!("{}/{FOLDER}", front.address());
        checkout::decide(checkout.root(), &address, opm);
        let compiler = compiler(home.path());
        Self { checkout, home, compiler, front, registry: address, version: FIRST.into() }
    }

    /// Types commands; what was printed, or what was said.
    fn try_to(&self, commands: &str) -> Result<String, String> {
        let keys = self.home.path().join("keys").display().to_string();
        let script = commands
            .replace("KEYS", &keys)
            .replace("VERSION=VERSION", &format!("VERSION={}", self.version))
            .replace("vVERSION -m VERSION", &format!("v{0} -m {0}", self.version))
            .replace(" VERSION\"", &format!(" {}\"", self.version))
            // No key is here to sign a tag with, and no network to update anything from.
            .replace("git tag -s", "git tag -a")
            .replace("DIGEST", &"0123456789abcdef".repeat(4));
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &script]).current_dir(self.checkout.root());
        shell
            .env("GENERATE", env!("CARGO_BIN_EXE_generate"))
            .env("RELEASE", env!("CARGO_BIN_EXE_release"))
            .env("CARGO", &self.compiler)
            .env("PROFILE", "dev")
            .env("PARTIAL", "1")
            .env("BINARIES", self.home.path().join("images"))
            .env("COSIGN_PASSWORD", "password of a test")
            .env("DOCKER_CONFIG", self.home.path().join("docker"))
            .env_remove("MAKEFLAGS");
        let output = shell.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(out.into_owned()) } else { Err(format!("{script}\n{out}\n{err}")) }
    }

    fn types(&self, commands: &str) -> String {
        self.try_to(commands).unwrap_or_else(|said| panic!("{said}"))
    }

    /// A command that is refused with these words, and changes nothing.
    fn is_refused(&self, commands: &str, words: &str) {
        let before = (self.checkout.git(&["status", "--porcelain"]), self.tags());
        let said = self.try_to(commands).expect_err(words);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(
            (self.checkout.git(&["status", "--porcelain"]), self.tags()),
            before,
            "{commands} changed something"
        );
    }

    /// Step 3, as `docker login` does it.
    fn log_in(&self) {
        let mut crane = Command::new(tool("crane"));
        crane.args(["auth", "login", self.front.address(), "-u", USER, "-p", PASSWORD]);
        said(crane.env("DOCKER_CONFIG", self.home.path().join("docker")));
    }

    /// The block of a step of the page; there is one for each.
    fn step(&self, heading: &str, number: usize, at: usize) {
        let text = std::fs::read_to_string(self.checkout.root().join(PAGE)).unwrap();
        let all = blocks(PAGE, heading, "sh");
        // The step is that with the number before the block.
        let begins = text.find(&format!("**{number}. ")).unwrap_or_else(|| panic!("no step {number}"));
        let block = &all[at];
        assert!(text[begins..].split("\n**").next().unwrap().contains(block.as_str()), "step {number} is not {block}");
        println!("step {number}: {}", self.types(block));
    }

    /// Every tag in the registry, and what it names.
    fn tags(&self) -> BTreeMap<String, String> {
        let crane = |args: &[&str]| said(Command::new(tool("crane")).args(args));
        let host = self.registry.split('/').next().unwrap();
        let repositories = crane(&["catalog", host]);
        let mut all = BTreeMap::new();
        for name in repositories.lines().filter(|name| name.starts_with(FOLDER)) {
            for tag in crane(&["ls", &format!("{host}/{name}")]).lines() {
                all.insert(
                    format!("{name}:{tag}"),
                    crane(&["digest", &format!("{host}/{name}:{tag}")]).trim().to_owned(),
                );
            }
        }
        all
    }

    /// Steps 6 to 11 of a version.
    fn releases(&mut self, version: &str, packages: &str) {
        const EACH: &str = "For each release";
        if version != self.version {
            checkout::edit(
                self.checkout.root(),
                "Cargo.toml",
                &format!("version = \"{}\"", self.version),
                &format!("version = \"{version}\""),
            );
            self.version = version.into();
            self.step(EACH, 6, 0);
        }
        self.is_refused(&format!("make publish VERSION={version}"), "is not listed: add it first");
        if packages.is_empty() {
            self.step(EACH, 7, 1);
        } else {
            let typed = blocks(PAGE, EACH, "sh").remove(1);
            let of = format!("PACKAGES={packages} AGENT_IMAGE=");
            println!("step 7: {}", self.types(&typed.replacen("AGENT_IMAGE=", &of, 1)));
        }
        // Commits that change the sources come in between, as they do.
        self.changes("after the release");
        self.is_refused(&format!("make publish VERSION={version}"), "push it first with make images PUSH=1");
        self.is_refused("make images PUSH=1 SIGN=KEYS/none.key", "none.key is not there");
        if version == FIRST {
            // Another user's machine has nothing yet: all of it is built again, from the release's commit.
            std::fs::remove_dir_all(self.home.path().join("images/layouts")).unwrap();
            // A user edits the list in between.
            let list = "catalog/releases.yaml";
            checkout::edit(self.checkout.root(), list, "oneagent-operator@sha256:", "oneagent-operator@sha256:0000");
            let text = std::fs::read_to_string(self.checkout.root().join(list)).unwrap();
            let line = text.lines().find(|line| line.contains("operator@sha256:0000")).unwrap();
            checkout::edit(self.checkout.root(), list, line, &line[..line.len() - 4]);
            self.is_refused("make images PUSH=1", "comes out as sha256:");
            let _ = self.checkout.git(&["checkout", "--quiet", list]);
            // Or signs with another key.
            self.is_refused(
                "env -u COSIGN_PASSWORD make images PUSH=1 SIGN=KEYS/cosign.key",
                "COSIGN_PASSWORD is missing",
            );
            let other = self.home.path().join("other");
            std::fs::create_dir(&other).unwrap();
            let mut cosign = Command::new(tool("cosign"));
            said(cosign.arg("generate-key-pair").current_dir(&other).env("COSIGN_PASSWORD", "password of a test"));
            let sign = format!("make images PUSH=1 SIGN={}", other.join("cosign.key").display());
            self.is_refused(&sign, "does not belong to catalog/cosign.pub");
            // The registry becomes unreachable in the middle.
            self.front.takes(Some(20));
            let said = self.try_to("make images PUSH=1 SIGN=KEYS/cosign.key").unwrap_err();
            assert!(said.contains("failed") && said.contains("503"), "{said}");
            self.front.takes(None);
            let list = self.checkout.git(&["status", "--porcelain"]);
            assert!(list.is_empty(), "{list}");
        }
        self.step(EACH, 8, 2);
        self.step(EACH, 10, 3);
        self.changes("after the images");
        self.step(EACH, 11, 4);
    }

    /// What cosign says of an image, by the key of the repository.
    fn verifies(&self, verb: &[&str], image: &str) -> String {
        let key = self.checkout.root().join("catalog/cosign.pub");
        let mut cosign = Command::new(tool("cosign"));
        cosign.args(verb).args(["--insecure-ignore-tlog", "--allow-http-registry", "--key"]).arg(key);
        said(cosign.arg(image).env("HOME", self.home.path()))
    }

    fn changes(&self, why: &str) {
        let file = self.checkout.root().join("src/lib.rs");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, format!("{text}// {why}\n")).unwrap();
        self.checkout.commit(why);
    }
}

/// What catalogs, bundles, charts and manifests name of this registry, by digest.
fn named(root: &Path, registry: &str) -> Vec<String> {
    let files = said(
        Command::new("grep")
            .args(["-rhoE", &format!("{registry}/[a-z-]+@sha256:[0-9a-f]{{64}}")])
            .arg(root)
            .args(["--include=*.yaml", "--include=*.yml"]),
    );
    let mut all: Vec<String> = files.lines().map(str::to_owned).collect();
    all.sort();
    all.dedup();
    all
}

fn subscription(registry: &str, catalog: &str, channel: &str) -> Vec<Value> {
    let source = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": { "name": "oneagent-operator", "namespace": CATALOGS },
        "spec": { "sourceType": "grpc", "image": format!("{registry}/oneagent-operator-catalog:{catalog}"),
            "displayName": "OneAgent Operator", "grpcPodConfig": { "securityContextConfig": "restricted" } } });
    let group = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": { "name": PACKAGE, "namespace": "dynatrace" }, "spec": { "targetNamespaces": ["dynatrace"] } });
    let subscription = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": { "name": PACKAGE, "namespace": "dynatrace" },
        "spec": { "channel": channel, "name": PACKAGE, "source": "oneagent-operator", "sourceNamespace": CATALOGS } });
    vec![source, group, subscription]
}

#[test]
fn the_page_leads_from_an_empty_registry_to_a_second_release() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("bin")).unwrap();
        std::fs::copy(tool("opm"), root.path().join("bin/opm")).unwrap();
        let opm = olm.registry.push("opm:base", root.path(), &["bin"], &Config::default());
        let mut maintainer = Maintainer::new(Front::of(&olm.registry).await, &opm);
        maintainer.step("Once", 1, 0);
        maintainer.step("Once", 2, 1);

        // A preview comes first, as everybody has it until there is a release.
        maintainer.types("echo x > strange");
        maintainer.is_refused("make images PUSH=1", "there are uncommitted changes, in strange");
        maintainer.types("rm strange");
        maintainer.is_refused("make images PUSH=1", "log in to the registry first");
        maintainer.log_in();
        maintainer.types("make images PUSH=1");
        let previews = maintainer.tags();
        assert!(previews.keys().all(|tag| tag.contains("-dev.") || tag.ends_with(":preview")), "{previews:?}");
        olm.namespace("dynatrace");
        let install = |catalog: &str| {
            for object in subscription(&maintainer.registry, catalog, "candidate-v0") {
                olm.cluster.apply(&object.to_string());
            }
        };
        install("preview");
        let preview = previews.keys().find_map(|tag| tag.strip_prefix("acme/oneagent-operator:")).unwrap().to_owned();
        assert!(preview.starts_with(&format!("{FIRST}-dev.")), "{preview}");
        olm.installed("dynatrace", &preview).await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let agents = lab.uids("agent").await;

        maintainer.releases(FIRST, "");
        let first = maintainer.tags();
        assert!(previews.iter().all(|(tag, digest)| first.get(tag) == Some(digest)), "a preview moved");
        // The preview gives way to the release.
        for object in subscription(&maintainer.registry, "latest", "candidate-v0") {
            olm.cluster.apply(&object.to_string());
        }
        olm.installed("dynatrace", FIRST).await;

        // The same commands again: nothing is built, nothing moves, the same is printed.
        let build = maintainer.home.path().join("images/stage");
        std::fs::remove_dir_all(&build).unwrap();
        let printed = maintainer.types("make images PUSH=1 SIGN=KEYS/cosign.key");
        assert!(!build.exists(), "it was built again");
        assert_eq!(maintainer.tags(), first);
        // Of each package the operator, its chart and two bundles; two catalogs of all.
        let images = printed.lines().filter(|line| line.contains("@sha256:")).count();
        assert_eq!(images, 4 * PACKAGES.len() + 2, "{printed}");
        for image in printed.lines().filter(|line| line.contains("@sha256:")) {
            maintainer.verifies(&["verify"], image);
            if !image.contains("/charts/") {
                maintainer.verifies(&["verify-attestation", "--type", "slsaprovenance1"], image);
            }
        }
        let operator = printed.lines().find(|line| line.contains("/oneagent-operator@")).unwrap();
        let listed = maintainer.verifies(&["verify-attestation", "--type", "cyclonedx"], operator);
        assert!(listed.contains("payload"), "{listed}");

        maintainer.releases(PRE, "oneagent-operator");
        maintainer.releases(SECOND, "oneagent-operator");
        let last = maintainer.tags();
        for (tag, digest) in first.iter().filter(|(tag, _)| !tag.ends_with(":latest")) {
            assert_eq!(last.get(tag), Some(digest), "{tag} moved");
        }
        // What anything names is there, and has a tag that keeps it there.
        let root = maintainer.checkout.root();
        let all: Vec<String> = ["catalog", "config", "bundle"]
            .iter()
            .flat_map(|folder| named(&root.join(folder), &maintainer.registry))
            .collect();
        assert!(all.len() > 10, "{all:?}");
        for image in &all {
            let (name, digest) = image.split_once('@').unwrap();
            let name = name.split_once('/').unwrap().1;
            let is_tagged = last.iter().any(|(tag, at)| tag.rsplit_once(':').unwrap().0 == name && at == digest);
            assert!(is_tagged, "{image} has no tag");
        }
        let of_other = std::fs::read_to_string(root.join("catalog/configwatcher-operator/catalog.yaml")).unwrap();
        let (theirs, ours) = (of_other.contains(&format!(".v{FIRST}")), of_other.contains(&format!(".v{SECOND}")));
        assert!(theirs && !ours, "a release names its packages");
        // A pre-release is in no stable channel, and no stable release replaces it.
        let text = std::fs::read_to_string(root.join("catalog/oneagent-operator/catalog.yaml")).unwrap();
        let stable = documents(&text).into_iter().find(|blob| blob["name"] == "stable-v0").unwrap();
        assert_eq!(stable["entries"].as_array().unwrap().len(), 2, "{stable}");
        assert_eq!(stable["entries"][1]["replaces"], format!("{PACKAGE}.v{FIRST}"));
        let home = home();
        let latest = format!("{}/oneagent-operator-catalog:latest", maintainer.registry);
        let rendered = said(Command::new(tool("opm")).args(["render", "--use-http", &latest]).env("HOME", home.path()));
        assert!(rendered.contains(&format!("{PACKAGE}.v{SECOND}")), "the catalog that users follow has the release");

        // Helm finds the chart without a login.
        let chart = format!("oci://{}/charts/oneagent-operator", maintainer.registry);
        let mut helm = Command::new(tool("helm"));
        helm.args(["template", "mine", &chart, "--version", SECOND, "--plain-http", "--kube-version", "1.36.0"]);
        assert!(said(helm.env("HOME", home.path())).contains(&format!("{PACKAGE}-{SECOND}")));

        // OLM looks again, and continues to it; agents stay.
        olm.delete("CatalogSource", CATALOGS, "oneagent-operator").await;
        for object in subscription(&maintainer.registry, "latest", "stable-v0") {
            olm.cluster.apply(&object.to_string());
        }
        olm.installed("dynatrace", SECOND).await;
        assert_eq!(lab.uids("agent").await, agents, "an agent restarted because the operator was upgraded");
        olm.judge("dynatrace");

        // Another owner's image under a tag of ours is not pushed over, and the list does not take a version twice.
        maintainer.is_refused(&format!("make release VERSION={SECOND}"), "is listed already");
        let tag = olm.registry.reference(&format!("{FOLDER}/oneagent-operator:{SECOND}"));
        said(Command::new(tool("crane")).args(["copy", &opm, &tag]));
        maintainer.is_refused("make images PUSH=1", "a tag never moves");
        maintainer.types("make submission PACKAGE=oneagent-operator REVIEWERS=somebody");
    });
}
