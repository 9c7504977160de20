//! What must outlive a call, between the engine's type and the status that keeps it.
//!
//! Pure. Nothing that stands in a status is trusted to make sense: what does not read is as if it were not there. Must not
//! decide anything.

use chrono::{DateTime, Utc};

use crate::api::condition::timestamp;
use crate::api::name::Version;
use crate::api::oneagent::OneAgentStatus;
use crate::api::rollout::{AwayNode, FailureStatus, RolloutMemory, RolloutStatus, StuckStatus, WithdrawnStatus};
use crate::rollout::{Failure, Memory, Revision, Stuck, StuckPhase};

const PHASES: [(StuckPhase, &str); 3] = [(StuckPhase::Waiting, "Waiting"), (StuckPhase::Back, "Back"), (StuckPhase::Trial, "Trial")];

fn version(text: Option<&String>) -> Option<Version> {
    text.and_then(|text| text.parse().ok())
}

fn time(text: Option<&String>) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text?).ok().map(|time| time.to_utc())
}

/// What outlived the last call. Statuses of 0.1.0 and 0.2.0 have fewer fields.
#[must_use]
pub fn read(status: &OneAgentStatus) -> Memory {
    let rollout = status.rollout.clone().unwrap_or_default();
    let kept = rollout.memory.unwrap_or_default();
    let started = time(rollout.started_at.as_ref()).filter(|_| rollout.finished_at.is_none());
    let stuck = |stuck: &StuckStatus| {
        let phase = PHASES.iter().find(|(_, name)| *name == stuck.phase)?.0;
        let revision = Revision { version: version(stuck.version.as_ref()), hash: stuck.hash.clone() };
        Some(Stuck { revision, phase, since: time(Some(&stuck.since))?, tries: stuck.tries })
    };
    Memory {
        started,
        touched_since: time(kept.touched_since.as_ref()).or(started),
        joined_after: time(kept.joined_after.as_ref()).or(started),
        finished: time(rollout.finished_at.as_ref()),
        from: version(rollout.from.as_ref()),
        last_good: rollout.last_good_hash.map(|hash| Revision { version: version(status.last_good_version.as_ref()), hash }),
        failure: rollout.failure.map(|failure| Failure {
            revision: Revision { version: version(failure.version.as_ref()), hash: failure.hash },
            strict: failure.pinned,
            message: failure.message,
            nodes: failure.nodes,
        }),
        rejected: status.rejected_versions.iter().filter_map(|version| version.parse().ok()).collect(),
        adopted_hash: status.adopted_template_hash.clone(),
        adopted_version: version(status.adopted_version.as_ref()),
        away: kept.away.into_iter().map(|node| (node.name, time(node.gone_since.as_ref()))).collect(),
        broken: kept.broken_before.into_iter().collect(),
        flapping: kept.flapping_before.into_iter().collect(),
        stuck: kept.stuck.as_ref().and_then(stuck),
        outage: time(kept.outage_since.as_ref()).map(|since| (since, time(kept.outage_until.as_ref()))),
        withdrawn: kept.withdrawn.map(|of| (Revision { version: version(of.version.as_ref()), hash: of.hash }, of.times)),
    }
}

/// The part of it that stands in the rollout's status; the rest is [`OneAgentStatus`]' own.
#[must_use]
pub fn write(memory: &Memory, before: Option<&RolloutStatus>) -> RolloutStatus {
    let text = |version: Option<Version>| version.map(|version| version.to_string());
    let kept = RolloutMemory {
        touched_since: memory.touched_since.map(timestamp),
        joined_after: memory.joined_after.map(timestamp),
        away: memory.away.iter().map(|(name, gone)| AwayNode { name: name.clone(), gone_since: gone.map(timestamp) }).collect(),
        broken_before: memory.broken.iter().cloned().collect(),
        flapping_before: memory.flapping.iter().cloned().collect(),
        stuck: memory.stuck.as_ref().map(|stuck| StuckStatus {
            version: text(stuck.revision.version),
            hash: stuck.revision.hash.clone(),
            phase: PHASES.iter().find(|(phase, _)| *phase == stuck.phase).map(|(_, name)| (*name).to_owned()).unwrap_or_default(),
            since: timestamp(stuck.since),
            tries: stuck.tries,
        }),
        outage_since: memory.outage.map(|(since, _)| timestamp(since)),
        outage_until: memory.outage.and_then(|(_, until)| until).map(timestamp),
        withdrawn: memory.withdrawn.as_ref().map(|(revision, times)| WithdrawnStatus {
            version: text(revision.version),
            hash: revision.hash.clone(),
            times: *times,
        }),
    };
    RolloutStatus {
        from: text(memory.from),
        started_at: memory.started.map(timestamp).or_else(|| before.and_then(|b| b.started_at.clone()).filter(|_| memory.finished.is_some())),
        finished_at: memory.finished.map(timestamp),
        last_good_hash: memory.last_good.as_ref().map(|revision| revision.hash.clone()),
        failure: memory.failure.as_ref().map(|failure| FailureStatus {
            version: text(failure.revision.version),
            hash: failure.revision.hash.clone(),
            pinned: failure.strict,
            message: failure.message.clone(),
            nodes: failure.nodes.clone(),
        }),
        memory: (kept != RolloutMemory::default()).then_some(kept),
        ..RolloutStatus::default()
    }
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
            started: Some(at(1)),
            touched_since: Some(at(0)),
            joined_after: Some(at(1)),
            finished: None,
            from: revision(1).version,
            last_good: Some(revision(1)),
            failure: Some(Failure { revision: revision(2), strict: true, message: "it failed".into(), nodes: vec!["a".into()] }),
            rejected: vec![revision(2).version.unwrap()],
            adopted_hash: Some("h".into()),
            adopted_version: revision(1).version,
            away: [("a".to_owned(), None), ("b".to_owned(), Some(at(3)))].into(),
            broken: ["c".to_owned()].into(),
            flapping: ["d".to_owned()].into(),
            stuck: Some(Stuck { revision: revision(2), phase: StuckPhase::Trial, since: at(4), tries: 2 }),
            outage: Some((at(5), Some(at(6)))),
            withdrawn: Some((revision(2), 1)),
        }
    }

    /// As a status is made of it, and as the API server stores that.
    fn stored(memory: &Memory) -> OneAgentStatus {
        let status = OneAgentStatus {
            last_good_version: memory.last_good.as_ref().and_then(|r| r.version).map(|v| v.to_string()),
            rejected_versions: memory.rejected.iter().map(ToString::to_string).collect(),
            adopted_template_hash: memory.adopted_hash.clone(),
            adopted_version: memory.adopted_version.map(|v| v.to_string()),
            rollout: Some(write(memory, None)),
            ..OneAgentStatus::default()
        };
        serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap()
    }

    #[test]
    fn what_must_outlive_a_call_is_written_and_read_back() {
        assert_eq!(read(&stored(&full())), full());
        let ended = Memory { started: None, finished: Some(at(9)), ..full() };
        assert_eq!(read(&stored(&ended)), ended);
        assert_eq!(read(&stored(&Memory::default())), Memory::default());
        assert_eq!(stored(&Memory::default()).rollout.unwrap().memory, None, "nothing to remember, nothing to write");
    }

    #[test]
    fn a_status_of_an_earlier_release_reads_as_far_as_it_goes() {
        let old = serde_json::json!({ "lastGoodVersion": "1.1.0.20250101-000000", "rollout": { "state": "Rolling", "startedAt": timestamp(at(1)), "lastGoodHash": "h" } });
        let memory = read(&serde_json::from_value(old).unwrap());
        assert_eq!((memory.started, memory.touched_since, memory.last_good), (Some(at(1)), Some(at(1)), Some(revision(1))));
    }

    #[test]
    fn a_status_full_of_nonsense_is_an_empty_memory() {
        let nonsense = serde_json::json!({
            "rejectedVersions": ["x"], "lastGoodVersion": "y", "adoptedVersion": "z",
            "rollout": { "startedAt": "yesterday", "memory": { "touchedSince": "then", "stuck": { "phase": "Deeply", "since": "ever" }, "outageSince": "once" } },
        });
        assert_eq!(read(&serde_json::from_value(nonsense).unwrap()), Memory::default());
    }
}
