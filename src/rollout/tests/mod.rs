//! Guard, ledger and memory, and the whole engine for a kind whose revisions are plain numbers.
//!
//! What a kind's revisions make of it is tried with that kind.

mod histories;
mod replicas;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::calendar::Blackout;
use super::decide::plan_by;
use super::guard::Guard;
use super::ledger::Ledger;
use super::*;

/// A revision that knows no version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Number(u32);

impl Revision for Number {
    fn is_another_release(&self, than: &Self) -> bool {
        self != than
    }

    fn supersedes(&self, other: &Self) -> bool {
        self.0 > other.0
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "number {}", self.0)
    }
}

const WORDS: Words = Words {
    undecided: "nobody has counted",
    authority: "the one who counts",
    place: "place",
    places: "places",
    lacking: "empty",
    template: "the template",
    closes: "a gate",
};

thread_local! {
    /// The rules to plan by; `None`: all of them.
    static RULES: Cell<Option<&'static Rules<Number>>> = const { Cell::new(None) };
}

fn plan(
    policy: &Policy,
    desired: Option<&Desired<Number>>,
    inventory: &Inventory<'_, Number>,
    now: DateTime<Utc>,
) -> Plan<Number> {
    plan_by(RULES.get().unwrap_or(Rules::ALL), policy, desired, inventory, now)
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + second, 0).unwrap()
}

fn policy(budget: u32) -> Policy {
    Policy::plain(Share::Count(budget), TimeDelta::seconds(300))
}

fn pod(number: usize, ready: bool) -> Arc<Pod<Number>> {
    let named = Pod::named(&format!("p{number}"), &format!("n{number}"));
    Arc::new(Pod { revision: Some(Number(1)), ready_since: ready.then_some(DateTime::UNIX_EPOCH), ..named })
}

/// A place for each Pod; the outdated are those that were made from 1.
fn places(pods: &[Arc<Pod<Number>>]) -> Vec<Place<'_, Number>> {
    let standing =
        |pod: &Pod<Number>| if pod.revision == Some(Number(1)) { Standing::Outdated } else { Standing::Current };
    let place =
        |pod| Place { occupant: Some(Occupant { pod, standing: standing(pod) }), ..Place::plain(&pod.node, None) };
    pods.iter().map(place).collect()
}

/// Closed to new Pods, for a while.
fn closed() -> Selection {
    Selection::Closed(Closed { name: "gate", by: None, keeps_pods: true, may_open: true })
}

proptest! {
    /// A planner that lies: it wants everything gone, at once or bit by bit, and calls it free.
    #[test]
    fn whatever_a_planner_wants_no_more_than_the_budget_is_in_flight(
        size in 1usize..30, budget in 1u32..6,
            wishes in proptest::collection::vec((any::<usize>(), any::<bool>()), 1..200),
    ) {
        let pods: Vec<Arc<Pod<Number>>> = (0..size).map(|number| pod(number, number % 3 != 0)).collect();
        let (mut ledger, guard) = (Ledger::default(), Guard::count(&policy(budget), &places(&pods), at(0)));
        let (mut running, mut broken) = (HashSet::new(), HashSet::new());
        for (wish, comes_back) in wishes {
            let number = wish % size;
            let gone = &pods[number];
            if comes_back {
                running.remove(&gone.node);
                broken.remove(&gone.node);
                // The watch shows every other place without a Pod, and this one with a new one.
                let back = Arc::new(Pod { id: "new".into(), ready_since: Some(at(0)), ..(**gone).clone() });
                let seen = |other: &'_ Arc<Pod<Number>>| other.node == gone.node;
                let occupant = |other| seen(other).then_some(Occupant { pod: &back, standing: Standing::Current });
                let shown: Vec<Place<'_, Number>> = pods.iter().map(|other| Place { occupant: occupant(other),
                    ..Place::plain(&other.node, None) }).collect();
                ledger = ledger.settled(&policy(budget), &shown, at(0));
            } else if ledger.begin(&guard, &gone.node, &gone.id, at(0)).is_some() {
                if gone.ready_since.is_some() { &mut running } else { &mut broken }.insert(gone.node.clone());
            }
            prop_assert!(running.len() <= budget as usize, "{} running agents, budget {budget}", running.len());
            prop_assert!(broken.len() <= budget as usize, "{} broken ones, budget {budget}", broken.len());
        }
    }
}

#[test]
fn a_planner_that_lies_takes_nothing_while_held_nor_from_places_that_are_closed_or_busy() {
    let pods = [pod(0, true), pod(1, true), pod(2, true)];
    let mut places = places(&pods);
    places[1].selection = closed();
    places[2].busy = Some("cordoned".into());
    let guard = Guard::count(&policy(5), &places, at(0));
    assert!(guard.admits("p0", 0) && !guard.admits("p1", 0) && !guard.admits("p2", 0));
    let hold = Hold { state: State::Paused, why: Cow::Borrowed("") };
    assert!(!Guard::count(&Policy { hold: Some(hold), ..policy(5) }, &places, at(0)).admits("p0", 0));
    let blackout = Blackout { from: at(-1), to: at(1), reason: None };
    let calendar = Calendar { windows: Vec::new(), blackouts: vec![blackout] };
    let policy = Policy { calendar, ..policy(5) };
    assert!(!Guard::count(&policy, &places, at(0)).admits("p0", 0));
    assert!(Guard::count(&policy, &places, at(1)).admits("p0", 0));
}

#[test]
fn the_guard_counts_places_and_running_agents_itself() {
    let pods = [pod(0, true), pod(1, false), pod(2, true), pod(3, true), pod(4, true)];
    let mut places = places(&pods);
    places[4].selection = closed();
    let guard = Guard::count(&Policy { budget: Share::Percent(50), ..policy(1) }, &places, at(0));
    assert!(guard.admits("", 1) && !guard.admits("", 2), "half of four, for the fifth is not selected");
    assert!(guard.costs("p0") && !guard.costs("p1"));
    assert!(guard.costs("nobody's"), "whose Pod that is nobody knows");
}

#[test]
fn a_planner_that_lies_takes_no_more_of_a_zone_than_it_allows() {
    let pods: Vec<Arc<Pod<Number>>> = (0..6).map(|number| pod(number, number != 5)).collect();
    let mut places = places(&pods);
    for place in &mut places[..3] {
        place.zone = Some("a");
    }
    let zoned = Policy { per_zone: Some(Share::Count(1)), ..policy(5) };
    let (mut ledger, guard) = (Ledger::default(), Guard::count(&zoned, &places, at(0)));
    let mut taken = |number: usize| ledger.begin(&guard, &pods[number].node, &pods[number].id, at(0)).is_some();
    assert!(taken(0) && !taken(1) && !taken(2), "one of three in zone a");
    assert!(taken(3) && !taken(4), "those without a zone are together");
    assert!(taken(5), "it costs no agent");
    assert!(ledger.begin(&guard, &"unknown".into(), &"unknown".into(), at(0)).is_none(), "nobody knows its zone");
}

#[test]
fn a_place_is_in_flight_until_its_agent_is_available() {
    let pods = [pod(1, true), pod(2, true)];
    let slow = Policy { min_ready: TimeDelta::seconds(30), ..policy(1) };
    let guard = Guard::count(&slow, &places(&pods), at(0));
    let mut ledger = Ledger::default();
    assert!(ledger.begin(&guard, &pods[0].node, &pods[0].id, at(0)).is_some());
    assert!(ledger.begin(&guard, &pods[1].node, &pods[1].id, at(0)).is_none());
    assert_eq!(ledger.deleted(), HashSet::from(["p1".into()]));
    let unready = Arc::new(Pod { id: "new".into(), ..(*pod(1, false)).clone() });
    let ready = Arc::new(Pod { ready_since: Some(at(10)), ..(*unready).clone() });
    for (what, shown, now, in_flight, latest) in [
        ("the old Pod is still shown", Some(&pods[0]), 1, 1, Some(at(0))),
        ("there is none", None, 2, 1, Some(at(0))),
        ("it is not Ready", Some(&unready), 3, 1, Some(at(0))),
        ("it is Ready, and must stay so", Some(&ready), 20, 1, None),
        ("it is available", Some(&ready), 40, 0, None),
    ] {
        let place = Place {
            occupant: shown.map(|pod| Occupant { pod, standing: Standing::Current }),
            ..Place::plain(&pods[0].node, None)
        };
        ledger = ledger.settled(&slow, &[place], at(now));
        assert_eq!((ledger.lost().len(), ledger.latest()), (in_flight, latest), "{what}");
    }
    assert!(ledger.deleted().is_empty(), "the watch does not show the Pod any more");
    let entry = ledger.begin(&guard, &pods[1].node, &pods[1].id, at(50)).unwrap();
    ledger.undo(&entry);
    assert_eq!(ledger, Ledger::default(), "what was refused never was");
}

#[test]
fn a_deletion_that_is_never_shown_never_happened_and_what_is_drained_or_gone_is_not_waited_for() {
    let pods = [pod(1, true)];
    let guard = Guard::count(&policy(1), &places(&pods), at(0));
    let mut ledger = Ledger::default();
    ledger.begin(&guard, &pods[0].node, &pods[0].id, at(0)).unwrap();
    let shown = places(&pods);
    assert_eq!(ledger.settled(&policy(1), &shown, at(89)).lost().len(), 1);
    // Its answer was lost, and the Pod is there as before.
    let believed_no_more = ledger.settled(&policy(1), &shown, at(90));
    assert!(believed_no_more.deleted().is_empty());
    assert!(believed_no_more.settled(&policy(1), &shown, at(91)).lost().is_empty(), "its agent runs");
    let away = Place {
        is_ready: false,
        busy: Some("the node is cordoned".into()),
        ..Place::<Number>::plain(&pods[0].node, None)
    };
    assert_eq!(ledger.settled(&policy(1), &[away], at(1)).lost().len(), 1, "while it is NotReady nobody can say");
    let drained = Place { busy: Some("the node is cordoned".into()), ..Place::<Number>::plain(&pods[0].node, None) };
    assert!(ledger.settled(&policy(1), &[drained], at(1)).lost().is_empty());
    assert!(ledger.settled::<Number>(&policy(1), &[], at(1)).lost().is_empty(), "it was removed");
}

#[test]
fn a_broken_pod_is_in_flight_until_there_is_another() {
    let pods = [pod(0, false), pod(3, false)];
    let guard = Guard::count(&policy(1), &places(&pods), at(0));
    let mut ledger = Ledger::default();
    assert!(ledger.begin(&guard, &pods[0].node, &pods[0].id, at(0)).is_some());
    assert!(ledger.lost().is_empty(), "no agent is missing because of us");
    ledger = ledger.settled(&policy(1), &[Place::<Number>::plain(&pods[0].node, None)], at(1));
    assert!(ledger.begin(&guard, &pods[1].node, &pods[1].id, at(1)).is_none());
    let another = Arc::new(Pod { id: "new".into(), ..(*pods[0]).clone() });
    let there = Place {
        occupant: Some(Occupant { pod: &another, standing: Standing::Current }),
        ..Place::plain(&pods[0].node, None)
    };
    ledger = ledger.settled(&policy(1), &[there], at(2));
    assert!(ledger.begin(&guard, &pods[1].node, &pods[1].id, at(2)).is_some());
}

#[test]
fn revisions_of_any_kind_are_rolled_out_and_named_as_the_kind_names_them() {
    let (none, lost, missing) = (HashSet::new(), HashMap::new(), HashMap::new());
    let memory =
        Memory { last_good: Some(Number(1)), phase: Phase::Rolling { since: at(0), stall: None }, ..Memory::default() };
    let mut pods: Vec<Arc<Pod<Number>>> = (0..4).map(|number| pod(number, true)).collect();
    let made = Pod {
        revision: Some(Number(2)),
        created: at(1),
        ready_since: None,
        trouble: Some(Trouble::Crash("it crashes".into())),
        ..(*pods[0]).clone()
    };
    let step = |pods: &[Arc<Pod<Number>>], desired: Option<&Desired<Number>>| {
        let inventory = Inventory {
            places: &places(pods),
            workloads: &[],
            template: Some(&Number(2)),
            writes_template: true,
            settled: true,
            deleted: &none,
            lost: &lost,
            freed: &none,
            missing: &missing,
            deciding_since: at(-10),
            in_contact_since: chrono::DateTime::UNIX_EPOCH,
            source: Source::NotNeeded,
            refused: None,
            words: WORDS,
            memory: &memory,
        };
        plan(&policy(1), desired, &inventory, at(5))
    };
    let desired = Desired { revision: Number(2), insists: false };
    let first: Vec<String> = step(&pods, Some(&desired)).steps.iter().map(|step| step.pod.name.to_string()).collect();
    assert_eq!(first, ["p0"]);
    assert_eq!(step(&pods, None).report.waiting_on, [WaitingOn::Decision("nobody has counted")]);
    pods[0] = Arc::new(made);
    let failed = step(&pods, Some(&desired));
    assert_eq!(failed.template, Template::GoBack);
    assert_eq!(failed.memory.failure.unwrap().message, "number 2 failed on 1 of 1 places it reached (n0): it crashes");
}

fn full() -> Memory<Number> {
    Memory {
        phase: Phase::Rolling {
            since: at(1),
            stall: Some(Stall { revision: Number(2), phase: StallPhase::Trial, since: at(4), tries: 2 }),
        },
        from: Some(Number(1)),
        last_good: Some(Number(1)),
        completed: Some(Number(0)),
        failure: Some(Failure {
            revision: Number(2),
            rejects: true,
            insisted: true,
            message: "it failed".into(),
            places: vec!["a".into()],
            at: Some(at(9)),
            only_lost: true,
            by_hand: false,
            earlier: vec![Number(0)],
            workloads: vec!["w".into()],
            whole_since: Some(at(6)),
        }),
        back: Some(Back { from: Number(2), to: Number(1), place: Some("a".into()), phase: BackPhase::Going }),
        withdrawn: Some(Withdrawn { revision: Number(2), times: 1 }),
        proof: Some(Proof {
            revision: Number(2),
            since: Some(at(5)),
            served: 7,
            passed: true,
            places: ["b".to_owned()].into(),
            made: ["b".to_owned()].into(),
        }),
        touched: Touched {
            closed: ["c".to_owned()].into(),
            since: Some(at(0)),
            joined_after: Some(at(1)),
            away: [("a".to_owned(), None), ("b".to_owned(), Some(at(3)))].into(),
            broken: ["c".to_owned()].into(),
            lacking: [("e".to_owned(), 2)].into(),
            flapping: ["d".to_owned()].into(),
        },
        outage: Some(Outage { since: at(5), until: Some(at(6)) }),
    }
}

#[test]
fn a_memory_reads_back_as_it_was_written_and_what_makes_no_sense_is_left_out() {
    let stored = |memory: &Memory<Number>| serde_json::to_value(memory).unwrap();
    let read = |value| serde_json::from_value::<Memory<Number>>(value).unwrap();
    let complete = Memory { phase: Phase::Complete { since: Some(at(1)), at: at(9) }, ..full() };
    for memory in [full(), complete, Memory::default()] {
        assert_eq!(read(stored(&memory)), memory);
    }
    // Of one field that is invalid the others suffer nothing.
    for key in ["phase", "from", "lastGood", "completed", "failure", "withdrawn", "touched", "outage"] {
        let mut broken = stored(&full());
        assert!(!broken[key].is_null(), "{key}");
        broken[key] = json!({ "no": ["sense"] });
        let expected = match key {
            "phase" => Memory { phase: Phase::Idle, ..full() },
            "from" => Memory { from: None, ..full() },
            "lastGood" => Memory { last_good: None, ..full() },
            "completed" => Memory { completed: None, ..full() },
            "failure" => Memory { failure: None, ..full() },
            "withdrawn" => Memory { withdrawn: None, ..full() },
            "touched" => Memory { touched: Touched::default(), ..full() },
            _ => Memory { outage: None, ..full() },
        };
        assert_eq!(read(broken), expected, "{key}");
    }
    // What is there can be counted on.
    for (served, expected) in [(json!(i64::MAX), 316_224_000), (json!(-1), 0), (json!("long"), 0)] {
        let mut broken = stored(&full());
        broken["proof"]["served"] = served;
        assert_eq!(read(broken).proof.map(|proof| proof.served), Some(expected));
    }
    let nonsense = json!({ "phase": "Deeply", "touched": { "since": "then", "away": 7, "broken": "x" },
        "outage": { "since": "once" } });
    assert_eq!(read(nonsense), Memory::default());
}
