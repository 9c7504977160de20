//! What must outlive a call: the engine's memory and this kind's, as one value in one field of the status.
//!
//! Pure. Statuses of 0.1.0 and 0.2.0 have it in fields of their own, which users read too: they are read once, and
//! written on. Nothing in a status is trusted to make sense: what does not read is as if it were not there. Must not
//! decide anything.

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::revision::{Adopted, Revision};
use crate::api::condition::timestamp;
use crate::api::name::Version;
use crate::api::oneagent::OneAgentStatus;
use crate::api::rollout::{FailureStatus, RolloutStatus};
use crate::rollout::{self, Failure, Phase, Touched};

/// What must outlive a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The engine's.
    pub rollout: rollout::Memory<Revision>,
    /// Versions that failed.
    pub rejected: Vec<Version>,
    /// What Pods of the original operator count as made from.
    pub adopted: Option<Adopted>,
    /// The version that was tried again because the user named it.
    pub retried: Option<Retried>,
    /// The version whose canaries a person promoted, and its template.
    pub promoted: Option<Promoted>,
    /// The newest version that an agent reported, where the DaemonSet is at an older one.
    pub reported: Option<Version>,
}

/// A version that was tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    pub version: Version,
    /// Since when: Pods of it that are older and do not run are created again.
    pub at: DateTime<Utc>,
}

/// A version whose canaries have soaked enough by a person's word. That word is about the template that they ran: the
/// field stays in the spec, and a later edit must prove itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    pub version: Version,
    /// Hash of the template; `None` before the version is desired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Memory {
    /// What is remembered once the user names a version whose canaries have soaked enough.
    #[must_use]
    pub fn promoting(&self, version: Option<Version>, desired: &Revision) -> Option<Promoted> {
        let version = version?;
        let known = self.promoted.clone().filter(|promoted| promoted.version == version);
        let promoted = known.unwrap_or(Promoted { version, hash: None });
        let hash = (desired.version == Some(version)).then(|| desired.hash.clone());
        Some(Promoted { hash: promoted.hash.or(hash), ..promoted })
    }

    /// Whether a person promoted what is desired.
    #[must_use]
    pub fn is_promoted(&self, desired: &Revision) -> bool {
        let of_it = |promoted: &Promoted| {
            Some(promoted.version) == desired.version && promoted.hash.as_ref() == Some(&desired.hash)
        };
        self.promoted.as_ref().is_some_and(of_it)
    }

    /// The version that was good last.
    #[must_use]
    pub fn last_good_version(&self) -> Option<Version> {
        self.rollout.last_good.as_ref().and_then(|good| good.version)
    }

    /// What is remembered once the user names a version to be tried again: no longer that it failed. Once for each time
    /// that it is named; if it fails again, that is final.
    #[must_use]
    pub fn retrying(&self, version: Option<Version>, now: DateTime<Utc>) -> Self {
        let known = self.retried.filter(|retried| Some(retried.version) == version);
        let retried = known.or(version.map(|version| Retried { version, at: now }));
        let mut memory = Self { retried, ..self.clone() };
        if version.is_none() || known.is_some() {
            return memory;
        }
        memory.rejected.retain(|rejected| Some(*rejected) != version);
        let of_it = |revision: &Revision| revision.version == version;
        memory.rollout.forgive(of_it);
        memory
    }

    /// What is remembered once the claim that a version failed is withdrawn.
    #[must_use]
    pub fn without_a_word(mut self, reject: Option<Version>) -> Self {
        let is_unsaid = |failure: &Failure<Revision>| failure.by_hand && failure.revision.version != reject;
        if let Some(failure) = self.rollout.failure.take_if(|failure| is_unsaid(failure)) {
            self.rejected.retain(|rejected| Some(*rejected) != failure.revision.version);
        }
        self
    }
}

/// Whether a status says that the API server refuses new Pods.
#[must_use]
pub fn says_refused(status: &OneAgentStatus) -> bool {
    status.nodes.as_ref().is_some_and(|nodes| nodes.admission > 0)
}

/// What outlived the last call.
#[must_use]
pub fn read(status: &OneAgentStatus) -> Memory {
    match status.rollout.as_ref().and_then(|rollout| rollout.memory.as_ref()) {
        Some(kept) => Memory {
            rollout: part(kept, "rollout"),
            rejected: part(kept, "rejected"),
            adopted: part(kept, "adopted"),
            retried: part(kept, "retried"),
            promoted: part(kept, "promoted"),
            reported: part(kept, "reported"),
        },
        None => read_fields(status),
    }
}

fn part<T: DeserializeOwned + Default>(kept: &Value, key: &str) -> T {
    T::deserialize(&kept[key]).unwrap_or_default()
}

/// As 0.1.0 and 0.2.0 kept it.
fn read_fields(status: &OneAgentStatus) -> Memory {
    let time = |text: Option<&String>| DateTime::parse_from_rfc3339(text?).ok().map(|time| time.to_utc());
    let version = |text: Option<&String>| text.and_then(|text| text.parse::<Version>().ok());
    let rollout = status.rollout.clone().unwrap_or_default();
    let (since, finished): (Option<DateTime<Utc>>, _) =
        (time(rollout.started_at.as_ref()), time(rollout.finished_at.as_ref()));
    let phase = match (since, finished) {
        (since, Some(at)) => Phase::Complete { since, at },
        (Some(since), None) if rollout.finished_at.is_none() => Phase::Rolling { since, stall: None },
        _ => Phase::Idle,
    };
    let began = if let Phase::Rolling { since, .. } = phase { Some(since) } else { None };
    Memory {
        rollout: rollout::Memory {
            phase,
            from: version(rollout.from.as_ref())
                .map(|version| Revision { version: Some(version), hash: String::new() }),
            last_good: rollout
                .last_good_hash
                .map(|hash| Revision { version: version(status.last_good_version.as_ref()), hash }),
            // What it rejected is in the list already.
            failure: rollout.failure.map(|failure| {
                let revision = Revision { version: version(failure.version.as_ref()), hash: failure.hash };
                Failure { places: failure.nodes, ..Failure::of(revision, failure.pinned, failure.message) }
            }),
            touched: Touched { since: began, joined_after: began, ..Touched::default() },
            ..rollout::Memory::default()
        },
        rejected: status.rejected_versions.iter().filter_map(|version| version.parse().ok()).collect(),
        adopted: status
            .adopted_template_hash
            .clone()
            .map(|hash| Adopted { hash, version: version(status.adopted_version.as_ref()) }),
        retried: None,
        promoted: None,
        reported: None,
    }
}

/// The part of it that is in the rollout's status: what users read, and the value as a whole.
pub fn write(memory: &Memory) -> Result<RolloutStatus, serde_json::Error> {
    let engines = &memory.rollout;
    let version = |revision: &Revision| revision.version.map(|version| version.to_string());
    let (started_at, finished_at) = engines.phase.span();
    let mut kept = json!({ "rollout": engines, "rejected": memory.rejected, "adopted": memory.adopted });
    if let Some(retried) = memory.retried {
        kept["retried"] = json!(retried);
    }
    if let Some(promoted) = &memory.promoted {
        kept["promoted"] = json!(promoted);
    }
    if let Some(reported) = memory.reported {
        kept["reported"] = json!(reported);
    }
    Ok(RolloutStatus {
        from: engines.from.as_ref().and_then(version),
        started_at: started_at.map(timestamp),
        finished_at: finished_at.map(timestamp),
        last_good_hash: engines.last_good.as_ref().map(|revision| revision.hash.clone()),
        failure: engines.failure.as_ref().map(|failure| FailureStatus {
            version: version(&failure.revision),
            hash: failure.revision.hash.clone(),
            pinned: failure.insisted,
            message: failure.message.clone(),
            nodes: failure.places.clone(),
        }),
        memory: (*memory != Memory::default()).then_some(kept),
        ..RolloutStatus::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000 + second, 0).unwrap()
    }

    fn revision(minor: u32) -> Revision {
        Revision { version: format!("1.{minor}.0.20250101-000000").parse().ok(), hash: "h".into() }
    }

    fn full() -> Memory {
        Memory {
            rollout: rollout::Memory {
                phase: Phase::Rolling { since: at(1), stall: None },
                from: Some(revision(1)),
                last_good: Some(revision(1)),
                failure: Some(Failure {
                    revision: revision(2),
                    rejects: true,
                    insisted: true,
                    message: "it failed".into(),
                    places: vec!["a".into()],
                    at: None,
                    only_lost: false,
                    by_hand: false,
                    earlier: Vec::new(),
                    workloads: Vec::new(),
                    whole_since: None,
                }),
                touched: Touched { since: Some(at(0)), joined_after: Some(at(1)), ..Touched::default() },
                ..rollout::Memory::default()
            },
            rejected: vec![revision(2).version.unwrap()],
            adopted: Some(Adopted { hash: "h".into(), version: revision(1).version }),
            retried: Some(Retried { version: revision(2).version.unwrap(), at: at(9) }),
            promoted: Some(Promoted { version: revision(2).version.unwrap(), hash: Some("h".into()) }),
            reported: revision(3).version,
        }
    }

    /// As a status is made of it, and as the API server stores that.
    fn stored(memory: &Memory) -> OneAgentStatus {
        let status = OneAgentStatus { rollout: Some(write(memory).unwrap()), ..OneAgentStatus::default() };
        serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap()
    }

    #[test]
    fn what_must_outlive_a_call_is_written_and_read_back() {
        assert_eq!(read(&stored(&full())), full());
        assert_eq!(read(&stored(&Memory::default())), Memory::default());
        assert_eq!(stored(&Memory::default()).rollout.unwrap().memory, None, "nothing to remember, nothing to write");
    }

    /// Statuses as those releases wrote them, in the middle of a rollout, after one, and after one that failed.
    #[test]
    fn statuses_of_both_releases_are_read_and_written_on() {
        let good = json!({ "lastGoodVersion": "1.1.0.20250101-000000", "rejectedVersions": ["1.2.0.20250101-000000"],
            "adoptedTemplateHash": "h", "adoptedVersion": "1.1.0.20250101-000000" });
        let rollout = |part: Value| {
            let mut status = good.clone();
            status["rollout"] = json!({ "state": "Rolling", "from": "1.1.0.20250101-000000", "lastGoodHash": "h",
                "budget": 2,
                "waitingOn": ["nodes a: the Pod is not created yet"] });
            for (key, value) in part.as_object().unwrap() {
                status["rollout"][key] = value.clone();
            }
            read(&serde_json::from_value(status).unwrap())
        };
        let (started, finished) = (timestamp(at(1)), timestamp(at(9)));
        let rolling = rollout(json!({ "startedAt": started }));
        assert_eq!(rolling.rollout.phase, Phase::Rolling { since: at(1), stall: None });
        assert_eq!((rolling.rollout.touched.since, rolling.rollout.touched.joined_after), (Some(at(1)), Some(at(1))));
        assert_eq!(
            (rolling.rollout.from.as_ref().and_then(|from| from.version), &rolling.rollout.last_good),
            (revision(1).version, &Some(revision(1)))
        );
        assert_eq!(
            (rolling.rejected.as_slice(), &rolling.adopted),
            ([revision(2).version.unwrap()].as_slice(), &full().adopted)
        );
        let complete = rollout(json!({ "startedAt": started, "finishedAt": finished }));
        assert_eq!(complete.rollout.phase, Phase::Complete { since: Some(at(1)), at: at(9) });
        assert_eq!(complete.rollout.touched, Touched::default());
        let failed = rollout(json!({ "failure": { "version": "1.2.0.20250101-000000", "hash": "h", "pinned": true,
                "message": "it failed" } }));
        let failure = failed.rollout.failure.as_ref().unwrap();
        assert_eq!((&failed.rollout.phase, &failure.revision, failure.insisted), (&Phase::Idle, &revision(2), true));
        // Written on, all of it comes from the one field; users go on to read the others.
        for memory in [rolling, complete, failed] {
            let status = stored(&memory);
            assert_eq!(
                read(&OneAgentStatus { last_good_version: None, rejected_versions: Vec::new(), ..status.clone() }),
                memory
            );
            let rollout = status.rollout.unwrap();
            assert_eq!(
                (rollout.from.as_deref(), rollout.last_good_hash.as_deref()),
                (Some("1.1.0.20250101-000000"), Some("h"))
            );
        }
    }

    #[test]
    fn a_status_full_of_nonsense_is_an_empty_memory() {
        for nonsense in [
            json!({ "rejectedVersions": ["x"], "lastGoodVersion": "y", "adoptedVersion": "z",
                "rollout": { "startedAt": "yesterday" } }),
            json!({ "rollout": { "memory": { "rollout": [], "rejected": {}, "adopted": 7 } } }),
            json!({ "rollout": { "memory": {} } }),
        ] {
            assert_eq!(read(&serde_json::from_value(nonsense).unwrap()), Memory::default());
        }
    }
}
