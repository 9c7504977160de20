//! Looks from a DaemonSet, its revisions and its Pods to what is replaced, and what is said.
//!
//! Pure: nodes, revisions and Pods are values. Must not repeat the engine's rules.

mod edges;
mod told;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use serde_json::{Value, json};

use super::memory::{Memory, Rollback, read};
use super::observe::{Current, Seen};
use super::plan::{Plan, plan};
use super::resolve::resolve;
use super::revision::{Pod, Revision, revisions};
use super::rollback::Back;
use super::source::{last_writers, other_controller, writers, writers_since};
use super::status::{StatusFacts, status};
use crate::api::daemonset_rollout::{DaemonSetRollout, DaemonSetRolloutStatus};
use crate::k8s::affinity::of_template;
use crate::k8s::node::Node;
use crate::k8s::source::{reverter, source};
use crate::kernel::kind::Planned;

fn value<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
}

fn template(image: &str, chart: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "a" }, "annotations": { "helm.sh/chart": chart } },
        "spec": { "containers": [{ "name": "a", "image": image }] } })
}

fn set(template: &Value) -> DaemonSet {
    value(json!({ "metadata": { "name": "a", "namespace": "n", "uid": "d", "generation": 2 },
        "spec": { "selector": { "matchLabels": { "app": "a" } }, "updateStrategy": { "type": "OnDelete" },
            "template": template },
        "status": { "observedGeneration": 2, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            "desiredNumberScheduled": 0 } }))
}

fn revision(hash: &str, number: i64, owner: &str, template: &Value) -> ControllerRevision {
    let mut data = json!({ "spec": { "template": template } });
    data["spec"]["template"]["$patch"] = "replace".into();
    value(json!({ "metadata": { "name": format!("a-{hash}"), "labels": { "controller-revision-hash": hash },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": owner,
                "controller": true }] }, "revision": number, "data": data }))
}

#[test]
fn the_newest_revision_is_current_only_if_it_is_the_template() {
    let (one, two) = (template("a:1", "c-1"), template("a:2", "c-1"));
    let all = [revision("h1", 1, "d", &one), revision("h2", 2, "d", &two), revision("h3", 9, "other", &one)];
    assert_eq!(revisions(&set(&two), &all, &[]).unwrap().current, Revision("h2".to_owned()));
    // The list is older than the template, or its controller has not written that yet.
    assert_eq!(revisions(&set(&template("a:3", "c-1")), &all, &[]), None);
    assert_eq!(revisions(&set(&one), &all, &[]), None, "an earlier one is current once it has the highest number");
    let back = [revision("h1", 3, "d", &one), revision("h2", 2, "d", &two)];
    let known = revisions(&set(&one), &back, &[]).unwrap();
    assert_eq!((known.current.0.as_str(), known.numbers["h2"]), ("h1", 2));
}

#[test]
fn what_is_ignored_makes_no_other_revision() {
    let (one, two) = (template("a:1", "c-1"), template("a:1", "c-2"));
    let all = [revision("h1", 1, "d", &one), revision("h2", 2, "d", &two)];
    let alike = |ignore: &[&str]| {
        let ignore: Vec<String> = ignore.iter().map(|key| (*key).to_owned()).collect();
        revisions(&set(&two), &all, &ignore).unwrap().alike
    };
    assert_eq!(alike(&[]), BTreeSet::from(["h2".to_owned()]));
    assert_eq!(alike(&["helm.sh/chart"]).len(), 2);
}

#[test]
fn a_template_that_changes_again_and_again_must_stay_the_same_for_longer_each_time() {
    let (debounce, hash) = (TimeDelta::seconds(10), |number: i64| Revision(number.to_string()));
    let mut memory = Memory::default().seeing("d", &hash(0), at(0));
    let waits =
        |memory: &Memory, now: i64| (memory.template.as_ref().unwrap().settles_at(debounce) - at(now)).num_seconds();
    assert_eq!(waits(&memory, 0), 10);
    let mut seen = Vec::new();
    for number in 1..9 {
        memory = memory.seeing("d", &hash(number), at(number * 60));
        seen.push(waits(&memory, number * 60));
    }
    assert_eq!(seen, [10, 20, 40, 80, 160, 320, 600, 600]);
    let until = |memory: &Memory| memory.template.as_ref().unwrap().is_unstable_until();
    assert_eq!(until(&memory), Some(at(480 + 3600)));
    // The same one, seen again, has not changed; after an hour the next change is a first one.
    assert_eq!(waits(&memory.clone().seeing("d", &hash(8), at(500)), 480), 600);
    let later = memory.seeing("d", &hash(9), at(480 + 3600));
    assert_eq!((waits(&later, 480 + 3600), until(&later)), (10, None));
    // Another DaemonSet of the name is another story.
    assert_eq!(later.of("e").template, None);
}

/// A fleet of these Pods, each on a node of its own: revision and whether it is Ready.
fn seen(pods: &[(&str, bool)], spec: &Value) -> Seen {
    let rollout: DaemonSetRollout = value(json!({ "metadata": { "name": "r", "namespace": "n" }, "spec": spec }));
    let (one, two) = (template("a:1", "c-1"), template("a:2", "c-1"));
    let set = set(&two);
    let all = [revision("h1", 1, "d", &one), revision("h2", 2, "d", &two)];
    let name = |number: usize| format!("n{number}");
    let pod = |(number, (hash, is_ready)): (usize, &(&str, bool))| {
        let mut pod = Pod::named(&format!("p{number}"), &name(number));
        pod.revision = Some(Revision((*hash).to_owned()));
        pod.ready_since = is_ready.then(|| at(1));
        Arc::new(pod)
    };
    Seen {
        resolved: resolve(&rollout).unwrap(),
        revisions: Current::Known(revisions(&set, &all, &[]).unwrap()),
        placement: of_template(set.spec.as_ref().unwrap().template.spec.as_ref().unwrap()),
        set: Some(Arc::new(set)),
        nodes: (0..pods.len()).map(|number| Arc::new(Node { ready: true, ..Node::named(&name(number)) })).collect(),
        pods: pods.iter().enumerate().map(pod).collect(),
        ledger: crate::rollout::ledger::Ledger::default(),
        losses: Arc::default(),
        aside: HashMap::new(),
        undeletable: Vec::new(),
        missing: HashMap::new(),
        refused: None,
        miscounted: None,
        put_back: None,
        unrestorable: None,
        names: Vec::new(),
        older: None,
        deciding_since: at(0),
        in_contact_since: at(0),
        stopped: false,
    }
}

fn goes(plan: &Plan) -> Vec<&str> {
    plan.decision.steps.iter().map(|step| &*step.pod.name).collect()
}

/// The status that is made of a plan.
fn said(seen: &Seen, plan: &Plan, now: i64) -> DaemonSetRolloutStatus {
    let object: DaemonSetRollout = value(json!({ "metadata": {}, "spec": { "daemonSet": "a" } }));
    let facts = StatusFacts { object: &object, seen, plan, complaint: None };
    status(&facts, &DaemonSetRolloutStatus::default(), at(now)).unwrap().0
}

/// Plans at a time, until nothing is remembered in addition.
fn settled(seen: &Seen, memory: &Memory, now: i64) -> Plan {
    let first = plan(memory, seen, at(now));
    plan(&first.memory, seen, at(now))
}

#[test]
fn outdated_pods_go_once_the_template_has_settled_and_the_last_good_one_is_what_most_have() {
    let spec = json!({ "daemonSet": "a", "rollout": { "maxUnavailable": 2 } });
    let all = seen(&[("h1", true), ("h1", true), ("h2", true), ("h0", false)], &spec);
    let first = plan(&Memory::default(), &all, at(1000));
    assert_eq!((goes(&first), first.settles_at), (vec![], Some(at(1010))));
    let later = settled(&all, &first.memory, 1010);
    assert_eq!(goes(&later), ["p3", "p0", "p1"], "a broken one first, which takes nothing from the budget");
    assert_eq!(later.memory.engine.last_good, Some(Revision("h1".to_owned())));
    // A restart in between waits no longer.
    let stored = DaemonSetRolloutStatus {
        rollout: Some(crate::api::rollout::RolloutStatus {
            memory: Some(serde_json::to_value(&first.memory).unwrap()),
            ..Default::default()
        }),
        ..DaemonSetRolloutStatus::default()
    };
    assert_eq!(read(&stored), first.memory);
}

#[test]
fn nothing_is_deleted_while_the_current_revision_is_unknown_or_not_ours() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3 });
    let known = settled(&seen(&[("h1", true)], &spec), &Memory::default(), 100).memory;
    let of = |change: &dyn Fn(&mut Seen)| {
        let mut all = seen(&[("h1", true)], &spec);
        change(&mut all);
        let plan = settled(&all, &known, 200);
        let said = said(&all, &plan, 200);
        let reason = |type_: &str| said.conditions.iter().find(|one| one.type_ == type_).unwrap().reason.clone();
        (goes(&plan).len(), reason("Ready"), reason("Degraded"))
    };
    let edit = |all: &mut Seen, change: fn(&mut DaemonSet)| change(Arc::make_mut(all.set.as_mut().unwrap()));
    let text = |all: [&str; 2]| all.map(str::to_owned);
    let says = |(count, ready, degraded): (usize, String, String)| (count, [ready, degraded]);
    assert_eq!(says(of(&|_| {})), (1, text(["RollingOut", "AsExpected"])));
    assert_eq!(says(of(&|all| all.revisions = Current::Unwritten)), (0, text(["TemplateSettling", "AsExpected"])));
    let unread = |all: &mut Seen| all.revisions = Current::Unread("forbidden".to_owned());
    assert_eq!(says(of(&unread)), (0, text(["RightsMissing", "RightsMissing"])));
    let mut all = seen(&[("h1", true), ("h2", true)], &spec);
    unread(&mut all);
    let report = settled(&all, &Memory::default(), 1_000).decision.report;
    assert_eq!((report.updated, report.unknown.count), (0, 2), "which of them are updated is unknown");
    let rolling = |all: &mut Seen| {
        edit(all, |set| {
            let spec = set.spec.as_mut().unwrap();
            spec.update_strategy = None;
        });
    };
    assert_eq!(says(of(&rolling)), (0, text(["NotOnDelete", "NotOnDelete"])));
    let ends =
        |all: &mut Seen| edit(all, |set| set.metadata.deletion_timestamp = Some(value(json!("1970-01-01T00:00:00Z"))));
    assert_eq!(says(of(&ends)), (0, text(["DaemonSetNotFound", "DaemonSetNotFound"])));
    assert_eq!(says(of(&|all| all.older = Some("older".to_owned()))), (0, text(["Duplicate", "Duplicate"])));
    assert_eq!(says(of(&|all| all.stopped = true)), (0, text(["Stopped", "AsExpected"])));
}

#[test]
fn two_pods_on_a_node_and_a_node_that_is_left_out_are_not_touched() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": { "maxUnavailable": "100%" } });
    let mut all = seen(&[("h1", true), ("h1", true), ("h1", true)], &spec);
    let known = settled(&all, &Memory::default(), 100).memory;
    let mut second = Pod::named("second", "n0");
    second.revision = Some(Revision("h1".to_owned()));
    all.pods.push(Arc::new(second));
    for (number, value) in [(1, "r"), (2, "another")] {
        let node = Arc::make_mut(&mut all.nodes[number]);
        node.labels.insert(super::places::SKIP.to_owned(), value.to_owned());
    }
    assert_eq!(goes(&settled(&all, &known, 200)), ["p2"]);
}

#[test]
fn a_daemonset_says_its_source_and_other_controllers_of_its_pods() {
    let with = |metadata: Value| -> DaemonSet { value(json!({ "metadata": metadata })) };
    let from = |metadata: Value| source(&with(metadata).metadata);
    assert_eq!(from(json!({})), None);
    assert_eq!(
        from(json!({ "annotations": { "argocd.argoproj.io/tracking-id": "agents:apps/DaemonSet:n/a" } })).as_deref(),
        Some("Argo CD application agents")
    );
    let flux = json!({ "labels": { "helm.toolkit.fluxcd.io/name": "datadog" },
        "annotations": { "meta.helm.sh/release-name": "d" } });
    let managed = |manager: &str| json!({ "managedFields": [{ "manager": manager, "fieldsV1": { "f:spec": {} } }] });
    assert_eq!(from(managed("helm")), None);
    let argo = "Argo CD (field manager argocd-controller)";
    assert_eq!(from(managed("argocd-controller")).as_deref(), Some(argo));
    let mut of_helm = managed("helm-controller");
    of_helm["annotations"] = json!({ "meta.helm.sh/release-name": "d" });
    assert_eq!(from(of_helm.clone()).as_deref(), Some("Helm release d"));
    assert!(reverter(&with(of_helm).metadata).unwrap().starts_with("a Flux HelmRelease"));
    assert_eq!(from(flux).as_deref(), Some("Flux HelmRelease datadog"), "what deploys Helm's release is corrected");
    let kruise = json!({ "annotations": { "batchrelease.rollouts.kruise.io/control-info": "{}" } });
    assert!(other_controller(&with(kruise)).is_some());
    let datadog = json!({ "annotations": { "experimental.agent.datadoghq.com/node-agent-rollout-mode": "m" } });
    assert!(other_controller(&with(datadog)).unwrap().starts_with("Datadog Operator"));
    assert_eq!(other_controller(&with(json!({ "annotations": { "other.io/kruise": "" } }))), None);
    let fields = json!({ "managedFields": [
        { "manager": "b", "fieldsV1": { "f:spec": { "f:template": {} } } },
        { "manager": "a", "fieldsV1": { "f:spec": { "f:template": {} } } },
        { "manager": "c", "fieldsV1": { "f:metadata": {} } },
    ] });
    assert_eq!(writers(&with(fields.clone())), ["a", "b"]);
    assert_eq!(writers_since(&with(fields.clone()), at(0)), ["a", "b"], "when is unknown");
    assert_eq!(last_writers(&with(fields)), ["a", "b"]);
    let entry = |manager: &str, second: i64| {
        let time = at(second).to_rfc3339();
        json!({ "manager": manager, "time": time, "fieldsV1": { "f:spec": { "f:template": {} } } })
    };
    let of_old = json!({ "managedFields": [entry("helm", 100), entry("kubectl-edit", 5000), entry("flux", 5100)] });
    assert_eq!(writers(&with(of_old.clone())), ["flux", "helm", "kubectl-edit"]);
    assert_eq!(writers_since(&with(of_old.clone()), at(5000)), ["flux", "kubectl-edit"]);
    assert_eq!(last_writers(&with(of_old)), ["flux"]);
}

#[test]
fn a_failed_template_is_put_back_once_whatever_happens_in_between() {
    let spec =
        json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": { "onFailure": "Rollback", "reject": "h2" } });
    let mut all = seen(&[("h1", true), ("h1", true)], &spec);
    let settling = settled(&all, &Memory::default(), 1000);
    assert_eq!(settling.back, Back::Not, "the template may change once more");
    let due = plan(&settling.memory, &all, at(1005));
    let (failed, to) = (Revision("h2".to_owned()), Revision("h1".to_owned()));
    let generation = all.set.as_ref().unwrap().metadata.generation;
    let noted = Rollback { failed, to, generation, is_done: false, is_over: false };
    assert_eq!((&due.back, &due.memory.rollback), (&Back::Due(noted.clone()), &Some(noted.clone())));
    assert!(due.has_steps(), "it is remembered before anything is written");
    // A process that was killed before it wrote, or could not, tries again.
    let again = plan(&due.memory, &all, at(1010));
    assert_eq!(again.back, Back::Due(noted.clone()));
    all.unrestorable = Some("refused".to_owned());
    assert_eq!(plan(&due.memory, &all, at(1011)).back, Back::Refused("refused".to_owned()));
    all.unrestorable = None;
    // This process wrote it, and the failed one is there again: no other write, also of the next process.
    all.put_back = Some((noted.failed.clone(), generation));
    assert_eq!(plan(&due.memory, &all, at(1012)).back, Back::Not, "no watch has shown it");
    all.put_back = Some((noted.failed.clone(), generation.map(|generation| generation - 1)));
    assert!(matches!(plan(&due.memory, &all, at(1012)).back, Back::Due(_)), "that was an earlier one");
    let mut set = (**all.set.as_ref().unwrap()).clone();
    all.put_back = Some((noted.failed.clone(), generation));
    set.metadata.generation = generation.map(|generation| generation + 2);
    all.set = Some(Arc::new(set));
    let undone = plan(&due.memory, &all, at(1012));
    all.put_back = None;
    let later = plan(&undone.memory, &all, at(2000));
    assert_eq!((&undone.back, &later.back), (&Back::Undone(vec![]), &Back::Undone(vec![])));
    // The good one is there: it need not settle, and is no user's change.
    let seen_last = due.memory.template.clone().unwrap();
    let back = due.memory.clone().seeing("d", &noted.to, at(1013)).template.unwrap();
    assert_eq!((&back.revision, back.since, back.changes), (&noted.to, seen_last.since, seen_last.changes));
    // Another template ends it; should the failed one come back and fail again, it is not written again,
    let over = Rollback { is_done: true, is_over: true, ..noted.clone() };
    let mut remembered = undone.memory.clone();
    remembered.rollback = Some(over.clone());
    assert!(matches!(plan(&remembered, &all, at(2000)).back, Back::Undone(_)));
    // unless a person wants it to be tried again.
    assert_eq!(remembered.retrying(Some(&"h2".to_owned()), at(2000)).rollback, None);
    // What the user does not want any more is forgotten.
    all.resolved.rolls_back = false;
    let unwanted = plan(&later.memory, &all, at(2001));
    assert_eq!((unwanted.back, unwanted.memory.rollback), (Back::Not, None));
    all.resolved.rolls_back = true;
    // A pause writes nothing, and forgets nothing.
    all.resolved.policy.hold = Some(crate::fleet::policy::paused(("n", "a"), None));
    let paused = plan(&due.memory, &all, at(1013));
    assert_eq!((paused.back, paused.memory.rollback), (Back::Not, Some(noted)));
}

#[test]
fn the_longer_of_both_times_counts_before_a_pod_is_available() {
    let spec = json!({ "daemonSet": "a", "rollout": { "minReadySeconds": 20 } });
    let Seen { resolved, set, .. } = seen(&[("h1", true)], &spec);
    for (own, wanted) in [(None, 20), (Some(10), 20), (Some(60), 60)] {
        let mut set = (*set.clone().unwrap()).clone();
        set.spec.as_mut().unwrap().min_ready_seconds = own;
        assert_eq!(resolved.clone().beside(Some(&set)).policy.min_ready, TimeDelta::seconds(wanted));
    }
    assert_eq!(resolved.clone().beside(None).policy.min_ready, TimeDelta::seconds(20));
}

#[test]
fn a_field_with_an_unknown_hash_is_reported_while_it_is_awaited() {
    let spec = |word: &Value| {
        let mut rollout = json!({ "canary": { "nodes": 1, "soak": "1m", "promotion": "Manual" } });
        rollout.as_object_mut().unwrap().extend(word.as_object().unwrap().clone());
        json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": rollout })
    };
    let said = |word: Value, memory: &Memory| {
        let all = seen(&[("h2", true), ("h1", true)], &spec(&word));
        let plan = plan(memory, &all, at(2000));
        plan.problems.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; ")
    };
    let all = seen(&[("h2", true), ("h1", true)], &spec(&json!({})));
    let soaked = settled(&all, &settled(&all, &Memory::default(), 1000).memory, 1005).memory;
    let wrong = "spec.rollout.promote is h9, and DaemonSet n/a has no revision of that hash: the current one is h2; \
        correct or remove the field";
    assert_eq!(said(json!({ "promote": "h9" }), &soaked), wrong);
    assert_eq!(said(json!({ "promote": "h1" }), &soaked), "", "an earlier word");
    assert_eq!(said(json!({ "retry": "h9" }), &soaked), "", "nothing has failed");
    let failed = said(json!({ "reject": "h2", "retry": "h9" }), &soaked);
    assert!(failed.starts_with("spec.rollout.retry is h9"), "{failed}");
}

#[test]
fn where_its_controller_counts_fewer_nodes_for_a_minute_these_size_the_budget() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": { "maxUnavailable": "50%" } });
    let mut all = seen(&[("h1", true), ("h1", true), ("h1", true), ("h1", true)], &spec);
    let memory = settled(&all, &Memory::default(), 1000).memory;
    assert_eq!(goes(&plan(&memory, &all, at(1005))).len(), 2);
    all.miscounted = Some((at(1000), 2));
    let early = plan(&memory, &all, at(1005));
    assert_eq!((goes(&early).len(), early.next), (2, Some(at(1060))), "a watch may be behind");
    assert_eq!(goes(&plan(&memory, &all, at(1060))).len(), 1);
    all.miscounted = Some((at(1000), 9));
    assert_eq!(goes(&plan(&memory, &all, at(1060))).len(), 2, "the smaller of both");
}

#[test]
fn a_canary_selector_without_a_node_is_a_problem() {
    let spec = json!({ "daemonSet": "a", "rollout": { "canary": { "selector": { "role": "canary" }, "soak": "1m" } } });
    let mut all = seen(&[("h1", true), ("h1", true)], &spec);
    let said = |all: &Seen| plan(&Memory::default(), all, at(1000)).problems.into_iter().next().map(|(_, why)| why);
    let wrong = said(&all).expect("a problem");
    assert!(wrong.starts_with("spec.rollout.canary.selector is role=canary, and none of the 2 nodes"), "{wrong}");
    Arc::make_mut(&mut all.nodes[0]).labels.insert("role".to_owned(), "canary".to_owned());
    assert_eq!(said(&all), None);
}
