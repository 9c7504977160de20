//! Holds the house together: which room may use which, what the pure rooms must not reach for, and how long a file is.
//!
//! What no room may reach for (clocks, variables, writes outside of the kernel) is held by `clippy.toml`.
//! Reads the sources, so that a wrong arrow fails here and not in a review.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the sources")]

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
    if path.ends_with("tests.rs") {
        return Vec::new();
    }
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
            // Beside a JVM it is alone.
            "attach" => &["attach", "k8s"],
            "k8s" => &["k8s"],
            "openshift" => &["k8s", "openshift"],
            "rollout" => &["rollout"],
            "backoff" => &["backoff"],
            "clock" => &["clock"],
            "fleet" => &["api", "fleet", "k8s", "rollout"],
            "dynatrace" => &["api", "backoff", "clock", "dynatrace"],
            // For the guard's sake.
            "kernel" => &["api", "backoff", "clock", "k8s", "kernel", "rollout", "telemetry"],
            // The samples are resolved in a test only.
            "olm" => &["api", "olm"],
            "telemetry" => &["api", "openshift", "telemetry"],
            "sim" => &["api", "clock", "sim"],
            "page" => &["fleet", "page"],
            "simulate" => &["api", "fleet", "oneagent", "page", "rollout", "sim", "simulate"],
            "config_watcher" => {
                &["api", "clock", "config_watcher", "fleet", "k8s", "kernel", "rollout", "sim", "telemetry"]
            }
            "daemonset_rollout" => {
                &["api", "clock", "daemonset_rollout", "fleet", "k8s", "kernel", "rollout", "telemetry"]
            }
            // What a helper says, and which configurations it refuses.
            "jmx_exporter" => {
                &["api", "attach", "fleet", "jmx_exporter", "k8s", "kernel", "rollout", "sim", "telemetry"]
            }
            "stack" => &["k8s", "stack"],
            "pki" => &["k8s", "pki"],
            "manager" => &["api", "fleet", "k8s", "kernel", "manager", "pki", "rollout", "stack", "telemetry"],
            "oneagent" => &[
                "api",
                "clock",
                "dynatrace",
                "fleet",
                "k8s",
                "kernel",
                "oneagent",
                "openshift",
                "rollout",
                "sim",
                "telemetry",
            ],
            _ => &[
                "api",
                "attach",
                "backoff",
                "cli",
                "clock",
                "config_watcher",
                "daemonset_rollout",
                "dynatrace",
                "fleet",
                "jmx_exporter",
                "k8s",
                "kernel",
                "manager",
                "olm",
                "oneagent",
                "openshift",
                "page",
                "pki",
                "rollout",
                "sim",
                "simulate",
                "stack",
                "telemetry",
            ],
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

/// Siblings of a folder that use one another in a circle: `super::x` and `crate::folder::x` are arrows; what all of
/// them share with their `mod.rs` is not.
fn circles(root: &Path, folder: &Path) -> Vec<String> {
    let name_of = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let siblings: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|path| name_of(path) != "mod").collect();
    let names: Vec<String> = siblings.iter().map(|path| name_of(path)).collect();
    let mut within = folder.strip_prefix(root).unwrap().to_string_lossy().replace('/', "::");
    if !within.is_empty() {
        within.push_str("::");
    }
    let reexported = reexports(&folder.join("mod.rs"), &names);
    let arrows = |path: &PathBuf| -> Vec<usize> {
        let (files, up) =
            if path.is_dir() { (sources(path), "super::super::") } else { (vec![path.clone()], "super::") };
        let text: String = files.iter().flat_map(|file| code(file)).collect::<Vec<_>>().join(" ");
        let from = |prefix: &str, name: &str| {
            text.match_indices(prefix).any(|(at, _)| {
                let rest = &text[at + prefix.len()..];
                let is_it = |part: &str| part.trim().split([':', ' ', ',']).next() == Some(name);
                match rest.strip_prefix('{') {
                    Some(list) => list.split('}').next().unwrap_or_default().split(',').any(is_it),
                    None => {
                        rest.starts_with(name)
                            && !rest[name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    }
                }
            })
        };
        let uses = |name: &str| {
            let is_named = |name: &str| from(up, name) || from(&format!("crate::{within}"), name);
            // What mod.rs takes from a sibling is the sibling's, whatever path names it.
            is_named(name) || reexported.iter().any(|(of, item)| of == name && is_named(item))
        };
        (0..names.len()).filter(|index| names[*index] != name_of(path) && uses(&names[*index])).collect()
    };
    let graph: Vec<Vec<usize>> = siblings.iter().map(arrows).collect();
    let reaches = |from: usize, to: usize| {
        let (mut seen, mut open) = (vec![false; graph.len()], vec![from]);
        while let Some(at) = open.pop() {
            for next in &graph[at] {
                if *next == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[*next], true) {
                    open.push(*next);
                }
            }
        }
        false
    };
    let in_circle = (0..names.len()).filter(|index| reaches(*index, *index));
    in_circle.map(|index| format!("{within}{}", names[index])).collect()
}

/// What a `mod.rs` has in scope of its files: the file, and the item.
fn reexports(path: &Path, names: &[String]) -> Vec<(String, String)> {
    if !path.is_file() {
        return Vec::new();
    }
    let text = code(path).join(" ");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let statement = text[at + 4..].split(';').next().unwrap_or_default();
        let Some((file, items)) = statement.split_once("::") else { continue };
        if names.iter().any(|name| name == file.trim()) {
            let items = items.trim().trim_start_matches('{').trim_end_matches('}').split(',');
            let last = |item: &str| item.rsplit([':', ' ']).next().unwrap_or_default().to_owned();
            let items = items.map(|item| last(item.trim())).filter(|item| !item.is_empty() && item != "self");
            // A path that names both means the file.
            let items = items.filter(|item| !names.contains(item));
            found.extend(items.map(|item| (file.trim().to_owned(), item)));
        }
    }
    found
}

#[test]
fn no_two_files_of_a_room_use_one_another() {
    let mut wrong = Vec::new();
    for root in [root(), Path::new(env!("CARGO_MANIFEST_DIR")).join("olm-tests/src")] {
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            wrong.extend(circles(&root, &folder));
            folders.extend(std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|path| path.is_dir()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn pure_rooms_reach_for_no_client_clock_runtime_environment_or_log() {
    let src = root();
    let rooms = ["api", "fleet", "k8s", "openshift", "page", "rollout", "sim", "simulate", "stack", "olm"]
        .map(|room| src.join(room));
    // In other rooms a file says of itself that it is pure; one of a folder's mod.rs, or of a steps' folder, too.
    let says_so = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("Pure"))
    };
    let is_pure = |path: &PathBuf| rooms.iter().any(|room| path.starts_with(room)) || says_so(path);
    // What is tried with a room may ask how far to go.
    let is_test = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "tests");
    let pure: Vec<PathBuf> = sources(&src).into_iter().filter(|path| is_pure(path) && !is_test(path)).collect();
    // Clippy's list names single functions; these name what they stand in.
    let forbidden = [
        "async fn",
        ".await",
        "kube::Client",
        "Utc::now",
        "Local::now",
        "Zoned::now",
        "Timestamp::now",
        "SystemTime",
        "Instant::now",
        "tokio::",
        "tracing::",
        "std::env::",
        "std::fs",
    ];
    let mut wrong = Vec::new();
    for path in &pure {
        for line in code(path) {
            if line.starts_with("use kube::") && line.contains("Client") {
                wrong.push(format!("{}: kube::Client", path.display()));
            }
            wrong.extend(
                forbidden.iter().filter(|word| line.contains(**word)).map(|word| format!("{}: {word}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_says_what_it_is() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = [sources(&own.join("src")), sources(&own.join("olm-tests/src")), sources(&own.join("olm-tests/tests"))]
        .concat();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!") && text.len() > 200, "{} does not open with what it is", path.display());
    }
}

#[test]
fn only_the_kernel_writes_to_kubernetes() {
    // Clippy holds the calls that it can name; what any call must be handed is held here.
    let writes = ["PatchParams", "PostParams", "DeleteParams", ".replace(&", "Patch::"];
    let mut wrong = Vec::new();
    for path in sources(&root()).iter().filter(|p| room(p) != "kernel") {
        for line in code(path) {
            wrong.extend(
                writes.iter().filter(|word| line.contains(**word)).map(|word| format!("{}: {word}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lines_and_files_can_be_read_at_a_glance() {
    const WIDTH: usize = 120;
    const LENGTH: usize = 400;
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = ["src", "tests", "olm-tests/src", "olm-tests/tests"].map(|folder| sources(&own.join(folder))).concat();
    let mut wrong = Vec::new();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > LENGTH {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDTH) {
            wrong.push(format!("{}:{}: {} columns", path.display(), at + 1, line.chars().count()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
