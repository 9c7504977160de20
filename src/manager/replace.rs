//! Which Pod is replaced now by one of the present template: the rules are `stack`'s.
//!
//! Pure. Must not delete it.

use chrono::{DateTime, TimeDelta, Utc};

use super::part::{Facts, Part, Replacement};
use crate::stack::table::Workload;
use crate::stack::turn::{self, Health};

/// A server must have been Ready for so long before the next one is replaced: a bad template shows by then.
pub const PROVES: TimeDelta = TimeDelta::seconds(10);

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
    // What does not exist is nobody's reason to wait.
    let existing: Vec<(&Part, bool)> =
        parts.iter().zip(are_written.iter().copied()).filter(|(part, _)| part.exists).collect();
    let (mut turns, mut servers) = (Vec::new(), Vec::new());
    for (part, is_written) in &existing {
        let row = &table.rows[part.row];
        let is_everywhere = row.workload == Workload::DaemonSet;
        let mut own = Vec::new();
        for one in all.servers(&resolved.namespace, &row.kind, &part.name) {
            let is_silent = all.nodes.get(&one.node).is_none_or(|node| !node.ready);
            servers.push(one);
            // One that crashes again and again is Ready in between.
            let is_proven = one.trouble.is_none() && one.ready_since.is_some_and(|at| at.min(now) + PROVES <= now);
            let health = if one.is_ending || deleted.contains(&one.uid) {
                Health::Ending
            } else if is_everywhere && is_silent {
                Health::Lost
            } else if is_proven {
                Health::Serves
            } else {
                Health::Away
            };
            let is_outdated = !part.template.is_empty() && one.template != part.template;
            own.push(turn::Server { name: &one.name, health, is_outdated });
        }
        let desired = part.desired;
        turns.push(turn::Component { servers: own, desired, is_everywhere, is_written: *is_written });
    }
    let Some((at, name)) = turn::next(&turns) else {
        let is_changed = turns.iter().flat_map(|one| &one.servers).any(|server| server.is_outdated);
        let proves = servers.iter().filter_map(|server| Some(server.ready_since?.min(now) + PROVES));
        let next = proves.filter(|at| is_changed && *at > now).min();
        return Turn { replacement: None, next, waits_for: turn::waits_for(&turns).map(str::to_owned) };
    };
    let part = existing[at].0;
    let server = servers.iter().find(|server| server.name == name);
    let replacement = server.map(|server| Replacement {
        of: (part.row, part.name.clone()),
        pod: server.name.clone(),
        uid: server.uid.clone(),
        version: server.version.clone(),
    });
    Turn { replacement, ..Turn::default() }
}
