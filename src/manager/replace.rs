//! Which Pod is replaced now by one of the present template: the rules are `stack`'s.
//!
//! Pure. Must not delete it.

use chrono::{DateTime, TimeDelta, Utc};

use super::blueprint::workload_name;
use super::live::newest_revision;
use super::part::{Facts, Part, Replacement, State};
use super::pods::Server;
use crate::k8s::node::Node;
use crate::stack::table::{Row, Workload};
use crate::stack::turn::{self, Form, Health};

/// A server must have been Ready for so long before the next one is replaced: a bad template shows by then.
pub const PROVES: TimeDelta = TimeDelta::seconds(10);

/// One of an earlier template that is not Ready for so long, on a node that is, will not be.
const COMES_WITHIN: TimeDelta = TimeDelta::minutes(5);

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Turn {
    pub replacement: Option<Replacement>,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
    /// A Pod for which it waits.
    pub waits_for: Option<String>,
}

/// Whose turn it is. `are_written`: whether new Pods of each component are as the spec has them.
#[must_use]
pub fn replacement(facts: &Facts<'_>, parts: &[Part], are_written: &[bool]) -> Turn {
    let Facts { table, resolved, all, deleted, now, .. } = *facts;
    if let Some(stranded) = stranded(facts, parts) {
        return Turn { replacement: Some(stranded), ..Turn::default() };
    }
    // What does not exist is no reason to wait.
    let existing: Vec<(&Part, bool)> =
        parts.iter().zip(are_written.iter().copied()).filter(|(part, _)| part.exists).collect();
    // A node that comes back gives its servers the whole time again.
    let comes_by = |server: &Server| {
        let since = server.unready_since?.max(all.nodes.get(&server.node)?.ready_since?);
        Some(since.min(now) + COMES_WITHIN)
    };
    let (mut turns, mut servers) = (Vec::new(), Vec::new());
    for (part, is_written) in &existing {
        let row = &table.rows[part.row];
        let is_everywhere = row.workload == Workload::DaemonSet;
        let mut own = Vec::new();
        for one in all.servers(&resolved.namespace, &row.kind, &part.name) {
            let is_silent = all.nodes.get(&one.node).is_none_or(|node| !node.ready);
            servers.push(one);
            let is_earlier = !part.is_current(one) || has_better_node(facts, (row, &part.nodes), one);
            let is_outdated = !part.template.is_empty() && is_earlier;
            // One that crashes again and again is Ready in between.
            let since = one.ready_since.filter(|_| one.trouble.is_none());
            let health = if one.is_ending || deleted.contains(&one.uid) {
                Health::Ending
            } else if is_everywhere && is_silent {
                Health::Lost
            } else {
                match since {
                    Some(at) if at.min(now) + PROVES <= now => Health::Serves,
                    Some(_) => Health::Proving,
                    None if one.trouble.is_some() => Health::Failing,
                    None if is_outdated && !is_silent && comes_by(one).is_some_and(|at| at <= now) => Health::Failing,
                    None => Health::Away,
                }
            };
            own.push(turn::Server { name: &one.name, health, is_outdated });
        }
        let desired = part.placed;
        let budget = resolved.rollout.budget_of(row, desired);
        let is_held = matches!(part.state, State::Held(_));
        let form = match row.workload {
            Workload::DaemonSet => Form::Everywhere,
            Workload::StatefulSet if row.store.is_some() => Form::Quorum,
            Workload::StatefulSet => Form::Apart,
        };
        let is_written = *is_written;
        turns.push(turn::Component { servers: own, desired, form, is_written, budget, is_held });
    }
    let Some((at, name)) = turn::next(&turns) else {
        let is_changed = turns.iter().flat_map(|one| &one.servers).any(|server| server.is_outdated);
        let proves = servers.iter().filter_map(|server| Some(server.ready_since?.min(now) + PROVES));
        let comes = servers.iter().filter_map(|server| comes_by(server));
        let next = proves.chain(comes).filter(|at| is_changed && *at > now).min();
        return Turn { replacement: None, next, waits_for: turn::waits_for(&turns).map(str::to_owned) };
    };
    let part = existing[at].0;
    let server = servers.iter().find(|server| server.name == name);
    Turn { replacement: server.map(|server| of(part, server)), ..Turn::default() }
}

/// Whether a server of a component that keeps nothing is on another node than those that were chosen, which other
/// components read, and one of these would take it.
#[must_use]
pub fn has_better_node(facts: &Facts<'_>, (row, nodes): (&Row, &[String]), server: &Server) -> bool {
    let is_free = row.workload == Workload::StatefulSet && row.store.is_none();
    if !is_free || !server.is_bound || nodes.contains(&server.node) {
        return false;
    }
    let Facts { resolved, all, .. } = *facts;
    let has_one = |node: &str| {
        all.servers(&resolved.namespace, &server.of.0, &server.of.1).any(|one| one.node == node && !one.is_ending)
    };
    let takes = |node: &Node| node.ready && node.busy.is_none() && !has_one(&node.name);
    nodes.iter().filter_map(|name| all.nodes.get(name)).any(takes)
}

/// A Pod on no node, made when its workload named other nodes: its successor may find one. It serves no one, so nothing
/// waits for it.
fn stranded(facts: &Facts<'_>, parts: &[Part]) -> Option<Replacement> {
    let Facts { table, resolved, all, deleted, .. } = *facts;
    parts.iter().find_map(|part| {
        let row = &table.rows[part.row];
        let set = all.stateful_sets.get(&resolved.namespace, &workload_name(row, &part.name))?;
        let newest = newest_revision(set).filter(|_| !part.template.is_empty())?;
        let mut servers = all.servers(&resolved.namespace, &row.kind, &part.name);
        let is_stranded =
            |one: &&Server| !one.is_bound && !one.is_ending && !deleted.contains(&one.uid) && one.revision != newest;
        servers.find(is_stranded).map(|server| of(part, server))
    })
}

fn of(part: &Part, server: &Server) -> Replacement {
    Replacement { of: (part.row, part.name.clone()), pod: server.name.clone(), uid: server.uid.clone() }
}
