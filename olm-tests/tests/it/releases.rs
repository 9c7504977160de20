//! The release list and the publisher, as a maintainer edits them: each mistake is one sentence, and nothing is
//! written.
//!
//! What needs a registry is in the suite `olm`. Must not build an image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use olm_tests::checkout::{self, edit};
use olm_tests::cluster::{documents, repository};
use olm_tests::images::said;
use olm_tests::olm::publisher;
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::olm::catalog::annotations;
use oneagent_operator::olm::release::Release;
use serde_json::{Value, json};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const NOW: &str = env!("CARGO_PKG_VERSION");
const LIST: &str = "catalog/releases.yaml";
const PUBLISHER: &str = "catalog/publisher.yaml";

/// A repository with the release list and what was released, and nothing generated yet but once.
fn clone() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    said(Command::new("cp").arg("-r").arg(repository("catalog")).arg(root.join("catalog")));
    said(Command::new("cp").arg(repository("Cargo.toml")).arg(root));
    generate(root, &[]).unwrap_or_else(|why| panic!("{why}"));
    said(Command::new("git").args(["init", "--quiet"]).arg(root));
    commit(root);
    folder
}

fn commit(root: &Path) {
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(root).args(["-c", "user.name=Maintainer", "-c", "user.email=m@acme.org"]);
        git
    };
    said(git().args(["add", "-A"]));
    said(git().args(["commit", "--quiet", "--allow-empty", "-m", "An edit"]));
}

fn run(program: &str, root: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    for variable in ["AGENT_IMAGE", "PACKAGES", "PUSH", "REGISTRY", "REVIEWERS", "SIGN"] {
        command.env_remove(variable);
    }
    let output = command.arg("--root").arg(root).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn generate(root: &Path, args: &[&str]) -> Result<String, String> {
    run(env!("CARGO_BIN_EXE_generate"), root, args)
}

fn release(root: &Path, args: &[&str]) -> Result<String, String> {
    run(env!("CARGO_BIN_EXE_release"), root, args)
}

/// Every file and its content.
fn files(root: &Path) -> BTreeMap<String, String> {
    let listed = said(Command::new("find").arg(root).args(["-type", "f", "-not", "-path", "*/.git/*"]));
    listed.lines().map(|path| (path.to_owned(), std::fs::read_to_string(path).unwrap())).collect()
}

fn decide(root: &Path) {
    checkout::decide(root, "quay.io/acme", &format!("quay.io/operator-framework/opm@{DIGEST}"));
}

#[test]
fn a_mistake_in_the_list_or_the_publisher_is_one_sentence_with_its_line_and_nothing_is_written() {
    const SECOND: &str = "- version: 0.2.0\n";
    let folder = clone();
    let root = folder.path();
    let with = |line: &str| format!("{SECOND}  {line}\n");
    for (file, from, to, words) in [
        (LIST, SECOND, with("skips: [0.2.0]"), "upgrades would go in a circle"),
        (LIST, SECOND, with("skips: [0.1.9]"), "0.2.0 skips \"0.1.9\", which is not listed"),
        (LIST, SECOND, with("channels: [beta]"), "channel \"beta\" of 0.2.0 is none"),
        (LIST, SECOND, with("skip: [0.1.0]"), "unknown field `skip`"),
        (LIST, SECOND, "- version: 0.1.0\n".into(), "is listed already"),
        (LIST, SECOND, "- version: 0.2\n".into(), "is not of the form"),
        (LIST, "published: false", "published: yes it is".into(), "invalid type"),
        (PUBLISHER, "registry: registry.example", "registry: https://registry.example".into(), "line 12: registry"),
        (PUBLISHER, "support:", "suport:".into(), "unknown field `suport`"),
        (
            PUBLISHER,
            "email: maintainers@oneagent-operator.example",
            "email: nobody".into(),
            "needs a name and an email",
        ),
    ] {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        edit(root, file, from, &to);
        let before = files(root);
        for step in [&["images"][..], &["publish", "0.2.0"], &["submit", "oneagent-operator"], &["add", NOW]] {
            let why = release(root, step).expect_err(words);
            assert!(why.contains(words) && why.contains(file) && why.contains("line "), "{why}");
        }
        let why = generate(root, &[]).expect_err(words);
        assert!(why.contains(words) && !why.contains('\n'), "{why}");
        assert_eq!(files(root), before, "{words}: something was written");
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn a_step_out_of_order_is_one_sentence_and_changes_nothing() {
    let folder = clone();
    let root = folder.path();
    let missing = root.join("no.key").display().to_string();
    let refuses = |args: &[&str], words: &str| {
        let before = files(root);
        let why = release(root, args).expect_err(words);
        assert!(why.contains(words), "{args:?}: {why}");
        assert_eq!(files(root), before, "{args:?}: something was written");
    };
    // No manager owns it yet.
    refuses(&["add", NOW], "an owner must decide first, in catalog/publisher.yaml");
    refuses(&["add", NOW], "the consent of Dynatrace");
    refuses(&["publish", "0.2.0"], "registry: a placeholder");
    refuses(&["submit", "configwatcher-operator", "--reviewer", "a"], "the holder of the domain k8spatterns.io");
    decide(root);
    refuses(&["add", NOW], "there are uncommitted changes, in catalog/publisher.yaml");
    refuses(&["images", "--push", "1"], "there are uncommitted changes");
    generate(root, &[]).unwrap();
    commit(root);
    refuses(&["add", "9.0.0"], "set version in Cargo.toml to 9.0.0");
    refuses(&["add", NOW, "--packages", "agent"], "\"agent\" is no package");
    refuses(&["add", NOW, "--agent-image", "x@sha256:12"], "agentImage of");
    refuses(&["publish", "9.0.0"], "9.0.0 is not listed: add it first");
    refuses(&["publish", "0.2.0"], "is published without a digest");
    refuses(&["submit", "oneagent-operator"], "REVIEWERS is missing");
    refuses(&["submit", "oneagent-operator", "--reviewer", "a"], "no release of oneagent-operator is published");
    refuses(&["images", "--sign", "cosign.key"], "SIGN without PUSH=1");
    refuses(&["images", "--push", "1", "--sign", &missing], "no.key is not there: `make key` makes one");
    refuses(&["key", &root.join("keys").display().to_string()], "is in the repository, and would be published");
}

/// The list with 0.2.0 published, and what was before it; with the bundle of each.
fn published(root: &Path, versions: &[&str]) {
    let entry = |version: &&str| {
        format!(
            "- version: {version}\n  date: 2026-11-21\n  commit: 92ddc54\n  published: true\n  \
            operatorImage: quay.io/acme/oneagent-operator@{DIGEST}\n  \
            agentImage: docker.io/dynatrace/oneagent:latest\n  \
            bundleImages: {{ oneagent-operator: quay.io/acme/b@{DIGEST} }}\n"
        )
    };
    std::fs::write(root.join(LIST), format!("releases:\n{}", versions.iter().map(entry).collect::<String>())).unwrap();
    let bundles = root.join("catalog/bundles/oneagent-operator");
    // Each as the present code is: an older CRD could not have become it.
    for version in versions {
        let folder = bundles.join(format!("v{version}"));
        let _ = std::fs::remove_dir_all(&folder);
        said(Command::new("cp").arg("-r").arg(repository("bundle/oneagent-operator")).arg(&folder));
        let csv = folder.join("manifests/oneagent-operator.clusterserviceversion.yaml");
        said(Command::new("sed").arg("-i").arg(format!("s/version: {NOW}$/version: {version}/")).arg(csv));
    }
}

#[test]
fn the_catalog_begins_with_the_first_published_release_and_has_what_is_deprecated() {
    let folder = clone();
    let root = folder.path();
    let catalog = root.join("catalog/oneagent-operator/catalog.yaml");
    let changes = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    assert!(changes.contains(&format!("## {NOW} (not released)\n\n* Needs Kubernetes")), "{changes}");
    assert!(!catalog.exists(), "nothing is published: a catalog would name images that nobody has");
    published(root, &["0.1.0", "0.2.0"]);
    edit(root, LIST, "published: true", "published: false");
    let text = std::fs::read_to_string(root.join(LIST)).unwrap();
    let (before, last) = text.rsplit_once("published: false").unwrap();
    let note = "deprecations:\n- package: oneagent-operator\n  channel: candidate-v0\n  message: Use stable-v0.\n\
        - package: oneagent-operator\n  message: Use another.\n";
    std::fs::write(root.join(LIST), format!("{before}published: true{last}{note}")).unwrap();
    generate(root, &[]).unwrap_or_else(|why| panic!("{why}"));
    let text = std::fs::read_to_string(&catalog).unwrap();
    assert!(text.contains(".v0.2.0") && !text.contains(".v0.1.0\n"), "{text}");
    let blobs = documents(&text);
    let notes = blobs.iter().find(|blob| blob["schema"] == "olm.deprecations").unwrap();
    assert_eq!(notes["entries"][0]["reference"], json!({ "schema": "olm.channel", "name": "candidate-v0" }));
    assert_eq!(notes["entries"][1]["reference"], json!({ "schema": "olm.package" }));
    let opm = Command::new(olm_tests::tools::tool("opm")).arg("validate").arg(root.join("catalog")).output().unwrap();
    assert!(opm.status.success(), "{}", String::from_utf8_lossy(&opm.stderr));
    generate(root, &["--check"]).unwrap();
    edit(root, LIST, "published: true", "published: false");
    edit(root, LIST, note, "");
    let why = generate(root, &["--check"]).unwrap_err();
    assert!(why.contains("catalog/oneagent-operator/catalog.yaml is not generated any more"), "{why}");
    generate(root, &[]).unwrap();
    assert!(!catalog.exists());
}

/// The pull requests that the community's pipelines take a release from, by what their code requires: names of folders,
/// and the schemas of `ci.yaml` and `release-config.yaml`.
#[test]
fn a_published_release_is_submitted_to_both_communities_first_and_later() {
    let folder = clone();
    let root = folder.path();
    decide(root);
    published(root, &["0.2.0"]);
    let submit =
        || release(root, &["submit", "oneagent-operator", "--reviewer", "somebody", "--folder", "out"]).unwrap();
    let printed = submit();
    assert_eq!(printed.lines().filter(|line| line.ends_with("PULL_REQUEST.md")).count(), 2, "{printed}");
    let read = |repository: &str, path: &str| {
        let path = root.join(format!("out/{repository}/operators/oneagent-operator/{path}"));
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    };
    let yaml = |repository: &str, path: &str| documents(&read(repository, path)).remove(0);
    let manifests = |repository: &str| -> BTreeSet<String> {
        let listed = root.join(format!("out/{repository}/operators/oneagent-operator/0.2.0/manifests"));
        let names = std::fs::read_dir(listed).unwrap().flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let csv = "manifests/oneagent-operator.clusterserviceversion.yaml";
    for repository in ["community-operators", "community-operators-prod"] {
        // What was released, byte for byte.
        let kept = root.join(format!("catalog/bundles/oneagent-operator/v0.2.0/{csv}"));
        assert_eq!(read(repository, &format!("0.2.0/{csv}")), std::fs::read_to_string(kept).unwrap());
        read(repository, "0.2.0/metadata/annotations.yaml");
        read(repository, "0.2.0/tests/scorecard/config.yaml");
        assert_eq!(yaml(repository, "ci.yaml")["reviewers"], json!(["somebody"]));
        let notes = std::fs::read_to_string(root.join(format!("out/{repository}/PULL_REQUEST.md"))).unwrap();
        assert!(
            notes.starts_with("# operator oneagent-operator (0.2.0)\n") && notes.contains("git commit -s -m"),
            "{notes}"
        );
    }
    assert!(manifests("community-operators").is_subset(&manifests("community-operators-prod")));
    assert_eq!(yaml("community-operators", "ci.yaml")["updateGraph"], "replaces-mode");
    let catalogs = &yaml("community-operators-prod", "ci.yaml")["fbc"];
    assert_eq!(
        (&catalogs["enabled"], &catalogs["version_promotion_strategy"]),
        (&json!(true), &json!("review-needed"))
    );
    let mapping = &catalogs["catalog_mapping"][0];
    let names = mapping["catalog_names"].as_array().unwrap();
    assert!(names.contains(&json!("v4.17")) && names.contains(&json!("v5.0")), "{mapping}");
    assert_eq!(mapping["type"], "olm.template.basic");
    let template = mapping["template_name"].as_str().unwrap().to_owned();
    let found = yaml("community-operators-prod", &format!("catalog-templates/{template}"));
    assert_eq!((&found["schema"], &found["entries"][0]["schema"]), (&mapping["type"], &json!("olm.package")));
    assert_eq!(found["entries"][0]["defaultChannel"], "stable-v0");
    let places = |version: &str| {
        let place = yaml("community-operators-prod", &format!("{version}/release-config.yaml"));
        let places = place["catalog_templates"].as_array().unwrap().clone();
        let allowed = ["template_name", "channels", "replaces", "skips", "skipRange"];
        for place in &places {
            assert!(place.as_object().unwrap().keys().all(|key| allowed.contains(&key.as_str())), "{place:?}");
            assert_eq!(place["template_name"].as_str(), Some(template.as_str()));
        }
        places
    };
    let first = places("0.2.0");
    assert!(first.iter().all(|place| place["replaces"].is_null()), "the first replaces none: {first:?}");
    let channels: Vec<&Value> = first.iter().map(|place| &place["channels"][0]).collect();
    assert_eq!(channels, ["stable-v0", "candidate-v0"]);

    // A pre-release between two releases comes into no other channel, and nothing but the version is submitted.
    published(root, &["0.1.0", "0.2.0-rc.1", "0.2.0"]);
    submit();
    let later = places("0.2.0");
    let of = |channel: usize| (later[channel]["channels"][0].clone(), later[channel]["replaces"].clone());
    assert_eq!(of(0), (json!("stable-v0"), json!("oneagent-operator.v0.1.0")));
    assert_eq!(of(1), (json!("candidate-v0"), json!("oneagent-operator.v0.2.0-rc.1")));
    for repository in ["community-operators", "community-operators-prod"] {
        let folder = root.join(format!("out/{repository}/operators/oneagent-operator"));
        let names: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["0.2.0"], "what the pipeline keeps is not touched");
    }
    let rc = Release::new(&publisher(), "0.3.0-rc.1", "2026-11-23", "");
    let annotations = annotations(&PACKAGE, &rc);
    assert_eq!(annotations["operators.operatorframework.io.bundle.channels.v1"], "candidate-v0");
    assert_eq!(annotations["operators.operatorframework.io.bundle.channel.default.v1"], "candidate-v0");
    assert_eq!(annotations["com.redhat.openshift.versions"], "v4.17");
}
