//! Names in a scenario: of nodes, pools and OneAgents; what may have been meant where there is none.
//!
//! Must not let anything happen.

use std::collections::BTreeSet;

use crate::api::nearest::nearest;
use crate::oneagent::rehearsal::Act;
use crate::sim::{self, Script};

/// Whether everything that a timeline names is there at its time.
pub(super) fn check(script: &Script<Act>) -> Result<(), String> {
    let pools: Vec<&str> = script.pools.iter().map(|pool| pool.name.as_str()).collect();
    let mut joined: Vec<usize> = script.pools.iter().map(|pool| pool.count).collect();
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    for pool in &script.pools {
        nodes.extend((0..pool.count).map(|number| format!("{}-{number}", pool.name)));
    }
    let grows = |act: &Act| matches!(act, Act::World(sim::Act::Join(all)) if all.values().any(|count| *count > 0));
    if nodes.is_empty() && !script.timeline.iter().any(|entry| grows(&entry.act)) {
        return Err("pools: there is no node; name at least one pool with a count".to_owned());
    }
    let agents = agents(script);
    for (number, entry) in script.timeline.iter().enumerate() {
        let wrong =
            |what: &str, name: &str, near: String| format!("timeline[{number}].do: there is no {what} {name}{near}");
        if let Act::World(sim::Act::Join(all)) = &entry.act {
            for (pool, count) in all {
                let Some(at) = pools.iter().position(|name| name == pool) else {
                    return Err(wrong("pool", pool, nearest(pool, &pools)));
                };
                nodes.extend((joined[at]..joined[at] + count).map(|number| format!("{pool}-{number}")));
                joined[at] += count;
            }
        }
        if let Act::World(act) = &entry.act
            && let Some(name) = act.nodes().into_iter().find(|name| !nodes.contains(*name))
        {
            let names: Vec<&String> = nodes.iter().collect();
            return Err(wrong("node", name, nearest(name, &names)));
        }
        if let Some(name) = entry.act.agents().into_iter().find(|name| !agents.iter().any(|agent| agent == name)) {
            return Err(wrong("OneAgent", name, nearest(name, &agents)));
        }
    }
    Ok(())
}

/// The names of its OneAgents.
fn agents(script: &Script<Act>) -> Vec<String> {
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap_or("agent").to_owned();
    if script.objects.is_empty() { vec!["agent".to_owned()] } else { script.objects.iter().map(name).collect() }
}
