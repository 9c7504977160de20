//! What must outlive us of a DaemonSetRollout, as its status keeps it.
//!
//! Pure. What does not read is as if it were not there. Must not decide what is done.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::revision::Revision;
use crate::api::daemonset_rollout::DaemonSetRolloutStatus;
use crate::rollout;

/// Changes of a template within so long follow one another.
const APART: TimeDelta = TimeDelta::hours(1);
/// A template need not stay the same for longer than this, or than the spec wants.
const LONGEST: TimeDelta = TimeDelta::minutes(10);
/// So many changes after one another are more than a mistake, its revert and its correction.
const UNSTABLE: u32 = 4;

/// What must outlive us.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the engine remembers.
    #[serde(default)]
    pub engine: rollout::Memory<Revision>,
    /// The template as it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// The revision that was tried again because the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<Retried>,
    /// The last good template, as it was put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
}

/// A template as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// UID of the DaemonSet.
    pub uid: String,
    pub revision: Revision,
    pub since: DateTime<Utc>,
    /// How many changes were seen, each within an hour of the one before.
    #[serde(default)]
    pub changes: u32,
}

impl Template {
    /// Until when it must stay the same before a Pod is replaced.
    #[must_use]
    pub fn settles_at(&self, debounce: TimeDelta) -> DateTime<Utc> {
        let grown = debounce * 2_i32.pow(self.changes.saturating_sub(1).min(12));
        self.since + grown.min(LONGEST.max(debounce))
    }

    /// Since when each of those that change it in turn has written it.
    #[must_use]
    pub fn unstable_since(&self) -> DateTime<Utc> {
        self.since - APART
    }

    /// Until when it counts as one that changes again and again, if it does.
    #[must_use]
    pub fn is_unstable_until(&self) -> Option<DateTime<Utc>> {
        (self.changes >= UNSTABLE).then(|| self.since + APART)
    }
}

/// A revision that was tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    pub revision: String,
    /// Since when: Pods of it that are older and do not run are replaced.
    pub at: DateTime<Utc>,
}

/// A template that the last good one replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    pub failed: Revision,
    pub to: Revision,
    /// Generation of the DaemonSet that had the failed one.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Whether that was done.
    #[serde(default)]
    pub is_done: bool,
    /// Whether another template was written since.
    #[serde(default)]
    pub is_over: bool,
}

impl Memory {
    /// The revisions that it names, those that matter most first.
    pub fn names(&self) -> impl Iterator<Item = &Revision> {
        let engine = &self.engine;
        let template = self.template.as_ref().map(|template| &template.revision);
        let failed = engine.failure.as_ref().map(|failure| &failure.revision);
        let proven = engine.proof.as_ref().map(|proof| &proof.revision);
        [failed, proven, engine.last_good.as_ref(), template].into_iter().flatten()
    }

    /// What is remembered of this DaemonSet. Another UID is another story: of the one before only verdicts stay.
    #[must_use]
    pub fn of(mut self, uid: &str) -> Self {
        if self.template.as_ref().is_some_and(|template| template.uid != uid) {
            let failure = self.engine.failure.take();
            self.engine = rollout::Memory { failure, ..rollout::Memory::default() };
            self.template = None;
            self.rollback = self.rollback.map(|rollback| Rollback { is_over: true, ..rollback });
        }
        self
    }

    /// What is remembered once the template is seen to be of this revision.
    #[must_use]
    pub fn seeing(mut self, uid: &str, revision: &Revision, now: DateTime<Utc>) -> Self {
        let before = self.template.take();
        if let Some(known) = before.as_ref().filter(|known| known.revision == *revision) {
            self.template = Some(known.clone());
            return self;
        }
        // What we put back ourselves is no news, and need not settle.
        let is_put_back = self.rollback.as_ref().is_some_and(|rollback| rollback.to == *revision && !rollback.is_over);
        if let Some(known) = before.clone().filter(|_| is_put_back) {
            self.template = Some(Template { revision: revision.clone(), ..known });
            return self;
        }
        let follows = |known: &&Template| now - known.since < APART;
        let changes = match &before {
            // The first sight is no change.
            None => 0,
            Some(known) => Some(known).filter(follows).map_or(0, |known| known.changes) + 1,
        };
        self.template = Some(Template { uid: uid.to_owned(), revision: revision.clone(), since: now, changes });
        self
    }

    /// What is remembered once the user names a revision to be tried again: no longer that it failed. Once for each
    /// time that it is named; if it fails again, that is final.
    #[must_use]
    pub fn retrying(mut self, revision: Option<&String>, now: DateTime<Utc>) -> Self {
        let known = self.retried.take().filter(|retried| Some(&retried.revision) == revision);
        let is_news = known.is_none();
        self.retried = known.or_else(|| revision.map(|revision| Retried { revision: revision.clone(), at: now }));
        if let Some(revision) = revision.filter(|_| is_news) {
            self.rollback = self.rollback.filter(|rollback| rollback.failed.0 != *revision);
            self.engine.forgive(|failed| failed.0 == *revision);
        }
        self
    }
}

/// What a status remembers.
#[must_use]
pub fn read(status: &DaemonSetRolloutStatus) -> Memory {
    let stored = status.rollout.as_ref().and_then(|rollout| rollout.memory.clone());
    stored.and_then(|stored| serde_json::from_value(stored).ok()).unwrap_or_default()
}
