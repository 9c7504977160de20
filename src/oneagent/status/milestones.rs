//! What the milestones of a OneAgent's rollouts are called: by version, where there is one.
//!
//! Pure. Must not decide anything.

use chrono::{DateTime, Utc};

use super::super::memory;
use super::super::revision::Revision;
use super::StatusFacts;
use crate::api::condition::Transition;
use crate::api::rollout::PastRollout;
use crate::fleet::milestones::{Change, Naming};

/// What there is to tell, and the history with it.
pub(super) fn milestones(facts: &StatusFacts<'_>, now: DateTime<Utc>) -> (Vec<Transition>, Vec<PastRollout>) {
    let before = memory::read(facts.before).rollout;
    let memory = &facts.memory().rollout;
    let change = Change {
        naming: Versions,
        desired: facts.assessment.desired.as_ref(),
        was: facts.before.rollout.as_ref(),
        before: &before,
        memory,
        report: facts.report(),
        policy: &facts.resolved.policy,
        budget: facts.assessment.decision.plan.budget,
        now,
    };
    change.milestones()
}

struct Versions;

impl Naming for Versions {
    type Revision = Revision;
    const PODS: (&'static str, &'static str) = ("agents", "Agents");

    fn named(&self, revision: &Revision) -> String {
        revision.version.map_or_else(|| "the previous Pod template".to_owned(), |version| format!("version {version}"))
    }

    fn short(&self, revision: &Revision) -> Option<String> {
        revision.version.map(|version| version.to_string())
    }

    fn changed(&self, revision: Option<&Revision>) -> String {
        let version = revision.and_then(|revision| revision.version).map(|version| format!(" (version {version})"));
        format!("the changed Pod template{}", version.unwrap_or_default())
    }
}
