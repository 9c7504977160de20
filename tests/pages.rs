//! Holds the pages to the code: what they list is all there is, what they link to is there, what they name exists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the sources")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use oneagent_operator::api::config_watcher::{self, ConfigWatcher};
use oneagent_operator::api::daemonset_rollout::{self, DaemonSetRollout};
use oneagent_operator::api::jmx_exporter::obstacle::Obstacle;
use oneagent_operator::api::jmx_exporter::{PrometheusJmxExporter, condition as jmx};
use oneagent_operator::api::manager::{self, Manager};
use oneagent_operator::api::oneagent::OneAgent;
use oneagent_operator::api::oneagent::condition::Reason;
use oneagent_operator::config_watcher::ConfigWatchers;
use oneagent_operator::daemonset_rollout::DaemonSetRollouts;
use oneagent_operator::jmx_exporter::{self, JmxExporters};
use oneagent_operator::kernel::kind::Kind;
use oneagent_operator::manager::Managers;
use oneagent_operator::oneagent::{OneAgents, OwnMetrics};
use oneagent_operator::rollout::Bucket;
use oneagent_operator::telemetry::Metrics;
use strum::{EnumMessage, IntoEnumIterator};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let markdown = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect::<Vec<_>>()
    };
    ["", "docs", "docs/concepts", "docs/reference"].into_iter().flat_map(markdown).collect()
}

/// Its lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    lines.map(|(number, line)| (number + 1, line)).collect()
}

/// How a heading is linked to.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn headings(text: &str) -> BTreeSet<String> {
    prose(text).into_iter().filter(|(_, line)| line.starts_with('#')).map(|(_, line)| slug(line)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in prose(&text) {
            // Code is no link.
            let line: String = line.split('`').step_by(2).collect();
            for rest in line.split("](").skip(1) {
                let target = rest.split(')').next().unwrap_or_default();
                if target.starts_with("http") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let to = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let is_there = match std::fs::read_to_string(&to) {
                    Ok(text) => anchor.is_empty() || headings(&text).contains(anchor),
                    Err(_) => to.is_dir() && anchor.is_empty(),
                };
                if !is_there {
                    broken.push(format!("{}:{number}: {target}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let mut gone = Vec::new();
    for path in pages().into_iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in text.split(|c: char| c.is_whitespace() || "`|()\"'<>,;".contains(c)) {
            let word = word.trim_end_matches(['.', ':']).split('#').next().unwrap_or_default();
            let ours = ["config/", "src/", "docs/", "olm-tests/", "catalog/", "bundle/", "tests/", ".ci/"];
            let is_whole = !word.contains(['*', '…', '$', '{', '='])
                && !word.chars().collect::<Vec<_>>().windows(3).any(|three| three.iter().all(char::is_ascii_uppercase));
            // Made with the key, and with the first release that is published.
            let later =
                ["catalog/Containerfile", "catalog/cosign.pub", "catalog/charts/", "catalog/oneagent-operator/"];
            let comes = later.iter().any(|made| word.starts_with(made));
            if !comes && ours.iter().any(|folder| word.starts_with(folder)) && is_whole && !root().join(word).exists() {
                gone.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
}

#[test]
fn the_readme_is_read_in_a_few_minutes() {
    let text = page("README.md");
    assert!(text.lines().count() <= 120, "{} lines", text.lines().count());
    let mut paragraph = 0;
    for (number, line) in prose(&text) {
        let is_text = !line.trim().is_empty() && !line.starts_with(['|', '#', '!', '*', '-']);
        paragraph = if is_text { paragraph + 1 } else { 0 };
        assert!(paragraph <= 5, "line {number}: a paragraph of more than five lines");
    }
}

#[test]
fn what_a_promise_is_held_by_is_there() {
    let text = page("docs/development.md");
    let table = text.split("## Guarantees and the tests").nth(1).unwrap().split("\n\n").nth(2).unwrap();
    for row in table.lines().skip(2) {
        let held_by = row.split('|').nth(2).unwrap();
        for name in held_by.split('`').skip(1).step_by(2) {
            let at = [
                name.to_owned(),
                format!("src/rollout/tests/histories/{name}"),
                format!("olm-tests/tests/it/{name}.rs"),
            ];
            assert!(at.iter().any(|path| root().join(path).is_file()), "{name}");
        }
    }
}

#[test]
fn every_reason_is_on_its_page_with_what_to_do() {
    let page = page("docs/status.md");
    let missing: Vec<String> = Reason::iter()
        .map(|reason| {
            let doc = reason.get_documentation().unwrap_or_default().trim_end().replace('\n', " ");
            format!("| `{reason}` | {doc} |")
        })
        .filter(|row| !page.contains(row))
        .collect();
    assert!(missing.is_empty(), "put these rows into docs/status.md:\n{}", missing.join("\n"));
}

/// Holds that a page has every reason with what to do, and every field.
fn has_all<R: IntoEnumIterator + EnumMessage + std::fmt::Display>(page: &str) {
    for reason in R::iter() {
        let doc = reason.get_documentation().unwrap_or_default().trim_end().replace('\n', " ");
        assert!(page.contains(&format!("| `{reason}` | {doc} |")), "| `{reason}` | {doc} |");
    }
}

fn has_every_field<K: kube::CustomResourceExt>(page: &str) {
    let crd = serde_json::to_value(K::crd()).unwrap();
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
fn every_reason_and_every_field_of_the_other_kinds_is_on_the_page_of_the_kind() {
    let watchers = page("docs/configwatcher.md");
    has_all::<config_watcher::condition::Reason>(&watchers);
    has_every_field::<ConfigWatcher>(&watchers);
    let exporters = page("docs/jmx.md");
    has_all::<jmx::Reason>(&exporters);
    has_all::<Obstacle>(&exporters);
    has_every_field::<PrometheusJmxExporter>(&exporters);
    let managers = page("docs/manager.md");
    has_all::<manager::condition::Reason>(&managers);
    has_every_field::<Manager>(&managers);
    let rollouts = page("docs/daemonsetrollout.md");
    has_all::<daemonset_rollout::condition::Reason>(&rollouts);
    has_every_field::<DaemonSetRollout>(&rollouts);
}

#[test]
fn every_bucket_is_on_its_page() {
    let page = page("docs/status.md");
    for bucket in Bucket::iter() {
        assert!(page.contains(&format!("`{bucket}`")), "{bucket}");
    }
}

#[test]
fn every_alert_and_metric_is_on_a_page() {
    let (runbooks, metrics) = (page("docs/runbooks.md"), page("docs/metrics.md"));
    for package in oneagent_operator::api::PACKAGES {
        for alert in package.alerts {
            assert!(runbooks.contains(&format!("\n## {}\n", alert.name)), "{}", alert.name);
        }
    }
    let exposed = [
        {
            let metrics = Metrics::new("OneAgent", OneAgents::COUNTS);
            drop(OwnMetrics::new(&metrics));
            metrics.text()
        },
        Metrics::new("ConfigWatcher", ConfigWatchers::COUNTS).text(),
        {
            let metrics = Metrics::new("PrometheusJmxExporter", JmxExporters::COUNTS);
            drop(jmx_exporter::metrics::OwnMetrics::new(&metrics));
            metrics.text()
        },
        Metrics::new("Manager", Managers::COUNTS).text(),
        Metrics::new("DaemonSetRollout", DaemonSetRollouts::COUNTS).text(),
    ];
    for line in exposed.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("# HELP ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(metrics.contains(&format!("| `{name}`")), "put {name} into docs/metrics.md: {line}");
    }
}

#[test]
fn every_flag_of_the_operator_is_on_a_page_with_its_default_and_when_to_change_it() {
    let page = page("docs/install.md");
    let command = oneagent_operator::cli::command();
    // What the program takes from the package's row, or says in words.
    let said = [("watch-namespace", "all"), ("pod-namespace", "`dynatrace`"), ("pod-name", "`oneagent-operator`")];
    let mut flags = 0;
    for flag in command.find_subcommand("run").unwrap().get_arguments() {
        let name = flag.get_long().unwrap();
        let default = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<String>();
        let shown = if default.is_empty() { "none".to_owned() } else { format!("`{default}`") };
        let shown = said.iter().find(|(flag, _)| *flag == name).map_or(shown, |(_, words)| (*words).to_owned());
        let row = format!("\n| `--{name}` | {shown} | ");
        assert!(page.contains(&row), "put into docs/install.md, with when to change it: {row}");
        flags += 1;
    }
    assert_eq!(page.matches("\n| `--").count(), flags, "a flag on the page is gone from the program");
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

/// Cargo's metadata and the publisher name one repository.
#[test]
fn the_repository_is_the_publishers() {
    let publisher = oneagent_operator::olm::publisher::Publisher::parse(&page("catalog/publisher.yaml")).unwrap();
    assert_eq!(publisher.repository, env!("CARGO_PKG_REPOSITORY"));
}
