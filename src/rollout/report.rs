//! The report: what the engine found and what it waits for, in the only words that status, Events, metrics and
//! the command line use for it.
//!
//! Must not decide anything.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};

use super::Hold;
use super::bucket::{Bucket, Sorted, Standing};

/// How many names stand as an example.
const EXAMPLES: usize = 5;

/// Where a rollout stands.
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
}

/// What a rollout waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingOn {
    /// Somebody to end the hold.
    Hold(Hold),
    /// Somebody to mend what failed.
    Failure(String),
    /// The vendor to say which version.
    Version,
    /// The DaemonSet controller to see the new template.
    Template,
    /// The vendor's host list, for so many agents.
    Hosts(usize),
    /// Nodes that are NotReady, of so many.
    Storm(usize, usize),
    /// Replacements to become available: used and whole budget.
    Budget(usize, usize),
    /// Nodes, for one cause.
    Nodes {
        /// The first of them.
        names: Vec<String>,
        /// How many they are.
        count: usize,
        /// What keeps their agents from being available.
        why: String,
        /// When the time of the first is up.
        until: Option<DateTime<Utc>>,
    },
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(Hold::Paused) => f.write_str("rollout.paused is true"),
            Self::Hold(Hold::Downgrade) => {
                f.write_str("the agent that is wanted is older than those that run, and spec.update.allowDowngrade is not true")
            }
            Self::Hold(Hold::Stopped) => f.write_str("ConfigMap oneagent-operator has key stop: \"true\""),
            Self::Hold(Hold::Tokens) => f.write_str("the Secret with the tokens is not as Pods need it; condition PaaSToken says what to mend"),
            Self::Hold(Hold::Environment) => f.write_str(
                "the environment does not answer this paasToken, or does not offer the version: a new Pod could not download its agent; see conditions PaaSToken and Degraded",
            ),
            Self::Hold(Hold::NamespaceSelector) => {
                f.write_str("the namespace's own node selector excludes nodes with a running agent: any change would remove these")
            }
            Self::Hosts(agents) => write!(f, "the environment's host list, because {agents} agents may have updated themselves"),
            Self::Storm(down, all) => write!(f, "{down} of {all} nodes are NotReady; no agent is replaced while it is a third of them"),
            Self::Failure(message) => f.write_str(message),
            Self::Version => f.write_str("the environment has not said which version is the newest"),
            Self::Template => f.write_str("the DaemonSet controller has not seen the new template yet"),
            Self::Budget(used, budget) => write!(f, "{used} of at most {budget} nodes are without an available agent"),
            Self::Nodes { names, count, why, until } => {
                let more = count - names.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{} {}{more}: {why}", if *count == 1 { "node" } else { "nodes" }, names.join(", "))?;
                until.map_or(Ok(()), |until| write!(f, " (until {})", until.format("%H:%M:%SZ")))
            }
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Where the rollout stands.
    pub state: State,
    /// Nodes that shall run an agent.
    pub selected: usize,
    /// Of them, with an available agent.
    pub running: usize,
    /// Of the running, at the desired revision.
    pub updated: usize,
    /// Nodes whose agent is to be replaced.
    pub outdated: usize,
    /// Nodes whose agent's version nobody knows.
    pub version_unknown: usize,
    /// Nodes whose agent is newer than desired, so that a change of the template does not reach it.
    pub held_back: usize,
    /// Nodes whose version the vendor has not said yet, of those that nobody knows.
    pub unheard: usize,
    /// Nodes whose agent came from a template no longer wanted.
    pub unplanned: usize,
    /// Agents that run where no new one may start.
    pub surplus: usize,
    /// Matching nodes with a taint that is not tolerated.
    pub untolerated: usize,
    /// Matching nodes of another architecture.
    pub architecture: usize,
    /// Matching nodes that the namespace's own node selector excludes.
    pub excluded: usize,
    /// Matching nodes that another OneAgent keeps.
    pub overlap: usize,
    /// How many nodes are in each bucket.
    pub buckets: BTreeMap<Bucket, usize>,
    /// Names of nodes, by bucket, at most five.
    pub examples: BTreeMap<String, Vec<String>>,
    /// What is waited for, most important first, at most five.
    pub waiting_on: Vec<WaitingOn>,
    /// Nodes without an available agent for a cause that needs somebody: name and cause, at most five.
    pub troubled: Vec<(String, String)>,
    /// Nodes whose agent is outdated, runs, and waits for its node: name and why, at most five.
    pub postponed: Vec<(String, String)>,
    /// Nodes that joined and whose agent is within its time.
    pub joining: usize,
    /// Nodes that can run an agent now and do not have an available one, those that joined apart.
    pub lacking: usize,
}

impl Report {
    /// The counts of a sorted fleet; state and waiting come from the decision.
    pub(super) fn count(sorted: &Sorted<'_>) -> Self {
        let mut report = Self {
            selected: sorted.cells.len(),
            surplus: sorted.surplus.len(),
            untolerated: sorted.untolerated.len(),
            architecture: sorted.architecture.len(),
            excluded: sorted.excluded.len(),
            overlap: sorted.overlap.len(),
            ..Self::default()
        };
        for (node, taint) in &sorted.untolerated {
            report.example("untolerated", &format!("{} ({taint})", node.name));
        }
        for (node, architecture) in &sorted.architecture {
            report.example("arch", &format!("{} ({architecture})", node.name));
        }
        for node in &sorted.excluded {
            report.example("namespaceSelector", &node.name);
        }
        for (node, other) in &sorted.overlap {
            report.example("overlap", &format!("{} ({other})", node.name));
        }
        for (node, taint) in &sorted.surplus {
            report.example("surplus", &format!("{} ({taint})", node.name));
        }
        for cell in &sorted.cells {
            match cell.standing {
                Some(Standing::Outdated) => {
                    report.outdated += 1;
                    if let Some(why) = cell.node.busy.filter(|_| cell.bucket.is_none() && report.postponed.len() < EXAMPLES) {
                        report.postponed.push((cell.node.name.to_string(), why.to_owned()));
                    }
                }
                Some(standing @ (Standing::Unknown | Standing::Unheard)) => {
                    report.version_unknown += 1;
                    report.unheard += usize::from(standing == Standing::Unheard);
                    report.example("versionUnknown", &cell.node.name);
                }
                Some(Standing::HeldBack) => {
                    report.held_back += 1;
                    report.example("heldBack", &cell.node.name);
                }
                Some(Standing::Current) if cell.bucket.is_none() => report.updated += 1,
                _ => {}
            }
            report.unplanned += usize::from(cell.unplanned);
            let Some(bucket) = cell.bucket else {
                report.running += 1;
                continue;
            };
            *report.buckets.entry(bucket).or_default() += 1;
            report.example(&bucket.to_string(), &cell.node.name);
            let joining = bucket == Bucket::Starting && !cell.counts;
            report.joining += usize::from(joining);
            report.lacking += usize::from(!joining && !matches!(bucket, Bucket::NodeNotReady | Bucket::NodeBusy));
            if cell.troubled && report.troubled.len() < EXAMPLES {
                report.troubled.push((cell.node.name.to_string(), cell.detail.clone()));
            }
        }
        report
    }

    fn example(&mut self, bucket: &str, name: &str) {
        let examples = self.examples.entry(bucket.to_owned()).or_default();
        if examples.len() < EXAMPLES {
            examples.push(name.to_owned());
        }
    }

    /// How many nodes are in a bucket.
    #[must_use]
    pub fn bucket(&self, bucket: Bucket) -> usize {
        self.buckets.get(&bucket).copied().unwrap_or_default()
    }
}
