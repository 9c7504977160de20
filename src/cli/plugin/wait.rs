//! `status --wait` and, without a terminal, `status -w`: a line for each change, and an end when something has come.
//!
//! Reads only. Must not judge a rollout: it repeats what the status says, and waits for what was asked for.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use ratatui::text::Line;
use tokio::time::{Instant, timeout};

use super::managed::Managed;
use super::object::{Object, api};
use super::{ACT, Cx, UNDER_WAY, WELL};
use crate::cli::explain::asked_operator;
use crate::cli::read::Reader;
use crate::fleet::finding::Kind;
use crate::kernel::Reached;

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
    fn said(self) -> &'static str {
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
enum Verdict {
    Reached,
    /// It stops until a person acts.
    Stopped,
    Goes,
}

/// The same stop, as long as this is the same.
type Stop = (String, Option<String>, String);

/// What a stop is known by: one that was there before the wait ends no wait.
fn stop(object: &Object) -> Stop {
    let rollout = object.rollout();
    let failure = rollout.failure.map(|failure| failure.message);
    let said = failure.or_else(|| object.degraded().map(|degraded| degraded.reason.clone()));
    (rollout.state, rollout.started_at, said.unwrap_or_default())
}

fn judge(wait: &Wait, object: &Object) -> Verdict {
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

/// Whether a version or revision of the object may begin so.
fn may_begin(object: &Object, version: &str) -> Result<(), String> {
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

/// A request that has no answer for so long is given up.
const ANSWER: Duration = Duration::from_secs(5);
/// Whether there is an operator is asked again after so long.
const OPERATOR: Duration = Duration::from_secs(10);

/// Waits; returns the exit code.
pub(super) async fn wait(cx: &Cx, reached: &Reached, object: &Object, wait: &Wait) -> Result<u8, String> {
    if wait.goal == Goal::Canaries && object.canaries().is_none() {
        return Err(format!("{} has no canaries: spec.rollout.canary is not set", object.who()));
    }
    wait.version.as_deref().map_or(Ok(()), |version| may_begin(object, version))?;
    let (kind, who, uid) = (object.kind, object.who(), object.whole.uid());
    let namespace = object.namespace();
    let mut events = Box::pin(events(reached, kind, Some(&namespace), Some(&object.name())));
    let deadline = wait.timeout.map(|timeout| Instant::now() + timeout);
    // What stood before ends no wait, until it has gone.
    let mut before = (judge(wait, object) == Verdict::Stopped).then(|| stop(object));
    let (mut now, mut stopped, mut said): (Object, Option<(Instant, Stop)>, String) =
        (object.clone(), None, String::new());
    let (mut is_listed, mut trouble): (bool, Option<String>) = (true, None);
    loop {
        let verdict = judge(wait, &now);
        let known = stop(&now);
        if verdict != Verdict::Stopped || before.as_ref().is_some_and(|before| *before != known) {
            before = None;
        }
        let counts = verdict == Verdict::Stopped && before.is_none();
        // Another stop has its time from the start.
        stopped = stopped.filter(|(_, of)| counts && *of == known).or(counts.then(|| (Instant::now(), known)));
        // While the watch has no answer, what was seen last is neither news nor a reason to give up.
        let mut line = trouble.clone().unwrap_or_else(|| now.conclusion().what);
        // What was seen before an interruption is not known to be so still.
        if verdict == Verdict::Reached && trouble.is_none() {
            let asked = asked_operator(&reached.client, (kind.operator(), Some(&namespace)), cx.clock.now());
            match timeout(ANSWER, asked).await {
                Ok(Ok(None)) => {
                    tell(cx, &mut said, line)?;
                    return Ok(WELL);
                }
                Ok(Ok(Some(finding))) => line = format!("the operator {}", finding.what),
                Ok(Err(why)) => line = Reader::of(reached, kind.operator()).unanswered("list leases", &why),
                Err(_) => "the API server does not answer whether the operator runs".clone_into(&mut line),
            }
        }
        tell(cx, &mut said, line)?;
        let patience = Duration::from_secs(if wait.fail_fast { 0 } else { now.wait_ready_seconds() });
        let gives_up = stopped.as_ref().filter(|_| trouble.is_none()).map(|(since, _)| *since + patience);
        if gives_up.is_some_and(|at| at <= Instant::now()) {
            return Ok(ACT);
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            let version = wait.version.as_ref().map(|version| format!(" with {version}")).unwrap_or_default();
            say!("{who}: {}{version} was not reached in time; {}", wait.goal.said(), now.conclusion().what);
            return Ok(UNDER_WAY);
        }
        let looks_again = Instant::now() + OPERATOR;
        let next = [gives_up, deadline].into_iter().flatten().fold(looks_again, Instant::min);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(whole) | Event::InitApply(whole))) => {
                    is_listed = true;
                    if whole.uid() != uid {
                        return Err(format!("{who} was deleted and created again"));
                    }
                    (now, trouble) = (Object::of(kind, whole), None);
                }
                Some(Ok(Event::Init)) => is_listed = false,
                Some(Ok(Event::InitDone)) if is_listed => trouble = None,
                Some(Ok(Event::Delete(_) | Event::InitDone)) => return Err(format!("{who} was deleted")),
                Some(Err(why)) => {
                    let why = unanswered(reached, kind, &kind.resource().plural, &why)?;
                    trouble.get_or_insert(why);
                }
                None => return Err("the watch ended".to_owned()),
            },
            () = tokio::time::sleep_until(next) => {
                // A watch that has an answer again may have nothing to show.
                let api = api(&reached.client, kind, Some(&namespace));
                if trouble.is_some()
                    && let Ok(Ok(live)) = timeout(ANSWER, api.get_opt(&object.name())).await
                {
                    let whole = live.filter(|live| live.uid() == uid).ok_or_else(|| format!("{who} was deleted"))?;
                    (now, trouble) = (Object::of(kind, whole), None);
                }
            }
        }
    }
}

/// What becomes of the objects of a kind, from now on.
fn events(
    reached: &Reached,
    kind: Managed,
    namespace: Option<&str>,
    name: Option<&str>,
) -> impl Stream<Item = watcher::Result<Event<DynamicObject>>> + use<> {
    let config = name.map_or_else(watcher::Config::default, |name| {
        watcher::Config::default().fields(&format!("metadata.name={name}"))
    });
    watcher(api(&reached.client, kind, namespace), config).default_backoff()
}

/// What is said while a watch has no answer; a refusal is an error.
pub(super) fn unanswered(
    reached: &Reached,
    kind: Managed,
    plural: &str,
    why: &watcher::Error,
) -> Result<String, String> {
    let (watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error)) = why
    else {
        return Ok(format!("the watch was interrupted: {}", crate::kernel::chain(why)));
    };
    let said = Reader::of(reached, kind.operator()).unanswered(&format!("watch {plural}"), error);
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Err(said),
        _ => Ok(said),
    }
}

/// Says a line that is news, with the time.
fn tell(cx: &Cx, said: &mut String, line: String) -> Result<(), String> {
    if *said == line {
        return Ok(());
    }
    let time = jiff::Timestamp::from_second(cx.clock.now().timestamp())
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string());
    let closed = |_| "standard output is closed".to_owned();
    cx.screen.line(Line::raw(format!("{}  {line}", time.unwrap_or_default()))).map_err(closed)?;
    *said = line;
    Ok(())
}

/// A line for each change of any of these objects, until the user ends it.
pub(super) async fn follow(cx: &Cx, reached: &Reached, found: &[Object], name: Option<&str>) -> Result<u8, String> {
    let namespace = cx.namespace(reached);
    let mut kinds: Vec<Managed> = Vec::new();
    for object in found {
        if !kinds.contains(&object.kind) {
            kinds.push(object.kind);
        }
    }
    let streams = kinds.into_iter().map(|kind| {
        let of = events(reached, kind, namespace.as_deref(), name);
        of.map(move |event| (kind, event)).boxed()
    });
    let mut all = futures::stream::select_all(streams);
    let mut said: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    while let Some((kind, event)) = all.next().await {
        let (who, line) = match event {
            Ok(Event::Apply(whole) | Event::InitApply(whole)) => {
                let object = Object::of(kind, whole);
                let conclusion = object.conclusion();
                let mark = if conclusion.kind == Kind::Act { "! " } else { "" };
                (object.who(), format!("{mark}{}: {}", conclusion.who, conclusion.what))
            }
            Ok(Event::Delete(whole)) => {
                let who = Object::of(kind, whole).who();
                (who.clone(), format!("{who} was deleted"))
            }
            // An outage of the same words that comes later is news again.
            Ok(Event::InitDone) if said.remove(kind.name()).is_some() => {
                (String::new(), format!("the watch of {} has an answer again", kind.resource().plural))
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(why) => (kind.name().to_owned(), unanswered(reached, kind, &kind.resource().plural, &why)?),
        };
        // Nothing is compared with what is said of no object.
        said.remove("");
        if tell(cx, said.entry(who).or_default(), line).is_err() {
            break;
        }
    }
    Ok(WELL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(state: &str, status: &Value) -> Object {
        let mut whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "a", "namespace": "n", "generation": 2 },
            "spec": { "rollout": { "canary": {} } },
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

    #[test]
    fn a_failure_is_another_one_when_the_rollout_or_the_sentence_is() {
        let failed = |at: &str, message: &str| {
            let failure = json!({ "hash": "h", "pinned": false, "message": message, "nodes": [] });
            stop(&object("", &json!({ "rollout": { "state": "Failed", "startedAt": at, "failure": failure } })))
        };
        assert_eq!(failed("1", "a"), failed("1", "a"));
        assert_ne!(failed("1", "a"), failed("2", "a"));
        assert_ne!(failed("1", "a"), failed("1", "b"));
    }
}
