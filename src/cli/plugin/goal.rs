//! What a wait waits for, whether it has come, and how long a stop must last before it gives up: a verdict can be
//! withdrawn, and what failed before the wait is no news.
//!
//! Pure: it is handed the time. Must not judge a rollout: it repeats what the status says.

use std::time::Duration;

use super::managed::Managed;
use super::object::Object;

/// What is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Goal {
    /// The rollout is complete, and every node is Ready.
    #[default]
    Done,
    /// The canaries have passed with the desired version or revision.
    Canaries,
    /// No Pod is replaced: the rollout is paused, or stopped.
    Paused,
}

impl Goal {
    pub(super) fn said(self) -> &'static str {
        match self {
            Self::Done => "the end of the rollout",
            Self::Canaries => "the end of the canaries",
            Self::Paused => "a pause",
        }
    }
}

/// A wait.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) goal: Goal,
    pub(super) version: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) fail_fast: bool,
}

/// The state of what is waited for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Reached,
    /// It stops until a person acts.
    Stopped,
    Goes,
}

pub(super) fn judge(wait: &Wait, object: &Object) -> Verdict {
    if !object.is_observed() {
        return Verdict::Goes;
    }
    let state = object.state();
    // What is complete stays so under a stop; its condition alone says that nothing follows.
    let is_quiet = object.condition("Progressing").is_some_and(|progressing| progressing.reason == "Stopped");
    let is_held = is_quiet || matches!(state.as_str(), "Paused" | "Stopped");
    let is_wanted = wait.version.as_ref().is_none_or(|wanted| object.to().is_some_and(|to| to.starts_with(wanted)));
    let has_come = match wait.goal {
        Goal::Done => is_wanted && object.is_settled() && state == "Complete" && object.degraded().is_none(),
        Goal::Canaries => is_wanted && object.canaries() == Some(true),
        // What has failed is paused, too, once that is asked for.
        Goal::Paused => is_held || object.spec()["rollout"]["paused"] == true,
    };
    // A rollout continues beside Pods that are unavailable, until the operator rejects what it rolls out.
    let is_moving = matches!(state.as_str(), "Rolling" | "Waiting");
    let must_act = object.degraded().is_some_and(|degraded| !is_moving || degraded.reason != "AgentsUnavailable");
    let is_stopped = is_held || matches!(state.as_str(), "Failed" | "RolledBack") || must_act;
    match (has_come, is_stopped) {
        (true, _) => Verdict::Reached,
        (false, true) => Verdict::Stopped,
        (false, false) => Verdict::Goes,
    }
}

/// The same stop, as long as this is the same.
type Stop = (String, Option<String>, String);

/// What a stop is known by.
fn stop(object: &Object) -> Stop {
    let rollout = object.rollout();
    let failure = rollout.failure.map(|failure| failure.message);
    let said = failure.or_else(|| object.degraded().map(|degraded| degraded.reason.clone()));
    (rollout.state, rollout.started_at, said.unwrap_or_default())
}

/// The patience of a wait with what stops.
pub(super) struct Patience {
    /// The stop from before the wait, until it has gone: it ends no wait.
    before: Option<Stop>,
    /// The one that there is now, and since when.
    now: Option<(Duration, Stop)>,
}

impl Patience {
    /// At the beginning of a wait.
    pub(super) fn of(wait: &Wait, object: &Object) -> Self {
        Self { before: (judge(wait, object) == Verdict::Stopped).then(|| stop(object)), now: None }
    }

    /// Takes note of how an object is at a time since the wait began; returns when patience ends if that stays so.
    pub(super) fn ends(&mut self, wait: &Wait, object: &Object, at: Duration) -> Option<Duration> {
        let (is_stopped, known) = (judge(wait, object) == Verdict::Stopped, stop(object));
        if !is_stopped || self.before.as_ref().is_some_and(|before| *before != known) {
            self.before = None;
        }
        let counts = is_stopped && self.before.is_none();
        // Another stop has its time from the start.
        let same = self.now.take().filter(|(_, of)| counts && *of == known);
        self.now = same.or(counts.then_some((at, known)));
        let patience = Duration::from_secs(if wait.fail_fast { 0 } else { object.wait_ready_seconds() });
        self.now.as_ref().map(|(since, _)| *since + patience)
    }
}

/// Whether a version or revision of the object may begin so.
pub(super) fn may_begin(object: &Object, version: &str) -> Result<(), String> {
    let is_one = match object.kind {
        Managed::Oneagent => version.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-')),
        Managed::Daemonsetrollout => version.chars().all(|c| c.is_ascii_alphanumeric()),
        Managed::Configwatcher => false,
    };
    let such = match object.kind {
        Managed::Oneagent => "write the beginning of one, such as 1.301.72",
        Managed::Daemonsetrollout => "write the beginning of a hash, as status.daemonSet.revision has it",
        Managed::Configwatcher => "a ConfigWatcher has none",
    };
    if is_one && !version.is_empty() {
        return Ok(());
    }
    Err(format!("--version: {version:?} begins no {} of {}: {such}", object.kind.revision(), object.who()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(state: &str, status: &Value) -> Object {
        let mut whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "a", "namespace": "n", "generation": 2 },
            "spec": { "rollout": { "canary": {} }, "waitReadySeconds": 60 },
            "status": { "observedGeneration": 2, "desiredVersion": "1.301.72.20250601-101010",
                "rollout": { "state": state, "startedAt": "2026-01-01T00:00:00Z" },
                "conditions": [{ "type": "Ready", "status": "True" }] } });
        for (key, value) in status.as_object().unwrap() {
            whole["status"][key] = value.clone();
        }
        Object::of(Managed::Oneagent, serde_json::from_value(whole).unwrap())
    }

    fn wait(goal: Goal, version: Option<&str>) -> Wait {
        Wait { goal, version: version.map(str::to_owned), timeout: None, fail_fast: false }
    }

    #[test]
    fn what_is_waited_for_has_come_when_the_status_of_the_last_edit_says_so() {
        let done = |version: Option<&str>, object: &Object| judge(&wait(Goal::Done, version), object);
        assert_eq!(done(None, &object("Complete", &json!({}))), Verdict::Reached);
        assert_eq!(done(None, &object("Complete", &json!({ "observedGeneration": 1 }))), Verdict::Goes, "an edit");
        assert_eq!(done(Some("1.301"), &object("Complete", &json!({}))), Verdict::Reached);
        assert_eq!(done(Some("1.302"), &object("Complete", &json!({}))), Verdict::Goes, "another version");
        let unready = json!({ "conditions": [{ "type": "Ready", "status": "False" }] });
        assert_eq!(done(None, &object("Complete", &unready)), Verdict::Goes);
        let waits = json!({ "conditions": [{ "type": "Ready", "status": "False", "reason": "Outdated" }] });
        assert_eq!(done(None, &object("Complete", &waits)), Verdict::Reached, "a cordoned node keeps its Pod");
        let waits = json!({ "conditions": waits["conditions"], "nodes": { "heldBack": 1 } });
        assert_eq!(done(None, &object("Complete", &waits)), Verdict::Goes, "an edit does not reach it");
        let goes = json!({ "conditions": [{ "type": "Ready", "status": "True" },
            { "type": "Progressing", "status": "True", "reason": "Starting" }] });
        assert_eq!(done(None, &object("Complete", &goes)), Verdict::Goes, "a node joined");
        assert_eq!(done(None, &object("Rolling", &json!({}))), Verdict::Goes);
        for state in ["Failed", "RolledBack", "Paused", "Stopped"] {
            assert_eq!(done(None, &object(state, &json!({}))), Verdict::Stopped, "{state}");
        }
        let both = json!([{ "type": "Ready", "status": "True" },
            { "type": "Degraded", "status": "True", "reason": "VersionNotOffered" }]);
        let unmet = object("Complete", &json!({ "conditions": both }));
        assert_eq!(done(None, &unmet), Verdict::Stopped, "somebody must act");
        let degraded = json!({ "conditions": [{ "type": "Degraded", "status": "True", "reason": "PodsRefused" }] });
        assert_eq!(done(None, &object("Rolling", &degraded)), Verdict::Stopped, "somebody must act");
        let down = json!({ "conditions": [{ "type": "Degraded", "status": "True", "reason": "AgentsUnavailable" }] });
        assert_eq!(done(None, &object("Rolling", &down)), Verdict::Goes, "the operator has rejected nothing");
        assert_eq!(done(None, &object("Complete", &down)), Verdict::Stopped);
        let quiet = json!({ "conditions": [{ "type": "Progressing", "status": "False", "reason": "Stopped" }] });
        assert_eq!(judge(&wait(Goal::Paused, None), &object("Complete", &quiet)), Verdict::Reached, "a stop of all");
        assert_eq!(judge(&wait(Goal::Paused, None), &object("Paused", &json!({}))), Verdict::Reached);
        assert_eq!(judge(&wait(Goal::Paused, None), &object("Rolling", &json!({}))), Verdict::Goes);
    }

    #[test]
    fn what_begins_no_version_is_refused() {
        let object = object("Rolling", &json!({}));
        assert_eq!(may_begin(&object, "1.301"), Ok(()));
        for wrong in ["abc", "", "v1.301", "1.301 "] {
            assert!(may_begin(&object, wrong).unwrap_err().contains("such as 1.301.72"), "{wrong:?}");
        }
    }

    #[test]
    fn canaries_have_proven_it_once_the_memory_says_so() {
        let canaries = |rollout: Value| judge(&wait(Goal::Canaries, None), &object("", &json!({ "rollout": rollout })));
        let proof =
            |passed: bool| json!({ "state": "Rolling", "memory": { "rollout": { "proof": { "passed": passed } } } });
        assert_eq!(canaries(proof(false)), Verdict::Goes);
        assert_eq!(canaries(proof(true)), Verdict::Reached);
        assert_eq!(canaries(json!({ "state": "Complete" })), Verdict::Reached);
        assert_eq!(canaries(json!({ "state": "Failed" })), Verdict::Stopped);
    }

    fn failed(at: &str, message: &str) -> Object {
        let failure = json!({ "hash": "h", "pinned": false, "message": message, "nodes": [] });
        object("", &json!({ "rollout": { "state": "Failed", "startedAt": at, "failure": failure } }))
    }

    /// When a wait for the end gives up, in seconds since it began, after each of what it sees at some second.
    fn gives_up(fail_fast: bool, first: &Object, seen: &[(u64, Object)]) -> Vec<Option<u64>> {
        let wait = Wait { fail_fast, ..wait(Goal::Done, None) };
        let mut patience = Patience::of(&wait, first);
        let mut ends = |at: u64, object: &Object| patience.ends(&wait, object, Duration::from_secs(at));
        seen.iter().map(|(at, object)| ends(*at, object).map(|after| after.as_secs())).collect()
    }

    #[test]
    fn a_stop_must_last_as_long_as_a_pod_may_take() {
        let rolling = object("Rolling", &json!({}));
        let seen = [(5, rolling.clone()), (10, failed("1", "a")), (50, failed("1", "a"))];
        assert_eq!(gives_up(false, &rolling, &seen), [None, Some(70), Some(70)]);
        assert_eq!(gives_up(true, &rolling, &seen), [None, Some(10), Some(10)]);
    }

    #[test]
    fn a_pause_ends_a_wait_unless_it_is_lifted_in_time() {
        let (rolling, paused) = (object("Rolling", &json!({})), object("Paused", &json!({})));
        let seen = [(10, paused.clone()), (69, paused), (70, rolling.clone())];
        assert_eq!(gives_up(false, &rolling, &seen), [Some(70), Some(70), None]);
    }

    #[test]
    fn a_verdict_that_is_withdrawn_starts_no_countdown_for_the_next() {
        let rolling = object("Rolling", &json!({}));
        let seen = [(10, failed("1", "a")), (60, rolling.clone()), (65, failed("1", "a")), (100, failed("1", "b"))];
        assert_eq!(gives_up(false, &rolling, &seen), [Some(70), None, Some(125), Some(160)]);
    }

    #[test]
    fn a_failure_from_before_the_wait_ends_it_only_when_it_comes_again() {
        let before = failed("1", "a");
        let seen =
            [(0, before.clone()), (500, before.clone()), (510, object("Rolling", &json!({}))), (520, before.clone())];
        assert_eq!(gives_up(false, &before, &seen), [None, None, None, Some(580)]);
        assert_eq!(gives_up(false, &before, &[(9, failed("1", "b"))]), [Some(69)], "another sentence");
        assert_eq!(gives_up(false, &before, &[(9, failed("2", "a"))]), [Some(69)], "another rollout");
        assert_eq!(gives_up(false, &object("Paused", &json!({})), &[(9, object("Paused", &json!({})))]), [None]);
    }
}
