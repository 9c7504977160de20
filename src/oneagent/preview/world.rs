//! A cluster in memory, in which the operator's plan of a OneAgent is carried out.
//!
//! Must not touch a real cluster, nor judge a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;

use super::super::MANAGER;
use super::super::listed::Cluster;
use super::super::memory::{self, Memory};
use super::super::observe::{Observed, in_its_place};
use super::super::places::WORDS;
use super::super::plan::{changes, plan, template_revision};
use super::super::resolve::{Resolved, Wish};
use super::seen::{Surroundings, observed};
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Hosts, Snapshot, TokenState};
use crate::fleet::preview::{self, Carried, Done, Scene};
use crate::rollout::Words;

/// The cluster.
pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) seen: Observed,
    pub(super) resolved: Resolved,
    memory: Memory,
    image: String,
}

impl World {
    pub(super) fn of(
        cluster: &Cluster,
        agent: &OneAgent,
        resolved: Resolved,
        around: &Surroundings,
        now: DateTime<Utc>,
    ) -> Self {
        let status = agent.status.clone().unwrap_or_default();
        let seen = observed(&cluster.fleet, &resolved, &status, around, now);
        let containers = seen.daemonset.as_ref().and_then(|live| live.spec.as_ref()?.template.spec.as_ref());
        let image = containers.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
        let memory = memory::read(&status);
        let mut world = Self { scene: Scene::of(&seen.pods, now), seen, resolved, memory, image };
        let (environment, unlisted) = match &world.resolved.versions {
            Some(list) => in_its_place(around.list.clone(), &world.resolved, list),
            None => (Some(Ok(Arc::new(environment(&world, &status)))), None),
        };
        (world.seen.environment, world.seen.unlisted) = (environment, unlisted);
        world
    }

    /// How the Pod template that the spec asks for differs from that of the DaemonSet.
    pub(super) fn changes(&self) -> Result<Vec<String>, String> {
        changes(&self.resolved, &self.seen, &self.image).map_err(failed)
    }

    /// Why only the environment can say which version is wanted.
    pub(super) fn is_unknown(&self, agent: &OneAgent) -> Option<String> {
        let status = agent.status.as_ref().filter(|_| self.resolved.versions.is_none())?;
        let field = match (self.resolved.wish, status.version_source.as_deref()) {
            (Wish::Newest, _) if self.resolved.frozen => return None,
            (Wish::Newest, Some("Api")) => return None,
            (Wish::Newest, Some("ConfigMap")) => "spec.update.source",
            (Wish::Newest, _) => "spec.update.version",
            (Wish::AgentVersion(wish), _) => {
                let desired: Option<Version> = status.desired_version.as_ref().and_then(|version| version.parse().ok());
                if desired.is_some_and(|desired| wish.admits(&desired)) {
                    return None;
                }
                "spec.agentVersion"
            }
            _ => return None,
        };
        Some(format!(
            "which version it gets without the present {field} only its environment knows: to see what a version would \
            do, name it in spec.update.version"
        ))
    }

    /// What the answer rests on that may not be so.
    pub(super) fn notes(&self, agent: &OneAgent) -> Vec<String> {
        let mut notes = self.resolved.warnings.clone();
        notes.extend(self.resolved.conflicts.iter().map(ToString::to_string));
        let status = agent.status.clone().unwrap_or_default();
        if status.instances_truncated == Some(true) {
            notes.push(
                "which agents updated themselves the status tells of 200 nodes only; of the others what their Pods \
                were made from counts"
                    .to_owned(),
            );
        }
        if let Wish::Pin { version, .. } = self.resolved.wish
            && self.resolved.versions.is_none()
            && !is_known(&status, version)
        {
            notes.push(format!(
                "a plan does not ask the environment whether it offers {version}: if it does not, no agent is \
                replaced, and condition Degraded names the versions that it offers"
            ));
        }
        notes
    }
}

impl preview::World for World {
    const WORDS: Words = WORDS;

    fn scene(&self) -> &Scene {
        &self.scene
    }

    fn pass(&mut self, until: DateTime<Utc>) {
        self.scene.pass(&mut self.seen.pods, until);
        if let Some(Ok(environment)) = &mut self.seen.environment {
            let environment = Arc::make_mut(environment);
            environment.answered_at = environment.answered_at.map(|_| until);
            environment.hosts_at = environment.hosts_at.map(|_| until);
        }
    }

    fn step(&mut self) -> Result<Done, String> {
        let now = self.scene.now;
        let plan = plan(&self.memory, &self.resolved, &self.seen, &self.image, now).map_err(failed)?;
        let decision = plan.assessment.decision;
        let template = |seen: &Observed| seen.daemonset.as_deref().and_then(template_revision);
        let before = template(&self.seen);
        let mut done = Done {
            from: before.as_ref().and_then(|revision| revision.version).map(|version| version.to_string()),
            to: plan.assessment.choice.version.map(|version| version.to_string()),
            problems: plan.assessment.problems.into_iter().map(|(_, message)| message).collect(),
            report: decision.plan.report,
            ..Done::default()
        };
        if let Some(wanted) = plan.objects.daemonset {
            self.seen.daemonset = Some(Arc::new(applied(wanted).map_err(failed)?));
            let after = template(&self.seen);
            done.template_changes =
                before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.hash != after.hash);
            let place = (self.seen.nodes.as_slice(), &self.resolved.placement);
            self.scene.place(&mut self.seen.pods, place, after.as_ref(), &mut done);
        }
        self.memory = decision.memory;
        let after = template(&self.seen);
        let carried = Carried { guard: &plan.guard, steps: &plan.steps, revision: after.as_ref() };
        let mut ledger = plan.ledger;
        self.scene.carry_out(&mut self.seen.pods, &mut ledger, &carried, &mut done);
        self.seen.ledger = ledger;
        done.changed = before != after;
        done.next = self.scene.next(&self.resolved.policy.calendar, decision.plan.next, done.changed);
        Ok(done)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err hands it")]
fn failed(error: serde_json::Error) -> String {
    format!("the Pod template cannot be made: {error}")
}

/// The environment, as far as the status tells.
fn environment(world: &World, status: &OneAgentStatus) -> Snapshot {
    let desired: Option<Version> = status.desired_version.as_ref().and_then(|version| version.parse().ok());
    let is_away = status
        .conditions
        .iter()
        .any(|condition| condition.status == "True" && condition.reason == Reason::EnvironmentUnreachable.to_string());
    let mut hosts = Hosts::of_zones(&[zone_key(world.resolved.network_zone.as_deref())].into());
    for instance in status.instances.values() {
        let reported = instance.version.as_ref().and_then(|version| version.parse().ok());
        if let (Some(ip), Some(version)) = (instance.ip_address.as_ref().and_then(|ip| ip.parse().ok()), reported) {
            hosts.add(world.resolved.network_zone.as_deref(), ip, version);
        }
    }
    // A spec that wants a certain one, or one of a series, is told what the operator knows of it.
    let known = desired.into_iter().chain(world.memory.rollout.last_good.iter().filter_map(|good| good.version));
    let known = known.chain(world.seen.pods.iter().filter_map(|pod| pod.revision.as_ref()?.version));
    let offered: Option<BTreeSet<Version>> = match world.resolved.wish {
        Wish::Pin { version, .. } if is_unoffered(status, version) => Some(known.collect()),
        Wish::Pin { version, .. } => Some(known.chain([version]).collect()),
        Wish::AgentVersion(wish) => Some(known.filter(|version| wish.admits(version)).collect()),
        _ => None,
    };
    Snapshot {
        latest: desired,
        away: is_away,
        answered_at: Some(world.scene.now),
        paas: TokenState::Ready,
        api: TokenState::Ready,
        hosts: Some(Arc::new(hosts)),
        hosts_at: Some(world.scene.now),
        offered: offered.map(|offered| Arc::new(offered.into_iter().rev().collect())),
        ..Snapshot::default()
    }
}

/// Whether the status has a version as one that there was.
fn is_known(status: &OneAgentStatus, version: Version) -> bool {
    let ran = status.instances.values().map(|instance| &instance.version);
    let named = [&status.desired_version, &status.last_good_version].into_iter().chain(ran).flatten();
    named.chain(&status.rejected_versions).any(|known| known.parse() == Ok(version))
}

/// Whether the status says that the environment does not offer a version.
fn is_unoffered(status: &OneAgentStatus, version: Version) -> bool {
    let reason = Reason::VersionNotOffered.to_string();
    let mut said = status.conditions.iter().filter(|condition| condition.reason == reason);
    said.any(|condition| condition.message.contains(&format!("spec.update.version is {version},")))
}

/// A DaemonSet as it is after our write, once its controller has seen it.
pub(in super::super) fn applied(wanted: serde_json::Value) -> Result<DaemonSet, serde_json::Error> {
    let mut live: DaemonSet = serde_json::from_value(wanted)?;
    live.metadata.generation = Some(1);
    live.status = Some(DaemonSetStatus { observed_generation: Some(1), ..DaemonSetStatus::default() });
    live.managed_fields_mut().push(ManagedFieldsEntry {
        manager: Some(MANAGER.to_owned()),
        operation: Some("Apply".to_owned()),
        ..ManagedFieldsEntry::default()
    });
    Ok(live)
}
