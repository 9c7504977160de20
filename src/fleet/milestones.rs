//! Milestones: that a rollout started, its canaries have proven it, it stopped, went back or is complete. Each is an
//! Event and a line of the log; an end is an entry of the history, too.
//!
//! Pure: told from what was remembered before and now, so that each is told once, whichever process leads. Must not
//! decide anything.

use chrono::{DateTime, TimeDelta, Utc};

use crate::api::condition::{Transition, shortened, timestamp};
use crate::api::rollout::{PastRollout, RolloutStatus};
use crate::rollout::{Failure, Memory, Phase, Policy, Report, Share, State, Who};

/// So many ends are kept.
const KEPT: usize = 10;
/// A sentence of the history is no longer.
const LONGEST: usize = 300;

/// How a kind names what its rollouts bring.
pub trait Naming {
    /// What a Pod is made from.
    type Revision: Clone + PartialEq;
    /// What its Pods are called, also where a sentence begins.
    const PODS: (&'static str, &'static str);

    /// In a sentence.
    fn named(&self, revision: &Self::Revision) -> String;

    /// In the history, if it has a name there.
    fn short(&self, revision: &Self::Revision) -> Option<String>;

    /// In a sentence, where only the Pod template is another one, or no more is known.
    fn changed(&self, revision: Option<&Self::Revision>) -> String;
}

/// What became of a rollout between two looks.
#[derive(Debug)]
pub struct Change<'c, N: Naming> {
    pub naming: N,
    /// What is rolled out.
    pub desired: Option<&'c N::Revision>,
    /// The rollout as the status had it.
    pub was: Option<&'c RolloutStatus>,
    /// What was remembered,
    pub before: &'c Memory<N::Revision>,
    /// and what is now.
    pub memory: &'c Memory<N::Revision>,
    pub report: &'c Report,
    pub policy: &'c Policy,
    pub budget: usize,
    pub now: DateTime<Utc>,
}

/// Something that happened to a rollout.
struct Milestone {
    /// As an Event; an end that is told by another one has none.
    reason: &'static str,
    is_warning: bool,
    message: String,
    /// As the history has it, where it is an end.
    result: &'static str,
    to: Option<String>,
}

impl Milestone {
    fn told(self) -> Option<Transition> {
        let Self { reason, is_warning, message, .. } = self;
        let told = Transition { type_: "Rollout".to_owned(), reason: reason.to_owned(), message, warning: is_warning };
        (!reason.is_empty()).then_some(told)
    }
}

impl<N: Naming> Change<'_, N> {
    /// What there is to tell, and the history with it.
    #[must_use]
    pub fn milestones(&self) -> (Vec<Transition>, Vec<PastRollout>) {
        let mut history = self.was.map(|rollout| rollout.history.clone()).unwrap_or_default();
        let ended: Vec<Milestone> =
            [self.stopped(), self.rolled_back(), self.complete(), self.superseded()].into_iter().flatten().collect();
        for milestone in &ended {
            history.insert(0, self.past(milestone));
        }
        history.truncate(KEPT);
        let all = [self.proven()].into_iter().flatten().chain(ended).chain(self.started());
        (all.filter_map(Milestone::told).collect(), history)
    }

    /// What is rolled out, in a sentence.
    fn wanted(&self) -> String {
        let Some(desired) = self.desired else { return self.naming.changed(None) };
        let short = self.naming.short(desired);
        match &self.before.last_good {
            Some(good) if good == desired => format!("{} to nodes without it", self.naming.named(desired)),
            Some(good) if self.naming.short(good) == short => self.naming.changed(Some(desired)),
            _ if short.is_none() => self.naming.changed(Some(desired)),
            _ => self.naming.named(desired),
        }
    }

    fn started(&self) -> Option<Milestone> {
        let since = self.memory.started()?;
        if self.before.started().is_some_and(|known| is_same(known, since)) {
            return None;
        }
        let canaries = self.policy.canary.as_ref().map(|canary| match canary.who {
            Who::Some(Share::Count(count)) => format!("; canaries first: {count}"),
            Who::Some(Share::Percent(percent)) => format!("; canaries first: {percent}%"),
            Who::Marked => "; the marked canaries first".to_owned(),
        });
        let is_another =
            |to: &&String| Some(*to) != self.desired.and_then(|desired| self.naming.short(desired)).as_ref();
        let superseded = self.before.started().and(self.was).and_then(|was| was.to.as_ref()).filter(is_another);
        let superseded = superseded.map(|to| format!(", before that of {to} was complete")).unwrap_or_default();
        let message = format!(
            "The rollout of {} started{}{superseded}: {} of {} nodes are to be updated, at most {} at a time{}.",
            self.wanted(),
            self.memory.from.as_ref().map(|from| format!(" from {}", self.naming.named(from))).unwrap_or_default(),
            self.report.outdated + self.report.unknown.count,
            self.report.selected,
            self.budget,
            canaries.unwrap_or_default(),
        );
        Some(Milestone { reason: "RolloutStarted", is_warning: false, message, result: "", to: None })
    }

    fn proven(&self) -> Option<Milestone> {
        let proof = self.memory.proof.as_ref().filter(|proof| proof.passed)?;
        let known = self.before.proof.as_ref();
        if known.is_some_and(|known| known.passed && known.revision == proof.revision) {
            return None;
        }
        self.memory.started()?;
        let canary = self.policy.canary.as_ref()?;
        let ran = proof.since.map_or(canary.soak, |since| self.now - since + TimeDelta::seconds(proof.served));
        let by = if canary.by_hand { " They were promoted (spec.rollout.promote)." } else { "" };
        let message = format!(
            "The canaries have run {} for {}: the other nodes follow.{by}",
            self.naming.named(&proof.revision),
            lasted(ran)
        );
        Some(Milestone { reason: "CanariesReady", is_warning: false, message, result: "", to: None })
    }

    fn stopped(&self) -> Option<Milestone> {
        let failure = self.memory.failure.as_ref()?;
        // One that a user insists on after it failed may fail again.
        let is_known =
            |known: &Failure<N::Revision>| known.revision == failure.revision && known.insisted == failure.insisted;
        if self.before.failure.as_ref().is_some_and(is_known) {
            return None;
        }
        let (pods, first) = N::PODS;
        let then = if self.policy.rolls_back {
            format!("{first} that have it go back to the last good one.")
        } else {
            format!("The other {pods} keep the previous one. Condition Degraded says what to do.")
        };
        let message = format!(
            "The rollout of {} stopped{} with {} of {} nodes updated: {}. {then}",
            self.naming.named(&failure.revision),
            self.after(),
            self.report.updated,
            self.report.selected,
            failure.message,
        );
        let to = self.naming.short(&failure.revision);
        Some(Milestone { reason: "RolloutFailed", is_warning: true, message, result: "Failed", to })
    }

    fn rolled_back(&self) -> Option<Milestone> {
        let failure = self.memory.failure.as_ref()?;
        let was = self.was.is_some_and(|rollout| rollout.state == "RolledBack");
        if self.report.state != State::RolledBack || was {
            return None;
        }
        let last_good = self.memory.last_good.as_ref();
        let good = last_good.map_or_else(|| "the last good one".to_owned(), |good| self.naming.named(good));
        let (pods, _) = N::PODS;
        let message = format!("All {pods} that had {} run {good} again.", self.naming.named(&failure.revision));
        let to = last_good.and_then(|good| self.naming.short(good));
        Some(Milestone { reason: "RolledBack", is_warning: false, message, result: "RolledBack", to })
    }

    fn complete(&self) -> Option<Milestone> {
        let Phase::Complete { since: Some(since), at } = self.memory.phase else { return None };
        let is_known = matches!(self.before.phase, Phase::Complete { at: known, .. } if is_same(known, at));
        let was_under_way = self.before.started().is_some_and(|known| is_same(known, since));
        if is_known || !was_under_way {
            return None;
        }
        let message = format!(
            "The rollout of {} is complete after {}: {} of {} nodes run it.",
            self.wanted(),
            lasted(at - since),
            self.report.updated,
            self.report.selected
        );
        let to = self.desired.and_then(|desired| self.naming.short(desired));
        Some(Milestone { reason: "RolloutComplete", is_warning: false, message, result: "Complete", to })
    }

    /// Another one started before the last one ended.
    fn superseded(&self) -> Option<Milestone> {
        let (before, now) = (self.before.started()?, self.memory.started()?);
        let to = self.was?.to.clone();
        let message = format!("Superseded by the rollout of {}.", self.wanted());
        let superseded = Milestone { reason: "", is_warning: false, message, result: "Superseded", to };
        (!is_same(before, now)).then_some(superseded)
    }

    fn past(&self, milestone: &Milestone) -> PastRollout {
        let short = |revision: &N::Revision| self.naming.short(revision);
        let (started, from) = if milestone.result == "RolledBack" {
            (None, self.memory.failure.as_ref().and_then(|failure| short(&failure.revision)))
        } else {
            // An edit leads from a release to the same.
            let good = self.before.last_good.as_ref().filter(|good| Some(*good) != self.desired);
            (self.before.started(), self.before.from.as_ref().or(good).and_then(short))
        };
        PastRollout {
            result: milestone.result.to_owned(),
            from,
            to: milestone.to.clone(),
            started_at: started.map(timestamp),
            ended_at: timestamp(self.now),
            message: shortened(&milestone.message, LONGEST),
        }
    }

    /// How long it took.
    fn after(&self) -> String {
        let since = self.before.started();
        since.map(|since| format!(" after {}", lasted(self.now - since))).unwrap_or_default()
    }
}

/// A status has whole seconds.
fn is_same(stored: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    stored.timestamp() == now.timestamp()
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
