//! Plan: the state of each component, what of it may be written, and what is not wanted any more.
//!
//! Pure: what is known comes in. Must not write anything.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::blueprint::{Blueprint, companion_name, files_name, secret_name, workload_name};
use super::certificates::{Certified, Trust};
use super::contents::{Unread, files};
use super::fleet::{Inner, Objects};
use super::identity::Enrol;
use super::leaves::{Issue, certificates_name};
use super::live::{newest_generation, newest_revision};
use super::part::{Facts, Of, Part, Plan, State, Surplus};
use super::place::{Found, found, unbound, unplaced};
use super::pods::Server;
use super::reads;
use super::replace::{PROVES, Turn, has_better_node, replacement};
use super::resolve::{Component, Resolved};
use super::strangers::{images, strangers};
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::stack::files::Files;
use crate::stack::members::{Members, Next};
use crate::stack::order::{Standing, left_without, waits_for};
use crate::stack::table::{Row, Table, Workload};

/// A server that is not Ready for so long is said to need a human, as a Deployment's that makes no progress.
const READY_WITHIN: TimeDelta = TimeDelta::minutes(10);

/// Plans one reconcile.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let Facts { table, resolved, all, .. } = *facts;
    // All addresses are known before a Pod is.
    let found: Vec<Found> = resolved.components.iter().map(|one| found(facts, one)).collect();
    let trust = Trust::of(facts);
    let mut parts = Vec::new();
    let (mut turns, mut nexts, mut certified) = (Vec::new(), Vec::new(), Vec::new());
    for (one, own) in resolved.components.iter().zip(&found) {
        let of = trust.as_ref().map(|trust| trust.certified(&table.rows[one.row], one, own)).unwrap_or_default();
        let Drawn { part, is_settled, next } = part(facts, one, (own, &of), &found);
        parts.push(part);
        turns.push(is_settled);
        nexts.push(next);
        certified.push(of);
    }
    let standings: Vec<(usize, String, bool, bool)> =
        parts.iter().map(|part| (part.row, part.name.clone(), part.state == State::Serving, part.exists)).collect();
    let standings: Vec<Standing<'_>> = standings
        .iter()
        .map(|(row, name, serves, exists)| Standing { row: *row, name, serves: *serves, exists: *exists })
        .collect();
    for ((part, component), standing) in parts.iter_mut().zip(&resolved.components).zip(&standings) {
        if !part.exists && part.state == State::Starting {
            let waits = waits_for(table, part.row, &standings, |kind| component.reference(table, kind));
            if !waits.is_empty() {
                part.state = State::Waiting(waits.join(", "));
                part.objects.clear();
            }
        }
        if part.exists && part.state != State::Serving {
            let kind = &table.rows[part.row].kind;
            let needs = |one: &Standing<'_>, lost: Standing<'_>| {
                let is_it = |component: &&Component| component.row == one.row && component.name == one.name;
                let component = resolved.components.iter().find(is_it);
                component.is_some_and(|one| one.means(table, kind, lost.name))
            };
            let left = left_without(table, *standing, &standings, needs);
            part.left = left.into_iter().map(str::to_owned).collect();
        }
    }
    let (issues, changes) = issues(facts, certified, &mut parts, &mut turns);
    let has_certificates = |part: &Part| table.rows[part.row].certificates && part.exists;
    let are_settled = parts.iter().zip(&turns).all(|(part, is_settled)| *is_settled || !has_certificates(part));
    let authority = trust.map(|trust| trust.plan(are_settled));
    let Turn { replacement, next, waits_for } = replacement(facts, &parts, &turns);
    let is_held = parts.iter().any(|part| matches!(part.state, State::Held(_)));
    let opens = resolved.rollout.calendar.changes(facts.now).filter(|_| is_held);
    let renews = changes.into_iter().chain(authority.as_ref().and_then(|authority| authority.next));
    let overdue = overdue_at(facts, &parts);
    let next = next.into_iter().chain(opens).chain(renews).chain(overdue).min();
    for part in &mut parts {
        if let (State::Updating(why), Some(pod)) = (&mut part.state, &waits_for) {
            let _ = write!(why, "; the next one follows once Pod {pod} has been Ready for {} s", PROVES.num_seconds());
        }
    }
    // A store that changes otherwise gets no further server.
    let enrolments =
        if replacement.is_some() { Vec::new() } else { enrolments(table, resolved, &parts, &found, nexts) };
    Plan { surplus: surplus(table, resolved, all), parts, replacement, enrolments, authority, issues, next }
}

/// Certificates that are to be issued, and when others may be. A component whose servers lack one is not written.
fn issues(
    facts: &Facts<'_>,
    certified: Vec<Certified>,
    parts: &mut [Part],
    turns: &mut [bool],
) -> (Vec<(Of, Issue)>, Option<DateTime<Utc>>) {
    let mut issues = Vec::new();
    let mut next: Option<DateTime<Utc>> = None;
    for ((part, of), is_settled) in parts.iter_mut().zip(certified).zip(turns) {
        let changes = of.changes_at().filter(|at| *at > facts.now).min();
        next = next.into_iter().chain(changes).min();
        if part.objects.is_empty() {
            continue;
        }
        if let Some(why) = of.lacks {
            part.state = State::Waiting(why);
            part.objects.clear();
            *is_settled = false;
        }
        issues.extend(of.issue.map(|issue| ((part.row, part.name.clone()), issue)));
    }
    (issues, next)
}

/// What identifies components that may be created, and stores whose servers become others.
fn enrolments(
    table: &Table,
    resolved: &Resolved,
    parts: &[Part],
    found: &[Found],
    nexts: Vec<Next>,
) -> Vec<(Of, Enrol)> {
    let each = resolved.components.iter().zip(parts).zip(found).zip(nexts);
    let enrol = |(((component, part), found), next): (((&Component, &Part), &Found), Next)| {
        let row = &table.rows[component.row];
        let members = match next {
            Next::Become(members) => members,
            Next::Stay if row.store.is_none() && found.is_new(row) => Members::default(),
            Next::Stay | Next::Wait(_) => return None,
        };
        let over = found.identity.as_ref().and_then(|read| read.as_ref().ok());
        let is_due = match over {
            None if found.exists => may_be_written(&part.state),
            None => part.state == State::Starting,
            Some(_) => matches!(part.state, State::Growing(_) | State::Starting | State::Unplaced(_)),
        };
        let of = (component.row, component.name.clone());
        is_due.then(|| (of, Enrol::new(table, component, members, over)))
    };
    each.filter_map(enrol).collect()
}

/// A component's state.
struct Drawn {
    part: Part,
    /// Whether its new Pods are as the spec has them.
    is_settled: bool,
    /// What is next for a store's servers.
    next: Next,
}

/// A component's state, with what of it may be written.
fn part(facts: &Facts<'_>, component: &Component, (own, certified): (&Found, &Certified), found: &[Found]) -> Drawn {
    let Facts { table, resolved, all, now, .. } = *facts;
    let row = &table.rows[component.row];
    let (namespace, name) = (&*resolved.namespace, workload_name(row, &component.name));
    let Found { exists, live, nodes, .. } = own;
    let peers = own.peers.as_deref().unwrap_or_default();
    let exists = *exists;
    let (files, unread) = match files(facts, component, own, found) {
        Ok(files) => (files, None),
        Err(why) => (Files::default(), Some(why)),
    };
    // Before it exists, what it needs says better what it waits for.
    let is_early = !exists && matches!(unread, Some(Unread::Lacks(_)));
    let marks = certified.marks.as_ref();
    let blueprint = Blueprint { table, manager: resolved, component, nodes, peers, files: &files, earlier: &[], marks };
    let hash = blueprint.hash();
    let servers: Vec<&Server> =
        all.servers(namespace, &row.kind, &component.name).filter(|one| !one.is_ending).collect();
    let strangers = strangers(&servers, &images(row, component), newest(all, row, (namespace, &name)));
    let is_current = |one: &&&Server| one.template == hash && !strangers.contains(&one.uid);
    let earlier = servers.iter().filter(|one| !is_current(one)).count();
    let misplaced = servers.iter().filter(|one| is_current(one) && has_better_node(facts, (row, nodes), one)).count();
    // A Pod of an earlier template waits for its own files when it starts again, after its node did, say.
    let map = all.config_maps.get(namespace, &files_name(row, &component.name)).filter(|_| earlier > 0);
    let revisions = map.map(reads::revisions).unwrap_or_default();
    let objects = Blueprint { earlier: &revisions, ..blueprint }.objects();
    let workload = objects.last().unwrap_or(&Value::Null);
    let ready = servers.iter().filter(|one| one.ready_since.is_some()).count();
    let current = servers.iter().filter(|one| one.ready_since.is_some() && is_current(one)).count();
    let is_set = row.workload == Workload::StatefulSet;
    let (wanted, next) = own.next(facts, component);
    let desired = if is_set { component.replicas.unwrap_or(wanted) } else { live.desired };
    let placed = if is_set { nodes.len() } else { live.desired };
    let is_written = workload["metadata"]["annotations"][APPLIED_ANNOTATION] == *live.applied;
    let is_whole = is_written && live.is_observed && current == placed && (placed > 0 || !is_set);
    let state = if let Some(why) = &component.problem {
        State::Invalid(why.clone())
    } else if let Some((kind, owner)) = &live.foreign {
        if kind == "Manager" && *owner == resolved.name {
            // Kubernetes removes what a Manager leaves, and what there is of it now says when.
            State::Waiting("what the deleted Manager of this name has left to be removed".to_owned())
        } else {
            let workload = row.workload;
            let why = format!("{workload} {name} belongs to {kind} {owner}; rename the component, or remove the other");
            State::Refused(why)
        }
    } else if let Some(why) = own.unidentified(row, component) {
        State::Invalid(why)
    } else if is_set && nodes.is_empty() {
        State::Unplaced(unplaced(component, all))
    } else if let Some(why) = &own.gone {
        State::Unplaced(why.clone())
    } else if let Some(Unread::Wrong(why)) = unread {
        State::Invalid(format!("{}: {why}", component.name))
    } else if let Some(Unread::Lacks(what)) = unread.filter(|_| exists) {
        State::Waiting(what)
    } else if let Some(why) = resolved.rollout.hold(row, now).filter(|_| earlier + misplaced > 0) {
        State::Held(why)
    } else if earlier + misplaced > 0 {
        let budget = resolved.rollout.budget_of(row, placed);
        let at_once = if budget > 1 { format!("at most {budget}") } else { "one".to_owned() };
        State::Updating(if earlier > 0 {
            format!("{earlier} of its Pods run an earlier template, and are replaced {at_once} at a time")
        } else {
            format!("{misplaced} of its Pods run on other nodes than its own, and are replaced {at_once} at a time")
        })
    } else if !exists {
        State::Starting
    } else if next != Next::Stay {
        State::Growing(format!("it has {placed} of {wanted} servers; the next one joins once these serve"))
    } else if desired != placed {
        State::Outdated(resized(row, placed, desired))
    } else if is_whole {
        State::Serving
    } else {
        State::Starting
    };
    // What its Pods read, what identifies it says first.
    let is_drawn = may_be_written(&state) && !own.is_new(row) && !is_early;
    let part = Part {
        row: component.row,
        name: component.name.clone(),
        template: if is_drawn { hash } else { String::new() },
        strangers,
        version: component.version(row),
        state,
        ready,
        desired,
        placed,
        nodes: nodes.clone(),
        objects: if is_drawn { objects } else { Vec::new() },
        exists,
        trouble: servers.iter().find_map(|one| Some(format!("Pod {}: {}", one.name, one.trouble.as_ref()?))),
        overdue: servers.iter().find_map(|one| overdue(all, one, now)),
        unbound: servers.iter().find_map(|one| Some(unbound(row, &one.name, one.unbound.as_ref()?))),
        late: certified.late(table, component, earlier > 0, now),
        left: Vec::new(),
    };
    Drawn { part, is_settled: is_drawn && is_written && live.is_observed, next }
}

/// The revision of a component's newest Pods, once their controller has seen the workload as it is.
fn newest<'i>(all: &'i Inner, row: &Row, (namespace, name): (&str, &str)) -> Option<&'i str> {
    match row.workload {
        Workload::StatefulSet => all.stateful_sets.get(namespace, name).and_then(newest_revision),
        Workload::DaemonSet => all.daemon_sets.get(namespace, name).and_then(newest_generation),
    }
}

/// When a server that is not Ready should have been.
fn due(server: &Server) -> Option<DateTime<Utc>> {
    let waits = server.is_bound && server.trouble.is_none() && server.ready_since.is_none();
    Some(server.unready_since.filter(|_| waits)? + READY_WITHIN)
}

/// A server that should have been Ready before now, and what is known of it.
fn overdue(all: &Inner, server: &Server, now: DateTime<Utc>) -> Option<String> {
    let since = due(server).filter(|at| *at <= now)? - READY_WITHIN;
    let Server { name, node, .. } = server;
    let is_silent = all.nodes.get(node).is_some_and(|node| !node.ready);
    let silent = if is_silent { ", which is not Ready either" } else { "" };
    let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
    Some(format!(
        "Pod {name} has not been Ready since {since}: see kubectl describe pod {name}; it is on node {node}{silent}"
    ))
}

/// When the next server will be overdue.
fn overdue_at(facts: &Facts<'_>, parts: &[Part]) -> Option<DateTime<Utc>> {
    let Facts { table, resolved, all, now, .. } = *facts;
    let servers =
        parts.iter().flat_map(|part| all.servers(&resolved.namespace, &table.rows[part.row].kind, &part.name));
    servers.filter(|one| !one.is_ending).filter_map(due).filter(|at| *at > now).min()
}

fn may_be_written(state: &State) -> bool {
    !matches!(state, State::Invalid(_) | State::Refused(_) | State::Unplaced(_) | State::Waiting(_))
}

fn resized(row: &Row, placed: usize, desired: usize) -> String {
    if row.store.is_some() && desired < placed {
        return format!(
            "it has {placed} servers and the spec asks for {desired}: a store never shrinks; correct replicas"
        );
    }
    format!("the spec asks for {desired} servers and {placed} nodes match: label more nodes, or correct replicas")
}

/// Objects of ours that no entry of the spec has any more. What cannot be told stays.
fn surplus(table: &Table, resolved: &Resolved, all: &Inner) -> Vec<Surplus> {
    let mut wanted = BTreeSet::new();
    for component in &resolved.components {
        let row = &table.rows[component.row];
        wanted.insert(workload_name(row, &component.name));
        wanted.insert(companion_name(row, &component.name));
        wanted.insert(files_name(row, &component.name));
        wanted.insert(secret_name(row, &component.name));
        if row.certificates {
            wanted.insert(certificates_name(&component.name));
        }
    }
    let untold: BTreeSet<&str> = resolved.untold.iter().map(|row| &*table.rows[*row].kind).collect();
    let mut surplus = Vec::new();
    let is_surplus = |meta: &ObjectMeta| {
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let kind = meta.labels.as_ref().and_then(|labels| labels.get(&table.labels.kind));
        // Another table may have made what this one has no row for.
        let is_known = kind.is_none_or(|kind| table.rows.iter().any(|row| row.kind == *kind));
        owner.is_some_and(|owner| owner.uid == resolved.uid)
            && is_known
            && meta.namespace.as_ref() == Some(&resolved.namespace)
            && !meta.name.as_ref().is_some_and(|name| wanted.contains(name))
            && !kind.is_some_and(|kind| untold.contains(&**kind))
            && meta.deletion_timestamp.is_none()
    };
    gather("StatefulSet", &all.stateful_sets, &is_surplus, &mut surplus);
    gather("DaemonSet", &all.daemon_sets, &is_surplus, &mut surplus);
    gather("ConfigMap", &all.config_maps, &is_surplus, &mut surplus);
    gather("Secret", &all.secrets, &is_surplus, &mut surplus);
    gather("Service", &all.services, &is_surplus, &mut surplus);
    gather("PodDisruptionBudget", &all.budgets, &is_surplus, &mut surplus);
    surplus
}

fn gather<K: ResourceExt>(
    kind: &'static str,
    all: &Objects<K>,
    is_surplus: &impl Fn(&ObjectMeta) -> bool,
    surplus: &mut Vec<Surplus>,
) {
    let found = all.0.values().filter(|object| is_surplus(object.meta()));
    surplus.extend(found.map(|object| Surplus {
        kind,
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
    }));
}
