//! Which version the agents should have, and where that comes from.
//!
//! Pure: the user's wish, what the environment says, what runs. Must not know Pods or budgets.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::Snapshot;

use super::resolve::Wish;

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The version; `None` while none is known, and with a user's own installer address or image.
    pub version: Option<Version>,
    /// Whether any other is wrong.
    pub strict: bool,
    /// Whether running agents keep the version that they have.
    pub keeps_versions: bool,
    /// For the status.
    pub source: &'static str,
    /// Why the wish is not followed.
    pub problem: Option<(Reason, String)>,
    /// Whether the list of versions on offer is needed.
    pub needs_offered: bool,
    /// What a user should know of it.
    pub remark: Option<String>,
}

impl Choice {
    /// Whether there is something to roll out.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.version.is_some() || [USER_URL, IMAGE].contains(&self.source)
    }
}

/// Source of a version: the newest on offer.
pub const API: &str = "Api";
/// Source of a version: the user's own installer address.
const USER_URL: &str = "UserURL";
/// Source of a version: the user's own image.
const IMAGE: &str = "Image";

/// What the choice is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The environment, if it was ever reached.
    pub environment: Option<&'a Snapshot>,
    /// The version of the DaemonSet's template.
    pub running: Option<Version>,
    pub last_good: Option<Version>,
    /// Those that failed.
    pub rejected: &'a [Version],
    /// The newest that an agent of ours reports, where a change of the template waits to reach it.
    pub reported: Option<Version>,
    /// A version that was built later is not taken automatically.
    pub built_before: Option<DateTime<Utc>>,
    /// The versions are a list of what may be taken, not of what there is.
    pub is_list: bool,
    /// The newest that an agent of ours reported, where the template is at an older one.
    pub ahead: Option<Version>,
}

impl Facts<'_> {
    /// Whether Pods can be made of a version, as far as is known.
    fn is_offered(&self, version: Version) -> bool {
        let is_lacking = self.environment.is_some_and(|environment| environment.lacks(version));
        // A list need not name what agents have had all along; what it names no more is rolled out no further.
        !is_lacking || (self.is_list && self.last_good.is_none_or(|good| version <= good))
    }

    /// Whether a version is old enough to be taken automatically. One whose number holds no time is.
    fn is_old_enough(&self, version: Version) -> bool {
        self.built_before.zip(version.built_at()).is_none_or(|(before, built)| built <= before)
    }

    /// The newest that may be taken automatically: of those on offer, where the very newest is too young. Where no
    /// agent runs yet rather the oldest on offer than none.
    fn ripe(&self, latest: Option<Version>) -> Option<Version> {
        let Some(latest) = latest.filter(|version| !self.is_old_enough(*version)) else { return latest };
        let offered = self.environment.and_then(|environment| environment.offered.as_deref())?;
        let older = offered.iter().copied().filter(|version| *version < latest);
        let ripe =
            older.clone().filter(|version| self.is_old_enough(*version) && !self.rejected.contains(version)).max();
        ripe.or(older.min().or(Some(latest)).filter(|_| self.running.is_none()))
    }

    /// What the template has, unless it can no longer be downloaded: then the newest that can, for Pods that are
    /// created again.
    fn running_or_offered(&self) -> Option<Version> {
        let offered = self.environment.and_then(|environment| environment.offered.as_deref()).into_iter().flatten();
        let newest = offered.copied().find(|version| !self.rejected.contains(version) && self.is_old_enough(*version));
        self.running.filter(|running| self.is_offered(*running)).or(newest).or(self.running)
    }
}

/// Chooses. Precedence: the user's own image or address, a pin, `agentVersion`, the newest.
#[must_use]
pub fn choose(wish: Wish, frozen: bool, facts: Facts<'_>) -> Choice {
    let offered = facts.environment.and_then(|e| e.offered.as_deref());
    let mut choice = match wish {
        Wish::UserUrl => return Choice { source: USER_URL, ..Choice::default() },
        Wish::Image { version, .. } => {
            return Choice { version, strict: version.is_some(), source: IMAGE, ..Choice::default() };
        }
        Wish::Pin { version, allow_downgrade } => pin(version, allow_downgrade, facts, offered),
        _ if frozen && facts.running.is_some() => {
            let is_listed = |version: &Version| offered.is_some_and(|offered| offered.contains(version));
            let reported = facts.reported.filter(|version| facts.is_offered(*version));
            let reported = reported.or(facts.ahead.filter(|ahead| facts.is_list && is_listed(ahead)));
            Choice { version: facts.running_or_offered().max(reported), source: "Frozen", ..Choice::default() }
        }
        Wish::AgentVersion(wish) => {
            let candidate = offered.and_then(|versions| versions.iter().find(|v| wish.admits(v)).copied());
            let missing = offered.is_some() && candidate.is_none() && !facts.running.is_some_and(|v| wish.admits(&v));
            let problem = missing.then(|| {
                (
                    Reason::VersionNotOffered,
                    format!(
                        "no version that the environment offers matches spec.agentVersion; it offers {}",
                        listing(offered)
                    ),
                )
            });
            // The original ignored this field, so it never moves an agent backwards.
            Choice {
                version: candidate.max(facts.running),
                source: "AgentVersion",
                problem,
                needs_offered: true,
                ..Choice::default()
            }
        }
        Wish::Newest => {
            let newest = facts.environment.and_then(|e| e.latest);
            let latest = facts.ripe(newest);
            let good = latest.filter(|version| !facts.rejected.contains(version) && facts.is_offered(*version));
            let good = good.or(facts.last_good.filter(|good| newest.is_some() && facts.is_offered(*good)));
            let good = if facts.is_list { good.max(facts.last_good) } else { good };
            Choice {
                version: good.max(facts.running_or_offered()),
                source: if frozen { "Frozen" } else { API },
                needs_offered: facts.built_before.is_some(),
                remark: newest.filter(|newest| !facts.is_old_enough(*newest)).map(|newest| {
                    format!("the newest version {newest} is younger than spec.update.minimumAge and is not taken yet")
                }),
                ..Choice::default()
            }
        }
    };
    choice.keeps_versions = frozen && !choice.strict;
    choice
}

fn pin(version: Version, allow_downgrade: bool, facts: Facts<'_>, offered: Option<&Vec<Version>>) -> Choice {
    let running = facts.running;
    let choice =
        Choice { version: Some(version), strict: true, source: "Pin", needs_offered: true, ..Choice::default() };
    let stay = |problem| Choice { version: running, strict: false, problem, ..choice.clone() };
    if running == Some(version) {
        return choice;
    }
    match offered {
        None => stay(None),
        Some(versions) if !versions.contains(&version) => stay(Some((
            Reason::VersionNotOffered,
            format!(
                "spec.update.version is {version}, which the environment does not offer; it offers {}",
                listing(offered)
            ),
        ))),
        Some(_) if !allow_downgrade && running.max(facts.ahead) > Some(version) => stay(Some((
            Reason::DowngradeNotAllowed,
            format!(
                "spec.update.version is {version} and agents run a newer version; the vendor does not support \
                downgrades: set spec.update.allowDowngrade to true to try, or pin a newer version"
            ),
        ))),
        Some(_) => choice,
    }
}

/// Why the user's image is not rolled out: its tag is an older version than the one that runs.
#[must_use]
pub fn older_image(wish: Wish, running: Option<Version>, last_good: Option<Version>) -> Option<(Reason, String)> {
    let Wish::Image { version: Some(version), allow_downgrade: false } = wish else { return None };
    let running = running.filter(|running| *running > version && last_good != Some(version))?;
    Some((
        Reason::DowngradeNotAllowed,
        format!(
            "the agent's image is of version {version} and the DaemonSet is at {running}; the vendor does not support \
            downgrades: set spec.update.allowDowngrade to true to try, or name a newer one"
        ),
    ))
}

fn listing(offered: Option<&Vec<Version>>) -> String {
    match offered.map(Vec::as_slice) {
        None | Some([]) => "none".to_owned(),
        Some(versions) => {
            let first: Vec<String> = versions.iter().take(5).map(ToString::to_string).collect();
            let more = versions.len().saturating_sub(first.len());
            if more > 0 { format!("{} and {more} older", first.join(", ")) } else { first.join(", ") }
        }
    }
}

/// Whether versions that Pods would download when they restart are gone from the environment.
#[must_use]
pub fn withdrawn(environment: Option<&Snapshot>, running: impl Iterator<Item = Version>) -> Option<String> {
    let environment = environment?;
    let mut agents: BTreeMap<Version, usize> = BTreeMap::new();
    for version in running.filter(|version| environment.lacks(*version)) {
        *agents.entry(version).or_default() += 1;
    }
    if agents.is_empty() {
        return None;
    }
    let versions: Vec<String> =
        agents.iter().map(|(version, count)| format!("{version} (Pods of {count} nodes)")).collect();
    Some(format!(
        "version {} is no longer offered by the environment: a Pod of it that restarts cannot download it; it \
        offers {}",
        versions.join(", "),
        listing(environment.offered.as_deref())
    ))
}
