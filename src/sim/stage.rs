//! Scripts, and whole rollouts as text: what an operator did and said while a script went on, second by second.
//!
//! Nothing looks again except after an event, or when the operator asked for it. Each script runs in several orders of
//! what happens at one time, too: where it ends must not depend on that. Must not decide anything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::world::World;
use crate::api::condition::{Condition, Transition};
use crate::api::patch::merged;

/// So many other orders are tried.
const ORDERS: u64 = 3;
/// More looks at one time are too many.
const LOOKS: usize = 1000;

/// A script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script<A> {
    /// What it shows, in a sentence.
    pub about: String,
    /// The object's spec, beside what all have.
    #[serde(default)]
    pub spec: Value,
    /// Zones, and how many nodes each has; they are called `a-0`, `a-1`, and so on.
    #[serde(default)]
    pub nodes: BTreeMap<String, usize>,
    /// Deployments, and how many replicas each has.
    #[serde(default)]
    pub workloads: BTreeMap<String, usize>,
    /// Whether the log tells how all began, too.
    #[serde(default)]
    pub all: bool,
    /// When it begins.
    #[serde(default = "monday")]
    pub begins: DateTime<Utc>,
    pub events: Vec<At<A>>,
    /// When it is over, after the beginning.
    pub until: String,
}

fn monday() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_571_200, 0).unwrap_or_default()
}

/// Something that happens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At<A> {
    /// How long after the beginning, such as `90s`, `5m` or `2h`.
    at: String,
    #[serde(rename = "do")]
    act: A,
}

/// A time as a script has it.
fn time(text: &str) -> TimeDelta {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: i64 = number.parse().unwrap_or_else(|_| panic!("{text:?} is no time such as 90s, 5m, 2h or 3d"));
    match unit {
        "s" => TimeDelta::seconds(number),
        "m" => TimeDelta::minutes(number),
        "h" => TimeDelta::hours(number),
        "d" => TimeDelta::days(number),
        _ => panic!("{text:?} is no time such as 90s, 5m, 2h or 3d"),
    }
}

/// The world and the log of a script.
pub struct Stage {
    pub world: World,
    /// When the operator wants to look again.
    pub next: Option<DateTime<Utc>>,
    began: DateTime<Utc>,
    log: String,
    last_line: String,
}

impl Stage {
    /// One with the nodes of a script.
    #[must_use]
    pub fn new<A>(script: &Script<A>, namespace: &'static str, annotation: &'static str, random: Option<u64>) -> Self {
        let began = script.begins;
        let mut world = World::new(began, namespace, annotation, random);
        for (zone, count) in &script.nodes {
            world.join(zone, *count);
        }
        for (name, replicas) in &script.workloads {
            world.scale(name, *replicas);
        }
        Self { world, next: Some(began), began, log: String::new(), last_line: String::new() }
    }

    /// Writes down what happens in the world; with an indent, what the operator does or says.
    pub fn line(&mut self, indent: &str, line: &str) {
        let since = (self.world.now - self.began).num_seconds();
        let at = format!("{:02}:{:02}:{:02}", since / 3600, since / 60 % 60, since % 60);
        let shown = if self.last_line == at { "        ".to_owned() } else { at.clone() };
        self.last_line = at;
        let _ = writeln!(self.log, "{shown} {indent}{line}");
    }

    /// Writes down Events.
    pub fn events(&mut self, transitions: &[Transition], words: fn(&str) -> String) {
        for told in transitions {
            let kind = if told.warning { "Warning" } else { "Normal" };
            self.line("  ", &format!("Event {kind} {}: {}", told.reason, words(&told.message)));
        }
    }

    /// Writes down which conditions are others than before.
    pub fn conditions(&mut self, before: &[Condition], now: &[Condition], words: fn(&str) -> String) {
        for Condition { type_, status, reason, message, .. } in now {
            let is_known = |was: &Condition| {
                (&was.type_, &was.status, &was.reason, &was.message) == (type_, status, reason, message)
            };
            if !before.iter().any(is_known) {
                self.line("  ", &format!("{type_}={status} {reason}: {}", words(message)));
            }
        }
    }

    /// Asks for a look at whichever of these times comes first, in the whole seconds of this world; at once while the
    /// watches have something to show.
    pub fn look_again(&mut self, times: impl IntoIterator<Item = Option<DateTime<Utc>>>) {
        let whole = |time: DateTime<Utc>| {
            let rest = time.timestamp_subsec_nanos();
            if rest == 0 { time } else { time + TimeDelta::nanoseconds(1_000_000_000 - i64::from(rest)) }
        };
        let seen = self.world.has_news().then_some(self.world.now);
        self.next = times.into_iter().flatten().map(whole).chain(seen).min();
    }
}

/// An operator on a stage.
pub trait Operator {
    /// What a script lets happen to it.
    type Act: DeserializeOwned;

    fn new(script: &Script<Self::Act>, random: Option<u64>) -> Self;

    fn stage(&mut self) -> &mut Stage;

    /// Lets something happen; returns what somebody who watches would say.
    fn act(&mut self, act: &Self::Act) -> String;

    /// Takes what the watches show, and does what is to be done.
    fn reconcile(&mut self);

    /// What must not depend on the order in which things happened at one time.
    fn end(&self) -> String;
}

/// Lets everything happen until the script is over; the log, and where it ended.
fn run<O: Operator>(script: &Script<O::Act>, random: Option<u64>) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut operator = O::new(script, random);
        play(&mut operator, script).await;
        (std::mem::take(&mut operator.stage().log), operator.end())
    })
}

async fn play<O: Operator>(operator: &mut O, script: &Script<O::Act>) {
    let began = script.begins;
    let end = began + time(&script.until);
    let mut events = script.events.iter().peekable();
    let mut is_told = script.all;
    let mut looks = (began, 0);
    loop {
        let of_script = events.peek().map(|event| began + time(&event.at));
        let stage = operator.stage();
        let all = [of_script, stage.world.due(), stage.next];
        let Some(at) = all.into_iter().flatten().min().filter(|at| *at <= end) else { break };
        let at = at.max(stage.world.now);
        tokio::time::advance((at - stage.world.now).to_std().unwrap_or_default()).await;
        stage.world.now = at;
        looks = if looks.0 == at { (at, looks.1 + 1) } else { (at, 0) };
        assert!(looks.1 < LOOKS, "it looks again without an end:\n{}", stage.log);
        if of_script.is_some_and(|time| time <= at) {
            if let Some(event) = events.next() {
                if !is_told && at > began {
                    (is_told, stage.log) = (true, String::new());
                }
                let told = operator.act(&event.act);
                operator.stage().line("", &told);
            }
        } else if stage.world.due().is_some_and(|due| due <= at) {
            stage.world.happen();
        }
        operator.reconcile();
    }
}

#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
fn read<A: DeserializeOwned>(path: &Path) -> Script<A> {
    let text = std::fs::read_to_string(path).unwrap();
    // By way of JSON, in which an act is a field and no tag.
    let read = serde_yaml::from_str::<Value>(&text).map_err(|why| why.to_string());
    let script = read.and_then(|value| serde_json::from_value(value).map_err(|why| why.to_string()));
    script.unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Runs every script of a folder below `src`, and compares each log with the one that lies beside it.
#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
pub fn check<O: Operator>(folder: &str)
where
    O::Act: Sync,
{
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", folder].iter().collect();
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(&folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
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

/// Edits a spec by a merge patch; returns what somebody who watches would say.
pub fn edit<S: Serialize + DeserializeOwned>(spec: &mut S, metadata: &mut ObjectMeta, patch: &Value) -> String {
    let mut edited = serde_json::to_value(&*spec).expect("a spec");
    merged(&mut edited, patch);
    *spec = serde_json::from_value(edited).expect("a spec");
    metadata.generation = metadata.generation.map(|generation| generation + 1);
    format!("edit: {patch}")
}
