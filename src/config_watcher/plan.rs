//! Plan: follows the ConfigMap, looks at the Pods, asks the engine.
//!
//! Pure: what is known comes in, what is to be kept is returned. Must not keep or send anything itself.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::change::{self, Change, Debounce};
use super::fleet::Inner;
use super::memory::Memory;
use super::places::{Fingerprint, Obstacle, Survey, SurveyInput, WORDS};
use super::resolve::Resolved;
use super::revision::Config;
use crate::fleet::policy::paused;
use crate::kernel::kind::Planned;
use crate::rollout::guard::Guard;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Desired, Hold, Inventory, Policy, State, Workload};

/// What no watch tells is looked at again after so long.
const UNHEARD: TimeDelta = TimeDelta::seconds(10);

const STOPPED: Hold = Hold {
    state: State::Stopped,
    why: Cow::Borrowed(
        "ConfigMap configwatcher-operator in the operator's namespace has key stop; to continue, delete the key, \
        or use kubectl oneagent resume --all --kind configwatcher",
    ),
};
const UNREAD: Hold = Hold { state: State::Held, why: Cow::Borrowed("the ConfigMap is not there, or cannot be read") };
/// While a change may not be the last one.
pub(super) const DEBOUNCING: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed("the ConfigMap has changed; it must stay the same for debounceSeconds first"),
};

/// Since when workloads lack the same replicas, and what they looked like then, by name.
pub type Missing = HashMap<Arc<str>, (DateTime<Utc>, Fingerprint)>;

/// All that a plan is made from.
pub struct Facts<'f> {
    pub resolved: &'f Resolved,
    pub memory: &'f Memory,
    /// The ConfigMap's data, if it could be read.
    pub found: Option<&'f Config>,
    /// There is none.
    pub is_absent: bool,
    /// The spec was edited since the last look.
    pub is_edited: bool,
    pub stopped: bool,
    pub fleet: &'f Inner,
    /// Evictions in flight.
    pub ledger: &'f Ledger,
    /// A change that may not be the last one.
    pub debouncing: Option<&'f Debounce>,
    /// What may not be evicted now, by workload or by UID of the Pod, and why.
    pub blocked: &'f HashMap<Arc<str>, Obstacle>,
    /// How many Pods workloads of kinds that are not read had.
    pub peaks: &'f HashMap<Arc<str>, usize>,
    pub missing: &'f Missing,
    /// Since when this process leads.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break.
    pub in_contact_since: DateTime<Utc>,
    /// The operator's own namespace, and the name that its Pods carry.
    pub own: (&'f str, &'f str),
    pub now: DateTime<Utc>,
}

/// What to do now, and what is known.
#[derive(Debug)]
pub struct Plan {
    pub decision: rollout::Plan<Config>,
    pub memory: Memory,
    pub survey: Survey,
    pub guard: Guard,
    /// The ledger without what the watches have shown.
    pub ledger: Ledger,
    /// A change that is waited out.
    pub debouncing: Option<Debounce>,
    pub missing: Missing,
    /// Pods of ours are missing.
    pub is_in_flight: bool,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}

impl Planned for Plan {
    type Memory = Memory;

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    fn has_steps(&self) -> bool {
        !self.decision.steps.is_empty()
    }
}

/// Plans one reconcile.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let Facts { resolved, now, .. } = *facts;
    let mut memory = facts.memory.clone();
    let mut until = None;
    let mut debouncing = facts.debouncing.cloned();
    let name = &resolved.config_map;
    if memory.tracked.as_ref().is_some_and(|before| before.config_map != *name) {
        // Another ConfigMap is another story.
        memory = Memory::default();
    }
    if let Some(found) = facts.found {
        let change = change::follow(memory.tracked.as_ref(), facts.debouncing, name, found, resolved.debounce, now);
        let Change { tracked, debouncing: goes_on, until: due } = change;
        (memory.tracked, until, debouncing) = (Some(tracked), due, goes_on);
    } else if facts.is_absent {
        memory.tracked = Some(change::miss(memory.tracked.as_ref(), name, now));
    }
    if facts.is_edited && memory.engine.lift() {
        memory.lifted_at = Some(now);
    }
    let hold = if facts.stopped {
        Some(STOPPED)
    } else if resolved.paused {
        Some(paused((&resolved.namespace, &resolved.name), Some("configwatcher")))
    } else if facts.found.is_none() {
        Some(UNREAD)
    } else {
        debouncing.is_some().then_some(DEBOUNCING)
    };
    let is_held = hold.is_some();
    let policy = Policy { hold, ..resolved.policy.clone() };
    let mut plan = ask(facts, &policy, memory);
    let is_done = plan.decision.report.state == State::Complete && plan.decision.report.outdated == 0;
    if let Some(tracked) = plan.memory.tracked.as_mut().filter(|_| is_done && !is_held) {
        tracked.settle();
        plan.memory.lifted_at = None;
    }
    let unheard = plan.survey.is_unheard.then(|| now + UNHEARD);
    plan.next = [plan.decision.next, until, unheard, plan.ledger.believed_until()].into_iter().flatten().min();
    Plan { debouncing, ..plan }
}

/// Asks the engine about the Pods as they are.
fn ask(facts: &Facts<'_>, policy: &Policy, memory: Memory) -> Plan {
    let Facts { resolved, fleet, now, .. } = *facts;
    let view = fleet.namespace(&resolved.namespace);
    let is_shown = |uid: &str| {
        let is_it = |pod: &rollout::Pod<Config>| *pod.id == *uid && !pod.deleting;
        view.is_some_and(|view| view.pods.values().any(|replica| is_it(&replica.pod)))
    };
    let ledger = facts.ledger.clone().shown(is_shown, now);
    let input = SurveyInput {
        resolved,
        tracked: memory.tracked.as_ref(),
        ledger: &ledger,
        blocked: facts.blocked,
        peaks: facts.peaks,
        own: facts.own,
        now,
    };
    let survey = Survey::of(fleet, &input);
    let missing = missing(facts.missing, &survey, now);
    let since: HashMap<Arc<str>, DateTime<Utc>> =
        missing.iter().map(|(name, (since, _))| (name.clone(), *since)).collect();
    let desired =
        memory.tracked.as_ref().map(|tracked| Desired { revision: tracked.desired().clone(), insists: false });
    let places = survey.places();
    let inventory = Inventory {
        workloads: &survey.workloads,
        // Whatever a Pod is made from now, it reads the ConfigMap as it is.
        template: desired.as_ref().map(|desired| &desired.revision),
        writes_template: false,
        deleted: &ledger.deleted(),
        missing: &since,
        // A verdict that was lifted is judged again.
        in_contact_since: memory.lifted_at.map_or(facts.in_contact_since, |lifted| lifted.max(facts.in_contact_since)),
        ..Inventory::plain(&places, WORDS, &memory.engine, facts.deciding_since)
    };
    let mut decision = rollout::plan(policy, desired.as_ref(), &inventory, now);
    let engine = std::mem::take(&mut decision.memory);
    let before = &engine.touched.lacking;
    let in_flight = |workload: &str| ledger.in_flight(workload);
    let guard = Guard::count_replicas(policy, &survey.workloads, &places, before, in_flight, now);
    let is_rolling = engine.started().is_some();
    let is_in_flight =
        is_rolling && policy.hold.is_none() && survey.workloads.iter().any(|workload| workload.unavailable() > 0);
    drop(places);
    let memory = Memory { engine, ..memory };
    Plan { decision, memory, survey, guard, ledger, debouncing: None, missing, is_in_flight, next: None }
}

/// Since when workloads lack the same replicas, as of this look: while they are replaced in turn, others are missing
/// each time.
fn missing(before: &Missing, survey: &Survey, now: DateTime<Utc>) -> Missing {
    let lacking = survey.workloads.iter().zip(&survey.fingerprints).filter(|(workload, _)| workload.unavailable() > 0);
    let since = |(workload, fingerprint): (&Workload, &Fingerprint)| {
        let known = before.get(&workload.name).filter(|(_, known)| known == fingerprint);
        (workload.name.clone(), (known.map_or(now, |(since, _)| *since), *fingerprint))
    };
    lacking.map(since).collect()
}
