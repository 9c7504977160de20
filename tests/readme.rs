//! Holds the README to the code: what it lists must be all there is, in the same words.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the sources")]

use std::collections::BTreeSet;

use oneagent_operator::api::config_watcher::{self, ConfigWatcher};
use oneagent_operator::api::oneagent::OneAgent;
use oneagent_operator::api::oneagent::condition::Reason;
use oneagent_operator::rollout::Bucket;
use strum::{EnumMessage, IntoEnumIterator};

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

#[test]
fn every_reason_is_in_the_readme_with_what_to_do() {
    let readme = readme();
    let missing: Vec<String> = Reason::iter()
        .map(|reason| {
            let doc = reason.get_documentation().unwrap_or_default().trim_end().replace('\n', " ");
            format!("| `{reason}` | {doc} |")
        })
        .filter(|row| !readme.contains(row))
        .collect();
    assert!(missing.is_empty(), "put these rows into the README:\n{}", missing.join("\n"));
}

#[test]
fn every_reason_of_a_configwatcher_is_on_its_page_and_every_field_too() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configwatcher.md")).unwrap();
    for reason in config_watcher::condition::Reason::iter() {
        let doc = reason.get_documentation().unwrap_or_default().trim_end().replace('\n', " ");
        assert!(page.contains(&format!("| `{reason}` | {doc} |")), "| `{reason}` | {doc} |");
    }
    let crd = serde_json::to_value(<ConfigWatcher as kube::CustomResourceExt>::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for (name, schema) in spec.as_object().unwrap() {
        let fields = match schema["properties"].as_object() {
            Some(inner) => inner.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        };
        for field in fields {
            assert!(page.contains(&format!("| `{field}` |")), "{field}");
        }
    }
}

#[test]
fn every_bucket_is_in_the_readme() {
    let readme = readme();
    for bucket in Bucket::iter() {
        assert!(readme.contains(&format!("`{bucket}`")), "{bucket}");
    }
}

/// The body of a test function in a file of tests.
fn body(text: &str, name: &str) -> Option<String> {
    let from = text.find(&format!("fn {name}("))?;
    let rest = &text[from..];
    Some(rest[..rest.find("\n}\n").unwrap_or(rest.len())].to_owned())
}

#[test]
fn every_field_of_the_crd_has_a_test_that_uses_it() {
    let crd = serde_json::to_value(<OneAgent as kube::CustomResourceExt>::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let mut fields = BTreeSet::new();
    for (name, schema) in spec.as_object().unwrap() {
        let ours = ["proxy", "affinity", "update", "rollout", "openshift"].contains(&name.as_str());
        match schema["properties"].as_object().filter(|_| ours) {
            Some(inner) => fields.extend(inner.keys().map(|key| format!("{name}.{key}"))),
            None => drop(fields.insert(name.clone())),
        }
    }
    let root = env!("CARGO_MANIFEST_DIR");
    let table = std::fs::read_to_string(format!("{root}/olm-tests/fields.md")).unwrap();
    let mut listed = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let (file, test) = cells[2].split_once("::").unwrap();
        let source = std::fs::read_to_string(format!("{root}/olm-tests/tests/it/{file}.rs")).unwrap();
        let body = body(&source, test).unwrap_or_else(|| panic!("there is no test {}", cells[2]));
        let name = cells[1].rsplit('.').next().unwrap();
        // apiUrl and tokens are in every OneAgent that a lab makes, and tokens are the Secret of that name.
        assert!(body.contains(name) || ["apiUrl", "tokens"].contains(&name), "{} does not use {name}", cells[2]);
        listed.insert(cells[1].to_owned());
    }
    assert_eq!(listed, fields, "olm-tests/fields.md lists other fields than the CRD has");
}
