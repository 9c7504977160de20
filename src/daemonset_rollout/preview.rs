//! Preview of a DaemonSetRollout: what an edit of it, or of its DaemonSet, would do to the Pods; or what is still to
//! come without one.
//!
//! Pure. Must not decide anything itself, nor carry a plan out: `fleet::preview` does.

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::listed::Listed;
use super::memory::Memory;
use super::observe::Seen;
use super::places::WORDS;
use super::plan::plan;
use super::revision::{NEW, Revision};
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::fleet::preview::{self, Carried, Done, Nouns, Preview, Scene, foresee};
use crate::k8s::template::differences;
use crate::rollout::Words;

const NOUNS: Nouns =
    Nouns { kind: "DaemonSetRollout", one: "Pod", many: "Pods", unknown: "a revision that is not written yet" };

/// What would become of the Pods; `object` is the desired one. `before`: the template that its DaemonSet has, where the
/// lists have it as a user edited it.
pub fn preview(
    listed: &Listed,
    object: &DaemonSetRollout,
    before: Option<&PodTemplateSpec>,
    now: DateTime<Utc>,
) -> Result<Preview, String> {
    let seen = listed.seen(object, before.is_some(), None, now);
    let (seen, memory) = seen.map_err(|why| format!("its spec is invalid, so nothing would be done: {why}"))?;
    let nodes = seen.nodes.clone();
    let scene = Scene::of(&seen.pods, now);
    let (each, measured_on) = scene.usual;
    let mut known = Preview {
        seconds_each: each.num_seconds(),
        measured_on,
        first_cause: plan(&memory, &seen, now).hands_off.map(|(_, message)| message),
        ..Preview::of(NOUNS, (&seen.resolved.namespace, &seen.resolved.name), now)
    };
    let after = seen.set.as_ref().and_then(|set| set.spec.as_ref()).map(|spec| &spec.template);
    if let Some((before, after)) = before.zip(after) {
        known.differences = differences(before, after, &seen.resolved.ignore);
        known.notes.push(match (before == after, seen.revisions.known()) {
            (true, _) => "the file leaves the Pod template as it is".to_owned(),
            (_, Some(known)) if known.alike.len() > 1 && known.current.0 == NEW => {
                "it makes a new revision, which differs in nothing but what spec.ignore names".to_owned()
            }
            _ => "nodes that join after the deployment get the new revision at once".to_owned(),
        });
    }
    let live =
        |before: &PodTemplateSpec| listed.own(seen.set.as_deref()?).into_iter().find(|one| one.template == *before);
    let from = before.and_then(live).map(|one| Revision(one.hash));
    let is_edited = before.zip(after).is_some_and(|(before, after)| before != after);
    let mut world = World { scene, seen, memory, from, is_edited };
    foresee(&mut world, known, nodes.iter().map(AsRef::as_ref))
}

/// The cluster.
struct World {
    scene: Scene,
    seen: Seen,
    memory: Memory,
    /// What an edited template leads to.
    from: Option<Revision>,
    /// Whether no controller has seen the template yet.
    is_edited: bool,
}

impl preview::World for World {
    const WORDS: Words = WORDS;

    fn scene(&self) -> &Scene {
        &self.scene
    }

    fn pass(&mut self, until: DateTime<Utc>) {
        self.scene.pass(&mut self.seen.pods, until);
    }

    fn step(&mut self) -> Result<Done, String> {
        let plan = plan(&self.memory, &self.seen, self.scene.now);
        let current = self.seen.revisions.known().map(|known| known.current.clone());
        let from = self.from.as_ref().or(plan.memory.engine.last_good.as_ref()).or(current.as_ref());
        let is_edited = std::mem::take(&mut self.is_edited);
        let mut done = Done {
            from: from.map(said),
            to: current.as_ref().map(said),
            template_changes: is_edited,
            changed: is_edited,
            problems: plan.problems.into_iter().map(|(_, message)| message).collect(),
            ..Done::default()
        };
        if is_edited {
            let place = (self.seen.nodes.as_slice(), &self.seen.placement);
            self.scene.place(&mut self.seen.pods, place, current.as_ref(), &mut done);
        }
        let mut ledger = plan.ledger;
        let carried = Carried { guard: &plan.guard, steps: &plan.decision.steps, revision: current.as_ref() };
        self.scene.carry_out(&mut self.seen.pods, &mut ledger, &carried, &mut done);
        self.seen.ledger = ledger;
        self.memory = plan.memory;
        done.report = plan.decision.report;
        done.next = self.scene.next(&self.seen.resolved.policy.calendar, plan.next, done.changed);
        Ok(done)
    }
}

fn said(revision: &Revision) -> String {
    if revision.0 == NEW { "a new revision".to_owned() } else { revision.to_string() }
}
