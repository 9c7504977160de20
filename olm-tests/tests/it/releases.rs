//! The release list, as a maintainer edits it: each mistake is one sentence, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use olm_tests::cluster::{documents, repository};
use olm_tests::images::said;
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::olm::catalog::annotations;
use oneagent_operator::olm::release::Release;
use serde_json::{Value, json};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const NOW: &str = env!("CARGO_PKG_VERSION");

/// A repository with the release list and what was released, and nothing generated yet.
fn clone() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    said(Command::new("cp").arg("-r").arg(repository("catalog")).arg(folder.path().join("catalog")));
    generate(folder.path(), &[]).unwrap_or_else(|why| panic!("{why}"));
    folder
}

fn generate(root: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_generate"));
    for variable in ["OPERATOR_IMAGE", "AGENT_IMAGE", "BUNDLE_IMAGES"] {
        command.env_remove(variable);
    }
    let output = command.arg("--root").arg(root).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// Every file and its content.
fn files(root: &Path) -> BTreeMap<String, String> {
    let listed = said(Command::new("find").arg(root).args(["-type", "f"]));
    listed.lines().map(|path| (path.to_owned(), std::fs::read_to_string(path).unwrap())).collect()
}

fn edit(root: &Path, from: &str, to: &str) {
    let path = root.join("catalog/releases.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
}

#[test]
fn a_mistake_in_the_release_list_is_one_sentence_and_nothing_is_written() {
    const SECOND: &str = "- version: 0.2.0\n";
    let folder = clone();
    let root = folder.path();
    let list = std::fs::read_to_string(root.join("catalog/releases.yaml")).unwrap();
    let add = ["--release", NOW, "--commit", "abcdef0", "--date", "2026-11-22"];
    let with = |line: &str| format!("{SECOND}  {line}\n");
    for (what, to, args, words) in [
        ("a circle", with("skips: [0.2.0]"), &add[..], "upgrades would go in a circle"),
        ("a missing edge", with("skips: [0.1.9]"), &add[..], "0.2.0 skips \"0.1.9\", which is not listed"),
        ("an unknown channel", with("channels: [beta]"), &add[..], "channel \"beta\" of 0.2.0 is none"),
        (
            "a digest that is none",
            SECOND.into(),
            &[&add[..], &["--operator-image", "x@sha256:12"]].concat()[..],
            "names no digest",
        ),
        ("a version that exists", format!("- version: {NOW}\n"), &add[..], "is listed already"),
        (
            "another version than the code's",
            SECOND.into(),
            &["--release", "9.0.0", "--commit", "abcdef0", "--date", "2026-11-22"][..],
            "set version in Cargo.toml",
        ),
        ("a release that is not there", SECOND.into(), &["--publish", "9.0.0"][..], "9.0.0 is not listed"),
        ("published by tag", SECOND.into(), &["--publish", "0.2.0"][..], "is published without a digest"),
        (
            "a package that is none",
            SECOND.into(),
            &["--publish", "0.2.0", "--bundle-image", "x=y"][..],
            "write PACKAGE=IMAGE",
        ),
    ] {
        std::fs::write(root.join("catalog/releases.yaml"), &list).unwrap();
        edit(root, SECOND, &to);
        let before = files(root);
        let why = generate(root, args).expect_err(what);
        let sentence = why.lines().next().unwrap_or_default();
        assert!(sentence.contains(words), "{what}: {why}");
        assert_eq!(files(root), before, "{what}: something was written");
    }
}

#[test]
fn a_release_is_made_published_and_the_catalog_begins_with_it() {
    let folder = clone();
    let root = folder.path();
    let catalog = root.join("catalog/oneagent-operator/catalog.yaml");
    assert!(!catalog.exists(), "nothing is published: a catalog would name images that nobody has");
    let operator = format!("registry.example/operator@{DIGEST}");
    let agent = format!("registry.example/agent@{DIGEST}");
    let changes = || std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    assert!(changes().contains(&format!("## {NOW} (not released)\n\n* Needs Kubernetes")), "{}", changes());
    let images = ["--operator-image", &operator, "--agent-image", &agent];
    generate(root, &[&["--release", NOW, "--commit", "abcdef0", "--date", "2026-11-22"][..], &images].concat())
        .unwrap();
    assert!(!catalog.exists(), "released is not published");
    assert!(changes().contains(&format!("## {NOW} (2026-11-22)\n\n* Needs Kubernetes")), "{}", changes());
    let csv =
        format!("catalog/bundles/oneagent-operator/v{NOW}/manifests/oneagent-operator.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(root.join(csv)).unwrap();
    assert!(text.contains("features.operators.openshift.io/disconnected: 'true'"), "every image is named by digest");
    assert!(!text.contains("replaces:") && text.contains(&agent), "the first published release replaces none");
    let bundle = |package: &str| format!("{package}=registry.example/{package}@{DIGEST}");
    let bundles = [bundle("oneagent-operator"), bundle("configwatcher-operator")];
    generate(root, &["--publish", NOW, "--bundle-image", &bundles[0], "--bundle-image", &bundles[1]]).unwrap();
    for package in ["oneagent-operator", "configwatcher-operator"] {
        let text = std::fs::read_to_string(root.join(format!("catalog/{package}/catalog.yaml"))).unwrap();
        assert!(text.contains(&format!("image: registry.example/{package}@{DIGEST}")), "{text}");
        assert!(!text.contains(".v0.1.0") && !text.contains(".v0.2.0"), "{text}");
    }
    generate(root, &["--check"]).unwrap();
    edit(root, "published: true", "published: false");
    let why = generate(root, &["--check"]).unwrap_err();
    assert!(why.contains("catalog/oneagent-operator/catalog.yaml is not generated any more"), "{why}");
    generate(root, &[]).unwrap();
    assert!(!catalog.exists());
}

#[test]
fn a_preview_is_the_present_code_alone_with_the_images_that_were_named() {
    let folder = clone();
    let before = files(folder.path());
    let preview = tempfile::tempdir().unwrap();
    let (operator, bundle) = (format!("r.example/o@{DIGEST}"), format!("oneagent-operator=r.example/b@{DIGEST}"));
    let to = preview.path().display().to_string();
    generate(folder.path(), &["--preview", &to, "--operator-image", &operator, "--bundle-image", &bundle]).unwrap();
    assert_eq!(files(folder.path()), before);
    let catalog = std::fs::read_to_string(preview.path().join("catalog/oneagent-operator/catalog.yaml")).unwrap();
    assert!(catalog.contains(&operator) && catalog.contains(&format!("image: r.example/b@{DIGEST}")), "{catalog}");
    assert!(catalog.contains(&format!("oneagent-operator.v{NOW}")) && !catalog.contains("replaces:"), "{catalog}");
}

/// The folders that the community's pipelines take a release from, by what their code requires: names of folders, and
/// the schemas of `ci.yaml` and `release-config.yaml`.
#[test]
fn a_published_release_is_submitted_to_both_communities() {
    let folder = clone();
    let root = folder.path();
    let into = root.join("submission").display().to_string();
    let submit = ["--submission", &into, "--reviewer", "somebody"];
    let why = generate(root, &submit).unwrap_err();
    assert!(why.contains("no release is published") && !Path::new(&into).exists(), "{why}");
    let why = generate(root, &submit[..2]).unwrap_err();
    assert!(why.contains("--reviewer"), "{why}");
    let images = |package: &str| format!("{package}=registry.example/{package}@{DIGEST}");
    let operator = format!("registry.example/operator@{DIGEST}");
    let add = ["--release", NOW, "--commit", "abcdef0", "--date", "2026-11-22", "--operator-image", &operator];
    generate(root, &add).unwrap();
    let bundles = [images("oneagent-operator"), images("configwatcher-operator")];
    generate(root, &["--publish", NOW, "--bundle-image", &bundles[0], "--bundle-image", &bundles[1]]).unwrap();
    generate(root, &submit).unwrap();
    for package in ["oneagent-operator", "configwatcher-operator"] {
        let read = |repository: &str, path: &str| {
            let path = format!("{into}/{repository}/operators/{package}/{path}");
            std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"))
        };
        let yaml = |repository: &str, path: &str| documents(&read(repository, path)).remove(0);
        let manifests = |repository: &str| -> BTreeSet<String> {
            let listed = format!("{into}/{repository}/operators/{package}/{NOW}/manifests");
            let names = std::fs::read_dir(listed).unwrap().flatten();
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let csv = format!("manifests/{package}.clusterserviceversion.yaml");
        for repository in ["community-operators", "community-operators-prod"] {
            // What was released, byte for byte.
            let released = root.join(format!("catalog/bundles/{package}/v{NOW}/{csv}"));
            assert_eq!(read(repository, &format!("{NOW}/{csv}")), std::fs::read_to_string(released).unwrap());
            read(repository, &format!("{NOW}/metadata/annotations.yaml"));
            read(repository, &format!("{NOW}/tests/scorecard/config.yaml"));
            assert_eq!(yaml(repository, "ci.yaml")["reviewers"], json!(["somebody"]));
        }
        let (plain, openshift) = (manifests("community-operators"), manifests("community-operators-prod"));
        let more: Vec<&String> = openshift.difference(&plain).collect();
        assert!(plain.is_subset(&openshift) && more.len() == 3, "{more:?}");
        assert_eq!(yaml("community-operators", "ci.yaml")["updateGraph"], "replaces-mode");
        let catalogs = &yaml("community-operators-prod", "ci.yaml")["fbc"];
        assert_eq!(catalogs["enabled"], true);
        let mapping = &catalogs["catalog_mapping"][0];
        assert!(mapping["catalog_names"].as_array().unwrap().contains(&json!("v4.17")), "{mapping}");
        assert_eq!(mapping["type"], "olm.template.basic");
        let template = mapping["template_name"].as_str().unwrap();
        let found = yaml("community-operators-prod", &format!("catalog-templates/{template}"));
        assert_eq!((&found["schema"], &found["entries"][0]["schema"]), (&mapping["type"], &json!("olm.package")));
        let place = yaml("community-operators-prod", &format!("{NOW}/release-config.yaml"));
        let places = place["catalog_templates"].as_array().unwrap();
        let allowed = ["template_name", "channels", "replaces", "skips", "skipRange"];
        for place in places {
            assert!(place.as_object().unwrap().keys().all(|key| allowed.contains(&key.as_str())), "{place:?}");
            assert_eq!(
                (place["template_name"].as_str(), place["replaces"].is_null()),
                (Some(template), true),
                "the first"
            );
        }
        let channels: Vec<&Value> = places.iter().map(|place| &place["channels"][0]).collect();
        assert_eq!(channels, ["stable-v0", "candidate-v0"]);
        assert_eq!(found["entries"][0]["defaultChannel"], "stable-v0");
    }
}

/// A pre-release comes into no other channel, wherever it is submitted; what comes after it replaces it there alone.
#[test]
fn a_pre_release_is_submitted_to_its_channel_alone() {
    let folder = clone();
    let root = folder.path();
    // Two that were published before: one of all channels, and a pre-release.
    let image = format!("registry.example/operator@{DIGEST}");
    let bundle =
        |version: &str| format!("  bundleImages: {{ oneagent-operator: registry.example/b{version}@{DIGEST} }}\n");
    let published = |version: &str| {
        format!(
            "- version: {version}\n  date: 2026-11-21\n  commit: 92ddc54\n  published: true\n  \
            operatorImage: {image}\n  \
            agentImage: docker.io/dynatrace/oneagent:latest\n{}",
            bundle(version)
        )
    };
    let list = format!("releases:\n{}{}{}", published("0.1.0"), published("0.2.0-rc.1"), published("0.2.0"));
    std::fs::write(root.join("catalog/releases.yaml"), list).unwrap();
    let bundles = root.join("catalog/bundles/oneagent-operator");
    said(Command::new("cp").arg("-r").arg(bundles.join("v0.2.0")).arg(bundles.join("v0.2.0-rc.1")));
    said(
        Command::new("sed")
            .args(["-i", "s/version: 0.2.0$/version: 0.2.0-rc.1/"])
            .arg(bundles.join("v0.2.0-rc.1/manifests/oneagent-operator.clusterserviceversion.yaml")),
    );
    let into = root.join("submission").display().to_string();
    generate(root, &["--submission", &into, "--reviewer", "somebody"]).unwrap();
    let path = format!("{into}/community-operators-prod/operators/oneagent-operator/0.2.0/release-config.yaml");
    let places = documents(&std::fs::read_to_string(path).unwrap()).remove(0)["catalog_templates"].clone();
    let of = |channel: usize| (places[channel]["channels"][0].clone(), places[channel]["replaces"].clone());
    assert_eq!(of(0), (json!("stable-v0"), json!("oneagent-operator.v0.1.0")));
    assert_eq!(of(1), (json!("candidate-v0"), json!("oneagent-operator.v0.2.0-rc.1")));
    let rc = Release::new("0.3.0-rc.1", "2026-11-23", "");
    let annotations = annotations(&PACKAGE, &rc);
    assert_eq!(annotations["operators.operatorframework.io.bundle.channels.v1"], "candidate-v0");
    assert_eq!(annotations["operators.operatorframework.io.bundle.channel.default.v1"], "candidate-v0");
}
