//! Status: the state of each component, in the words of conditions.
//!
//! Pure. Must not decide what is done.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::act::Done;
use super::observe::Seen;
use super::part::{Part, Plan, State};
use crate::api::condition::{Transition, merge};
use crate::api::manager::condition::{ConditionType as C, Finding, Reason as R};
use crate::api::manager::{Activity, ComponentStatus, Manager, ManagerStatus, Summary};
use crate::stack::table::Table;

/// What a status is made from.
pub struct StatusFacts<'p> {
    pub object: &'p Manager,
    pub seen: &'p Seen,
    pub plan: &'p Plan,
    pub done: &'p Done,
    /// What keeps failing.
    pub complaint: Option<&'p (R, String)>,
}

/// The status, and what changed in it.
#[must_use]
pub fn status(
    table: &Table,
    facts: &StatusFacts<'_>,
    before: &ManagerStatus,
    now: DateTime<Utc>,
) -> (ManagerStatus, Vec<Transition>) {
    let parts: Vec<(&Part, State)> = facts.plan.parts.iter().map(|part| (part, state(part, facts.done))).collect();
    let summary = summary(&parts);
    let findings = findings(facts, &parts, &summary);
    let generation = facts.object.metadata.generation;
    let (conditions, transitions) = merge(&before.conditions, &findings, generation, now);
    let status = ManagerStatus {
        observed_generation: generation,
        operator_namespace: before.operator_namespace.clone(),
        components: parts.iter().map(|(part, state)| component(table, part, state)).collect(),
        summary: Some(summary),
        conditions,
        services: activity(table, &parts),
    };
    (status, transitions)
}

/// The state of a component after what was done: what was written a moment ago its controller has not seen.
fn state(part: &Part, done: &Done) -> State {
    let of = (part.row, part.name.clone());
    if let Some((_, why)) = done.refused.get(&of) {
        return State::Refused(why.clone());
    }
    if part.state == State::Serving && done.written.contains(&of) { State::Starting } else { part.state.clone() }
}

/// What a state says, beside its name.
fn why(state: &State) -> Option<&str> {
    match state {
        State::Serving | State::Starting => None,
        State::Waiting(why)
        | State::Updating(why)
        | State::Held(why)
        | State::Growing(why)
        | State::Outdated(why)
        | State::Unplaced(why)
        | State::Refused(why)
        | State::Invalid(why) => Some(why),
    }
}

fn component(table: &Table, part: &Part, state: &State) -> ComponentStatus {
    let trouble = part.trouble.as_deref().or(part.unbound.as_deref()).filter(|_| *state != State::Serving);
    ComponentStatus {
        name: part.name.clone(),
        service: table.rows[part.row].key.clone(),
        state: state.to_string(),
        ready: if part.exists { format!("{}/{}", part.ready, part.desired) } else { String::new() },
        waiting_for: why(state).or(trouble).map(str::to_owned),
        version: part.version.clone(),
    }
}

/// Each service as in the spec, with whether its components serve.
fn activity(table: &Table, parts: &[(&Part, State)]) -> Activity {
    let mut services: BTreeMap<String, Value> = BTreeMap::new();
    for (part, state) in parts {
        let row = &table.rows[part.row];
        let one = json!({ "name": part.name, "active": *state == State::Serving });
        if row.many {
            let all = services.entry(row.key.clone()).or_insert_with(|| json!([]));
            all.as_array_mut().into_iter().for_each(|all| all.push(one.clone()));
        } else {
            services.insert(row.key.clone(), one);
        }
    }
    Activity(services)
}

fn summary(parts: &[(&Part, State)]) -> Summary {
    let count = |is_it: fn(&State) -> bool| {
        i32::try_from(parts.iter().filter(|(_, state)| is_it(state)).count()).unwrap_or(i32::MAX)
    };
    let (components, serving) = (count(|_| true), count(|state| *state == State::Serving));
    let (starting, waiting) = (
        count(|state| matches!(state, State::Starting | State::Updating(_) | State::Growing(_))),
        count(|state| matches!(state, State::Waiting(_) | State::Held(_))),
    );
    let first = parts.iter().find_map(|(part, state)| match state {
        State::Waiting(why) => Some(format!("{} waits for {why}", part.name)),
        _ => None,
    });
    let starts = || {
        let is_starting = |(_, state): &&(&Part, State)| *state == State::Starting;
        parts.iter().find(is_starting).map(|(part, _)| format!("{}: {}/{}", part.name, part.ready, part.desired))
    };
    Summary {
        components,
        serving,
        starting,
        waiting,
        failing: components - serving - starting - waiting,
        progress: format!("{serving}/{components}"),
        waiting_for: first.or_else(starts),
    }
}

fn findings(facts: &StatusFacts<'_>, parts: &[(&Part, State)], summary: &Summary) -> Vec<Finding> {
    let Summary { components, serving, .. } = summary;
    let progress = format!("{serving} of {components} components serve");
    let trouble = facts.complaint.cloned().or_else(|| trouble(facts, parts));
    let is_update = |(_, state): &&(&Part, State)| matches!(state, State::Updating(_));
    let first_update = parts.iter().find(is_update).map(|(part, _)| &*part.name);
    let starts: Vec<String> = parts
        .iter()
        .filter_map(|(part, state)| match state {
            State::Starting => {
                let unbound = part.unbound.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                Some(format!("{} starts ({}/{}){unbound}", part.name, part.ready, part.desired))
            }
            State::Growing(_) => Some(format!("{} grows ({}/{})", part.name, part.ready, part.desired)),
            // Of several the first has its turn.
            State::Updating(why) if first_update == Some(&*part.name) => Some(format!("{}: {why}", part.name)),
            State::Updating(_) => Some(format!("{} comes later", part.name)),
            State::Waiting(why) => Some(format!("{} waits for {why}", part.name)),
            _ => None,
        })
        .collect();
    // What holds several is said once.
    let mut held: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (part, state) in parts {
        if let State::Held(why) = state {
            held.entry(why).or_default().push(&part.name);
        }
    }
    let starts = if starts.is_empty() { String::new() } else { format!("; {}", starts.join("; ")) };
    let is_whole = serving == components && *components > 0 && facts.seen.resolved.problems.is_empty();
    let ready = if is_whole {
        Finding::new(C::Ready, true, R::AllServing, format!("all {components} components serve"))
    } else if facts.seen.stopped {
        let message = format!("{progress}; nothing is changed: to continue, delete key stop of ConfigMap tf-operator");
        Finding::new(C::Ready, false, R::Stopped, message)
    } else if let Some((reason, message)) = &trouble {
        Finding::new(C::Ready, false, *reason, format!("{progress}; {message}{starts}"))
    } else if starts.is_empty() && !held.is_empty() {
        let held: Vec<String> = held
            .into_iter()
            .map(|(why, names)| format!("{}: Pods of an earlier template, of which {why}", names.join(", ")))
            .collect();
        Finding::new(C::Ready, false, R::Held, format!("{progress}; {}", held.join("; ")))
    } else {
        Finding::new(C::Ready, false, R::StandingUp, format!("{progress}{starts}"))
    };
    let is_at_work = !starts.is_empty() && !facts.seen.stopped && facts.complaint.is_none();
    let progressing = if is_at_work {
        Finding::new(C::Progressing, true, R::StandingUp, format!("{progress}{starts}"))
    } else {
        Finding::new(C::Progressing, false, ready.reason, "no component is being created, or starts")
    };
    let degraded = match trouble {
        Some((reason, message)) => Finding::new(C::Degraded, true, reason, message),
        None => Finding::new(C::Degraded, false, R::AsExpected, "nothing needs attention"),
    };
    let ignored = &facts.seen.resolved.ignored;
    let ignored = if ignored.is_empty() {
        Finding::new(C::NotCarriedOut, false, R::AsExpected, "all services of the spec are carried out")
    } else {
        Finding::new(C::NotCarriedOut, true, R::Ignored, ignored.join("; "))
    };
    vec![ready, progressing, degraded, ignored]
}

/// What needs a human.
fn trouble(facts: &StatusFacts<'_>, parts: &[(&Part, State)]) -> Option<(R, String)> {
    let mut all: Vec<(R, String)> =
        facts.seen.resolved.problems.iter().map(|why| (R::InvalidComponent, why.clone())).collect();
    // What several lack is said once.
    let mut unplaced: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    all.extend(facts.done.authority.iter().map(|why| (R::NameTaken, why.clone())));
    all.extend(facts.plan.authority.iter().filter_map(|authority| authority.trouble.clone()));
    all.extend(parts.iter().filter_map(|(part, _)| Some((R::CertificatesExpiring, part.late.clone()?))));
    for (part, state) in parts {
        let name = &part.name;
        let (ready, desired) = (part.ready, part.desired);
        match state {
            State::Invalid(why) => all.push((R::InvalidComponent, why.clone())),
            State::Unplaced(why) => unplaced.entry(why).or_default().push(name),
            State::Refused(why) => {
                let refused = facts.done.refused.get(&(part.row, name.clone()));
                all.push((refused.map_or(R::NameTaken, |(reason, _)| *reason), format!("{name}: {why}")));
            }
            State::Outdated(why) => all.push((R::NotChanged, format!("{name}: {why}"))),
            State::Serving => {}
            State::Starting | State::Updating(_) | State::Held(_) | State::Growing(_) | State::Waiting(_) => {
                // One is missing because of a change.
                let is_lost = ready + usize::from(matches!(state, State::Updating(_))) < part.placed;
                if part.trouble.is_none() && is_lost && !part.left.is_empty() {
                    let left = part.left.join(", ");
                    let verb = if part.left.len() == 1 { "needs" } else { "need" };
                    let why = format!("{name} does not serve ({ready}/{desired}), and {left} {verb} it");
                    all.push((R::ComponentsUnavailable, why));
                }
                let failing = part.trouble.as_ref().or(part.overdue.as_ref());
                all.extend(failing.map(|why| (R::PodsFailing, format!("{name}: {why}"))));
            }
        }
    }
    all.extend(unplaced.into_iter().map(|(why, names)| (R::NoNodes, format!("{}: {why}", names.join(", ")))));
    let reason = all.first()?.0;
    let said: Vec<String> = all.into_iter().map(|(_, why)| why).collect();
    Some((reason, said.join("; ")))
}
