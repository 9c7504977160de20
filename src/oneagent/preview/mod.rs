//! Preview of a OneAgent: what an edit would do to its agents, or what is still to come without one.
//!
//! Pure. What only the operator knows (which versions there are, which agents updated themselves) is taken from the
//! status. Must not decide anything itself, nor carry a plan out: the kind's world does, by `fleet::preview`.

mod cause;
mod seen;
mod world;

use chrono::{DateTime, Utc};

use super::listed::Cluster;
use crate::api::oneagent::OneAgent;
use crate::fleet::preview::{Nouns, Preview, foresee};
pub use seen::Surroundings;
pub(super) use seen::observed;
use world::World;
pub(super) use world::applied;

const NOUNS: Nouns =
    Nouns { kind: "OneAgent", one: "agent", many: "agents", unknown: "a version that is not known yet" };

/// What would become of the agents of a OneAgent. `agent` is the desired one; the cluster has it as it is, if it is
/// there.
pub fn preview(
    cluster: &Cluster,
    agent: &OneAgent,
    around: &Surroundings,
    now: DateTime<Utc>,
) -> Result<Preview, String> {
    let nodes = cluster.fleet.nodes();
    let resolved = cluster.resolved(agent, &nodes);
    let resolved = resolved.map_err(|why| format!("its spec is invalid, so nothing would be done: {why}"))?;
    let mut world = World::of(cluster, agent, resolved, around, now);
    if let Some(why) = world.is_unknown(agent) {
        return Err(why);
    }
    let (each, measured_on) = world.scene.usual;
    let differences = world.changes()?;
    let known = Preview {
        seconds_each: each.num_seconds(),
        measured_on,
        differences,
        first_cause: cause::first_cause(agent, world.resolved.versions.is_none()),
        notes: world.notes(agent),
        ..Preview::of(NOUNS, (&world.resolved.namespace, &world.resolved.name), now)
    };
    foresee(&mut world, known, nodes.iter().map(AsRef::as_ref))
}
