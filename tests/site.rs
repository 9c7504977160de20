//! Holds the site to the pages: it builds, each of its links leads somewhere, nothing comes from another host, and its
//! search knows every reason and field.
//!
//! Must not judge how it looks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "builds and reads the site")]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use oneagent_operator::api::{self, PACKAGES};
use regex::Regex;
use serde_json::Value;
use strum::IntoEnumIterator;

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push(path);
        }
    }
}

/// Fields of Kubernetes' own types, which its documentation describes.
const OF_KUBERNETES: [&str; 3] = ["affinity", "tolerations", "valueFrom"];

/// The names of all fields of a schema that are ours.
fn fields(schema: &Value, all: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        all.push(name.clone());
        if OF_KUBERNETES.contains(&name.as_str()) {
            continue;
        }
        fields(field, all);
        fields(&field["items"], all);
    }
}

fn reasons<R: IntoEnumIterator + ToString>() -> impl Iterator<Item = String> {
    R::iter().map(|reason| reason.to_string())
}

/// Every field and reason of every kind.
fn names() -> Vec<String> {
    let mut names: Vec<String> = reasons::<api::oneagent::condition::Reason>()
        .chain(reasons::<api::daemonset_rollout::condition::Reason>())
        .chain(reasons::<api::config_watcher::condition::Reason>())
        .chain(reasons::<api::jmx_exporter::condition::Reason>())
        .chain(reasons::<api::jmx_exporter::obstacle::Obstacle>())
        .chain(reasons::<api::manager::condition::Reason>())
        .collect();
    for kind in PACKAGES.iter().flat_map(|package| package.kinds) {
        let crd = serde_json::to_value((kind.crd)()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let before = names.len();
        fields(&schema["spec"], &mut names);
        assert!(names.len() > before, "the test sees the fields of {}", kind.name);
    }
    names
}

/// The pages of the site, each with the places in it that a link may lead to.
fn anchors(all: &[PathBuf]) -> HashMap<PathBuf, HashSet<String>> {
    let id = Regex::new(r#"\bid="([^"]+)""#).unwrap();
    let of = |page: &PathBuf| {
        let text = std::fs::read_to_string(page).unwrap();
        let ids = id.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        (page.canonicalize().unwrap(), ids)
    };
    all.iter().filter(|path| path.extension().is_some_and(|found| found == "html")).map(of).collect()
}

#[test]
fn the_site_stands_alone_and_its_search_knows_every_reason_and_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("make").args(["--no-print-directory", "docs"]).current_dir(root).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut all = Vec::new();
    files(&root.join("target/site"), &mut all);
    let anchors = anchors(&all);
    let link = Regex::new(r##"(href|src)="([^"#?]*)(?:[?][^"#]*)?(?:#([^"]*))?""##).unwrap();
    let mut wrong = Vec::new();
    let mut links = 0;
    for page in all.iter().filter(|path| path.extension().is_some_and(|found| found == "html")) {
        let text = std::fs::read_to_string(page).unwrap();
        for found in link.captures_iter(&text) {
            let (kind, target) = (&found[1], &found[2]);
            links += 1;
            let is_remote = target.contains("://") || target.starts_with("//");
            let anchor = found.get(3).map(|anchor| anchor.as_str());
            let is_there = || {
                // The page of what is not found does not know where it is read.
                let base =
                    if target.starts_with('/') { root.join("target/site") } else { page.parent().unwrap().into() };
                let to = if target.is_empty() { page.clone() } else { base.join(target.trim_start_matches('/')) };
                let has = |anchor: &str| anchors[&to.canonicalize().unwrap()].contains(anchor);
                to.exists() && anchor.is_none_or(|anchor| anchor.is_empty() || has(anchor))
            };
            let is_text = found[0].starts_with("href=\"http");
            if (is_remote && (kind == "src" || !is_text)) || (!is_remote && !is_there()) {
                wrong.push(format!("{}: {target} {}", page.display(), anchor.unwrap_or_default()));
            }
        }
        for tag in ["<link", "<script"] {
            let from_elsewhere = |part: &str| part.split('>').next().is_some_and(|tag| tag.contains("://"));
            if text.split(tag).skip(1).any(from_elsewhere) {
                wrong.push(format!("{}: {tag} of another host", page.display()));
            }
        }
    }
    assert!(links > 1000, "the test sees the links: {links}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let is_index = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("searchindex-");
    let index = std::fs::read_to_string(all.iter().find(is_index).unwrap()).unwrap();
    // A line's end is written in letters.
    let index = index.replace(r"\\n", " ").replace(r"\n", " ");
    let words: HashSet<&str> = index.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let names = names();
    let unknown: Vec<&String> = names.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(names.len() > 300 && unknown.is_empty(), "{} names; {unknown:?}", names.len());
}
