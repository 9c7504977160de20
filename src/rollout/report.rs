//! The report: what the engine found and what it waits for, in the only words that status, Events, metrics and
//! the command line use for it.
//!
//! Must not decide anything.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::calendar::Closed;
use super::cause::{Bucket, Cause};
use super::{Hold, Words};

/// How many names stand as an example.
pub(super) const EXAMPLES: usize = 5;
/// How many things are named that are waited for.
pub(super) const WAITING: usize = 5;

/// The state of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display)]
pub enum State {
    /// Nothing is left to replace.
    #[default]
    Complete,
    /// Pods are being replaced or started.
    Rolling,
    /// There is something to do, but first a version must be known.
    Waiting,
    /// Held until something outside is as it must be.
    #[strum(serialize = "Waiting")]
    Held,
    /// Held by the CR.
    Paused,
    /// Held for the whole cluster.
    Stopped,
    /// Stopped by a failure.
    Failed,
    /// Stopped by a failure, and all agents that had it run the last good revision again.
    RolledBack,
}

/// What a rollout waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingOn {
    /// A person who ends the hold.
    Hold(Hold),
    /// A window to open, or a blackout to end.
    Calendar(Closed),
    /// A person who fixes what failed.
    Failure(String),
    /// Agents to go back to the last good revision.
    Back {
        /// It, in words.
        to: String,
        /// The place that is tried first.
        tried: Option<String>,
        /// How many have the one that failed.
        left: usize,
        /// Until when those that run are kept, should what failed recover.
        patience: Option<DateTime<Utc>>,
        /// Why it did not run where it was tried.
        refused: Option<Cause>,
    },
    /// A decision what is wanted, in the kind's words.
    Decision(&'static str),
    /// The workload's controller to see the new template.
    Template,
    /// A time at which another place is tried, while those that were taken are in external trouble.
    Trial(DateTime<Utc>),
    /// A report of what so many Pods are.
    Unheard(usize, &'static str),
    /// Places that are unreachable, of so many.
    MassOutage(usize, usize),
    /// So many broken agents that were replaced and are broken still: no other one is.
    Broken(usize),
    /// Canaries to prove themselves.
    Canary {
        /// Those of them that run what is desired.
        available: usize,
        /// How many there should be.
        wanted: usize,
        /// When they will have.
        until: Option<DateTime<Utc>>,
    },
    /// A person to say that others may follow the canaries, which are so many.
    Promotion(usize),
    /// Replacements to become available: used and whole budget, of a workload if there are any.
    Budget { of: Option<Arc<str>>, used: usize, whole: usize },
    /// Replicas that are terminating or not created yet.
    Replicas {
        /// Of which workload.
        of: Arc<str>,
        missing: usize,
        expected: usize,
        /// Why the API server refuses them.
        refused: Option<String>,
    },
    /// Places, for one cause.
    Places {
        /// The first of them.
        names: Vec<String>,
        /// How many they are.
        count: usize,
        /// What keeps their agents from being available.
        cause: Cause,
        /// When the time of the first is up.
        until: Option<DateTime<Utc>>,
    },
    /// Places that were closed while their agent was replaced.
    Closed {
        /// The first of them.
        names: Vec<String>,
        /// How many they are.
        count: usize,
        /// What closed the first.
        by: Option<String>,
    },
    /// Places that were removed while their agent was replaced.
    Removed {
        /// The first of them.
        names: Vec<String>,
        /// How many they are.
        count: usize,
        /// When the first ceases to count.
        until: DateTime<Utc>,
    },
}

impl WaitingOn {
    /// As people read it, in the kind's words.
    #[must_use]
    pub fn said(&self, words: &Words) -> String {
        match self {
            Self::Hold(hold) => hold.why.clone().into_owned(),
            Self::Calendar(closed) => format!("none is replaced {closed}"),
            Self::Unheard(agents, authority) => {
                format!("{authority}, because {agents} agents may have updated themselves")
            }
            Self::MassOutage(down, all) => format!(
                "{down} of {all} {} are NotReady, or their agent ceased to be Ready; no running agent is replaced \
                while they are a third",
                words.places
            ),
            Self::Broken(count) => format!(
                "{count} agents that were not running before were replaced and are not running yet: other agents that \
                are not running keep their turn until one of these is"
            ),
            Self::Failure(message) => message.clone(),
            Self::Back { to, tried: Some(place), refused: Some(why), .. } => {
                format!("going back to {to} ended on {} {place}, which it does not run on any more: {why}", words.place)
            }
            Self::Back { to, tried: Some(place), left: 0, .. } => {
                format!("going back to {to}: {} {place} is tried", words.place)
            }
            Self::Back { to, left: 0, .. } => format!("going back to {to}: no other {} are left", words.places),
            Self::Back { to, left, patience: Some(until), tried: None, .. } => format!(
                "going back to {to}: {left} {} are left; running agents are kept until {}, in case that what failed \
                recovers",
                words.places,
                until.format("%H:%M:%SZ")
            ),
            Self::Back { to, tried: Some(place), left, .. } => {
                format!("going back to {to}: {} {place} is tried, and then {left} {} follow", words.place, words.places)
            }
            Self::Back { to, left, .. } => format!("going back to {to}: {left} {} are left", words.places),
            Self::Decision(what) => (*what).to_owned(),
            Self::Template => "the DaemonSet controller has not seen the new template yet".to_owned(),
            Self::Trial(at) => {
                format!("another {} is tried at {}, and the rest follow it", words.place, at.format("%H:%M:%SZ"))
            }
            Self::Canary { wanted: 0, .. } => format!(
                "no {} can be a canary: rollout.canary matches none whose agent can be replaced now",
                words.place
            ),
            Self::Canary { available, wanted, until: None } => {
                format!("the canaries: {available} of {wanted} {} are done", words.places)
            }
            Self::Canary { wanted, until: Some(until), .. } => format!(
                "the canaries: {wanted} {} must stay available until {}, then others follow",
                if *wanted == 1 { words.place } else { words.places },
                until.format("%Y-%m-%dT%H:%M:%SZ")
            ),
            Self::Promotion(count) => format!(
                "the canaries have soaked ({count} {}): others follow when rollout.promote names what they run, and \
                none does when rollout.reject does",
                if *count == 1 { words.place } else { words.places }
            ),
            Self::Budget { of: Some(of), used, whole } => {
                format!(
                    "{of}: {used} of its {} {} {}, and {whole} may be; the next follows when one recovers",
                    words.places,
                    are(*used),
                    words.lacking
                )
            }
            Self::Budget { of: None, used, whole } if used > whole => {
                format!("{used} {} are {}, and only {whole} may be", words.places, words.lacking)
            }
            Self::Budget { of: None, used, whole } => {
                format!("{used} of at most {whole} {} {} {}", words.places, are(*used), words.lacking)
            }
            Self::Replicas { of, missing, expected, refused } => format!(
                "{of}: {missing} of {expected} Pods {} terminating or not created yet{}",
                are(*missing),
                refused.as_ref().map(|why| format!("; the API server refuses new ones: {why}")).unwrap_or_default()
            ),
            Self::Places { names, count, cause, until } => format!(
                "{}: {cause}{}",
                named(words, names, *count),
                until
                    .map(|until| {
                        let first = if *count == 1 { "" } else { "first " };
                        format!(" ({first}deadline {})", until.format("%H:%M:%SZ"))
                    })
                    .unwrap_or_default()
            ),
            Self::Closed { names, count, by } => format!(
                "{}: its agent was being replaced when {}{} came, which keeps the new one off",
                named(words, names, *count),
                words.closes,
                by.as_ref().map(|by| format!(" {by}")).unwrap_or_default()
            ),
            Self::Removed { names, count, until } => format!(
                "{}: removed while the agent there was being replaced; counted as {} until {}",
                named(words, names, *count),
                words.lacking,
                until.format("%H:%M:%SZ")
            ),
        }
    }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn named(words: &Words, names: &[String], count: usize) -> String {
    let more = count - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if count == 1 { words.place } else { words.places }, names.join(", "))
}

/// Places that have something in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// How many they are.
    pub count: usize,
    /// The first of them, at most five.
    pub examples: Vec<Example>,
}

/// A place by name, with a cause where nothing else says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub name: String,
    pub cause: Option<String>,
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{} ({cause})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Nodes {
    pub(super) fn add(&mut self, name: &str, cause: Option<&str>) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(Example { name: name.to_owned(), cause: cause.map(str::to_owned) });
        }
    }

    /// The first of them as people read them.
    #[must_use]
    pub fn such_as(&self) -> String {
        self.examples.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The state of the rollout.
    pub state: State,
    /// Places that should run an agent.
    pub selected: usize,
    /// Of them, with an available agent.
    pub running: usize,
    /// Of the running, at the desired revision.
    pub updated: usize,
    /// A place that may become a canary, where these are marked and none is.
    pub lacks_canaries: Option<String>,
    /// Places whose agent is to be replaced.
    pub outdated: usize,
    /// Places whose agent's revision is unknown.
    pub unknown: Nodes,
    /// Places whose agent is newer than desired, so that a change of the template does not reach it.
    pub held_back: Nodes,
    /// Those of the unknown whose revision will be reported.
    pub unheard: usize,
    /// Places whose agent came from a template no longer wanted.
    pub unplanned: usize,
    /// Agents that run where no new one may start.
    pub surplus: Nodes,
    /// The places in each bucket.
    pub buckets: BTreeMap<Bucket, Nodes>,
    /// The places where no new Pod may start, by the name of what closed them.
    pub closed: BTreeMap<&'static str, Nodes>,
    /// What is waited for, most important first, at most five.
    pub waiting_on: Vec<WaitingOn>,
    /// When it will have finished, where that can be known.
    pub finish: Option<DateTime<Utc>>,
    /// Places without an available agent for a cause that needs a person: name and cause, at most five.
    pub troubled: Vec<(String, Cause)>,
    /// Places whose agent is outdated and waits for its place.
    pub waiting: usize,
    /// Those of them whose agent runs: name and why, at most five.
    pub postponed: Vec<(String, Cow<'static, str>)>,
    /// Places whose agent ran, is not Ready any more and may be again in time: name and cause, at most five.
    pub ceased: Vec<(String, Cause)>,
    /// Places whose agent has not been Ready yet and is within its time, and that the rollout did not touch.
    pub joining: usize,
    /// Places that can run an agent now and do not have an available one, those that are joining apart.
    pub lacking: usize,
    /// The first twenty of those.
    pub without: Vec<Without>,
}

/// A place that has no available agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Without {
    pub place: String,
    /// Since when, as far as that is known.
    pub since: Option<DateTime<Utc>>,
    pub cause: Cause,
}

impl Report {
    /// The same where the agents whose versions are not heard yet are as desired, and no other version is unknown.
    #[must_use]
    pub fn with_unheard_updated(&self) -> Self {
        let mut report =
            Self { updated: self.updated + self.unheard, unheard: 0, unknown: Nodes::default(), ..self.clone() };
        report.waiting_on.retain(|waiting| !matches!(waiting, WaitingOn::Unheard(..)));
        report
    }

    /// How many places are in a bucket.
    #[must_use]
    pub fn bucket(&self, bucket: Bucket) -> usize {
        self.buckets.get(&bucket).map_or(0, |nodes| nodes.count)
    }

    /// The first places in a bucket, as people read them.
    #[must_use]
    pub fn such_as(&self, bucket: Bucket) -> String {
        self.buckets.get(&bucket).map(Nodes::such_as).unwrap_or_default()
    }

    /// How many places something of this name keeps new Pods off.
    #[must_use]
    pub fn closed(&self, by: &str) -> usize {
        self.closed.get(by).map_or(0, |nodes| nodes.count)
    }
}
