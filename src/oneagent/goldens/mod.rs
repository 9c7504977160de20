//! Whole rollouts as text: a script in `scripts/`, from a OneAgent and a list of events, and beside it the log of all
//! that the operator did and said, second by second.
//!
//! The operator's own plan and status run in a small world; nothing looks again except after an event, or when the
//! plan asked for it. Each script runs in several orders of what happens at one time, too: where it ends must not
//! depend on that. Must not decide anything.

mod happens;
mod operator;
mod script;
mod text;

use std::path::PathBuf;

use operator::Operator;
use script::Script;

/// So many other orders are tried.
const ORDERS: u64 = 3;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/oneagent/goldens/scripts"].iter().collect()
}

/// Runs a script; the log, and where it ended.
fn run(script: &Script, random: Option<u64>) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut operator = Operator::new(script, random);
        operator.run(script).await;
        let end = operator.end();
        (operator.log, end)
    })
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
fn every_script_is_told_as_its_log_has_it_and_ends_the_same_in_any_order() {
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("scripts");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut wrong = Vec::new();
    for path in &scripts {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // By way of JSON, in which an act is a field and no tag.
        let text = std::fs::read_to_string(path).unwrap();
        let read = serde_yaml::from_str::<serde_json::Value>(&text).map_err(|why| why.to_string());
        let script = read.and_then(|value| serde_json::from_value::<Script>(value).map_err(|why| why.to_string()));
        let script = script.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let (log, end) = run(&script, None);
        for seed in 1..=ORDERS {
            let (other, ended) = run(&script, Some(seed));
            if ended != end {
                wrong.push(format!("{name} ends otherwise in order {seed}:\n{end}\n---\n{ended}\n---\n{other}"));
            }
        }
        settings.set_description(script.about.clone());
        settings.bind(|| insta::assert_snapshot!(name, log));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
