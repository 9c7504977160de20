//! Holds the house together: who may use whom, and what the pure rooms must not reach for.
//!
//! Reads the sources, so that a wrong arrow fails here and not in a review.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
    found
}

/// Code only: comments name what they like, and so do tests.
fn code(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
    text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned()).collect()
}

fn room(path: &Path) -> String {
    let below = path.strip_prefix(root()).unwrap();
    below.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn rooms_use_only_the_rooms_that_they_may() {
    let allowed = |from: &str| -> &[&str] {
        match from {
            "api" => &["api"],
            "rollout" => &["api", "rollout"],
            "dynatrace" => &["api", "dynatrace"],
            // For the guard's sake.
            "kernel" => &["api", "kernel", "rollout"],
            // The samples are resolved in a test only.
            "olm" => &["api", "olm"],
            "telemetry" => &["api", "telemetry"],
            "oneagent" => &["api", "dynatrace", "kernel", "oneagent", "rollout", "telemetry"],
            _ => &["api", "cli", "dynatrace", "kernel", "olm", "oneagent", "rollout", "telemetry"],
        }
    };
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for path in sources(&root()) {
        let from = room(&path);
        for line in code(&path) {
            for (at, _) in line.match_indices("crate::") {
                let to: String = line[at + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                arrows += 1;
                if !to.is_empty() && !allowed(&from).contains(&to.as_str()) {
                    wrong.push(format!("{}: {from} uses {to}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(arrows > 50, "the test sees the arrows");
}

#[test]
fn pure_rooms_reach_for_no_client_clock_runtime_environment_or_log() {
    let src = root();
    let mut pure: Vec<PathBuf> =
        ["api", "rollout", "olm", "oneagent/build", "oneagent/resolve"].iter().flat_map(|room| sources(&src.join(room))).collect();
    pure.extend(["known", "memory", "overlap", "refusal", "version", "plan", "status"].map(|file| src.join(format!("oneagent/{file}.rs"))));
    pure.extend(["drift", "ownership"].map(|file| src.join(format!("kernel/{file}.rs"))));
    let forbidden = ["async fn", ".await", "kube::Client", "Utc::now", "SystemTime", "Instant::now", "tokio::", "tracing::", "std::env::", "std::fs"];
    let mut wrong = Vec::new();
    for path in pure.iter().filter(|p| !p.ends_with("rollout/tests.rs")) {
        for line in code(path) {
            wrong.extend(forbidden.iter().filter(|word| line.contains(**word)).map(|word| format!("{}: {word}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_says_what_it_is() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = [sources(&own.join("src")), sources(&own.join("olm-tests/src")), sources(&own.join("olm-tests/tests"))].concat();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!") && text.len() > 200, "{} does not open with what it is", path.display());
    }
}

#[test]
fn only_the_kernel_writes_to_kubernetes() {
    let writes = ["PatchParams", "PostParams", "DeleteParams", ".replace(&", "Patch::"];
    let mut wrong = Vec::new();
    for path in sources(&root()).iter().filter(|p| room(p) != "kernel") {
        for line in code(path) {
            wrong.extend(writes.iter().filter(|word| line.contains(**word)).map(|word| format!("{}: {word}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
