//! What a status says of a template that changes again and again, of a refused deletion, and of canaries without a
//! node.
//!
//! Pure. Must not repeat the engine's rules.

use super::*;
use crate::daemonset_rollout::memory::Template;

/// Reason and message of a condition.
fn condition(seen: &Seen, plan: &Plan, now: i64, type_: &str) -> (String, String) {
    let all = said(seen, plan, now).conditions;
    let found = all.into_iter().find(|condition| condition.type_ == type_).unwrap();
    (found.reason, found.message)
}

#[test]
fn who_writes_a_template_in_turn_is_named_for_an_hour() {
    let mut all = seen(&[("h2", true), ("h1", true)], &json!({ "daemonSet": "a", "debounceSeconds": 3 }));
    let entry = |manager: &str, wrote: i64| {
        let time = at(wrote).to_rfc3339();
        json!({ "manager": manager, "time": time, "fieldsV1": { "f:spec": { "f:template": {} } } })
    };
    let set = Arc::make_mut(all.set.as_mut().unwrap());
    set.metadata.managed_fields =
        Some(value(json!([entry("helm", 1000), entry("flux", 900), entry("kubectl-create", -2601)])));
    let memory_after = |changes: u32| {
        let template = Template { uid: "d".to_owned(), revision: Revision("h2".to_owned()), since: at(1000), changes };
        Memory { template: Some(template), ..Memory::default() }
    };
    let degraded = |changes: u32, now: i64| {
        let plan = plan(&memory_after(changes), &all, at(now));
        condition(&all, &plan, now, "Degraded")
    };
    let (reason, message) = degraded(4, 1001);
    assert_eq!(reason, "TemplateUnstable");
    assert!(message.contains("written by flux, helm: let one of them write it"), "{message}");
    assert_eq!(degraded(4, 1000 + 3599).0, "TemplateUnstable");
    assert_eq!(degraded(4, 1000 + 3600).0, "AsExpected");
    assert_eq!(degraded(3, 1001).0, "AsExpected", "a mistake, its revert and its correction");
}

#[test]
fn a_deletion_that_is_refused_is_quoted_after_a_failure() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3 });
    let mut all = seen(&[("h1", true), ("h1", true)], &spec);
    all.undeletable = vec!["the API server refuses to delete Pod p0: it is protected".to_owned()];
    let memory = settled(&all, &Memory::default(), 100).memory;
    let (reason, message) = condition(&all, &settled(&all, &memory, 200), 200, "Degraded");
    assert_eq!(reason, "DeletionRefused");
    assert!(message.starts_with("the API server refuses to delete Pod p0: it is protected; other Pods"), "{message}");
    all.undeletable.push("the API server refuses to delete Pod p1: it is protected".to_owned());
    let (_, message) = condition(&all, &settled(&all, &memory, 200), 200, "Degraded");
    assert!(message.starts_with("the API server refuses to delete Pod p0: it is protected (and 1 more);"), "{message}");
    all.resolved.reject = Some("h2".to_owned());
    let (reason, message) = condition(&all, &settled(&all, &memory, 200), 200, "Degraded");
    assert_eq!(reason, "RolloutFailed");
    assert!(message.contains("it is protected"), "{message}");
}

#[test]
fn where_no_node_can_be_a_canary_none_goes_and_that_is_said() {
    let canary = json!({ "selector": { "ring": "first" }, "soak": "1m" });
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3,
        "rollout": { "maxUnavailable": "100%", "canary": canary } });
    let mut all = seen(&[("h1", true), ("h1", true)], &spec);
    let memory = settled(&all, &Memory::default(), 100).memory;
    let held = settled(&all, &memory, 200);
    assert_eq!(goes(&held), [] as [&str; 0]);
    let (_, message) = condition(&all, &held, 200, "Progressing");
    assert!(message.contains("no node can be a canary: rollout.canary matches none"), "{message}");
    Arc::make_mut(&mut all.nodes[1]).labels.insert("ring".to_owned(), "first".to_owned());
    assert_eq!(goes(&settled(&all, &memory, 200)), ["p1"]);
}

#[test]
fn a_name_that_no_daemonset_can_have_is_named_also_where_no_schema_refused_it() {
    let object = json!({ "apiVersion": "oneagent-operator.github.io/v1alpha1", "kind": "DaemonSetRollout",
        "metadata": { "name": "a", "namespace": "n" }, "spec": { "daemonSet": "Agent" } });
    let why = crate::daemonset_rollout::resolve::resolve(&serde_json::from_value(object).unwrap()).unwrap_err();
    assert!(why.contains("spec.daemonSet is \"Agent\", which is no name of a DaemonSet"), "{why}");
}
