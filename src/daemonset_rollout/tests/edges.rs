//! Revisions that are one, a field that stays in the spec, a revert outside of windows, a DaemonSet that is recreated.
//!
//! Pure. Must not repeat the engine's rules.

use super::*;
use crate::rollout::{Standing, State};

/// A fleet of the sample's chart: `h2` and `h3` differ in an annotation that is ignored.
fn of_one_chart(pods: &[(&str, bool)], rollout: &Value) -> Seen {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3, "ignore": ["helm.sh/chart"], "rollout": rollout });
    let mut all = seen(pods, &spec);
    let (one, two, three) = (template("a:1", "c-1"), template("a:2", "c-1"), template("a:2", "c-2"));
    let set = set(&three);
    let known = [revision("h1", 1, "d", &one), revision("h2", 2, "d", &two), revision("h3", 3, "d", &three)];
    all.revisions = Current::Known(revisions(&set, &known, &all.resolved.ignore).unwrap());
    all.set = Some(Arc::new(set));
    all
}

#[test]
fn a_field_that_this_program_does_not_know_makes_another_revision() {
    let with = |field: &Value| {
        let mut template = template("a:1", "c-1");
        template["spec"]["containers"][0]["aFieldOfALaterRelease"] = field.clone();
        template
    };
    let (one, two) = (with(&json!("a")), with(&json!("b")));
    let all = [revision("h1", 1, "d", &one), revision("h2", 2, "d", &two)];
    for ignore in [vec![], vec!["helm.sh/chart".to_owned()]] {
        let known = revisions(&set(&two), &all, &ignore).unwrap();
        assert_eq!(known.alike, BTreeSet::from(["h2".to_owned()]), "{ignore:?}");
    }
}

#[test]
fn a_change_of_what_is_ignored_takes_back_no_verdict_and_no_rollout() {
    let all = seen(
        &[("h1", true), ("h1", true)],
        &json!({ "daemonSet": "a", "debounceSeconds": 3,
        "ignore": ["helm.sh/chart"], "rollout": { "reject": "h2" } }),
    );
    let settling = settled(&all, &Memory::default(), 100);
    let failed = settled(&all, &settling.memory, 200).memory;
    assert_eq!(failed.engine.failure.as_ref().unwrap().revision.0, "h2");
    // The chart is deployed once more: another hash, and nothing else.
    let other = of_one_chart(&[("h1", true), ("h1", true)], &json!({ "reject": "h2" }));
    let plan = settled(&other, &failed, 300);
    assert_eq!((plan.decision.report.state, goes(&plan)), (State::Failed, vec![]));
    assert_eq!(plan.memory.template.as_ref().unwrap().changes, failed.template.as_ref().unwrap().changes);
    // The word may name either.
    let by_other = of_one_chart(&[("h1", true), ("h1", true)], &json!({ "reject": "h3" }));
    assert_eq!(settled(&by_other, &failed, 300).decision.report.state, State::Failed);
    let retried = of_one_chart(&[("h1", true), ("h1", true)], &json!({ "retry": "h3" }));
    assert_eq!(settled(&retried, &failed, 400).memory.engine.failure, None);
}

#[test]
fn what_was_tried_again_and_completed_is_not_tried_again_when_it_fails_later() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": { "retry": "h2" } });
    let standing_of = |good: Option<&str>| {
        let all = seen(&[("h2", false)], &spec);
        let mut memory = Memory::default().retrying(Some(&"h2".to_owned()), at(50));
        memory.engine.last_good = good.map(|hash| Revision(hash.to_owned()));
        let places = crate::daemonset_rollout::places::places(&all, &memory);
        places[0].occupant.unwrap().standing
    };
    assert_eq!(standing_of(Some("h1")), Standing::Outdated);
    assert_eq!(standing_of(Some("h2")), Standing::Current);
}

#[test]
fn outside_of_windows_broken_pods_of_a_reverted_template_are_replaced_and_no_other() {
    let spec = json!({ "daemonSet": "a", "debounceSeconds": 3, "rollout": { "maxUnavailable": 2,
        "blackouts": [{ "from": "1970-01-01T00:00:00Z", "to": "1971-01-01T00:00:00Z" }] } });
    let mut all = seen(&[("h2", false), ("h2", true), ("h1", true)], &spec);
    // The template is h1 again.
    let one = template("a:1", "c-1");
    let set = set(&one);
    let known = [revision("h1", 3, "d", &one), revision("h2", 2, "d", &template("a:2", "c-1"))];
    all.revisions = Current::Known(revisions(&set, &known, &[]).unwrap());
    all.set = Some(Arc::new(set));
    let mut memory = Memory::default().seeing("d", &Revision("h1".to_owned()), at(0));
    memory.engine.last_good = Some(Revision("h1".to_owned()));
    let failure = crate::rollout::Failure::of(Revision("h2".to_owned()), false, "it failed".to_owned());
    memory.engine.failure = Some(failure);
    let plan = settled(&all, &memory, 1000);
    assert_eq!(goes(&plan), ["p0"], "{:?}", plan.decision.report.waiting_on);
    let step = &plan.decision.steps[0];
    let mut ledger = plan.ledger.clone();
    assert!(ledger.begin(&plan.guard, &step.place, &step.pod.id, at(1000)).is_some(), "the guard admits it");
    memory.engine.failure = None;
    assert_eq!(goes(&settled(&all, &memory, 1000)), [] as [&str; 0]);
}

#[test]
fn of_a_daemonset_that_is_recreated_no_rollback_is_remembered() {
    let (failed, to) = (Revision("h2".to_owned()), Revision("h1".to_owned()));
    let rollback = Rollback { failed, to: to.clone(), generation: Some(1), is_done: true, is_over: false };
    let memory = Memory { rollback: Some(rollback), ..Memory::default() }.seeing("d", &to, at(0));
    assert!(!memory.clone().of("d").rollback.unwrap().is_over);
    assert!(memory.of("e").rollback.unwrap().is_over);
}
