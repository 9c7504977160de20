//! Pods with their health, from what their watch shows.
//!
//! Pure. Must not judge a revision, nor decide what becomes of a Pod.

use chrono::{DateTime, TimeDelta, Utc};

use super::{as_seen, created, since, time};
use crate::k8s::facts::{ConditionFacts, ContainerFacts, PodFacts, WhyFacts};
use crate::rollout::{Pod, Trouble};

/// A Pod as this process saw it: its times not by a kubelet's clock alone, and for how long it was Ready before it
/// ceased to be.
pub fn see<R>(before: Option<&Pod<R>>, pod: &mut Pod<R>, now: DateTime<Utc>) {
    let before = before.filter(|before| before.id == pod.id);
    let is_change = before.is_some_and(|before| before.ready_since.is_some() != pod.ready_since.is_some());
    let (ready, unready) = (before.and_then(|b| b.ready_since), before.and_then(|b| b.unready_since));
    pod.ready_since = pod.ready_since.map(|at| as_seen(at, ready, is_change, now).max(pod.created));
    pod.unready_since = pod.unready_since.map(|at| as_seen(at, unready, is_change, now).max(pod.created));
    if let Some(before) = before {
        pod.was_ready = was_ready(before, pod);
    }
}

/// For how long a Pod was Ready before it ceased to be: the longest time that was seen, otherwise an estimate from its
/// status.
fn was_ready<R>(before: &Pod<R>, now: &Pod<R>) -> Option<TimeDelta> {
    let ended = before.ready_since.zip(now.unready_since).filter(|_| now.ready_since.is_none());
    before
        .was_ready
        .max(ended.map(|(since, until)| until - since))
        .max(now.was_ready.filter(|_| before.ready_since.is_none() && before.was_ready.is_none()))
}

/// Where the DaemonSet controller writes which of its templates a Pod was made from.
pub const GENERATION_LABEL: &str = "pod-template-generation";

/// A kubelet says that a Pod is not Ready within so long of taking it on; later than that the Pod had been Ready
/// before.
const TAKING_ON: TimeDelta = TimeDelta::seconds(5);

/// A container that runs for so long does not crash again and again.
const RUNS_WELL: TimeDelta = TimeDelta::minutes(10);

/// A Pod that was made from `revision`, from what its watch shows; `None`: it could not be told from another. Where no
/// node is known yet it has an empty one.
#[must_use]
pub fn pod<R>(facts: &PodFacts, revision: Option<R>) -> Option<Pod<R>> {
    let condition = facts.status.conditions.iter().find(|c| c.type_ == "Ready");
    let ready = condition.filter(|c| c.status == "True");
    let is_unready_since = condition.filter(|c| c.status != "True").and_then(since);
    let bound = facts.status.conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "True");
    // Before it was bound to its node no kubelet could start it, and before its containers were started none was Ready.
    let unready_since = is_unready_since.max(bound.and_then(since)).max(started_at(facts)).filter(|_| ready.is_none());
    let taken_on = facts.status.start_time.as_deref().and_then(time);
    Some(Pod {
        name: facts.metadata.name.as_deref()?.into(),
        id: facts.metadata.uid.as_deref()?.into(),
        resource_version: facts.metadata.resource_version.as_deref().unwrap_or_default().into(),
        node: facts.node().unwrap_or_default().into(),
        revision,
        template_generation: facts
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(GENERATION_LABEL)?.parse().ok()),
        created: created(facts.metadata.creation_timestamp.as_ref()),
        deleting: facts.metadata.deletion_timestamp.is_some(),
        gone_by: facts.metadata.deletion_timestamp.as_ref().map(|at| created(Some(at))),
        ready_since: ready.map(|c| since(c).unwrap_or_default()),
        unready_since,
        was_ready: is_unready_since
            .zip(taken_on)
            .map(|(unready, taken)| unready - taken)
            .filter(|time| *time > TAKING_ON),
        restarts: containers(facts).map(|c| c.restart_count).max().unwrap_or_default(),
        // One that crashes again and again may be Ready in between.
        trouble: trouble(facts, unready_since.or(ready.and_then(since)))
            .filter(|trouble| ready.is_none() || matches!(trouble, Trouble::Crash(_))),
    })
}

/// Init containers first: while one of them has trouble, the others only wait for it.
fn containers(facts: &PodFacts) -> impl Iterator<Item = &ContainerFacts> {
    facts.status.init_container_statuses.iter().chain(&facts.status.container_statuses)
}

/// What a Pod's status says against it; `since` when it is as Ready as it is now.
fn trouble(facts: &PodFacts, since: Option<DateTime<Utc>>) -> Option<Trouble> {
    // An init container that has done its work has no trouble, however often it was started.
    let init = facts.status.init_container_statuses.iter().filter(|c| !is_done(c));
    for container in init.chain(&facts.status.container_statuses) {
        let said = |why: &WhyFacts| said(why.reason.as_deref().unwrap_or("no reason given"), why.message.as_deref());
        let code = |why: &WhyFacts| why.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
        let ended = container.state.terminated.as_ref().or(container.last_state.terminated.as_ref());
        let again_and_again = container.restart_count >= CRASHES && !ended.is_some_and(ran_well);
        if let Some(waiting) = &container.state.waiting {
            match waiting.reason.as_deref() {
                Some(
                    "ErrImagePull"
                    | "ImagePullBackOff"
                    | "InvalidImageName"
                    | "ImageInspectError"
                    | "ErrImageNeverPull"
                    | "RegistryUnavailable",
                ) => {
                    return Some(Trouble::Image(said(waiting)));
                }
                Some("CreateContainerConfigError") => return Some(Trouble::Config(said(waiting))),
                Some("CrashLoopBackOff") => {
                    let why = format!("{}{}", said(waiting), ended.map(code).unwrap_or_default());
                    return Some(if again_and_again { Trouble::Crash(why) } else { Trouble::Start(why) });
                }
                Some("ContainerCreating" | "PodInitializing") | None => {}
                Some(_) => return Some(Trouble::Start(said(waiting))),
            }
        }
        // Of a container that runs well for long enough what it did before is history.
        let started = container.state.running.as_ref().and_then(|running| running.started_at.as_deref()).and_then(time);
        let runs_well = started.zip(since).is_some_and(|(started, since)| since - started > RUNS_WELL);
        if let Some(ended) = ended.filter(|_| again_and_again && !runs_well) {
            return Some(Trouble::Crash(format!(
                "restarted {} times ({}{})",
                container.restart_count,
                said(ended),
                code(ended)
            )));
        }
    }
    if facts.status.phase.as_deref() == Some("Failed") {
        let (reason, message) = (facts.status.reason.as_deref(), facts.status.message.as_deref());
        let said = said(reason.unwrap_or("no reason given"), message);
        return Some(Trouble::Ended(format!("its kubelet refused or ended the Pod before: {said}")));
    }
    let is_unschedulable = |c: &&ConditionFacts| {
        c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
    };
    if let Some(unscheduled) = facts.status.conditions.iter().find(is_unschedulable) {
        // What the scheduler says of preemption helps no one.
        let why = unscheduled.message.as_deref().unwrap_or("no room").split(". ").next().unwrap_or_default();
        return Some(Trouble::Capacity(beginning(why)));
    }
    if facts.spec.node_name.as_deref().is_none_or(str::is_empty) {
        return Some(Trouble::Unbound);
    }
    let is_pending = facts.status.phase.as_deref().is_none_or(|phase| phase == "Pending");
    (is_pending && is_unstarted(facts)).then(|| Trouble::Unstarted(what_it_waits_for(facts)))
}

/// Whether a container was never started, and no other container of its Pod is to blame for that.
fn is_unstarted(facts: &PodFacts) -> bool {
    let holds_back = |c: &ContainerFacts| was_started(c) && !is_done(c) && !c.ready;
    let mut all = containers(facts).peekable();
    !facts.status.init_container_statuses.iter().any(holds_back) && (all.peek().is_none() || !all.all(was_started))
}

/// Whether a container has done its work.
fn is_done(container: &ContainerFacts) -> bool {
    container.state.terminated.as_ref().is_some_and(|ended| ended.exit_code == Some(0))
}

/// So many characters of a message of others are quoted.
const QUOTED: usize = 160;

/// A reason with the beginning of its message.
fn said(reason: &str, message: Option<&str>) -> String {
    let message = message.map(|message| format!(": {}", beginning(message)));
    format!("{reason}{}", message.unwrap_or_default())
}

/// The beginning of a text of others; that it was cut shows.
fn beginning(text: &str) -> String {
    let cut: String = text.chars().take(QUOTED).collect();
    if cut.len() == text.len() { cut } else { format!("{}…", cut.trim_end_matches([' ', ':', ',', ';'])) }
}

/// When the last of its containers was started for the first time, as far as a status says.
fn started_at(facts: &PodFacts) -> Option<DateTime<Utc>> {
    let first = |c: &&ContainerFacts| c.restart_count == 0 && c.last_state.terminated.is_none();
    let started = containers(facts).filter(first).filter_map(|c| c.state.running.as_ref()?.started_at.as_deref());
    started.filter_map(time).max()
}

/// Whether a container was ever started.
fn was_started(container: &ContainerFacts) -> bool {
    let ContainerFacts { restart_count, state, last_state, .. } = container;
    *restart_count > 0 || state.running.is_some() || state.terminated.is_some() || last_state.terminated.is_some()
}

/// What keeps the first container from being started, as far as a status says.
fn what_it_waits_for(facts: &PodFacts) -> String {
    let mut unstarted = containers(facts).filter(|container| !was_started(container));
    let waiting = unstarted.find_map(|container| container.state.waiting.as_ref()?.reason.as_deref());
    match waiting {
        Some(reason) => format!("an image is being pulled, a volume mounted or the network set up ({reason})"),
        None => "the kubelet of its node has not taken it on".to_owned(),
    }
}

/// Whether it ran for so long before it ended that it does not crash again and again.
fn ran_well(ended: &WhyFacts) -> bool {
    let at = |text: &Option<String>| text.as_deref().and_then(time);
    at(&ended.started_at).zip(at(&ended.finished_at)).is_some_and(|(began, ended)| ended - began > RUNS_WELL)
}

/// So many restarts, and a container counts as one that crashes again and again.
const CRASHES: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_pods_status_says_what_is_wrong_with_it() {
        let trouble_of = |status: Value| {
            let facts = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": "node-1" },
                "status": status });
            pod::<()>(&serde_json::from_value(facts).unwrap(), None).unwrap().trouble
        };
        let container = |state: Value, restarts: i32| {
            json!({ "containerStatuses": [{ "restartCount": restarts,
            "state": state, "lastState": { "terminated": { "exitCode": 3, "reason": "Error" } } }] })
        };
        assert!(matches!(trouble_of(container(json!({ "waiting": { "reason": "CrashLoopBackOff",
                "message": "back-off" } }), 5)), Some(Trouble::Crash(why)) if why == "CrashLoopBackOff: back-off, \
                exit code 3"));
        assert!(matches!(
            trouble_of(container(json!({ "waiting": { "reason": "ErrImagePull" } }), 0)),
            Some(Trouble::Image(_))
        ));
        assert!(
            matches!(
                trouble_of(container(json!({ "waiting": { "reason": "CrashLoopBackOff" } }), 2)),
                Some(Trouble::Start(_))
            ),
            "not yet"
        );
        assert!(matches!(
            trouble_of(container(json!({ "waiting": { "reason": "CreateContainerConfigError" } }), 0)),
            Some(Trouble::Config(_))
        ));
        assert!(matches!(
            trouble_of(container(json!({ "waiting": { "reason": "RunContainerError" } }), 0)),
            Some(Trouble::Start(_))
        ));
        assert!(matches!(trouble_of(container(json!({ "running": {} }), 3)), Some(Trouble::Crash(_))));
        let mut long = container(json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } }), 7);
        long["conditions"] =
            json!([{ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z" }]);
        assert_eq!(trouble_of(long.clone()), None, "it restarted long ago, and is unready for another cause");
        long["conditions"][0]["status"] = json!("True");
        assert_eq!(trouble_of(long.clone()), None, "and is Ready again after a moment in which it was not");
        long["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:30Z");
        assert!(matches!(trouble_of(long), Some(Trouble::Crash(_))), "Ready in between");
        let mut seldom = container(json!({ "waiting": { "reason": "CrashLoopBackOff" } }), 3);
        seldom["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = json!("2026-01-01T00:00:00Z");
        seldom["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] = json!("2026-01-01T00:10:01Z");
        assert!(matches!(trouble_of(seldom), Some(Trouble::Start(_))), "not within ten minutes");
        let mut creating = container(json!({ "waiting": { "reason": "ContainerCreating" } }), 0);
        assert_eq!(trouble_of(creating.clone()), None, "it ran before, and its container is created again");
        creating["containerStatuses"][0]["lastState"] = json!({});
        let trouble = trouble_of(creating.clone());
        assert!(matches!(trouble, Some(Trouble::Unstarted(why)) if why.ends_with("(ContainerCreating)")));
        assert!(matches!(trouble_of(json!({})), Some(Trouble::Unstarted(why)) if why.contains("kubelet")));
        creating["phase"] = json!("Running");
        assert_eq!(trouble_of(creating), None);
        assert!(matches!(trouble_of(json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "no room" }] })),
                Some(Trouble::Capacity(why)) if why == "no room"));
        let said = "0/633 nodes are available: 633 node(s) didn't match. no new claims, preemption: 0/633 nodes";
        assert!(matches!(trouble_of(json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": said }] })),
                Some(Trouble::Capacity(why)) if why == "0/633 nodes are available: 633 node(s) didn't match"));
        let (short, long) = ("a".repeat(QUOTED), format!("{}: b", "a".repeat(QUOTED - 1)));
        assert_eq!((beginning(&short), beginning(&long)), (short, format!("{}…", "a".repeat(QUOTED - 1))));
    }

    #[test]
    fn a_kubelets_clock_ends_no_wait_and_skips_none() {
        let at = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        let pod = |ready: Option<i64>, unready: Option<i64>| Pod::<()> {
            created: at(1_000),
            ready_since: ready.map(at),
            unready_since: unready.map(at),
            ..Pod::named("p", "n")
        };
        let seen = |before: Option<&Pod<()>>, mut pod: Pod<()>, now: i64| {
            see(before, &mut pod, at(now));
            pod
        };
        let ahead = seen(None, pod(Some(9_000), None), 1_010);
        assert_eq!(ahead.ready_since, Some(at(1_010)), "two hours ahead: since it was seen");
        let again = seen(Some(&ahead), pod(Some(9_000), None), 1_050);
        assert_eq!(again.ready_since, Some(at(1_010)), "and it stays so");
        let starts = seen(None, pod(None, Some(1_001)), 1_002);
        let behind = seen(Some(&starts), pod(Some(-6_000), None), 1_020);
        assert_eq!(behind.ready_since, Some(at(1_020)), "two hours behind");
        let ceased = seen(Some(&behind), pod(None, Some(-5_900)), 1_200);
        assert_eq!((ceased.unready_since, ceased.was_ready), (Some(at(1_200)), Some(TimeDelta::seconds(180))));
        assert_eq!(
            seen(None, pod(Some(-6_000), None), 5_000).ready_since,
            Some(at(1_000)),
            "not before it was created"
        );
        let on_time = seen(Some(&starts), pod(Some(1_015), None), 1_020);
        assert_eq!(on_time.ready_since, Some(at(1_015)), "a clock that is right is believed");
        let blinked = seen(Some(&on_time), pod(Some(1_030), None), 1_031);
        assert_eq!(blinked.ready_since, Some(at(1_030)), "it was not Ready in between, unseen");
    }

    #[test]
    fn init_containers_and_sidecars_are_read_like_any_other() {
        let trouble_of = |init: Value| {
            let facts = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": "node-1" }, "status": {
                "phase": "Pending", "initContainerStatuses": [init], "containerStatuses": [
                { "restartCount": 0, "state": { "waiting": { "reason": "PodInitializing" } } }] } });
            pod::<()>(&serde_json::from_value(facts).unwrap(), None).unwrap().trouble
        };
        let init = |state: Value, restarts: i32| json!({ "restartCount": restarts, "state": state });
        let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
        assert!(matches!(trouble_of(init(waiting("ImagePullBackOff"), 0)), Some(Trouble::Image(_))));
        assert!(matches!(trouble_of(init(waiting("CreateContainerConfigError"), 0)), Some(Trouble::Config(_))));
        assert!(matches!(trouble_of(init(waiting("CrashLoopBackOff"), 4)), Some(Trouble::Crash(_))));
        assert!(matches!(trouble_of(init(waiting("PodInitializing"), 0)), Some(Trouble::Unstarted(_))));
        assert_eq!(trouble_of(init(json!({ "running": {} }), 0)), None, "it has begun its work");
        let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
        let pulls_next = |init: Value| matches!(trouble_of(init), Some(Trouble::Unstarted(_)));
        assert!(pulls_next(init(done, 5)), "it has done its work, at the sixth attempt, and the next image is pulled");
        let sidecar = json!({ "restartCount": 0, "ready": true, "state": { "running": {} } });
        assert!(pulls_next(sidecar), "a native sidecar holds nobody back");
    }

    #[test]
    fn of_several_containers_the_last_may_wait_for_its_image() {
        let trouble_of = |second: Value| {
            let first = json!({ "restartCount": 0, "ready": true, "state": { "running": {} } });
            let facts = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": "node-1" },
                "status": { "phase": "Pending", "containerStatuses": [first, second] } });
            pod::<()>(&serde_json::from_value(facts).unwrap(), None).unwrap().trouble
        };
        let creating = json!({ "restartCount": 0, "state": { "waiting": { "reason": "ContainerCreating" } } });
        let Some(Trouble::Unstarted(why)) = trouble_of(creating) else { panic!("its image is being pulled") };
        assert!(why.ends_with("(ContainerCreating)"), "{why}");
        assert_eq!(trouble_of(json!({ "restartCount": 0, "state": { "running": {} } })), None);
    }

    #[test]
    fn a_pod_that_no_scheduler_has_bound_is_said_to_be_so_and_its_time_begins_when_it_is() {
        let read = |node: Option<&str>, conditions: Value| {
            let facts = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": node },
                "status": { "phase": "Pending", "conditions": conditions } });
            pod::<()>(&serde_json::from_value(facts).unwrap(), None).unwrap()
        };
        let unbound = read(None, json!([]));
        assert_eq!((unbound.trouble, unbound.unready_since), (Some(Trouble::Unbound), None));
        let at = |text: &str| json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": text }]);
        let bound = read(Some("node-1"), at("2026-01-01T00:00:07Z"));
        assert!(matches!(bound.trouble, Some(Trouble::Unstarted(_))));
        assert_eq!(bound.unready_since, time("2026-01-01T00:00:07Z"));
        // Its time begins once more when what was pulled for long is started, and not when it is started again.
        let started = |restarts: i32| {
            let container = json!({ "restartCount": restarts,
                "state": { "running": { "startedAt": "2026-01-01T00:09:00Z" } } });
            let facts = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": "node-1" },
                "status": { "phase": "Running", "conditions": at("2026-01-01T00:00:07Z"),
                "containerStatuses": [container] } });
            pod::<()>(&serde_json::from_value(facts).unwrap(), None).unwrap().unready_since
        };
        assert_eq!((started(0), started(1)), (time("2026-01-01T00:09:00Z"), time("2026-01-01T00:00:07Z")));
    }
}
