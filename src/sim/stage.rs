//! A stage: a script's world, the log of what happens there, and the operator that acts on it.
//!
//! Nothing looks again except after an event, or when the operator asked for it. Must not decide anything.

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use kube::api::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::script::Script;
use super::world::World;
use crate::api::condition::{Condition, Transition};
use crate::api::patch::merged;
use crate::clock::Clock;

/// More looks at one time are too many.
const LOOKS: usize = 1000;

/// The world and the log of a script.
pub struct Stage {
    pub world: World,
    /// When the operator wants to look again.
    pub next: Option<DateTime<Utc>>,
    clock: Clock,
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
        script.pools.iter().for_each(|pool| world.add_pool(pool));
        if let Some(pool) = script.pools.first() {
            script.members.iter().for_each(|node| world.join_node(&pool.name, node.clone()));
        }
        for (name, replicas) in &script.workloads {
            world.scale(name, *replicas);
        }
        let (log, last_line) = (String::new(), String::new());
        Self { world, next: Some(began), clock: Clock::at(began), began, log, last_line }
    }

    /// The clock of this world.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// How many seconds have passed.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        (self.world.now - self.began).num_seconds()
    }

    /// The log since the last time.
    pub fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log)
    }

    /// Writes down what happens in the world; with an indent, what the operator does or says.
    pub fn line(&mut self, indent: &str, line: &str) {
        let since = self.seconds();
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

    /// Asks for a look at whichever of these times comes first, in the whole seconds of this world; after a pause where
    /// the watches have something to show.
    pub fn look_again(&mut self, times: impl IntoIterator<Item = Option<DateTime<Utc>>>, pause: TimeDelta) {
        let whole = |time: DateTime<Utc>| {
            let rest = time.timestamp_subsec_nanos();
            if rest == 0 { time } else { time + TimeDelta::nanoseconds(1_000_000_000 - i64::from(rest)) }
        };
        let seen = self.world.has_news().then_some(self.world.now + pause);
        self.next = times.into_iter().flatten().map(whole).chain(seen).min();
    }
}

/// An operator on a stage.
pub trait Operator {
    /// What a script lets happen to it.
    type Act;

    fn stage(&mut self) -> &mut Stage;

    /// Lets something happen; returns what an observer would say.
    fn act(&mut self, act: &Self::Act) -> Result<String, String>;

    /// Takes what the watches show, and does what is to be done.
    fn reconcile(&mut self) -> Result<(), String>;

    /// Time passes. For what does not ask this world's clock.
    fn pass(&mut self, _by: TimeDelta) {}

    /// Whether it looks once at all that happens at one time, as the real one does, instead of after each of it.
    fn looks_once(&self) -> bool {
        false
    }

    /// Whether nothing is left for it to do, once the script has no more entries.
    fn is_at_rest(&self) -> bool {
        false
    }
}

/// Lets everything happen until the script is over, or nothing is left.
pub fn play<O: Operator>(operator: &mut O, script: &Script<O::Act>) -> Result<(), String> {
    let began = script.begins;
    let end = began + script.until.0;
    let mut entries = script.timeline.iter().peekable();
    let mut is_told = script.all;
    let mut looks = (began, 0);
    loop {
        let of_script = entries.peek().map(|entry| began + entry.at.0);
        let is_at_rest = of_script.is_none() && operator.is_at_rest();
        let stage = operator.stage();
        let all = [of_script, stage.world.due(), stage.next];
        let Some(at) = all.into_iter().flatten().min().filter(|at| *at <= end && !is_at_rest) else { return Ok(()) };
        let at = at.max(stage.world.now);
        let by = at - stage.world.now;
        stage.clock.set(at);
        stage.world.now = at;
        looks = if looks.0 == at { (at, looks.1 + 1) } else { (at, 0) };
        if looks.1 >= LOOKS {
            return Err(format!("it looks again without an end:\n{}", stage.log));
        }
        operator.pass(by);
        if of_script.is_some_and(|time| time <= at) {
            if let Some(entry) = entries.next() {
                if !is_told && at > began {
                    is_told = true;
                    operator.stage().take_log();
                }
                let told = operator.act(&entry.act)?;
                operator.stage().line("", &told);
            }
            if operator.looks_once() && entries.peek().is_some_and(|next| began + next.at.0 <= at) {
                continue;
            }
        } else {
            let all = operator.looks_once();
            let world = &mut operator.stage().world;
            while world.due().is_some_and(|due| due <= at) {
                world.happen();
                if !all {
                    break;
                }
            }
        }
        operator.reconcile()?;
    }
}

/// Edits a spec by a merge patch; returns what an observer would say.
pub fn edit<S: Serialize + DeserializeOwned>(
    spec: &mut S,
    metadata: &mut ObjectMeta,
    patch: &Value,
) -> Result<String, String> {
    let mut edited = serde_json::to_value(&*spec).map_err(|error| error.to_string())?;
    merged(&mut edited, patch);
    *spec = serde_json::from_value(edited).map_err(|error| format!("edit {patch}: {error}"))?;
    metadata.generation = metadata.generation.map(|generation| generation + 1);
    Ok(format!("edit: {patch}"))
}
