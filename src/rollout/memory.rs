//! What must outlive a call of the engine: one type, with a phase, which its caller keeps in the cluster.
//!
//! Bounded, whatever the fleet. Read leniently: what makes no sense is as if it were not there. Must not decide.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::away;
use super::lenient::{lenient, text, time};

/// How many places are remembered for each cause, at most: a status must not grow with the fleet.
pub(super) const REMEMBERED: usize = 200;

/// What must outlive a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound = "R: Serialize + DeserializeOwned")]
pub struct Memory<R> {
    /// How far the rollout is.
    #[serde(default, deserialize_with = "lenient")]
    pub phase: Phase<R>,
    /// Where it began.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub from: Option<R>,
    /// The last revision with which one was completed.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_good: Option<R>,
    /// What was good before that, while that one has proven itself with its canaries and was not completed.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub completed: Option<R>,
    /// The last failure, until something else is completed.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure<R>>,
    /// How far the way back from it is.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub back: Option<Back<R>>,
    /// A verdict that was withdrawn.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<Withdrawn<R>>,
    /// What the canaries have proven.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof<R>>,
    /// Places that may lack an agent because of us.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Touched::is_empty")]
    pub touched: Touched,
    /// When the source that Pods download from was unreachable the last time.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
}

impl<R> Default for Memory<R> {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            from: None,
            last_good: None,
            completed: None,
            failure: None,
            back: None,
            withdrawn: None,
            proof: None,
            touched: Touched::default(),
            outage: None,
        }
    }
}

/// How far a rollout is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase<R> {
    /// There was none, or the last one was stopped by a failure.
    #[default]
    Idle,
    /// One is under way.
    #[serde(rename_all = "camelCase")]
    Rolling {
        /// Since when.
        #[serde(with = "seconds")]
        since: DateTime<Utc>,
        /// What keeps its new Pods from starting, if it is not the revision.
        #[serde(rename = "stuck", default = "none", skip_serializing_if = "Option::is_none")]
        stall: Option<Stall<R>>,
    },
    /// The last one was completed.
    #[serde(rename_all = "camelCase")]
    Complete {
        /// Since when it was under way.
        #[serde(
            default,
            deserialize_with = "lenient_time",
            serialize_with = "maybe_seconds",
            skip_serializing_if = "Option::is_none"
        )]
        since: Option<DateTime<Utc>>,
        /// When it was completed.
        #[serde(with = "seconds")]
        at: DateTime<Utc>,
    },
}

/// Places that may lack an agent because of us.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Touched {
    /// Since when: for longer than one rollout, where that failed.
    #[serde(
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<DateTime<Utc>>,
    /// Places that are younger than this joined since the last rollout began.
    #[serde(
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub joined_after: Option<DateTime<Utc>>,
    /// Places that went away after this rollout touched them, and since when those are gone that were removed.
    #[serde(with = "away", skip_serializing_if = "BTreeMap::is_empty")]
    pub away: BTreeMap<String, Option<DateTime<Utc>>>,
    /// Places that were closed while their agent was being replaced.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "BTreeSet::is_empty")]
    pub closed: BTreeSet<String>,
    /// Places without an available agent when this rollout touched them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "BTreeSet::is_empty")]
    pub broken: BTreeSet<String>,
    /// How many replicas workloads lacked when this rollout began.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "BTreeMap::is_empty")]
    pub lacking: BTreeMap<String, usize>,
    /// Places whose agent restarted again and again before this rollout touched them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "BTreeSet::is_empty")]
    pub flapping: BTreeSet<String>,
}

impl Touched {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// New Pods do not start for a cause that is not the revision's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall<R> {
    /// Which revision's Pods: another one may well start.
    pub revision: R,
    /// How far that has come.
    pub phase: StallPhase,
    /// Since when.
    #[serde(with = "seconds")]
    pub since: DateTime<Utc>,
    /// How often a single place was tried in vain.
    #[serde(default)]
    pub tries: u32,
}

/// How far it has come with Pods that do not start for a cause that is not the revision's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StallPhase {
    /// They have their time.
    Waiting,
    /// The template went back, so that places which join have an agent.
    Back,
    /// One place is tried.
    Trial,
}

/// The failure that stopped a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
pub struct Failure<R> {
    /// What failed.
    pub revision: R,
    /// Whether the release itself failed, and not a template of one that had been good.
    #[serde(default)]
    pub rejects: bool,
    /// Whether the user had insisted on it: to insist on what failed is the word to try again.
    #[serde(default)]
    pub insisted: bool,
    /// How, and where.
    pub message: String,
    /// The places where it failed, bounded.
    #[serde(default)]
    pub places: Vec<String>,
    /// Of replicas the workloads of those that failed, bounded: they make their Pods again under other names.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Since when none of these workloads lacks a replica.
    #[serde(
        default,
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub whole_since: Option<DateTime<Utc>>,
    /// When it stopped the rollout.
    #[serde(
        default,
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub at: Option<DateTime<Utc>>,
    /// Whether all that failed was unreachable or late, and nothing crashed: what runs then may well be good.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_lost: bool,
    /// Whether a person said so: it holds for as long as the field has it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_hand: bool,
    /// What failed before it, and has Pods still, bounded.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<R>,
}

/// A way back from what failed to the last good revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back<R> {
    /// What failed.
    pub from: R,
    /// What the agents go back to.
    pub to: R,
    /// The place that is tried.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How far it is.
    pub phase: BackPhase,
}

/// How far a way back is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BackPhase {
    /// One place is tried.
    Trial,
    /// That one has an available agent: the others follow.
    Going,
    /// The last good revision does not run there any more.
    Refused,
}

/// A verdict that was withdrawn, because the agents recovered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawn<R> {
    /// On what.
    pub revision: R,
    /// How often.
    pub times: u32,
}

/// What the canaries have proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof<R> {
    /// Of what.
    pub revision: R,
    /// Since when all of them were available.
    #[serde(
        default,
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<DateTime<Utc>>,
    /// For how many seconds all of them were available before that.
    #[serde(default, deserialize_with = "bounded", skip_serializing_if = "is_zero")]
    pub served: i64,
    /// Whether that was long enough.
    #[serde(default)]
    pub passed: bool,
    /// Places whose Pod was deleted for it, bounded.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "BTreeSet::is_empty")]
    pub places: BTreeSet<String>,
    /// Those of them that have had a Pod of it.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "BTreeSet::is_empty")]
    pub made: BTreeSet<String>,
}

impl<R> Proof<R> {
    /// Whether one more place can be remembered.
    pub(super) fn has_room(&self) -> bool {
        self.places.len() < REMEMBERED
    }
}

/// The source that Pods download from was unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Since when.
    #[serde(with = "seconds")]
    pub since: DateTime<Utc>,
    /// Until when.
    #[serde(
        default,
        deserialize_with = "lenient_time",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<DateTime<Utc>>,
}

impl<R> Memory<R> {
    /// When the rollout under way began.
    #[must_use]
    pub fn started(&self) -> Option<DateTime<Utc>> {
        match &self.phase {
            Phase::Rolling { since, .. } => Some(*since),
            _ => None,
        }
    }

    /// What keeps new Pods from starting, if it is not the revision.
    #[must_use]
    pub fn stall(&self) -> Option<&Stall<R>> {
        match &self.phase {
            Phase::Rolling { stall, .. } => stall.as_ref(),
            _ => None,
        }
    }

    /// How far that has come.
    pub(super) fn stall_phase(&self) -> Option<StallPhase> {
        self.stall().map(|stall| stall.phase)
    }

    /// Since when places may lack an agent because of us.
    pub(super) fn began(&self) -> Option<DateTime<Utc>> {
        self.touched.since.or(self.started())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

fn none<T>() -> Option<T> {
    None
}

/// Seconds that anyone may have written: of no more than ten years, with which one can reckon.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(lenient::<D, i64>(deserializer)?.clamp(0, 10 * 366 * 24 * 60 * 60))
}

#[allow(clippy::ref_option, reason = "serde hands it so")]
fn maybe_seconds<S: Serializer>(time: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(text).serialize(serializer)
}

fn lenient_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    Ok(lenient::<D, Option<String>>(deserializer)?.and_then(|text| time(&text)))
}

mod seconds {
    use super::{DateTime, Deserialize, Deserializer, Serializer, Utc, text, time};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
    pub(super) fn serialize<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        let text = String::deserialize(deserializer)?;
        time(&text).ok_or_else(|| serde::de::Error::custom("not a time of RFC 3339"))
    }
}
