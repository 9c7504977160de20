//! Which version the agents shall have, and where that comes from.
//!
//! Pure: the user's wish, what the environment says, what runs. Must not know Pods or budgets.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::dynatrace::Snapshot;

use super::resolve::Wish;

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The version; `None` while nobody knows one, and with a user's own installer address or image.
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
    /// What somebody should know of it.
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
    /// A version that was built later is not taken by itself.
    pub built_before: Option<DateTime<Utc>>,
}

impl Facts<'_> {
    /// Whether Pods can be made of a version, as far as is known.
    fn is_offered(&self, version: Version) -> bool {
        !self.environment.is_some_and(|environment| environment.lacks(version))
    }

    /// Whether a version is old enough to be taken by itself. One whose number holds no time is.
    fn is_ripe(&self, version: Version) -> bool {
        self.built_before.zip(version.built_at()).is_none_or(|(before, built)| built <= before)
    }

    /// The newest that may be taken by itself: of those on offer, where the very newest is too young. Where no agent
    /// runs yet rather the oldest on offer than none.
    fn ripe(&self, latest: Option<Version>) -> Option<Version> {
        let Some(latest) = latest.filter(|version| !self.is_ripe(*version)) else { return latest };
        let offered = self.environment.and_then(|environment| environment.offered.as_deref())?;
        let older = offered.iter().copied().filter(|version| *version < latest);
        let ripe = older.clone().filter(|version| self.is_ripe(*version) && !self.rejected.contains(version)).max();
        ripe.or(older.min().or(Some(latest)).filter(|_| self.running.is_none()))
    }

    /// What the template has, unless it can no longer be downloaded: then the newest that can, for Pods that are made
    /// anew.
    fn running_or_offered(&self) -> Option<Version> {
        let offered = self.environment.and_then(|environment| environment.offered.as_deref()).into_iter().flatten();
        let newest = offered.copied().find(|version| !self.rejected.contains(version) && self.is_ripe(*version));
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
        Wish::Pin { version, allow_downgrade } => pin(version, allow_downgrade, facts.running, offered),
        _ if frozen && facts.running.is_some() => {
            let reported = facts.reported.filter(|version| facts.is_offered(*version));
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
            Choice {
                version: good.max(facts.running_or_offered()),
                source: if frozen { "Frozen" } else { API },
                needs_offered: facts.built_before.is_some(),
                remark: newest.filter(|newest| !facts.is_ripe(*newest)).map(|newest| {
                    format!("the newest version {newest} is younger than spec.update.minimumAge and is not taken yet")
                }),
                ..Choice::default()
            }
        }
    };
    choice.keeps_versions = frozen && !choice.strict;
    choice
}

fn pin(version: Version, allow_downgrade: bool, running: Option<Version>, offered: Option<&Vec<Version>>) -> Choice {
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
        Some(_) if !allow_downgrade && running.is_some_and(|running| running > version) => stay(Some((
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn v(minor: u32) -> Version {
        Version { major: 1, minor, revision: 0, day: 20_250_101, time: 0 }
    }

    fn snapshot(latest: u32, offered: &[u32]) -> Snapshot {
        Snapshot {
            latest: Some(v(latest)),
            offered: Some(Arc::new(offered.iter().map(|m| v(*m)).collect())),
            ..Snapshot::default()
        }
    }

    fn facts(environment: &Snapshot, running: Option<u32>) -> Facts<'_> {
        Facts {
            environment: Some(environment),
            running: running.map(v),
            last_good: None,
            rejected: &[],
            reported: None,
            built_before: None,
        }
    }

    #[test]
    fn a_version_is_taken_by_itself_once_it_is_old_enough() {
        let of = |minor: u32, day: u32| Version { day, ..v(minor) };
        let versions = [of(6, 20_260_110), of(5, 20_260_105), of(4, 20_260_101)];
        let environment =
            Snapshot { latest: Some(versions[0]), offered: Some(Arc::new(versions.to_vec())), ..Snapshot::default() };
        let chosen = |running: Option<Version>, day: &str, rejected: &[Version]| {
            let built_before = Some(format!("2026-01-{day}T00:00:00Z").parse().unwrap());
            let facts = Facts { running, rejected, built_before, ..facts(&environment, None) };
            let choice = choose(Wish::Newest, false, facts);
            (choice.version.map(|version| version.minor), choice.remark.is_some())
        };
        let running = Some(versions[2]);
        assert_eq!(chosen(running, "09", &[]), (Some(5), true), "the newest is too young, and that is said");
        assert_eq!(chosen(running, "11", &[]), (Some(6), false));
        assert_eq!(chosen(running, "03", &[]), (Some(4), true));
        assert_eq!(chosen(running, "09", &versions[1..2]), (Some(4), true), "one that failed is not taken instead");
        assert_eq!(chosen(Some(versions[0]), "03", &[]), (Some(6), true), "nothing goes backwards");
        assert_eq!(chosen(None, "09", &[]), (Some(5), true));
        let first = (
            chosen(None, "31", &[]).0,
            choose(
                Wish::Newest,
                false,
                Facts { built_before: Some("2025-01-01T00:00:00Z".parse().unwrap()), ..facts(&environment, None) },
            )
            .version,
        );
        assert_eq!(first, (Some(6), Some(versions[2])), "rather the oldest than no agent");
        let pin = Wish::Pin { version: versions[0], allow_downgrade: false };
        let early = Some("2025-01-01T00:00:00Z".parse().unwrap());
        let pinned = choose(pin, false, Facts { running, built_before: early, ..facts(&environment, None) });
        assert_eq!(pinned.version, Some(versions[0]), "a pin is somebody's word");
    }

    #[test]
    fn the_newest_is_taken_and_nothing_ever_goes_backwards_by_itself() {
        let environment = snapshot(5, &[6, 5, 4]);
        assert_eq!(choose(Wish::Newest, false, facts(&environment, Some(4))).version, Some(v(5)));
        assert_eq!(choose(Wish::Newest, false, facts(&environment, Some(6))).version, Some(v(6)));
        assert_eq!(
            choose(Wish::AgentVersion("1.4.0".parse().unwrap()), false, facts(&environment, Some(5))).version,
            Some(v(5))
        );
        assert_eq!(
            choose(Wish::AgentVersion("1.4.0".parse().unwrap()), false, facts(&environment, None)).version,
            Some(v(4))
        );
    }

    #[test]
    fn pods_that_are_made_anew_get_what_is_offered_where_the_running_version_is_not() {
        let recalled = snapshot(5, &[4, 3]);
        for frozen in [false, true] {
            let choice = choose(Wish::Newest, frozen, facts(&recalled, Some(5)));
            assert_eq!((choice.version, choice.strict, choice.keeps_versions), (Some(v(4)), false, frozen));
        }
        let unknown = Snapshot { offered: None, ..recalled };
        assert_eq!(
            choose(Wish::Newest, true, facts(&unknown, Some(5))).version,
            Some(v(5)),
            "nobody said that it is gone"
        );
        let empty = snapshot(5, &[]);
        assert_eq!(choose(Wish::Newest, true, facts(&empty, Some(5))).version, Some(v(5)), "an empty list is no list");
        // An edit reaches agents that updated themselves at what they are.
        let environment = snapshot(6, &[6, 5]);
        let edited = Facts { reported: Some(v(6)), ..facts(&environment, Some(5)) };
        assert_eq!(choose(Wish::Newest, true, edited).version, Some(v(6)));
    }

    #[test]
    fn a_version_that_failed_is_not_offered_again_until_a_newer_one_appears() {
        let environment = snapshot(5, &[]);
        let rejected = [v(5)];
        let facts = Facts {
            environment: Some(&environment),
            running: Some(v(4)),
            last_good: Some(v(4)),
            rejected: &rejected,
            reported: None,
            built_before: None,
        };
        assert_eq!(choose(Wish::Newest, false, facts).version, Some(v(4)));
        let newer = snapshot(6, &[]);
        assert_eq!(choose(Wish::Newest, false, Facts { environment: Some(&newer), ..facts }).version, Some(v(6)));
    }

    #[test]
    fn a_pin_is_strict_and_checked_before_anything_is_touched() {
        let environment = snapshot(5, &[5, 4, 3]);
        let pin = |minor, allow_downgrade| Wish::Pin { version: v(minor), allow_downgrade };
        let chosen = choose(pin(5, false), false, facts(&environment, Some(4)));
        assert!(chosen.strict && chosen.version == Some(v(5)) && chosen.problem.is_none());
        let refused = choose(pin(3, false), false, facts(&environment, Some(4)));
        assert_eq!((refused.version, refused.problem.unwrap().0), (Some(v(4)), Reason::DowngradeNotAllowed));
        assert_eq!(choose(pin(3, true), false, facts(&environment, Some(4))).version, Some(v(3)));
        let unknown = choose(pin(9, false), false, facts(&environment, Some(4)));
        assert_eq!((unknown.version, unknown.problem.unwrap().0), (Some(v(4)), Reason::VersionNotOffered));
        let unreached = choose(
            pin(5, false),
            false,
            Facts {
                environment: None,
                running: None,
                last_good: None,
                rejected: &[],
                reported: None,
                built_before: None,
            },
        );
        assert!(!unreached.is_known() && unreached.problem.is_none());
    }

    #[test]
    fn an_image_goes_back_only_where_that_is_allowed() {
        let image = |minor, allow_downgrade| Wish::Image { version: Some(v(minor)), allow_downgrade };
        assert_eq!(older_image(image(3, false), Some(v(4)), Some(v(4))).unwrap().0, Reason::DowngradeNotAllowed);
        let (three, four) = (Some(v(3)), Some(v(4)));
        for fine in [
            older_image(image(3, true), four, four),
            older_image(image(4, false), four, four),
            older_image(image(3, false), None, None),
        ] {
            assert!(fine.is_none());
        }
        assert!(
            older_image(image(3, false), four, three).is_none(),
            "4 was never rolled out: taking it back is no downgrade"
        );
    }

    #[test]
    fn frozen_stays_where_it_is_but_a_first_install_needs_some_version() {
        let environment = snapshot(5, &[]);
        assert_eq!(choose(Wish::Newest, true, facts(&environment, Some(4))).version, Some(v(4)));
        assert_eq!(choose(Wish::Newest, true, facts(&environment, None)).version, Some(v(5)));
    }

    #[test]
    fn a_running_version_that_is_no_longer_offered_is_noticed() {
        assert!(withdrawn(Some(&snapshot(5, &[5])), [v(4), v(4)].into_iter()).is_some());
        assert!(withdrawn(Some(&snapshot(5, &[5, 4])), [v(4), v(4)].into_iter()).is_none());
        assert!(withdrawn(None, [v(4), v(4)].into_iter()).is_none());
    }
}
