//! Plan: how each component stands, what of it may be written, and what is not wanted any more.
//!
//! Pure: what is known comes in. Must not write anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::fleet::{Inner, Objects};
use super::live::{Live, daemon_set, stateful_set};
use super::objects::{Blueprint, companion_name, files_name, template_of, workload_name};
use super::part::{Facts, Part, Plan, State, Surplus};
use super::pods::Server;
use super::replace::{PROVES, Turn, replacement};
use super::resolve::{Component, Resolved};
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::node::Node;
use crate::stack::files::{Context, Files, render};
use crate::stack::order::{Standing, left_without, waits_for};
use crate::stack::size;
use crate::stack::table::{Row, Table, Workload};

/// Plans one reconcile.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let Facts { table, resolved, all, .. } = *facts;
    // All addresses are known before a Pod is.
    let found: Vec<Found> = resolved.components.iter().map(|one| found(facts, one)).collect();
    let each = resolved.components.iter().zip(&found);
    let (mut parts, turns): (Vec<Part>, Vec<bool>) =
        each.map(|(one, found_one)| part(facts, one, found_one, &found)).unzip();
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
                component.is_some_and(|one| one.reference(table, kind).is_none_or(|name| name == lost.name))
            };
            let left = left_without(table, *standing, &standings, needs);
            part.left = left.into_iter().map(str::to_owned).collect();
        }
    }
    let Turn { replacement, next, waits_for } = replacement(facts, &parts, &turns);
    for part in &mut parts {
        if let (State::Updating(why), Some(pod)) = (&mut part.state, &waits_for) {
            let _ = write!(why, "; the next one goes once Pod {pod} has been Ready for {} s", PROVES.num_seconds());
        }
    }
    Plan { surplus: surplus(table, resolved, all), parts, replacement, next }
}

/// What there is of a component, and where it is.
struct Found {
    exists: bool,
    live: Live,
    /// The nodes of its servers; of one that runs on each node, none.
    nodes: Vec<String>,
    /// Where its servers are, or will be; or a node that has no address.
    addresses: Result<Vec<String>, String>,
}

fn found(facts: &Facts<'_>, component: &Component) -> Found {
    let Facts { table, resolved, all, .. } = *facts;
    let row = &table.rows[component.row];
    let (namespace, name) = (&*resolved.namespace, workload_name(row, &component.name));
    let live = match row.workload {
        Workload::StatefulSet => all.stateful_sets.get(namespace, &name).map(|set| stateful_set(set, &resolved.uid)),
        Workload::DaemonSet => all.daemon_sets.get(namespace, &name).map(|set| daemon_set(set, &resolved.uid)),
    };
    let exists = live.is_some();
    let live = live.unwrap_or_default();
    let nodes = nodes(row, component, &live, all);
    let of_each = all.nodes.values().filter(|node| matches(component, node)).map(|node| &*node.name);
    let all_nodes: Vec<&str> = match row.workload {
        Workload::StatefulSet => nodes.iter().map(|node| &**node).collect(),
        Workload::DaemonSet => of_each.collect(),
    };
    let address = |name: &&str| {
        let address = all.nodes.get(*name).and_then(|node| node.ip);
        address.map(|address| address.to_string()).ok_or_else(|| {
            format!("node {name}, where a server is, is gone or has no InternalIP in its status; nothing is changed")
        })
    };
    let addresses = all_nodes.iter().map(address).collect();
    Found { exists, live, nodes, addresses }
}

/// What a component's programs read; or why that cannot be told.
fn files(facts: &Facts<'_>, component: &Component, own: &Found, found: &[Found]) -> Result<Files, String> {
    let Facts { table, resolved, templates, .. } = *facts;
    let row = &table.rows[component.row];
    if row.files.is_empty() {
        return Ok(Files::default());
    }
    let mut all = row.files.clone();
    if let Some(replaced) = templates.get(&(component.row, component.name.clone())) {
        all.extend(replaced.clone()?);
    }
    let mut servers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (other, found) in resolved.components.iter().zip(found) {
        let kind = &*table.rows[other.row].kind;
        let is_meant = if other.row == component.row {
            other.name == component.name
        } else {
            component.reference(table, kind).is_none_or(|name| name == other.name)
        };
        if is_meant {
            servers.entry(kind).or_default().extend(found.addresses.clone()?);
        }
    }
    let context = Context::new(&component.name, &component.fields, servers);
    render(&all, &context, &own.addresses.clone()?)
}

/// A component as it stands, with what of it may be written; and whether its new Pods are as the spec has them.
fn part(facts: &Facts<'_>, component: &Component, own: &Found, found: &[Found]) -> (Part, bool) {
    let Facts { table, resolved, all, .. } = *facts;
    let row = &table.rows[component.row];
    let (namespace, name) = (&*resolved.namespace, workload_name(row, &component.name));
    let Found { exists, live, nodes, .. } = own;
    let exists = *exists;
    let (files, unread) = match files(facts, component, own, found) {
        Ok(files) => (files, None),
        Err(why) => (Files::default(), Some(why)),
    };
    let blueprint = Blueprint { table, manager: resolved, component, nodes, files: &files };
    let objects = blueprint.objects();
    let workload = objects.last().unwrap_or(&Value::Null);
    let hash = template_of(workload);
    let servers: Vec<&Server> =
        all.servers(namespace, &row.kind, &component.name).filter(|one| !one.is_ending).collect();
    let ready = servers.iter().filter(|one| one.ready_since.is_some()).count();
    let current = servers.iter().filter(|one| one.ready_since.is_some() && one.template == hash).count();
    let earlier = servers.iter().filter(|one| one.template != hash).count();
    let is_set = row.workload == Workload::StatefulSet;
    let desired = if is_set { component.replicas.unwrap_or(nodes.len()) } else { live.desired };
    let is_written = workload["metadata"]["annotations"][APPLIED_ANNOTATION] == *live.applied;
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
    } else if is_set && nodes.is_empty() {
        State::Unplaced(unplaced(component, all))
    } else if let Some(why) = own.addresses.as_ref().err() {
        State::Unplaced(why.clone())
    } else if let Some(why) = unread {
        State::Invalid(format!("{}: {why}", component.name))
    } else if is_set && nodes.len() != desired {
        State::Outdated(resized(row, nodes, desired))
    } else if earlier > 0 {
        State::Updating(format!("{earlier} of its Pods run an earlier template, and are replaced one at a time"))
    } else if exists && is_written && live.is_observed && current == desired && (desired > 0 || !is_set) {
        State::Serving
    } else {
        State::Starting
    };
    let may_be_written =
        !matches!(state, State::Invalid(_) | State::Refused(_) | State::Unplaced(_) | State::Waiting(_));
    let part = Part {
        row: component.row,
        name: component.name.clone(),
        template: if may_be_written { hash } else { String::new() },
        version: component.version(row),
        state,
        ready,
        desired,
        objects: if may_be_written { objects } else { Vec::new() },
        exists,
        trouble: servers.iter().find_map(|one| Some(format!("Pod {}: {}", one.name, one.trouble.as_ref()?))),
        unbound: servers.iter().find_map(|one| Some(format!("Pod {}: {}", one.name, one.unbound.as_ref()?))),
        left: Vec::new(),
    };
    (part, may_be_written && is_written && live.is_observed)
}

/// The nodes of a component's servers.
fn nodes(row: &Row, component: &Component, live: &Live, all: &Inner) -> Vec<String> {
    if row.workload == Workload::DaemonSet {
        return Vec::new();
    }
    let open: Vec<String> = all
        .nodes
        .values()
        .filter(|node| matches(component, node))
        .filter(|node| node.busy.is_none())
        .map(|node| node.name.to_string())
        .collect();
    let exists = |name: &str| all.nodes.get(name).is_some_and(|node| matches(component, node));
    size::nodes(&live.nodes, (&open, exists), component.replicas, row.store.is_some())
}

/// Whether a component may run on a node, as far as its labels go.
fn matches(component: &Component, node: &Node) -> bool {
    component.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

fn unplaced(component: &Component, all: &Inner) -> String {
    let selector: Vec<String> = component.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let selector = selector.join(",");
    match all.nodes.values().filter(|node| matches(component, node)).count() {
        0 => format!(
            "no node has label {selector}; label nodes (kubectl label node NODE {selector}), or correct nodeSelector"
        ),
        count => format!("all {count} nodes with label {selector} are cordoned or being removed"),
    }
}

fn resized(row: &Row, nodes: &[String], desired: usize) -> String {
    if row.store.is_some() {
        let what = if desired < nodes.len() { "never shrinks" } else { "does not grow yet" };
        return format!(
            "it has {} servers and the spec asks for {desired}: a store {what}; correct replicas",
            nodes.len()
        );
    }
    format!(
        "the spec asks for {desired} servers and {} nodes match: label more nodes, or correct replicas",
        nodes.len()
    )
}

/// Objects of ours that no entry of the spec has any more. What cannot be told stays.
fn surplus(table: &Table, resolved: &Resolved, all: &Inner) -> Vec<Surplus> {
    let mut wanted = BTreeSet::new();
    for component in &resolved.components {
        let row = &table.rows[component.row];
        wanted.insert(workload_name(row, &component.name));
        wanted.insert(companion_name(row, &component.name));
        wanted.insert(files_name(row, &component.name));
    }
    let untold: BTreeSet<&str> = resolved.untold.iter().map(|row| &*table.rows[*row].kind).collect();
    let mut surplus = Vec::new();
    let is_surplus = |meta: &ObjectMeta| {
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let kind = meta.labels.as_ref().and_then(|labels| labels.get(&table.labels.kind));
        owner.is_some_and(|owner| owner.uid == resolved.uid)
            && meta.namespace.as_ref() == Some(&resolved.namespace)
            && !meta.name.as_ref().is_some_and(|name| wanted.contains(name))
            && !kind.is_some_and(|kind| untold.contains(&**kind))
            && meta.deletion_timestamp.is_none()
    };
    gather("StatefulSet", &all.stateful_sets, &is_surplus, &mut surplus);
    gather("DaemonSet", &all.daemon_sets, &is_surplus, &mut surplus);
    gather("ConfigMap", &all.config_maps, &is_surplus, &mut surplus);
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
