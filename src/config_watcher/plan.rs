//! Plan: follows the ConfigMap, looks at the Pods, asks the engine.
//!
//! Takes what is kept of the object from its desk and puts it back. Must not send anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::change::{self, Change};
use super::memory::Memory;
use super::places::{Lens, Sign, Survey, WORDS};
use super::resolve::Resolved;
use super::revision::Config;
use super::{Context, Desk, MANAGER};
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Desired, Hold, Inventory, Policy, Source, State, Workload};

const PAUSED: Hold = Hold { state: State::Paused, why: "rollout.paused is true; set it to false to go on" };
const STOPPED: Hold = Hold {
    state: State::Stopped,
    why: "ConfigMap configwatcher-operator in the operator's namespace has key stop: \"true\"; delete the key to go on",
};
const UNREAD: Hold = Hold { state: State::Held, why: "the ConfigMap is not there, or cannot be read" };
const RESTLESS: Hold = Hold {
    state: State::Held,
    why: "the ConfigMap has changed again; it must stay the same for debounceSeconds first",
};

/// What to do now, and what is known.
#[derive(Debug)]
pub struct Plan {
    pub decision: rollout::Plan<Config>,
    pub memory: Memory,
    pub survey: Survey,
    pub guard: Guard,
    /// The ledger without what the watches have shown.
    pub ledger: Ledger,
    /// A change is waited out.
    pub is_restless: bool,
    /// Pods of ours are away.
    pub is_in_flight: bool,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}

/// Plans one look. `found`: the ConfigMap's data, if it could be read.
pub fn plan(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    memory: &Memory,
    found: Option<&Config>,
    stopped: bool,
) -> Plan {
    let now = context.clock.now();
    let mut memory = memory.clone();
    let mut until = None;
    let mut is_restless = false;
    if let Some(found) = found {
        let mut restless = desk.own.restless.lock();
        let name = &resolved.config_map;
        let change = change::follow(memory.tracked.as_ref(), restless.as_ref(), name, found, resolved.debounce, now);
        let Change { tracked, restless: goes_on, until: due } = change;
        if memory.tracked.as_ref().is_some_and(|before| before.config_map != tracked.config_map) {
            // Another ConfigMap is another story.
            memory.engine = rollout::Memory::default();
        }
        (memory.tracked, until, is_restless) = (Some(tracked), due, goes_on.is_some());
        *restless = goes_on;
    }
    let hold = if stopped {
        Some(STOPPED)
    } else if resolved.paused {
        Some(PAUSED)
    } else if found.is_none() {
        Some(UNREAD)
    } else {
        is_restless.then_some(RESTLESS)
    };
    let policy = Policy { hold, ..resolved.policy.clone() };
    let mut plan = ask(context, desk, resolved, &policy, memory, now);
    let is_done = plan.decision.report.state == State::Complete && plan.decision.report.outdated == 0;
    if let Some(tracked) = plan.memory.tracked.as_mut().filter(|_| is_done && hold.is_none()) {
        tracked.settle();
    }
    plan.is_restless = is_restless;
    let blocked = desk.own.blocked.lock().values().map(|block| block.until).min();
    let blocked = blocked.map(|until| now + until.saturating_duration_since(Instant::now()));
    plan.next = [plan.decision.next, until, blocked].into_iter().flatten().min();
    plan
}

/// Asks the engine about the Pods as they are.
fn ask(
    context: &Context,
    desk: &Desk,
    resolved: &Resolved,
    policy: &Policy,
    memory: Memory,
    now: DateTime<Utc>,
) -> Plan {
    let fleet = context.fleet.read();
    let corner = fleet.corner(&resolved.namespace);
    let is_shown = |uid: &str| {
        let is_it = |pod: &rollout::Pod<Config>| *pod.uid == *uid && !pod.deleting;
        corner.is_some_and(|corner| corner.pods.values().any(|replica| is_it(&replica.pod)))
    };
    let ledger = context.deletions.ledger(&resolved.namespace).shown(is_shown, now);
    let none = change::Tracked {
        config_map: String::new(),
        applied: Config { hash: String::new(), changed_at: now },
        pending: None,
    };
    let tracked = memory.tracked.as_ref().unwrap_or(&none);
    let blocked = desk.own.blocked().into_iter().map(|(key, block)| (key, block.why)).collect();
    let peaks = desk.own.peaks.lock().iter().map(|(uid, peak)| (uid.clone(), peak.pods)).collect();
    let lens = Lens {
        resolved,
        tracked,
        ledger: &ledger,
        blocked: &blocked,
        peaks: &peaks,
        own: (&context.namespace, MANAGER),
        now,
    };
    let survey = Survey::of(&fleet, &lens);
    drop(fleet);
    let believed_after = policy.wait_ready.to_std().unwrap_or(Duration::MAX);
    survey.counted.iter().for_each(|(uid, pods)| desk.own.counted(uid, *pods, believed_after));
    let missing = missing(desk, &survey, now);
    let desired =
        memory.tracked.as_ref().map(|tracked| Desired { revision: tracked.desired().clone(), insists: false });
    let places = survey.places();
    let inventory = Inventory {
        places: &places,
        workloads: &survey.workloads,
        // Whatever a Pod is made from now, it reads the ConfigMap as it is.
        template: desired.as_ref().map(|desired| &desired.revision),
        settled: true,
        deleted: &ledger.deleted(),
        lost: &HashMap::new(),
        missing: &missing,
        deciding_since: context.deciding_since.get().copied().unwrap_or(now),
        source: Source::NotNeeded,
        refused: None,
        words: WORDS,
        memory: &memory.engine,
    };
    let mut decision = rollout::plan(policy, desired.as_ref(), &inventory, now);
    let engine = std::mem::take(&mut decision.memory);
    let before = &engine.touched.lacking;
    let in_flight = |workload: &str| ledger.in_flight(workload);
    let guard = Guard::count_replicas(policy, &survey.workloads, &places, before, in_flight);
    let is_rolling = engine.started().is_some();
    let is_in_flight =
        is_rolling && policy.hold.is_none() && survey.workloads.iter().any(|workload| workload.unavailable() > 0);
    drop(places);
    let memory = Memory { engine, ..memory };
    Plan { decision, memory, survey, guard, ledger, is_restless: false, is_in_flight, next: None }
}

/// Since when workloads lack the same replicas, as of this look: while they are replaced in turn, others are
/// away each time.
fn missing(desk: &Desk, survey: &Survey, now: DateTime<Utc>) -> HashMap<Arc<str>, DateTime<Utc>> {
    let mut missing = desk.own.missing.lock();
    let lacking = survey.workloads.iter().zip(&survey.signs).filter(|(workload, _)| workload.unavailable() > 0);
    let since = |(workload, sign): (&Workload, &Sign)| {
        let known = missing.get(&workload.name).filter(|(_, known)| known == sign);
        (workload.name.clone(), (known.map_or(now, |(since, _)| *since), *sign))
    };
    *missing = lacking.map(since).collect();
    missing.iter().map(|(name, (since, _))| (name.clone(), *since)).collect()
}
