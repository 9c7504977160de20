//! Whole rollouts as text: every script of a folder, and beside it the log of what an operator did and said.
//!
//! Each script runs in several orders of what happens at one time, too: where it ends must not depend on that. For
//! tests alone. Must not decide anything.

use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use futures::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::script::Script;
use super::stage::{Operator, play};

/// So many other orders are tried.
const ORDERS: u64 = 3;

/// An operator that a script is tried with.
pub trait Tried: Operator + Sized {
    fn new(script: &Script<Self::Act>, random: Option<u64>) -> Self;

    /// What must not depend on the order in which things happened at one time.
    fn end(&self) -> String;
}

/// Lets everything happen until the script is over; the log, and where it ended.
fn run<O: Tried>(script: &Script<O::Act>, random: Option<u64>) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let mut operator = O::new(script, random);
    play(&mut operator, script).unwrap_or_else(|why| panic!("{}: {why}", script.about));
    (operator.stage().take_log(), operator.end())
}

/// Has tokio's clock, by which back-off is measured, follow the world's.
pub fn advance(by: TimeDelta) {
    // The clock is moved when it is first polled; what follows lets others run, and here is none.
    let _ = tokio::time::advance(by.to_std().unwrap_or_default()).now_or_never();
}

#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
fn read<A: DeserializeOwned>(path: &Path) -> Script<A> {
    let text = std::fs::read_to_string(path).unwrap();
    let read = serde_yaml::from_str::<Value>(&text).map_err(|why| why.to_string()).and_then(Script::read);
    read.unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Texts are compared with those that lie in a folder, under their names alone.
#[must_use]
pub fn beside(folder: &Path) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Runs every script of a folder below `src`, and compares each log with the one that lies beside it.
///
/// # Panics
/// Where a script cannot be read, or its log or its end is another one.
#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
pub fn check<O: Tried>(folder: &str)
where
    O::Act: DeserializeOwned + Sync,
{
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", folder].iter().collect();
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut settings = beside(&folder);
    let names: Vec<String> = scripts.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    let scripts: Vec<Script<O::Act>> = scripts.iter().map(|path| read(path)).collect();
    // Each order in a thread of its own.
    let orders: Vec<Vec<(String, String)>> = std::thread::scope(|scope| {
        let seeds = (0..=ORDERS).map(|seed| (seed > 0).then_some(seed));
        let all = |seed| scripts.iter().map(|script| run::<O>(script, seed)).collect();
        let threads: Vec<_> = seeds.map(|seed| scope.spawn(move || all(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("all scripts")).collect()
    });
    let mut wrong = Vec::new();
    for (at, (name, script)) in names.iter().zip(&scripts).enumerate() {
        let (log, end) = &orders[0][at];
        for (seed, order) in orders.iter().enumerate().skip(1) {
            let (other, ended) = &order[at];
            if ended != end {
                wrong.push(format!("{name} ends otherwise in order {seed}:\n{end}\n---\n{ended}\n---\n{other}"));
            }
        }
        settings.set_description(script.about.clone());
        settings.bind(|| insta::assert_snapshot!(name.clone(), log));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
