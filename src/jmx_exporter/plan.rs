//! Plan: judges the Pods, asks the engine.
//!
//! Pure: what is known comes in, what is to be kept is returned. Must not keep or send anything itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::export::Export;
use super::fleet::Inner;
use super::judge::{Input, Jvm, judge};
use super::marks::differ;
use super::memory::Memory;
use super::observe::Content;
use super::resolve::Resolved;
use super::standing::State;
use super::target::Target;
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::kernel::kind::Planned;
use crate::rollout::ledger::Ledger;
use crate::rollout::{self, Decision, Desired, Hold, Inventory, Policy, Words};

const PAUSED: Hold =
    Hold { state: rollout::State::Paused, why: Cow::Borrowed("rollout.paused is true; to continue, set it to false") };
const STOPPED: Hold = Hold {
    state: rollout::State::Stopped,
    why: Cow::Borrowed(
        "ConfigMap jmx-exporter-operator in the operator's namespace has key stop; to continue, delete the key",
    ),
};
const HARMED: Hold = Hold {
    state: rollout::State::Failed,
    why: Cow::Borrowed("a JVM came to harm when it loaded the exporter; edit the spec to go on, such as rollout.retry"),
};
const CHANGING: Hold = Hold {
    state: rollout::State::Held,
    why: Cow::Borrowed("the ConfigMap has changed a moment ago; it may change again"),
};
/// So many runs that failed are remembered.
const FORGIVEN: usize = 200;

/// What is waited for, in this kind's words.
pub const WORDS: Words = Words {
    undecided: "the configuration is not there, or cannot be read",
    authority: "",
    place: "Pod",
    places: "Pods",
    lacking: "worked on",
    template: "the configuration",
    closes: "",
};

/// All that a plan is made from.
pub struct Facts<'f> {
    pub resolved: &'f Resolved,
    pub memory: &'f Memory,
    pub content: &'f Content,
    /// The configuration may change again.
    pub is_changing: bool,
    /// The spec was edited since the last look.
    pub is_edited: bool,
    pub stopped: bool,
    pub fleet: &'f Inner,
    /// What is in flight.
    pub ledger: &'f Ledger,
    /// Pods whose change the API server refused a moment ago, by UID, and why.
    pub blocked: &'f HashMap<Arc<str>, String>,
    /// Annotations whose values another client set, by UID of the Pod.
    pub others: &'f HashMap<Arc<str>, Vec<String>>,
    /// Our own image.
    pub image: &'f str,
    /// Since when this process leads.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break.
    pub in_contact_since: DateTime<Utc>,
    pub now: DateTime<Utc>,
}

/// What to do now, and what is known.
#[derive(Debug)]
pub struct Plan {
    pub decision: Decision<Export>,
    pub memory: Memory,
    /// What JVMs should export.
    pub desired: Option<Export>,
    pub jvms: Vec<Jvm>,
    /// Pods to annotate, each with the port on which its JVM exports, if it does.
    pub marks: Vec<(Arc<Target>, Option<u16>)>,
    /// Annotations whose values another client set, by Pod.
    pub others: BTreeMap<String, Vec<String>>,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}

impl Planned for Plan {
    type Memory = Memory;

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn ledger(&self) -> Ledger {
        self.decision.ledger.clone()
    }

    fn has_steps(&self) -> bool {
        !self.decision.plan.steps.is_empty()
    }
}

/// Plans one reconcile.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let Facts { resolved, now, .. } = *facts;
    let mut memory = facts.memory.clone();
    let desired = match facts.content {
        Content::Found(sha256) => Some(Export { port: resolved.port, sha256: sha256.clone() }),
        _ => None,
    };
    let all = |memory: &Memory| {
        let (desired, forgiven) = (desired.as_ref(), &memory.forgiven);
        judge(facts.fleet, &Input { resolved, desired, forgiven, blocked: facts.blocked, image: facts.image, now })
    };
    let mut jvms = all(&memory);
    let pods = || facts.fleet.selected(resolved).chain(facts.fleet.ended(resolved));
    memory.forgiven.retain(|run| pods().any(|target| run.starts_with(&*target.uid)));
    if facts.is_edited {
        memory.engine.lift();
        memory.harmed = None;
        memory.harms.clear();
        memory.forgiven.extend(jvms.iter().flat_map(Jvm::failed_runs));
        while memory.forgiven.len() > FORGIVEN {
            memory.forgiven.pop_first();
        }
        jvms = all(&memory);
    }
    note_harm(&jvms, &mut memory, resolved.policy.max_failures.unwrap_or(1));
    let hold = if memory.harmed.is_some() {
        Some(HARMED)
    } else if facts.stopped {
        Some(STOPPED)
    } else if resolved.paused {
        Some(PAUSED)
    } else {
        facts.is_changing.then_some(CHANGING)
    };
    let policy = Policy { hold, ..resolved.policy.clone() };
    let decision = decide(facts, &policy, &memory, desired.as_ref(), &jvms);
    memory.engine = decision.plan.memory.clone();
    let others_of = |target: &Target| facts.others.get(&target.uid).cloned().unwrap_or_default();
    let is_kept = |jvm: &&Jvm| !matches!(jvm.state, State::Refused(Obstacle::OtherObject, _));
    let kept = jvms.iter().filter(is_kept).map(|jvm| (jvm, jvm.exports.as_ref().map(|export| export.port)));
    let marks = kept.filter(|(jvm, port)| differ(&jvm.target.annotations, *port, &others_of(&jvm.target)));
    let marks = marks.map(|(jvm, port)| (jvm.target.clone(), port)).collect();
    let others = jvms.iter().map(|jvm| (jvm.target.name.to_string(), others_of(&jvm.target)));
    let others = others.filter(|(_, keys)| !keys.is_empty()).collect();
    let next = jvms.iter().filter_map(|jvm| jvm.until).chain(decision.plan.next).min();
    Plan { decision, memory, desired, jvms, marks, others, next }
}

/// As many JVMs as are allowed came to harm: nothing continues before a user edits the spec.
fn note_harm(jvms: &[Jvm], memory: &mut Memory, most: usize) {
    for jvm in jvms {
        if memory.harmed.is_some() {
            return;
        }
        let State::Failed(Obstacle::Harmed, why) = &jvm.state else { continue };
        let harm =
            memory.harms.entry(jvm.target.uid.to_string()).or_insert_with(|| format!("Pod {}: {why}", jvm.target.name));
        let harm = harm.clone();
        if memory.harms.len() >= most {
            memory.harms.clear();
            memory.harmed = Some(harm);
        }
    }
}

/// Asks the engine about the JVMs as they are.
fn decide(
    facts: &Facts<'_>,
    policy: &Policy,
    memory: &Memory,
    desired: Option<&Export>,
    jvms: &[Jvm],
) -> Decision<Export> {
    let places: Vec<_> = jvms.iter().map(Jvm::place).collect();
    let inventory = Inventory {
        // Nothing of a workload is written: whatever a JVM exports now, it can be brought what is desired.
        template: desired,
        writes_template: false,
        in_contact_since: facts.in_contact_since,
        ..Inventory::plain(&places, WORDS, &memory.engine, facts.deciding_since)
    };
    let desired = desired.map(|revision| Desired { revision: revision.clone(), insists: false });
    rollout::decide(policy, desired.as_ref(), &inventory, facts.ledger, facts.now)
}
