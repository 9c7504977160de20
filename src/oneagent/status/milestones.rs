//! Milestones: that a rollout started, its canaries have proven it, it stopped, went back or is complete. Each is an
//! Event and a line of the log; an end is an entry of the history, too.
//!
//! Pure: told from what was remembered before and now, so that each is told once, whichever process leads. Must not
//! decide anything.

use chrono::{DateTime, TimeDelta, Utc};

use super::super::memory::{self, Memory};
use super::super::revision::Revision;
use super::StatusFacts;
use crate::api::condition::{Transition, shortened, timestamp};
use crate::api::rollout::PastRollout;
use crate::rollout::{Phase, Share, State, Who};

/// So many ends are kept.
const KEPT: usize = 10;
/// A sentence of the history is no longer.
const LONGEST: usize = 300;

/// What there is to tell, and the history with it.
pub(super) fn milestones(facts: &StatusFacts<'_>, now: DateTime<Utc>) -> (Vec<Transition>, Vec<PastRollout>) {
    let mut history = facts.before.rollout.as_ref().map(|rollout| rollout.history.clone()).unwrap_or_default();
    let before = memory::read(facts.before);
    let change = Change { facts, before: &before, now };
    let ended: Vec<Milestone> = [change.stopped(), change.rolled_back(), change.complete(), change.superseded()]
        .into_iter()
        .flatten()
        .collect();
    for milestone in &ended {
        history.insert(0, change.past(milestone));
    }
    history.truncate(KEPT);
    let all = [change.proven()].into_iter().flatten().chain(ended).chain(change.started());
    (all.filter_map(Milestone::told).collect(), history)
}

/// Something that happened to a rollout.
struct Milestone {
    /// As an Event; an end that is told by another one has none.
    reason: &'static str,
    is_warning: bool,
    message: String,
    /// As the history has it, where it is an end.
    result: &'static str,
    to: Option<Revision>,
}

impl Milestone {
    fn told(self) -> Option<Transition> {
        let Self { reason, is_warning, message, .. } = self;
        let told = Transition { type_: "Rollout".to_owned(), reason: reason.to_owned(), message, warning: is_warning };
        (!reason.is_empty()).then_some(told)
    }
}

struct Change<'c> {
    facts: &'c StatusFacts<'c>,
    before: &'c Memory,
    now: DateTime<Utc>,
}

impl Change<'_> {
    fn memory(&self) -> &Memory {
        self.facts.memory()
    }

    fn started(&self) -> Option<Milestone> {
        let since = self.memory().rollout.started()?;
        if self.before.rollout.started().is_some_and(|known| is_same(known, since)) {
            return None;
        }
        let (policy, report) = (&self.facts.resolved.policy, self.facts.report());
        let canaries = policy.canary.as_ref().map(|canary| match canary.who {
            Who::Some(Share::Count(count)) => format!("; canaries first: {count}"),
            Who::Some(Share::Percent(percent)) => format!("; canaries first: {percent}%"),
            Who::Marked => "; the marked canaries first".to_owned(),
        });
        let message = format!(
            "The rollout of {} started{}: {} of {} nodes are to be updated, at most {} at a time{}.",
            self.wanted(),
            self.memory().rollout.from.as_ref().map(|from| format!(" from {}", named(from))).unwrap_or_default(),
            report.outdated + report.unknown.count,
            report.selected,
            self.facts.assessment.decision.plan.budget,
            canaries.unwrap_or_default(),
        );
        Some(Milestone { reason: "RolloutStarted", is_warning: false, message, result: "", to: None })
    }

    fn proven(&self) -> Option<Milestone> {
        let proof = self.memory().rollout.proof.as_ref().filter(|proof| proof.passed)?;
        let known = self.before.rollout.proof.as_ref();
        if known.is_some_and(|known| known.passed && known.revision == proof.revision) {
            return None;
        }
        self.memory().rollout.started()?;
        let soak = self.facts.resolved.policy.canary.as_ref()?.soak;
        let message =
            format!("The canaries have run {} for {}: the other nodes follow.", named(&proof.revision), lasted(soak));
        Some(Milestone { reason: "CanariesReady", is_warning: false, message, result: "", to: None })
    }

    fn stopped(&self) -> Option<Milestone> {
        let failure = self.memory().rollout.failure.as_ref()?;
        if self.before.rollout.failure.as_ref().is_some_and(|known| known.revision == failure.revision) {
            return None;
        }
        let report = self.facts.report();
        let then = if self.facts.resolved.policy.rolls_back {
            "Agents that have it go back to the last good one."
        } else {
            "The other agents keep the previous one. Condition Degraded says what to do."
        };
        let message = format!(
            "The rollout of {} stopped{} with {} of {} nodes updated: {}. {then}",
            named(&failure.revision),
            self.after(),
            report.updated,
            report.selected,
            failure.message,
        );
        let to = Some(failure.revision.clone());
        Some(Milestone { reason: "RolloutFailed", is_warning: true, message, result: "Failed", to })
    }

    fn rolled_back(&self) -> Option<Milestone> {
        let failure = self.memory().rollout.failure.as_ref()?;
        let was = self.facts.before.rollout.as_ref().is_some_and(|rollout| rollout.state == "RolledBack");
        if self.facts.report().state != State::RolledBack || was {
            return None;
        }
        let good = self.memory().rollout.last_good.as_ref().map_or_else(|| "the last good one".to_owned(), named);
        let message = format!("All agents that had {} run {good} again.", named(&failure.revision));
        let to = self.memory().rollout.last_good.clone();
        Some(Milestone { reason: "RolledBack", is_warning: false, message, result: "RolledBack", to })
    }

    fn complete(&self) -> Option<Milestone> {
        let Phase::Complete { since: Some(since), at } = self.memory().rollout.phase else { return None };
        let is_known = matches!(self.before.rollout.phase, Phase::Complete { at: known, .. } if is_same(known, at));
        let was_under_way = self.before.rollout.started().is_some_and(|known| is_same(known, since));
        if is_known || !was_under_way {
            return None;
        }
        let report = self.facts.report();
        let message = format!(
            "The rollout of {} is complete after {}: {} of {} nodes run it.",
            self.wanted(),
            lasted(at - since),
            report.updated,
            report.selected
        );
        Some(Milestone {
            reason: "RolloutComplete",
            is_warning: false,
            message,
            result: "Complete",
            to: self.desired(),
        })
    }

    /// Another one started before the last one ended.
    fn superseded(&self) -> Option<Milestone> {
        let (before, now) = (self.before.rollout.started()?, self.memory().rollout.started()?);
        let to = self.facts.before.rollout.as_ref()?.to.clone();
        let message = format!("Superseded by the rollout of {}.", self.wanted());
        let to =
            to.and_then(|to| to.parse().ok()).map(|version| Revision { version: Some(version), hash: String::new() });
        (!is_same(before, now)).then_some(Milestone {
            reason: "",
            is_warning: false,
            message,
            result: "Superseded",
            to,
        })
    }

    fn past(&self, milestone: &Milestone) -> PastRollout {
        let version = |revision: &Revision| revision.version.map(|version| version.to_string());
        let (started, from) = match milestone.result {
            "RolledBack" => {
                (None, self.memory().rollout.failure.as_ref().and_then(|failure| version(&failure.revision)))
            }
            _ => (self.before.rollout.started(), self.before.rollout.from.as_ref().and_then(version)),
        };
        PastRollout {
            result: milestone.result.to_owned(),
            from,
            to: milestone.to.as_ref().and_then(version),
            started_at: started.map(timestamp),
            ended_at: timestamp(self.now),
            message: shortened(&milestone.message, LONGEST),
        }
    }

    fn desired(&self) -> Option<Revision> {
        let version = self.facts.assessment.choice.version;
        version.map(|version| Revision { version: Some(version), hash: String::new() })
    }

    /// What is rolled out.
    fn wanted(&self) -> String {
        let version = self.facts.assessment.choice.version;
        let from = self.memory().rollout.from.as_ref().and_then(|from| from.version);
        match version {
            Some(version) if from != Some(version) => format!("version {version}"),
            Some(version) => format!("the changed Pod template (version {version})"),
            None => "the changed Pod template".to_owned(),
        }
    }

    /// How long it took.
    fn after(&self) -> String {
        let since = self.before.rollout.started();
        since.map(|since| format!(" after {}", lasted(self.now - since))).unwrap_or_default()
    }
}

/// A status has whole seconds.
fn is_same(stored: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    stored.timestamp() == now.timestamp()
}

fn named(revision: &Revision) -> String {
    revision.version.map_or_else(|| "the previous Pod template".to_owned(), |version| format!("version {version}"))
}

/// A time as people read it: the two largest units.
fn lasted(time: TimeDelta) -> String {
    let seconds = time.num_seconds().max(0);
    let units = [("d", seconds / 86_400), ("h", seconds / 3_600 % 24), ("m", seconds / 60 % 60), ("s", seconds % 60)];
    let large: Vec<String> = units
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(unit, count)| format!("{count}{unit}"))
        .take(2)
        .collect();
    if large.is_empty() { "0s".to_owned() } else { large.join("") }
}
